"""A segment's remainders as a whole: the plan that costs least, and its coding.

Law: `remainder_model(...).bits_per_value`, added up, is the code length of what `code_remainders` asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from lmgc_core.errors import CorruptContainer
from lmgc_core.remainder.adaptive import Choices, Floats, Integers, Values
from lmgc_core.remainder.bits import MAX_TOP_BITS, TAILS, BitPlan, best_bits, code_bits
from lmgc_core.remainder.repeats import code_repeats, repeat_bits

LOW_FIELD_BITS, TOP_FIELD_BITS, TAIL_FIELD_BITS, REPEAT_FIELD_BITS = 6, 3, 2, 2
HEADER_BITS = LOW_FIELD_BITS + TOP_FIELD_BITS + TAIL_FIELD_BITS + REPEAT_FIELD_BITS
_EVERYWHERE = 1


@dataclass(frozen=True, slots=True, eq=False)
class RemainderPlan:
    """How one segment's remainders are coded, and what each costs.

    Attributes:
        in_context: repeats are said by context.
        anywhere: repeats of what is new in its context, or of all values, are said by the whole segment.
        bit_plan: how the bits of the others are coded.
        header_bits: what writing that down takes; 0 where there is no remainder.
        bits_per_value: float64, shape (n,); empty in a plan that was read.
    """

    in_context: bool
    anywhere: bool
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
        return RemainderPlan(False, False, BitPlan(0, 0, 0), 0, np.zeros(len(values)))
    numbers = np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    worth = _repeats_pay(values, context, n_bits)
    plans = [
        _costs(values, numbers, context, n_bits, in_context, anywhere)
        for in_context, anywhere in product((False, True), repeat=2)
        if worth or not (in_context or anywhere)
    ]
    return min(plans, key=lambda plan: float(plan.bits_per_value.sum()))


def _costs(
    values: Values, numbers: Integers, context: Integers, n_bits: int, in_context: bool, anywhere: bool
) -> RemainderPlan:
    bits, left = np.zeros(len(values)), np.arange(len(values))
    for groups in _stages(context, in_context, anywhere):
        spent = repeat_bits(numbers[left], groups[left])
        bits[left] += spent.bits
        left = left[spent.new]
    plan, new_bits = best_bits(values[left], context[left], n_bits)
    bits[left] += new_bits
    return RemainderPlan(in_context, anywhere, plan, HEADER_BITS, bits)


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
    """Codes what a reader must know beforehand: `HEADER_BITS` raw bits."""
    bits = plan.bit_plan
    for number, size in (
        (bits.low, LOW_FIELD_BITS),
        (bits.top, TOP_FIELD_BITS),
        (bits.tail, TAIL_FIELD_BITS),
        (2 * plan.in_context + plan.anywhere, REPEAT_FIELD_BITS),
    ):
        choices.raw(np.array([number], np.uint64), size)


def read_plan(choices: Choices, n_bits: int) -> RemainderPlan:
    """The inverse of `write_plan`.

    Raises:
        CorruptContainer: for a plan that does not fit remainders of `n_bits`.
    """
    nothing = np.zeros(1, np.uint64)
    sizes = (LOW_FIELD_BITS, TOP_FIELD_BITS, TAIL_FIELD_BITS, REPEAT_FIELD_BITS)
    low, top, tail, repeats = (int(choices.raw(nothing, size)[0]) for size in sizes)
    if low > n_bits or top > min(MAX_TOP_BITS, n_bits - low) or tail not in TAILS:
        raise CorruptContainer(f"remainder of {n_bits} bits with {low} dropped and {top} modelled")
    return RemainderPlan(bool(repeats & 2), bool(repeats & 1), BitPlan(low, top, tail), HEADER_BITS, np.zeros(0))


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
    result[left] = code_bits(choices, None if values is None else values[left], context[left], n_bits, plan.bit_plan)
    # The first place of a value in its context may itself repeat one of another context.
    return result[source[source]]
