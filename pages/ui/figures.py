"""Finished Plotly figures from finished numbers: pure functions, no Streamlit.

Every figure titles its axes with units and carries no text from files (Plotly reads titles and hovers
as HTML). Colours work on light and dark backgrounds; the page supplies fonts and background.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from pages.ui.colour import LINES, RANK_NAMES, UNSAMPLED, Colouring
from pages.ui.format import number
from pages.ui.grid import Grid

CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "scrollZoom": False,
    "modeBarButtonsToRemove": ["lasso2d", "select2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "png", "scale": 2},
}
_MARGIN = {"l": 60, "r": 16, "t": 12, "b": 44}
_SVG_POINTS = 1500
SELECTED = "#e4572e"


def heatmap(grid: Grid, colours: Colouring, *, selected: tuple[int, int] | None = None, height: int = 380) -> go.Figure:
    """Numbers over a tensor: colours for what was measured, grey for what was not, clickable cells.

    A heatmap's cells report no clicks, so an invisible point lies on each measured cell and carries the
    cell's flat parameter index as `customdata`. A picture of few cells has its numbers written in them.

    Args:
        grid: the picture, at most 256×256.
        colours: the scale of the numbers and what they are.
        selected: the drawn row and column of the selected parameter's cell, outlined.
    """
    values = grid.values
    n_rows, n_columns = values.shape
    known = ~np.isnan(values)
    y, x = np.nonzero(known)
    margin, unit = (0.5, "rank") if colours.is_banded else (0.0, "bits")
    bands = {"tickvals": [0, 1, 2, 3], "ticktext": list(RANK_NAMES)} if colours.is_banded else {}
    figure = go.Figure()
    if not known.all():
        figure.add_trace(
            go.Heatmap(
                z=np.where(known, np.nan, 0.0).astype(np.float32),
                colorscale=[[0, UNSAMPLED], [1, UNSAMPLED]],
                showscale=False,
                hoverinfo="skip",
                opacity=0.35,
            )
        )
        figure.add_trace(
            go.Scatter(
                x=[None],
                y=[None],
                mode="markers",
                name="not sampled",
                marker={"symbol": "square", "size": 12, "color": UNSAMPLED, "opacity": 0.35},
                showlegend=True,
            )
        )
    figure.add_trace(
        go.Heatmap(
            z=colours.placed(values),
            zmin=colours.low - margin,
            zmax=colours.high + margin,
            colorscale=colours.scale,
            hoverinfo="skip",
            hoverongaps=False,
            colorbar={"title": {"text": unit, "side": "right"}, "thickness": 12, "outlinewidth": 0} | bands,
            **_written(values, known),
        )
    )
    scatter = go.Scattergl if x.size > _SVG_POINTS else go.Scatter
    figure.add_trace(
        scatter(
            x=x.astype(np.int16),
            y=y.astype(np.int16),
            customdata=grid.index[y, x].astype(np.int32 if grid.index.max(initial=0) < 2**31 else np.float64),
            text=values[y, x],
            mode="markers",
            marker={"opacity": 0, "size": max(4, min(24, 600 // max(n_columns, 1))), "symbol": "square"},
            selected={"marker": {"opacity": 0}},
            unselected={"marker": {"opacity": 0}},
            hovertemplate="parameter %{customdata:d}<br>%{text:.3~f} " + colours.words + "<extra></extra>",
            showlegend=False,
        )
    )
    if selected is not None:
        row, column = selected
        figure.add_shape(
            type="rect",
            x0=column - 0.5,
            x1=column + 0.5,
            y0=row - 0.5,
            y1=row + 0.5,
            line={"color": SELECTED, "width": 3},
        )
    figure.update_layout(
        height=height,
        margin=_MARGIN,
        dragmode="select",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={
            **_index_axis(grid.columns, grid.column_label),
            "range": [-0.5, n_columns - 0.5],
            "showgrid": False,
            "zeroline": False,
        },
        yaxis={
            **_index_axis(grid.rows, grid.row_label),
            "range": [n_rows - 0.5, -0.5],
            "showgrid": False,
            "zeroline": False,
        },
    )
    return figure


def _written(values: npt.NDArray[np.float32], known: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """The numbers themselves in the cells, where there is room for them."""
    if values.shape[0] > 16 or values.shape[1] > 16:
        return {}
    texts = np.where(known, np.vectorize(lambda v: number(float(v), 2))(values), "")
    return {"text": texts, "texttemplate": "%{text}"}


def _index_axis(labels: npt.NDArray[np.int64], title: str) -> dict[str, Any]:
    places = np.unique(np.linspace(0, max(labels.size - 1, 0), min(labels.size, 7)).round().astype(int))
    return {"title": {"text": title}, "tickvals": places.tolist(), "ticktext": [str(labels[i]) for i in places]}


def label_text(text: str) -> str:
    """A name from a file as a label that Plotly shows as it stands.

    >>> label_text("a<b>")
    'a&lt;b&gt;'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def parts_bar(parts: Mapping[str, float], *, height: int | None = None) -> go.Figure:
    """Bits per parameter by what they pay for, one labelled bar a part."""
    names, bits = list(parts), [float(v) for v in parts.values()]
    figure = go.Figure(
        go.Bar(
            x=bits,
            y=names,
            orientation="h",
            marker={"color": LINES[0]},
            text=[f"{number(b)}" for b in bits],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}: %{x:.3f} bits per parameter<extra></extra>",
        )
    )
    figure.update_layout(
        height=height or 90 + 34 * len(names),
        margin=_MARGIN | {"l": 8, "r": 48},
        xaxis={"title": {"text": "bits per parameter"}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "automargin": True, "showgrid": False},
        showlegend=False,
    )
    return figure


