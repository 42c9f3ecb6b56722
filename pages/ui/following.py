"""A job on the screen: looked at as often as it changes, and shown in whatever phase it is."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from pages.ui.frame import show_bug, show_error
from pages.ui.jobs import JobManager, JobView
from pages.ui.models import show_progress


def follow(
    manager: JobManager,
    job: JobView,
    show: Callable[[JobView, JobView | None], None],
    beside: JobView | None = None,
) -> None:
    """Shows a job now and again at its own pace; the whole page runs again when that pace changes.

    Args:
        manager: keeps the jobs.
        job: what is followed.
        show: draws the job, and the one beside it, as they are at the moment.
        beside: a second job that the same part of the page shows, followed once the first has ended.
    """
    pace = job.poll_seconds or (beside.poll_seconds if beside else None)

    @st.fragment(run_every=pace)
    def live() -> None:
        now = manager.get(job.id)
        other = manager.get(beside.id) if beside else None
        if now is None or pace != (now.poll_seconds or (other.poll_seconds if other else None)):
            st.rerun()
        show(now, other)

    live()


def show_phase(manager: JobManager, job: JobView, key: str, *, stopped: str, failed: str = "") -> None:
    """Progress with a way to cancel, or how the job ended; nothing for one that is done.

    Args:
        manager: keeps the jobs.
        job: as it is now.
        key: of the cancel button.
        stopped: what became of its work, for a job that was cancelled.
        failed: what is still there, for one that failed.
    """
    if job.active:
        show_progress(manager, job, key=key)
    elif job.phase == "failed":
        show_error(job.error, failed)
    elif job.phase == "broken":
        show_bug(job.exception)
    elif job.phase == "cancelled":
        st.info(f"Stopped: {stopped}")
