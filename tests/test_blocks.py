"""Blocks, windows, samples and the interval of a rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.blocks import (
    BLOCK_PARAMETERS,
    Block,
    Estimate,
    Piece,
    cut_windows,
    estimate_rate,
    plan_blocks,
    sample_blocks,
)
from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import DTYPES, TensorSpec

FLOAT32 = DTYPES["float32"]
tensors = st.lists(
    st.builds(
        lambda name, dtype, size: TensorSpec(name, DTYPES[dtype], (size,)),
        st.text("abcÄ.", min_size=1, max_size=4),
        st.sampled_from(["float32", "bfloat16", "int8"]),
        st.integers(0, 20) | st.integers(0, 1500),
    ),
    max_size=8,
    unique_by=lambda spec: spec.name,
)


@settings(max_examples=200, deadline=None)
@given(tensors)
def test_blocks_cover_each_parameter_once_in_name_order(specs: list[TensorSpec]) -> None:
    plan = plan_blocks(specs)
    order: list[tuple[str, int]] = []
    for number, block in enumerate(plan):
        assert block.index == number
        assert (
            block.n_parameters == BLOCK_PARAMETERS or number + 1 == len(plan) or plan[number + 1].dtype != block.dtype
        )
        assert block.n_parameters > 0
        for piece in block.pieces:
            assert specs[piece.tensor_index].dtype == block.dtype
            assert piece.n_parameters > 0
            order += [(specs[piece.tensor_index].name, i) for i in range(piece.first, piece.last)]
    by_name = sorted(specs, key=lambda spec: spec.name)
    dtypes = dict.fromkeys(spec.dtype for spec in by_name if spec.n_parameters)
    assert order == [(s.name, i) for d in dtypes for s in by_name if s.dtype == d for i in range(s.n_parameters)]
    assert len(plan) == sum(
        math.ceil(sum(s.n_parameters for s in specs if s.dtype == d) / BLOCK_PARAMETERS) for d in dtypes
    )


@settings(max_examples=50, deadline=None)
@given(tensors, st.randoms(use_true_random=False))
def test_the_order_in_the_file_does_not_matter(specs: list[TensorSpec], shuffler: object) -> None:
    def named(specs: list[TensorSpec]) -> list[list[tuple[str, int, int]]]:
        return [[(specs[p.tensor_index].name, p.first, p.last) for p in b.pieces] for b in plan_blocks(specs)]

    other = list(specs)
    shuffler.shuffle(other)  # type: ignore[attr-defined]
    assert named(other) == named(specs)


def test_a_plan_is_found_without_walking_it() -> None:
    plan = plan_blocks([TensorSpec("w", FLOAT32, (10**15,)), TensorSpec("x", FLOAT32, (5,))])
    assert len(plan) == -(-(10**15 + 5) // BLOCK_PARAMETERS)
    assert plan[-1].pieces[-1] == Piece(1, 0, 5)
    assert plan[10**12].pieces == (Piece(0, 432 * 10**12, 432 * (10**12 + 1)),)
    assert plan[3:5] == (plan[3], plan[4])
    with pytest.raises(IndexError):
        plan[len(plan)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 150), min_size=1, max_size=5), st.integers(1, 500))
def test_windows_are_the_block_in_order_and_fit(sizes: list[int], room: int) -> None:
    pieces = tuple(Piece(i, 7, 7 + size) for i, size in enumerate(sizes))
    windows = cut_windows(Block(0, FLOAT32, pieces), lambda some: sum(p.n_parameters for p in some) <= room)
    flat = [(p.tensor_index, i) for window in windows for p in window for i in range(p.first, p.last)]
    assert flat == [(p.tensor_index, i) for p in pieces for i in range(p.first, p.last)]
    assert all(0 < sum(p.n_parameters for p in window) <= room for window in windows)
    assert len(windows) == 1 or sum(sizes) > room


def test_halving_by_hand() -> None:
    """7 values, room for 2: 4 + 3, then 2 + 2 and 2 + 1."""
    windows = cut_windows(Block(0, FLOAT32, (Piece(0, 0, 7),)), lambda some: some[-1].last - some[0].first <= 2)
    assert [(w[0].first, w[0].last) for w in windows] == [(0, 2), (2, 4), (4, 6), (6, 7)]


def test_a_value_that_fits_no_window_is_one_clear_error() -> None:
    with pytest.raises(InvalidSetting, match="context window: one value of tensor 'w' alone"):
        cut_windows(Block(0, FLOAT32, (Piece(0, 0, 3),)), lambda some: False, ["w"])


@given(st.integers(0, 3000), st.integers(0, 300), st.integers(0, 2**40))
def test_samples_are_distinct_ascending_and_evenly_spread(n_blocks: int, limit: int, seed: int) -> None:
    chosen = sample_blocks(n_blocks, limit, seed)
    assert chosen == sample_blocks(n_blocks, limit, seed)
    assert len(chosen) == (n_blocks if limit == 0 else min(limit, n_blocks))
    assert list(chosen) == sorted(set(chosen))
    assert all(0 <= i < n_blocks for i in chosen)
    if len(chosen) > 1:
        steps = np.diff(chosen)
        assert steps.max() - steps.min() <= 1


def test_every_block_has_the_same_chance() -> None:
    counts = np.zeros(10)
    for seed in range(2000):
        counts[list(sample_blocks(10, 3, seed))] += 1
    assert np.abs(counts / 2000 - 0.3).max() < 0.05


def test_an_interval_needs_four_blocks_and_shrinks_to_nothing_when_complete() -> None:
    bits, sizes = [10.0, 12.0, 11.0, 13.0, 9.0], [1.0, 1.0, 1.0, 1.0, 1.0]
    assert estimate_rate(bits[:3], sizes[:3], 9) == Estimate(12 - 1.0, None, None)
    part = estimate_rate(bits[:4], sizes[:4], 9)
    assert part.low is not None
    assert part.high is not None
    assert part.low < part.value == 11.5 < part.high
    assert estimate_rate(bits, sizes, 5) == Estimate(11.0, 11.0, 11.0)
    assert estimate_rate(bits[:2], sizes[:2], 2) == Estimate(11.0, 11.0, 11.0)
    assert math.isnan(estimate_rate([], [], 3).value)


def test_the_interval_by_hand() -> None:
    """Residuals -1, 1, -1, 1: differences 2, so s² = 12/6 = 2; 4 of 8 blocks; t with 18/8 = 2.25 degrees, 3.875."""
    found = estimate_rate([9.0, 11.0, 9.0, 11.0], [1.0] * 4, 8)
    assert found.high == pytest.approx(10 + 3.875 * math.sqrt((1 - 4 / 8) * 2 / 4), abs=0.01)


def test_blocks_of_other_sizes_weigh_as_much_as_they_hold() -> None:
    assert estimate_rate([10.0, 30.0], [1.0, 9.0], 7).value == 4.0


@pytest.mark.parametrize("limit", [8, 16])
@pytest.mark.parametrize("autocorrelation", [0.0, 0.5, 0.8])
def test_the_interval_covers_the_whole(limit: int, autocorrelation: float) -> None:
    """200 seeds over gradients of 900 blocks whose rates drift from block to block."""
    rng = np.random.default_rng(7)
    covered = 0
    for seed in range(200):
        if seed % 5 == 0:
            noise = rng.standard_normal(900)
            rates = np.empty(900)
            rates[0] = noise[0]
            for i in range(1, 900):
                rates[i] = autocorrelation * rates[i - 1] + noise[i]
            rates = 26 + rates + np.linspace(0, 1, 900)
        sizes = np.full(900, float(BLOCK_PARAMETERS))
        sizes[-1] = 100
        truth = float((rates * sizes).sum() / sizes.sum())
        chosen = list(sample_blocks(900, limit, seed))
        found = estimate_rate((rates * sizes)[chosen].tolist(), sizes[chosen].tolist(), 900)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth <= found.high
    assert covered >= 180