def context_curve(
    positions: Sequence[float], bits: Sequence[float], marked: Sequence[int] = (), *, height: int = 280
) -> go.Figure:
    """Bits per token against the token's place in its window; a line at each marked place."""
    figure = go.Figure(
        go.Scatter(
            x=list(positions),
            y=list(bits),
            mode="lines+markers",
            line={"color": LINES[0], "width": 2},
            marker={"size": 6},
            selected={"marker": {"opacity": 1}},
            unselected={"marker": {"opacity": 1}},
            hovertemplate="around token %{x}: %{y:.2f} bits<extra></extra>",
        )
    )
    for place in marked:
        figure.add_vline(x=place, line={"color": SELECTED, "width": 2, "dash": "dot"})
    figure.update_layout(
        height=height,
        margin=_MARGIN,
        xaxis={"title": {"text": "token position in the window"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "bits per token"}, "rangemode": "tozero"},
        showlegend=False,
    )
    return figure


def value_histogram(
    counts: Sequence[int], edges: Sequence[float], after: Sequence[int] | None = None, *, height: int = 240
) -> go.Figure:
    """How often values of each size occur, on a logarithmic count axis; `after` a lossy step as an outline."""
    edges_ = np.asarray(edges, np.float64)
    figure = go.Figure(
        go.Bar(
            x=(edges_[:-1] + edges_[1:]) / 2,
            y=np.asarray(counts),
            width=np.diff(edges_),
            name="before",
            marker={"color": LINES[0], "line": {"width": 0}},
            hovertemplate="around %{x:.3g}: %{y:,} values<extra></extra>",
        )
    )
    if after is not None:
        figure.add_trace(
            go.Scatter(
                x=np.repeat(edges_, 2)[1:-1],
                y=np.repeat(np.maximum(np.asarray(after, np.float64), 0.5), 2),
                name="after the lossy step",
                mode="lines",
                line={"color": LINES[1], "width": 2},
                hovertemplate="around %{x:.3g}: %{y:,.0f} values after<extra></extra>",
            )
        )
    figure.update_layout(
        height=height,
        margin=_MARGIN if after is None else _MARGIN | {"t": 30},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        bargap=0,
        xaxis={"title": {"text": "value"}, "exponentformat": "e", "nticks": 6},
        yaxis={"title": {"text": "parameters"}, "type": "log", "exponentformat": "SI", "dtick": 1},
        showlegend=after is not None,
    )
    return figure


