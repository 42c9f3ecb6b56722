"""A measuring run on the screen, in every state it can be in."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.settings import RunOptions
from pages.ui import headline, picture, state, strips, tables
from pages.ui.following import show_phase
from pages.ui.format import count, duration, plain
from pages.ui.frame import show_error
from pages.ui.jobs import JobManager, JobView
from pages.ui.work import BASELINE_BYTES, Measured, measure_work

if TYPE_CHECKING:
    from lmgc_core.report import Report


def show_run(manager: JobManager, job: JobView, baselines: JobView | None, is_older: bool) -> None:
    """Progress or outcome first, then whatever numbers there are."""
    report: Report | None = job.partial
    subject: Measured = job.subject
    kept = f"the {count(len(report.results))} windows done are shown" if report else "nothing had been measured"
    show_phase(
        manager,
        job,
        "run",
        stopped=f"{kept}. Run starts again.",
        failed="What was measured before stays below." if report else "Nothing was changed.",
    )
    if report is None:
        if job.active:
            st.caption("Numbers, picture and tokens fill in as windows arrive.")
        return
    if is_older:
        st.warning("Settings have changed since this result. Run brings it up to date.")
    _show_numbers(report, baselines)
    _show_picture_and_selection(job, report)
    st.markdown("**Tokens**")
    strips.show_strip(job.id, report)
    _show_small_print(job, report, baselines)
    if job.phase == "done":
        _show_done(manager, job, subject, report)


def _show_numbers(report: Report, baselines: JobView | None) -> None:
    rows = baselines.result if baselines and baselines.phase == "done" else None
    note = ""
    if rows is None:
        if baselines is None:
            too_large = report.coding.raw.raw_bytes > BASELINE_BYTES
            note = "file too large to run them here" if too_large else "after the run"
        else:
            note = baselines.error if baselines.phase in ("failed", "broken") else "being computed"
    headline.show_headline(report, rows, note)


def _show_picture_and_selection(job: JobView, report: Report) -> None:
    view = picture.picture_controls(report)
    if not view:
        return
    left, right = st.columns([5, 3], gap="medium")
    with left:
        picture.show_picture(job.id, job.version, report, view)
    with right:
        picture.show_selected(report, view["name"])


def _show_small_print(job: JobView, report: Report, baselines: JobView | None) -> None:
    names = ["Where the bits go", "Along the context", "Tensors", "Baselines", "Downloads"]
    is_lossy = report.coding.config.transform != "none"
    parts, context, tensors, others, files, *more = st.tabs([*names, "Lossy step"] if is_lossy else names)
    with parts:
        tables.show_parts(report)
    with context:
        tables.show_context(report)
    with tensors:
        tables.show_tensors(report)
    with others:
        if baselines and baselines.phase == "done":
            tables.show_baselines(baselines.result)
        else:
            st.caption("Shown once they have been run.")
    with files:
        if job.active:
            st.caption("Ready when the run is.")
        else:
            tables.show_downloads(job.id, job.version, report)
    if is_lossy:
        with more[0]:
            if job.active:
                st.caption("Its error is shown when the run is done.")
            else:
                tables.show_error_figures(report)


def _show_done(manager: JobManager, job: JobView, subject: Measured, report: Report) -> None:
    ended = datetime.fromtimestamp(job.finished_at or time.time()).strftime("%Y-%m-%d %H:%M")
    sample = f"{count(len(report.sampled_blocks))} of {count(len(report.coding.blocks))} blocks"
    st.caption(
        f"{sample}, {plain(report.model.id)} ({report.model.dtype} on {report.model.device}), "
        f"{duration(report.seconds)}, {ended}"
    )
    if report.complete:
        return
    seconds = report.seconds * len(report.coding.blocks) / max(len(report.sampled_blocks), 1)
    if st.button(f"Go on to the whole file (about {duration(seconds)})", key="whole_file"):
        whole = Measured(subject.gradient, subject.title, subject.source, subject.config, 0)
        try:
            started = manager.submit("measure", whole.facts, measure_work(whole, RunOptions()), whole)
        except LmgcError as error:
            show_error(error)
            return
        state.put(state.NEXT_LIMIT, 0)
        state.set_job(state.RUN, started.id)
        st.rerun()
