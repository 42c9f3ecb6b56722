"""Numbers by cell, two reports cell by cell, and tensors taken together: laws and brute force."""

from __future__ import annotations

import numpy as np
import pytest

from lmgc_core.cells import QUANTITIES, cell_differences, shared_tensors
from lmgc_core.codec import measure
from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import Gradient
from lmgc_core.groups import extremes, grouped, tensor_kind, value_points
from lmgc_core.language_model import load_model
from lmgc_core.report import Report
from lmgc_core.settings import CodecConfig


def gradient(seed: int = 0) -> Gradient:
    rng = np.random.default_rng(seed)
    arrays = {"conv.weight": rng.standard_normal((6, 4, 3)) * 1e-3, "conv.bias": rng.standard_normal(6) * 1e-4}
    return Gradient.from_arrays({name: a.astype(np.float32) for name, a in arrays.items()})


@pytest.fixture(scope="module")
def reports(model: str) -> tuple[Report, Report, Report]:
    """Two ways of writing one gradient, and another gradient."""
    loaded = load_model(model)
    ways = [("head", "numbers", 0), ("all", "hex", 0), ("head", "numbers", 1)]
    first, second, other = (
        measure(gradient(seed), loaded, CodecConfig(planes=planes, alphabet=alphabet, model=model), limit=0)  # type: ignore[arg-type]
        for planes, alphabet, seed in ways
    )
    return first, second, other


def test_entropy_and_excess_lose_nothing(reports: tuple[Report, ...]) -> None:
    for report in reports[:2]:
        expected = report.tokens["entropy_bits"].astype(float).sum()
        assert sum(float(c.sum(dtype=np.float64)) for c in report.entropy_bits.values()) == pytest.approx(
            expected, rel=1e-5
        )
        for name in report.bits:
            left = report.llm_bits[name] - report.entropy_bits[name]
            np.testing.assert_allclose(report.excess_bits[name], left, atol=1e-4)


def test_a_cell_has_the_rank_of_its_least_expected_token(reports: tuple[Report, ...]) -> None:
    for report in reports[:2]:
        worst = {name: np.full(cells.size, np.nan) for name, cells in report.bits.items()}
        for token in report.tokens.itertuples():
            for flat in range(token.first_parameter, token.last_parameter + 1) if token.first_parameter >= 0 else ():
                worst[token.tensor][flat] = np.fmax(worst[token.tensor][flat], token.rank + 1)
        for name, expected in worst.items():
            assert np.array_equal(report.ranks[name].ravel(), expected.astype(np.float32), equal_nan=True)
            assert not np.isnan(expected).any()


def test_swapped_reports_change_the_sign_and_nothing_else(reports: tuple[Report, ...]) -> None:
    first, second, _ = reports
    for name in shared_tensors(first, second):
        there, back = cell_differences(first, second, name), cell_differences(second, first, name)
        assert np.array_equal(there.cells, -back.cells)
        assert (there.n_lower, there.n_higher) == (back.n_higher, back.n_lower)
        assert there.n_shared == there.cells.size
        gap = second.bits[name].mean(dtype=np.float64) - first.bits[name].mean(dtype=np.float64)
        assert there.mean_bits == pytest.approx(gap, abs=1e-4)
        assert there.mean_bits != 0
    assert shared_tensors(first, second) == ["conv.weight", "conv.bias"]


def test_other_values_are_not_compared(reports: tuple[Report, ...]) -> None:
    first, _, other = reports
    assert shared_tensors(first, other) == []
    for name in ("conv.weight", "missing"):
        with pytest.raises(InvalidSetting, match=name):
            cell_differences(first, other, name)


def test_groups_add_up_to_their_tensors(reports: tuple[Report, ...]) -> None:
    rows = reports[0].tensors
    whole = sum(r.bits_per_parameter * r.n_sampled for r in rows if r.bits_per_parameter)
    for by in ("kind", "layer", "step"):
        assert sum(g.bits_per_parameter * g.n_sampled for g in grouped(rows, by)) == pytest.approx(whole)  # type: ignore[arg-type]
    assert [g.label for g in grouped(rows, "kind")] == ["weights", "biases"]
    assert [g.label for g in grouped(rows, "layer")] == ["conv"]


@pytest.mark.parametrize(
    ("name", "shape", "sibling", "kind"),
    [
        ("blocks.0.layers.0.bias", (64,), (64,), "norms"),
        ("model.layers.3.input_layernorm.weight", (64,), None, "norms"),
        ("position", (1, 17, 64), None, "embeddings"),
        ("blocks.0.gate", (64,), None, "other"),
        ("attention.offset_bias", (4, 17), None, "biases"),
        ("", (3, 4), None, "weights"),
    ],
)
def test_kinds_are_read_from_names_and_shapes(
    name: str, shape: tuple[int, ...], sibling: tuple[int, ...] | None, kind: str
) -> None:
    assert tensor_kind(name, shape, sibling) == kind


def test_extremes_and_points_are_those_of_the_cells(reports: tuple[Report, ...]) -> None:
    report = reports[0]
    for quantity in QUANTITIES:
        every = np.concatenate([c.ravel() for c in report.cell_numbers(quantity).values()])
        most, least = extremes(report, quantity, 5)
        assert [e.number for e in most] == sorted(every.tolist(), reverse=True)[:5]
        assert [e.number for e in least] == sorted(every.tolist())[:5]
    for extreme in most:
        assert report.coding.raw[extreme.tensor].ravel()[extreme.flat] == np.float32(extreme.value)
    points = value_points(report, "conv.weight", "all", limit=10)
    assert (points.step, points.n_finite) == (8, 72)
    assert points.flat.tolist() == list(range(0, 72, 8))
    assert points.numbers.tolist() == report.bits["conv.weight"].ravel()[::8].tolist()
