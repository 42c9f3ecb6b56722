"""The settings beside the picture: each `*_form` draws widgets and returns what they say.

A help line says what a knob does and which way it pushes. Details stand at "as preset" until someone
moves them; only moved ones count as explicit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from lmgc_core.gradient import DTYPES, DType, Gradient
from lmgc_core.settings import CHOICES, CodecConfig, preset
from pages.ui import data, state
from pages.ui.format import count, number, plain, size

PRESETS = ("best", "lean", "paper")
PRESET_HELP = (
    "best: fewest bits, about two tokens a parameter. lean: the fewest tokens, so the fastest. In both the model and "
    "counting predict together. "
    "paper: the authors' format, every byte as hexadecimal text."
)
LABELS: dict[str, str] = {
    "planes": "What the model reads",
    "alphabet": "Spelling",
    "separator": "Separator",
    "group_size": "Symbols between separators",
    "line": "Parameters a line",
    "byte_order": "Byte order",
    "support": "Possible tokens",
    "context_window": "Context window, tokens",
    "prior": "Who predicts",
}
HELP: dict[str, str] = {
    "planes": "Which bits of a value become text: all bytes; high, the top two; exponent, its byte; head, sign and "
    "exponent. The others go to a small coder that is counted too. Fewer bits as text need fewer tokens.",
    "alphabet": "How one symbol is written. Letters need the fewest tokens, numbers usually the fewest bits.",
    "separator": "Stands between groups. Showing where values begin usually saves bits and costs tokens.",
    "group_size": "auto puts a separator after each parameter; 0 none.",
    "line": "A newline after so many parameters; auto follows the tensor's innermost row or kernel. "
    "Visible rows can help the model.",
    "byte_order": "Big puts sign and exponent first, which the model predicts better. Only where bytes are written.",
    "support": "alphabet spreads probability over tokens that the text can hold; full over the whole vocabulary, "
    "which costs bits.",
    "context_window": "How far the model looks back. More helps a little and is slower.",
    "prior": "llm is the language model alone; counts is adaptive counting without it; mix is both together, usually "
    "the fewest bits. The heatmap shows the language model's part.",
}
DETAIL_OPTIONS: dict[str, tuple[Any, ...]] = {
    **{k: CHOICES[k] for k in ("planes", "alphabet", "separator", "byte_order", "support", "prior")},
    "group_size": ("auto", 0, 1, 2, 4, 8, 16),
    "line": (0, "auto", 8, 16, 32, 64, 128),
    "context_window": (128, 256, 512, 1024, 1536, 2048, 4096, 8192),
}
TRANSFORMS = ("none", "fp16", "bf16", "uniform:8", "uniform:4", "topk:0.1")
LIMITS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 0)


def tensors_form(gradient: Gradient) -> list[str]:
    """Names of the tensors to take; empty is all of them."""
    names = [t.name for t in gradient]
    if len(names) < 2:
        return []
    return st.multiselect(
        "Tensors",
        names,
        key=state.TENSORS,
        placeholder=f"all {len(names)}",
        format_func=lambda n: n or "(no name)",
        help="Leave empty for all. Blocks to score are spread over the chosen tensors in proportion to their size.",
        bind="query-params",
    )


def model_form() -> str:
    """The language model: a catalogue id, or a folder, Hub id or .gguf path typed in."""
    st.subheader("Model", anchor=False)
    rows = {row["id"]: row for row in data.catalogue()}

    own = state.get(state.MODEL)
    chosen = st.selectbox(
        "Language model",
        list(dict.fromkeys([*rows, own])),
        key=state.MODEL,
        accept_new_options=state.local_mode(),
        label_visibility="collapsed",
        bind="query-params",
        help="From the list, or type a folder or Hub id that transformers reads, or a .gguf file."
        if state.local_mode()
        else None,
    )
    chosen = chosen or state.DEFAULTS[state.MODEL]
    row = rows.get(chosen)
    if row is None:
        st.caption("your own model")
    else:
        here = "ready" if row["is_here"] else f"{size(row['download_bytes'])} to fetch"
        st.caption(f"{here} · {number(row['n_parameters'] / 1e6)} M parameters · {plain(row['licence'])}")
    return chosen


def choice(
    label: str,
    options: Sequence[str],
    key: str,
    *,
    names: Mapping[str, str] | None = None,
    help: str | None = None,
    hide_label: bool = False,
) -> str:
    """One of a few, always one, in the address too.

    Args:
        label: for everyone, or with `hide_label` for screen readers.
        options: what the fact may be.
        key: of the fact; its default is the one in `state.DEFAULTS`.
        names: what the options are called, where not by themselves.
        help: what the choice does.
        hide_label: where the heading above says it.
    """
    return st.segmented_control(
        label,
        list(options),
        format_func=lambda option: (names or {}).get(option, option),
        default=state.DEFAULTS[key],
        required=True,
        key=key,
        help=help,
        label_visibility="collapsed" if hide_label else "visible",
        bind="query-params",
    ) or str(state.DEFAULTS[key])


def serialization_form(dtype: DType) -> tuple[str, dict[str, Any]]:
    """A preset and the details that were moved away from it."""
    st.subheader("Serialization", anchor=False)
    name = choice("Preset", PRESETS, state.PRESET, help=PRESET_HELP)
    base = preset(name)
    chosen = base.serialization(dtype)
    moved = [k for k in state.DETAILS if state.get(k) != state.AS_PRESET]
    explicit: dict[str, Any] = {}
    with st.expander(f"Details ({len(moved)} changed)" if moved else "Details"):
        for key in state.DETAILS:
            default = getattr(chosen, key) if hasattr(chosen, key) else getattr(base, key)
            value = _detail(key, default)
            if value != state.AS_PRESET:
                explicit[key] = value
    return name, explicit


def _detail(key: str, default: Any) -> Any:
    def label(value: Any) -> str:
        return f"as preset: {default}" if value == state.AS_PRESET else str(value)

    return st.selectbox(
        LABELS[key],
        (state.AS_PRESET, *DETAIL_OPTIONS[key]),
        format_func=label,
        key=key,
        help=HELP[key],
        bind="query-params",
    )


def transform_form() -> str:
    """The lossy step before everything else."""
    return (
        st.selectbox(
            "Lossy step",
            list(dict.fromkeys([*TRANSFORMS, state.get(state.TRANSFORM)])),
            key=state.TRANSFORM,
            accept_new_options=True,
            help="Changes the values before they are coded; side information is counted and the error reported. "
            "uniform:8 keeps 8 bits a value, topk:0.1 the largest tenth. Type to chain: topk:0.1+uniform:8.",
            bind="query-params",
        )
        or "none"
    )


def sample_form(n_blocks: int | None) -> tuple[int, int]:
    """How many blocks are scored (0 is all) and the seed that chooses them."""
    given = st.query_params.get(state.LIMIT, "")
    sizes = {*LIMITS, int(given)} if given.isdecimal() else set(LIMITS)
    options = [n for n in sorted(sizes) if n and (n_blocks is None or n < n_blocks)]
    options.append(0)

    if state.get(state.NEXT_LIMIT) is not None:
        st.session_state[state.LIMIT] = st.session_state.pop(state.NEXT_LIMIT)
    if st.session_state.get(state.LIMIT) not in (None, *options):
        st.session_state[state.LIMIT] = options[-1]
    limit = st.select_slider(
        f"Sample, blocks of {count(n_blocks)}" if n_blocks else "Sample, blocks",
        options,
        value=state.DEFAULTS[state.LIMIT] if state.DEFAULTS[state.LIMIT] in options else options[-1],
        format_func=lambda n: str(n) if n else "all",
        key=state.LIMIT,
        help="A block is 432 consecutive parameters, the same whatever the serialization. "
        "More blocks: a narrower interval, a longer run.",
        bind="query-params",
    )
    return int(limit), int(state.get(state.SEED))


def codec_config(model: str, name: str, explicit: dict[str, Any], transform: str, seed: int) -> CodecConfig:
    """The settings as one object. Raises InvalidSetting where they do not fit."""
    return preset(name, **explicit, model=model, transform=transform, seed=seed)  # type: ignore[arg-type]


def main_dtype(gradient: Gradient, names: Sequence[str]) -> DType:
    """The dtype of most of the chosen values."""
    totals: dict[str, int] = {}
    for tensor in gradient:
        if not names or tensor.name in names:
            totals[tensor.dtype.name] = totals.get(tensor.dtype.name, 0) + tensor.raw_bytes
    return DTYPES[max(totals, key=lambda n: totals[n])] if totals else DTYPES["float32"]
