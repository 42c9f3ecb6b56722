"""Making an archive on the page: how much goes into it, how it is proven, how long that takes."""

from __future__ import annotations

import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.gradient import Gradient
from lmgc_core.settings import CodecConfig
from pages.ui import data, forms, slicing, state
from pages.ui.archive_forecast import Ahead, ArchiveForecast, fitting, forecast_archive, look_ahead
from pages.ui.archive_made import show_made
from pages.ui.archive_work import ToMake, leading_part
from pages.ui.before import show_preview
from pages.ui.data import Loaded
from pages.ui.following import show_phase
from pages.ui.format import count, size
from pages.ui.frame import show_error
from pages.ui.jobs import JobManager, JobView
from pages.ui.models import DEFAULT_PARAMETERS
from pages.ui.work import Measured

VALUES = (144, 288, 432, 864, 1728, 3456, 6912, 13824, 0)
SHORT_WINDOW = 128
WINDOWS = {"short": f"short, {SHORT_WINDOW} tokens", "as set": "as set above"}
PROOFS = {"auto": "a part if long", "all": "everything"}


def making_form(loaded: Loaded) -> tuple[Gradient, ToMake | None, ArchiveForecast | None]:
    """The sidebar below the gradient: what goes into the archive. None where settings do not fit."""
    chosen = slicing.chosen_form(loaded.gradient)
    model = forms.model_form()
    name, explicit = forms.serialization_form(forms.main_dtype(chosen, ()))
    transform = forms.transform_form()
    st.subheader("Archive", anchor=False)
    gradient = leading_part(chosen, _values_form(chosen.n_parameters))
    windows = forms.choice(
        "Windows",
        list(WINDOWS),
        state.ARCHIVE_WINDOWS,
        names=WINDOWS,
        help="Decoding goes token by token, all windows side by side: short ones are done much sooner, and cost some "
        "bits because the model looks back less far.",
    )
    proof = forms.choice(
        "Decode as proof",
        list(PROOFS),
        state.PROOF,
        names=PROOFS,
        help="Up to 10 000 tokens everything is decoded either way. Beyond, a part is: seeded segments of that size.",
    )
    try:
        config = forms.codec_config(model, name, explicit, transform, int(state.get(state.SEED)))
        if windows == "short" and config.context_window > SHORT_WINDOW:
            config = forms.codec_config(
                model, name, {**explicit, "context_window": SHORT_WINDOW}, transform, config.seed
            )
        with_tokens = data.tokenizer_if_here(config.model) is not None
        found = data.preview(gradient.identity, gradient, repr(config), config, with_tokens)
    except LmgcError as error:
        show_error(error)
        return gradient, None, None
    n_tokens = len(found.texts) if found.texts else len(found.text) / 2
    ahead = look_ahead(
        gradient.n_parameters,
        *fitting(found.n_parameters, n_tokens, config.context_window),
        proof,
        config.prior,
        _model_size(model),
    )
    forecast = _forecast(config, ahead)
    st.caption(f"Forecast: {forecast.words()}" if forecast else "Forecast: known after the first archive")
    return gradient, ToMake(gradient, loaded.title, config, proof, ahead), forecast


def _values_form(n_parameters: int) -> int:
    options = [n for n in VALUES if n and n < n_parameters] + [0]
    if st.session_state.get(state.ARCHIVE_VALUES) not in (None, *options):
        st.session_state[state.ARCHIVE_VALUES] = options[-1]
    default = state.DEFAULTS[state.ARCHIVE_VALUES]
    chosen = st.select_slider(
        f"How much, values of {count(n_parameters)}",
        options,
        value=default if default in options else options[-1],
        format_func=lambda n: count(n) if n else "all",
        key=state.ARCHIVE_VALUES,
        bind="query-params",
        help="The first values of the largest chosen tensor. Exact arithmetic is slow: start small.",
    )
    return int(chosen)


def _model_size(model: str) -> float | None:
    row = next((r for r in data.catalogue() if r["id"] == model), None)
    return row["n_parameters"] / DEFAULT_PARAMETERS if row and row["n_parameters"] else None


def _forecast(config: CodecConfig, ahead: Ahead) -> ArchiveForecast | None:
    made = [j for j in data.jobs().finished("archive") if isinstance(j.subject, ToMake)]
    alike = [
        (j.subject.ahead, j.result.encode_seconds, j.result.proof_seconds)
        for j in made
        if (j.subject.config.model, j.subject.config.prior) == (config.model, config.prior)
    ]
    measured = [j.subject.config for j in data.jobs().finished("measure") if isinstance(j.subject, Measured)]
    is_loaded = any(c.model == config.model for c in [*measured[-1:], *(j.subject.config for j in made[-1:])])
    return forecast_archive(ahead, alike, is_loaded)


def show_before(subject: ToMake | None, forecast: ArchiveForecast | None) -> None:
    """Before anything is made: what Make does, how long it takes, and what goes in."""
    took = f" It takes {forecast.words()}." if forecast else ""
    st.caption(f"Make writes the values to an .lmgc file, decodes that file and compares every bit.{took}")
    if subject is not None:
        show_subject(subject)


def show_subject(subject: ToMake) -> None:
    """What goes into an archive: how much, its digest, the text of its first window."""
    gradient, config = subject.gradient, subject.config
    with st.container(border=True):
        st.markdown(f"**What goes in:** {count(gradient.n_parameters)} values, {size(gradient.raw_bytes)} raw")
        st.caption("SHA-256 of these values")
        st.code(gradient.digest, language=None, wrap_lines=True)
    with_tokens = data.tokenizer_if_here(config.model) is not None
    show_preview(data.preview(gradient.identity, gradient, repr(config), config, with_tokens), with_tokens)


def show_making(manager: JobManager, job: JobView, baselines: JobView | None, kept: JobView | None) -> None:
    """Progress or outcome; the archive that is there, this one or the one before."""
    show_phase(
        manager, job, "archive", stopped="no archive was written. Make starts again.", failed="No archive was written."
    )
    if job.active and kept is None:
        st.caption("The archive is given out once it is whole and its proof is done.")
    if job.phase == "done":
        show_made(job, baselines)
    elif kept is not None:
        st.caption("The archive made before:")
        show_made(kept, baselines)
