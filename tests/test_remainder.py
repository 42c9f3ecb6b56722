"""The remainder's model: its cost is exactly that of its decisions, and a decoder sees the same ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.errors import CorruptContainer
from lmgc_core.gradient import DTYPES
from lmgc_core.layout import layout_of
from lmgc_core.remainder import HEADER_BITS, RemainderDecoder, RemainderPlan, decisions, remainder_model
from lmgc_core.settings import Serialization


@st.composite
def segments(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Up to 40 remainders with few contexts, often zero, often with low bits unused."""
    n_bits = draw(st.integers(0, 63))
    n = draw(st.integers(0, 40))
    shift = draw(st.integers(0, n_bits))
    some = st.integers(0, (1 << n_bits) - 1).map(lambda v: v >> shift << shift)
    values = draw(st.lists(st.just(0) | some, min_size=n, max_size=n))
    context = draw(st.lists(st.sampled_from([0, 1, 127, 2047]), min_size=n, max_size=n))
    return np.array(values, np.uint64), np.array(context, np.int64), n_bits


def decode(values: np.ndarray, context: np.ndarray, n_bits: int, plan: RemainderPlan) -> np.ndarray:
    """What a decoder gets, which must be offered the encoder's frequencies one by one."""
    coded = decisions(values, context, n_bits, plan)
    decoder = RemainderDecoder(context, n_bits, plan.top, plan.low)
    for bit, frequency in zip(coded.bits.tolist(), coded.frequencies.tolist(), strict=True):
        assert decoder.frequency() == frequency
        decoder.push(bit)
    assert decoder.frequency() is None
    np.testing.assert_array_equal(decoder.raw_bits(), coded.raw_bits)
    assert all(int(raw) >> int(width) == 0 for raw, width in zip(coded.raw, coded.raw_bits, strict=True))
    return decoder.values(coded.raw)


@settings(max_examples=300, deadline=None)
@given(segments(), st.integers(0, 6))
def test_decoding_gives_the_values_back_for_every_top(segment: tuple[np.ndarray, np.ndarray, int], top: int) -> None:
    values, context, n_bits = segment
    plan = remainder_model(values, context, n_bits)
    np.testing.assert_array_equal(decode(values, context, n_bits, plan), values)
    other = RemainderPlan(min(top, n_bits - plan.low), plan.low, HEADER_BITS, plan.bits_per_value)
    np.testing.assert_array_equal(decode(values, context, n_bits, other), values)


@settings(max_examples=300, deadline=None)
@given(segments())
def test_the_cost_is_that_of_the_decisions_and_raw_bits(segment: tuple[np.ndarray, np.ndarray, int]) -> None:
    values, context, n_bits = segment
    plan = remainder_model(values, context, n_bits)
    coded = decisions(values, context, n_bits, plan)
    hit = np.where(coded.bits == 1, coded.frequencies, 65536 - coded.frequencies.astype(np.int64))
    cost = -np.log2(hit / 65536).sum() + coded.raw_bits.sum()
    assert plan.bits_per_value.sum() == pytest.approx(cost, abs=1e-9)
    assert plan.bits_per_value.shape == values.shape
    for top in range(min(6, n_bits - plan.low) + 1):
        other = decisions(values, context, n_bits, RemainderPlan(top, plan.low, 0, plan.bits_per_value))
        hit = np.where(other.bits == 1, other.frequencies, 65536 - other.frequencies.astype(np.int64))
        assert plan.bits_per_value.sum() <= -np.log2(hit / 65536).sum() + other.raw_bits.sum() + 1e-6


def test_worked_example() -> None:
    """Bits 1, 1, 0 of one context: frequencies 1/2, 3/4, 5/6 of a one, so 1/2 · 3/4 · 1/6 is the chance."""
    values = np.uint64([2, 2, 0])
    coded = decisions(values, np.int64([7, 7, 7]), 2, RemainderPlan(1, 1, HEADER_BITS, np.zeros(3)))
    assert coded.bits.tolist() == [1, 1, 0]
    assert coded.frequencies.tolist() == [32768, 49152, 54613]
    assert coded.raw_bits.tolist() == [0, 0, 0]


def test_random_mantissas_cost_what_they_are() -> None:
    """Over 40 segments: never more than a header above their bits, and on average not less either."""
    rng = np.random.default_rng(0)
    excess = []
    for _ in range(40):
        values = rng.integers(0, 1 << 23, 432).astype(np.uint64)
        plan = remainder_model(values, rng.integers(100, 120, 432), 23)
        excess.append(plan.bits_per_value.sum() + plan.header_bits - 23 * 432)
    assert max(excess) <= HEADER_BITS
    assert np.mean(excess) > 0


def test_a_biased_top_bit_is_found() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 1 << 23, 4000).astype(np.uint64)
    values[rng.random(4000) < 0.8] &= np.uint64((1 << 22) - 1)
    plan = remainder_model(values, np.full(4000, 100), 23)
    assert plan.top >= 1
    assert plan.bits_per_value.mean() < 22.6  # the entropy of the top bit is 0.47


def test_exact_zeros_are_all_but_free() -> None:
    plan = remainder_model(np.zeros(1000, np.uint64), np.zeros(1000, np.int64), 23)
    assert plan.low == 23
    assert plan.bits_per_value.sum() == 0
    values = np.zeros(1000, np.uint64)
    values[500] = 0x7FFFFF
    context = np.zeros(1000, np.int64)
    context[500] = 120
    plan = remainder_model(values, context, 23)
    assert plan.bits_per_value[500] == 23
    assert plan.bits_per_value.sum() - 23 < 6  # half of log2 1000 and one, for 999 zeros


def test_denormals_pay_for_saying_that_they_are_not_zero() -> None:
    plan = remainder_model(np.uint64([0x7FFFFF, 0, 1]), np.int64([0, 0, 0]), 23)
    assert plan.bits_per_value.tolist() == pytest.approx([24, 2, 24], abs=0.01)


def test_a_bfloat16_kept_as_float32_costs_seven_bits() -> None:
    rng = np.random.default_rng(2)
    words = (rng.standard_normal(432).astype("<f4").view("<u4") >> 16 << 16).astype("<u4")
    layout = layout_of(DTYPES["float32"], Serialization(planes="head"))
    symbols, remainder = layout.split(words)
    plan = remainder_model(remainder, layout.context(symbols), layout.remainder_bits)
    assert plan.low == 16
    assert plan.bits_per_value.mean() <= 7


def test_no_remainder_costs_nothing() -> None:
    plan = remainder_model(np.zeros(5, np.uint64), np.zeros(5, np.int64), 0)
    assert (plan.header_bits, plan.bits_per_value.sum()) == (0, 0)


@pytest.mark.parametrize(("top", "low"), [(7, 0), (-1, 0), (0, 24), (4, 20), (0, -1)])
def test_a_header_that_cannot_be_is_refused(top: int, low: int) -> None:
    with pytest.raises(CorruptContainer, match="23 bits"):
        RemainderDecoder(np.int64([1]), 23, top, low)


def test_long_runs_reach_the_least_frequency_and_no_less() -> None:
    """40,000 zeros and then one value that is not: the flag's frequencies stay within 1 and 2^16 - 1."""
    values = np.zeros(40_001, np.uint64)
    values[-1] = 1 << 22
    context = np.zeros(40_001, np.int64)
    plan = remainder_model(values, context, 23)
    coded = decisions(values, context, 23, plan)
    assert coded.frequencies.max() == 65535
    assert plan.bits_per_value[-1] == 16 + 1  # the surprise, and the one bit that is used
    np.testing.assert_array_equal(decode(values, context, 23, plan), values)
