"""Generate: train a small network here, keep its gradients, and look at them with one press."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from lmgc_core.errors import LmgcError
from pages.ui import data, state
from pages.ui.following import follow
from pages.ui.frame import page_frame, show_error
from pages.ui.jobs import job_id
from pages.ui.training import show_training, training_form
from pages.ui.work import train_work

page_frame("Generate", "What does a network learn by?")
manager = data.jobs()
with st.sidebar:
    st.subheader("Training", anchor=False)
    try:
        config = training_form()
    except LmgcError as error:
        show_error(error)
        st.stop()
facts = replace(config).to_dict()
wanted = job_id("training", facts)
job = manager.get(wanted) or manager.get(state.current_job(state.TRAINING))
title, button = st.columns([6, 1], vertical_alignment="center")
title.markdown("Train a small network for a few steps and keep what it learns by.")
running = job is not None and job.active
if button.button("Train", type="primary", key="train_button", disabled=running, width="stretch"):
    try:
        job = manager.submit("training", facts, train_work(config), config)
    except LmgcError as error:
        show_error(error)
    else:
        state.set_job(state.TRAINING, job.id)
        if job.phase != "done":
            st.rerun()
        st.info("Already trained; this is the result.")
if job is None:
    st.caption("The loss appears here while it trains; every recorded step can be analysed or downloaded.")
    st.stop()
state.set_job(state.TRAINING, job.id)
follow(manager, job, lambda now, _: show_training(manager, now, now.subject))
if job.id != wanted:
    st.caption("Settings have changed since this training. Train runs with the new ones.")
