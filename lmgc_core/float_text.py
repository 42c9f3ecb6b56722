"""The shortest decimal text of a float, for every float format, in exact integer arithmetic.

Inverse pair: `float_to_text` / `text_to_float`. Law: every bit pattern comes back, NaN payloads and
-0.0 included. The digits are the fewest that read back to the same bits (nearest value, ties to
even) and among those the closest to the value; the notation is that of Python's `repr`, which for
float64 gives the same text. Source: Steele and White, "How to print floating-point numbers
accurately" (1990), free-format algorithm.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import CorruptContainer
from lmgc_core.gradient import DType, Words

CHARACTERS = frozenset("0123456789-+.:einfabcd")
MAX_CHARACTERS = 32
_DECIMAL = re.compile(r"(-?)(?:([0-9]+)\.([0-9]+)|([0-9])(?:\.([0-9]+))?e([+-][0-9]{2,3}))", re.ASCII)
_NAN = re.compile(r"nan:([0-9a-f]+)", re.ASCII)


def is_finite(words: Words, dtype: DType) -> npt.NDArray[np.bool_]:
    """Which of the words, shape (n,), are finite floats. Source: IEEE 754; OCP 8-bit formats for float8.

    >>> from lmgc_core.gradient import DTYPES
    >>> is_finite(np.float32([1.0, np.inf]).view("<u4"), DTYPES["float32"]).tolist()
    [True, False]
    """
    if dtype.name.endswith("fnuz"):
        return np.asarray(words != 0x80)
    magnitude = words & dtype.word.type((1 << (dtype.bits - dtype.sign_bits)) - 1)
    return np.asarray(magnitude < dtype.word.type(_first_not_finite(dtype)))


def _first_not_finite(dtype: DType) -> int:
    """The least magnitude, as a word without its sign, that is an infinity or NaN."""
    if dtype.name in ("float8_e4m3fn", "float8_e8m0fnu"):
        return (1 << (dtype.bits - dtype.sign_bits)) - 1
    return ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits


def _bias(dtype: DType) -> int:
    half = 1 << (dtype.exponent_bits - 1)
    return half if dtype.name.endswith("fnuz") else half - 1


def _shortest(significand: int, power: int, narrow_below: bool) -> tuple[int, int]:
    """Digits c and exponent k of the shortest c·10^k that rounds to significand·2^power.

    `narrow_below`: the next smaller float is half as far away as the next larger one.
    """
    value, low, high = 4 * significand, 4 * significand - (1 if narrow_below else 2), 4 * significand + 2
    shift = power - 2
    scale, unit = (1 << shift, 1) if shift >= 0 else (1, 1 << -shift)
    value, low, high = value * scale, low * scale, high * scale
    ties_are_ours = significand % 2 == 0
    k = int((high.bit_length() - unit.bit_length() + 1) * 0.302) + 1  # not below floor(log10(high / unit))
    while True:
        up, down = (10**-k, unit) if k < 0 else (1, unit * 10**k)
        if ties_are_ours:
            first, last = -(-low * up // down), high * up // down
        else:
            first, last = low * up // down + 1, (high * up - 1) // down
        if first <= last:
            nearest, left = divmod(value * up, down)
            nearest += 2 * left > down or (2 * left == down and nearest % 2 == 1)
            return min(max(nearest, first), last), k
        k -= 1


def float_to_text(word: int, dtype: DType) -> str:
    """The text of one float given as its word; NaNs keep their bits as `nan:` and hex digits.

    >>> from lmgc_core.gradient import DTYPES
    >>> float_to_text(0x3DCCCCCD, DTYPES["float32"]), float_to_text(0x7FC00001, DTYPES["float32"])
    ('0.1', 'nan:7fc00001')
    """
    mantissa_bits, exponent_mask = dtype.mantissa_bits, (1 << dtype.exponent_bits) - 1
    mantissa = word & ((1 << mantissa_bits) - 1)
    field = (word >> mantissa_bits) & exponent_mask
    magnitude = word & ((1 << (dtype.bits - dtype.sign_bits)) - 1)
    sign = "" if magnitude == word else "-"
    finite = word != 0x80 if dtype.name.endswith("fnuz") else magnitude < _first_not_finite(dtype)
    if not finite:
        infinite = mantissa == 0 and mantissa_bits > 0 and magnitude > 0
        return f"{sign}inf" if infinite else f"nan:{word:0{dtype.bits // 4}x}"
    power = max(field, 1) - _bias(dtype) - mantissa_bits
    if mantissa_bits == 0:
        significand, power = 1, field - _bias(dtype)  # powers of two alone: no zero, no denormals
    else:
        significand = mantissa + ((1 << mantissa_bits) if field else 0)
    if significand == 0:
        return f"{sign}0.0"
    number, k = _shortest(significand, power, mantissa == 0 and (field > 1 or mantissa_bits == 0))
    digits = str(number)
    point = len(digits) + k
    if not -4 < point <= 16:
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{tail}e{point - 1:+03d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return f"{sign}{digits}{'0' * (point - len(digits))}.0"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def text_to_float(text: str, dtype: DType) -> int:
    """The word of a text that `float_to_text` made: its inverse.

    Raises:
        CorruptContainer: for any other text, also one that is merely not the shortest.

    >>> from lmgc_core.gradient import DTYPES
    >>> hex(text_to_float("0.1", DTYPES["float32"]))
    '0x3dcccccd'
    """
    word = _nearest_word(text, dtype) if len(text) <= MAX_CHARACTERS else None
    if word is None or word >> dtype.bits or float_to_text(word, dtype) != text:
        raise CorruptContainer(f"{text[:MAX_CHARACTERS]!r} is not how a {dtype.name} is spelled; the text is damaged")
    return word


def _nearest_word(text: str, dtype: DType) -> int | None:
    mantissa_bits, exponent_mask = dtype.mantissa_bits, (1 << dtype.exponent_bits) - 1
    if payload := _NAN.fullmatch(text):
        return int(payload[1], 16)
    negative = text.startswith("-")
    sign = 1 << (dtype.bits - 1) if negative else 0
    if text.removeprefix("-") == "inf":
        return sign | exponent_mask << mantissa_bits
    parts: Any = _DECIMAL.fullmatch(text)
    if parts is None:
        return None
    whole, fraction = (parts[2], parts[3]) if parts[2] is not None else (parts[4], parts[5] or "")
    number, tens = int(whole + fraction), int(parts[6] or 0) - len(fraction)
    if number == 0:
        return sign
    above, below = (number * 10**tens, 1) if tens >= 0 else (number, 10**-tens)
    power = above.bit_length() - below.bit_length()  # floor(log2) or one more
    if (above << -power if power < 0 else above) < (below << power if power > 0 else below):
        power -= 1
    lowest = (0 if mantissa_bits == 0 else 1) - _bias(dtype)
    unit = max(power, lowest) - mantissa_bits
    above, below = (above << -unit, below) if unit < 0 else (above, below << unit)
    significand, left = divmod(above, below)
    significand += 2 * left > below or (2 * left == below and significand % 2 == 1)
    # A significand that rounds up to the next power of two carries into the exponent field by itself.
    field_base = max(power, lowest) + _bias(dtype) - (0 if mantissa_bits == 0 else 1)
    word = (field_base << mantissa_bits) + significand - (1 if mantissa_bits == 0 else 0)
    return sign | word if 0 <= word < 1 << (dtype.bits - (1 if dtype.sign_bits else 0)) else None
