"""`measure`: the composition, its bookkeeping and its streaming, on a tiny random model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core.codec import Progress, measure
from lmgc_core.controls import random_bits, shuffled
from lmgc_core.errors import Cancelled, InvalidSetting
from lmgc_core.gradient import Gradient
from lmgc_core.report import TOKEN_COLUMNS, Report
from lmgc_core.report_files import REPORT_FILES, write_report
from lmgc_core.settings import CodecConfig, preset

CONFIGS = [
    preset("paper", context_window=1024),
    preset("lean", prior="llm"),
    preset("best", prior="llm"),
    CodecConfig(planes="high", alphabet="iso", separator="comma+space", group_size=1, line="auto"),
    CodecConfig(alphabet="float", separator="semicolon"),
    CodecConfig(planes="exponent", alphabet="decimal"),
]


@pytest.fixture(scope="module")
def gradient() -> Gradient:
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((8, 4, 3, 3)) * 1e-3).astype(np.float32)
    weights[2] = 0.0
    return Gradient.from_arrays(
        {"conv.weight": weights, "bias": rng.standard_normal(40).astype(np.float32), "head": np.float32(2.5)}, "toy"
    )


def parts_total(parts: dict[str, Any]) -> float:
    return float(sum(parts["modelled"]) + parts["separator"] + parts["remainder"] + parts["side_information"])


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.planes}-{c.alphabet}")
def test_everything_adds_up(gradient: Gradient, tiny_model: Any, config: CodecConfig) -> None:
    report = measure(gradient, tiny_model, config, limit=0)
    found = report.to_dict()
    totals = found["totals"]
    assert found["sample"]["complete"]
    assert found["sample"]["n_parameters"] == gradient.n_parameters == 8 * 36 + 41
    assert parts_total(found["parts"]) == pytest.approx(totals["bits_per_parameter"], rel=1e-9)
    assert totals["compression_rate"] == pytest.approx(totals["bits_per_parameter"] / 32)
    assert totals["rate_ci95"] == pytest.approx([totals["compression_rate"]] * 2)
    tokens = report.tokens
    assert tuple(tokens.columns) == TOKEN_COLUMNS
    assert tokens["surprisal_bits"].sum() == pytest.approx(totals["surprisal_bits"])
    assert len(tokens) == totals["n_tokens"]
    assert (tokens.groupby("window")["position"].min() == 1).all()
    modelled = sum(np.nansum(report.llm_bits[name], dtype=np.float64) for name in report.llm_bits)
    assert modelled == pytest.approx(totals["surprisal_bits"], rel=1e-6)
    for row in report.tensors:
        cells = report.bits[row.name]
        assert cells.shape == row.shape
        assert np.isfinite(cells).all()
        assert row.bits_per_parameter == pytest.approx(cells.mean(dtype=np.float64), rel=1e-5)
    json.dumps(found, allow_nan=False)


def test_tokens_name_the_parameters_they_touch(gradient: Gradient, tiny_model: Any) -> None:
    report = measure(gradient, tiny_model, preset("best"), limit=0)
    frame = report.tokens
    touched = frame[frame["first_parameter"] >= 0]
    assert (touched["first_parameter"] <= touched["last_parameter"]).all()
    assert set(touched["tensor"]) == {"conv.weight", "bias", "head"}
    covered = touched[touched["tensor"] == "bias"]
    assert covered["first_parameter"].min() == 0
    assert covered["last_parameter"].max() == 39


def test_a_sample_is_the_same_for_every_serialization(tiny_model: Any) -> None:
    gradient = Gradient.from_arrays({"w": np.random.default_rng(1).standard_normal(432 * 9).astype(np.float32)})
    seen = []
    for config in CONFIGS[:3]:
        report = measure(gradient, tiny_model, config, limit=4, seed=7)
        seen.append(np.isfinite(report.bits["w"]))
        assert report.to_dict()["sample"] == {
            "n_blocks": 4,
            "n_blocks_total": 9,
            "n_parameters": 4 * 432,
            "complete": False,
        }
        low, high = report.totals.rate_ci95 or (1.0, 0.0)
        assert low <= (report.totals.compression_rate or 0) <= high
    assert (seen[0] == seen[1]).all()
    assert (seen[0] == seen[2]).all()
    assert measure(gradient, tiny_model, CONFIGS[2], limit=3).totals.rate_ci95 is None


def test_progress_streams_partial_reports_and_stopping_keeps_them(tiny_model: Any) -> None:
    gradient = Gradient.from_arrays({"w": np.random.default_rng(2).standard_normal(432 * 6).astype(np.float32)})
    seen: list[Progress] = []
    whole = measure(gradient, tiny_model, preset("best", prior="llm"), limit=0, on_progress=seen.append)
    assert [p.n_windows_done for p in seen] == list(range(len(seen)))
    assert seen[-1].n_tokens_done == seen[-1].n_tokens == whole.totals.n_tokens
    assert seen[0].partial.totals.n_tokens < whole.totals.n_tokens
    assert not seen[0].partial.complete
    # A first look at a short beginning comes before any whole window, with the bits that these tokens keep.
    assert 0 < seen[0].n_tokens_done < 128
    # What waits for the mixture of its segment is never called complete.
    assert [p.partial.complete for p in seen].index(True) == len(seen) - 1
    looked = seen[0].partial.results[0].llm_surprisal_bits
    kept_for_good = whole.results[0].llm_surprisal_bits[: len(looked) - 4]
    assert looked[: len(looked) - 4] == pytest.approx(kept_for_good, abs=1e-3)
    parts = seen[0].partial.to_dict()
    assert parts_total(parts["parts"]) == pytest.approx(parts["totals"]["bits_per_parameter"])

    kept: list[Progress] = []
    with pytest.raises(Cancelled):
        measure(
            gradient, tiny_model, preset("best"), limit=0, on_progress=kept.append, should_stop=lambda: len(kept) > 0
        )
    assert kept
    assert len(kept) < len(seen)


def test_batches_do_not_change_a_number(gradient: Gradient, tiny_model: Any) -> None:
    from lmgc_core.settings import RunOptions

    one, many = (
        measure(gradient, tiny_model, CodecConfig(context_window=300), limit=0, options=RunOptions(batch_size=size))
        for size in (1, 5)
    )
    np.testing.assert_allclose(one.tokens["surprisal_bits"], many.tokens["surprisal_bits"], atol=1e-3)


def test_mixed_dtypes_have_parts_by_dtype(tiny_model: Any) -> None:
    rng = np.random.default_rng(3)
    gradient = Gradient.from_arrays(
        {"a": rng.standard_normal(50).astype(np.float32), "b": rng.integers(-9, 9, 60).astype(np.int8)}
    )
    report = measure(gradient, tiny_model, preset("best"), limit=0)
    found = report.to_dict()
    assert set(found["parts"]) == {"float32", "int8"}
    shares = {"float32": 50, "int8": 60}
    total = sum(parts_total(found["parts"][name]) * n for name, n in shares.items())
    assert total / 110 == pytest.approx(found["totals"]["bits_per_parameter"])
    assert found["totals"]["compression_rate"] == pytest.approx(total / (50 * 32 + 60 * 8))


@pytest.mark.parametrize("transform", ["bf16", "uniform:8", "uniform:4", "topk:0.1", "topk:0.1+uniform:8"])
def test_lossy_steps_are_held_against_the_raw_input(gradient: Gradient, tiny_model: Any, transform: str) -> None:
    report = measure(gradient, tiny_model, preset("best", transform=transform), limit=0)
    found = report.to_dict()
    assert found["sample"]["n_parameters"] == gradient.n_parameters
    assert parts_total(found["parts"]) == pytest.approx(found["totals"]["bits_per_parameter"])
    assert set(found["error"]) >= {"max_abs", "rmse", "cosine", "psnr_db", "n_overflowed", "n_flushed"}
    side = 8 * report.coding.transformed.side.n_bytes / gradient.n_parameters
    assert found["parts"]["side_information"] >= side
    if transform.startswith("topk"):
        dropped = report.llm_bits["conv.weight"] == 0
        assert 0.8 < dropped.mean() < 0.95
        assert found["totals"]["compression_rate"] < 0.6


@pytest.mark.parametrize(
    "arrays", [{"w": np.float32([])}, {"w": np.zeros((3, 0), np.float32), "v": np.float32([1.5])}, {"w": np.float32(7)}]
)
def test_next_to_nothing(arrays: dict[str, Any], tiny_model: Any) -> None:
    report = measure(Gradient.from_arrays(arrays), tiny_model, preset("best"))
    json.dumps(report.to_dict(), allow_nan=False)
    assert list(report.bits) == list(arrays)
    for content in REPORT_FILES.values():
        assert content(report)


def test_settings_that_do_not_fit(gradient: Gradient, tiny_model: Any) -> None:
    for config, word in (
        (CodecConfig(context_window=4096), "2048"),
        (CodecConfig(alphabet="numbers"), "conv.weight"),
        (CodecConfig(context_window=3), "context window"),
        (CodecConfig(transform="uniform:99"), "uniform"),
    ):
        with pytest.raises(InvalidSetting, match=word) as error:
            measure(gradient, tiny_model, config)
        assert "\n" not in str(error.value)
    with pytest.raises(InvalidSetting, match="limit"):
        measure(gradient, tiny_model, limit=-1)


def test_report_files(gradient: Gradient, tiny_model: Any, tmp_path: Path) -> None:
    import pandas as pd

    report = measure(gradient, tiny_model, preset("best"), limit=0)
    write_report(report, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(REPORT_FILES)
    assert json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["schema"] == 1
    frame = pd.read_parquet(tmp_path / "out" / "tokens.parquet")
    assert list(frame.columns) == list(TOKEN_COLUMNS)
    assert frame["surprisal_bits"].sum() == pytest.approx(report.totals.surprisal_bits)
    with np.load(tmp_path / "out" / "bits.npz") as stored:
        assert set(stored) == {n for t in ("conv.weight", "bias", "head") for n in (t, f"llm/{t}")}
        np.testing.assert_array_equal(stored["llm/conv.weight"], report.llm_bits["conv.weight"])
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "http" not in page
    assert "<script" not in page


def test_names_are_text_in_the_html(tiny_model: Any) -> None:
    name = "<img src=x onerror=alert(1)>"
    report = measure(Gradient.from_arrays({name: np.float32([1, 2])}, name), tiny_model, preset("best"))
    page = REPORT_FILES["report.html"](report).decode()
    assert name not in page
    assert "&lt;img src=x" in page


def check_random(report: Report) -> None:
    assert (report.totals.compression_rate or 0) >= 0.999


@pytest.mark.parametrize("name", ["paper", "lean", "best"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_random_bits_do_not_compress(tiny_model: Any, name: Any, dtype: Any) -> None:
    gradient = random_bits(Gradient.from_arrays({"w": np.zeros((40, 30), dtype)}), seed=5)
    check_random(measure(gradient, tiny_model, preset(name), limit=0))


@pytest.mark.model
@pytest.mark.parametrize("name", ["paper", "lean", "best"])
def test_random_bits_do_not_compress_with_the_real_model(default_model: Any, name: Any) -> None:
    gradient = random_bits(Gradient.from_arrays({"w": np.zeros(864, np.float32)}), seed=6)
    check_random(measure(gradient, default_model, preset(name), limit=1 if name == "paper" else 0))


@pytest.mark.model
def test_shuffling_costs_bits(default_model: Any) -> None:
    from lmgc_core.files import load_gradient
    from lmgc_core.samples import sample_path

    gradient = load_gradient(sample_path("convnet_mnist_step60")).select(["conv2.weight"])
    whole, mixed = (measure(g, default_model, preset("best"), limit=4).totals for g in (gradient, shuffled(gradient)))
    assert (mixed.bits_per_parameter or 0) > (whole.bits_per_parameter or 0) + 0.2


@pytest.mark.parametrize("name", ["best", "lean", "paper"])
def test_every_prior_adds_up(gradient: Gradient, tiny_model: Any, name: Any) -> None:
    window = {"context_window": 400} if name == "paper" else {}
    llm = measure(gradient, tiny_model, preset(name, prior="llm", **window), limit=0)
    for prior in ("counts", "mix"):
        seen: list[Progress] = []
        config = preset(name, prior=prior, support="alphabet", segment=2, **window)
        report = measure(gradient, tiny_model, config, limit=0, on_progress=seen.append)
        found = report.to_dict()
        assert parts_total(found["parts"]) == pytest.approx(found["totals"]["bits_per_parameter"])
        assert report.tokens["surprisal_bits"].sum() == pytest.approx(found["totals"]["surprisal_bits"])
        asked = report.tokens["llm_surprisal_bits"]
        assert asked.notna().all() if prior == "mix" else asked.isna().all()
        json.dumps(found, allow_nan=False)
        if prior == "mix" and name != "paper":
            assert asked.sum() == pytest.approx(llm.tokens["surprisal_bits"].sum(), rel=1e-5)
            # The model's own bits come first; a segment's windows change when it closes.
            assert seen[1].partial.totals.surprisal_bits == pytest.approx(llm.results[0].surprisal_bits.sum(), rel=1e-5)


@pytest.mark.parametrize("prior", ["counts", "mix"])
def test_random_bits_do_not_compress_under_any_prior(tiny_model: Any, prior: Any) -> None:
    gradient = random_bits(Gradient.from_arrays({"w": np.zeros((30, 30), np.float32)}), seed=5)
    for name in ("lean", "best"):
        check_random(measure(gradient, tiny_model, preset(name, prior=prior), limit=0))
