"""Grids: remainders of whole multiples of one step, named by the multiple.

A quantiser leaves k · step, rounded to the dtype: at most a few hundred numbers in an octave, whatever their mantissas
look like. A grid holds the step as a whole number of 38 bits and says which multiples have which context. Value by
value, a decision says whether the value is on the grid, counted by the grid of the value before; then decisions say
which of the multiples of its context, each halving what is left. Their chances begin as the shares of the multiples on
either side; those of the first `depth` levels are counted, for each grid, context and beginning.

Inverse pair: `Grid.at` / `Grid.numbers_of`. Law: `grid_costs` says what `code_grids` spends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmgc_core.remainder.adaptive import (
    BitCounts,
    Choices,
    Floats,
    Integers,
    Mask,
    Values,
    bits_of,
    counts_before,
    decision_bits,
    frequencies_of_ones,
    frequency_of_one,
)

STEP_BITS, NUMBER_BITS = 38, 24
ORIGIN_BITS, ORIGIN_BIAS = 10, 256
GRID_BITS = ORIGIN_BITS + STEP_BITS - 1
MAX_GRIDS, MAX_DEPTH = 3, 6
MAX_REMAINDER_BITS = 24
"""Wider remainders have no grids."""

_END = 1 << NUMBER_BITS
_CONTEXTS = 1 << 12


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples k · step · 2^origin, 1 ≤ k < 2^24, as contexts and remainders.

    Attributes:
        step: 2^37 to 2^38 - 1.
        origin: context of a multiple less the bit length of k · step; -256 to 767.
    """

    step: int
    origin: int

    def at(self, numbers: Integers, n_bits: int) -> tuple[Integers, Values]:
        """Contexts and remainders of multiples, shape (n,): rounded to n_bits + 1 significant bits, half to even.

        >>> contexts, remainders = Grid(3 << 36, 80).at(np.array([1, 3]), 4)  # 1.1000 and 1.0010 in binary
        >>> contexts.tolist(), remainders.tolist()
        ([118, 120], [8, 2])
        """
        product = numbers.astype(np.uint64) * np.uint64(self.step)
        length = np.searchsorted(np.uint64(1) << np.arange(63, dtype=np.uint64), product, side="right").astype(np.int64)
        shift = (length - n_bits - 1).astype(np.uint64)
        half = np.uint64(1) << (shift - np.uint64(1))
        rounded, below = product >> shift, product & ((np.uint64(1) << shift) - np.uint64(1))
        rounded += (below > half) | ((below == half) & (rounded & np.uint64(1) == 1))
        over = rounded >> np.uint64(n_bits + 1) > 0
        remainder = np.where(over, np.uint64(0), rounded - np.uint64(1 << n_bits))
        return self.origin + length + over, remainder

    def spans(self, contexts: Integers, n_bits: int) -> tuple[Integers, Integers]:
        """The first multiple of each context and how many there are, shape as `contexts`; none in context 0."""
        first = self._first(contexts, n_bits)
        return first, np.where(contexts > 0, self._first(contexts + 1, n_bits) - first, 0)

    def _first(self, contexts: Integers, n_bits: int) -> Integers:
        """The least number whose context is not below each; 2^24 if there is none."""
        below = np.zeros(len(contexts), np.int64)
        for bit in range(NUMBER_BITS - 1, -1, -1):
            tried = below + (1 << bit)
            below = np.where(self.at(tried, n_bits)[0] < contexts, tried, below)
        return below + 1

    def numbers_of(self, values: Values, contexts: Integers, n_bits: int) -> Integers:
        """The number of each value's multiple, shape (n,); 0 for those that are none."""
        shift = np.clip(contexts - self.origin - n_bits - 1, -1000, 900)
        wanted = np.ldexp(values.astype(np.float64) + float(1 << n_bits), shift) / self.step
        numbers = np.rint(np.clip(wanted, 1, _END - 1)).astype(np.int64)
        context, value = self.at(numbers, n_bits)
        return np.where((context == contexts) & (value == values) & (contexts > 0), numbers, 0)


@dataclass(frozen=True, slots=True, eq=False)
class GridCosts:
    """Attributes:
    bits: what each value costs, shape (n,).
    off: which values are on no grid and still to be said, shape (n,).
    depth: how many levels are counted.
    """

    bits: Floats
    off: Mask
    depth: int


