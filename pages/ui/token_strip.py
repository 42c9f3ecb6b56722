"""Tokens in reading order, coloured by bits: a component without an iframe, its text set as text alone.

Colour never speaks alone: every token's number is one hover or one arrow key away, can be printed below
it, and a bar at its foot grows with it. Whitespace is visible; the range of the colours is stated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from pages.ui.colour import STOPS, Colouring
from pages.ui.format import visible

MAX_TOKENS = 20_000
PAGE_TOKENS = 3_000
UNCOLOURED = Colouring("bits", STOPS, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Strip:
    """What one page of the strip shows; all sequences are of equal length, one entry a token.

    Attributes:
        version: names this content: the same version is not drawn again.
        rows: row numbers in the report's token table, handed back when a token is picked.
        texts: the tokens' texts.
        token_ids: ids in the vocabulary.
        bits: surprisal, or None before a model has spoken.
        numbers: what the colours stand for; None where that is the surprisal.
        ranks: 0 is the likeliest.
        windows: the window of each token; a change starts a new line.
        labels: what each token belongs to, for the hover; "" for none.
        top: up to five (text, bits) for each token, likeliest first.
    """

    version: str
    rows: Sequence[int]
    texts: Sequence[str]
    token_ids: Sequence[int]
    bits: Sequence[float] | None = None
    ranks: Sequence[int] | None = None
    windows: Sequence[int] | None = None
    labels: Sequence[str] | None = None
    top: Sequence[Sequence[tuple[str, float]]] | None = None
    numbers: npt.ArrayLike | None = None

    def payload(self, colours: Colouring, selected: Sequence[int]) -> dict[str, Any]:
        """The JSON that the component draws; texts made visible, numbers rounded to what is shown."""
        breaks = np.flatnonzero(np.diff(self.windows, prepend=-1)).tolist() if self.windows is not None else []
        numbers = self.bits if self.numbers is None else np.asarray(self.numbers, np.float64).tolist()
        fractions = None if numbers is None else np.nan_to_num(colours.fractions(numbers)).round(3).tolist()
        return {
            "version": f"{self.version}/{colours.words}/{colours.low}/{colours.high}",
            "rows": [int(r) for r in self.rows],
            "texts": [visible(t) for t in self.texts],
            "newlines": [i for i, t in enumerate(self.texts) if t.endswith("\n")],
            "ids": [int(i) for i in self.token_ids],
            "bits": None if self.bits is None else [round(float(b), 2) for b in self.bits],
            "shades": fractions,
            "shown": None if numbers is None else [_short(n, colours.is_banded) for n in numbers],
            "ranks": None if self.ranks is None else [int(r) for r in self.ranks],
            "breaks": [int(b) for b in breaks],
            "windows": [] if self.windows is None else [int(self.windows[b]) + 1 for b in breaks],
            "labels": None if self.labels is None else list(self.labels),
            "top": None
            if self.top is None
            else [[[visible(t), round(float(b), 2)] for t, b in alternatives] for alternatives in self.top],
            "selected": [int(s) for s in selected],
            "words": colours.words,
            "ends": list(colours.ends),
            "stops": list(colours.stops),
            "banded": colours.is_banded,
        }


def _short(number: float, is_rank: bool) -> str:
    """A token's number in a few characters."""
    if not np.isfinite(number):
        return "–"
    return f"{number:.0f}" if is_rank else f"{number:.1f}".replace("-", "−")


def show_token_strip(
    strip: Strip,
    colours: Colouring = UNCOLOURED,
    *,
    key: str,
    selected: Sequence[int] = (),
    on_pick: Callable[[int], None] | None = None,
) -> None:
    """Draws a strip, bare where it has no numbers; `on_pick` gets the row of a token clicked or chosen by Enter."""

    def picked() -> None:
        result = st.session_state.get(key)
        row = result.get("picked") if result is not None else None
        if row is not None and on_pick is not None:
            on_pick(int(row))

    _component()(key=key, data=strip.payload(colours, selected), on_picked_change=picked)


@functools.cache
def _component() -> Callable[..., Any]:
    html, css, js = (
        Path(__file__).with_name(f"token_strip.{kind}").read_text("utf-8") for kind in ("html", "css", "js")
    )
    return st.components.v2.component("lmgc_token_strip", html=html, css=css, js=js)
