"""Guarded rounding: the tables, the guard's law, exact totals, the cost against the surprisal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.coder import TOTAL, TOTAL_BITS
from lmgc_core.errors import CorruptContainer, LmgcError
from lmgc_core.guarded_rounding import (
    BANDS,
    CELLS_PER_BIT,
    GUARD_BITS,
    N_CELLS,
    OFFSET_CELLS,
    check_surprisals,
    code_length_bits,
    expected_exceptions,
    find_exceptions,
    frequencies_of,
    grid,
    round_to_bins,
    settle,
    weight_of,
)

VOCABULARIES = [2, 14, 86, 257, 15_492, 49_152, 262_144]


def surprisals_of(generator: np.random.Generator, n_rows: int, n: int, spread: float) -> np.ndarray:
    """Surprisals of random distributions; the larger the spread, the more peaked."""
    logits = generator.normal(size=(n_rows, n)) * spread
    logits -= logits.max(axis=1, keepdims=True)
    return (np.log(np.exp(logits).sum(axis=1, keepdims=True)) - logits) / np.log(2)


def test_weights_are_powers_of_two_rounded_down() -> None:
    from decimal import Decimal, getcontext

    getcontext().prec = 60
    for cell, width in [(0, 1), (1, 1), (511, 1), (512, 2), (640, 8), (896, 64), (N_CELLS - 64, 64)]:
        exact = Decimal(2) ** (Decimal(36) - Decimal(2 * cell + width) / Decimal(128))
        assert weight_of(cell, width) == int(exact)


def test_bins_are_the_bands_and_their_edges_are_nested() -> None:
    table = grid()
    assert len(table.weights) == len(set(table.weights.tolist())) == 587
    assert (np.diff(table.weights) < 0).all()
    start = 0
    for stop_bits, width in BANDS:
        edges = np.flatnonzero(table.is_boundary[start : stop_bits * CELLS_PER_BIT]) + start
        assert (edges % width == 0).all()
        assert len(edges) == (stop_bits * CELLS_PER_BIT - start) // width - (start == 0)
        start = stop_bits * CELLS_PER_BIT
    assert table.bin_of_cell[N_CELLS] == len(table.weights) - 1
    assert table.weights[-1] == 0


@pytest.mark.parametrize("n", VOCABULARIES)
@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0, 40.0])
def test_frequencies_add_up_exactly_and_none_is_zero(n: int, spread: float) -> None:
    rows = frequencies_of(round_to_bins(surprisals_of(np.random.default_rng(n), 2, n, spread)))
    for index in range(2):
        f = rows.row(index) + 1
        assert f.sum() == TOTAL
        assert f.min() >= 1
        starts = np.concatenate([[0], np.cumsum(f)])
        for token in {0, n - 1, n // 3, int(rows.favourites[index])}:
            assert rows.interval(index, token) == (starts[token], f[token])


@pytest.mark.parametrize("n", [2, 86, 15_492, 49_152])
@pytest.mark.parametrize("spread", [0.5, 3.0, 9.0])
def test_code_length_is_within_a_hundredth_bit_or_half_a_percent(n: int, spread: float) -> None:
    surprisals = surprisals_of(np.random.default_rng(1), 8, n, spread)
    rows = frequencies_of(round_to_bins(surprisals))
    p = 2.0**-surprisals
    entropy = (p * surprisals).sum(axis=1)
    spent = np.array([(p[i] * code_length_bits(rows.row(i) + 1)).sum() for i in range(8)])
    assert (spent - entropy).mean() <= max(0.01, 0.005 * entropy.mean())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([3, 86, 2_000]), st.floats(0.3, 20))
def test_what_differs_by_less_than_the_guard_gives_equal_frequencies(seed: int, n: int, spread: float) -> None:
    """The law; values are moved onto boundaries so that the guard is needed in every example."""
    generator = np.random.default_rng(seed)
    encoder = surprisals_of(generator, 3, n, spread)
    moved = generator.integers(0, n, 2)
    boundaries = np.flatnonzero(grid().is_boundary)
    for row, column in enumerate(moved):
        near = boundaries[np.abs(boundaries - encoder[row, column] * CELLS_PER_BIT).argmin()]
        encoder[row, column] = (near - OFFSET_CELLS) / CELLS_PER_BIT + generator.uniform(-0.4, 0.4) * GUARD_BITS
    decoder = encoder + generator.uniform(-0.5, 0.5, encoder.shape) * GUARD_BITS
    exceptions = find_exceptions(encoder)
    assert set(zip([0, 1], moved.tolist(), strict=True)) <= set(
        zip(exceptions.rows.tolist(), exceptions.columns.tolist(), strict=True)
    )
    bins = round_to_bins(decoder)
    for row, column, up in zip(exceptions.rows, exceptions.columns, exceptions.up, strict=True):
        bins[row, column] = settle(decoder[row, column], bool(up))
    assert np.array_equal(bins, round_to_bins(encoder))
    ours, theirs = frequencies_of(bins), frequencies_of(round_to_bins(encoder))
    assert all(np.array_equal(ours.row(i), theirs.row(i)) for i in range(3))


def test_without_the_exception_the_bins_would_differ() -> None:
    boundary = (704 - OFFSET_CELLS) / CELLS_PER_BIT
    below, above = np.array([[boundary - 1e-12]]), np.array([[boundary + 1e-12]])
    assert round_to_bins(below) != round_to_bins(above)
    assert find_exceptions(below).up.tolist() == [False]
    assert find_exceptions(above).up.tolist() == [True]


@pytest.mark.parametrize("n", VOCABULARIES)
def test_few_exceptions_are_expected_for_any_vocabulary(n: int) -> None:
    assert expected_exceptions(n) <= 0.001
    surprisals = surprisals_of(np.random.default_rng(2), 4, n, 3.0)
    guard = 1e5 * GUARD_BITS  # so that there are some to count
    assert len(find_exceptions(surprisals, guard).rows) / 4 <= 2 * expected_exceptions(n, guard) + 2


def test_even_chances_lie_on_no_boundary() -> None:
    for bits in range(1, 19):
        assert not len(find_exceptions(np.full((1, 5), float(bits)), 1e-4).rows)


def test_values_at_the_ends_have_bins() -> None:
    ends = np.array([[-1e-15, 0.0, 23.9, float(TOTAL_BITS), 500.0, np.inf]])
    assert round_to_bins(ends).tolist() == [[0, 0, 585, 586, 586, 586]]
    assert not len(find_exceptions(ends).rows)


def test_nan_is_refused() -> None:
    with pytest.raises(LmgcError, match="NaN"):
        check_surprisals(np.array([[1.0, np.nan]]))


def test_an_exception_that_is_near_no_boundary_is_refused() -> None:
    with pytest.raises(CorruptContainer, match="near no boundary"):
        settle(3.141, True)


def test_a_support_of_one_token_is_refused() -> None:
    with pytest.raises(LmgcError, match="support"):
        frequencies_of(np.zeros((1, 1), np.int16))


def test_no_likely_token_at_all_is_damage() -> None:
    with pytest.raises(CorruptContainer):
        frequencies_of(np.full((1, 4), 586, np.int16))