def grid_costs(
    values: Values, contexts: Integers, n_bits: int, grids: Sequence[Grid], depth: int | None = None
) -> GridCosts:
    """What `code_grids` spends on each value; with the best depth if None is given."""
    n, none = len(values), len(grids)
    chosen, index, span = np.full(n, none), np.zeros(n, np.int64), np.zeros(n, np.int64)
    asked = np.zeros((none, n), np.bool_)
    found, where = np.unique(contexts, return_inverse=True)
    where = where.reshape(-1)
    for number, grid in enumerate(grids):
        first, count = (part[where] for part in grid.spans(found, n_bits))
        multiple = grid.numbers_of(values, contexts, n_bits)
        asked[number] = (chosen == none) & (count > 0)
        here = asked[number] & (multiple > 0)
        index, span = np.where(here, multiple - first, index), np.where(here, count, span)
        chosen = np.where(here, number, chosen)
    before = np.concatenate([[none], chosen])[:n]
    bits = np.zeros(n)
    for number in range(none):
        on = asked[number]
        bits[on] += decision_bits((MAX_GRIDS + 1) * number + before[on], (chosen[on] == number).astype(np.int64))
    on = chosen < none
    counted, fixed = _tree_costs(index[on], span[on], chosen[on] * _CONTEXTS + contexts[on])
    if depth is None:
        gains = (fixed - counted).sum(axis=1)[:MAX_DEPTH]
        depth = int(np.argmax(np.concatenate([[0.0], np.cumsum(gains)])))
    bits[on] += counted[:depth].sum(axis=0) + fixed[depth:].sum(axis=0)
    return GridCosts(bits, ~on, depth)


def _tree_costs(index: Integers, span: Integers, groups: Integers) -> tuple[Floats, Floats]:
    """What each level costs with counts and without, both (levels, n): which of `span` multiples, 0 to span - 1."""
    width = np.searchsorted(1 << np.arange(NUMBER_BITS + 1), span)
    counted, fixed = np.zeros((2, NUMBER_BITS, len(index)))
    for level in range(int(width.max(initial=0))):
        left = width - level
        half = (1 << np.maximum(left, 1)) >> 1
        begin = index >> np.maximum(left, 0) << np.maximum(left, 0)
        size = np.minimum(span - begin, 2 * half)
        at = np.flatnonzero((left > 0) & (size > half))
        size, right, bit = size[at], (size - half)[at], (index[at] >= (begin + half)[at]).astype(np.int64)
        keys = (groups[at] << NUMBER_BITS) + (1 << level) + (index >> np.maximum(left, 0))[at]
        counted[level, at] = bits_of(bit, frequencies_of_ones(*counts_before(keys, bit), right, size))
        nothing = np.zeros_like(bit)
        fixed[level, at] = bits_of(bit, frequencies_of_ones(nothing, nothing, right, size))
    return counted, fixed


def code_grids(
    choices: Choices, values: Values | None, contexts: Integers, n_bits: int, grids: Sequence[Grid], depth: int
) -> tuple[Values, Mask]:
    """Codes which values are on a grid and where; those values, and which are on none (0 there).

    Args:
        choices: a writer or a reader.
        values: shape (n,), each below 2^n_bits; None to read.
        contexts: shape (n,), 0 or more.
        n_bits: of a remainder, at most `MAX_REMAINDER_BITS`.
        grids: the first that a value is on is taken.
        depth: levels that are counted.
    """
    n, none = len(contexts), len(grids)
    found, where = np.unique(contexts, return_inverse=True)
    spans = [[part.tolist() for part in grid.spans(found, n_bits)] for grid in grids]
    wanted = None if values is None else [grid.numbers_of(values, contexts, n_bits).tolist() for grid in grids]
    on_counts, tree_counts = BitCounts(), BitCounts()
    chosen, numbers = np.full(n, none), np.zeros(n, np.int64)
    before = none
    for i, (context, place) in enumerate(zip(contexts.tolist(), where.reshape(-1).tolist(), strict=True)):
        found_on = none
        for number, (first, span) in enumerate(spans):
            if not span[place]:
                continue
            multiple = 0 if wanted is None else wanted[number][i]
            if on_counts.code(choices, (MAX_GRIDS + 1) * number + before, int(multiple > 0)):
                group = number * _CONTEXTS + context
                index = multiple - first[place]
                numbers[i] = first[place] + _code_index(choices, tree_counts, index, span[place], group, depth)
                chosen[i] = found_on = number
                break
        before = found_on
    known = np.zeros(n, np.uint64)
    for number, grid in enumerate(grids):
        here = chosen == number
        known[here] = grid.at(numbers[here], n_bits)[1]
    return known, chosen == none


def _code_index(choices: Choices, counts: BitCounts, index: int, span: int, group: int, depth: int) -> int:
    """Codes a number below `span`; gives it back."""
    begin, width = 0, (span - 1).bit_length()
    for level in range(width):
        half = 1 << (width - level - 1)
        size = min(span - begin, 2 * half)
        if size <= half:
            continue
        bit, right = int(index >= begin + half), size - half
        if level < depth:
            node = (1 << level) + (begin >> (width - level))
            bit = counts.code(choices, (group << NUMBER_BITS) + node, bit, right, size)
        else:
            bit = choices.decision(bit, frequency_of_one(0, 0, right, size))
        begin += half * bit
    return begin
