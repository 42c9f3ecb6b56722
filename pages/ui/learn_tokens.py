"""The same values in several spellings, as tokens and bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from lmgc_core.lessons.passages import passage
from lmgc_core.lessons.writing import N_VALUES, WAYS, Writing, written_in_every_way
from pages.ui.charts import show_chart
from pages.ui.colour import colouring
from pages.ui.compare_figures import Point, pareto_front
from pages.ui.format import ABSENT, number, plain
from pages.ui.jobs import JobContext, JobManager
from pages.ui.learn import Lesson, Setting, ask
from pages.ui.selection import value_text
from pages.ui.strips import strip_of
from pages.ui.token_strip import show_token_strip

SHOWN_VALUES = 3


def show_ways(manager: JobManager, setting: Setting) -> None:
    """One button, then each way as it is read."""

    def work(model: Any, context: JobContext) -> tuple[Writing, ...]:
        values = passage(setting.gradient, N_VALUES, setting.seed)

        def tell(found: tuple[Writing, ...]) -> None:
            context.publish(found)
            context.say(f"{len(found)} of {len(WAYS)} ways", len(found) / len(WAYS))

        return written_in_every_way(values, model, tell, context.should_stop)

    ask(
        manager,
        "tokens",
        setting,
        work,
        lambda job, found: show_found(job, found, setting.model),
        button="Write and read",
    )


def show_found(job: str, found: tuple[Writing, ...], model: str) -> None:
    """Tokens against bits, the table, then the first values as tokens in every way."""
    known = [w for w in found if w.report is not None]
    if not known:
        return
    raw = known[0].report.coding.raw.tensors[0]  # type: ignore[union-attr]
    best = min(known, key=lambda w: w.bits or 0.0)
    least = min(known, key=lambda w: w.tokens_per_parameter or 0.0)
    st.markdown(
        f"**Fewest bits: {best.name}**, {number(best.bits)} of {raw.dtype.bits} a value. "
        f"**Fewest tokens: {least.name}**, {number(least.tokens_per_parameter)} a value. "
        f"{raw.n_parameters} values of {plain(raw.name)}."
    )
    points = [Point(w.name, w.tokens_per_parameter or 0.0, w.bits or 0.0, w in (best, least)) for w in known]
    table = pd.DataFrame(
        {
            "way of writing": [w.name for w in found],
            "tokens a value": [number(w.tokens_per_parameter) for w in found],
            "bits for the text": [number(w.text_bits) for w in found],
            "bits beside it, as they are": [number(w.stored_bits) for w in found],
            "bits a value": [number(w.bits) for w in found],
            "note": [w.refused or ABSENT for w in found],
        }
    )
    figure = pareto_front(
        points, [(f"raw: {raw.dtype.bits}", float(raw.dtype.bits))], x_title="tokens a value", x_better="fewer"
    )
    figure.update_layout(showlegend=False)
    alt = "Bits against tokens of one value: " + "; ".join(
        f"{w.name} {number(w.bits)} bits, {number(w.tokens_per_parameter)} tokens" for w in known
    )
    show_chart(figure, alt, "ways", table, "Above the dotted line the text costs more than the raw bits.")
    st.dataframe(table, hide_index=True, key="ways_table", alt="Each way with tokens and bits a value")
    values = [value_text(raw, i) for i in range(min(SHOWN_VALUES, raw.n_parameters))]
    st.markdown(f"**The first {SHOWN_VALUES} values as tokens:** " + ", ".join(plain(v) for v in values))
    every = np.concatenate([w.report.tokens["surprisal_bits"].to_numpy() for w in known])  # type: ignore[union-attr]
    colours = colouring("bits paid for the text", every, "all")
    for i, way in enumerate(known):
        tokens = way.report.tokens  # type: ignore[union-attr]
        part = tokens[(tokens["first_parameter"] >= 0) & (tokens["first_parameter"] < SHOWN_VALUES)]
        last = int(part.index.max()) + 1 if len(part) else 0
        part = tokens.iloc[:last]
        st.caption(f"{way.name}: {len(part)} tokens, {number(float(part['surprisal_bits'].sum()))} bits")
        strip = strip_of(f"{job}/{way.name}", 0, part, model, True)
        show_token_strip(strip, colours, key=f"ways_strip_{i}")
    st.caption(f"One scale for all: {colours.note()}. Hover or use the arrow keys for a token's bits.")


LESSON = Lesson(
    question="Why does it matter how a number is written?",
    text="""
A language model sees tokens, not numbers. Written as decimal text, as bytes in hexadecimal, as ISO characters or as
small numbers for sign and exponent, one value becomes a different number of tokens, and the model guesses them well
or badly. LM-GC found that separators between values and bytes in hexadecimal work best of what it tried. What the
text leaves out, the fraction, is nearly noise and is counted here as it is, so all ways can be compared: **bits for
the text + bits beside it**.
""",
    sources=("lmgc", "deletang"),
    exercises=(
        (
            "Fewer tokens are faster. Are they also fewer bits?",
            "Not in general. What counts for bits is whether the model recognises the pattern: letters for sign and "
            "exponent are the shortest text, but small numbers, two or three times as many tokens, usually cost it "
            "less, since it has read more lists of numbers. Compare the two in the table.",
        ),
        (
            "Hexadecimal text without separators has fewer tokens than with. Why can it need more bits?",
            "Without a mark the model has to keep count of where a value begins, and it does not: sign, exponent and "
            "noise look alike. A separator costs almost nothing, since it is predictable, and tells the place.",
        ),
    ),
    show=show_ways,
)
