"""What there is to see before any run: tensors, histograms, the text a model would read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.gradient import Gradient, Tensor
from pages.ui import data, figures, histograms, state
from pages.ui.data import Preview
from pages.ui.format import (
    count,
    counted,
    number,
    plain,
    size,
    visible,
)
from pages.ui.frame import show_error
from pages.ui.incoming import Opened
from pages.ui.token_strip import PAGE_TOKENS, Strip, show_token_strip

if TYPE_CHECKING:
    from pages.ui.data import AfterLossyStep

FIGURES_BYTES = 64 << 20  # as for `inspect`
LONGEST_TABLE = 10_000
FINITE = "Over finite values."


def show_tensor_table(identity: str, gradient: Gradient, choose: bool = False) -> None:
    """The tensors of a gradient: what each is, and the figures of its values, for large ones on request.

    Args:
        identity: the gradient's.
        gradient: its tensors.
        choose: rows can be ticked and taken as the tensors to analyse.
    """
    full = gradient.raw_bytes <= FIGURES_BYTES or state.get(state.FIGURES) == identity
    show_rows(data.tensor_rows(identity, gradient, full), len(gradient) > 1 and choose)
    if not full and st.button(f"Compute the figures (reads {size(gradient.raw_bytes)})", key="compute_figures"):
        state.put(state.FIGURES, identity)
        st.rerun()


def show_large_file(opened: Opened, token: Any) -> None:
    """The tensors of a file that is too large to be read unasked; their figures on request, read in pieces."""
    from lmgc_core.files.inspection import describe

    st.markdown(
        f"**{plain(opened.title)}** holds {size(opened.raw_bytes)} in {counted(len(opened.specs), 'tensor')}. "
        "Choose in the sidebar which to read."
    )
    known = state.get(state.FIGURES)
    figures = known[1] if isinstance(known, tuple) and known[0] == token else {}
    show_rows(histograms.spec_rows(opened.specs[:LONGEST_TABLE], figures), False)
    if figures or not st.button(f"Compute the figures (reads {size(opened.raw_bytes)})", key="compute_figures"):
        return
    bar, found = st.progress(0.0), {}
    try:
        for i, spec in enumerate(opened.specs):
            bar.progress(i / len(opened.specs), text=f"{count(i)} of {count(len(opened.specs))}")
            found |= {row["name"]: row for row in describe(opened.source, [spec], True)["tensors"]}
    except LmgcError as error:
        show_error(error)
        return
    state.put(state.FIGURES, (token, found))
    st.rerun()


def show_rows(rows: list[dict[str, Any]], choose: bool) -> None:
    """A table of tensors; with `choose` its ticked rows become the chosen ones."""
    ticked: list[int] = []
    table = {
        "data": pd.DataFrame(rows[:LONGEST_TABLE]),
        "hide_index": True,
        "height": min(330, 38 + 35 * max(len(rows), 1)),
        "column_config": {
            "parameters": st.column_config.NumberColumn(format="localized"),
            "bytes": st.column_config.NumberColumn(format="localized"),
            "not finite": st.column_config.NumberColumn(format="localized", help="NaN and infinite values."),
            "zeros %": st.column_config.NumberColumn(format="%.3g", help="Share of +0 and -0."),
            **{
                name: st.column_config.NumberColumn(format="%.3g", help=FINITE)
                for name in ("min", "max", "mean", "std")
            },
        },
        "placeholder": "–",
        "alt": "Table of tensors with shape, type, sizes, least, largest and mean value, spread, zeros, not finite",
    }
    if choose:
        event = st.dataframe(**table, key=state.TICKED, on_select="rerun", selection_mode="multi-row")
        ticked = [i for i in event["selection"]["rows"] if i < len(rows)]
    else:
        st.dataframe(**table)
    if len(rows) > LONGEST_TABLE:
        st.caption(f"The first {count(LONGEST_TABLE)} of {counted(len(rows), 'tensor')}.")
    if ticked:
        names = [str(rows[i]["tensor"]) for i in ticked]
        st.button(
            f"Analyse {'this one' if len(names) == 1 else f'these {count(len(names))}'} alone",
            key="take_ticked",
            on_click=lambda: state.put(state.TENSORS, names),
        )


def show_histograms(tensor: Tensor, digest: str, after: Tensor | None = None, step: str = "none") -> None:
    """Values and exponents of one tensor, side by side; `after` a lossy step as an outline over the values."""
    values = data.value_counts(f"{digest}/{tensor.name}", tensor)
    outline = None
    if after is not None and values.counts:
        outline = data.value_counts(f"{digest}/{tensor.name}/{step}", after, (values.edges[0], values.edges[-1])).counts
    exponents = data.exponent_counts(f"{digest}/{tensor.name}", tensor)
    left, right = st.columns(2)
    with left:
        st.markdown("**Values**")
        if values.counts:
            st.plotly_chart(
                figures.value_histogram(values.counts, values.edges, outline or None),
                config=figures.CONFIG,
                key="value_histogram",
                alt=f"Histogram of values from {number(values.edges[0])} to {number(values.edges[-1])}"
                + (", before and after the lossy step" if outline else ""),
            )
        notes = [f"{count(values.n_zero)} exact zeros"]
        if values.n_outside:
            notes.append(f"{count(values.n_outside)} beyond the drawn range")
        if values.n_nonfinite:
            notes.append(f"{count(values.n_nonfinite)} not finite")
        if values.thinned > 1:
            notes.append(f"every {values.thinned}th value counted")
        st.caption(", ".join(notes))
    with right:
        st.markdown("**Exponents**")
        if exponents is None:
            st.caption("Integers have no exponent field.")
        elif exponents.counts:
            st.plotly_chart(
                figures.exponent_histogram(exponents.exponents, exponents.counts),
                config=figures.CONFIG,
                key="exponent_histogram",
                alt=f"Histogram of exponents from 2^{exponents.exponents[0]} to 2^{exponents.exponents[-1]}",
            )
            st.caption(
                f"{count(exponents.n_zero)} zeros and {count(exponents.n_denormal)} denormals have none. "
                "This is the part a model can predict; mantissas are close to noise."
            )
        else:
            st.caption("Every value is zero, denormal or not finite.")


def show_lossy_step(left: AfterLossyStep, n_parameters: int, step: str) -> None:
    """One line about a lossy step before any run."""
    error, bits = left.error, 8 * left.side_bytes / max(n_parameters, 1)
    kept = f"{count(left.n_coded)} of {count(n_parameters)} values kept; " if left.n_coded != n_parameters else ""
    st.caption(
        f"After the lossy step {plain(step)}, over everything chosen: {kept}PSNR {number(error.psnr_db)} dB (higher is "
        f"better), root mean square error {number(error.rmse)}, largest difference {number(error.max_abs)}; "
        f"{count(error.n_flushed)} values became zero, {count(error.n_overflowed)} overflowed. Side information: "
        f"{size(left.side_bytes)}, {number(bits)} bits per parameter, counted in every rate."
    )


def show_preview(found: Preview, has_tokens: bool) -> None:
    """The text of the first window, as tokens where a tokenizer is at hand."""
    st.markdown("**What the model will read**")
    if has_tokens and found.texts:
        strip = Strip(
            f"preview/{hash((found.texts[:PAGE_TOKENS], found.n_parameters))}",
            range(min(len(found.texts), PAGE_TOKENS)),
            found.texts[:PAGE_TOKENS],
            found.token_ids[:PAGE_TOKENS],
        )
        show_token_strip(strip, key="preview_strip")
        ratio = len(found.texts) / found.n_parameters
        st.caption(
            f"First window: {count(found.n_parameters)} parameters as {count(len(found.texts))} tokens, "
            f"{number(ratio)} tokens per parameter (fewer is faster)."
        )
    else:
        st.code(visible(found.text[:3000]), language=None, wrap_lines=True, height=200)
        st.caption(
            f"First {count(found.n_parameters)} parameters as text, whitespace made visible. "
            "Tokens appear once the model's tokenizer is here."
        )
