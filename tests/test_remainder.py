"""The remainder's model: its cost is exactly that of its choices, and a reader is asked for the same ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.coder import OVERHEAD_BITS, Decoder, Encoder
from lmgc_core.errors import CorruptContainer
from lmgc_core.gradient import DTYPES, Words
from lmgc_core.layout import layout_of
from lmgc_core.remainder import (
    HEADER_BITS,
    RemainderPlan,
    code_remainders,
    read_plan,
    remainder_model,
    write_plan,
)
from lmgc_core.remainder.adaptive import BitCounts, counts_before, frequencies_of_ones, frequency_of_one
from lmgc_core.remainder.bits import NO_TAIL, TAILS, BitPlan, bit_costs, code_bits, trailing_zeros
from lmgc_core.remainder.grid_search import find_grids
from lmgc_core.remainder.grids import Grid, code_grids, grid_costs
from lmgc_core.remainder.repeats import code_repeats, repeat_bits
from lmgc_core.remainder_coding import decode_remainders, encode_remainders
from lmgc_core.serialization import PieceValues, Serializer
from lmgc_core.settings import Serialization

HEAD = Serialization(planes="head", alphabet="numbers")


class Tape:
    """Choices written down with what they cost; `Replay` gives them back and insists on the same questions."""

    def __init__(self) -> None:
        self.choices: list[tuple[object, ...]] = []
        self.bits = 0.0

    def decision(self, bit: int, frequency: int) -> int:
        assert 0 < frequency < 1 << 16
        self.bits += 16 - np.log2(frequency if bit else (1 << 16) - frequency)
        self.choices.append((frequency, bit))
        return bit

    def symbol(self, number: int, frequencies: np.ndarray) -> int:
        assert frequencies.sum() == 1 << 24
        assert frequencies.min() > 0
        self.bits += 24 - np.log2(frequencies[number])
        self.choices.append((frequencies.tolist(), number))
        return number

    def raw(self, values: np.ndarray, n_bits: int) -> np.ndarray:
        assert all(int(v) >> n_bits == 0 for v in values)
        self.bits += n_bits * len(values)
        self.choices.append((len(values), n_bits, values.tolist()))
        return values


class Replay:
    def __init__(self, tape: Tape) -> None:
        self.choices = iter(tape.choices)

    def decision(self, bit: int, frequency: int) -> int:
        asked, answer = next(self.choices)
        assert asked == frequency
        return answer  # type: ignore[return-value]

    def symbol(self, number: int, frequencies: np.ndarray) -> int:
        asked, answer = next(self.choices)
        assert asked == frequencies.tolist()
        return answer  # type: ignore[return-value]

    def raw(self, values: np.ndarray, n_bits: int) -> np.ndarray:
        n, size, answer = next(self.choices)
        assert (n, size) == (len(values), n_bits)
        return np.array(answer, np.uint64)


@st.composite
def segments(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Up to 60 remainders with few contexts, often zero, repeated or short of low bits."""
    n_bits = draw(st.integers(0, 63))
    n = draw(st.integers(0, 60))
    shift = draw(st.integers(0, n_bits))
    some = st.integers(0, (1 << n_bits) - 1)
    few = st.sampled_from(draw(st.lists(some, min_size=1, max_size=5)))
    values = draw(st.lists(st.just(0) | few | some.map(lambda v: v >> shift << shift), min_size=n, max_size=n))
    context = draw(st.lists(st.sampled_from([0, 1, 127, 2047]), min_size=n, max_size=n))
    return np.array(values, np.uint64), np.array(context, np.int64), n_bits


some_grids = st.lists(st.builds(Grid, st.integers(1 << 37, (1 << 38) - 1), st.integers(-256, 767)), max_size=3).map(
    tuple
)


def written(values: np.ndarray, context: np.ndarray, n_bits: int, plan: RemainderPlan) -> float:
    """The bits of all choices, after reading gave the values back."""
    tape = Tape()
    code_remainders(tape, values, context, n_bits, plan)
    replay = Replay(tape)
    np.testing.assert_array_equal(code_remainders(replay, None, context, n_bits, plan), values)
    assert next(replay.choices, None) is None
    return tape.bits


