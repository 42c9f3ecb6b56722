"""Guarded rounding: surprisals in fp64 → bins → integer frequencies, the same on every machine.

Two computations of one surprisal differ in their last bits. Rounded to bins they agree, except within a hair of
a boundary between two bins: there the encoder writes down on which side it stood (an *exception*). From the bins
on there is nothing but integer arithmetic with the tables below, which docs/format.md prints.

The grid is nested: cells of 1/64 bit for likely tokens, joined to bins of up to 1 bit for unlikely ones, and one last
bin for all that are less likely than the coder's least frequency. So few tokens have many boundaries, and
the expected number of exceptions is bounded for any vocabulary; see `expected_exceptions`.

Law: two sets of surprisals that differ by less than the guard give equal frequencies, when the second is corrected by
the first's exceptions. Kin: PMATIC (arXiv 2601.10678) sends a helper bit with every symbol, for a mismatch of
any bounded size; fp64 makes the mismatch so small that only a few symbols in a million need one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.coder import TOTAL, TOTAL_BITS
from lmgc_core.errors import CorruptContainer, UnsupportedInput

GRID_VERSION = 1
CELLS_PER_BIT = 64
OFFSET_CELLS = 0.375
"""Boundaries stand beside the multiples of 1/64 bit, so that even chances among 2^k tokens do not sit on one."""

BANDS = ((8, 1), (9, 2), (10, 4), (11, 8), (12, 16), (14, 32), (TOTAL_BITS, 64))
"""(bits up to which, cells a bin): what grid version 1 is made of."""

N_CELLS = TOTAL_BITS * CELLS_PER_BIT
WEIGHT_BITS = 36
GUARD_EXPONENT = 30
GUARD_BITS = 2.0**-GUARD_EXPONENT
"""Half the width of the zone around a boundary in which exceptions are written, in bits."""

MAX_SUPPORT = 1 << 20

Bins = npt.NDArray[np.int16]
Surprisals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The tables of one grid version.

    Attributes:
        bin_of_cell: int16, shape (N_CELLS + 1,); the last cell holds all that lies beyond.
        is_boundary: whether a new bin begins with that cell, bool, shape (N_CELLS + 2,), padded by False.
        weights: int64, shape (n_bins,): what each bin's tokens weigh, 0 in the last.
    """

    bin_of_cell: Bins
    is_boundary: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.int64]


def weight_of(first_cell: int, n_cells: int) -> int:
    """The weight of a bin: the largest whole w with w^128 ≤ 2^(128·36 - m), m its middle in 1/128 bit.

    That is 2^36 · 2^(-m / 128) rounded down, found by taking whole square roots seven times.

    >>> weight_of(0, 2), weight_of(63, 2) == 2**35
    (67979231439, True)
    """
    root = 1 << (128 * WEIGHT_BITS - (2 * first_cell + n_cells))
    for _ in range(7):
        root = isqrt(root)
    return root


@lru_cache(maxsize=1)
def grid() -> Grid:
    """The tables of grid version 1, computed once from `BANDS`."""
    bin_of_cell = np.empty(N_CELLS + 1, np.int16)
    weights: list[int] = []
    cell = 0
    for stop_bits, width in BANDS:
        while cell < stop_bits * CELLS_PER_BIT:
            bin_of_cell[cell : cell + width] = len(weights)
            weights.append(weight_of(cell, width))
            cell += width
    bin_of_cell[N_CELLS] = len(weights)
    weights.append(0)
    is_boundary = np.zeros(N_CELLS + 2, np.bool_)
    is_boundary[1:-1] = np.diff(bin_of_cell) != 0
    return Grid(bin_of_cell, is_boundary, np.array(weights, np.int64))


def expected_exceptions(n_support: int, guard: float = GUARD_BITS) -> float:
    """A bound on the expected exceptions a token: if surprisals fall anywhere in their bins alike.

    At most 2^b tokens have surprisals under b bits, so the fine bins can hold few.

    >>> expected_exceptions(49_152) < 3e-4
    True
    """
    total, seen = 0.0, 0
    for stop, width in BANDS:
        most = min(n_support, 1 << stop) - seen if stop < TOTAL_BITS else n_support - seen
        total += max(most, 0) * 2 * guard * CELLS_PER_BIT / width
        seen = min(n_support, 1 << stop)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Exceptions:
    """Where rounding was too close to call, in order of row and column.

    Attributes:
        rows, columns: int64, shape (n,): position and place in the support.
        up: bool, shape (n,): whether the surprisal belongs above the boundary that it is next to.
    """

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    up: npt.NDArray[np.bool_]


def check_surprisals(surprisals: Surprisals) -> None:
    """Raises UnsupportedInput where a model gave no probabilities (NaN)."""
    if np.isnan(surprisals).any():
        raise UnsupportedInput(
            "the model gives NaN instead of probabilities; its weights are damaged or overflow, choose another model"
        )


def _cells(surprisals: Surprisals) -> npt.NDArray[np.float64]:
    scaled = surprisals * CELLS_PER_BIT
    scaled += OFFSET_CELLS
    return np.clip(scaled, 0, N_CELLS + 0.5, out=scaled)


