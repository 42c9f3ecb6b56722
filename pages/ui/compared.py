"""Named settings for comparisons, and a finished comparison on the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from lmgc_core.settings import CodecConfig, preset
from pages.ui import figures, state
from pages.ui.charts import show_chart
from pages.ui.format import LOWER, count, number, plain
from pages.ui.frame import show_error
from pages.ui.work import Comparison

if TYPE_CHECKING:
    from lmgc_core.report import Report

SETTINGS: dict[str, dict[str, Any]] = {
    "best": {"preset": "best"},
    "lean": {"preset": "lean"},
    "paper": {"preset": "paper"},
    "paper, big-endian": {"preset": "paper", "byte_order": "big"},
    "paper, possible tokens only": {"preset": "paper", "support": "alphabet"},
    "best, a line a row": {"preset": "best", "line": "auto"},
    "lean, a line a row": {"preset": "lean", "line": "auto"},
    "exponent byte, hex": {"preset": "none", "planes": "exponent", "alphabet": "hex", "separator": "space"},
    "top two bytes, hex": {"preset": "none", "planes": "high", "alphabet": "hex", "separator": "space"},
    "all bytes, hex, comma": {"preset": "none", "planes": "all", "alphabet": "hex", "separator": "comma"},
    "all bytes, decimal": {"preset": "none", "planes": "all", "alphabet": "decimal", "separator": "space"},
    "plain decimal text": {"preset": "none", "planes": "all", "alphabet": "float", "separator": "space"},
}
DRAWN_BASELINES = 4
DEFAULT_COMPARED = ("best", "lean", "paper")


def compared_form() -> list[str]:
    """Which settings stand side by side."""
    return st.multiselect(
        "Settings",
        list(SETTINGS),
        default=list(DEFAULT_COMPARED),
        key=state.COMPARED,
        bind="query-params",
        help="All are measured on the same parameters: blocks do not depend on the serialization.",
    )


def config_of(label: str, model: str, transform: str) -> CodecConfig:
    """Settings by their label. Raises InvalidSetting where they do not fit."""
    options = dict(SETTINGS[label])
    return preset(options.pop("preset"), **options, model=model, transform=transform)


def comparison_rows(
    reports: Mapping[str, Report], baselines: Sequence[Mapping[str, Any]] | None
) -> list[dict[str, Any]]:
    """One row a setting and a baseline, the lowest rate first."""
    rows: list[dict[str, Any]] = []
    for label, report in reports.items():
        totals = report.totals
        rows.append(
            {
                "settings": label,
                "% of raw": None if totals.compression_rate is None else 100 * totals.compression_rate,
                "interval": totals.rate_ci95,
                "bits per parameter": totals.bits_per_parameter,
                "tokens per parameter": totals.tokens_per_parameter,
                "seconds": report.seconds,
                "baseline": False,
            }
        )
    for found in baselines or ():
        if found.get("verified") and found.get("compression_rate") is not None:
            rows.append({"settings": found["id"], "% of raw": 100 * found["compression_rate"], "baseline": True})
    return sorted(rows, key=lambda r: (r["% of raw"] is None, r["% of raw"]))


def show_comparison(found: Comparison, baselines: Sequence[Mapping[str, Any]] | None) -> None:
    """The chart of rates, the table, and what did not fit."""
    rows = comparison_rows(found.reports, baselines)
    known = [r for r in rows if r["% of raw"] is not None]
    strongest = [r["settings"] for r in known if r["baseline"]][:DRAWN_BASELINES]
    drawn = [r for r in known if not r["baseline"] or r["settings"] in strongest]
    if found.reports:
        best = min((r for r in drawn if not r["baseline"]), key=lambda r: r["% of raw"], default=None)
        if best:
            st.markdown(f"Lowest rate with the model: **{best['settings']}**, {number(best['% of raw'])} % of raw.")
        figure = figures.rates_dots(
            [r["settings"] for r in drawn],
            [r["% of raw"] / 100 for r in drawn],
            [r.get("interval") for r in drawn],
            [r["baseline"] for r in drawn],
        )
        words = ", ".join(f"{r['settings']} {number(r['% of raw'])}" for r in drawn)
        note = (
            f"Settings: estimates on one sample, with 95 % intervals. Baselines: the best {len(strongest)}, on whole "
            "tensors, decoded and compared; the table has all."
        )
        show_chart(figure, f"Rates in percent of raw, lower is better: {words}", "rates", note=note)
    table = pd.DataFrame(rows)
    if len(table):
        low_high = [
            f"{number(100 * r['interval'][0])} to {number(100 * r['interval'][1])}" if r.get("interval") else "–"
            for r in rows
        ]
        table = table.assign(interval=low_high, kind=["baseline" if r["baseline"] else "model" for r in rows])
        st.dataframe(
            table.drop(columns="baseline").rename(columns={"interval": "95 % interval"}),
            hide_index=True,
            column_config={
                "% of raw": st.column_config.NumberColumn(format="%.2f", help=LOWER),
                "bits per parameter": st.column_config.NumberColumn(format="%.3g", help=LOWER),
                "tokens per parameter": st.column_config.NumberColumn(format="%.3g", help="Fewer is faster."),
                "seconds": st.column_config.NumberColumn(format="%.3g"),
            },
            placeholder="–",
            alt="Settings and baselines sorted by rate",
        )
    for label, line in found.refused.items():
        show_error(f"{label}: {line}")
    if found.reports:
        report = next(iter(found.reports.values()))
        sample = f"{count(len(report.sampled_blocks))} of {count(len(report.coding.blocks))} blocks"
        st.caption(f"{sample}, {plain(report.model.id)}.")
