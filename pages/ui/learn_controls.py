"""Null controls on the screen."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from lmgc_core.controls import ALARM_RATE
from lmgc_core.lessons.nulls import KINDS, N_VALUES, Null, measured_nulls, running_mean
from lmgc_core.lessons.passages import passage
from pages.ui import learn_figures
from pages.ui.charts import show_chart
from pages.ui.format import number, percent
from pages.ui.jobs import JobContext, JobManager
from pages.ui.learn import Lesson, Setting, ask

SPAN = 24


def show_nulls(manager: JobManager, setting: Setting) -> None:
    """One button, then the four as they are read."""

    def work(model: Any, context: JobContext) -> tuple[Null, ...]:
        values = passage(setting.gradient, N_VALUES, setting.seed)

        def tell(found: tuple[Null, ...]) -> None:
            context.publish(found)
            context.say(f"{len(found)} of {len(KINDS)}", len(found) / len(KINDS))

        return measured_nulls(values, model, setting.seed, tell, context.should_stop)

    ask(manager, "controls", setting, work, show_found, button="Measure the four")


def show_found(job: str, found: tuple[Null, ...]) -> None:
    """The rates, bits along the values, and what follows."""
    if not found:
        return
    st.caption("% of the raw bits, everything counted, lower is better; below it bits a value for sign and exponent")
    for column, name in zip(st.columns(4), KINDS, strict=True):
        null = next((n for n in found if n.name == name), None)
        bits = f"{number(float(null.text_bits.mean()))} bits" if null else "comes next"
        column.metric(name, percent(null.rate) if null else "–", delta=bits, delta_color="off", border=True)
    curves = {n.name: running_mean(n.text_bits, SPAN).tolist() for n in found}
    alt = f"Bits for sign and exponent, mean over {SPAN} values, along the text: " + "; ".join(
        f"{name} from {number(values[0])} to {number(values[-1])}" for name, values in curves.items()
    )
    figure = learn_figures.lines(curves, x_title="value of the passage", y_title="bits for sign and exponent")
    table = pd.DataFrame({"value": range(1, len(next(iter(curves.values()))) + 1), **curves})
    show_chart(figure, alt, "nulls", table, f"Each point is the mean of the last {SPAN} values.")
    st.markdown("\n".join(f"- {line}" for line in conclusions(found)))


def conclusions(found: tuple[Null, ...]) -> list[str]:
    """What the measured rates say."""
    by_name = {n.name: n for n in found}
    real, mixed, noise, constant = (by_name.get(name) for name in KINDS)
    lines = []
    if noise is not None:
        fine = "nothing was gained, as it has to be" if noise.rate >= ALARM_RATE else "the counting is wrong"
        lines.append(f"Random bits come out at {percent(noise.rate)}: {fine}.")
    if real is not None and mixed is not None:
        worth = float(mixed.text_bits.mean() - real.text_bits.mean())
        if worth > 0:
            lines.append(
                f"Shuffling costs {number(worth)} bits a value: that is what the order of these values was worth to "
                f"the model."
            )
        else:
            lines.append(
                f"Shuffling costs nothing here ({number(-worth)} bits a value less): on a passage this short chance "
                f"is larger than "
                "what the order is worth. Try other seeds."
            )
    if constant is not None:
        end = float(running_mean(constant.text_bits, SPAN)[-1])
        alone = float(running_mean(constant.alone_bits, SPAN)[-1])
        lines.append(
            f"One value throughout costs {number(end)} bits a value for sign and exponent by the end, and the language "
            f"model alone would need {number(alone)}: "
            + (
                "it does not believe that a text repeats itself for ever; counting does."
                if alone > end + 0.1
                else "both have understood."
            )
        )
    return lines


LESSON = Lesson(
    question="How do you know that a compressor is not fooling you?",
    text="""
A surprising rate may be a discovery or a mistake. Controls tell: feed the same program what holds nothing. **Random
bits** have no short code, because there are too few short codes to go round: of all files, at most one in 2ᵏ can be
k bits shorter. **The same values in random order** keep everything but their order. **One value throughout** holds
nothing new after the first, so it should be almost free.
""",
    sources=("shannon48", "lmgc", "deletang"),
    exercises=(
        (
            "A program reports 93 % on random bits. What do you conclude?",
            "That it counts wrongly, or that it looked at the answer. No decoder can exist for what it counts: it "
            "would have to fit more files than there are codes. The lesson *audit* shows such a program.",
        ),
        (
            "Why may the model need *more* than 100 % on random bits?",
            "It believes in patterns. What it gives to patterns that do not come is lost for what comes. A "
            "compressor can "
            "bound that loss by a flag that says: stored as it is.",
        ),
    ),
    show=show_nulls,
)