def exponent_histogram(exponents: Sequence[int], counts: Sequence[int], *, height: int = 240) -> go.Figure:
    """How often each power of two occurs, signs apart from it; zeros and denormals are not drawn."""
    figure = go.Figure(
        go.Bar(
            x=list(exponents),
            y=list(counts),
            marker={"color": LINES[1], "line": {"width": 0}},
            hovertemplate="2^%{x}: %{y:,} values<extra></extra>",
        )
    )
    figure.update_layout(
        height=height,
        margin=_MARGIN,
        bargap=0.1,
        xaxis={"title": {"text": "exponent: values from 2^e to 2^(e+1)"}, "nticks": 8},
        yaxis={"title": {"text": "parameters"}, "exponentformat": "SI", "nticks": 5},
        showlegend=False,
    )
    return figure


def loss_curve(
    steps: Sequence[int], losses: Sequence[float], recorded: Sequence[int] = (), *, height: int = 300
) -> go.Figure:
    """Training loss by step, the recorded steps marked."""
    figure = go.Figure(
        go.Scatter(
            x=list(steps),
            y=list(losses),
            mode="lines",
            line={"color": LINES[0], "width": 2},
            hovertemplate="step %{x}: loss %{y:.3f}<extra></extra>",
        )
    )
    at = {s: v for s, v in zip(steps, losses, strict=True) if s in set(recorded)}
    if at:
        figure.add_trace(
            go.Scatter(
                x=list(at),
                y=list(at.values()),
                mode="markers+text",
                text=["gradient kept"] * len(at),
                textposition="top center",
                marker={"size": 10, "color": LINES[1], "symbol": "diamond"},
                hovertemplate="gradient kept at step %{x}<extra></extra>",
                cliponaxis=False,
            )
        )
    figure.update_layout(
        height=height,
        margin=_MARGIN | {"t": 24},
        xaxis={"title": {"text": "training step"}, "rangemode": "tozero"} | ({"dtick": 1} if len(steps) < 12 else {}),
        yaxis={"title": {"text": "loss (cross-entropy, nats)"}, "rangemode": "tozero"},
        showlegend=False,
    )
    return figure


def rates_dots(
    labels: Sequence[str],
    rates: Sequence[float],
    intervals: Sequence[Sequence[float] | None],
    is_baseline: Sequence[bool],
    *,
    height: int | None = None,
) -> go.Figure:
    """Rates in percent of raw, one labelled row each, with their intervals; baselines drawn hollow.

    Labels must be our own words: they are shown as they are.
    """
    percent = [100 * r for r in rates]
    figure = go.Figure()
    for baseline, name in ((False, "language model"), (True, "baseline, whole tensors")):
        rows = [i for i, b in enumerate(is_baseline) if b == baseline]
        if not rows:
            continue
        pairs = [intervals[i] or (rates[i], rates[i]) for i in rows]
        figure.add_trace(
            go.Scatter(
                x=[percent[i] for i in rows],
                y=[labels[i] for i in rows],
                mode="markers+text",
                name=name,
                text=[number(percent[i]) for i in rows],
                textposition="top center",
                marker={
                    "size": 11,
                    "symbol": "diamond-open" if baseline else "circle",
                    "color": LINES[1 if baseline else 0],
                    "line": {"width": 2},
                },
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": [max(0.0, 100 * high - percent[i]) for i, (_, high) in zip(rows, pairs, strict=True)],
                    "arrayminus": [max(0.0, percent[i] - 100 * low) for i, (low, _) in zip(rows, pairs, strict=True)],
                    "thickness": 1.5,
                },
                hovertemplate="%{y}: %{x:.2f} % of raw<extra></extra>",
            )
        )
    figure.add_vline(x=100, line={"dash": "dot", "width": 1, "color": UNSAMPLED})
    figure.update_layout(
        height=height or 120 + 44 * len(labels),
        margin=_MARGIN | {"l": 8, "t": 30},
        xaxis={"title": {"text": "% of raw (lower is better; 100 is no gain)"}},
        yaxis={
            "categoryorder": "array",
            "categoryarray": list(labels),
            "range": [len(labels) - 0.5, -0.7],
            "automargin": True,
        },
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )
    return figure
