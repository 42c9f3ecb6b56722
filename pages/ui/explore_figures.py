"""Finished figures for exploring a report: groups of tensors, value against bits. Pure functions, no Streamlit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from lmgc_core.groups import ValuePoints
from pages.ui.colour import LINES
from pages.ui.figures import SELECTED
from pages.ui.format import number

_MARGIN = {"l": 60, "r": 16, "t": 30, "b": 44}


def group_bars(
    labels: Sequence[str], bits: Sequence[float], llm_bits: Sequence[float] | None, *, height: int | None = None
) -> go.Figure:
    """Bits per parameter of groups of tensors: all bits, and beside them the model's where it was asked.

    Labels must be our own words or layer names without marks of HTML: they are shown as they are.
    """
    figure = go.Figure()
    series = [("all bits", bits, LINES[0])] + ([("model's part", llm_bits, LINES[1])] if llm_bits is not None else [])
    for name, values, colour in series:
        figure.add_trace(
            go.Bar(
                x=[float(v) for v in values],
                y=list(labels),
                orientation="h",
                name=name,
                marker={"color": colour},
                text=[number(float(v)) for v in values],
                textposition="outside",
                cliponaxis=False,
                hovertemplate="%{y}: %{x:.3f} bits per parameter, " + name + "<extra></extra>",
            )
        )
    figure.update_layout(
        height=height or 110 + 26 * len(series) * len(labels),
        barmode="group",
        margin=_MARGIN | {"l": 8, "r": 56},
        xaxis={"title": {"text": "bits per parameter"}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "automargin": True, "showgrid": False, "type": "category"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        showlegend=len(series) > 1,
    )
    return figure


def value_scatter(points: ValuePoints, quantity: str, selected: int | None = None, *, height: int = 340) -> go.Figure:
    """Size of a value against its number, positive and negative apart by colour and shape; zeros have no place here."""
    figure = go.Figure()
    for name, colour, symbol, sign in (
        ("positive", LINES[0], "circle", points.values > 0),
        ("negative", LINES[1], "diamond-open", points.values < 0),
    ):
        figure.add_trace(
            go.Scattergl(
                x=np.abs(points.values[sign]),
                y=points.numbers[sign],
                customdata=points.flat[sign].astype(np.float64),
                mode="markers",
                name=name,
                marker={"size": 5, "color": colour, "symbol": symbol, "opacity": 0.7},
                selected={"marker": {"opacity": 0.7}},
                unselected={"marker": {"opacity": 0.7}},
                hovertemplate="parameter %{customdata:d}<br>size %{x:.3g}<br>%{y:.3~f} " + quantity + "<extra></extra>",
            )
        )
    at = np.flatnonzero((points.flat == selected) & (points.values != 0)) if selected is not None else np.zeros(0, int)
    if at.size:
        figure.add_trace(
            go.Scattergl(
                x=np.abs(points.values[at]),
                y=points.numbers[at],
                mode="markers",
                name="selected",
                marker={"size": 14, "color": SELECTED, "symbol": "circle-open", "line": {"width": 3}},
                hoverinfo="skip",
            )
        )
    figure.update_layout(
        height=height,
        margin=_MARGIN,
        dragmode=False,
        xaxis={"title": {"text": "size of the value"}, "type": "log", "exponentformat": "e", "nticks": 6},
        yaxis={"title": {"text": quantity}},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )
    return figure
