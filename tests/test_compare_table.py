"""The table of a comparison as CSV and HTML, and the figures drawn from it."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest

from lmgc_core.compare import Comparison, compare
from lmgc_core.compare_table import COLUMNS, comparison_csv, comparison_html, comparison_table
from lmgc_core.gradient import Gradient
from lmgc_core.settings import CodecConfig, preset
from pages.ui.compare_figures import Point, pareto_front, rate_distortion

LABELS = {0: "best <b>", 1: "bf16 & best", 2: "lean", 3: "short"}


@pytest.fixture(scope="module")
def found(tiny_model: Any) -> Comparison:
    rng = np.random.default_rng(0)
    gradient = Gradient.from_arrays({"w": rng.standard_normal(432 * 5).astype(np.float32)})
    configs = [
        preset("best", prior="counts"),
        preset("best", prior="counts", transform="bf16"),
        preset("lean", prior="counts"),
        CodecConfig(context_window=2, prior="counts"),
    ]
    return compare(gradient, tiny_model, configs, limit=2)


def test_every_row_stands_in_the_table(found: Comparison) -> None:
    rows = comparison_table(found, LABELS)
    assert all(set(row) == set(COLUMNS) for row in rows)
    rates = [r["percent_of_raw"] for r in rows if r["percent_of_raw"] is not None]
    assert rates == sorted(rates)
    by_name = {r["settings"]: r for r in rows}
    assert by_name["bf16 & best"]["psnr_db"] > 30
    assert by_name["best <b>"]["psnr_db"] is None
    # Rows are held against the best of their own lossy step.
    assert by_name["bf16 & best"]["above_best_points"] is None
    assert (by_name["lean"]["above_best_points"] is None) != (by_name["best <b>"]["above_best_points"] is None)
    assert {r["kind"] for r in rows} == {"counts alone", "baseline, whole file", "null control, % of its own bits"}
    assert list(found.refused) == [3]


def test_csv_and_html_hold_the_same_rows(found: Comparison) -> None:
    rows = comparison_table(found, LABELS)
    read = list(csv.DictReader(io.StringIO(comparison_csv(found, LABELS))))
    assert [r["settings"] for r in read] == [r["settings"] for r in rows]
    assert float(read[0]["percent_of_raw"]) == rows[0]["percent_of_raw"]
    page = comparison_html(found, LABELS, "grad <script>")
    assert "<script>" not in page
    assert "best &lt;b&gt;" in page
    assert page.count("<tr>") == len(rows) + 1
    assert "short: " in page
    assert "http" not in page


def test_points_in_one_place_share_a_label() -> None:
    figure = pareto_front(
        [Point("a", 1.0, 5.0, True), Point("b", 1.0, 5.0), Point("c", 2.0, 6.0)],
        [("xz", 5.5)],
        x_title="tokens",
        x_better="lower",
    )
    texts = [t.text for t in figure.data if t.text]
    assert texts == [("a, b",), ("c",)]
    assert figure.layout.annotations[0].text == "xz"


def test_what_is_lossless_is_drawn_above_every_error() -> None:
    figure = rate_distortion([("best", [("bf16", 10.0, 60.0), ("none", 26.0, None)]), ("best baseline", [])])
    assert figure.data[0].x == (10.0, 26.0)
    assert figure.data[0].y[1] > 60.0
    assert "lossless" in figure.layout.yaxis.ticktext
    assert figure.data[1].line.dash == "dot"
