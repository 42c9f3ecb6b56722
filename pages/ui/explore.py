"""Views of a report that lead to single parameters: both ends of the scale, value against bits, groups of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import streamlit as st

from lmgc_core.cells import QUANTITIES
from lmgc_core.groups import Extreme, extremes, grouped, value_points
from pages.ui import explore_figures, figures, selection, state
from pages.ui.charts import show_chart
from pages.ui.format import count, counted, number, plain
from pages.ui.grid import View
from pages.ui.selected import select

if TYPE_CHECKING:
    from lmgc_core.report import Report

GROUPINGS = {"tensor": "tensor", "kind": "kind", "layer": "layer", "step": "step"}
SHOWN_GROUPS = 40


def show_extremes(report: Report, view: View) -> None:
    """The parameters with the largest and the smallest number of the sample; a chosen row is selected everywhere."""
    words = QUANTITIES[view.quantity]
    most, least = extremes(report, view.quantity)
    for column, title, found, key in zip(
        st.columns(2, gap="medium"), ("Largest", "Smallest"), (most, least), ("most", "least"), strict=True
    ):
        with column:
            st.markdown(f"**{title}**: {words}")
            _show_rows(report, found, words, f"extremes_{key}")
    st.caption("Of everything sampled, all tensors; equal numbers in the order of the file. Select a row to see it.")


def _show_rows(report: Report, found: tuple[Extreme, ...], words: str, key: str) -> None:
    def place(e: Extreme) -> str:
        shape = report.coding.raw.tensor(e.tensor).shape
        return f"{e.tensor} [{', '.join(str(int(i)) for i in np.unravel_index(e.flat, shape))}]" if shape else e.tensor

    rows = pd.DataFrame({"parameter": [place(e) for e in found], "value": [e.value for e in found], words: [
        e.number for e in found]})  # fmt: skip

    def chosen() -> None:
        event = st.session_state.get(key)
        picked = event["selection"]["rows"] if event else []
        if picked:
            select(report, found[picked[0]].tensor, found[picked[0]].flat)

    st.dataframe(
        rows,
        hide_index=True,
        key=key,
        on_select=chosen,
        selection_mode="single-row",
        column_config={
            "value": st.column_config.NumberColumn(format="%.3g"),
            words: st.column_config.NumberColumn(format="%.4g"),
        },
        alt=f"Table of parameters and their {words}",
    )


def show_values(report: Report, view: View) -> None:
    """Value against number, for some of the shown tensor's sampled parameters; a point selects."""
    points = value_points(report, view.name, view.quantity)
    words = QUANTITIES[view.quantity]
    chosen = state.get(state.SELECTED)
    selected = chosen[1] if chosen and chosen[0] == view.name else None

    def clicked() -> None:
        n = report.coding.raw.tensor(view.name).n_parameters
        flat = selection.picked_parameter(st.session_state.get("value_scatter"), n)
        if flat is not None:
            select(report, view.name, flat)

    st.plotly_chart(
        explore_figures.value_scatter(points, words, selected),
        config=figures.CONFIG,
        key="value_scatter",
        on_select=clicked,
        selection_mode="points",
        alt=f"Scatter of the sizes of {counted(int(points.flat.size), 'value')} against their {words}",
    )
    taken = "all" if points.step == 1 else f"every {count(points.step)}th, {count(int(points.flat.size))} points,"
    n_zero = int((points.values == 0).sum())
    zeros = f" {counted(n_zero, 'zero')} among them can't stand on this axis." if n_zero else ""
    st.caption(f"Of {plain(view.name) or 'the tensor'}: {taken} of {count(points.n_finite)} sampled values.{zeros}")


def grouping_form() -> str:
    """By what the tensors are taken together; "tensor" leaves each alone."""
    return str(
        st.segmented_control(
            "By",
            list(GROUPINGS),
            default=state.DEFAULTS[state.GROUP_BY],
            required=True,
            format_func=GROUPINGS.get,
            key=state.GROUP_BY,
            help="Kinds and layers are read from names and shapes; the step from names such as step_00000100.",
        )
    )


def show_groups(report: Report, by: str) -> None:
    """Bits by kind, layer or step of the sampled tensors."""
    found = grouped(report.tensors, by)  # type: ignore[arg-type]
    shown = found[:SHOWN_GROUPS]
    asked = selection.model_asked(report)
    table = pd.DataFrame(
        [
            (g.label, g.n_tensors, g.n_sampled, g.bits_per_parameter, *([g.llm_bits_per_parameter] if asked else []))
            for g in found
        ],
        columns=[by, "tensors", "sampled", "bits_per_parameter", *(["model_bits_per_parameter"] if asked else [])],
    )
    names = [figures.label_text(g.label) for g in shown]
    words = ", ".join(f"{g.label} {number(g.bits_per_parameter)}" for g in shown)
    more = f"; the first {SHOWN_GROUPS} of {count(len(found))} are drawn" if len(found) > SHOWN_GROUPS else ""
    sampled = ", ".join(f"{plain(g.label)} {count(g.n_sampled)}" for g in shown[:8])
    show_chart(
        explore_figures.group_bars(
            names, [g.bits_per_parameter for g in shown], [g.llm_bits_per_parameter for g in shown] if asked else None
        ),
        f"Bits per parameter by {by}: {words}",
        f"groups_{by}",
        table,
        f"Means over the sampled parameters, side information apart; sampled: {sampled}{more}. Lower is better.",
    )
