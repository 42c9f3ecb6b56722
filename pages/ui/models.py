"""The model's side of a page: one button to fetch it, and how long a run will take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.gradient import Gradient
from lmgc_core.settings import CodecConfig
from pages.ui import data
from pages.ui.data import Preview
from pages.ui.format import count, duration, plain, size
from pages.ui.frame import show_bug, show_error
from pages.ui.jobs import JobManager, JobView, job_id
from pages.ui.work import Measured, fetch_work

BLOCK_PARAMETERS = 432
TOKENS_PER_SECOND = 150.0  # the default model on two slow cores, until a run here has told better
COUNTED_TOKENS_PER_SECOND = 1500.0  # the same where no model is asked
DEFAULT_PARAMETERS = 134_515_008
LOADING_SECONDS = 15.0
TOKENS_PER_CHARACTER = 0.5
LAST_RUNS = 3


@dataclass(frozen=True, slots=True)
class Forecast:
    """How long a run will take, in seconds, and whether runs on this server tell so or a cautious guess."""

    seconds: float
    measured: bool

    def words(self) -> str:
        """One line for the page.

        >>> Forecast(90.0, False).words()
        'about 2 min, a guess until a first run here'
        """
        return f"about {duration(self.seconds)}" + ("" if self.measured else ", a guess until a first run here")


def forecast(gradient: Gradient, config: CodecConfig, limit: int, found: Preview) -> Forecast | None:
    """How long a run will take: the speed of this server's last runs like it, else a cautious guess.

    None for a model of unknown size that has not run here.
    """
    n_blocks = min(limit, found.n_blocks) if limit else found.n_blocks
    n_parameters = min(n_blocks * BLOCK_PARAMETERS, gradient.n_parameters)
    n_tokens = len(found.texts) if found.texts else TOKENS_PER_CHARACTER * len(found.text)
    n_tokens *= n_parameters / max(found.n_parameters, 1)
    runs = [job for job in data.jobs().finished("measure") if isinstance(job.subject, Measured)]
    is_loaded = bool(runs) and runs[-1].subject.config.model == config.model
    loading = 0.0 if is_loaded else LOADING_SECONDS
    alike = [
        (job.result.totals.n_tokens, job.result.seconds)
        for job in runs
        if job.subject.config.model == config.model and job.subject.config.prior == config.prior
    ]
    speed = measured_speed(alike)
    if speed is not None:
        return Forecast(loading + n_tokens / speed, True)
    if config.prior == "counts":
        return Forecast(loading + n_tokens / COUNTED_TOKENS_PER_SECOND, False)
    row = next((r for r in data.catalogue() if r["id"] == config.model), None)
    if row is None or not row["n_parameters"]:
        return None
    return Forecast(loading + n_tokens * row["n_parameters"] / DEFAULT_PARAMETERS / TOKENS_PER_SECOND, False)


def measured_speed(runs: Sequence[tuple[int, float]]) -> float | None:
    """Tokens per second over the last few runs, given (tokens, seconds) of each, the newest last; None without any.

    >>> measured_speed([(9000, 1.0), (100, 1.0), (200, 1.0), (300, 4.0)]), measured_speed([])
    (100.0, None)
    """
    last = runs[-LAST_RUNS:]
    n_tokens, seconds = sum(n for n, _ in last), sum(s for _, s in last)
    return n_tokens / seconds if n_tokens and seconds > 0 else None


def show_model_offer(manager: JobManager, model: str) -> None:
    """What is missing, from where it comes, and one button that fetches it as a job."""
    row = next((r for r in data.catalogue() if r["id"] == model), None)
    with st.container(border=True):
        if row is None:
            st.markdown(f"The model {plain(model)} is not on this computer. Run looks for it on the Hub.")
            return
        gated = " It is gated: ask for access on the Hub first." if row["gated"] else ""
        st.markdown(
            f"**{plain(model)}** is not here yet: {size(row['download_bytes'])} from {plain(row['source'])}, "
            f"licence {plain(row['licence'])}, {count(row['n_parameters'])} parameters.{gated} "
            "Run fetches it too; it is kept for next time."
        )
        _fetch_state(manager, model)


def _fetch_state(manager: JobManager, model: str) -> None:
    job = manager.get(job_id("fetch", {"model": model}))

    @st.fragment(run_every=1.0 if job is not None and job.active else None)
    def live() -> None:
        now = manager.get(job.id) if job is not None else None
        if now is not None and now.active:
            show_progress(manager, now, key="fetch")
            return
        if job is not None and job.active:
            data.model_is_here.clear()
            data.catalogue.clear()
            st.rerun()
        if now is not None and now.phase == "failed":
            show_error(now.error)
        elif now is not None and now.phase == "broken":
            show_bug(now.exception)
        if st.button("Fetch the model", key="fetch_model"):
            try:
                manager.submit("fetch", {"model": model}, fetch_work(model))
            except LmgcError as error:
                show_error(error)
                return
            st.rerun()

    live()


def show_progress(manager: JobManager, job: JobView, key: str) -> None:
    """Where a job stands, how long it will take, and a way to stop it."""
    bar, button = st.columns([6, 1], vertical_alignment="center")
    note = job.note
    if job.phase == "waiting":
        note = f"waiting, {count(job.queued_before)} before it" if job.queued_before > 1 else "waiting"
    left = job.seconds_left(time.time())
    if left is not None and "left" not in note:
        note += f", about {duration(left)} left"
    bar.progress(min(max(job.fraction or 0.0, 0.0), 1.0), text=plain(note))
    if button.button("Cancel", key=f"cancel_{key}", width="stretch"):
        manager.cancel(job.id)
