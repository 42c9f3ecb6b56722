"""What a comparison sets side by side: a named grid, or chosen ways of writing × priors × lossy steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from lmgc_core.grids import GRIDS, QUICK_LIMIT, grid
from lmgc_core.settings import CHOICES, SERIALIZATION_FIELDS, CodecConfig, preset
from pages.ui import forms, state

SETTINGS: dict[str, dict[str, Any]] = {
    "best": {"preset": "best"},
    "lean": {"preset": "lean"},
    "paper": {"preset": "paper"},
    "paper, big-endian": {"preset": "paper", "byte_order": "big"},
    "paper, possible tokens only": {"preset": "paper", "support": "alphabet"},
    "best, a line a row": {"preset": "best", "line": "auto"},
    "lean, a line a row": {"preset": "lean", "line": "auto"},
    "exponent byte, hex": {"preset": "none", "planes": "exponent", "alphabet": "hex", "separator": "space"},
    "top two bytes, hex": {"preset": "none", "planes": "high", "alphabet": "hex", "separator": "space"},
    "all bytes, hex, comma": {"preset": "none", "planes": "all", "alphabet": "hex", "separator": "comma"},
    "all bytes, decimal": {"preset": "none", "planes": "all", "alphabet": "decimal", "separator": "space"},
    "plain decimal text": {"preset": "none", "planes": "all", "alphabet": "float", "separator": "space"},
}
KINDS = ("own choice", *GRIDS)
GRID_WORDS = {
    "quick": f"The presets, and what each prior makes of the best one, on {QUICK_LIMIT} blocks.",
    "paper": "The authors' table: hexadecimal and ISO text with each separator, group sizes, context windows. Several "
    "minutes.",
}
OWN_PRIOR = "the preset's"


def kind_form() -> str:
    """Own choice or a named grid."""
    st.subheader("Settings", anchor=False)
    return forms.choice("Settings to compare", KINDS, state.GRID, hide_label=True)


def compared_form(model: str) -> list[tuple[str, CodecConfig]]:
    """The settings that stand side by side, by label. Raises InvalidSetting where a lossy step is not known."""
    kind = kind_form()
    if kind != KINDS[0]:
        st.caption(GRID_WORDS[kind])
        return [(label_of(c), c) for c in grid(kind, model)]
    labels = st.multiselect(
        "Ways of writing",
        list(SETTINGS),
        default=state.DEFAULTS[state.COMPARED],
        key=state.COMPARED,
        bind="query-params",
        help="All are measured on the same parameters: blocks do not depend on the serialization.",
    )
    priors = st.multiselect(
        "Who predicts",
        CHOICES["prior"],
        key=state.COMPARED_PRIORS,
        placeholder=OWN_PRIOR,
        bind="query-params",
        help=forms.HELP["prior"] + " The model's passes are shared between llm and mix.",
    )
    steps = st.multiselect(
        "Lossy steps",
        list(dict.fromkeys([*forms.TRANSFORMS, *state.get(state.COMPARED_STEPS)])),
        default=state.DEFAULTS[state.COMPARED_STEPS],
        key=state.COMPARED_STEPS,
        accept_new_options=True,
        bind="query-params",
        help="Each is measured with each way of writing, and drawn as rate against error. Type to chain: "
        "topk:0.1+uniform:8.",
    )
    return configs_of(labels, priors, steps or ["none"], model)


def sample_size(n_blocks: int | None) -> int:
    """How many blocks each row is measured on, 0 for all; grid quick has its own number."""
    if state.get(state.GRID) != "quick":
        return forms.sample_form(n_blocks)[0]
    state.keep(state.LIMIT)
    return QUICK_LIMIT


def configs_of(
    labels: Sequence[str], priors: Sequence[str], steps: Sequence[str], model: str
) -> list[tuple[str, CodecConfig]]:
    """Every combination by its label; the prior and the step are named where they were chosen."""
    found = []
    for label in labels:
        for prior in priors or (None,):
            for step in steps:
                options = dict(SETTINGS[label])
                if prior is not None:
                    options["prior"] = prior
                config = preset(options.pop("preset"), **options, model=model, transform=step)
                words = [label, *([prior] if prior else []), *([step] if len(steps) > 1 or step != "none" else [])]
                found.append((" · ".join(words), config))
    return found


def label_of(config: CodecConfig) -> str:
    """A configuration in a few words: its preset, what differs from it, who predicts.

    >>> label_of(preset("paper", separator="comma")), label_of(preset("best", prior="mix", transform="bf16"))
    ('paper · separator comma · llm', 'best · mix · bf16')
    """
    words = [config.preset if config.preset != "none" else "own"]
    usual = preset(config.preset)
    for name in (*SERIALIZATION_FIELDS, "support", "context_window"):
        value = getattr(config, name)
        if value != getattr(usual, name):
            words.append(f"{name.replace('_', ' ')} {value}")
    words.append(config.prior)
    return " · ".join([*words, *([config.transform] if config.transform != "none" else [])])


def address_of(config: CodecConfig) -> dict[str, str]:
    """What an address says so that Analyze and Archive stand at these settings; what equals its preset is left out.

    >>> address_of(preset("paper", separator="comma", prior="llm"))
    {'preset': 'paper', 'model': 'smollm2-135m', 'transform': 'none', 'separator': 'comma'}
    """
    name = config.preset if config.preset != "none" else "paper"
    usual = preset(name)
    found = {state.PRESET: name, state.MODEL: config.model, state.TRANSFORM: config.transform}
    for key in state.DETAILS:
        if (key in config.explicit or config.preset == "none") and getattr(config, key) != getattr(usual, key):
            found[key] = str(getattr(config, key))
    return found
