"""Arithmetic coding on the screen, a step at a time, forward and back."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.lessons.arithmetic_coding import Code, CodingStep, decode, number_of
from lmgc_core.lessons.digits import DIGITS
from lmgc_core.lessons.messages import Message, digits_of, make_message
from pages.ui import learn_figures, state
from pages.ui.charts import show_chart
from pages.ui.format import number
from pages.ui.frame import show_error
from pages.ui.jobs import JobContext, JobManager
from pages.ui.learn import Lesson, Setting, ask


def show_coding(manager: JobManager, setting: Setting) -> None:
    """The message, then its way into bits and back."""
    typed = st.text_input(
        "Message, up to 8 hexadecimal digits",
        key=state.MESSAGE,
        placeholder="the gradient's next digits",
        max_chars=20,
        bind="query-params",
        width=360,
        help="Leave it empty for what the gradient really goes on with. A message that the model finds unlikely "
        "gets a narrower interval and more bits.",
    )
    try:
        chosen = digits_of(typed or "")
    except LmgcError as error:
        show_error(error)
        return

    def work(model: Any, context: JobContext) -> Message:
        return make_message(setting.gradient, model, setting.seed, chosen, context.should_stop)

    ask(manager, "code", setting, work, show_steps, button="Get the model's probabilities", message=chosen)


def step_of(message_id: str, last: int) -> int:
    """How many steps were taken with that message."""
    kept = state.get(state.CODING_STEP)
    return min(kept[1], last) if kept is not None and kept[0] == message_id else 0


def show_steps(message_id: str, message: Message) -> None:
    """The steps' buttons, then what has happened so far: n of coding, one to close, n of decoding."""
    n, code = len(message.digits), message.code
    last = 2 * n + 1
    step = step_of(message_id, last)
    st.markdown(
        f"Message **{message.digits}**, " + ("which the gradient goes on with." if message.is_own else "typed.") + " "
        "Encoder and decoder both know the text before it and the model."
    )

    def go(label: str, to: int, key: str) -> None:
        st.button(
            label,
            key=key,
            disabled=not 0 <= to <= last or to == step,
            on_click=state.put,
            args=(state.CODING_STEP, (message_id, to)),
        )

    with st.container(horizontal=True, vertical_alignment="center"):
        go("Start", 0, "coding_start")
        go("Back", step - 1, "coding_back")
        go("Next", step + 1, "coding_next")
        go("To the end", last, "coding_end")
        st.markdown(f"Step {step} of {last}")
    st.progress(step / last)
    if step <= n:
        _show_encoding(message, code, step)
    else:
        _show_decoding(message, code, step - n - 1)


def _show_encoding(message: Message, code: Code, n_done: int) -> None:
    n = len(message.digits)
    if n_done == 0:
        st.markdown(
            "**Nothing is coded yet.** The interval is all of 0 to 1. Each digit will keep the part of it that is as "
            "wide as the model thinks the digit likely."
        )
        return
    steps = code.steps[:n_done]
    last = steps[-1]
    digit = DIGITS[last.symbol]
    st.markdown(
        f"**Coding digit {n_done}: {digit}.** The model gives it {last.table[last.symbol]} of {sum(last.table)} parts, "
        f"so the interval shrinks to that share: {number(last.surprisal_bits)} bits. "
        + (
            "All digits are coded; the next step closes the code."
            if n_done == n
            else f"All numbers left begin with the bits {last.settled}, so these can be sent already."
            if last.settled
            else "No bit is settled yet: the interval still holds numbers on both sides of one half."
        )
    )
    _metrics(n_done, sum(s.surprisal_bits for s in steps), last.settled, "bits settled")
    _show_zoom(steps, None)
    _show_table(steps, "coding_table")