@settings(max_examples=300, deadline=None)
@given(segments())
def test_the_cost_is_that_of_the_choices_and_reading_gives_the_values_back(
    segment: tuple[np.ndarray, np.ndarray, int],
) -> None:
    values, context, n_bits = segment
    plan = remainder_model(values, context, n_bits)
    assert plan.bits_per_value.shape == values.shape
    assert plan.bits_per_value.min(initial=0) >= 0
    if n_bits:
        assert plan.bits_per_value.sum() == pytest.approx(written(values, context, n_bits, plan), abs=1e-6)


@settings(max_examples=300, deadline=None)
@given(segments(), st.integers(0, 6), st.sampled_from(TAILS), st.booleans(), st.booleans(), some_grids)
def test_every_plan_decodes(
    segment: tuple[np.ndarray, np.ndarray, int],
    top: int,
    tail: int,
    in_context: bool,
    anywhere: bool,
    grids: tuple[Grid, ...],
) -> None:
    values, context, n_bits = segment
    best = remainder_model(values, context, n_bits)
    low = min(best.bit_plan.low, int(trailing_zeros(values).min(initial=64)))
    bits = BitPlan(low, min(top, n_bits - low), tail)
    if n_bits:
        plan = RemainderPlan(
            in_context, anywhere, grids if n_bits <= 24 else (), 2, bits, HEADER_BITS, best.bits_per_value
        )
        assert written(values, context, n_bits, plan) >= 0


@settings(max_examples=200, deadline=None)
@given(segments(), st.integers(0, 6), st.sampled_from(TAILS))
def test_bits_cost_what_they_are_said_to(segment: tuple[np.ndarray, np.ndarray, int], top: int, tail: int) -> None:
    values, context, n_bits = segment
    plan = BitPlan(0, min(top, n_bits), tail)
    tape = Tape()
    code_bits(tape, values, context, n_bits, plan)
    assert bit_costs(values, context, n_bits, plan).sum() == pytest.approx(tape.bits, abs=1e-6)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=80))
def test_repeats_cost_what_they_are_said_to(pairs: list[tuple[int, int]]) -> None:
    values, groups = (np.array([p[i] for p in pairs], np.int64) for i in (0, 1))
    tape = Tape()
    sources = code_repeats(tape, values.astype(np.uint64), groups)
    found = repeat_bits(values, groups)
    assert found.bits.sum() == pytest.approx(tape.bits, abs=1e-6)
    first = [pairs.index(p) for p in pairs]
    assert sources.tolist() == first
    assert found.new.tolist() == [i == place for i, place in enumerate(first)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=60))
def test_counts_one_by_one_and_all_at_once_are_the_same(decisions: list[tuple[int, int]]) -> None:
    tape, counts = Tape(), BitCounts()
    for key, bit in decisions:
        counts.code(tape, key, bit)
    keys, bits = (np.array([d[i] for d in decisions], np.int64) for i in (0, 1))
    assert frequencies_of_ones(*counts_before(keys, bits)).tolist() == [c[0] for c in tape.choices]


@settings(max_examples=200, deadline=None)
@given(
    st.integers(4, 24),
    st.integers(1 << 37, (1 << 38) - 1),
    st.integers(-20, 90),
    st.lists(st.integers(1, 300), min_size=1, max_size=40),
    st.integers(0, 6),
)
def test_what_is_on_a_grid_costs_what_it_is_said_to(
    n_bits: int, step: int, origin: int, numbers: list[int], depth: int
) -> None:
    grid = Grid(step, origin)
    context, values = grid.at(np.array(numbers), n_bits)
    on = context > 0
    if n_bits > 9:  # no two of 300 multiples round to the same value
        np.testing.assert_array_equal(grid.numbers_of(values, context, n_bits)[on], np.array(numbers)[on])
    off = np.arange(len(values)) % 5 == 4
    values = np.where(off, values ^ np.uint64(1), values)
    context = np.maximum(context, 0)
    tape = Tape()
    grids = [Grid(step ^ 12345, origin + 2), grid]
    known, left = code_grids(tape, values, context, n_bits, grids, depth)
    costs = grid_costs(values, context, n_bits, grids, depth)
    assert costs.bits.sum() == pytest.approx(tape.bits, abs=1e-6)
    np.testing.assert_array_equal(costs.off, left)
    np.testing.assert_array_equal(known[~left], values[~left])
    assert not left[on & ~off].any()
    again, left_again = code_grids(Replay(tape), None, context, n_bits, grids, depth)
    np.testing.assert_array_equal(again, known)
    np.testing.assert_array_equal(left_again, left)


