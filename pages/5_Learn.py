"""Learn: lessons for a class, each with something to do and every figure computed on the spot."""

from __future__ import annotations

import streamlit as st

from pages.ui import (
    data,
    forms,
    learn_audit,
    learn_coding,
    learn_controls,
    learn_determinism,
    learn_guessing,
    learn_tokens,
    state,
)
from pages.ui.frame import page_frame
from pages.ui.learn import Lesson, setting_form, show_end, show_text
from pages.ui.models import show_model_offer

LESSONS: dict[str, Lesson] = {
    "guess": learn_guessing.LESSON,
    "code": learn_coding.LESSON,
    "tokens": learn_tokens.LESSON,
    "controls": learn_controls.LESSON,
    "repeat": learn_determinism.LESSON,
    "audit": learn_audit.LESSON,
}

page_frame("Learn", "What does it take to predict a gradient?")
manager = data.jobs()
with st.sidebar:
    setting = setting_form()
chosen = LESSONS[forms.choice("Lesson", list(LESSONS), state.LESSON, hide_label=True)]
show_text(chosen)
if setting is not None:
    if not data.model_is_here(setting.model):
        show_model_offer(manager, setting.model)
    chosen.show(manager, setting)
show_end(chosen)
