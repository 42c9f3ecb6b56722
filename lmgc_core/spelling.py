"""Spelling: the text of one symbol.

Every alphabet but `float` is a table: all symbols that the layout can produce and their texts, each
text once, so that reading is looking up and nothing else is accepted. `float` spells whole values.

- hex, iso: a fixed number of characters.
- letters: one character, or the escape mark and a fixed number of hex digits: ends by itself.
- decimal, numbers, float: of varying width; only the boundary behind shows where they end.

letters and numbers count down from the tensor's *reference*, its largest finite exponent field,
which stands in the header: near the top they are short. Symbols that do not fit have the escape
(letters) or a large number (numbers counts modulo the number of exponents), never a loss.

Inverse pair: `Spelling.spell` / `Spelling.symbol_of`. Source of hex and iso: LM-GC section 3.2.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core import float_text
from lmgc_core.errors import CorruptContainer, InvalidSetting
from lmgc_core.gradient import DType, Words, exponent_field
from lmgc_core.layout import Layout
from lmgc_core.word_pieces import word_pieces

ESCAPE = "~"
_HEX_DIGITS = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The texts of all symbols of one width, under one reference.

    Attributes:
        texts: object array of str, shape (2^width,), by symbol.
        n_bytes: UTF-8 bytes of each, int64, shape (2^width,).
        symbols: the inverse of `texts`.
    """

    texts: npt.NDArray[np.object_]
    n_bytes: npt.NDArray[np.int64]
    symbols: dict[str, int]


def reference_of(words: Words, dtype: DType) -> int:
    """The largest finite exponent field of a tensor; 0 for integers and where there is none.

    Args:
        words: the whole tensor's, shape (n,).
        dtype: theirs.

    >>> from lmgc_core.gradient import DTYPES
    >>> reference_of(np.float32([0.5, -2.0, np.inf]).view("<u4"), DTYPES["float32"])
    128
    """
    if dtype.kind != "float" or len(words) == 0:
        return 0
    largest = 0
    for piece in word_pieces(words):
        finite = piece[float_text.is_finite(piece, dtype)]
        largest = max(largest, int(exponent_field(finite, dtype).max(initial=0)))
    return largest


# How the one symbol of a table is spelled: (symbol, width, exponent_bits, reference) -> text.
_Spell = Callable[[int, int, int, int], str]


def _hex(symbol: int, width: int, exponent_bits: int, reference: int) -> str:
    return f"{symbol:0{-(-width // 4)}x}"


def _iso(symbol: int, width: int, exponent_bits: int, reference: int) -> str:
    return chr(symbol)


def _decimal(symbol: int, width: int, exponent_bits: int, reference: int) -> str:
    return str(symbol)


def _signed(symbol: int, width: int, exponent_bits: int, reference: int) -> str:
    return str(symbol - (1 << width) if symbol >> (width - 1) else symbol)


def _numbers(symbol: int, width: int, exponent_bits: int, reference: int) -> str:
    field = symbol & ((1 << exponent_bits) - 1)
    sign = "-" if symbol >> exponent_bits else ""
    return f"{sign}{1 + ((reference - field) % (1 << exponent_bits)) if field else 0}"


def _letters(symbol: int, width: int, exponent_bits: int, reference: int) -> str:
    field = symbol & ((1 << exponent_bits) - 1)
    negative = bool(symbol >> exponent_bits)
    has_sign = width > exponent_bits
    letters = string.ascii_lowercase if has_sign else string.ascii_letters
    if field == 0:
        return "1" if negative else "0"
    if 0 <= reference - field < len(letters):
        letter = letters[reference - field]
        return letter.upper() if negative else letter
    return ESCAPE + _hex(symbol, width, exponent_bits, reference)


_ALPHABETS: dict[str, _Spell] = {
    "hex": _hex,
    "iso": _iso,
    "decimal": _decimal,
    "signed": _signed,
    "numbers": _numbers,
    "letters": _letters,
}


