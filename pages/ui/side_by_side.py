"""Two rows, token by token, on the same parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import streamlit as st

from pages.ui import data, kept_runs, selection, state
from pages.ui.colour import colouring
from pages.ui.format import count, number
from pages.ui.strips import strip_of
from pages.ui.token_strip import show_token_strip
from pages.ui.work import Measured

if TYPE_CHECKING:
    import pandas as pd

    from lmgc_core.compare import Comparison
    from lmgc_core.report import Report

SHOWN_PARAMETERS = 48


def show_side_by_side(found: Comparison, labels: Mapping[int, str]) -> None:
    """The first sampled parameters under two settings; Analyze's runs on this server may stand beside a row too."""
    choices: dict[str, Report] = {labels[r.number]: r.report for r in found.sorted_rows}
    for job in data.jobs().finished("measure")[::-1]:
        if (
            isinstance(job.subject, Measured)
            and job.result is not None
            and kept_runs.may_list(job.id, job.subject.source)
        ):
            name = f"run {job.id}: {job.subject.title}, {job.result.model.id}"
            choices.setdefault(name, job.result)
    if len(choices) < 2:
        st.caption("Two rows are needed, or one and a run of Analyze: other models and files can be compared that way.")
        return
    names = list(choices)
    for side, column in enumerate(st.columns(2, gap="medium")):
        with column:
            chosen = st.selectbox(
                ("Left", "Right")[side],
                names,
                index=min(side, len(names) - 1),
                key=(state.LEFT, state.RIGHT)[side],
            )
            _show_side(chosen, choices[chosen], side)


def show_sides(reports: Mapping[str, Report]) -> None:
    """Two reports beside each other, the first parameters of each."""
    for side, (column, (name, report)) in enumerate(zip(st.columns(2, gap="medium"), reports.items(), strict=True)):
        with column:
            st.text(name)
            _show_side(name, report, side)


def _show_side(name: str, report: Report, side: int) -> None:
    part, n = first_parameters(report)
    if part.empty:
        st.caption("Nothing was measured.")
        return
    bits = float(part["surprisal_bits"].sum())
    st.markdown(
        f"{count(n)} parameters: **{count(len(part))} tokens, {number(bits)} bits** "
        f"({number(bits / n)} bits per parameter of text; the remainder comes on top)"
    )
    colours = colouring("bits paid for the text", report.tokens["surprisal_bits"], "all")
    strip = strip_of(
        f"side/{name}/{hash(part['surprisal_bits'].to_numpy().tobytes())}",
        0,
        part,
        report.model.id,
        selection.model_asked(report),
    )
    show_token_strip(strip, colours, key=f"side_strip_{side}")
    st.caption(f"{colours.note()}.".capitalize())


def first_parameters(report: Report) -> tuple[pd.DataFrame, int]:
    """The tokens of the first parameters of the first sampled block, and how many parameters these are."""
    tokens = report.tokens
    tokens = tokens[tokens["window"] == tokens["window"].min()] if len(tokens) else tokens
    starts = tokens.loc[tokens["first_parameter"] >= 0, "first_parameter"]
    if starts.empty:
        return tokens.iloc[:0], 0
    order = list(dict.fromkeys(zip(tokens["tensor"], tokens["first_parameter"], strict=True)))
    wanted = {key for key in order if key[1] >= 0}
    first = order.index(next(k for k in order if k in wanted))
    tensor, start = order[first]
    inside = (tokens["tensor"] == tensor) & (tokens["last_parameter"] < start + SHOWN_PARAMETERS)
    n_rows = int(inside.to_numpy().argmin()) if not inside.all() else len(tokens)
    part = tokens.iloc[:n_rows]
    last = int(part["last_parameter"].max())
    return part, last - int(start) + 1
