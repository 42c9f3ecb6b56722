"""Serialize: what becomes of a value on its way to the model? Needs no model, only a tokenizer for tokens."""

from __future__ import annotations

import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.gradient import DTYPES, Tensor
from pages.ui import forms, playground, sources, state
from pages.ui.frame import page_frame, show_error
from pages.ui.variants import show_values, show_variant, variant_form

DEFAULT_FORMATS = ("best", "paper", "plain decimal")


def values_form() -> Tensor | None:
    """The values to write, typed or taken from the gradient on the Analyze page."""
    source = forms.choice("Values", ["typed", "from a gradient"], state.VALUES_FROM)
    if source == "from a gradient":
        loaded = sources.gradient_form()
        n = st.select_slider("First values", [8, 16, 32, 64, 128, 432], value=32, key=state.N_VALUES)
        return playground.first_values(loaded.gradient, int(n)) if loaded else None
    dtype = st.selectbox(
        "Type",
        list(DTYPES),
        index=list(DTYPES).index("float32"),
        key=state.VALUES_DTYPE,
        bind="query-params",
    )
    text = st.text_area(
        "Numbers",
        value=state.DEFAULTS[state.VALUES],
        key=state.VALUES,
        height=140,
        max_chars=20_000,
        persist_state="session",
        help="With spaces between. nan, inf and -0 work; 0x… is a raw word.",
    )
    try:
        return playground.parse_values(text, DTYPES[dtype])
    except LmgcError as error:
        show_error(error)
        return None


page_frame("Serialize", "What becomes of a value on its way to the model?")
with st.sidebar:
    tensor = values_form()
    n_variants = st.segmented_control(
        "Side by side", [1, 2, 3], default=2, required=True, key=state.N_VARIANTS, bind="query-params"
    )
st.markdown("A model reads text. Each column writes the same values its own way; fewer tokens a parameter are faster.")
if tensor is not None:
    show_values(tensor)
    columns = st.columns(int(n_variants), gap="medium")
    for i, column in enumerate(columns):
        with column:
            serialization, model = variant_form(i, DEFAULT_FORMATS[i], tensor.dtype)
            if serialization is not None:
                show_variant(i, tensor, serialization, model)
