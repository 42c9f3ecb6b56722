"""The frame round every page: title, the way to the other pages, one-line errors."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st
from streamlit.errors import StreamlitAPIException

from lmgc_core.errors import LmgcError
from pages.ui.format import plain

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

_MAIN: ContextVar[DeltaGenerator] = ContextVar("main_area")  # of the script run that goes on in this thread

PAGES = (
    ("app.py", "Analyze"),
    ("pages/1_Serialize.py", "Serialize"),
    ("pages/2_Compare.py", "Compare"),
    ("pages/3_Generate.py", "Generate"),
    ("pages/4_Archive.py", "Archive"),
    ("pages/5_Learn.py", "Learn"),
    ("pages/6_Runs.py", "Runs"),
)

_CSS = """
<style>
[data-testid="stMainBlockContainer"] { padding: 1.6rem 2.2rem 3rem !important; max-width: 92rem; }
@media (max-width: 640px) { [data-testid="stMainBlockContainer"] { padding: 4.4rem 1rem 2rem !important; } }
[data-testid="stMetricValue"], [data-testid="stDataFrame"] { font-variant-numeric: tabular-nums; }
@media (max-width: 640px) {
  [data-testid="stHorizontalBlock"]:has(> [data-testid="stColumn"]:nth-child(4)) > [data-testid="stColumn"] {
    min-width: calc(50% - 0.5rem); flex: 1 1 calc(50% - 0.5rem);
  }
  [data-testid="stMetricLabel"] p, [data-testid="stMetricDelta"] p { white-space: normal; }
}
.st-key-picture_controls [data-testid="stButtonGroup"] button:not([data-testid="stWidgetLabel"] *) {
  min-height: 2.5rem;
}
[data-testid="stMetricDelta"] svg { display: none; }
[data-testid="stCaptionContainer"] { color: light-dark(#565f65, #a9b1b6); opacity: 1; }
[data-selected="true"] p, [data-testid="stSliderThumbValue"] p { color: light-dark(#1a5178, #8cc4ea); }
:is(button, a, summary, [role="tab"], [role="option"]):focus-visible {
  outline: 2px solid light-dark(#1a5178, #8cc4ea) !important; outline-offset: 2px;
}
[class*="st-key-to_analyze"] a {
  justify-content: center; min-height: 2.5rem; border-radius: 0.35rem; background: light-dark(#1f5f8b, #2f7cb0);
}
[class*="st-key-to_analyze"] a:hover { background: light-dark(#1f5f8b, #2f7cb0); filter: brightness(0.8); }
[class*="st-key-to_analyze"] a p { color: #fff; }
</style>
"""

ALREADY_MEASURED = "Already measured; this is the result."


def page_frame(title: str, question: str) -> None:
    """Sets the page up and asks its question; to be called first by every page."""
    st.set_page_config(page_title=f"{title} · LM-GC", layout="wide", initial_sidebar_state="auto")
    st.html(_CSS)
    try:
        with st.container(horizontal=True, gap="small"):
            for path, label in PAGES:
                st.page_link(path, label=f"**{label}**" if label == title else label)
    except (StreamlitAPIException, KeyError):
        pass  # a page started alone as the main script knows no other pages
    st.title(question, anchor=False)
    _MAIN.set(st.container())


def main_area() -> DeltaGenerator:
    """The top of the page's main area, for what the sidebar has to show there; after `page_frame`."""
    return _MAIN.get()


def analyze_link(key: str, width: Literal["content", "stretch"] = "content", **facts: str) -> None:
    """The way to Analyze with a gradient that is there on this server; `facts` go into its address.

    A link, since a switch by script is refused while the page's settings stand in its address.
    """
    with st.container(key=f"to_analyze_{key}", width=width):
        link("app.py", "Analyze", facts, "Open Analyze to look at it.", width)


def link(
    path: str, label: str, facts: Mapping[str, Any], instead: str, width: Literal["content", "stretch"] = "content"
) -> None:
    """A link to another page with `facts` in its address; `instead` where a page started alone knows no others."""
    try:
        st.page_link(path, label=label, width=width, query_params=dict(facts))
    except (StreamlitAPIException, KeyError):
        st.caption(instead)


def show_error(error: LmgcError | str, kept: str = "") -> None:
    """One clear line; `kept` says what is still there."""
    st.error(f"{plain(error).rstrip('.')}. {kept}" if kept else plain(error))


def show_bug(exception: BaseException | None) -> None:
    """A failure nobody expected: loud, with its trace."""
    st.error("This is a bug in the application; nothing you did was wrong. What was there before is kept.")
    if exception is not None:
        st.exception(exception)
