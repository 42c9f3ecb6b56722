"""Adaptive binary decisions: the chance of a one is what was counted under the same key so far.

A key begins with a chance of right / size, mostly 1 / 2, which weighs as much as one decision: with n1 ones among n, a
one has the frequency floor(2^16 (n1 size + right) / ((n + 1) size)) of 2^16, at least 1 and at most 2^16 - 1. Source
of the even case: Krichevsky and Trofimov, IEEE Trans. Inf. Theory 27 (1981).

Law: `BitCounts`, decision by decision, and `frequencies_of_ones` of `counts_before`, all at once, name the same
frequencies.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

TOTAL_BITS = 16
TOTAL = 1 << TOTAL_BITS

Values = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class Choices(Protocol):
    """Where choices go to or come from: a writer codes what it is given and gives it back, a reader ignores it."""

    def decision(self, bit: int, frequency: int) -> int:
        """A bit, when a 1 has `frequency` of 2^16."""

    def symbol(self, number: int, frequencies: Integers) -> int:
        """One of several, numbered from 0; the frequencies add up to 2^24."""

    def raw(self, values: Values, n_bits: int) -> Values:
        """Bits that stand as they are; a reader looks at the length of `values` alone."""


def frequency_of_one(ones: int, seen: int, right: int = 1, size: int = 2) -> int:
    """The frequency of a 1, out of 2^16, after `ones` among `seen` decisions, when it began as right / size.

    >>> frequency_of_one(0, 0), frequency_of_one(3, 3), frequency_of_one(0, 0, 1, 4)
    (32768, 57344, 16384)
    """
    return min(max(((ones * size + right) << TOTAL_BITS) // ((seen + 1) * size), 1), TOTAL - 1)


class BitCounts:
    """Counts by key, all fresh at first."""

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, int]] = {}  # key -> (ones, seen)

    def code(self, choices: Choices, key: int, bit: int, right: int = 1, size: int = 2) -> int:
        """Codes a decision under its key, whose chance of a 1 began as right / size, and counts it."""
        ones, seen = self._counts.get(key, (0, 0))
        found = choices.decision(bit, frequency_of_one(ones, seen, right, size))
        self._counts[key] = (ones + found, seen + 1)
        return found


def counts_before(keys: Integers, bits: Integers) -> tuple[Integers, Integers]:
    """Ones and decisions of the same key before each of n decisions, in the order given."""
    order = np.argsort(keys, kind="stable")
    grouped, ones = keys[order], bits[order]
    places = np.arange(len(keys))
    starts = np.concatenate([[True], grouped[1:] != grouped[:-1]])[: len(keys)]
    begin = np.maximum.accumulate(np.where(starts, places, 0))
    before = np.cumsum(ones) - ones
    ones_before, seen_before = np.empty((2, len(keys)), np.int64)
    ones_before[order] = before - before[begin]
    seen_before[order] = places - begin
    return ones_before, seen_before


def frequencies_of_ones(
    ones: Integers, seen: Integers, right: Integers | int = 1, size: Integers | int = 2
) -> Integers:
    """`frequency_of_one` of many, shape (n,)."""
    return np.clip(((ones * size + right) << TOTAL_BITS) // ((seen + 1) * size), 1, TOTAL - 1)


def bits_of(bits: Integers, frequencies: Integers) -> Floats:
    """What decisions cost that had these frequencies of a 1, in bits, shape (n,)."""
    cost: Floats = TOTAL_BITS - np.log2(np.where(bits == 1, frequencies, TOTAL - frequencies))
    return cost


def decision_bits(keys: Integers, bits: Integers) -> Floats:
    """What each of n decisions costs, in bits, in the order given, when all began as even chances."""
    return bits_of(bits, frequencies_of_ones(*counts_before(keys, bits)))
