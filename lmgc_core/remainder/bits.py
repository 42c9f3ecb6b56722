"""The bits of one remainder after the other: those at both ends by counting, those between as they are.

A value of context 0 (exponent field 0) first says by one decision whether it is zero. The top `top` bits are decisions,
most significant first, counted for each context and beginning. Then, if the segment has a `tail`, come the lowest bits
from the last one up: each says whether it is a one, until one is, or the top bits are reached. That costs noise
nothing, since every such decision has even chances, and finds numbers that were made from coarser ones: half floats,
differences of weights, sums of few terms. What these decisions are counted by stands in the segment: the bit's height
in the remainder; its height in the value (context + height, so that all multiples of one number share their counts);
or its height and whether the value before had a longer run of zeros.

Law: `bit_costs` says what `code_bits` spends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmgc_core.remainder.adaptive import BitCounts, Choices, Floats, Integers, Mask, Values, decision_bits

MAX_TOP_BITS = 6
NO_TAIL, BY_HEIGHT, BY_VALUE, BY_RUN = range(4)
TAILS = (NO_TAIL, BY_HEIGHT, BY_VALUE, BY_RUN)


@dataclass(frozen=True, slots=True)
class BitPlan:
    """Attributes:
    low: lowest bits that are zero in every value, and left out.
    top: bits coded by decisions, 0 to 6.
    tail: how the lowest bits are counted, one of `TAILS`.
    """

    low: int
    top: int
    tail: int


def dropped_bits(values: Values, n_bits: int) -> int:
    """The number of lowest bits that are zero in every value; `n_bits` if all are zero."""
    used = int(np.bitwise_or.reduce(values)) if len(values) else 0
    return (used & -used).bit_length() - 1 if used else n_bits


def trailing_zeros(values: Values) -> Integers:
    """How many of the lowest bits are zero, shape (n,); 64 for a zero.

    >>> trailing_zeros(np.uint64([1, 40, 0])).tolist()
    [0, 3, 64]
    """
    lowest = values & (~values + np.uint64(1))
    found = np.searchsorted(np.uint64(1) << np.arange(64, dtype=np.uint64), lowest).astype(np.int64)
    return np.where(values == 0, 64, found)


def _tail_key(tail: int, context: int, height: int, run: int) -> int:
    """What the decision about the bit of a height is counted by; `run` is the value before's."""
    if tail == BY_VALUE:
        return context + height
    return 2 * height + (run > height) if tail == BY_RUN else height


def best_bits(values: Values, context: Integers, n_bits: int) -> tuple[BitPlan, Floats]:
    """The cheapest plan and what each value costs under it, shape (n,)."""
    low = dropped_bits(values, n_bits)
    kept_bits = n_bits - low
    kept = values >> np.uint64(low)
    bits, coded = _flags(kept, context, kept_bits)
    gain, best, top = 0.0, 0.0, 0
    tops = bits_of_top = np.zeros(len(values))
    for level in range(min(MAX_TOP_BITS, kept_bits)):
        spent = _top_bits(kept, context, kept_bits, level, coded)
        tops = tops + spent
        gain += float(spent.sum()) - int(coded.sum())
        if gain < best:
            best, top, bits_of_top = gain, level + 1, tops
    bits = bits + bits_of_top
    tails = {tail: _tail_bits(kept, context, kept_bits - top, coded, tail) for tail in TAILS}
    tail = min(TAILS, key=lambda t: float(tails[t].sum()))
    return BitPlan(low, top, tail), bits + tails[tail]


def bit_costs(values: Values, context: Integers, n_bits: int, plan: BitPlan) -> Floats:
    """What each value costs under a plan, shape (n,)."""
    kept_bits = n_bits - plan.low
    kept = values >> np.uint64(plan.low)
    bits, coded = _flags(kept, context, kept_bits)
    for level in range(plan.top):
        bits = bits + _top_bits(kept, context, kept_bits, level, coded)
    return bits + _tail_bits(kept, context, kept_bits - plan.top, coded, plan.tail)


