"""The token strip of a report, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import streamlit as st

from pages.ui import data, selection, state
from pages.ui.colour import bits_range
from pages.ui.format import (
    count,
)
from pages.ui.token_strip import PAGE_TOKENS, Strip, show_token_strip

if TYPE_CHECKING:
    from lmgc_core.report import Report


def show_strip(run: str, report: Report) -> None:
    """The token strip of the sampled windows, a page at a time."""
    tokens = report.tokens
    if tokens.empty:
        return
    n_pages = -(-len(tokens) // PAGE_TOKENS)
    page = min(int(state.get(state.STRIP_PAGE) or 1), n_pages)
    first = (page - 1) * PAGE_TOKENS
    part = tokens.iloc[first : first + PAGE_TOKENS]
    span = bits_range(tokens["surprisal_bits"])
    chosen = state.get(state.SELECTED)
    rows = selection.rows_of(tokens, *chosen) if chosen else ()
    show_token_strip(
        strip_of(
            f"{run}/{hash(part['surprisal_bits'].to_numpy().tobytes())}/{page}",
            first,
            part,
            report.model.id,
            selection.model_asked(report),
        ),
        span,
        key="strip",
        selected=rows,
        on_pick=lambda row: state.put(state.SELECTED, selection.parameter_of(tokens, row)),
    )
    st.caption(
        f"{count(len(tokens))} tokens, {count(len(report.results))} windows; colours from 0 to {span[1]:g} bits, "
        "the bar at a token's foot grows with them. Arrow keys move, Enter selects."
    )
    if n_pages > 1:
        if st.session_state.get(state.STRIP_PAGE, 1) > n_pages:
            st.session_state[state.STRIP_PAGE] = n_pages
        st.pagination(n_pages, key=state.STRIP_PAGE)


def strip_of(version: str, first: int, part: pd.DataFrame, model: str, asked: bool) -> Strip:
    """One page of the token table as a strip; ranks and alternatives only where the model was asked."""
    ids = np.stack(part["top_token_ids"].to_list()).astype(np.int64) if len(part) else np.zeros((0, 5), np.int64)
    known = np.unique(ids[ids >= 0])
    texts = dict(zip(known.tolist(), data.top_texts(model, known), strict=True)) if known.size else {}
    top = [
        [(texts[int(i)], float(b)) for i, b in zip(row, bits, strict=True) if i >= 0 and np.isfinite(b)]
        for row, bits in zip(ids, part["top_bits"], strict=True)
    ]
    labels = [
        "separator only" if a < 0 else f"{t} [{a}]" if a == b else f"{t} [{a}–{b}]"
        for t, a, b in zip(part["tensor"], part["first_parameter"], part["last_parameter"], strict=True)
    ]
    return Strip(
        version,
        range(first, first + len(part)),
        part["text"].tolist(),
        part["token_id"].tolist(),
        part["surprisal_bits"].tolist(),
        part["rank"].tolist() if asked else None,
        part["window"].tolist(),
        labels,
        top,
    )
