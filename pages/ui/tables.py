"""The small print of a report: parts, context, tensors, baselines, downloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from pages.ui import data, explore, figures, selection, state
from pages.ui.charts import show_chart
from pages.ui.format import (
    ABSENT,
    LOWER,
    count,
    number,
    plain,
    shape,
    size,
)
from pages.ui.selected import select

if TYPE_CHECKING:
    from lmgc_core.report import Report

PLANES_PARTS = {"head": ("sign and exponent",), "exponent": ("exponent byte",)}


def part_names(n: int, planes: str) -> list[str]:
    """What the modelled parts of a serialization are called.

    >>> part_names(1, "head"), part_names(2, "all")
    (['sign and exponent'], ['byte 1', 'byte 2'])
    """
    return (
        list(PLANES_PARTS.get(planes, ())) if n == 1 and planes in PLANES_PARTS else [f"byte {i + 1}" for i in range(n)]
    )


def show_parts(report: Report) -> None:
    """Bits by what they pay for, one chart for each dtype."""
    for name, parts in report.parts_by_dtype.items():
        planes = report.coding.serializers[name].serialization.planes
        bars = dict(zip(part_names(len(parts.modelled), planes), parts.modelled, strict=True))
        bars["separators"] = parts.separator
        if report.coding.serializers[name].remainder_bits:
            bars["remainder (mantissa)"] = parts.remainder
        bars["side information"] = parts.side_information
        if len(report.parts_by_dtype) > 1:
            st.text(name)
        table = pd.DataFrame({"part": list(bars), "bits_per_parameter": list(bars.values())})
        words = ", ".join(f"{label} {number(value)}" for label, value in bars.items())
        note = f"They add up to {number(parts.total)} bits per parameter."
        show_chart(figures.parts_bar(bars), f"Bits per parameter by part: {words}", f"parts_{name}", table, note)


def show_context(report: Report) -> None:
    """Bits per token along the window."""
    positions, bits = report.context_curve
    if not positions:
        return
    table = pd.DataFrame({"token_position": positions, "bits_per_token": bits})
    alt = f"Bits per token along the window, from {number(bits[0])} at its start to {number(bits[-1])} at its end"
    tokens, chosen = report.tokens, state.get(state.SELECTED)
    own = tokens.iloc[list(selection.rows_of(tokens, *chosen)[:1])] if chosen else tokens.iloc[:0]

    def clicked() -> None:
        points = ((st.session_state.get("context") or {}).get("selection") or {}).get("points") or []
        window = int(own["window"].iat[0] if len(own) else tokens["window"].iat[0])
        found = selection.parameter_at(tokens, window, round(points[0]["x"])) if points else None
        if found is not None:
            select(report, *found)

    note = (
        "Means over the sampled windows. A curve that falls shows a model that learns from what it has read. "
        "A point selects the parameter at that place of the selected one's window; the dotted line is the selection."
    )
    figure = figures.context_curve(positions, bits, own["position"].to_list())
    show_chart(figure, alt, "context", table, note, clicked)


def show_tensors(report: Report) -> None:
    """The table of tensors, or groups of them; a chosen row selects its tensor's most surprising parameter."""
    by = explore.grouping_form()
    if by != "tensor":
        explore.show_groups(report, by)
        return
    rows = pd.DataFrame(
        [
            {
                "tensor": r.name,
                "shape": shape(r.shape),
                "dtype": r.dtype,
                "parameters": r.n_parameters,
                "sampled": r.n_sampled,
                "bits per parameter": r.bits_per_parameter,
                "model's part": r.llm_bits_per_parameter,
            }
            for r in report.tensors[:10_000]
        ]
    )

    def chosen() -> None:
        event = st.session_state.get("tensor_table")
        picked = event["selection"]["rows"] if event else []
        if picked and rows["sampled"].iat[picked[0]]:
            name = str(rows["tensor"].iat[picked[0]])
            numbers = report.cell_numbers("llm" if selection.model_asked(report) else "all")[name]
            flat = selection.most_surprising(numbers)
            if flat is not None:
                select(report, name, flat)

    st.dataframe(
        rows if selection.model_asked(report) else rows.drop(columns="model's part"),
        hide_index=True,
        key="tensor_table",
        on_select=chosen,
        selection_mode="single-row",
        column_config={
            "parameters": st.column_config.NumberColumn(format="localized"),
            "sampled": st.column_config.NumberColumn(format="localized"),
            "bits per parameter": st.column_config.NumberColumn(format="%.3g", help=f"All parts; {LOWER}."),
            "model's part": st.column_config.NumberColumn(format="%.3g"),
        },
        placeholder="–",
        alt="Table of tensors with bits per parameter",
    )
    st.caption(
        "Bits per parameter of the sampled values, side information apart; lower is better. Select a row to see it."
    )


