"""The heatmap of a report: its range and factor in words, clicks that select, boxes that zoom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from lmgc_core.cells import QUANTITIES
from pages.ui import data, figures, selection, state
from pages.ui.grid import Grid, View, place_in_view, view_shape
from pages.ui.picture_form import zoom
from pages.ui.selected import select

if TYPE_CHECKING:
    from lmgc_core.report import Report


def show_picture(run: str, version: int, report: Report, view: View) -> None:
    """The heatmap of a tensor; a click selects a cell, a box drawn with the mouse shows its part at full resolution."""
    shape = report.coding.raw.tensor(view.name).shape
    sizes = view_shape(shape, view.axes)
    numbers = report.cell_numbers(view.quantity)[view.name]
    grid = data.cell_grid(run, version, repr(view), numbers, view)
    words = QUANTITIES[view.quantity]
    colours = data.cell_colours(run, version, view.name, view.quantity, view.reach, words, numbers)
    zoomed = (view.rows, view.columns) != tuple((0, n) for n in sizes)
    key = f"heatmap_{view.rows}_{view.columns}" if zoomed else "heatmap"

    def touched() -> None:
        event = st.session_state.get(key)
        box = selection.picked_box(event)
        if box is not None:
            zoom(sizes, {"rows": grid.span(*box[0], 0), "columns": grid.span(*box[1], 1)})
            return
        flat = selection.picked_parameter(event, report.coding.raw.tensor(view.name).n_parameters)
        if flat is not None:
            select(report, view.name, flat)

    st.plotly_chart(
        figures.heatmap(grid, colours, selected=_outlined(grid, view, shape)),
        config=figures.CONFIG,
        key=key,
        on_select=touched,
        selection_mode=("points", "box"),
        alt=f"Heatmap of the tensor, {colours.note()}. The panel beside it tells the selected cell's numbers.",
    )
    notes = [colours.note(), grid.note()]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("; ".join(n for n in notes if n) + ". Click a cell to select it, drag a box to zoom.")
        if zoomed:
            st.button("Show all", key="zoom_out", type="tertiary", on_click=lambda: zoom(sizes, {}))


def _outlined(grid: Grid, view: View, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """The drawn cell of the selected parameter."""
    chosen = state.get(state.SELECTED)
    if not chosen or chosen[0] != view.name:
        return None
    place = place_in_view(shape, chosen[1], view.axes, view.at)
    return None if place is None else grid.cell_at(*place)
