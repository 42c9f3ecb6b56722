"""A chart with what belongs to it: a description for screen readers, a note, and its numbers as CSV."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.ui import figures


def show_chart(
    figure: go.Figure,
    alt: str,
    key: str,
    table: pd.DataFrame | None = None,
    note: str = "",
    on_select: Callable[[], None] | None = None,
) -> None:
    """A chart; below it a note, and its numbers as a small download. `on_select` is called when a point is clicked."""
    if on_select is None:
        st.plotly_chart(figure, config=figures.CONFIG, alt=alt, key=key)
    else:
        st.plotly_chart(figure, config=figures.CONFIG, alt=alt, key=key, on_select=on_select, selection_mode="points")
    with st.container(horizontal=True, vertical_alignment="center"):
        if note:
            st.caption(note)
        if table is not None:
            st.download_button(
                "CSV",
                lambda: table.to_csv(index=False).encode(),
                f"{key}.csv",
                "text/csv",
                key=f"{key}_csv",
                on_click="ignore",
                type="tertiary",
                help="The numbers of this chart.",
            )
