"""The selected parameter, the same everywhere: its value, its float, its text and tokens, and its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from lmgc_core.gradient import Tensor
from pages.ui import data, selection, state
from pages.ui.format import count, number, percent, visible
from pages.ui.picture_form import axis_key
from pages.ui.selection import Parameter
from pages.ui.token_strip import PAGE_TOKENS

if TYPE_CHECKING:
    from lmgc_core.report import Report

SHOWN_TOKENS = 8


def select(report: Report, name: str, flat: int) -> None:
    """Selects a parameter everywhere: the picture turns to its tensor and slice, the strip to its tokens' page.

    To be called from a callback, since it sets what widgets show.
    """
    state.put(state.SELECTED, (name, flat))
    rows = selection.rows_of(report.tokens, name, flat)
    if rows:
        state.put(state.STRIP_PAGE, rows[0] // PAGE_TOKENS + 1)
        state.put(state.SHOWN, name)
    axes = state.get(state.AXES)
    sizes = report.coding.raw.tensor(name).shape
    if axes is not None and len(sizes) > max(axes):
        for axis, place in enumerate(np.unravel_index(flat, sizes)):
            if axis not in axes and sizes[axis] > 1:
                state.put(axis_key(axis), int(place))


def show_selected(report: Report, name: str) -> None:
    """Everything a report knows of the selected parameter; its index can be typed, its neighbours are buttons."""
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
        asked = selection.model_asked(report)
        flat = selection.most_surprising(report.cell_numbers("llm" if asked else "all")[name])
        if flat is None:
            return
        st.caption("The most surprising parameter of the sample; click a cell or a token for another.")
    bits, llm_bits = (float(np.ravel(b[name])[flat]) for b in (report.bits, report.llm_bits))
    found = selection.describe_parameter(report, raw, flat, bits, llm_bits)
    _show_value(report, found)
    _show_tokens(report, found)
    _show_neighbours(report, raw, flat)


def _show_value(report: Report, found: Parameter) -> None:
    st.text(f"[{', '.join(map(str, found.index))}] = {found.value}")
    if found.bits is None:
        st.caption("Not in the sample; raise the sample to see its bits.")
    else:
        st.markdown(f"**{number(found.bits)} bits** in all, {model_words(report, found.llm_bits)}")
        if selection.model_asked(report):
            names = ("entropy", "excess", "rank")
            entropy, excess, rank = (
                float(np.ravel(report.cell_numbers(q)[found.tensor])[found.flat])
                for q in names  # type: ignore[index]
            )
            if np.isfinite(rank):
                st.caption(
                    f"The model expected {number(entropy)} bits (entropy); surprisal minus entropy {number(excess)}; "
                    f"rank of the least expected token {count(int(rank))}"
                )
    st.code(" | ".join(text for _, text in found.fields), language=None, wrap_lines=True)
    st.caption(" | ".join(f"{label}, {len(text)}" for label, text in found.fields) + " bits")


def _show_tokens(report: Report, found: Parameter) -> None:
    if found.text is not None:
        st.text(f"text  {visible(found.text)}")
    tokens = report.tokens
    asked = selection.model_asked(report)
    for row in found.rows[:SHOWN_TOKENS]:
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
        st.text(f"{paid}, rank {count(int(token['rank']) + 1)}\nlikeliest: {alternatives}")
    if len(found.rows) > SHOWN_TOKENS:
        st.caption(f"and {count(len(found.rows) - SHOWN_TOKENS)} more tokens, marked in the strip")


def _show_neighbours(report: Report, raw: Tensor, flat: int) -> None:
    """The adjacent cells along each axis, as buttons that move the selection."""
    near = selection.neighbours(raw.shape, flat)
    if not near:
        return
    bits = np.ravel(report.bits[raw.name])
    with st.expander("Neighbours: value and bits", expanded=True, key="neighbours"):
        for axis in dict.fromkeys(n.axis for n in near):
            columns = st.columns(2, gap="small")
            for step, column in zip((-1, 1), columns, strict=True):
                there = next((n for n in near if (n.axis, n.step) == (axis, step)), None)
                label = f"axis {axis} {'−' if step < 0 else '+'}1: " + (
                    "edge" if there is None else neighbour_words(raw, there.flat, float(bits[there.flat]))
                )
                column.button(
                    label,
                    key=f"neighbour_{axis}_{step}",
                    disabled=there is None,
                    width="stretch",
                    wrap=True,
                    on_click=select,
                    args=(report, raw.name, there.flat if there else flat),
                )


def neighbour_words(tensor: Tensor, flat: int, bits: float) -> str:
    """A parameter's value and bits in a few characters."""
    value = tensor.words[flat : flat + 1].view(tensor.dtype.numpy)[0]
    short = f"{float(value):.2g}".replace("e-0", "e-").replace("-", "−")
    return f"{short}, " + ("not sampled" if np.isnan(bits) else f"{number(bits)} bits")


def model_words(report: Report, llm_bits: float | None) -> str:
    """What the model alone makes of a parameter, which under a mixture is no part of what is paid."""
    if not selection.model_asked(report):
        return "model not asked"
    alone = report.coding.config.prior == "llm"
    return f"{number(llm_bits)} of them the model's part" if alone else f"{number(llm_bits)} by the model alone as text"
