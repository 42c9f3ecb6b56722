"""The guessing game on the screen."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.lessons.digits import DIGITS, PER_VALUE
from lmgc_core.lessons.guessing import UNIFORM_BITS, Game, Guess, Turn, make_game, totals, turns
from pages.ui import learn_figures, state
from pages.ui.charts import show_chart
from pages.ui.format import number
from pages.ui.frame import show_error
from pages.ui.jobs import JobContext, JobManager
from pages.ui.learn import Lesson, Setting, ask

CONFIDENCES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
NAMES = {"player": "you", "model": "language model", "counts": "counting", "uniform": "uniform guess"}
SHOWN_HISTORY = 24


def show_game(manager: JobManager, setting: Setting) -> None:
    """How long a game is, then the game."""
    n_digits = int(
        st.segmented_control(
            "Digits to guess",
            [5, 8, 16],
            default=state.DEFAULTS[state.GAME_DIGITS],
            required=True,
            key=state.GAME_DIGITS,
            bind="query-params",
        )
        or state.DEFAULTS[state.GAME_DIGITS]
    )

    def work(model: Any, context: JobContext) -> Game:
        return make_game(setting.gradient, model, setting.seed, n_digits, context.should_stop)

    ask(manager, "guess", setting, work, play, button="Start a game", digits=n_digits)


def guesses_of(game_id: str) -> tuple[Guess, ...]:
    """What was guessed in that game so far."""
    kept = state.get(state.GUESSES)
    return kept[1] if kept is not None and kept[0] == game_id else ()


def play(game_id: str, game: Game) -> None:
    """The text so far, the next guess, the last digit, and the score."""
    guesses = guesses_of(game_id)
    played = turns(game, guesses)
    over = len(played) == len(game.truths)
    st.markdown(f"**Digit {len(played) + 1} of {len(game.truths)}**" if not over else "**The game is over**")
    st.code(shown_text(game, len(played)), language=None, wrap_lines=True)
    if not over:
        _guess_form(game_id, len(played), guesses)
    if played:
        show_score(played)
        show_last(game, played)
    if over:
        st.markdown(verdict(played))
        st.button("Play it again", key="guess_again", on_click=state.put, args=(state.GUESSES, None))
        st.caption("Another seed in the sidebar is another game.")


def shown_text(game: Game, n_guessed: int) -> str:
    """The last values before the digit to guess, the place to guess marked."""
    values = game.shown(n_guessed).split(",")
    mark = "" if n_guessed == len(game.truths) else "?"
    tail = values[-SHOWN_HISTORY:]
    return ("… " if len(tail) < len(values) else "") + " ".join(tail) + mark


def _guess_form(game_id: str, place: int, guesses: tuple[Guess, ...]) -> None:
    digits = st.pills(
        "One digit, or several that share your confidence",
        list(DIGITS),
        selection_mode="multi",
        key=f"guess_digits_{game_id}_{place}",
    )
    confidence = st.select_slider(
        "How sure that it is among them",
        CONFIDENCES,
        value=0.5,
        format_func=lambda c: f"{100 * c:.0f} %",
        key=f"guess_confidence_{game_id}_{place}",
    )
    guess: Guess | None = None
    if digits:
        try:
            guess = Guess("".join(sorted(digits, key=DIGITS.index)), float(confidence))
        except LmgcError as error:
            show_error(error)
    st.caption(promise(guess) if guess else "Choose at least one digit. Knowing nothing costs 4 bits.")
    st.button(
        "Guess",
        type="primary",
        key="guess",
        disabled=guess is None,
        on_click=state.put,
        args=(state.GUESSES, (game_id, (*guesses, guess) if guess else guesses)),
    )


def promise(guess: Guess) -> str:
    """What a guess will cost.

    >>> promise(Guess("3", 0.5))
    'Right costs 1.00 bits, wrong 4.91; knowing nothing costs 4.'
    """
    right = guess.bits(guess.digits[0])
    others = [d for d in DIGITS if d not in guess.digits]
    if not others:
        return f"All sixteen digits: {number(right)} bits whatever comes."
    return f"Right costs {number(right)} bits, wrong {number(guess.bits(others[0]))}; knowing nothing costs 4."


def show_score(played: tuple[Turn, ...]) -> None:
    """Everybody's bits so far."""
    sums = totals(played)
    st.caption("Bits so far, lower is better")
    for column, (key, name) in zip(st.columns(4), NAMES.items(), strict=True):
        column.metric(
            name,
            number(sums[key]),
            delta=f"{number(sums[key] / len(played))} a digit",
            delta_color="off",
            border=True,
        )