def _show_decoding(message: Message, code: Code, n_done: int) -> None:
    n = len(message.digits)
    value = number_of(code.bits)
    if n_done == 0:
        st.markdown(
            f"**The code is closed: {len(code.bits)} bits.** They are the fewest such that every number beginning "
            f"with 0.{code.bits} in binary lies in the last interval. The decoder gets these bits and the length {n}, "
            "nothing else."
        )
        _metrics(n, code.surprisal_bits, code.bits, "bits sent")
        _show_zoom(code.steps, value)
        _show_table(code.steps, "coding_table")
        return
    steps = decode(code.bits, n, message.table_after)[:n_done]
    last = steps[-1]
    digits = "".join(DIGITS[s.symbol] for s in steps)
    ending = f" The message is back: {digits}." if n_done == n else ""
    st.markdown(
        f"**Decoding digit {n_done}: {DIGITS[last.symbol]}.** The decoder asks the model the same question and gets "
        f"the same parts. Its number, marked, lies in the part of {DIGITS[last.symbol]}, so that is the digit; known "
        f"so far: {digits}.{ending}"
    )
    _metrics(n_done, sum(s.surprisal_bits for s in steps), code.bits, "bits received")
    _show_zoom(steps, value)
    _show_table(steps, "coding_table")


def _metrics(n_digits: int, surprisal: float, bits: str, name: str) -> None:
    first, second, third = st.columns(3)
    first.metric("surprisal so far, bits", number(surprisal), border=True, help="The sum of −log2 p of the digits.")
    second.metric(name, str(len(bits)), border=True, help="A finished code is less than two bits above the surprisal.")
    third.metric("without a model, bits", str(4 * n_digits), border=True, help="Four bits for each digit.")
    st.code(bits or "no bits yet", language=None, wrap_lines=True)


def _show_zoom(steps: tuple[CodingStep, ...], value: Any) -> None:
    words = "; ".join(
        f"digit {i + 1} is {DIGITS[s.symbol]}, {number(100 * float(s.probability))} % of the row"
        for i, s in enumerate(steps)
    )
    alt = f"A row for each digit, the interval divided among sixteen digits in proportion to the model's table: {words}"
    show_chart(
        learn_figures.interval_zoom(steps, value),
        alt,
        "coding_zoom",
        note="Each row is the coloured part of the row above, stretched to the full width."
        + (" The mark is the decoder's number." if value is not None else ""),
    )


def _show_table(steps: tuple[CodingStep, ...], key: str) -> None:
    table = pd.DataFrame(
        {
            "digit": [DIGITS[s.symbol] for s in steps],
            "probability": [f"{s.table[s.symbol]}/{sum(s.table)}" for s in steps],
            "surprisal, bits": [round(s.surprisal_bits, 2) for s in steps],
            "interval from": [f"{float(s.after.low):.10f}" for s in steps],
            "to": [f"{float(s.after.high):.10f}" for s in steps],
            "bits settled": [s.settled or "–" for s in steps],
            "from, exact": [str(s.after.low) for s in steps],
            "width, exact": [str(s.after.width) for s in steps],
        }
    )
    st.dataframe(table, hide_index=True, key=key, alt="Each digit with its probability, interval and settled bits")


LESSON = Lesson(
    question="How do probabilities become bits?",
    text="""
Arithmetic coding gives a whole message one interval between 0 and 1. It begins with all of it, divides it among the
sixteen digits in proportion to the model's probabilities, keeps the part of the digit that comes, and goes on inside.
A likely digit hardly narrows the interval, an unlikely one does a lot. At the end a binary number inside it stands
for the message, and an interval of width w holds one with **less than −log2 w + 2 bits**: the sum of all surprisals,
and a little for the end.

Here the fractions are exact and the model's probabilities are rounded to parts of 256, so that they can be read.
Coders for long messages do the same with whole numbers of fixed width, sending bits as soon as they are settled.
""",
    sources=("rissanen", "witten", "shannon48", "deletang"),
    exercises=(
        (
            "Type a message of eight equal digits, and one that looks like noise. Which needs fewer bits, and can the "
            "coder make every message short?",
            "Whichever the model finds likelier. The intervals of all 16⁸ messages lie side by side in 0 to 1, so what "
            "one message gains others lose: the widths add up to one. Nothing is gained on messages all equally "
            "likely; they need 4 bits a digit.",
        ),
        (
            "What would happen if the decoder's model gave a part of 41/256 where the encoder's gave 40/256?",
            "The parts behind it begin elsewhere, and so does every interval inside them. The number may still fall in "
            "the right part once or twice, but the error grows with every zoom; soon wrong digits come out, and as "
            "the model then reads a wrong text, all that follows is wrong. The lesson *repeat* makes the "
            "experiment.",
        ),
    ),
    show=show_coding,
)
