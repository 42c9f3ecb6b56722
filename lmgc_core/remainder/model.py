"""A segment's remainders as a whole: the plan that costs least, and its coding.

Law: `remainder_model(...).bits_per_value`, added up, is the code length of what `code_remainders` asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from lmgc_core.errors import CorruptContainer
from lmgc_core.remainder.adaptive import Choices, Floats, Integers, Values
from lmgc_core.remainder.bits import MAX_TOP_BITS, BitPlan, best_bits, code_bits
from lmgc_core.remainder.grid_search import find_grids
from lmgc_core.remainder.grids import (
    GRID_BITS,
    MAX_DEPTH,
    MAX_REMAINDER_BITS,
    ORIGIN_BIAS,
    ORIGIN_BITS,
    STEP_BITS,
    Grid,
    code_grids,
    grid_costs,
)
from lmgc_core.remainder.repeats import code_repeats, repeat_bits

LOW_FIELD_BITS = 6
_FIELDS = (LOW_FIELD_BITS, 3, 2, 2, 2)
"""Widths of low, top, tail, repeats, and the number of grids; each grid adds its own."""
_DEPTH_FIELD_BITS = 3
HEADER_BITS = sum(_FIELDS)
_EVERYWHERE = 1


@dataclass(frozen=True, slots=True, eq=False)
class RemainderPlan:
    """How one segment's remainders are coded, and what each costs.

    Attributes:
        in_context: repeats are said by context.
        anywhere: repeats of what is new in its context, or of all values, are said by the whole segment.
        grids: where the others may lie.
        depth: levels of a grid that are counted.
        bit_plan: how the bits of what is on no grid are coded.
        header_bits: what writing that down takes; 0 where there is no remainder.
        bits_per_value: float64, shape (n,); empty in a plan that was read.
    """

    in_context: bool
    anywhere: bool
    grids: tuple[Grid, ...]
    depth: int
    bit_plan: BitPlan
    header_bits: int
    bits_per_value: Floats


def _check(values: Values, context: Integers, n_bits: int) -> None:
    if values.shape != context.shape or values.ndim != 1 or not 0 <= n_bits < 1 << LOW_FIELD_BITS:
        raise ValueError(f"{values.shape} values and {context.shape} contexts of {n_bits} bits")
    if len(values) and int(values.max()) >> n_bits:
        raise ValueError(f"a remainder of more than {n_bits} bits")


def remainder_model(values: Values, context: Integers, n_bits: int) -> RemainderPlan:
    """The cheapest way to code one segment's remainders, and what each of them costs.

    Args:
        values: the remainders, uint64, shape (n,), each below 2^n_bits.
        context: shape (n,), 0 or more; see `Layout.context`.
        n_bits: width of a remainder, 0 to 63.

    >>> plan = remainder_model(np.uint64([0x30000, 0x560000]), np.int64([4, 5]), 23)
    >>> plan.bit_plan.low, plan.bits_per_value.tolist()
    (16, [7.0, 7.0])
    """
    _check(values, context, n_bits)
    if n_bits == 0:
        return RemainderPlan(False, False, (), 0, BitPlan(0, 0, 0), 0, np.zeros(len(values)))
    numbers = np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    worth = _repeats_pay(values, context, n_bits)
    found = find_grids(values, context, n_bits)
    plans = [
        _costs(values, numbers, context, n_bits, in_context, anywhere, grids)
        for in_context, anywhere in product((False, True), repeat=2)
        for grids in ((), found)[: 1 + bool(found)]
        if worth or not (in_context or anywhere)
    ]
    return min(plans, key=lambda plan: plan.header_bits + float(plan.bits_per_value.sum()))


def _costs(
    values: Values,
    numbers: Integers,
    context: Integers,
    n_bits: int,
    in_context: bool,
    anywhere: bool,
    grids: tuple[Grid, ...],
) -> RemainderPlan:
    bits, left = np.zeros(len(values)), np.arange(len(values))
    for groups in _stages(context, in_context, anywhere):
        spent = repeat_bits(numbers[left], groups[left])
        bits[left] += spent.bits
        left = left[spent.new]
    depth = 0
    if grids:
        placed = grid_costs(values[left], context[left], n_bits, grids)
        bits[left] += placed.bits
        left, depth = left[placed.off], placed.depth
    plan, new_bits = best_bits(values[left], context[left], n_bits)
    bits[left] += new_bits
    return RemainderPlan(in_context, anywhere, grids, depth, plan, _header_bits(len(grids)), bits)


def _header_bits(n_grids: int) -> int:
    return HEADER_BITS + (_DEPTH_FIELD_BITS + n_grids * GRID_BITS if n_grids else 0)


def _repeats_pay(values: Values, context: Integers, n_bits: int) -> bool:
    """Whether repeats, zeros of context 0 apart, could save more than saying where they are costs."""
    left = values[(context > 0) | (values > 0)]
    if len(left) < 2:
        return False
    share = 1 - len(np.unique(left)) / len(left)
    if share == 0:
        return False
    entropy = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
    return bool(share * n_bits > entropy)


def _stages(context: Integers, in_context: bool, anywhere: bool) -> list[Integers]:
    """The groups in which repeats are said, one stage after the other."""
    return [context] * in_context + [np.full_like(context, _EVERYWHERE)] * anywhere


def write_plan(choices: Choices, plan: RemainderPlan) -> None:
    """Codes what a reader must know beforehand: `plan.header_bits` raw bits."""
    bits = plan.bit_plan
    fields = (bits.low, bits.top, bits.tail, 2 * plan.in_context + plan.anywhere, len(plan.grids))
    for number, size in zip(fields, _FIELDS, strict=True):
        choices.raw(np.array([number], np.uint64), size)
    if plan.grids:
        choices.raw(np.array([plan.depth], np.uint64), _DEPTH_FIELD_BITS)
    for grid in plan.grids:
        choices.raw(np.array([grid.origin + ORIGIN_BIAS], np.uint64), ORIGIN_BITS)
        choices.raw(np.array([grid.step - (1 << STEP_BITS - 1)], np.uint64), STEP_BITS - 1)


def read_plan(choices: Choices, n_bits: int) -> RemainderPlan:
    """The inverse of `write_plan`.

    Raises:
        CorruptContainer: for a plan that does not fit remainders of `n_bits`.
    """

    def number(size: int) -> int:
        return int(choices.raw(np.zeros(1, np.uint64), size)[0])

    low, top, tail, repeats, n_grids = (number(size) for size in _FIELDS)
    if low > n_bits or top > min(MAX_TOP_BITS, n_bits - low):
        raise CorruptContainer(f"remainder of {n_bits} bits with {low} dropped and {top} modelled")
    depth = number(_DEPTH_FIELD_BITS) if n_grids else 0
    if n_grids and (n_bits > MAX_REMAINDER_BITS or depth > MAX_DEPTH):
        raise CorruptContainer(f"remainder of {n_bits} bits on {n_grids} grids with {depth} levels counted")
    grids = []
    for _ in range(n_grids):
        origin = number(ORIGIN_BITS) - ORIGIN_BIAS
        grids.append(Grid(number(STEP_BITS - 1) + (1 << STEP_BITS - 1), origin))
    return RemainderPlan(
        bool(repeats & 2), bool(repeats & 1), tuple(grids), depth, BitPlan(low, top, tail), _header_bits(n_grids),
        np.zeros(0),
    )  # fmt: skip


def code_remainders(
    choices: Choices, values: Values | None, context: Integers, n_bits: int, plan: RemainderPlan
) -> Values:
    """Codes one segment's remainders under a plan and gives them back.

    Args:
        choices: a writer or a reader.
        values: as given to `remainder_model`; None to read.
        context: shape (n,).
        n_bits: of a remainder, 1 to 63.
        plan: of `remainder_model` or `read_plan`.
    """
    if values is not None:
        _check(values, context, n_bits)
    source, left = np.arange(len(context)), np.arange(len(context))
    for groups in _stages(context, plan.in_context, plan.anywhere):
        wanted = None if values is None else values[left]
        found = code_repeats(choices, wanted, groups[left])
        source[left] = left[found]
        left = left[found == np.arange(len(left))]
    result = np.zeros(len(context), np.uint64)
    if plan.grids:
        wanted = None if values is None else values[left]
        result[left], off = code_grids(choices, wanted, context[left], n_bits, plan.grids, plan.depth)
        left = left[off]
    result[left] = code_bits(choices, None if values is None else values[left], context[left], n_bits, plan.bit_plan)
    # The first place of a value in its context may itself repeat one of another context.
    return result[source[source]]
