"""Layout: which bits of a value are symbols, and which are the remainder.

A layout is an ordered list of bit fields of the value's word; every field is one symbol. The bits
that no field covers are the remainder, packed from the most significant down, so that every layout
has the same `split` and `join` and none is a special case.

Inverse pair: `Layout.split` / `Layout.join`. Law: `join(symbols, remainder)` of what `split` gave
equals the words. Source of `all`: LM-GC section 3.2 (bytes); of the fields: IEEE 754.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import DType, Words, exponent_field
from lmgc_core.settings import Serialization

Symbols = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class BitField:
    """Bits `shift` to `shift + width - 1` of a word, the least significant being bit 0."""

    shift: int
    width: int

    def take(self, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """The field of each word, shape as `words`."""
        return (words >> np.uint64(self.shift)) & np.uint64((1 << self.width) - 1)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the words of one dtype fall into symbols and remainder.

    Attributes:
        dtype: whose words are split.
        fields: one symbol each, in the order in which they are written; all of the same width.
        rest: the bits that are no symbol's, runs from the most significant down.
    """

    dtype: DType
    fields: tuple[BitField, ...]
    rest: tuple[BitField, ...]

    @property
    def symbols_per_parameter(self) -> int:
        """How many symbols a value has: 4 for the bytes of a float32, 1 for its exponent."""
        return len(self.fields)

    @property
    def symbol_bits(self) -> int:
        """Width of one symbol."""
        return self.fields[0].width

    @property
    def remainder_bits(self) -> int:
        """Bits of a value that no symbol holds."""
        return sum(run.width for run in self.rest)

    def split(self, words: Words) -> tuple[Symbols, npt.NDArray[np.uint64]]:
        """The symbols, shape (n, symbols_per_parameter), and remainders, shape (n,), of n words.

        >>> from lmgc_core.gradient import DTYPES
        >>> layout = layout_of(DTYPES["float32"], Serialization(planes="exponent"))
        >>> symbols, remainder = layout.split(np.float32([-1.5]).view("<u4"))
        >>> symbols.tolist(), hex(remainder[0])
        ([[127]], '0xc00000')
        """
        wide = words.astype(np.uint64)
        symbols = np.empty((len(wide), len(self.fields)), np.uint64)
        for column, symbol in enumerate(self.fields):
            symbols[:, column] = symbol.take(wide)
        remainder = np.zeros(len(wide), np.uint64)
        for run in self.rest:
            remainder = (remainder << np.uint64(run.width)) | run.take(wide)
        return symbols, remainder

    def join(self, symbols: Symbols, remainder: npt.NDArray[np.uint64]) -> Words:
        """The words, shape (n,), of symbols (n, symbols_per_parameter) and remainders (n,): inverse of `split`."""
        words = np.zeros(len(symbols), np.uint64)
        for column, symbol in enumerate(self.fields):
            words |= symbols[:, column].astype(np.uint64) << np.uint64(symbol.shift)
        left = remainder.astype(np.uint64)
        for run in reversed(self.rest):
            words |= (left & np.uint64((1 << run.width) - 1)) << np.uint64(run.shift)
            left = left >> np.uint64(run.width)
        return words.astype(self.dtype.word)

    def context(self, symbols: Symbols) -> npt.NDArray[np.int64]:
        """What a coder of the remainder may condition on, shape (n,): known from the symbols alone.

        The exponent field of a float; the bit length of the top two bytes of an integer; 0 where
        there is no remainder. 0 always means "zero, denormal or small", so exact zeros have it.
        """
        if not self.rest:
            return np.zeros(len(symbols), np.int64)
        known = self.join(symbols, np.zeros(len(symbols), np.uint64))
        if self.dtype.kind == "float":
            return exponent_field(known, self.dtype)
        top = known.astype(np.uint64) >> np.uint64(self.dtype.bits - 16)
        return np.searchsorted(np.uint64(1) << np.arange(17, dtype=np.uint64), top, side="right").astype(np.int64)


def _bytes_of(dtype: DType, n_bytes: int, byte_order: str) -> tuple[BitField, ...]:
    """The `n_bytes` most significant bytes, one field each, in that order."""
    from_top = tuple(BitField(dtype.bits - 8 * (i + 1), 8) for i in range(n_bytes))
    return from_top if byte_order == "big" else from_top[::-1]


def _all(dtype: DType, serialization: Serialization) -> tuple[BitField, ...]:
    if serialization.alphabet == "float":
        return (BitField(0, dtype.bits),)
    return _bytes_of(dtype, dtype.item_bytes, serialization.byte_order)


def _high(dtype: DType, serialization: Serialization) -> tuple[BitField, ...]:
    if dtype.item_bytes < 2:
        raise InvalidSetting(f"planes high needs values of 2 bytes or more, not {dtype.name}; choose all")
    return _bytes_of(dtype, 2, serialization.byte_order)


def _exponent(dtype: DType, serialization: Serialization) -> tuple[BitField, ...]:
    if dtype.kind != "float":
        fits = "all or head" if dtype.item_bytes == 1 else "all or high"
        raise InvalidSetting(f"planes exponent needs floats, not {dtype.name}; choose {fits}")
    return (BitField(dtype.mantissa_bits, dtype.exponent_bits),)


def _head(dtype: DType, serialization: Serialization) -> tuple[BitField, ...]:
    if dtype.kind == "float":
        return (BitField(dtype.mantissa_bits, dtype.sign_bits + dtype.exponent_bits),)
    if dtype.item_bytes == 1:
        return (BitField(0, 8),)
    raise InvalidSetting(f"planes head needs floats or integers of 1 byte, not {dtype.name}; choose all or high")


_PLANES: dict[str, Callable[[DType, Serialization], tuple[BitField, ...]]] = {
    "all": _all,
    "high": _high,
    "exponent": _exponent,
    "head": _head,
}


def layout_of(dtype: DType, serialization: Serialization) -> Layout:
    """The layout that `serialization.planes` means for values of that dtype.

    Raises:
        InvalidSetting: where the planes don't exist in the dtype; names the ones that do.

    >>> from lmgc_core.gradient import DTYPES
    >>> layout_of(DTYPES["float32"], Serialization(planes="high")).remainder_bits
    16
    """
    fields = _PLANES[serialization.planes](dtype, serialization)
    rest, top = [], dtype.bits
    for symbol in sorted(fields, key=lambda f: -f.shift):
        above = symbol.shift + symbol.width
        if above < top:
            rest.append(BitField(above, top - above))
        top = symbol.shift
    if top:
        rest.append(BitField(0, top))
    return Layout(dtype, fields, tuple(rest))