def test_worked_example_of_a_grid() -> None:
    """Multiples of 3 with 5 significant bits: 3 | 6 | 9 12 15 | 18 21 24 27 30 | 33 to 60, while 63 rounds to 64.

    21 is the second of five: on the grid at 1/2; not in the upper group of one (1 of 5), not in the upper half (2 of
    4), but in the upper half of the two left.
    """
    grid = Grid(3 << 36, 0)
    first, span = grid.spans(np.array([38, 39, 40, 41, 42]), 4)
    assert (first.tolist(), span.tolist()) == ([1, 2, 3, 6, 11], [1, 1, 3, 5, 10])
    assert [x.tolist() for x in grid.at(np.array([7, 11]), 4)] == [[41, 42], [5, 0]]  # 10101, and 33 rounds to 100000
    tape = Tape()
    code_grids(tape, np.uint64([5]), np.int64([41]), 4, [grid], 0)
    assert tape.choices == [(32768, 1), (13107, 0), (32768, 0), (32768, 1)]


def test_steps_of_quantisers_are_found() -> None:
    """Every value of three tensors, each with a step of its own, is on one of three grids."""
    rng = np.random.default_rng(3)
    parts = []
    for step in np.float32([0.0123, 3.3e-5, 7.7]):
        parts.append(np.round(rng.standard_normal(700) * 30).astype("f4") * step)
    context, value = remainders(np.concatenate(parts))[1::-1]
    grids = find_grids(value, context, 23)
    assert len(grids) == 3
    assert not grid_costs(value, context, 23, grids).off[context > 0].any()
    assert find_grids(*remainders(NORMAL)) == ()


def test_worked_example_of_bits() -> None:
    """Two values of two bits, 10 and 11, one context; one top bit, then the lowest bit by its height.

    Top bits 1, 1: chances 1/2, 3/4. The tail's decisions, after each top bit: 0 at 1/2, then 1 at 1/4 (one 0 was seen).
    """
    tape = Tape()
    code_bits(tape, np.uint64([2, 3]), np.int64([7, 7]), 2, BitPlan(0, 1, 1))
    assert tape.choices == [(32768, 1), (32768, 0), (49152, 1), (16384, 1)]


def test_worked_example_of_repeats() -> None:
    """A B B A C: B is new at 1/2; then it is not new, and again; then the other; then new. Histories keep them apart.

    Asked before each: B new?, B new? again?, A new? again? (the other one is left), C new?
    """
    tape = Tape()
    sources = code_repeats(tape, np.uint64([5, 6, 6, 5, 9]), np.int64([1] * 5))
    assert sources.tolist() == [0, 1, 1, 0, 4]
    # counted so far where the last two were new, new: B new; so the second one is not new at 1 - 3/4
    assert tape.choices == [(32768, 1), (49152, 0), (32768, 1), (32768, 0), (32768, 0), (32768, 1)]


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
    assert plan.bit_plan.top >= 1
    assert plan.bits_per_value.mean() < 22.6  # the entropy of the top bit is 0.47


def test_exact_zeros_are_all_but_free() -> None:
    plan = remainder_model(np.zeros(1000, np.uint64), np.zeros(1000, np.int64), 23)
    assert plan.bit_plan.low == 23
    assert plan.bits_per_value.sum() == 0
    values = np.zeros(1000, np.uint64)
    values[500] = 0x7FFFFF
    context = np.zeros(1000, np.int64)
    context[500] = 120
    plan = remainder_model(values, context, 23)
    assert plan.bits_per_value[500] == 23
    assert plan.bits_per_value.sum() - 23 < 6  # half of log2 1000 and one, for 999 zeros


