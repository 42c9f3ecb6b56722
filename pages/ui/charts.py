"""A chart with what belongs to it: a description for screen readers and its numbers as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.ui import figures

if TYPE_CHECKING:
    pass


def show_chart(figure: go.Figure, alt: str, key: str, table: pd.DataFrame | None = None, **options: Any) -> Any:
    """A chart with its description for screen readers, and its numbers as a small download."""
    result = st.plotly_chart(figure, config=figures.CONFIG, alt=alt, key=key, **options)
    if table is not None:
        st.download_button(
            "CSV",
            lambda: table.to_csv(index=False).encode(),
            f"{key}.csv",
            "text/csv",
            key=f"{key}_csv",
            on_click="ignore",
            type="tertiary",
        )
    return result