def _flags(kept: Values, context: Integers, kept_bits: int) -> tuple[Floats, Mask]:
    """What "is it zero?" costs, and which values go on behind it."""
    bits, coded = np.zeros(len(kept)), np.full(len(kept), kept_bits > 0)
    if kept_bits:
        flagged = context == 0
        is_zero = kept == 0
        bits[flagged] = decision_bits(np.zeros(int(flagged.sum()), np.int64), is_zero[flagged].astype(np.int64))
        coded = ~(flagged & is_zero)
    return bits, coded


def _top_bits(kept: Values, context: Integers, kept_bits: int, level: int, coded: Mask) -> Floats:
    """What the bit `level` below the highest one costs."""
    beginning = (kept >> np.uint64(kept_bits - level)).astype(np.int64) if level else np.zeros(len(kept), np.int64)
    bit = ((kept >> np.uint64(kept_bits - level - 1)) & np.uint64(1)).astype(np.int64)
    keys = (context << MAX_TOP_BITS) + (1 << level) + beginning
    spent = np.zeros(len(kept))
    spent[coded] = decision_bits(keys[coded], bit[coded])
    return spent


def _tail_bits(kept: Values, context: Integers, width: int, coded: Mask, tail: int) -> Floats:
    """What the lowest `width` bits cost: the decisions of the tail and the bits between as they are."""
    spent = np.zeros(len(kept))
    if tail == NO_TAIL:
        spent[coded] = width
        return spent
    which = np.flatnonzero(coded)
    run = np.minimum(trailing_zeros(kept[which]), width)
    asked = np.minimum(run + 1, width)
    owner = np.repeat(np.arange(len(which)), asked)
    height = np.arange(len(owner)) - np.repeat(np.cumsum(asked) - asked, asked)
    bit = (height == run[owner]).astype(np.int64)
    if tail == BY_VALUE:
        keys = context[which][owner] + height
    elif tail == BY_RUN:
        keys = 2 * height + (np.concatenate([[0], run[:-1]])[: len(run)][owner] > height)
    else:
        keys = height
    decided = np.bincount(owner, weights=decision_bits(keys, bit), minlength=len(which))
    spent[which] = decided + (width - asked)
    return spent


def code_bits(choices: Choices, values: Values | None, context: Integers, n_bits: int, plan: BitPlan) -> Values:
    """Codes remainders under a plan: all decisions, value by value, and then the bits between; gives them back.

    Args:
        choices: a writer or a reader.
        values: shape (n,), each below 2^n_bits; None to read.
        context: shape (n,), 0 or more.
        n_bits: of a remainder.
        plan: `low` must fit the values.
    """
    kept_bits = n_bits - plan.low
    width = kept_bits - plan.top
    n = len(context)
    wanted = [0] * n if values is None else (values >> np.uint64(plan.low)).tolist()
    zero_counts, top_counts, tail_counts = BitCounts(), BitCounts(), BitCounts()
    known = np.zeros(n, np.uint64)
    raw_bits, raw_shift = np.zeros(n, np.int64), np.zeros(n, np.uint64)
    run = 0
    for i, number in enumerate(context.tolist()):
        if not kept_bits:
            break
        kept = wanted[i]
        if number == 0 and zero_counts.code(choices, 0, int(kept == 0)):
            continue
        node = 1
        for level in range(plan.top):
            key = (number << MAX_TOP_BITS) + node
            node = 2 * node + top_counts.code(choices, key, kept >> (kept_bits - level - 1) & 1)
        found = (node - (1 << plan.top)) << width
        shift = 0
        if plan.tail != NO_TAIL:
            before, run = run, 0
            while shift < width:
                shift += 1
                if tail_counts.code(choices, _tail_key(plan.tail, number, run, before), kept >> run & 1):
                    found |= 1 << run
                    break
                run += 1
        known[i], raw_bits[i], raw_shift[i] = found, width - shift, shift
    for size in range(1, width + 1):
        where = np.flatnonzero(raw_bits == size)
        if not len(where):
            continue
        mask = np.uint64((1 << size) - 1)
        given = np.zeros(len(where), np.uint64)
        if values is not None:
            given = (values[where] >> (raw_shift[where] + np.uint64(plan.low))) & mask
        known[where] |= choices.raw(given, size) << raw_shift[where]
    return known << np.uint64(plan.low)