def remainders(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """The remainders that preset best leaves of float values, their contexts and width."""
    words: Words = np.ascontiguousarray(values).view(f"<u{values.itemsize}")
    layout = layout_of(DTYPES[f"float{8 * values.itemsize}"], HEAD)
    symbols, remainder = layout.split(words)
    return remainder, layout.context(symbols), layout.remainder_bits


def bits_per_value(values: np.ndarray) -> float:
    plan = remainder_model(*remainders(values))
    return float(plan.bits_per_value.sum() + plan.header_bits) / len(values)


RNG = np.random.default_rng(5)
NORMAL = RNG.standard_normal(6912).astype("f4")
LEVELS = np.sort(RNG.standard_normal(256)).astype("f4")
BF16 = (NORMAL.view("<u4") >> 16 << 16).view("f4")
STEP = np.float32(0.037)
WEIGHTS = (RNG.standard_normal(6912) * 0.05).astype("f4")


@pytest.mark.parametrize(
    ("kind", "values", "most"),
    [
        ("a bfloat16 kept as float32: 7 bits are used", BF16, 7.01),
        ("the same, scaled: 7 bits and 128 values once", BF16 * STEP, 7.7),
        ("one value, two signs", np.sign(NORMAL) * STEP, 0.02),
        ("13 levels", np.round(NORMAL * 1.5).astype("f4") * STEP, 0.7),
        ("int8 times a scale", np.round(NORMAL * 30).astype("f4") * STEP, 4.1),
        ("256 levels without order", LEVELS[np.clip(NORMAL * 32 + 128, 0, 255).astype(int)], 8.0),
        ("clipped at one value, a third of them", np.clip(NORMAL, -1, 1), 17.0),
        ("a float16 with many below its normal range", (NORMAL * 1e-5).astype("f2").astype("f4"), 8.2),
        ("the difference of two weights", (WEIGHTS + NORMAL * np.float32(1e-3)) - WEIGHTS, 18.5),
        ("a float32 kept as float64", NORMAL.astype("f8"), 23.01),
        ("every row twenty times", np.repeat(NORMAL[:345], 20)[:6900], 1.7),
    ],
    ids=lambda p: p.replace(" ", "_") if isinstance(p, str) else "",
)
def test_what_was_made_from_less_costs_less(kind: str, values: np.ndarray, most: float) -> None:
    assert bits_per_value(values) < most, kind


def test_a_float32_of_noise_costs_its_mantissa() -> None:
    assert 22.8 < bits_per_value(NORMAL) < 23


def test_no_remainder_costs_nothing() -> None:
    plan = remainder_model(np.zeros(5, np.uint64), np.zeros(5, np.int64), 0)
    assert (plan.header_bits, plan.bits_per_value.sum()) == (0, 0)


@pytest.mark.parametrize(("low", "top"), [(0, 7), (24, 0), (20, 4), (63, 0)])
def test_a_header_that_cannot_be_is_refused(low: int, top: int) -> None:
    tape = Tape()
    write_plan(tape, RemainderPlan(False, False, (), 0, BitPlan(low, top, NO_TAIL), HEADER_BITS, np.zeros(0)))
    assert tape.bits == HEADER_BITS
    with pytest.raises(CorruptContainer, match="23 bits"):
        read_plan(Replay(tape), 23)


def test_long_runs_reach_the_least_frequency_and_no_less() -> None:
    """40,000 zeros and then one value that is not: the flag's frequencies stay within 1 and 2^16 - 1."""
    assert frequency_of_one(40_000, 40_000) == 65535
    values = np.zeros(40_001, np.uint64)
    values[-1] = 1 << 22
    context = np.zeros(40_001, np.int64)
    plan = remainder_model(values, context, 23)
    assert 16 <= plan.bits_per_value[-1] <= 18
    assert plan.bits_per_value.sum() == pytest.approx(written(values, context, 23, plan), abs=1e-6)


@pytest.mark.parametrize("values", [NORMAL[:700], np.round(NORMAL * 2)[:700] * STEP, NORMAL[:700].astype("f8")])
def test_a_payload_gives_the_remainders_back_at_the_stated_length(values: np.ndarray) -> None:
    dtype = DTYPES[f"float{8 * values.itemsize}"]
    words = np.ascontiguousarray(values).view(dtype.word)
    text = Serializer(dtype, HEAD).write([PieceValues(words, 0, words.shape, 130)])
    encoder = Encoder()
    bits = encode_remainders(encoder, [text])
    payload = encoder.to_bytes()
    assert 8 * len(payload) <= bits + OVERHEAD_BITS + 1
    decoder = Decoder(payload)
    np.testing.assert_array_equal(decode_remainders(decoder, text.context, text.remainder_bits), text.remainder)
    assert decoder.finished()
