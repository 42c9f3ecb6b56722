"""Punctuation: what stands between symbols.

After every `group_size` symbols, counted from the window's start, stands the separator; after every
N-th parameter of a tensor (flat index i in C order with (i + 1) % N == 0) stands a newline instead.
Between the pieces of two tensors the same rules go on. Nothing stands after a window's last symbol,
except in spellings of varying width: there every symbol is closed by its boundary, the last one
too, so that the end of a window shows without a stored length.

Law: the boundaries depend on settings, shapes and positions alone, never on values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import InvalidSetting
from lmgc_core.settings import Serialization

SEPARATORS: dict[str, str] = {
    "none": "",
    "space": " ",
    "comma": ",",
    "comma+space": ", ",
    "semicolon": ";",
    "newline": "\n",
    "0x": "0x",
}
NOTHING, SEPARATOR, NEWLINE = 0, 1, 2


class Place(Protocol):
    """Where a run of parameters lies in its tensor."""

    @property
    def n_parameters(self) -> int: ...
    @property
    def first_parameter(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


def line_parameters(line: int | Literal["auto"], shape: tuple[int, ...]) -> int:
    """Parameters a line, 0 for no lines.

    "auto" is the innermost row; for four dimensions or more the kernel, the last two together. If
    that holds a single value (1×1 kernels, columns) the next dimension outward joins it; a tensor that
    would be one line has none.

    >>> line_parameters("auto", (128, 128, 3, 3)), line_parameters("auto", (10, 50)), line_parameters("auto", (50,))
    (9, 50, 0)
    """
    if line != "auto":
        return line
    n_inner = 2 if len(shape) >= 4 else 1
    row = 1
    for depth, size in enumerate(reversed(shape[1:]), start=1):
        row *= size
        if depth >= n_inner and row > 1:
            return row
    return 0


@dataclass(frozen=True, slots=True)
class Punctuation:
    """The boundaries of one serialization.

    Attributes:
        separator: the text between groups.
        group_symbols: symbols a group, 0 for no separators.
        line: as in the settings.
        symbols_per_parameter: the layout's.
        closes_last: whether a window's last symbol has its boundary too.
    """

    separator: str
    group_symbols: int
    line: int | Literal["auto"]
    symbols_per_parameter: int
    closes_last: bool

    @property
    def texts(self) -> tuple[str, str, str]:
        """The boundary of each kind, by NOTHING, SEPARATOR, NEWLINE."""
        return ("", self.separator, "\n")

    @property
    def characters(self) -> frozenset[str]:
        """Every character a boundary can contain, for tensors of any shape."""
        return frozenset((self.separator if self.group_symbols else "") + ("\n" if self.line else ""))

    def boundaries(self, places: Sequence[Place]) -> npt.NDArray[np.int64]:
        """The kind of boundary after each symbol of a window, shape (n_symbols,)."""
        per = self.symbols_per_parameter
        n_symbols = per * sum(place.n_parameters for place in places)
        kinds = np.zeros(n_symbols, np.int64)
        if self.group_symbols:
            kinds[self.group_symbols - 1 :: self.group_symbols] = SEPARATOR if self.separator else NOTHING
        start = 0
        for place in places:
            line = line_parameters(self.line, place.shape)
            if line:
                ends = np.arange(line - 1 - place.first_parameter % line, place.n_parameters, line)
                kinds[(start + ends) * per + per - 1] = NEWLINE
            start += place.n_parameters
        if n_symbols and not self.closes_last:
            kinds[-1] = NOTHING
        return kinds


def punctuation_of(serialization: Serialization, symbols_per_parameter: int, varies: bool) -> Punctuation:
    """The punctuation that the settings mean.

    Args:
        serialization: separator, group_size and line are used.
        symbols_per_parameter: the layout's; `auto` groups have that many.
        varies: whether the spelling is of varying width: then `auto` is one symbol.

    Raises:
        InvalidSetting: where a spelling of varying width would not be separated.
    """
    separator, group_size = SEPARATORS[serialization.separator], serialization.group_size
    if varies:
        why = f"alphabet {serialization.alphabet} is of varying width, so every symbol needs a separator behind it"
        if separator == "":
            raise InvalidSetting(f"separator none: {why}; choose another, space for example")
        if group_size not in ("auto", 1):
            raise InvalidSetting(f"group size {group_size}: {why}; choose auto or 1")
        group_size = 1
    group = symbols_per_parameter if group_size == "auto" else group_size
    return Punctuation(separator, group, serialization.line, symbols_per_parameter, varies)