@lru_cache(maxsize=256)
def _table(kind: str, width: int, exponent_bits: int, reference: int) -> Table:
    spell = _ALPHABETS[kind]
    texts = [spell(symbol, width, exponent_bits, reference) for symbol in range(1 << width)]
    n_bytes = np.array([len(text.encode("utf-8")) for text in texts], np.int64)
    return Table(np.array(texts, object), n_bytes, {text: symbol for symbol, text in enumerate(texts)})


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the symbols of one layout are spelled.

    Attributes:
        alphabet: the setting's name.
        dtype: of the values; `float` needs all of it.
        width: bits of a symbol.
        kind: the table's rule, "" for whole values.
    """

    alphabet: str
    dtype: DType
    width: int
    kind: str

    @property
    def varies(self) -> bool:
        """Whether only the boundary behind shows where a symbol ends."""
        return self.alphabet in ("decimal", "numbers", "float")

    @property
    def needs_reference(self) -> bool:
        """Whether the texts depend on the tensor's reference."""
        return self.kind in ("numbers", "letters")

    @property
    def max_characters(self) -> int:
        """The longest text of a symbol."""
        if self.kind == "":
            return float_text.MAX_CHARACTERS
        return {"hex": -(-self.width // 4), "iso": 1, "letters": 1 + -(-self.width // 4)}.get(self.kind, 6)

    @property
    def characters(self) -> frozenset[str]:
        """Every character a symbol can contain, whatever the values and the reference."""
        signed = self.width > self.dtype.exponent_bits if self.dtype.kind == "float" else self.dtype.kind == "int"
        digits = frozenset(string.digits)
        if self.kind == "iso":
            return frozenset(map(chr, range(1 << self.width)))
        if self.kind == "letters":
            return _HEX_DIGITS | frozenset(string.ascii_letters + ESCAPE)
        if self.kind == "hex":
            return _HEX_DIGITS
        if self.kind == "" and self.dtype.kind == "float":
            return float_text.CHARACTERS
        return digits | {"-"} if signed and self.kind != "decimal" else digits

    def table(self, reference: int) -> Table:
        """All texts under that reference; only for alphabets other than `float`."""
        exponent_bits = self.dtype.exponent_bits if self.needs_reference else 0
        return _table(self.kind, self.width, exponent_bits, reference if self.needs_reference else 0)

    def spell(self, symbols: npt.NDArray[np.uint64], reference: int) -> tuple[list[str], npt.NDArray[np.int64]]:
        """The texts of n symbols and the UTF-8 bytes of each.

        Args:
            symbols: shape (n,).
            reference: of the tensor that they come from.
        """
        if self.kind == "":
            texts = [self._whole(int(symbol)) for symbol in symbols]
            return texts, np.array([len(text) for text in texts], np.int64)
        table = self.table(reference)
        index = symbols.astype(np.int64)
        found: list[str] = table.texts[index].tolist()
        return found, table.n_bytes[index]

    def length_at(self, text: str, position: int) -> int:
        """Characters of the symbol that begins at `position` of `text`, for spellings that do not vary."""
        if self.kind == "letters":
            return self.max_characters if text[position] == ESCAPE else 1
        return self.max_characters

    def symbol_of(self, text: str, reference: int) -> int:
        """The symbol that is spelled so: inverse of `spell`.

        Raises:
            CorruptContainer: if no symbol is.
        """
        if self.kind == "":
            return self._value(text)
        symbol = self.table(reference).symbols.get(text)
        if symbol is None:
            raise CorruptContainer(f"{text!r} spells no symbol in alphabet {self.alphabet}; the text is damaged")
        return symbol

    def _whole(self, word: int) -> str:
        if self.dtype.kind == "float":
            return float_text.float_to_text(word, self.dtype)
        return str(word - (1 << self.width) if self.dtype.kind == "int" and word >> (self.width - 1) else word)

    def _value(self, text: str) -> int:
        if self.dtype.kind == "float":
            return float_text.text_to_float(text, self.dtype)
        digits = text.removeprefix("-")
        word = int(text) if digits.isascii() and digits.isdigit() and len(text) <= self.max_characters else 1 << 70
        word = word + (1 << self.width) if word < 0 else word
        if not 0 <= word < 1 << self.width or self._whole(word) != text:
            shown = text[: self.max_characters]
            raise CorruptContainer(f"{shown!r} is not how a value of {self.dtype.name} is spelled; the text is damaged")
        return word


def spelling_of(layout: Layout, planes: str, alphabet: str) -> Spelling:
    """The spelling of a layout's symbols in an alphabet.

    Raises:
        InvalidSetting: where the alphabet cannot spell them; names what can.
    """
    dtype, width, kind = layout.dtype, layout.symbol_bits, alphabet
    one_byte_integer = dtype.kind != "float" and dtype.item_bytes == 1
    if alphabet == "iso" and width > 8:
        raise InvalidSetting(
            f"alphabet iso spells symbols of up to 8 bits, and planes {planes} of {dtype.name} has {width}; "
            "choose planes all or high, or alphabet hex"
        )
    if alphabet == "float":
        if planes != "all":
            raise InvalidSetting(f"alphabet float spells whole values: choose planes all, not {planes}")
        kind = ""
    if alphabet in ("letters", "numbers"):
        if alphabet == "numbers" and one_byte_integer:
            kind = "signed" if dtype.kind == "int" else "decimal"
        elif dtype.kind != "float":
            fits = "hex, iso, decimal or numbers" if one_byte_integer else "hex, iso, decimal or float"
            raise InvalidSetting(f"alphabet {alphabet} counts exponents, and {dtype.name} has none; choose {fits}")
        elif planes not in ("exponent", "head"):
            raise InvalidSetting(f"alphabet {alphabet} needs planes exponent or head, not {planes}")
    return Spelling(alphabet, dtype, width, kind)


def checked_reference(reference: Any, dtype: DType) -> int:
    """The reference, if it is an exponent field of that dtype (0 for integers).

    Raises:
        CorruptContainer: otherwise.
    """
    if not 0 <= int(reference) < 1 << dtype.exponent_bits:
        raise CorruptContainer(f"reference {reference}: not an exponent of {dtype.name}; the header is damaged")
    return int(reference)
