"""What the published code counts, on the screen."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from lmgc_core.lessons.passages import passage
from lmgc_core.lessons.published import MOST_MISSING_BITS, N_VALUES, Audited, audited, kraft_sum, missing_bits
from pages.ui import learn_figures
from pages.ui.charts import show_chart
from pages.ui.format import number, percent, visible
from pages.ui.jobs import JobContext, JobManager
from pages.ui.learn import Lesson, Setting, ask

SHOWN_TOKENS = 18


def show_audit(manager: JobManager, setting: Setting) -> None:
    """One button, then both texts."""

    def work(model: Any, context: JobContext) -> tuple[Audited, ...]:
        values = passage(setting.gradient, N_VALUES, setting.seed)

        def tell(found: tuple[Audited, ...]) -> None:
            context.publish(found)
            context.say(f"{len(found)} of 2", len(found) / 2)

        return audited(values, model, setting.seed, tell, context.should_stop)

    ask(manager, "audit", setting, work, show_found, button="Count both ways")


def show_found(job: str, found: tuple[Audited, ...]) -> None:
    """True and published figures, then one token looked at closely."""
    if not found:
        return
    st.caption("% of the raw bits, lower is better; 100 % is no gain")
    for column, (item, published) in zip(st.columns(4), [(a, p) for a in found for p in (False, True)], strict=False):
        audit, totals = item.report.audit, item.report.totals
        rate = (audit.published_compression_rate if audit else None) if published else totals.compression_rate
        each = (audit.published_bits_per_token if audit else None) if published else totals.bits_per_token
        column.metric(
            f"{item.name}: " + ("p / cumsum(p)" if published else "truth"),
            percent(rate),
            delta=f"{number(each)} bits a token",
            delta_color="off",
            border=True,
        )
    noise = next((a for a in found if a.name == "random bits"), None)
    if noise is not None and noise.report.audit is not None:
        rate = noise.report.audit.published_compression_rate
        if rate < 1:
            st.markdown(
                f"**Random bits at {percent(rate)} by the published count**: nobody can compress random bits, so "
                f"this count is no "
                "size of anything."
            )
        else:
            st.markdown(
                f"Here even the published count is above 100 % on random bits ({percent(rate)}), because this model "
                f"predicts them badly; "
                "it still leaves bits out of every token."
            )
    one = found[0].one
    chances, shares = one.probabilities, one.shares
    token = visible(one.texts[one.token])
    st.markdown(
        f"**One token of the text.** The model spreads probability over {len(chances)} possible tokens; {token} "
        f"came. The "
        f"model's probabilities add up to {number(kraft_sum(chances))}, those that the published code codes with to "
        f"**{number(kraft_sum(shares))}**. A decodable code needs a sum of at most 1. In the mean over this "
        f"distribution the "
        f"count leaves out {number(missing_bits(chances))} bits; in the opposite order of the vocabulary "
        f"{number(missing_bits(chances[::-1]))}; no distribution loses more than log2 e = "
        f"{number(MOST_MISSING_BITS, 4)}."
    )
    n = min(SHOWN_TOKENS, len(chances))
    alt = (
        f"Probabilities of the first {n} of {len(chances)} possible tokens beside p / cumsum(p), which falls from "
        f"100 % for "
        f"the first to {number(100 * shares[n - 1])} % where the model has {number(100 * chances[n - 1])} %"
    )
    names = [visible(t) for t in one.texts]
    table = pd.DataFrame({"token": names, "p": chances, "p / cumsum(p)": shares})
    show_chart(
        learn_figures.shares_by_token(names[:n], chances[:n].tolist(), shares[:n].tolist()), alt, "shares", table
    )


LESSON = Lesson(
    question="What does the published code count?",
    text="""
An arithmetic coder needs, for each token, where its part of the interval begins and ends: running sums of the
probabilities. LM-GC's published code (github.com/hui-po-wang/LM-GC at 726993b, `compressors/language_model.py`)
divides the probabilities by their running sums instead, and codes with **p / cumsum(p)**. The first token of the
vocabulary then always has 100 %, and every token but the last looks likelier than it is. Nothing is decoded there, so
nobody notices. Whether the paper's tables were made with this version is not known; here both counts are made for the
same probabilities.
""",
    sources=("lmgc", "kraft", "shannon48"),
    exercises=(
        (
            "Four tokens have p = 0.1, 0.2, 0.3, 0.4. What are p / cumsum(p) and their sum?",
            "1, 2/3, 1/2, 2/5, together 2.57. With lengths −log2 of these the Kraft sum is 2.57 > 1, so no code "
            "with such "
            "lengths can be decoded.",
        ),
        (
            "How would you have noticed without reading the code?",
            "Feed it random bits: a rate below 100 % is impossible. Or decode. Both are tests that cost a minute; a "
            "size that was never decoded is a claim.",
        ),
    ),
    show=show_audit,
)