def show_last(game: Game, played: tuple[Turn, ...]) -> None:
    """What everybody expected of the last digit, and the table of all."""
    last, place = played[-1], len(played) - 1
    st.markdown(
        f"It was **{last.truth}**, digit {place % PER_VALUE + 1} of its value. You paid {number(last.player)} bits, "
        f"the language model {number(last.model)}, counting {number(last.counts)}, a uniform guess 4."
    )
    expected = {
        "language model": game.model[place].tolist(),
        "counting": game.counts[place].tolist(),
        "you": list(last.guess.probabilities),
    }
    best = DIGITS[int(game.model[place].argmax())]
    alt = (
        f"Probabilities of the sixteen digits for digit {place + 1}, which was {last.truth}: the language model's "
        f"likeliest was {best} with {number(100 * game.model[place].max())} %; it gave the truth "
        f"{number(100 * game.model[place][DIGITS.index(last.truth)])} %"
    )
    table = pd.DataFrame({"digit": list(DIGITS), **expected})
    show_chart(learn_figures.digit_bars(expected, last.truth), alt, "guess_chances", table)
    rows = pd.DataFrame(
        {
            "digit": [t.truth for t in played],
            "your guess": [f"{' '.join(t.guess.digits)} at {100 * t.guess.confidence:.0f} %" for t in played],
            **{f"{name}, bits": [round(getattr(t, key), 2) for t in played] for key, name in NAMES.items()},
        }
    )
    with st.expander("All digits so far"):
        st.dataframe(rows, hide_index=True, key="guess_table", alt="Each digit with your guess and everybody's bits")


def verdict(played: tuple[Turn, ...]) -> str:
    """Who needed the fewest bits, and what a coder would make of it."""
    sums = totals(played)
    order = sorted(sums, key=lambda key: sums[key])
    saved = 100 * (1 - sums[order[0]] / (UNIFORM_BITS * len(played)))
    who = "You need" if order[0] == "player" else f"{NAMES[order[0]].capitalize()} needs"
    words = f"**{who} the fewest bits: {number(sums[order[0]])}**"
    if order[0] == "uniform":
        return f"{words}. Everybody else was surer than these digits allow: noise punishes confidence."
    place = order.index("player") + 1
    words += f", {number(saved, 2)} % fewer than a uniform guess"
    return (
        words
        + (". " if place == 1 else f"; you come in at place {place} of 4. ")
        + ("An arithmetic coder driven by these beliefs would write a file of that many bits.")
    )


LESSON = Lesson(
    question="Can you guess the next digit better than the model?",
    text="""
Shannon asked people to guess a text letter by letter, and from how well they did he bounded what English costs: to
predict and to compress are one thing. Here the text is a gradient. Each value is written as its first two bytes, four
hexadecimal digits: the first holds the sign (8 to f is negative) and the start of the exponent, the second more of
the exponent, the third its end and the start of the fraction, the fourth fraction alone.

Name one digit or several, and say how sure you are that the truth is among them. They share your confidence evenly,
all others share the rest, and you pay **−log2 of the probability that the truth got**. The language model, which was
never trained on gradients, sees the same digits and pays by the same rule; so does plain counting of what stood at
the same place in the values before. Knowing nothing, 1/16 for each digit, costs 4 bits.
""",
    sources=("shannon", "good", "lmgc", "deletang"),
    exercises=(
        (
            "You believe that the digit is a 3 with 60 %. Would it pay to state 90 %?",
            "No. With probability 0.6 you would pay −log2 0.9 = 0.15 bits, else −log2 (0.1/15) = 7.23: in the mean "
            "2.98. Stating 60 % costs 0.6 · 0.74 + 0.4 · 5.23 = 2.53. The logarithmic score is *proper*: in the mean "
            "nothing beats your real belief. That is also why a compressor wants calibrated probabilities.",
        ),
        (
            "Which of the four digits of a value can anybody predict, and why can nobody predict the last?",
            "Values of a tensor are of similar size, so the exponent (second digit) repeats; neighbours often share "
            "their sign (first digit). The fraction is close to uniform whatever the size, so the fourth digit costs "
            "about 4 bits, and anybody who is confident there pays more than 4.",
        ),
    ),
    show=show_game,
)
