"""The picture of an archive's bytes beside what else the gradient could weigh: pure functions, no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from pages.ui.colour import LINES, UNSAMPLED
from pages.ui.format import size

PARTS = ("text", "mantissas", "exceptions", "header")


def archive_parts(report: Mapping[str, Any]) -> dict[str, int]:
    """An archive's bytes by what they hold; they add up to the file.

    Text and mantissas share the payload. The text's part is its code length, the rest of the payload is the other's.

    Args:
        report: from `compress`.

    >>> archive_parts({"token_code_length_bits": 79.5, "payload_bytes": 30, "exceptions_bytes": 0, "header_bytes": 5})
    {'text': 10, 'mantissas': 20, 'exceptions': 0, 'header': 5}
    """
    text = min(round(report["token_code_length_bits"] / 8), report["payload_bytes"])
    return {
        "text": text,
        "mantissas": report["payload_bytes"] - text,
        "exceptions": report["exceptions_bytes"],
        "header": report["header_bytes"],
    }


def sizes_bar(parts: Mapping[str, int], others: Sequence[tuple[str, int]], *, height: int | None = None) -> go.Figure:
    """One bar for the archive, stacked by what its bytes hold, and one for each other size.

    Args:
        parts: bytes of the archive by part; empty parts are left out.
        others: (our own words, bytes), e.g. the raw size.
    """
    names = ["archive", *(name for name, _ in others)]
    figure = go.Figure()
    for i, (part, n_bytes) in enumerate(parts.items()):
        if not n_bytes:
            continue
        figure.add_trace(
            go.Bar(
                x=[n_bytes],
                y=["archive"],
                orientation="h",
                name=part,
                marker={"color": LINES[i]},
                hovertemplate=f"{part}: {size(n_bytes)}<extra></extra>",
            )
        )
    figure.add_trace(
        go.Bar(
            x=[n_bytes for _, n_bytes in others],
            y=names[1:],
            orientation="h",
            marker={"color": UNSAMPLED},
            showlegend=False,
            hovertemplate="%{y}: %{x:,} B<extra></extra>",
        )
    )
    totals = {"archive": sum(parts.values()), **dict(others)}
    for name, n_bytes in totals.items():
        figure.add_annotation(
            x=n_bytes, y=name, text=size(n_bytes), xanchor="left", xshift=6, showarrow=False, font={"size": 13}
        )
    figure.update_layout(
        barmode="stack",
        height=height or 110 + 40 * len(names),
        margin={"l": 8, "r": 16, "t": 34, "b": 44},
        xaxis={"title": {"text": "bytes, fewer is better"}, "range": [0, 1.16 * max(totals.values(), default=1)]},
        yaxis={
            "categoryorder": "array",
            "categoryarray": names,
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
        },
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        bargap=0.35,
    )
    return figure
