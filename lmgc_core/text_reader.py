"""Reading a window's text as it arrives: symbol, boundary, symbol, boundary, nothing else.

The half of a serializer that a decoder uses token by token: it knows when a window's text is complete,
and refuses what could not have been written as soon as that shows. It never repairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import CorruptContainer
from lmgc_core.gradient import Words
from lmgc_core.layout import Layout, Symbols
from lmgc_core.punctuation import Punctuation
from lmgc_core.spelling import Spelling, checked_reference


@dataclass(frozen=True, slots=True)
class PieceSpec:
    """Consecutive parameters of one tensor in a window, without their values.

    Attributes:
        n_parameters: how many.
        first_parameter: flat C-order index of the first in its tensor.
        shape: the tensor's.
        reference: the tensor's, from its header; see `reference_of`.
    """

    n_parameters: int
    first_parameter: int
    shape: tuple[int, ...]
    reference: int = 0


class TextReader:
    """Reads the text of one window as it arrives, and knows when it is complete.

    Made by `Serializer.reader`.

    >>> from lmgc_core.gradient import DTYPES
    >>> from lmgc_core.serialization import Serialization, Serializer
    >>> reader = Serializer(DTYPES["uint8"], Serialization()).reader([PieceSpec(2, 0, (2,))])
    >>> reader.feed("0a 1"), reader.complete, reader.feed("f"), reader.complete
    (1, False, 2, True)
    """

    def __init__(
        self, layout: Layout, spelling: Spelling, punctuation: Punctuation, piece_specs: Sequence[PieceSpec]
    ) -> None:
        self._layout = layout
        self._spelling = spelling
        self._boundary_texts = punctuation.texts
        self._specs = tuple(piece_specs)
        self._boundaries = punctuation.boundaries(self._specs).tolist()
        per = layout.symbols_per_parameter
        self._references = [
            checked_reference(spec.reference, layout.dtype)
            for spec in self._specs
            for _ in range(spec.n_parameters * per)
        ]
        self._symbols: list[int] = []
        self._pending = ""  # what arrived and is not yet read
        self._at_boundary = False

    @property
    def n_parameters(self) -> int:
        """Parameters whose symbols have all been read."""
        return len(self._symbols) // self._layout.symbols_per_parameter

    @property
    def complete(self) -> bool:
        """Whether the window's text ends here: all symbols and all boundaries have been read."""
        return len(self._symbols) == len(self._boundaries) and not self._at_boundary

    def feed(self, text: str) -> int:
        """The number of parameters complete after this more of the text.

        Raises:
            CorruptContainer: as soon as the text cannot be a beginning of any window's.
        """
        pending, position = self._pending + text, 0
        spelling, boundary_texts = self._spelling, self._boundary_texts
        while not self.complete:
            if self._at_boundary:
                boundary = boundary_texts[self._boundaries[len(self._symbols) - 1]]
                found = pending[position : position + len(boundary)]
                if not boundary.startswith(found):
                    raise self._damaged(f"{boundary!r} expected, {found!r} found")
                if len(found) < len(boundary):
                    break
                self._at_boundary = False
                position += len(boundary)
                continue
            index = len(self._symbols)
            boundary = boundary_texts[self._boundaries[index]]
            stop = self._symbol_stop(pending, position, boundary)
            if stop is None:
                break
            self._symbols.append(spelling.symbol_of(pending[position:stop], self._references[index]))
            self._at_boundary = boundary != ""
            position = stop
        self._pending = pending[position:]
        if self.complete and self._pending:
            raise self._damaged(f"{self._pending[:16]!r} stands behind the last value")
        return self.n_parameters

    def _symbol_stop(self, pending: str, position: int, boundary: str) -> int | None:
        """Where the symbol at `position` ends, None if more text is needed to know."""
        spelling = self._spelling
        if not spelling.varies:
            if position == len(pending):
                return None
            stop = position + spelling.length_at(pending, position)
            return stop if stop <= len(pending) else None
        stop = pending.find(boundary, position)
        if stop >= 0:
            return stop
        if len(pending) - position >= spelling.max_characters + len(boundary):
            raise self._damaged(f"{boundary!r} missing in {pending[position : position + 16]!r}")
        return None

    def _damaged(self, what: str) -> CorruptContainer:
        return CorruptContainer(
            f"text of {len(self._boundaries)} symbols, after symbol {len(self._symbols)}: {what}; the text is damaged"
        )

    def _matrix(self) -> Symbols:
        if not self.complete:
            raise self._damaged("the text ends too early")
        return np.array(self._symbols, np.uint64).reshape(-1, self._layout.symbols_per_parameter)

    def context(self) -> npt.NDArray[np.int64]:
        """What the remainder's coder may condition on, shape (n_parameters,), once the text is complete."""
        return self._layout.context(self._matrix())

    def words(self, remainder: npt.NDArray[np.uint64]) -> list[Words]:
        """The words of each piece, once the text is complete.

        Raises:
            CorruptContainer: if the text is not complete or the remainder is of another length.
        """
        symbols = self._matrix()
        if remainder.shape != (len(symbols),):
            raise CorruptContainer(f"{remainder.shape} remainders for {len(symbols)} values; the archive is damaged")
        words = self._layout.join(symbols, remainder)
        stops = np.cumsum([spec.n_parameters for spec in self._specs], dtype=np.int64)
        return [np.asarray(part) for part in np.split(words, stops[:-1])] if self._specs else []
