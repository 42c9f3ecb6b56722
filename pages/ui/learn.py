"""What all lessons share: gradient, model and seed; text with sources; the job that asks the model; exercises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.gradient import Gradient
from lmgc_core.settings import RunOptions
from pages.ui import data, forms, state
from pages.ui.following import follow, show_phase
from pages.ui.format import plain
from pages.ui.frame import show_error
from pages.ui.jobs import JobContext, JobManager, JobView, job_id
from pages.ui.sources import DEFAULT_SAMPLE
from pages.ui.work import loaded_model

KIND = "lesson"
SOURCES: dict[str, str] = {
    "shannon": "C. E. Shannon, [Prediction and Entropy of Printed English]"
    "(https://doi.org/10.1002/j.1538-7305.1951.tb01366.x), Bell System Technical Journal 30, 1951",
    "shannon48": "C. E. Shannon, [A Mathematical Theory of Communication]"
    "(https://doi.org/10.1002/j.1538-7305.1948.tb01338.x), Bell System Technical Journal 27, 1948",
    "good": "I. J. Good, [Rational Decisions](https://doi.org/10.1111/j.2517-6161.1952.tb00104.x), "
    "Journal of the Royal Statistical Society B 14, 1952 (the logarithmic score)",
    "rissanen": "J. Rissanen, [Generalized Kraft Inequality and Arithmetic Coding]"
    "(https://doi.org/10.1147/rd.203.0198), IBM Journal of Research and Development 20, 1976",
    "witten": "I. H. Witten, R. M. Neal, J. G. Cleary, [Arithmetic Coding for Data Compression]"
    "(https://doi.org/10.1145/214762.214771), Communications of the ACM 30, 1987",
    "lmgc": "H.-P. Wang, M. Fritz, [Language Models as Zero-shot Lossless Gradient Compressors: Towards General Neural "
    "Parameter Prior Models](https://arxiv.org/abs/2409.17836), NeurIPS 2024",
    "deletang": "G. Delétang and others, [Language Modeling Is Compression](https://arxiv.org/abs/2309.10668), "
    "ICLR 2024",
    "pmatic": "[PMATIC](https://arxiv.org/abs/2601.10678), a helper bit for every symbol against mismatched "
    "probabilities",
    "kraft": "L. G. Kraft, A Device for Quantizing, Grouping, and Coding Amplitude-Modulated Pulses, MIT, 1949",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What every lesson works on."""

    gradient: Gradient
    title: str
    model: str
    seed: int


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson of the page.

    Attributes:
        question: its heading.
        text: what it is about, in Markdown.
        sources: keys of `SOURCES`.
        exercises: (question, answer), in Markdown.
        show: the interaction.
    """

    question: str
    text: str
    sources: Sequence[str]
    exercises: Sequence[tuple[str, str]]
    show: Callable[[JobManager, Setting], None]


def setting_form() -> Setting | None:
    """The sidebar: a bundled gradient, the model, the seed of the place."""
    st.subheader("Gradient", anchor=False)
    titles = data.samples()
    if not titles:
        st.caption("No samples are bundled here; lessons need one.")
        return None
    name = st.selectbox(
        "Sample",
        list(titles),
        index=list(titles).index(DEFAULT_SAMPLE) if DEFAULT_SAMPLE in titles else 0,
        format_func=lambda n: titles.get(n, n),
        key=state.SAMPLE,
        label_visibility="collapsed",
        bind="query-params",
    )
    seed = st.number_input(
        "Seed",
        0,
        2**31 - 1,
        key=state.LESSON_SEED,
        bind="query-params",
        help="Picks the place in the gradient. The same seed gives everybody the same digits and the same numbers.",
    )
    loaded = data.load_sample(name)
    return Setting(loaded.gradient, loaded.title, forms.model_form(), int(seed))


def facts_of(lesson: str, setting: Setting, **more: Any) -> dict[str, Any]:
    """What the result of a lesson depends on."""
    return {
        "lesson": lesson,
        "gradient": setting.gradient.identity,
        "model": setting.model,
        "seed": setting.seed,
        **more,
    }


def ask(
    manager: JobManager,
    lesson: str,
    setting: Setting,
    work: Callable[[Any, JobContext], Any],
    show: Callable[[str, Any], None],
    *,
    button: str,
    **more: Any,
) -> None:
    """A button that asks the model as a job, and what came of it, shown as it comes.

    Args:
        manager: runs the job.
        lesson: its id.
        setting: gradient, model, seed.
        work: given the loaded model and the job's context; the result.
        show: draws a result, or what there is of it; given the job's id too.
        button: what it says.
        more: on what the result depends besides the setting.
    """
    facts = facts_of(lesson, setting, **more)
    job = manager.get(job_id(KIND, facts))
    if job is None or not (job.active or job.phase == "done"):

        def run(context: JobContext) -> Any:
            model = loaded_model(setting.model, RunOptions(), context)
            context.check()
            context.say("reading the text", None)
            return work(model, context)

        if st.button(button, type="primary", key=f"{lesson}_start"):
            try:
                manager.submit(KIND, facts, run, setting)
            except LmgcError as error:
                show_error(error)
            else:
                st.rerun()
    if job is None:
        st.caption(f"Nothing is computed before that. The model reads a few values of {plain(setting.title)}.")
        return

    def outcome(now: JobView, _: JobView | None) -> None:
        show_phase(manager, now, lesson, stopped="what was done is shown.")
        if now.partial is not None:
            show(now.id, now.partial)

    follow(manager, job, outcome)


def show_text(lesson: Lesson) -> None:
    """The heading and what the lesson is about."""
    st.subheader(lesson.question, anchor=False)
    st.markdown(lesson.text, width=760)


def show_end(lesson: Lesson) -> None:
    """Exercises with answers one click away, then sources."""
    st.markdown("**Exercises**")
    for i, (question, answer) in enumerate(lesson.exercises):
        st.markdown(f"{i + 1}. {question}", width=760)
        with st.expander(f"Answer {i + 1}"):
            st.markdown(answer, width=760)
    st.caption("Sources: " + "; ".join(SOURCES[key] for key in lesson.sources) + ".", width=760)
