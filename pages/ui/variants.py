"""One column of the serialization playground: its settings, and what they make of the values."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.gradient import DType, Tensor
from lmgc_core.settings import SERIALIZATION_FIELDS, Serialization, preset_serialization
from pages.ui import data, forms, playground, state
from pages.ui.format import count, number, plain, visible
from pages.ui.frame import show_error
from pages.ui.playground import Written
from pages.ui.token_strip import Strip, show_token_strip

FORMATS = ("best", "lean", "paper", "plain decimal")


def base_serialization(name: str, dtype: DType) -> Serialization:
    """A format by its name."""
    return playground.PLAIN if name == "plain decimal" else preset_serialization(name, dtype)  # type: ignore[arg-type]


def variant_form(i: int, default: str, dtype: DType) -> tuple[Serialization | None, str]:
    """A format with its details, and the model whose tokenizer cuts the text."""
    name = st.selectbox("Format", FORMATS, index=FORMATS.index(default), key=f"variant_{i}", bind="query-params")
    base = base_serialization(name, dtype)
    changed = {}
    with st.expander("Details"):
        for field in SERIALIZATION_FIELDS:
            own = getattr(base, field)
            value = st.selectbox(
                forms.LABELS[field],
                (state.AS_PRESET, *forms.DETAIL_OPTIONS[field]),
                format_func=lambda v, own=own: f"as format: {own}" if v == state.AS_PRESET else str(v),
                key=f"variant_{i}_{field}",
                help=forms.HELP[field],
                persist_state="session",
            )
            if value != state.AS_PRESET:
                changed[field] = value
    here = [row["id"] for row in data.catalogue() if row["is_here"]]
    options = list(dict.fromkeys([*here, state.get(state.MODEL)]))
    model = st.selectbox(
        "Tokenizer of",
        options,
        key=f"variant_{i}_model",
        accept_new_options=state.local_mode(),
        persist_state="session",
        help="A model that is here, or type a folder.",
    )
    try:
        return replace(base, **changed), model
    except LmgcError as error:
        show_error(error)
        return None, model


def show_variant(i: int, tensor: Tensor, serialization: Serialization, model: str) -> None:
    """Numbers first, then the text as tokens, then value by value."""
    tokenizer = data.tokenizer_if_here(model)
    try:
        found = playground.write(tensor, serialization, tokenizer)
        plain_text = playground.write(tensor, playground.PLAIN, tokenizer) if tensor.dtype.kind == "float" else None
    except LmgcError as error:
        show_error(error)
        return
    show_efficiency(found, plain_text)
    if found.tokens:
        strip = Strip(f"{i}/{model}/{found.text}", range(len(found.tokens)), found.tokens, found.token_ids)
        show_token_strip(strip, key=f"variant_{i}_strip")
    else:
        st.code(visible(found.text), language=None, wrap_lines=True)
        st.caption(f"Tokens appear once the tokenizer of {plain(model)} is here; Analyze offers to fetch it.")
    table = pd.DataFrame(
        {
            "value": [r.value for r in found.rows],
            "text": [visible(r.text) for r in found.rows],
            "tokens": [" │ ".join(visible(t) for t in r.tokens) for r in found.rows],
        }
    )
    st.dataframe(
        table if found.tokens else table.drop(columns="tokens"),
        hide_index=True,
        key=f"variant_{i}_table",
        alt="Each value with its text and tokens",
    )
    if found.remainder_bits:
        st.caption(f"{found.remainder_bits} bits of each value stay out of the text and go to a small coder.")
    else:
        st.caption("Every bit of a value stands in the text.")


def show_values(tensor: Tensor) -> None:
    """The values as they stand in memory, the same for every column."""
    rows = playground.value_rows(tensor)
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        height=38 + 35 * min(len(rows), 8),
        key="values_table",
        alt="Each value with its bits by field and its bytes",
    )


def against_plain(tokens: float, plain_tokens: float) -> str:
    """Tokens per parameter held against those of plain decimal text, in words that hold on either side.

    >>> against_plain(2.0, 5.0), against_plain(8.0, 4.0)
    ('plain decimal text takes 5.00, 150 % more', 'plain decimal text takes 4.00, 50 % fewer')
    """
    if plain_tokens == tokens:
        return "plain decimal text takes as many"
    difference = 100 * abs(plain_tokens / tokens - 1)
    words = "more" if plain_tokens > tokens else "fewer"
    return f"plain decimal text takes {number(plain_tokens)}, {number(difference, 2)} % {words}"


def show_efficiency(found: Written, plain_text: Written | None) -> None:
    """Tokens per parameter, bytes per token, and the same values as plain decimal text."""
    if found.tokens_per_parameter is None:
        st.metric("characters per parameter", number(len(found.text) / len(found.rows)), border=True)
        return
    against = ""
    if plain_text is not None and plain_text.tokens_per_parameter and found.text != plain_text.text:
        against = against_plain(found.tokens_per_parameter, plain_text.tokens_per_parameter)
    elif plain_text is not None:
        against = "this is the plain decimal text"
    st.metric(
        "tokens per parameter, fewer is faster",
        number(found.tokens_per_parameter),
        delta=against,
        delta_color="off",
        border=True,
        help=f"{count(len(found.tokens))} tokens for {count(len(found.rows))} values; "
        f"{number(found.raw_bytes_per_token)} raw bytes per token, higher is better.",
    )
