"""Figures of a comparison from finished numbers: pure functions, no Streamlit. Labels must be our own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from pages.ui.colour import LINES, UNSAMPLED

_MARGIN = {"l": 60, "r": 16, "t": 30, "b": 44}
_ROOM_DB = 8.0


@dataclass(frozen=True, slots=True)
class Point:
    """One of the settings; `on_front`: no other is better in both directions."""

    label: str
    x: float
    y: float
    on_front: bool = False


def pareto_front(
    points: Sequence[Point],
    lines: Sequence[tuple[str, float]] = (),
    *,
    x_title: str,
    x_better: str,
    height: int = 380,
) -> go.Figure:
    """Bits per parameter against what they cost; baselines, which have no tokens, as lines.

    Args:
        points: x the cost, y bits per parameter.
        lines: (label, bits per parameter).
        x_title: with its unit.
        x_better: "lower" or "higher".
    """
    points = _merged(points)
    middle = max((p.x for p in points), default=0.0) / 2
    figure = go.Figure()
    for chosen, name, symbol in ((True, "on the front", "circle"), (False, "beaten by another", "circle-open")):
        own = [p for p in points if p.on_front == chosen]
        if own:
            figure.add_trace(
                go.Scatter(
                    x=[p.x for p in own],
                    y=[p.y for p in own],
                    mode="markers+text",
                    name=name,
                    text=[p.label for p in own],
                    textposition=["middle right" if p.x <= middle else "middle left" for p in own],
                    cliponaxis=False,
                    marker={"size": 10, "symbol": symbol, "color": LINES[0], "line": {"width": 2}},
                    hovertemplate="%{text}: %{y:.2f} bits per parameter, %{x:.3g}<extra></extra>",
                )
            )
    front = sorted((p for p in points if p.on_front), key=lambda p: p.x)
    if len(front) > 1:
        figure.add_trace(
            go.Scatter(
                x=[p.x for p in front],
                y=[p.y for p in front],
                mode="lines",
                line={"color": LINES[0], "width": 1, "shape": "hv" if x_better == "lower" else "vh"},
                hoverinfo="skip",
                showlegend=False,
            )
        )
    for label, bits in lines:
        figure.add_hline(
            y=bits,
            line={"dash": "dot", "width": 1, "color": LINES[1]},
            annotation={"text": label, "showarrow": False, "font": {"color": LINES[1]}},
            annotation_position="bottom right",
        )
    figure.update_layout(
        height=height,
        margin=_MARGIN,
        xaxis={"title": {"text": f"{x_title} ({x_better} is better)"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "bits per parameter (lower is better)"}},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )
    return figure


def _merged(points: Sequence[Point]) -> list[Point]:
    """Points in the same place as one, with both names."""
    found: dict[tuple[float, float], Point] = {}
    for p in points:
        before = found.get((p.x, p.y))
        label = p.label if before is None else f"{before.label}, {p.label}"
        found[p.x, p.y] = Point(label, p.x, p.y, p.on_front or (before is not None and before.on_front))
    return list(found.values())


def rate_distortion(
    curves: Sequence[tuple[str, Sequence[tuple[str, float, float | None]]]], *, height: int = 420
) -> go.Figure:
    """Bits per parameter against the error that they leave, a line for each coder.

    Args:
        curves: (coder, [(lossy step, bits per parameter, PSNR in dB)]); None is without loss and is drawn on top.
    """
    known = [db for _, points in curves for _, _, db in points if db is not None]
    top = (max(known) if known else 0.0) + _ROOM_DB
    figure = go.Figure()
    for i, (coder, points) in enumerate(curves):
        ordered = sorted(points, key=lambda p: p[1])
        figure.add_trace(
            go.Scatter(
                x=[bits for _, bits, _ in ordered],
                y=[top if db is None else db for _, _, db in ordered],
                mode="lines+markers",
                name=coder,
                text=[step for step, _, _ in ordered],
                customdata=["without loss" if db is None else f"{db:.1f} dB" for _, _, db in ordered],
                line={"color": LINES[i % len(LINES)], "width": 1.5, "dash": "dot" if "baseline" in coder else "solid"},
                marker={"size": 9, "symbol": "diamond" if "baseline" in coder else "circle"},
                hovertemplate="%{text}: %{x:.2f} bits per parameter, %{customdata}<extra></extra>",
            )
        )
    lossless = any(db is None for _, points in curves for _, _, db in points)
    ticks = {}
    if lossless:
        figure.add_hline(y=top, line={"width": 1, "color": UNSAMPLED, "dash": "dot"})
        low = min(known) if known else 0.0
        places = [round(low + k * (max(known) - low) / 4) for k in range(5)] if known else []
        ticks = {"tickvals": [*places, top], "ticktext": [*map(str, places), "lossless"]}
    figure.update_layout(
        height=height,
        margin=_MARGIN | {"l": 70},
        xaxis={"title": {"text": "bits per parameter (lower is better)"}},
        yaxis={"title": {"text": "PSNR, dB (higher is better)"}, **ticks},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )
    return figure
