"""The determinism lab on the screen."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from lmgc_core.guarded_rounding import GUARD_BITS, GUARD_EXPONENT
from lmgc_core.lessons.determinism import MEANINGS, PRECISIONS, Trial, trials
from lmgc_core.lessons.passages import passage
from pages.ui import learn_figures
from pages.ui.charts import show_chart
from pages.ui.format import number
from pages.ui.jobs import JobContext, JobManager
from pages.ui.learn import Lesson, Setting, ask


def show_lab(manager: JobManager, setting: Setting) -> None:
    """One button, then each precision as it is done."""

    def work(model: Any, context: JobContext) -> tuple[Trial, ...]:
        def tell(precision: str, n_done: int, n: int, found: tuple[Trial, ...]) -> None:
            context.publish(found)
            share = (len(found) + n_done / n * (len(found) < len(PRECISIONS))) / len(PRECISIONS)
            context.say(f"{precision}: token {n_done} of {n}", min(share, 1.0))

        return trials(passage(setting.gradient, 64, setting.seed), model, tell, context.should_stop)

    ask(manager, "repeat", setting, work, show_found, button="Compute both ways")


def show_found(job: str, found: tuple[Trial, ...]) -> None:
    """What each precision leads to, in words, a table and the gaps."""
    if not found:
        return
    st.markdown("\n".join(f"- {story(t)}" for t in found))
    table = pd.DataFrame(
        {
            "computed in": [f"{t.precision}, {MEANINGS[t.precision]}" for t in found],
            "largest gap, bits": [number(t.gap_bits, 2) for t in found],
            "first wrong token, plain rounding": [_place(t.first_wrong_plain) for t in found],
            "first wrong token, guarded rounding": [_place(t.first_wrong_guarded) for t in found],
            "roundings written down": [str(t.n_exceptions) for t in found],
        }
    )
    st.dataframe(table, hide_index=True, key="lab_table", alt="What each precision leads to")
    figure = learn_figures.gaps_by_token(
        {t.precision: t.gap_by_token.tolist() for t in found},
        GUARD_BITS,
        {t.precision: t.first_wrong_plain for t in found},
    )
    alt = "Largest gap between one pass and token by token, along the text, on a logarithmic axis: " + "; ".join(
        f"{t.precision} up to {number(t.gap_bits, 2)} bits" for t in found
    )
    gaps = pd.DataFrame({"token": range(1, found[0].n_tokens + 1), **{t.precision: t.gap_by_token for t in found}})
    note = (
        f"The dotted line is the guard, 2^−{GUARD_EXPONENT} bits: gaps below it are bridged. A gap of 0 is not drawn."
    )
    show_chart(figure, alt, "gaps", gaps, note)


def story(t: Trial) -> str:
    """What one precision leads to, in a sentence or two."""
    head = f"**{t.precision}** ({MEANINGS[t.precision]}): the two ways differ by up to {number(t.gap_bits, 2)} bits."
    if t.first_wrong_plain is None:
        plain = f" With plain rounding all {t.n_tokens} tokens decode"
        plain += " here, though nothing guarantees it" if t.gap_bits > 0 else ""
    else:
        plain = f" With plain rounding token {t.first_wrong_plain + 1} is the first to decode wrongly"
    if t.first_wrong_guarded is None:
        safe = t.gap_bits < GUARD_BITS
        guarded = "; guarded rounding makes it certain" if safe else "; guarded rounding holds too, by luck"
        if t.first_wrong_plain is not None:
            guarded = "; with guarded rounding all decode" + ("" if safe else ", by luck: the gap is above the guard")
        noun = "rounding" if t.n_exceptions == 1 else "roundings"
        return f"{head}{plain}{guarded} ({t.n_exceptions} {noun} written down)."
    return (
        f"{head}{plain}; guarded rounding cannot help, since the gap is wider than its guard: token "
        f"{t.first_wrong_guarded + 1} goes wrong."
    )


def _place(token: int | None) -> str:
    return "none" if token is None else f"{token + 1}"


LESSON = Lesson(
    question="Does a computer get the same answer twice?",
    text="""
An encoder has the whole text and asks the model once. A decoder has only what it has decoded so far and asks token by
token. In exact arithmetic both get the same probabilities; in floating point sums depend on their order, and the last
digits differ. An arithmetic coder forgives nothing: once the two sides divide the interval differently, noise comes
out.

Here both ways are computed for the same text, frequencies made from each, and the text is coded with one side's and
decoded with the other's. **Guarded rounding** rounds surprisals to a coarse grid, on which tiny differences vanish;
where a value lies so close to a boundary that the two sides might disagree, the encoder writes down which side is
meant. That needs a gap smaller than the guard, which is why archives are computed in fp64.
""",
    sources=("pmatic", "witten", "lmgc"),
    exercises=(
        (
            "Why not round more coarsely, so that fp32 would do?",
            "A coarser grid has fewer boundaries, and still some value lies near one sooner or later: with "
            "thousands of "
            "tokens and many possibilities each, something always does. The guard has to cover the gap, so a gap a "
            "million "
            "times larger means a million times as many roundings to write down, and coarse probabilities "
            "cost bits as well.",
        ),
        (
            "Why is it enough to look at the first wrong token?",
            "From there on the decoder reads a text of its own. Its model sees other tokens, gets other "
            "probabilities, and its "
            "interval has lost any relation to the encoder's. What follows is noise.",
        ),
    ),
    show=show_lab,
)
