"""Comparisons: rows that share passes, paired differences, controls, the audit, named grids."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lmgc_core.codec import measure
from lmgc_core.compare import Comparison, compare, difference, model_alone
from lmgc_core.gradient import Gradient
from lmgc_core.grids import grid
from lmgc_core.settings import CodecConfig, preset


@pytest.fixture(scope="module")
def gradient() -> Gradient:
    values = np.random.default_rng(4).standard_normal(432 * 6).astype(np.float32) * np.float32(1e-3)
    return Gradient.from_arrays({"w": values.reshape(-1, 16)}, name="normal")


CONFIGS = (preset("best", prior="llm"), preset("best", prior="mix"), preset("best", prior="counts"), preset("lean"))


@pytest.fixture(scope="module")
def found(gradient: Gradient, tiny_model: Any) -> Comparison:
    return compare(gradient, tiny_model, CONFIGS, limit=4)


def by_number(found: Comparison) -> dict[int, Any]:
    return {row.number: row.report for row in found.rows}


def test_sharing_a_pass_changes_no_number(found: Comparison, gradient: Gradient, tiny_model: Any) -> None:
    rows = by_number(found)
    for number, config in enumerate(CONFIGS):
        alone = measure(gradient, tiny_model, config, limit=4)
        assert rows[number].totals == alone.totals
        assert rows[number].settings == alone.settings
        assert rows[number].tokens["surprisal_bits"].tolist() == alone.tokens["surprisal_bits"].tolist()
    assert model_alone(rows[1]).totals == rows[0].totals


def test_order_changes_no_number(found: Comparison, gradient: Gradient, tiny_model: Any) -> None:
    turned = compare(gradient, tiny_model, CONFIGS[::-1], limit=4)
    rows, others = by_number(found), by_number(turned)
    assert all(rows[i].totals == others[len(CONFIGS) - 1 - i].totals for i in rows)
    assert turned.controls == found.controls
    assert [b.bytes for b in turned.baselines["none"]] == [b.bytes for b in found.baselines["none"]]


def test_differences_are_paired(found: Comparison, gradient: Gradient, tiny_model: Any) -> None:
    best, other = found.sorted_rows[0].report, found.sorted_rows[-1].report
    gap = difference(other, best)
    assert gap is not None
    assert gap.value == pytest.approx(other.totals.compression_rate - best.totals.compression_rate)
    assert gap.low is not None
    assert gap.high is not None
    assert gap.low < gap.value < gap.high
    same = difference(best, best)
    assert same is not None
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)
    sparse = measure(gradient, tiny_model, preset("best", prior="counts", transform="topk:0.5"), limit=4)
    assert difference(sparse, best) is None
    # Every other block is zero: hard for nobody, so that single rates are uncertain and their difference is not.
    uneven = np.where(np.arange(432 * 12) // 432 % 2, np.tile(gradient.tensor("w").array.ravel(), 2), 0).astype(
        np.float32
    )
    rows = [measure(Gradient.from_arrays({"w": uneven}), tiny_model, c, limit=8) for c in CONFIGS[2:]]
    rows[1] = measure(Gradient.from_arrays({"w": uneven}), tiny_model, preset("best", prior="counts", line=8), limit=8)
    gap, own = difference(rows[1], rows[0]), rows[1].totals.rate_ci95
    assert gap is not None
    assert own is not None
    assert gap.high - gap.low < (own[1] - own[0]) / 4
    whole = [measure(gradient, tiny_model, c, limit=0) for c in CONFIGS[2:]]
    exact = difference(*whole)
    assert exact is not None
    assert exact.low == exact.value == exact.high


def test_settings_that_do_not_fit_leave_the_others(tiny_model: Any) -> None:
    gradient = Gradient.from_arrays({"n": np.arange(600, dtype=np.int32)})
    configs = [CodecConfig(planes="exponent"), preset("best", prior="counts")]
    found = compare(gradient, tiny_model, configs, limit=1, baselines=False)
    assert [r.number for r in found.rows] == [1]
    assert "n" in found.refused[0]
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["pareto"] == [0]


def test_controls_are_held_against_the_bits_they_hold(gradient: Gradient, tiny_model: Any) -> None:
    for transform in ("none", "bf16", "uniform:8", "topk:0.25"):
        config = preset("best", prior="counts", transform=transform)
        rates = {c.id: c for c in compare(gradient, tiny_model, [config], limit=2, baselines=False).controls}
        assert rates["random_bits"].compression_rate >= 0.999
        assert not rates["random_bits"].alarm
        assert 0 < rates["shuffled"].compression_rate < 1.1


def test_lossy_baselines_count_side_information(gradient: Gradient, tiny_model: Any) -> None:
    found = compare(gradient, tiny_model, [preset("best", prior="counts", transform="topk:0.1")], limit=1)
    report = found.rows[0].report
    side = report.coding.transformed.side.n_bytes
    assert side > 0
    rows = {b.id: b for b in found.baselines["topk:0.1"]}
    kept = report.coding.coded.raw_bytes
    assert rows["gzip"].bytes > side
    assert rows["gzip"].bytes == pytest.approx(kept + side, rel=0.1)
    assert rows["gzip"].compression_rate == rows["gzip"].bytes / gradient.raw_bytes
    assert found.baselines["none"] != found.baselines["topk:0.1"]
    assert set(found.to_dict()["lossy_baselines"]) == {"topk:0.1"}


def test_a_stopped_comparison_keeps_its_rows(gradient: Gradient, tiny_model: Any) -> None:
    seen: list[Comparison] = []
    found = compare(
        gradient, tiny_model, CONFIGS, limit=2, on_change=seen.append, should_stop=lambda: bool(seen and seen[-1].rows)
    )
    assert found.stopped
    assert len(found.rows) >= 1
    assert found.controls == ()
    assert seen[-1] == found


def test_the_audit_is_what_a_running_share_gives(tiny_model: Any) -> None:
    """Against the definition, from the whole distribution: p_k / (p_0 + ... + p_k)."""
    ids = np.array([5, 9, 3, 200, 17, 5, 60], np.int32)
    for support in (tiny_model.tokenizer.support(None), np.unique(np.append(ids, [1, 7, 90])).astype(np.int32)):
        (score,) = tiny_model.score([ids], support, whole_support=True)
        p = np.exp2(-score.support_bits.astype(np.float64))
        columns = np.searchsorted(support, ids)
        running = np.cumsum(p, axis=1)[np.arange(len(ids)), columns]
        expected = -np.log2(p[np.arange(len(ids)), columns] / running)
        assert score.surprisal_bits - score.cumulative_bits == pytest.approx(expected, abs=1e-3)


def test_the_published_code_counts_too_few_bits(gradient: Gradient, tiny_model: Any) -> None:
    report = measure(gradient, tiny_model, preset("paper", context_window=400, support="alphabet"), limit=1)
    assert report.audit is not None
    counted = report.audit.published_bits_per_token
    assert 0 < counted < report.totals.bits_per_token
    rate = report.totals.compression_rate
    per_token = (rate - report.audit.published_compression_rate) * 32 / report.totals.tokens_per_parameter
    assert per_token == pytest.approx(report.totals.bits_per_token - counted)
    assert measure(gradient, tiny_model, preset("best", prior="counts"), limit=1).audit is None


def test_an_empty_tensor_has_controls_too(tiny_model: Any) -> None:
    gradient = Gradient.from_arrays({"w": np.ones(500, np.float32), "none": np.zeros((0, 3), np.float32)})
    found = compare(gradient, tiny_model, [preset("best", prior="counts")], limit=1, baselines=False)
    assert [c.id for c in found.controls] == ["random_bits", "shuffled"]
    assert all(c.compression_rate for c in found.controls)


def test_rows_share_a_sample_whatever_their_seeds(gradient: Gradient, tiny_model: Any) -> None:
    configs = [preset("best", prior="counts", seed=seed) for seed in (0, 1)]
    rows = by_number(compare(gradient, tiny_model, configs, limit=2, baselines=False))
    assert rows[0].sampled_blocks == rows[1].sampled_blocks
    assert rows[0].totals == rows[1].totals


def test_differences_survive_kept_shares_that_are_no_whole_numbers(tiny_model: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(n).astype(np.float32) for name, n in (("a", 997), ("b", 1501))}
    gradient = Gradient.from_arrays(arrays)
    step = {"prior": "counts", "transform": "topk:0.7"}
    wide, narrow = (
        measure(gradient, tiny_model, preset("best", context_window=n, **step), limit=0) for n in (1024, 96)
    )
    gap = difference(narrow, wide)
    assert gap is not None
    assert gap.value == pytest.approx(narrow.totals.compression_rate - wide.totals.compression_rate)


def test_grids_name_each_setting_once() -> None:
    paper = grid("paper")
    assert len({replace(c, explicit=()) for c in paper}) == len(paper) == 16
    assert {c.alphabet for c in paper} == {"hex", "iso"}
    assert {c.group_size for c in paper} == {1, 2, 3, 4, 8}
    assert {c.context_window for c in paper} == {256, 512, 1024, 2048, 4096}
    assert all(c.byte_order == "little" and c.support == "full" and c.planes == "all" for c in paper)
    assert {c.transform for c in grid("quick", transform="bf16")} == {"bf16"}
