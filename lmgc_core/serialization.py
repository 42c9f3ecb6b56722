"""Serialization: the values of a window ↔ its text and the remainder.

Layout, spelling and punctuation composed; none of them knows the others. Inverse pair:
`Serializer.write` / `Serializer.read`. Law: `read(write(pieces))` equals the words as bytes for
every dtype and every setting that the constructor accepts. Reading alternates "read a symbol" and
"expect exactly this boundary" and never repairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import DType, Words
from lmgc_core.layout import Layout, layout_of
from lmgc_core.punctuation import Punctuation, punctuation_of
from lmgc_core.settings import Serialization
from lmgc_core.spelling import Spelling, reference_of, spelling_of
from lmgc_core.text_reader import PieceSpec, TextReader

__all__ = ["PieceSpec", "PieceValues", "SerializedText", "Serializer", "TextReader", "reference_of"]


@dataclass(frozen=True, slots=True, eq=False)
class PieceValues:
    """Consecutive parameters of one tensor in a window.

    Attributes:
        words: their values, shape (n,), of the serializer's dtype.
        first_parameter: flat C-order index of the first in its tensor.
        shape: the tensor's.
        reference: the tensor's; see `reference_of`.
    """

    words: Words
    first_parameter: int
    shape: tuple[int, ...]
    reference: int = 0

    @property
    def n_parameters(self) -> int:
        """How many."""
        return len(self.words)

    @property
    def spec(self) -> PieceSpec:
        """The same without the values: what a reader needs."""
        return PieceSpec(len(self.words), self.first_parameter, self.shape, self.reference)


@dataclass(frozen=True, slots=True, eq=False)
class SerializedText:
    """A window's text and what stands where in it.

    Attributes:
        text: what the model reads.
        symbol_starts: UTF-8 byte offset of each symbol, int64, shape (n_symbols,).
        symbol_stops: where it ends; the boundary after symbol i fills symbol_stops[i] to
            symbol_starts[i + 1], or to the end of the text.
        n_parameters: of the window.
        symbols_per_parameter: the same for all.
        remainder: the bits that the text leaves out, uint64, shape (n_parameters,).
        context: what a coder of the remainder may condition on, int64, shape (n_parameters,).
        remainder_bits: bits of each remainder.
    """

    text: str
    symbol_starts: npt.NDArray[np.int64]
    symbol_stops: npt.NDArray[np.int64]
    n_parameters: int
    symbols_per_parameter: int
    remainder: npt.NDArray[np.uint64]
    context: npt.NDArray[np.int64]
    remainder_bits: int


@dataclass(frozen=True, slots=True)
class Serializer:
    """Writes and reads the values of one dtype in one serialization.

    Args:
        dtype: of all values.
        serialization: the settings.
        tensor_name: named in errors, where one tensor is at fault.

    Raises:
        InvalidSetting: for settings that do not fit the dtype or each other.

    >>> from lmgc_core.gradient import DTYPES
    >>> serializer = Serializer(DTYPES["float32"], Serialization(planes="head", alphabet="numbers"))
    >>> serializer.write([PieceValues(np.float32([1, -4, 0]).view("<u4"), 0, (3,), reference=129)]).text
    '3 -1 0 '
    """

    dtype: DType
    serialization: Serialization
    tensor_name: str = ""
    layout: Layout = field(init=False)
    spelling: Spelling = field(init=False)
    punctuation: Punctuation = field(init=False)

    def __post_init__(self) -> None:
        settings = self.serialization
        try:
            layout = layout_of(self.dtype, settings)
            spelling = spelling_of(layout, settings.planes, settings.alphabet)
            punctuation = punctuation_of(settings, layout.symbols_per_parameter, spelling.varies)
        except InvalidSetting as error:
            if self.tensor_name == "":
                raise
            raise InvalidSetting(f"tensor {self.tensor_name!r}: {error}") from None
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "spelling", spelling)
        object.__setattr__(self, "punctuation", punctuation)

    @property
    def symbols_per_parameter(self) -> int:
        """How many symbols a value has."""
        return self.layout.symbols_per_parameter

    @property
    def remainder_bits(self) -> int:
        """Bits of a value that the text leaves out."""
        return self.layout.remainder_bits

    @property
    def needs_reference(self) -> bool:
        """Whether texts depend on the tensors' references, so that a header must hold them."""
        return self.spelling.needs_reference

    @property
    def alphabet_bytes(self) -> frozenset[int]:
        """Every UTF-8 byte that these settings can produce, whatever values, shapes and references."""
        characters = self.spelling.characters | self.punctuation.characters
        return frozenset(byte for character in characters for byte in character.encode("utf-8"))

    def write(self, pieces: Sequence[PieceValues]) -> SerializedText:
        """The text of a window that holds these pieces in this order."""
        texts: list[str] = []
        n_bytes, remainders, contexts = [], [], []
        for piece in pieces:
            symbols, remainder = self.layout.split(piece.words)
            spelled, lengths = self.spelling.spell(symbols.reshape(-1), piece.reference)
            texts += spelled
            n_bytes.append(lengths)
            remainders.append(remainder)
            contexts.append(self.layout.context(symbols))
        kinds = self.punctuation.boundaries(pieces)
        boundaries = self.punctuation.texts
        parts = [""] * (2 * len(texts))
        parts[0::2] = texts
        parts[1::2] = [boundaries[kind] for kind in kinds.tolist()]
        symbol_bytes = np.concatenate([np.zeros(0, np.int64), *n_bytes])
        gaps = np.array([len(text) for text in boundaries], np.int64)[kinds]
        stops = np.cumsum(symbol_bytes + gaps) - gaps
        return SerializedText(
            text="".join(parts),
            symbol_starts=stops - symbol_bytes,
            symbol_stops=stops,
            n_parameters=len(texts) // self.symbols_per_parameter,
            symbols_per_parameter=self.symbols_per_parameter,
            remainder=np.concatenate([np.zeros(0, np.uint64), *remainders]),
            context=np.concatenate([np.zeros(0, np.int64), *contexts]),
            remainder_bits=self.remainder_bits,
        )

    def reader(self, piece_specs: Sequence[PieceSpec]) -> TextReader:
        """A reader of the text of one window, which takes it bit by bit."""
        return TextReader(self.layout, self.spelling, self.punctuation, piece_specs)

    def read(self, text: str, piece_specs: Sequence[PieceSpec], remainder: npt.NDArray[np.uint64]) -> list[Words]:
        """The words of each piece: inverse of `write`.

        Args:
            text: a whole window's.
            piece_specs: its pieces, in order.
            remainder: shape (n_parameters,).

        Raises:
            CorruptContainer: for a text that `write` would not make of any values.
        """
        reader = self.reader(piece_specs)
        reader.feed(text)
        return reader.words(remainder)
