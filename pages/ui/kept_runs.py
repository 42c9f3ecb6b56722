"""Kept runs as the pages meet them: found again by settings or by an address, and who may see which.

An id stands for content and settings and cannot be guessed, so whoever has an address may open it. Lists are another
matter: on a server for one person they show everything, on any other only runs on bundled samples and those that this
session has seen itself, under the titles it knows.
"""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from lmgc_core.errors import RunsUnavailable
from lmgc_core.kept import find_kept
from lmgc_core.question import KIND, config_of
from lmgc_core.run_index import KeptRun
from lmgc_core.store import RunStore
from pages.ui import data, state
from pages.ui.compare_form import address_of
from pages.ui.data import Loaded
from pages.ui.frame import show_error
from pages.ui.jobs import JobView
from pages.ui.work import Measured

SAMPLE = "sample"


def job_of_question(subject: Measured) -> JobView | None:
    """The job that answers these settings: one of this server, else a kept run, taken in as a finished job."""
    manager = data.jobs()
    known = manager.get(subject.question.id)
    if known is not None:
        return known
    failures: list[str] = []
    found = find_kept(subject.question, failures.append)
    for line in failures:
        show_error(line)
    if found is None:
        return None
    row, report = found
    return manager.adopt(row.id, KIND, subject, report, row.made_at)


def job_of_run(run: str | None) -> JobView | None:
    """The job of that id: one of this server, else a kept run with its own gradient; one line where it is damaged."""
    manager = data.jobs()
    known = manager.get(run)
    if known is not None or not run:
        return known
    try:
        row = RunStore().row(run)
        if row is None:
            return None
        report = RunStore().open(run)
    except RunsUnavailable as error:
        show_error(error)
        return None
    subject = Measured(
        report.coding.raw, row.title, row.source, report.coding.config, int(report.settings.get("limit", 0))
    )
    return manager.adopt(run, KIND, subject, report, row.made_at)


def loaded_of_run(run: str | None) -> Loaded | None:
    """The gradient of a job or kept run, for an address whose file is not in this session."""
    job = job_of_run(run)
    if job is None or not hasattr(job.subject, "gradient"):
        return None
    title = job.subject.title
    if not (state.local_mode() or job.id in state.get(state.OWN_RUNS) or getattr(job.subject, "source", "") == SAMPLE):
        title = f"run {job.id}"  # a stranger's file name is not part of what an address shares
    return Loaded(job.subject.gradient, "run", title)


def see(job: JobView, title: str) -> None:
    """Remembers that this session has this run on its screen."""
    known = state.get(state.OWN_RUNS)
    if known.get(job.id) != title:
        state.put(state.OWN_RUNS, {**known, job.id: title})


def may_list(run: str, source: str) -> bool:
    """Whether a list on this page may name that run."""
    return state.local_mode() or source == SAMPLE or run in state.get(state.OWN_RUNS)


def listed_rows() -> list[KeptRun]:
    """The kept runs that this visitor may see listed, the newest first.

    Raises:
        RunsUnavailable: when the list cannot be read.
    """
    own = {} if state.local_mode() else state.get(state.OWN_RUNS)
    return [replace(r, title=own.get(r.id, r.title)) for r in RunStore().rows() if may_list(r.id, r.source)]


def address_of_run(row: KeptRun) -> dict[str, str]:
    """What an address says to open a run: its id, its settings, and the sample where it is a whole one."""
    found = {state.RUN: row.id, **address_of(config_of(row.config)), state.LIMIT: limit_text(row)}
    sample = whole_samples().get((row.summary["input"]["sha256"], row.summary["input"]["n_parameters"]))
    return found | ({state.SOURCE: SAMPLE, state.SAMPLE: sample} if sample else {state.SOURCE: "run"})


def limit_text(row: KeptRun) -> str:
    """The sample's size as an address says it."""
    limit = int(row.summary["settings"]["limit"])
    return "all" if row.summary["sample"]["complete"] or not limit else str(limit)


@st.cache_data(show_spinner=False, ttl=60)
def whole_samples() -> dict[tuple[str, int], str]:
    """Titles of the bundled samples, as addresses name them, by digest and number of parameters."""
    from lmgc_core.samples import list_samples

    return {(s.digest, s.n_parameters): s.title for s in list_samples()}
