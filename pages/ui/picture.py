"""The heatmap and the parameter selected in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages.ui import data, figures, selection, state
from pages.ui.colour import bits_range
from pages.ui.format import (
    number,
    percent,
    shape,
    visible,
)
from pages.ui.grid import REDUCERS, two_axes
from pages.ui.token_strip import PAGE_TOKENS

if TYPE_CHECKING:
    from lmgc_core.report import Report

QUANTITIES = {"llm": "model's part", "all": "all bits"}


def picture_controls(report: Report) -> dict[str, Any]:
    """Which tensor is drawn, which bits, how much of it, along which axes."""
    sampled = [row for row in report.tensors if row.n_sampled]
    names = [row.name for row in sorted(sampled, key=lambda r: -r.n_sampled)]
    if not names:
        return {}
    row_of = {row.name: row for row in sampled}
    if st.session_state.get(state.SHOWN) not in names:
        st.session_state.pop(state.SHOWN, None)
    with st.container(key="picture_controls"):
        first, second, third, fourth = st.columns([4, 3, 3, 2], vertical_alignment="bottom")
    name = first.selectbox(
        "Tensor",
        names,
        key=state.SHOWN,
        format_func=lambda n: f"{n or '(no name)'} · {shape(row_of[n].shape)}",
    )
    asked = selection.model_asked(report)
    quantity = second.segmented_control(
        "Colour",
        list(QUANTITIES) if asked else ["all"],
        default=state.DEFAULTS[state.QUANTITY] if asked else "all",
        required=True,
        format_func=QUANTITIES.get,
        key=state.QUANTITY if asked else "quantity_unasked",
        help="The model's part is its surprisal; all bits are what is paid: those of who predicts, and the coded "
        "remainder (mantissa) of each value."
        if asked
        else "Counting alone predicted; the language model was not asked, so there is no part of it to draw.",
    )
    row = row_of[name]
    partly = row.n_sampled < row.n_parameters
    extent = "whole"
    if partly:
        extent = third.segmented_control(
            "Rows",
            ["sampled", "whole"],
            default=state.DEFAULTS[state.EXTENT],
            required=True,
            format_func={"sampled": "sampled only", "whole": "all"}.get,
            key=state.EXTENT,
        )
    axes, at = None, ()
    reducer = state.get(state.REDUCER)
    pairs = two_axes(row.shape)
    if pairs:
        with fourth.popover("Axes", width="stretch"):
            axes = st.selectbox(
                "Axes",
                [None, *pairs],
                format_func=lambda p: "first axis × all others" if p is None else f"axis {p[0]} × axis {p[1]}",
                key=state.AXES,
            )
            if axes is not None:
                rest = [i for i in range(len(row.shape)) if i not in axes]
                at = tuple(
                    st.slider(f"axis {i}", 0, row.shape[i] - 1, key=f"axis_{i}") if row.shape[i] > 1 else 0
                    for i in rest
                )
            reducer = st.segmented_control(
                "A cell of several parameters shows their",
                REDUCERS,
                default=state.DEFAULTS[state.REDUCER],
                required=True,
                key=state.REDUCER,
            )
    return {"name": name, "quantity": quantity, "extent": extent, "axes": axes, "at": at, "reducer": reducer}


def show_picture(run: str, version: int, report: Report, view: Mapping[str, Any]) -> None:
    """The heatmap, its range and factor in words, and clicks on it."""
    grid = data.bits_grid(run, version, report, **view)
    span = bits_range(data.quantity_bits(report, view["name"], view["quantity"]))
    chosen = state.get(state.SELECTED)
    selected = chosen[1] if chosen and chosen[0] == view["name"] else None
    what = "bits per parameter, model's part" if view["quantity"] == "llm" else "bits per parameter, all parts"
    figure = data.bits_figure(run, version, repr(sorted(view.items(), key=str)), grid, span, what, selected)

    def clicked() -> None:
        n_parameters = report.coding.raw.tensor(view["name"]).n_parameters
        flat = selection.picked_parameter(st.session_state.get("heatmap"), n_parameters)
        if flat is not None:
            select(report, view["name"], flat)

    st.plotly_chart(
        figure,
        config=figures.CONFIG,
        key="heatmap",
        on_select=clicked,
        selection_mode="points",
        alt=f"Heatmap of {what} over the tensor, colours from {span[0]:g} to {span[1]:g} bits",
    )
    notes = [f"{what}; colours from {span[0]:g} to {span[1]:g} bits, higher drawn as {span[1]:g}", grid.note()]
    st.caption("; ".join(n for n in notes if n) + ". Click a cell, or type its index.")


def show_selected(report: Report, name: str) -> None:
    """The selected parameter: value, bits of the float, text, tokens, alternatives. Its index can be typed."""
    asked = selection.model_asked(report)
    raw = report.coding.raw.tensor(name)
    chosen = state.get(state.SELECTED)
    flat = chosen[1] if chosen and chosen[0] == name and chosen[1] < raw.n_parameters else None

    def typed() -> None:
        found = selection.parse_index(st.session_state.get("typed_index", ""), raw.shape)
        if found is not None:
            select(report, name, found)

    st.text_input(
        "Selected parameter: index",
        key="typed_index",
        on_change=typed,
        placeholder="17, 4, 1, 2 or a flat index",
        help="The position in the tensor, or the flat index in C order.",
    )
    if flat is None:
        flat = selection.most_surprising(data.quantity_bits(report, name, "llm" if asked else "all"))
        if flat is None:
            return
        st.caption("The most surprising parameter of the sample; click a cell or a token for another.")
    bits, llm_bits = (float(np.ravel(b[name])[flat]) for b in (report.bits, report.llm_bits))
    found = selection.describe_parameter(report, raw, flat, bits, llm_bits)
    st.text(f"[{', '.join(map(str, found.index))}] = {found.value}")
    if found.bits is None:
        st.caption("Not in the sample; raise the sample to see its bits.")
    else:
        st.markdown(f"**{number(found.bits)} bits** in all, {model_words(report, found.llm_bits)}")
    st.code(" | ".join(text for _, text in found.fields), language=None, wrap_lines=True)
    st.caption(" | ".join(f"{label}, {len(text)}" for label, text in found.fields) + " bits")
    if found.text is not None:
        st.text(f"text  {visible(found.text)}")
    tokens = report.tokens
    for row in found.rows[:8]:
        token = tokens.iloc[row]
        paid = f"{visible(token['text'])}   {number(float(token['surprisal_bits']))} bits"
        if not asked:
            st.text(f"{paid}, by counting; model not asked")
            continue
        alternatives = ", ".join(
            f"{visible(text)} {percent(2.0 ** -float(b))}"
            for text, b in zip(
                data.top_texts(report.model.id, token["top_token_ids"]), list(token["top_bits"]), strict=False
            )
            if np.isfinite(b)
        )
        st.text(f"{paid}, rank {int(token['rank']) + 1}\nlikeliest: {alternatives}")


def model_words(report: Report, llm_bits: float | None) -> str:
    """What the model alone makes of a parameter, which under a mixture is no part of what is paid."""
    if not selection.model_asked(report):
        return "model not asked"
    alone = report.coding.config.prior == "llm"
    return f"{number(llm_bits)} of them the model's part" if alone else f"{number(llm_bits)} by the model alone as text"


def select(report: Report, name: str, flat: int) -> None:
    """Makes a parameter the selected one everywhere; the strip turns to the page of its tokens."""
    state.put(state.SELECTED, (name, flat))
    rows = selection.rows_of(report.tokens, name, flat)
    if rows:
        state.put(state.STRIP_PAGE, rows[0] // PAGE_TOKENS + 1)
