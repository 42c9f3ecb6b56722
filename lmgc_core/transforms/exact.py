"""Words of any float type ↔ float64, exactly one way and rounded to nearest even the other.

Inverse pair: `to_float64` / `from_float64`. Law: `from_float64(to_float64(w, d), d)` equals w for every
word that is not a NaN (NaNs stay NaNs). Denormals are assembled from their integer fields, so that a
process that flushes denormals to zero arrives at the same words. Source: IEEE 754; OCP 8-bit floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.gradient import DType, Words

Float64s = npt.NDArray[np.float64]


def least_exponent(dtype: DType) -> int:
    """The exponent of the smallest normal number.

    >>> from lmgc_core.gradient import DTYPES
    >>> least_exponent(DTYPES["float32"]), least_exponent(DTYPES["float8_e4m3fn"])
    (-126, -6)
    """
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    return 1 - bias - dtype.name.endswith("fnuz")


def largest_finite(dtype: DType) -> float:
    """The largest finite value.

    >>> from lmgc_core.gradient import DTYPES
    >>> largest_finite(DTYPES["float16"]), largest_finite(DTYPES["float8_e4m3fn"])
    (65504.0, 448.0)
    """
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]


def magnitude_words(words: Words, dtype: DType) -> Words:
    """The words without their sign bit: ordered like the magnitudes, zeros first."""
    return words & words.dtype.type((1 << (dtype.bits - 1)) - 1)


def to_float64(words: Words, dtype: DType) -> Float64s:
    """The values as float64, shape (n,); exact. A NaN stays a NaN, its payload is not kept.

    Args:
        words: shape (n,), unsigned integers of the dtype's width.
        dtype: a float type with sign.
    """
    with np.errstate(invalid="ignore"):
        values: Float64s = np.array(words.view(dtype.numpy), dtype=np.float64)
    if dtype.bits < 64:
        magnitudes = magnitude_words(words, dtype)
        small = (magnitudes != 0) & (magnitudes < magnitudes.dtype.type(1 << dtype.mantissa_bits))
        if small.any():
            exact = magnitudes[small] * 2.0 ** (least_exponent(dtype) - dtype.mantissa_bits)
            values[small] = np.where(words[small] != magnitudes[small], -exact, exact)
    return values


def from_float64(values: Float64s, dtype: DType) -> Words:
    """The nearest words of that type, ties to the even mantissa, shape (n,).

    A finite value past the largest finite one becomes an infinity, or a NaN where the type has no
    infinities (float8_e4m3fn, the fnuz types). Rounded once, never through a third type.

    >>> from lmgc_core.gradient import DTYPES
    >>> words = from_float64(np.array([65519.0, 65520.0, 2.9e-8]), DTYPES["float16"])
    >>> words.view(np.float16).tolist()
    [65504.0, inf, 0.0]
    """
    if dtype.bits == 64:
        return np.ascontiguousarray(values, dtype="<f8").view(dtype.word)
    least = least_exponent(dtype)
    with np.errstate(all="ignore"):
        exponents = np.maximum(np.frexp(values)[1] - 1, least)
        quantum = np.ldexp(1.0, exponents - dtype.mantissa_bits)
        rounded = np.where(np.isfinite(values), np.rint(values / quantum) * quantum, values)
        over = np.abs(rounded) > largest_finite(dtype)
        rounded[over] = np.copysign(np.inf, rounded[over])
        words: Words = rounded.astype(dtype.numpy).view(dtype.word)
    small = (np.abs(rounded) < 2.0**least) & (rounded != 0)
    if small.any():
        magnitudes = (np.abs(rounded[small]) / 2.0 ** (least - dtype.mantissa_bits)).astype(dtype.word)
        signs = np.signbit(rounded[small]).astype(dtype.word) << dtype.word.type(dtype.bits - 1)
        words[small] = magnitudes | signs
    return words


def is_finite(words: Words, dtype: DType) -> npt.NDArray[np.bool_]:
    """Which values are neither NaN nor infinite, shape (n,)."""
    with np.errstate(invalid="ignore"):
        finite: npt.NDArray[Any] = np.isfinite(words.view(dtype.numpy))
    return finite.astype(np.bool_)


def is_nan(words: Words, dtype: DType) -> npt.NDArray[np.bool_]:
    """Which values are NaN, shape (n,)."""
    with np.errstate(invalid="ignore"):
        nan: npt.NDArray[Any] = np.isnan(words.view(dtype.numpy))
    return nan.astype(np.bool_)