def round_to_bins(surprisals: Surprisals) -> Bins:
    """The bin of each surprisal.

    Args:
        surprisals: -log2 p, float64, any shape; may be inf, or negative by a rounding error.
    """
    return grid().bin_of_cell.take(_cells(surprisals).astype(np.int16))


def find_exceptions(surprisals: Surprisals, guard: float = GUARD_BITS) -> Exceptions:
    """The surprisals within the guard of a boundary between two bins.

    Args:
        surprisals: float64, shape (n_rows, n_support).
        guard: in bits.
    """
    scaled = _cells(surprisals)
    nearest = np.rint(scaled)
    close = np.abs(scaled - nearest) < guard * CELLS_PER_BIT
    rows, columns = np.nonzero(close)
    boundary = nearest[rows, columns].astype(np.int64)
    real = grid().is_boundary[boundary]
    rows, columns, boundary = rows[real], columns[real], boundary[real]
    return Exceptions(rows, columns, scaled[rows, columns] >= boundary)


def settle(surprisal: float, up: bool, guard: float = GUARD_BITS) -> int:
    """The bin of a surprisal for which the encoder wrote an exception.

    Raises:
        CorruptContainer: when it is not near a boundary here: damage, or another arithmetic than the encoder's.
    """
    scaled = float(_cells(np.array([surprisal]))[0])
    boundary = round(scaled)
    if not abs(scaled - boundary) < 2 * guard * CELLS_PER_BIT or not grid().is_boundary[boundary]:
        raise CorruptContainer(
            f"an exception speaks of a surprisal of {surprisal:.9f} bits, which is near no boundary; "
            "the archive is damaged, or this machine's arithmetic differs by more than archives allow"
        )
    return int(grid().bin_of_cell[boundary if up else boundary - 1])


@dataclass(frozen=True, slots=True, eq=False)
class Frequencies:
    """Integer frequencies of several distributions over one support; each adds up to 2^24, none is below 1.

    Attributes:
        bins: int16, shape (n_rows, n_support).
        less_one: float64, shape (n_rows, n_bins): the frequency of each bin's tokens, less one.
        favourites: int64, shape (n_rows,): the first token of the likeliest bin.
        rests: int64, shape (n_rows,): what rounding down left over; the favourite has it on top.
    """

    bins: Bins
    less_one: npt.NDArray[np.float64]
    favourites: npt.NDArray[np.int64]
    rests: npt.NDArray[np.int64]

    def row(self, index: int) -> npt.NDArray[np.float64]:
        """f - 1 of one distribution, float64, shape (n_support,), as `coder.Decoder.symbol` takes it."""
        found: npt.NDArray[np.float64] = self.less_one[index].take(self.bins[index])
        found[self.favourites[index]] += self.rests[index]
        return found

    def interval(self, index: int, token: int) -> tuple[int, int]:
        """(start, frequency) of one token of one distribution."""
        table, bins = self.less_one[index], self.bins[index]
        start = int(table.take(bins[:token]).sum()) + token
        frequency = int(table[bins[token]]) + 1
        favourite, rest = int(self.favourites[index]), int(self.rests[index])
        return start + rest * (favourite < token), frequency + rest * (favourite == token)


def check_support(n_support: int) -> None:
    """Raises UnsupportedInput for a support of which no frequencies can be made."""
    if not 2 <= n_support <= MAX_SUPPORT:
        raise UnsupportedInput(f"a support of {n_support} tokens; archives need 2 to {MAX_SUPPORT:,}")


def frequencies_of(bins: Bins) -> Frequencies:
    """The frequencies of tokens in these bins, by whole numbers alone.

    With n tokens, weights w and T their sum: f = 1 + floor(w (2^24 - n) / T); what is left of 2^24 goes to the first
    token of the likeliest bin. Sums of whole float64 below 2^53 are exact.

    Args:
        bins: int16, shape (n_rows, n_support), n_support 2 to 2^20.

    >>> frequencies_of(np.int16([[0, 0, 64]])).row(0).tolist()
    [6710886.0, 6710885.0, 3355442.0]
    """
    n_rows, n_support = bins.shape
    weights = grid().weights
    n_bins = len(weights)
    check_support(n_support)
    shifted = bins + np.arange(n_rows, dtype=np.int64)[:, None] * n_bins
    counts = np.bincount(shifted.reshape(-1), minlength=n_rows * n_bins).reshape(n_rows, n_bins)
    totals = counts @ weights
    if not totals.all():
        raise CorruptContainer("no token is likely at all; the archive is damaged or the model is another")
    spread = TOTAL - n_support
    less_one = weights * spread // totals[:, None]
    rests = spread - (counts * less_one).sum(axis=1)
    return Frequencies(bins, less_one.astype(np.float64), bins.argmin(axis=1).astype(np.int64), rests)


def code_length_bits(frequencies: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """-log2 of each frequency over 2^24, in bits."""
    return TOTAL_BITS - np.log2(np.asarray(frequencies, np.float64))
