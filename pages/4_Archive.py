"""Archive: does it decode, bit for bit? Make an .lmgc and watch the proof, or open one and take its gradient out."""

from __future__ import annotations

import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.settings import RunOptions, asks_model
from pages.ui import data, forms, headline, sources, state
from pages.ui.archive_making import making_form, show_before, show_making, show_subject
from pages.ui.archive_opening import (
    decoding_form,
    opened_needs_model,
    opening_form,
    show_decoding,
    show_description,
    show_details,
)
from pages.ui.archive_work import ToDecode, decode_work, make_work
from pages.ui.following import follow
from pages.ui.frame import page_frame, show_error
from pages.ui.jobs import JobManager, JobView, job_id
from pages.ui.models import show_model_offer
from pages.ui.work import submit_baselines


def make_page(manager: JobManager) -> None:
    """The chosen gradient on the left, its archive and the proof on the right."""
    with st.sidebar:
        loaded = sources.gradient_form() or data.loaded_from_run(state.current_job(state.ARCHIVE))
        if loaded is None:
            st.stop()
        gradient, subject, forecast = making_form(loaded)
    title, button = st.columns([6, 1], vertical_alignment="center")
    title.markdown(headline.headline_words(loaded.title, gradient, ()))
    if subject is not None and asks_model(subject.config.prior) and not data.model_is_here(subject.config.model):
        show_model_offer(manager, subject.config.model)
    wanted = job_id("archive", subject.facts) if subject else None
    job = manager.get(wanted)
    off = subject is None or (job is not None and job.active)
    if button.button("Make", type="primary", key="make_button", disabled=off, width="stretch") and subject:
        try:
            job = manager.submit("archive", subject.facts, make_work(subject, RunOptions()), subject)
        except LmgcError as error:
            show_error(error)
        else:
            state.set_job(state.ARCHIVE, job.id)
            if job.phase != "done":
                st.rerun()
            st.info("Already made; this is the archive.")
    job = job or manager.get(state.current_job(state.ARCHIVE))
    if job is None:
        show_before(subject, forecast)
        return
    state.set_job(state.ARCHIVE, job.id)
    if show_archive_job(manager, job, is_older=job.id != wanted):
        return
    if job.active:
        show_subject(job.subject)
    else:
        show_before(subject, forecast)


def show_archive_job(manager: JobManager, job: JobView, is_older: bool) -> bool:
    """Whether there is an archive on the screen, this one or the one before; polled while it is being made."""
    if job.phase == "done":
        state.put(state.LAST_ARCHIVE, job.id)
    last = manager.get(state.get(state.LAST_ARCHIVE))
    kept = last if last is not None and last.id != job.id and last.phase == "done" else None
    shown = job if job.phase == "done" else kept
    baselines = submit_baselines(manager, shown.subject.gradient) if shown and not job.active else None
    if is_older and not job.active:
        st.warning("Settings have changed since this archive. Make brings it up to date.")
    follow(manager, job, lambda now, found: show_making(manager, now, found, kept), baselines)
    return shown is not None


def open_page(manager: JobManager) -> None:
    """An archive that was brought along, and the gradient in it."""
    state.keep(*state.MAKING, *state.DETAILS)
    opened = opening_form()
    if opened is None:
        st.caption("An .lmgc says itself what it holds and what decoding it needs; nothing is decoded by opening it.")
        return
    show_description(opened)
    subject, pressed = decoding_form(manager, opened)
    if subject is not None:
        show_decoding_job(manager, subject, pressed)
    show_details(opened)


def show_decoding_job(manager: JobManager, subject: ToDecode, pressed: bool) -> None:
    """Decoding on the screen, polled while it goes on."""
    if opened_needs_model(subject.opened) and not data.model_is_here(subject.model):
        show_model_offer(manager, subject.model)
    job = manager.get(job_id("unpacking", subject.facts))
    if pressed:
        try:
            job = manager.submit("unpacking", subject.facts, decode_work(subject, RunOptions()), subject)
        except LmgcError as error:
            show_error(error)
        else:
            if job.phase != "done":
                st.rerun()
    if job is None:
        return
    state.set_job(state.UNPACKED, job.id)
    follow(manager, job, lambda now, _: show_decoding(manager, now))


page_frame("Archive", "Does it come back, bit for bit?")
MODES = {"make": "Make an archive", "open": "Open an archive"}
mode = forms.choice("What to do", list(MODES), state.ARCHIVE_MODE, names=MODES, hide_label=True)
if mode == "open":
    open_page(data.jobs())
else:
    make_page(data.jobs())
