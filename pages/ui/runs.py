"""A measuring run on the screen, in every state it can be in."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.settings import RunOptions
from pages.ui import differences, explore, headline, picture, picture_form, selected, state, strips, tables
from pages.ui.following import show_phase
from pages.ui.format import count, duration, plain
from pages.ui.frame import show_error
from pages.ui.grid import View
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
    view = picture_form.picture_form(report)
    if view is not None:
        left, right = st.columns([5, 3], gap="medium")
        with left:
            picture.show_picture(job.id, job.version, report, view)
        with right:
            selected.show_selected(report, view.name)
        st.markdown("**Tokens**")
        strips.show_strip(job.id, report, view.quantity, view.reach)
        _show_small_print(job, report, view, baselines)
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


def _show_small_print(job: JobView, report: Report, view: View, baselines: JobView | None) -> None:
    """What is one click away; only the open tab is drawn."""
    parts: dict[str, Callable[[], None]] = {
        "Where the bits go": lambda: tables.show_parts(report),
        "Along the context": lambda: tables.show_context(report),
        "Tensors": lambda: tables.show_tensors(report),
        "Extremes": lambda: explore.show_extremes(report, view),
        "Values": lambda: explore.show_values(report, view),
        "Another run": lambda: differences.show_other_run(job, report),
        "Baselines": lambda: _show_baselines(baselines),
        "Downloads": lambda: _show_downloads(job, report),
    }
    if report.coding.config.transform != "none":
        parts["Lossy step"] = lambda: _show_lossy_step(job, report)
    for tab, show in zip(st.tabs(list(parts), key=state.TAB, on_change="rerun"), parts.values(), strict=True):
        if tab.open:
            with tab:
                show()


def _show_baselines(baselines: JobView | None) -> None:
    if baselines and baselines.phase == "done":
        tables.show_baselines(baselines.result)
    else:
        st.caption("Shown once they have been run.")


def _show_downloads(job: JobView, report: Report) -> None:
    if job.active:
        st.caption("Ready when the run is.")
    else:
        tables.show_downloads(job.id, job.version, report)


def _show_lossy_step(job: JobView, report: Report) -> None:
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
    if job.warning:
        st.warning(plain(job.warning))
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
