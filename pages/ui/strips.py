"""The token strip of a report, a page at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from pages.ui import data, selection, state
from pages.ui.colour import colouring
from pages.ui.format import (
    count,
)
from pages.ui.selected import select
from pages.ui.token_strip import PAGE_TOKENS, Strip, show_token_strip

if TYPE_CHECKING:
    from lmgc_core.report import Report


WORDS = {
    "llm": "bits, the model's surprisal",
    "all": "bits paid for the text",
    "rank": "rank among the model's guesses",
    "entropy": "entropy, bits the model expects to need",
    "excess": "surprisal minus entropy, bits",
}


def token_numbers(tokens: pd.DataFrame, quantity: str) -> npt.NDArray[np.float64]:
    """The number of each token that the colours stand for.

    Args:
        tokens: the report's table of tokens, or rows of it.
        quantity: one of `lmgc_core.cells.QUANTITIES`.
    """
    columns = {"all": "surprisal_bits", "rank": "rank", "entropy": "entropy_bits"}
    found = tokens[columns.get(quantity, "llm_surprisal_bits")].to_numpy(np.float64)
    if quantity == "rank":
        return found + 1
    return found - tokens["entropy_bits"].to_numpy(np.float64) if quantity == "excess" else found


def show_strip(run: str, report: Report, quantity: str, reach: int) -> None:
    """The token strip of the sampled windows, a page at a time, coloured as the picture is."""
    tokens = report.tokens
    if tokens.empty:
        return
    n_pages = -(-len(tokens) // PAGE_TOKENS)
    page = min(int(state.get(state.STRIP_PAGE) or 1), n_pages)
    first = (page - 1) * PAGE_TOKENS
    part = tokens.iloc[first : first + PAGE_TOKENS]
    colours = colouring(WORDS[quantity], token_numbers(tokens, quantity), quantity, reach)
    chosen = state.get(state.SELECTED)
    rows = selection.rows_of(tokens, *chosen) if chosen else ()

    def picked(row: int) -> None:
        found = selection.parameter_of(tokens, row)
        if found is not None:
            select(report, *found)

    strip = strip_of(
        f"{run}/{hash(part['surprisal_bits'].to_numpy().tobytes())}/{page}",
        first,
        part,
        report.model.id,
        selection.model_asked(report),
    )
    show_token_strip(
        replace(strip, numbers=token_numbers(part, quantity)), colours, key="strip", selected=rows, on_pick=picked
    )
    st.caption(
        f"{count(len(tokens))} tokens, {count(len(report.results))} windows; {colours.note()}. "
        "The bar at a token's foot grows with it. Arrow keys move, Enter selects."
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
