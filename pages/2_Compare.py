"""Compare: which way of writing a gradient needs the fewest bits? Settings side by side on one sample."""

from __future__ import annotations

import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.settings import RunOptions
from pages.ui import data, forms, headline, slicing, sources, state
from pages.ui.compare_form import compared_form, sample_size
from pages.ui.compared import show_comparison
from pages.ui.following import follow, show_phase
from pages.ui.frame import ALREADY_MEASURED, page_frame, show_error
from pages.ui.jobs import JobManager, JobView, job_id
from pages.ui.models import show_model_offer
from pages.ui.work import Compared, compare_work


def subject_form() -> Compared | None:
    """The sidebar: the gradient, the model, the settings and the sample."""
    loaded = sources.gradient_form() or data.loaded_from_run(state.current_job(state.COMPARISON))
    if loaded is None:
        return None
    gradient = slicing.chosen_form(loaded.gradient)
    model = forms.model_form()
    try:
        configs = tuple(compared_form(model))
    except LmgcError as error:
        show_error(error)
        return None
    limit = sample_size(data.n_blocks(gradient.identity, gradient))
    return Compared(gradient, loaded.title, configs, limit)


def show_outcome(manager: JobManager, job: JobView) -> None:
    """Progress or outcome, then the rows there are."""
    show_phase(manager, job, "compare", stopped="finished settings are shown. Run starts again.")
    if job.partial is not None:
        labels = dict(enumerate(label for label, _ in job.subject.configs))
        show_comparison(job.id, job.partial, labels, job.subject.title)


def show_job(manager: JobManager, wanted: str) -> None:
    """The comparison on the screen, polled while it is active."""
    job = manager.get(wanted)
    if job is None:
        st.caption("Press Run to measure the chosen settings on the same sample, beside baselines and null controls.")
        return
    state.set_job(state.COMPARISON, job.id)
    follow(manager, job, lambda now, _: show_outcome(manager, now))


page_frame("Compare", "Which way of writing needs the fewest bits?")
manager = data.jobs()
with st.sidebar:
    subject = subject_form()
if subject is None:
    st.stop()
wanted = job_id("compare", subject.facts)
title, button = st.columns([6, 1], vertical_alignment="center")
title.markdown(headline.headline_words(subject.title, subject.gradient, ()))
if subject.configs and not data.model_is_here(subject.configs[0][1].model):
    show_model_offer(manager, subject.configs[0][1].model)
running = (job := manager.get(wanted)) is not None and job.active
ready = len(subject.configs) > 0 and not running
if button.button("Run", type="primary", key="compare_button", disabled=not ready, width="stretch"):
    try:
        started = manager.submit("compare", subject.facts, compare_work(subject, RunOptions()), subject)
    except LmgcError as error:
        show_error(error)
    else:
        if started.phase != "done":
            st.rerun()
        st.info(ALREADY_MEASURED)
show_job(manager, wanted)
