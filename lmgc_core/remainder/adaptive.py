"""Adaptive binary decisions: the chance of a one is what was counted under the same key so far.

With n1 ones among n decisions of a key, a one has the frequency floor(2^16 (2 n1 + 1) / (2 n + 2)) of 2^16, at least 1
and at most 2^16 - 1. Source: Krichevsky and Trofimov, IEEE Trans. Inf. Theory 27 (1981).

Law: `BitCounts`, decision by decision, and `frequencies_of_ones`, all at once, name the same frequencies.
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


def frequency_of_one(ones: int, seen: int) -> int:
    """The frequency of a 1, out of 2^16, after `ones` among `seen` decisions.

    >>> frequency_of_one(0, 0), frequency_of_one(3, 3)
    (32768, 57344)
    """
    return min(max(((2 * ones + 1) << TOTAL_BITS) // (2 * seen + 2), 1), TOTAL - 1)


class BitCounts:
    """Counts by key, all fresh at first."""

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, int]] = {}  # key -> (ones, seen)

    def code(self, choices: Choices, key: int, bit: int) -> int:
        """Codes a decision under its key and counts it."""
        ones, seen = self._counts.get(key, (0, 0))
        found = choices.decision(bit, frequency_of_one(ones, seen))
        self._counts[key] = (ones + found, seen + 1)
        return found


def frequencies_of_ones(keys: Integers, bits: Integers) -> Integers:
    """The frequency of a 1 at each of n decisions, with the counts of its key so far, in the order given."""
    order = np.argsort(keys, kind="stable")
    grouped, ones = keys[order], bits[order]
    places = np.arange(len(keys))
    starts = np.concatenate([[True], grouped[1:] != grouped[:-1]])[: len(keys)]
    begin = np.maximum.accumulate(np.where(starts, places, 0))
    before = np.cumsum(ones) - ones
    ones_before = before - before[begin]
    frequencies = np.empty(len(keys), np.int64)
    frequencies[order] = ((2 * ones_before + 1) << TOTAL_BITS) // (2 * (places - begin) + 2)
    return np.clip(frequencies, 1, TOTAL - 1)


def decision_bits(keys: Integers, bits: Integers) -> Floats:
    """What each of n decisions costs, in bits, in the order given."""
    ones = frequencies_of_ones(keys, bits)
    cost: Floats = TOTAL_BITS - np.log2(np.where(bits == 1, ones, TOTAL - ones))
    return cost
