"""Repeats: which remainders were there before, said without saying what they are.

Each group (a context, or the whole segment) keeps the values it has seen, numbered in the order in which they came,
and how often. A value of a group that has seen any says first whether it is new; then, if the group has seen two or
more, whether it is the last one again; then, if more than one other is left, which of them: as likely as it was
frequent. Groups know numbers alone, so that all repeats of a segment are coded before any of its bits.

Each group counts for itself: the decision "new" by whether its last two values were new, the decision "again" by
whether they were the last one again.

Law: `repeat_bits` says what `code_repeats` spends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmgc_core.remainder.adaptive import BitCounts, Choices, Floats, Integers, Mask, Values, decision_bits

SYMBOL_BITS = 24


@dataclass(frozen=True, slots=True, eq=False)
class RepeatCosts:
    """What saying the repeats costs.

    Attributes:
        bits: of each value, shape (n,).
        new: which values are still to be said, shape (n,).
    """

    bits: Floats
    new: Mask


def _earlier(values: Integers, start: Mask, steps: int, missing: int) -> Integers:
    """The entry `steps` (1 or 2) before each in its run; `missing` where the run has none. `start` marks runs."""
    moved = np.full_like(values, missing)
    moved[steps:] = values[:-steps]
    beyond = start.copy()
    if steps == 2:
        beyond[1:] |= start[:-1]
    moved[beyond] = missing
    return moved


def repeat_bits(values: Integers, groups: Integers) -> RepeatCosts:
    """What `code_repeats` spends on each value.

    Args:
        values: shape (n,), equal numbers for equal values.
        groups: shape (n,), 0 or more.
    """
    n = len(values)
    bits, new = np.zeros(n), np.ones(n, np.bool_)
    if n == 0:
        return RepeatCosts(bits, new)
    order = np.argsort(groups, kind="stable")
    group, value = groups[order], values[order]
    places = np.arange(n)
    start = np.concatenate([[True], group[1:] != group[:-1]])
    begin = np.maximum.accumulate(np.where(start, places, 0))
    pairs = np.unique(np.stack([group, value]), axis=1, return_index=True, return_inverse=True)
    first, pair = pairs[1], pairs[2].reshape(-1)
    is_new = np.zeros(n, np.int64)
    is_new[first] = 1
    distinct = np.cumsum(is_new) - is_new
    distinct -= distinct[begin]
    by_pair = np.argsort(pair, kind="stable")
    rank = np.empty(n, np.int64)  # how often the value stood in its group before
    sorted_pair = pair[by_pair]
    pair_start = np.concatenate([[True], sorted_pair[1:] != sorted_pair[:-1]])
    rank[by_pair] = places - np.maximum.accumulate(np.where(pair_start, places, 0))
    again = np.zeros(n, np.int64)
    again[1:] = (pair[1:] == pair[:-1]) & ~start[1:]
    count_of_last = _earlier(rank + 1, start, 1, 0)

    def spend(asked: Mask, outcome: Integers, missing: int) -> None:
        history = 2 * _earlier(outcome, start, 1, missing) + _earlier(outcome, start, 2, missing)
        where = np.sort(order[asked])  # decisions count in the order of the values, not of the groups
        back = np.empty(n, np.int64)
        back[order] = places
        keys, said = (4 * group + history)[back[where]], outcome[back[where]]
        bits[where] += decision_bits(keys, said)

    asked = distinct > 0
    spend(asked, is_new, 1)
    asked &= (is_new == 0) & (distinct > 1)
    spend(asked, again, 0)
    asked &= (again == 0) & (distinct > 2)
    others = np.maximum(places - begin - count_of_last, 1)
    scale = (1 << SYMBOL_BITS) // others
    frequency = scale * rank
    # What is left of 2^24 goes to the first value that is not the last one again.
    first_place = first[pair]
    earliest = first_place - begin
    second = _second_places(start, is_new, distinct, begin)
    last_is_first = _earlier(earliest, start, 1, -1) == 0
    takes_rest = np.where(last_is_first, earliest == second, earliest == 0)
    frequency = np.where(takes_rest, frequency + (1 << SYMBOL_BITS) - scale * others, frequency)
    bits[order[asked]] += SYMBOL_BITS - np.log2(frequency[asked])
    new[order] = is_new == 1
    return RepeatCosts(bits, new)


def _second_places(start: Mask, is_new: Integers, distinct: Integers, begin: Integers) -> Integers:
    """Place in its run of the run's second distinct value, for every entry; -1 where there is none."""
    n = len(start)
    run = np.cumsum(start) - 1
    found = np.full(int(run[-1]) + 1, -1, np.int64)
    second = np.flatnonzero((is_new == 1) & (distinct == 1))
    found[run[second]] = (np.arange(n) - begin)[second]
    second_places: Integers = found[run]
    return second_places


class _Seen:
    """What one group has seen."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.counts: list[int] = []
        self.total = 0
        self.numbers: dict[int, int] = {}
        self.last = -1
        self.was_new, self.was_again = 3, 0  # of the last two values, the last one in bit 1


def code_repeats(choices: Choices, values: Values | None, groups: Integers) -> Integers:
    """Codes which values repeat: for each, the place of the first that is equal to it in its group.

    Args:
        choices: a writer or a reader.
        values: shape (n,), equal numbers for equal values; None to read.
        groups: shape (n,), 0 or more.
    """
    new_counts, again_counts = BitCounts(), BitCounts()
    seen: dict[int, _Seen] = {}
    wanted = None if values is None else values.tolist()
    sources = np.arange(len(groups))
    for place, number in enumerate(groups.tolist()):
        group = seen.setdefault(number, _Seen())
        apart = 4 * number
        known = -1 if wanted is None else group.numbers.get(wanted[place], -1)
        distinct = len(group.values)
        found, again = -1, 0
        if distinct and not new_counts.code(choices, apart + group.was_new, int(known < 0)):
            found = group.last if distinct == 1 else -1
            if distinct > 1:
                again = again_counts.code(choices, apart + group.was_again, int(known == group.last))
                found = group.last if again else _other(choices, group, known)
        is_new = found < 0
        if is_new:
            found = distinct
            group.values.append(place)
            group.counts.append(0)
            if wanted is not None:
                group.numbers[wanted[place]] = found
        elif distinct == 1:
            again = 1
        sources[place] = group.values[found]
        group.counts[found] += 1
        group.total += 1
        group.last = found
        group.was_new = 2 * is_new + (group.was_new >> 1)
        group.was_again = 2 * again + (group.was_again >> 1)
    return sources


def _other(choices: Choices, group: _Seen, known: int) -> int:
    """Codes which of the values but the last one; its number."""
    if len(group.values) == 2:
        return 1 - group.last
    counts = np.array(group.counts[: group.last] + group.counts[group.last + 1 :], np.int64)
    frequencies = counts * ((1 << SYMBOL_BITS) // int(counts.sum()))
    frequencies[0] += (1 << SYMBOL_BITS) - int(frequencies.sum())
    number = choices.symbol(known - (known > group.last), frequencies)
    return number + (number >= group.last)
