"""The numbers at the top: what is looked at, and four cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from lmgc_core.gradient import Gradient
from pages.ui import data
from pages.ui.format import (
    ABSENT,
    HIGHER,
    LOWER,
    count,
    interval,
    number,
    percent,
    plain,
    points,
    shape,
    size,
)
from pages.ui.work import best_baseline

if TYPE_CHECKING:
    from lmgc_core.report import Report


def headline_words(title: str, gradient: Gradient, names: Sequence[str]) -> str:
    """What is on the screen, as plain Markdown."""
    chosen = gradient.select(list(names))
    if len(chosen) == 1:
        tensor = chosen.tensors[0]
        what = f"{plain(tensor.name)} · " if tensor.name else ""
        return f"**{plain(title)}** · {what}{tensor.dtype.name} {shape(tensor.shape)}"
    kinds = ", ".join(sorted({t.dtype.name for t in chosen}))
    return (
        f"**{plain(title)}** · {count(len(chosen))} tensors · {kinds} · {count(chosen.n_parameters)} parameters · "
        f"{size(chosen.raw_bytes)}"
    )


def show_headline(report: Report, baselines: Sequence[Mapping[str, Any]] | None, baseline_note: str) -> None:
    """Four cards: bits, rate, tokens, and the distance to the best baseline."""
    totals = report.totals
    widths = {t.dtype.bits for t in report.coding.raw}
    raw = f"{widths.pop()} raw" if len(widths) == 1 else "mixed types"
    cards = st.columns(4)
    cards[0].metric(
        "bits per parameter",
        number(totals.bits_per_parameter),
        delta=f"{raw}, ratio {number(totals.compression_ratio)} ×",
        delta_color="off",
        border=True,
        help=f"Everything counted: text, what the text leaves out, and side information; {LOWER}. "
        f"Ratio: raw size over size, {HIGHER}.",
    )
    cards[1].metric(
        "rate, % of raw",
        percent(totals.compression_rate),
        delta=interval(totals.rate_ci95, totals.compression_rate),
        delta_color="off",
        border=True,
        help=f"Size over raw size; {LOWER}, 100 % is no gain. The interval tells how far the sample of blocks may be "
        "from the whole; a larger sample, more blocks, narrows it.",
    )
    cards[2].metric(
        "tokens per parameter",
        number(totals.tokens_per_parameter),
        delta=f"{number(totals.raw_bytes_per_token)} raw bytes per token",
        delta_color="off",
        border=True,
        help=f"Tokens cost time: fewer per parameter is faster; of raw bytes per token, {HIGHER}.",
    )
    best = best_baseline(baselines or [])
    if best is None or totals.compression_rate is None:
        cards[3].metric(
            "against the best baseline", ABSENT, delta=baseline_note or "not known", delta_color="off", border=True
        )
    else:
        gap = totals.compression_rate - best["compression_rate"]
        low, high = totals.rate_ci95 or (0.0, 0.0)
        spread = f", ±{number(50 * (high - low), 2)} points" if high > low else ""
        cards[3].metric(
            "against the best baseline",
            points(gap),
            delta=f"{best['id']}: {percent(best['compression_rate'])}{spread}",
            delta_color="off",
            border=True,
            help="Percentage points of raw; negative means smaller than the best compressor without a language model. "
            "The interval is the sample's. Baselines are whole files, decoded and compared. The model itself "
            f"({count(report.model.n_parameters)} parameters) is not counted in either.",
        )
    sampled = len({r.window.block for r in report.results})
    scope = f"Estimated from {count(sampled)} of {count(len(report.coding.blocks))} blocks"
    if report.complete:
        scope = "The whole file, no estimate"
    if report.coding.config.transform != "none" and report.results:
        config, whole = report.coding.config, report.coding.raw
        error = data.after_lossy_step(whole.identity, whole, config.transform, config.seed).error
        scope += (
            f". After the lossy step {plain(config.transform)}: PSNR {number(error.psnr_db)} dB ({HIGHER}), "
            f"root mean square error {number(error.rmse)}; its side information is counted"
        )
    st.caption(f"{scope}. Bits, rate and tokens: {LOWER}. Bytes per token and ratio: {HIGHER}.")
