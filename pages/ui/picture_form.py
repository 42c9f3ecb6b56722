"""Which tensor is drawn, by which number its cells are coloured, and which part of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from lmgc_core.cells import QUANTITIES
from pages.ui import selection, state
from pages.ui.colour import REACHES
from pages.ui.format import shape
from pages.ui.grid import REDUCERS, View, two_axes, view_shape

if TYPE_CHECKING:
    from lmgc_core.report import Report, TensorRow

NAMES = {
    "llm": "model's part",
    "all": "all bits",
    "rank": "rank",
    "entropy": "entropy",
    "excess": "surprisal − entropy",
}


def picture_form(report: Report) -> View | None:
    """The controls above the picture; None before anything was sampled."""
    sampled = [row for row in report.tensors if row.n_sampled]
    names = [row.name for row in sorted(sampled, key=lambda r: -r.n_sampled)]
    if not names:
        return None
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
    with second:
        quantity = _quantity_form(selection.model_asked(report))
    row = row_of[name]
    extent: Any = "whole"
    if row.n_sampled < row.n_parameters:
        extent = third.segmented_control(
            "Rows",
            ["sampled", "whole"],
            default=state.DEFAULTS[state.EXTENT],
            required=True,
            format_func={"sampled": "sampled only", "whole": "all"}.get,
            key=state.EXTENT,
        )
    with fourth.popover("View", width="stretch"):
        part = _part_form(row, quantity)
    return View(name=name, quantity=quantity, extent=extent, **part)


def _quantity_form(asked: bool) -> Any:
    return st.selectbox(
        "Colour by",
        list(QUANTITIES) if asked else ["all"],
        format_func=NAMES.get,
        key=state.QUANTITY if asked else "quantity_unasked",
        help="The model's part is its surprisal; all bits are what is paid: those of who predicts, and the coded "
        "remainder (mantissa) of each value. Rank: where the least expected of a value's tokens stood among the "
        "model's guesses. Entropy: the bits the model expected to need; surprisal minus entropy is above zero where "
        "it was more wrong than it expected."
        if asked
        else "Counting alone predicted; the language model was not asked, so there is no part of it to draw.",
    )


def _part_form(row: TensorRow, quantity: str) -> dict[str, Any]:
    reach = 0
    if quantity != "rank":
        reach = st.selectbox(
            "Colours reach to",
            list(REACHES),
            format_func=REACHES.get,
            key=state.RANGE,
            help="What lies beyond is drawn as the end of the scale. A fixed range makes two pictures comparable.",
        )
    axes, at = None, ()
    if pairs := two_axes(row.shape):
        axes = st.selectbox(
            "Axes",
            [None, *pairs],
            format_func=lambda p: "first axis × all others" if p is None else f"axis {p[0]} × axis {p[1]}",
            key=state.AXES,
        )
        if axes is not None:
            rest = [i for i in range(len(row.shape)) if i not in axes]
            at = tuple(
                st.slider(f"axis {i}", 0, row.shape[i] - 1, key=axis_key(i)) if row.shape[i] > 1 else 0 for i in rest
            )
    spans = {}
    for label, n in zip(("rows", "columns"), view_shape(row.shape, axes), strict=True):
        key = zoom_key(label, n)
        spans[label] = st.slider(f"{label.capitalize()}, from and to", 0, n, (0, n), key=key) if n > 1 else (0, n)
    reducer = st.segmented_control(
        "A cell of several parameters shows their",
        REDUCERS,
        default=state.DEFAULTS[state.REDUCER],
        required=True,
        key=state.REDUCER,
    )
    zoomed = {label: (first, max(last, first + 1)) for label, (first, last) in spans.items()}
    return {"reach": reach, "axes": axes, "at": at, "reducer": reducer, **zoomed}


def axis_key(axis: int) -> str:
    """The session key of the position held on an axis."""
    return f"axis_{axis}"


def zoom_key(label: str, n: int) -> str:
    """The session key of the rows or columns drawn, of `n`."""
    return f"{state.ZOOM}_{label}_{n}"


def zoom(sizes: tuple[int, int], spans: Mapping[str, tuple[int, int]]) -> None:
    """Draws these rows and columns alone, or all of them where none are named; to be called from a callback."""
    for label, n in zip(("rows", "columns"), sizes, strict=True):
        if n > 1:
            first, last = spans.get(label, (0, n))
            state.put(zoom_key(label, n), (max(0, min(first, n - 1)), min(last, n)))
