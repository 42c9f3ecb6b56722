"""Analyze: how many bits does a language model need for each part of a gradient, and why?"""

from __future__ import annotations

import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.gradient import Gradient
from lmgc_core.settings import CodecConfig, RunOptions
from pages.ui import before, data, forms, headline, kept_runs, slicing, sources, state
from pages.ui.data import Loaded
from pages.ui.following import follow
from pages.ui.format import count, plain
from pages.ui.frame import ALREADY_MEASURED, page_frame, show_bug, show_error
from pages.ui.jobs import JobView, job_id
from pages.ui.models import forecast, show_model_offer
from pages.ui.runs import show_run
from pages.ui.work import Measured, measure_work, submit_baselines


def settings(loaded: Loaded) -> tuple[Gradient, CodecConfig | None, int]:
    """The sidebar below the gradient: everything a run depends on. None where settings do not fit."""
    gradient = slicing.chosen_form(loaded.gradient)
    model = forms.model_form()
    name, explicit = forms.serialization_form(forms.main_dtype(gradient, ()))
    transform = forms.transform_form()
    try:
        config = forms.codec_config(model, name, explicit, transform, int(state.get(state.SEED)))
        found = data.preview(gradient.identity, gradient, repr(config), config, False)
    except LmgcError as error:
        show_error(error)
        forms.sample_form(None)
        return gradient, None, 0
    limit, _ = forms.sample_form(found.n_blocks)
    ahead = forecast(gradient, config, limit, found)
    st.caption(f"Forecast: {ahead.words()}" if ahead else "Forecast: known after the first run")
    return gradient, config, limit


def show_empty(whole: Gradient, gradient: Gradient, config: CodecConfig | None) -> None:
    """Before any run: tensors, histograms, and the text a model would read."""
    if config is not None:
        st.caption("Press Run to see what the model finds surprising.")
        with_tokens = data.tokenizer_if_here(config.model) is not None
        try:
            before.show_preview(
                data.preview(gradient.identity, gradient, repr(config), config, with_tokens), with_tokens
            )
        except LmgcError as error:
            show_error(error)
    st.markdown("**Tensors**")
    before.show_tensor_table(whole.identity, whole, choose=True)
    tensor = max(gradient, key=lambda t: t.n_parameters)
    if len(gradient) > 1:
        names = [t.name for t in gradient]
        tensor = gradient.tensor(
            st.selectbox("Histograms of", names, index=names.index(tensor.name), key=state.HISTOGRAM)
        )
    after = None
    if config is not None and config.transform != "none":
        try:
            left = data.after_lossy_step(gradient.identity, gradient, config.transform, config.seed)
            after = left.values.tensor(tensor.name)
            before.show_lossy_step(left, gradient.n_parameters, config.transform)
        except LmgcError as refused:
            show_error(refused)
    before.show_histograms(tensor, gradient.identity, after, config.transform if config else "none")


def show_results(subject: Measured | None, whole: Gradient, gradient: Gradient, config: CodecConfig | None) -> None:
    """The run on the screen, polled while it is active; the empty state if there is none."""
    manager = data.jobs()
    wanted = job_id("measure", subject.facts) if subject else None
    shown: JobView | None = kept_runs.job_of_question(subject) if subject else None
    if shown is None:
        older = kept_runs.job_of_run(state.current_job(state.RUN))
        if (
            older is not None
            and isinstance(older.subject, Measured)
            and older.subject.gradient.identity == gradient.identity
        ):
            shown = older
    if shown is None:
        show_empty(whole, gradient, config)
        return
    state.set_job(state.RUN, shown.id)
    kept_runs.see(shown, subject.title if subject else shown.subject.title)
    baselines = submit_baselines(manager, shown.subject.gradient) if shown.phase == "done" else None
    is_older = shown.id != wanted
    follow(manager, shown, lambda job, found: show_run(manager, job, found, is_older), baselines)


page_frame("Analyze", "How many bits does a language model need, and where?")
with st.sidebar:
    loaded = sources.gradient_form() or data.loaded_from_run(state.current_job(state.RUN))
    if loaded is None:
        st.stop()
    gradient, config, limit = settings(loaded)

subject = Measured(gradient, loaded.title, loaded.source, config, limit) if config else None
title, button = st.columns([6, 1], vertical_alignment="center")
title.markdown(headline.headline_words(loaded.title, gradient, ()))
for warning in loaded.gradient.warnings[:3]:
    st.caption(plain(warning))
if len(loaded.gradient.warnings) > 3:
    st.caption(f"and {count(len(loaded.gradient.warnings) - 3)} more notes about this file")
if config is not None and not data.model_is_here(config.model):
    show_model_offer(data.jobs(), config.model)
running = subject is not None and (job := data.jobs().get(job_id("measure", subject.facts))) is not None and job.active
if button.button("Run", type="primary", key="run_button", disabled=subject is None or running, width="stretch"):
    try:
        started = data.jobs().submit("measure", subject.facts, measure_work(subject, RunOptions()), subject)
        state.set_job(state.RUN, started.id)
        if started.phase != "done":
            st.rerun()
        st.info(ALREADY_MEASURED)
    except LmgcError as error:
        show_error(error)
try:
    show_results(subject, loaded.gradient, gradient, config)
except LmgcError as error:
    show_error(error)
except MemoryError as error:
    show_bug(error)
