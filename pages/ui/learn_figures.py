"""Figures of the lessons from finished numbers: pure functions, no Streamlit. Labels must be our own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import plotly.graph_objects as go

from lmgc_core.lessons.arithmetic_coding import CodingStep
from lmgc_core.lessons.digits import DIGITS
from pages.ui.colour import LINES, UNSAMPLED

_MARGIN = {"l": 60, "r": 16, "t": 30, "b": 44}
_LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
_SYMBOLS = ("circle", "diamond", "square", "x", "triangle-up")
_DASHES = ("solid", "dash", "dot", "dashdot")
_LABEL_WIDTH = 0.022


def digit_bars(expected: Mapping[str, Sequence[float]], truth: str, *, height: int = 300) -> go.Figure:
    """What everybody expected of one digit, the truth marked.

    Args:
        expected: probabilities of the sixteen digits by name; the first two as bars, others as points.
        truth: the digit that came.
    """
    figure = go.Figure()
    for i, (name, chances) in enumerate(expected.items()):
        percent = [100 * p for p in chances]
        hover = "%{x}: %{y:.1f} % by " + name + "<extra></extra>"
        if i < 2:
            figure.add_trace(
                go.Bar(x=list(DIGITS), y=percent, name=name, marker={"color": LINES[i]}, hovertemplate=hover)
            )
        else:
            marker = {"size": 9, "symbol": "diamond", "color": LINES[i]}
            figure.add_trace(
                go.Scatter(x=list(DIGITS), y=percent, name=name, mode="markers", marker=marker, hovertemplate=hover)
            )
    place = DIGITS.index(truth)
    figure.add_vrect(
        x0=place - 0.5,
        x1=place + 0.5,
        fillcolor=UNSAMPLED,
        opacity=0.22,
        line_width=0,
        layer="below",
        annotation={"text": "truth", "showarrow": False},
        annotation_position="top",
    )
    top = max(max(100 * p for p in chances) for chances in expected.values())
    figure.update_layout(
        height=height,
        margin=_MARGIN,
        barmode="group",
        bargap=0.25,
        xaxis={
            "title": {"text": "next digit"},
            "type": "category",
            "categoryorder": "array",
            "categoryarray": list(DIGITS),
            "range": [-0.6, len(DIGITS) - 0.4],
        },
        yaxis={"title": {"text": "probability, %"}, "range": [0, 1.15 * top]},
        legend=_LEGEND,
    )
    return figure


def lines(
    curves: Mapping[str, Sequence[float]], *, x_title: str, y_title: str, first: int = 1, height: int = 300
) -> go.Figure:
    """Several curves over the same counted steps.

    Args:
        curves: values by name, told apart by colour and dash.
        x_title: what is counted.
        y_title: with its unit.
        first: the number of the first step.
    """
    figure = go.Figure()
    for i, (name, values) in enumerate(curves.items()):
        few = len(values) <= 24
        figure.add_trace(
            go.Scatter(
                x=list(range(first, first + len(values))),
                y=list(values),
                name=name,
                mode="lines+markers" if few else "lines",
                line={"color": LINES[i % len(LINES)], "width": 2, "dash": _DASHES[i % len(_DASHES)]},
                marker={"size": 7, "symbol": _SYMBOLS[i % len(_SYMBOLS)]},
                hovertemplate="%{x}: %{y:.2f}, " + name + "<extra></extra>",
            )
        )
    figure.update_layout(
        height=height,
        margin=_MARGIN,
        xaxis={"title": {"text": x_title}, "tickformat": "d"},
        yaxis={"title": {"text": y_title}, "rangemode": "tozero"},
        legend=_LEGEND,
    )
    return figure


def interval_zoom(steps: Sequence[CodingStep], number: Fraction | None = None) -> go.Figure:
    """The interval of each step stretched to the full width, divided among the sixteen digits.

    The part of the coded digit is what the next row shows; lines lead there.

    Args:
        steps: at least one.
        number: of a decoder, marked in every row.
    """
    base, width, rows, texts, colours, hovers = [], [], [], [], [], []
    link_x: list[float | None] = []
    link_y: list[float | None] = []
    for row, step in enumerate(steps):
        total, start = sum(step.table), 0
        for symbol, frequency in enumerate(step.table):
            chosen = symbol == step.symbol
            base.append(start / total)
            width.append(frequency / total)
            rows.append(row)
            texts.append(DIGITS[symbol] if frequency / total > _LABEL_WIDTH or chosen else "")
            colours.append(LINES[1] if chosen else "rgba(96,125,139,0.42)" if symbol % 2 else "rgba(96,125,139,0.26)")
            hovers.append(f"{DIGITS[symbol]}: {frequency}/{total} = {100 * frequency / total:.1f} %")
            if chosen and row + 1 < len(steps):
                link_x += [start / total, 0.0, None, (start + frequency) / total, 1.0, None]
                link_y += [row + 0.3, row + 0.7, None, row + 0.3, row + 0.7, None]
            start += frequency
    figure = go.Figure(
        go.Bar(
            base=base,
            x=width,
            y=rows,
            orientation="h",
            width=0.6,
            text=texts,
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            constraintext="none",
            marker={"color": colours, "line": {"width": 0}},
            customdata=hovers,
            hovertemplate="%{customdata}<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=link_x, y=link_y, mode="lines", line={"color": LINES[1], "width": 1, "dash": "dot"}, hoverinfo="skip"
        )
    )
    if number is not None:
        places = [float((number - s.before.low) / s.before.width) for s in steps]
        figure.add_trace(
            go.Scatter(
                x=places,
                y=list(range(len(steps))),
                mode="markers",
                marker={"symbol": "line-ns-open", "size": 34, "color": LINES[0], "line": {"width": 3}},
                hovertemplate="the number stands here<extra></extra>",
            )
        )
    figure.update_layout(
        height=80 + 52 * len(steps),
        margin=_MARGIN | {"l": 56, "t": 8},
        barmode="overlay",
        showlegend=False,
        xaxis={
            "title": {"text": "share of the row's interval"},
            "range": [0, 1],
            "tickformat": ".0%",
            "showgrid": False,
            "zeroline": False,
        },
        yaxis={
            "tickvals": list(range(len(steps))),
            "ticktext": [f"digit {i + 1}" for i in range(len(steps))],
            "range": [len(steps) - 0.5, -0.5],
            "showgrid": False,
            "zeroline": False,
        },
    )
    return figure


def gaps_by_token(
    gaps: Mapping[str, Sequence[float]], guard_bits: float, wrong: Mapping[str, int | None], *, height: int = 340
) -> go.Figure:
    """The largest gap of two sides at each token, one curve a precision, the guard as a line.

    Args:
        gaps: in bits, by precision; zeros are not drawn on the logarithmic axis.
        guard_bits: what guarded rounding bridges.
        wrong: the first token that decodes wrongly with plain rounding, by precision.
    """
    figure = go.Figure()
    for i, (name, values) in enumerate(gaps.items()):
        drawn = [v if v > 0 else None for v in values]
        figure.add_trace(
            go.Scatter(
                x=list(range(1, len(values) + 1)),
                y=drawn,
                name=name,
                mode="lines",
                line={"color": LINES[i], "width": 1.8, "dash": _DASHES[i]},
                hovertemplate="token %{x}: %{y:.2g} bits, " + name + "<extra></extra>",
            )
        )
        place = wrong.get(name)
        if place is not None:
            figure.add_trace(
                go.Scatter(
                    x=[place + 1],
                    y=[drawn[place] or guard_bits],
                    mode="markers+text",
                    text=[f"{name} goes wrong"],
                    textposition="top right" if place < 2 * len(values) / 3 else "top left",
                    marker={"size": 11, "symbol": "x", "color": LINES[i]},
                    showlegend=False,
                    cliponaxis=False,
                    hovertemplate="first wrong token with plain rounding: %{x}<extra></extra>",
                )
            )
    figure.add_hline(
        y=guard_bits,
        line={"dash": "dot", "width": 1.5, "color": UNSAMPLED},
        annotation={"text": "guard", "showarrow": False},
        annotation_position="bottom right",
    )
    figure.update_layout(
        height=height,
        margin=_MARGIN | {"l": 70},
        xaxis={"title": {"text": "token of the text"}},
        yaxis={"title": {"text": "largest gap, bits"}, "type": "log", "exponentformat": "power", "nticks": 6},
        legend=_LEGEND,
    )
    return figure


def shares_by_token(names: Sequence[str], chances: Sequence[float], shares: Sequence[float]) -> go.Figure:
    """Probabilities in the vocabulary's order, beside what the published code takes for them.

    Args:
        names: of the tokens, short, of harmless characters.
        chances: the model's.
        shares: p / cumsum(p).
    """
    figure = go.Figure()
    for i, (name, values) in enumerate((("p", chances), ("p / cumsum(p)", shares))):
        figure.add_trace(
            go.Bar(
                x=list(range(len(names))),
                y=[100 * v for v in values],
                name=name,
                marker={"color": LINES[i], "line": {"width": 0}},
                hovertemplate="%{y:.2f} %, " + name + "<extra></extra>",
            )
        )
    figure.update_layout(
        height=300,
        margin=_MARGIN,
        barmode="group",
        bargap=0.2,
        xaxis={
            "title": {"text": f"the vocabulary's first {len(names)} possible tokens"},
            "tickvals": list(range(len(names))),
            "ticktext": list(names),
        },
        yaxis={"title": {"text": "%"}, "rangemode": "tozero"},
        legend=_LEGEND,
    )
    return figure
