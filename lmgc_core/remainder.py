"""The remainder's model: what the bits outside the text cost, and the decisions a coder makes for them.

One segment's remainders are coded value by value. The lowest `low` bits, zero in every value (a
bfloat16 kept as float32), are dropped. A value of context 0 (exponent field 0) first says by one
adaptive decision whether its remainder is zero, so exact zeros are all but free. The top `top` bits of
the others are adaptive binary decisions, most significant first, each with its own counts for every
context and every beginning of those bits; the rest stands as it is. `low` and `top` stand in the
segment, as `HEADER_BITS`; the encoder takes the `top` that costs least.

All probabilities are integers: with n1 ones among n decisions of that kind so far, a one has
frequency floor(2^16 (2 n1 + 1) / (2 n + 2)) of 2^16, at least 1 and at most 2^16 - 1. Counts are fresh
in each segment and updated after each decision. Source: Krichevsky and Trofimov, IEEE Trans. Inf.
Theory 27 (1981).

Inverse pair: `decisions` / `RemainderDecoder`. Law: both see the same frequencies, and
`remainder_model` says exactly their cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import CorruptContainer

TOTAL_BITS = 16
MAX_TOP_BITS = 6
LOW_FIELD_BITS, TOP_FIELD_BITS = 6, 3
HEADER_BITS = LOW_FIELD_BITS + TOP_FIELD_BITS

Values = npt.NDArray[np.uint64]
Contexts = npt.NDArray[np.int64]
_FLAG = 0  # the flag's place among the nodes of a context; the tree's nodes are 1 to 2^top - 1


@dataclass(frozen=True, slots=True, eq=False)
class RemainderPlan:
    """How one segment's remainders are coded, and what each costs.

    Attributes:
        top: bits coded adaptively, 0 to 6.
        low: lowest bits dropped, zero in every value.
        header_bits: what writing `top` and `low` down takes; 0 where there is no remainder.
        bits_per_value: float64, shape (n,).
    """

    top: int
    low: int
    header_bits: int
    bits_per_value: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """What an encoder codes for one segment: the decisions, in order, and then the raw bits.

    Attributes:
        bits: 0 or 1, uint8, shape (n_decisions,).
        frequencies: of a 1, out of 2^16, uint32, shape (n_decisions,).
        raw: the bits that stand as they are, uint64, shape (n,), 0 where there are none.
        raw_bits: how many, int64, shape (n,).
    """

    bits: npt.NDArray[np.uint8]
    frequencies: npt.NDArray[np.uint32]
    raw: Values
    raw_bits: npt.NDArray[np.int64]


def frequency_of_one(ones: int, seen: int) -> int:
    """The frequency of a 1, out of 2^16, after `ones` among `seen` decisions.

    >>> frequency_of_one(0, 0), frequency_of_one(3, 3)
    (32768, 57344)
    """
    return min(max(((2 * ones + 1) << TOTAL_BITS) // (2 * seen + 2), 1), (1 << TOTAL_BITS) - 1)


def dropped_bits(values: Values, n_bits: int) -> int:
    """The number of lowest bits that are zero in every value; `n_bits` if all are zero."""
    used = int(np.bitwise_or.reduce(values)) if len(values) else 0
    return (used & -used).bit_length() - 1 if used else n_bits


def _adaptive(keys: npt.NDArray[np.int64], bits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The frequency of a 1 at each decision, with the counts of its key so far, in the order given."""
    order = np.argsort(keys, kind="stable")
    grouped, ones = keys[order], bits[order]
    places = np.arange(len(keys))
    starts = np.concatenate([[True], grouped[1:] != grouped[:-1]])[: len(keys)]
    begin = np.maximum.accumulate(np.where(starts, places, 0))
    before = np.cumsum(ones) - ones
    ones_before = before - before[begin]
    frequencies = np.empty(len(keys), np.int64)
    frequencies[order] = ((2 * ones_before + 1) << TOTAL_BITS) // (2 * (places - begin) + 2)
    return np.clip(frequencies, 1, (1 << TOTAL_BITS) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Levels:
    """All decisions that any `top` may use: row i is a value, column 0 the flag, column j its j-th top bit.

    `active` says where there is a decision, `coded` which values go on behind the flag.
    """

    active: npt.NDArray[np.bool_]
    bits: npt.NDArray[np.int64]
    frequencies: npt.NDArray[np.int64]
    coded: npt.NDArray[np.bool_]
    kept_bits: int


def _levels(values: Values, context: Contexts, n_bits: int, low: int, top: int) -> _Levels:
    """The decisions of values for a tree of `top` levels; those of fewer levels are its first columns."""
    kept_bits = n_bits - low
    top = min(top, kept_bits)
    shape = (len(values), top + 1)
    active, bits = np.zeros(shape, np.bool_), np.zeros(shape, np.int64)
    frequencies = np.full(shape, 1 << (TOTAL_BITS - 1), np.int64)
    kept = values >> np.uint64(low)
    coded = np.full(len(values), kept_bits > 0)
    if kept_bits:
        flagged = context == 0
        is_zero = kept == 0
        active[:, 0], bits[:, 0] = flagged, is_zero & flagged
        frequencies[flagged, 0] = _adaptive(np.zeros(int(flagged.sum()), np.int64), bits[flagged, 0])
        coded = ~(flagged & is_zero)
    for level in range(top):
        beginning = (kept >> np.uint64(kept_bits - level)).astype(np.int64) if level else np.zeros(len(kept), np.int64)
        node = (1 << level) + beginning
        bit = ((kept >> np.uint64(kept_bits - level - 1)) & np.uint64(1)).astype(np.int64)
        active[:, level + 1], bits[:, level + 1] = coded, bit
        keys = (context << MAX_TOP_BITS) + node
        frequencies[coded, level + 1] = _adaptive(keys[coded], bit[coded])
    return _Levels(active, bits, frequencies, coded, kept_bits)


def _check(values: Values, context: Contexts, n_bits: int) -> None:
    if values.shape != context.shape or values.ndim != 1 or not 0 <= n_bits < 1 << LOW_FIELD_BITS:
        raise ValueError(f"{values.shape} values and {context.shape} contexts of {n_bits} bits")
    if len(values) and int(values.max()) >> n_bits:
        raise ValueError(f"a remainder of more than {n_bits} bits")


def remainder_model(values: Values, context: Contexts, n_bits: int) -> RemainderPlan:
    """The cheapest way to code one segment's remainders, and what each of them costs.

    Args:
        values: the remainders, uint64, shape (n,), each below 2^n_bits.
        context: shape (n,), 0 or more; see `Layout.context`.
        n_bits: width of a remainder, 0 to 63.

    >>> plan = remainder_model(np.uint64([0x30000, 0x550000]), np.int64([4, 5]), 23)
    >>> plan.low, plan.top, plan.bits_per_value.tolist()
    (16, 0, [7.0, 7.0])
    """
    _check(values, context, n_bits)
    if n_bits == 0:
        return RemainderPlan(0, 0, 0, np.zeros(len(values)))
    low = dropped_bits(values, n_bits)
    levels = _levels(values, context, n_bits, low, MAX_TOP_BITS)
    hit = np.where(levels.bits == 1, levels.frequencies, (1 << TOTAL_BITS) - levels.frequencies)
    spent = np.where(levels.active, TOTAL_BITS - np.log2(hit), 0.0)
    # A level of the tree saves one raw bit of every coded value: keep the levels that pay, as a whole.
    gains = np.concatenate([[0.0], np.cumsum(spent[:, 1:].sum(axis=0) - levels.coded.sum())])
    top = int(np.argmin(gains))
    bits = spent[:, : top + 1].sum(axis=1) + np.where(levels.coded, levels.kept_bits - top, 0)
    return RemainderPlan(top, low, HEADER_BITS, bits)


def decisions(values: Values, context: Contexts, n_bits: int, plan: RemainderPlan) -> Decisions:
    """What an encoder codes for one segment's remainders under a plan of `remainder_model`.

    Args:
        values, context, n_bits: as given to `remainder_model`.
        plan: its `top` and `low` are used.
    """
    _check(values, context, n_bits)
    levels = _levels(values, context, n_bits, plan.low, plan.top)
    raw_width = levels.kept_bits - plan.top
    mask = np.uint64((1 << raw_width) - 1)
    kept = values >> np.uint64(plan.low)
    return Decisions(
        bits=levels.bits[levels.active].astype(np.uint8),
        frequencies=levels.frequencies[levels.active].astype(np.uint32),
        raw=np.where(levels.coded, kept & mask, np.uint64(0)),
        raw_bits=np.where(levels.coded, raw_width, 0).astype(np.int64),
    )


class RemainderDecoder:
    """Says the frequency of each decision and takes its bit: the decoder's side of `decisions`.

    Ask `frequency` until it is None, giving each decoded bit to `push`; then read `raw_bits` raw bits
    for each value and hand them to `values`.

    >>> decoder = RemainderDecoder(np.int64([0, 0]), n_bits=4, top=0, low=0)
    >>> decoder.frequency(), decoder.push(1), decoder.frequency(), decoder.push(0), decoder.frequency()
    (32768, None, 49152, None, None)
    >>> decoder.raw_bits().tolist(), decoder.values(np.uint64([0, 9])).tolist()
    ([0, 4], [0, 9])
    """

    def __init__(self, context: Contexts, n_bits: int, top: int, low: int) -> None:
        if not 0 <= low <= n_bits or not 0 <= top <= min(MAX_TOP_BITS, n_bits - low):
            raise CorruptContainer(f"remainder of {n_bits} bits with {low} dropped and {top} modelled")
        self._context = context.tolist()
        self._top, self._low, self._kept_bits = top, low, n_bits - low
        self._counts: dict[tuple[int, int], tuple[int, int]] = {}  # (context, node) -> (ones, seen)
        self._node = 0
        self._nodes: list[int] = []  # of each finished value: 1 with its top bits behind, 0 for an exact zero
        self._begin()

    def _begin(self) -> None:
        """Goes to the next value that has a decision."""
        while len(self._nodes) < len(self._context):
            if self._kept_bits and self._context[len(self._nodes)] == 0:
                self._node = _FLAG
                return
            self._node = 1
            if self._top:
                return
            self._nodes.append(1 if self._kept_bits else 0)

    def _key(self) -> tuple[int, int]:
        return self._context[len(self._nodes)], self._node

    def frequency(self) -> int | None:
        """The frequency of a 1 in the next decision, out of 2^16; None when there is none left."""
        if len(self._nodes) == len(self._context):
            return None
        return frequency_of_one(*self._counts.get(self._key(), (0, 0)))

    def push(self, bit: int) -> None:
        """Takes the decoded bit of the decision that `frequency` spoke of."""
        key = self._key()
        ones, seen = self._counts.get(key, (0, 0))
        self._counts[key] = (ones + bit, seen + 1)
        if self._node == _FLAG:
            self._node = 1
            if bit:
                self._finish(0)
            elif self._top == 0:
                self._finish(1)
            return
        self._node = 2 * self._node + bit
        if self._node >> self._top:
            self._finish(self._node)

    def _finish(self, node: int) -> None:
        self._nodes.append(node)
        self._begin()

    def raw_bits(self) -> npt.NDArray[np.int64]:
        """How many raw bits each value has, shape (n,), once all decisions are known."""
        nodes = np.array(self._nodes, np.int64)
        return np.where(nodes > 0, self._kept_bits - self._top, 0)

    def values(self, raw: Values) -> Values:
        """The remainders, uint64, shape (n,), from the raw bits of each."""
        nodes = np.array(self._nodes, np.uint64)
        if raw.shape != (len(self._context),) or len(nodes) != len(self._context):
            raise CorruptContainer(f"{len(nodes)} of {len(self._context)} remainders, {raw.shape} raw bits")
        begin = np.where(nodes > 0, nodes - np.uint64(1 << self._top), 0).astype(np.uint64)
        width = self._kept_bits - self._top
        return ((begin << np.uint64(width)) | raw) << np.uint64(self._low)
