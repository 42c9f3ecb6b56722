"""What can be done with chosen runs: open, compare, take along, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from lmgc_core.errors import RunsUnavailable
from lmgc_core.run_index import KeptRun
from lmgc_core.store import RunStore
from pages.ui import data, kept_runs, state
from pages.ui.format import LOWER, count, counted, duration, interval, number, percent, plain, points, size
from pages.ui.frame import analyze_link, show_error
from pages.ui.kept_table import label, title_words, when
from pages.ui.side_by_side import show_sides
from pages.ui.tables import show_downloads

if TYPE_CHECKING:
    from lmgc_core.report import Report


def show_one(row: KeptRun) -> None:
    """One run: its numbers, the way to Analyze, its files."""
    totals, sample, timing = (row.summary[name] for name in ("totals", "sample", "timing"))
    model = row.summary["model"]
    st.markdown(title_words(row))
    cards = st.columns(4)
    cards[0].metric("bits per parameter", number(totals["bits_per_parameter"]), border=True, help=LOWER)
    cards[1].metric(
        "rate, % of raw",
        percent(totals["compression_rate"]),
        delta=interval(totals["rate_ci95"], totals["compression_rate"]),
        delta_color="off",
        border=True,
        help=LOWER,
    )
    cards[2].metric(
        "tokens per parameter", number(totals["tokens_per_parameter"]), border=True, help="Fewer is faster."
    )
    cards[3].metric("tokens", count(totals["n_tokens"]), border=True)
    st.caption(
        f"{plain(model['id'])} ({plain(model['dtype'])} on {plain(model['device'])}), {duration(timing['seconds'])}, "
        f"{when(row)}; {count(sample['n_parameters'])} parameters measured; run {row.id}, {size(row.n_bytes)}."
    )
    report = opened(row)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if report is not None:
            analyze_link("kept_run", **kept_runs.address_of_run(row))
    if report is not None:
        st.markdown("**Take along**")
        show_downloads(row.id, 0, report)


def show_two(left: KeptRun, right: KeptRun) -> None:
    """Two runs: their numbers beside each other, and their tokens on the first parameters."""
    rows = (left, right)
    figures = {
        "% of raw": lambda r: percent(r.summary["totals"]["compression_rate"]),
        "bits per parameter": lambda r: number(r.summary["totals"]["bits_per_parameter"], 4),
        "tokens per parameter": lambda r: number(r.summary["totals"]["tokens_per_parameter"]),
        "bits per token": lambda r: number(r.summary["totals"]["bits_per_token"]),
        "blocks measured": lambda r: count(r.summary["sample"]["n_blocks"]),
        "model": lambda r: str(r.summary["model"]["id"]),
        "seconds": lambda r: number(r.summary["timing"]["seconds"]),
        **{
            name.replace("_", " "): lambda r, name=name: str(r.summary["settings"].get(name, "by type"))
            for name in different_settings(left, right)
        },
    }
    table = {"figure": list(figures)}
    for side, row in zip(("left", "right"), rows, strict=True):
        table[side] = [show(row) for show in figures.values()]
    reports = [opened(row) for row in rows]
    if None not in reports:
        st.markdown(difference_words(*(r for r in reports if r is not None)))
    st.dataframe(
        pd.DataFrame(table), hide_index=True, alt="The two runs' figures and the settings in which they differ"
    )
    if None not in reports:
        names = {f"{side}: {label(row)}": r for side, row, r in zip(("left", "right"), rows, reports, strict=True) if r}
        show_sides(names)


def different_settings(left: KeptRun, right: KeptRun) -> list[str]:
    """Names of the settings in which two runs differ."""
    ours, theirs = left.summary["settings"], right.summary["settings"]
    hidden = {"explicit", "serializations", "batch_size", "threads"}
    return [name for name in ours if name not in hidden and ours[name] != theirs.get(name)]


def difference_words(left: Report, right: Report) -> str:
    """Which of two reports needs fewer bits, block by block where they measured the same ones."""
    from lmgc_core.compare import difference

    if left.coding.raw.identity != right.coding.raw.identity:
        return "The two runs measured different values, so only their rates can be held against each other."
    gap = difference(left, right)
    if gap is None:
        return "The two runs have no blocks in common that hold the same values."
    spread = ""
    if gap.low is not None and gap.high is not None and gap.high > gap.low:
        spread = f" (95 % interval {100 * gap.low:.2f} to {100 * gap.high:.2f}, estimate)"
    return f"Left against right, on the blocks that both measured: **{points(gap.value)} of raw**{spread}; {LOWER}."


def opened(row: KeptRun) -> Report | None:
    """The run's report; None with one line that says why not."""
    job = data.jobs().get(row.id) or kept_runs.job_of_run(row.id)
    return None if job is None else job.result or None


def show_deletion(rows: Sequence[KeptRun]) -> None:
    """A button, and the question before anything is deleted."""
    ids = [row.id for row in rows]
    if state.get(state.DELETING) != ids:
        if st.button(f"Delete {counted(len(ids), 'run')}", key="delete_runs"):
            state.put(state.DELETING, ids)
            st.rerun()
        return
    st.warning(
        f"Delete {counted(len(ids), 'run')} for good? Their numbers, tokens and kept values leave this server's disk; "
        "the files they were made of stay where they are."
    )
    with st.container(horizontal=True):
        if st.button("Yes, delete", key="delete_really", type="primary"):
            try:
                for run in ids:
                    RunStore().delete(run)
                    data.jobs().forget(run)
            except RunsUnavailable as error:
                show_error(error)
                return
            state.put(state.DELETING, None)
            st.rerun()
        if st.button("Keep", key="delete_not"):
            state.put(state.DELETING, None)
            st.rerun()