def show_error_figures(report: Report) -> None:
    """What the lossy step did to the values."""
    error = report.error
    table = pd.DataFrame(
        [
            ("largest difference", number(error.max_abs), "of a finite value"),
            ("root mean square error", number(error.rmse), "over all finite values"),
            ("cosine similarity", _fine(error.cosine), "of the two gradients; 1 is the same direction"),
            ("PSNR, dB", number(error.psnr_db), "value range over root mean square error; higher is better"),
            ("became zero", count(error.n_flushed), "values, those that were dropped included"),
            ("overflowed", count(error.n_overflowed), "finite values that no longer are"),
        ],
        columns=["figure", "value", "meaning"],
    )
    st.dataframe(table, hide_index=True, alt="Table of the lossy step's errors")
    step = plain(report.coding.config.transform)
    tensor = max(report.coding.raw, key=lambda t: t.n_parameters)
    digest = report.coding.raw.identity
    values = data.value_counts(f"{digest}/{tensor.name}", tensor)
    if values.counts:
        left = report.coding.transformed.values.tensor(tensor.name)
        span = (values.edges[0], values.edges[-1])
        outline = data.value_counts(f"{digest}/{tensor.name}/{report.coding.config.transform}", left, span)
        show_chart(
            figures.value_histogram(values.counts, values.edges, outline.counts),
            f"Histogram of the values of {tensor.name or 'the tensor'} before and after the lossy step",
            "lossy_histogram",
            note=f"Values of {plain(tensor.name) or 'the tensor'}, the largest chosen.",
        )
    st.caption(f"Values before against after the lossy step {step}, over everything chosen, not the sample alone.")


def _fine(value: float | None) -> str:
    """A number near 1 with the figures that tell it from 1.

    >>> _fine(0.99999871), _fine(None)
    ('0.99999871', '–')
    """
    return ABSENT if value is None else f"{value:.8f}".rstrip("0").rstrip(".")


def show_baselines(rows: Sequence[Mapping[str, Any]]) -> None:
    """Every baseline with its rate, the best first."""
    table = pd.DataFrame(
        [
            {
                "baseline": r["id"],
                "% of raw": None if r["compression_rate"] is None else 100 * r["compression_rate"],
                "size": size(r["bytes"]),
                "decoded and compared": "yes" if r["verified"] else (r.get("reason") or "no"),
            }
            for r in rows
        ]
    ).sort_values("% of raw", na_position="last")
    st.dataframe(
        table,
        hide_index=True,
        column_config={"% of raw": st.column_config.NumberColumn(format="%.2f", help=LOWER)},
        placeholder="–",
        alt="Table of baselines with their rates",
    )
    st.caption("Whole chosen tensors, not the sample; lower is better.")


def show_downloads(run: str, version: int, report: Report) -> None:
    """The files that the command line writes."""
    kinds = {
        "report.json": ("application/json", "every number"),
        "tokens.parquet": ("application/vnd.apache.parquet", "a row a token"),
        "bits.npz": ("application/zip", "bits per parameter in the tensors' shapes"),
        "report.html": ("text/html", "numbers and pictures in one file"),
    }
    with st.container(horizontal=True):
        for name, (mime, about) in kinds.items():
            st.download_button(
                name,
                lambda name=name: data.report_file(run, version, name, report),
                name,
                mime,
                key=f"download_{name}",
                on_click="ignore",
                help=about,
            )
