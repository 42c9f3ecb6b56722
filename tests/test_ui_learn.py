"""The Learn page: each lesson under AppTest with a tiny model, its figures as pure functions, its words."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from lmgc_core.errors import InvalidSetting
from lmgc_core.lessons import arithmetic_coding as coding
from lmgc_core.lessons import determinism, nulls, writing
from lmgc_core.lessons.digits import DIGITS
from lmgc_core.lessons.guessing import Guess, Turn
from lmgc_core.lessons.messages import digits_of, make_message
from pages.ui import (
    data,
    learn,
    learn_audit,
    learn_controls,
    learn_determinism,
    learn_figures,
    learn_guessing,
    learn_tokens,
    state,
)
from pages.ui.jobs import job_id
from tests.test_ui_pages import texts

ROOT = Path(__file__).parent.parent
SECONDS = 120
LESSON_KEYS = ("guess", "code", "tokens", "controls", "repeat", "audit")


@pytest.fixture(autouse=True)
def fresh_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache folder and no jobs."""
    monkeypatch.setenv("LMGC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(state, "local_mode", lambda: True)
    for cached in (data.jobs, data.model_is_here, data.catalogue):
        cached.clear()
    yield
    for job in list(data.jobs()._entries):
        data.jobs().cancel(job)


def open_lesson(lesson: str, model: str, **facts: object) -> AppTest:
    at = AppTest.from_file(str(ROOT / "pages/5_Learn.py"), default_timeout=SECONDS)
    for key, value in {"lesson": lesson, "model": model, **facts}.items():
        at.session_state[key] = value
    return at.run()


def ask_the_model(at: AppTest, lesson: str) -> AppTest:
    assert not at.exception
    at.button(key=f"{lesson}_start").click().run()
    assert not at.exception
    for job in list(data.jobs()._entries):
        found = data.jobs().wait(job, SECONDS)
        assert found is not None
        assert found.phase == "done", found.error
    at.run()
    assert not at.exception
    return at


def test_every_lesson_opens_with_text_exercises_and_sources(model: str) -> None:
    at = open_lesson("guess", model)
    options = at.button_group(key="lesson").options
    for key in LESSON_KEYS:
        at = open_lesson(key, model)
        assert not at.exception
        shown = texts(at)
        assert "Sources: " in shown
        assert "**Exercises**" in shown
        assert len(at.expander) >= 1
        assert at.button(key=f"{key}_start")
    assert len(options) == len(LESSON_KEYS)


def test_a_model_that_is_not_here_is_offered() -> None:
    at = open_lesson("guess", "smollm2-135m")
    assert "is not here yet" in texts(at)
    assert at.button(key="fetch_model")


def test_a_game_of_five_digits(model: str) -> None:
    at = ask_the_model(open_lesson("guess", model, digits=5, lesson_seed=7), "guess")
    game_id = next(iter(data.jobs()._entries))
    game = data.jobs().get(game_id).result  # type: ignore[union-attr]
    assert at.button(key="guess").disabled
    for i in range(5):
        assert f"Digit {i + 1} of 5" in texts(at)
        at.button_group(key=f"guess_digits_{game_id}_{i}").set_value(["3", "b"]).run()
        at.button(key="guess").click().run()
        assert not at.exception
        assert len(learn_guessing.turns(game, at.session_state["guesses"][1])) == i + 1
    assert "The game is over" in texts(at)
    paid = sum(2 if t in "3b" else log2(14 / 0.5) for t in game.truths)
    values = {m.label: float(m.value) for m in at.metric}
    assert values["uniform guess"] == 20
    assert values["you"] == pytest.approx(paid, rel=0.01)
    at.button(key="guess_again").click().run()
    assert "Digit 1 of 5" in texts(at)


def test_a_game_is_found_again_and_another_seed_is_another_game(model: str) -> None:
    at = ask_the_model(open_lesson("guess", model), "guess")
    first = at.code[0].value
    again = open_lesson("guess", model)
    assert again.code[0].value == first
    other = open_lesson("guess", model, lesson_seed=1)
    assert other.button(key="guess_start")


def test_arithmetic_coding_to_the_end_and_back(model: str) -> None:
    at = ask_the_model(open_lesson("code", model, message="3F8"), "code")
    assert "Nothing is coded yet" in texts(at)
    seen = []
    for _ in range(7):
        at.button(key="coding_next").click().run()
        assert not at.exception
        seen.append(texts(at))
    assert "Coding digit 1: 3" in seen[0]
    assert "The code is closed" in seen[3]
    assert "Decoding digit 3: 8" in seen[6]
    assert "The message is back: 3f8." in seen[6]
    assert at.button(key="coding_next").disabled
    for _ in range(7):
        at.button(key="coding_back").click().run()
    assert "Nothing is coded yet" in texts(at)
    assert at.button(key="coding_back").disabled
    at.button(key="coding_end").click().run()
    assert "The message is back" in texts(at)


def test_what_is_no_message_is_one_clear_line(model: str) -> None:
    at = open_lesson("code", model, message="xyz")
    assert len(at.error) == 1
    assert "1 to 8 of the digits" in at.error[0].value


def test_a_message_has_a_table_for_each_digit_and_decodes(model: str) -> None:
    from lmgc_core.language_model import load_model

    sample = data.load_sample("convnet_mnist_step60").gradient
    message = make_message(sample, load_model(model), 0, "3f80 1")
    assert message.digits == "3f801"
    assert [sum(t) for t in message.tables] == [256] * 5
    back = coding.decode(message.code.bits, 5, message.table_after)
    assert "".join(DIGITS[s.symbol] for s in back) == "3f801"
    with pytest.raises(InvalidSetting, match="does not begin"):
        message.table_after((0,))
    own = make_message(sample, load_model(model), 0)
    assert own.is_own
    assert len(own.digits) == 6


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passages of a few values, so that a lesson takes a moment."""
    for module in (learn_tokens, learn_controls, learn_audit):
        monkeypatch.setattr(module, "N_VALUES", 12)
    monkeypatch.setattr(determinism, "N_TOKENS", 16)


def test_ways_of_writing(model: str, short: None) -> None:
    at = ask_the_model(open_lesson("tokens", model), "tokens")
    shown = texts(at)
    assert "Fewest bits: " in shown
    assert "Fewest tokens: " in shown
    table = next(d.value for d in at.dataframe if "way of writing" in d.value)
    assert table["way of writing"].tolist() == list(writing.WAYS)
    assert len(at.get("plotly_chart")) == 1


def test_null_controls(model: str, short: None) -> None:
    at = ask_the_model(open_lesson("controls", model), "controls")
    assert [m.label for m in at.metric] == list(nulls.KINDS)
    assert "nothing was gained, as it has to be" in texts(at)


def test_the_determinism_lab(model: str, short: None) -> None:
    at = ask_the_model(open_lesson("repeat", model), "repeat")
    table = at.dataframe[0].value
    assert [row.split(",")[0] for row in table["computed in"]] == list(determinism.PRECISIONS)
    assert table["first wrong token, guarded rounding"].iloc[2] == "none"
    assert "guarded rounding makes it certain" in texts(at)


def test_what_the_published_code_counts(model: str, short: None) -> None:
    at = ask_the_model(open_lesson("audit", model), "audit")
    rates = [float(m.value.split()[0]) for m in at.metric]
    assert rates[1] < rates[0]
    assert rates[3] < rates[2]
    assert "A decodable code needs a sum of at most 1" in texts(at)


def test_stories_of_precisions() -> None:
    def story(gap: float, plain: int | None, guarded: int | None) -> str:
        made = determinism.Trial("fp32", 9, gap, np.zeros(9), plain, plain, 1, guarded)
        return learn_determinism.story(made)

    assert "token 4 is the first to decode wrongly" in story(1e-5, 3, 5)
    assert "cannot help, since the gap is wider than its guard: token 6" in story(1e-5, 3, 5)
    assert "makes it certain (1 rounding written down)" in story(1e-13, None, None)
    assert "by luck" in story(1e-5, 3, None)
    assert "though nothing guarantees it" not in story(0.0, None, None)


def test_conclusions_admit_chance() -> None:
    def null(name: str, bits: float) -> Any:
        return SimpleNamespace(name=name, rate=1.0, text_bits=np.full(4, bits), alone_bits=np.full(4, bits + 1))

    lines = learn_controls.conclusions([null("the real values", 3.0), null("the same, shuffled", 3.5)])  # type: ignore[arg-type]
    assert "Shuffling costs 0.500 bits a value" in lines[0]
    lines = learn_controls.conclusions([null("the real values", 3.0), null("the same, shuffled", 2.5)])  # type: ignore[arg-type]
    assert "Try other seeds" in lines[0]
    lines = learn_controls.conclusions([null("one value throughout", 0.1)])  # type: ignore[arg-type]
    assert "by the end, and the language model alone would need 1.10: it does not believe" in lines[0]


@pytest.mark.parametrize("typed", ["g", "3f80 3f80 1"])
def test_messages_of_other_digits_or_too_many_are_refused(typed: str) -> None:
    with pytest.raises(InvalidSetting, match="1 to 8"):
        digits_of(typed)


def test_the_numbers_of_the_first_exercise() -> None:
    mean = {c: 0.6 * Guess("3", c).bits("3") + 0.4 * Guess("3", c).bits("4") for c in (0.6, 0.9)}
    assert round(mean[0.9], 2) == 2.98
    assert round(mean[0.6], 2) == 2.53


def test_the_verdict_names_the_best() -> None:
    def turn(player: float, model: float, counts: float) -> Turn:
        return Turn("3", Guess("3", 0.5), player, model, counts)

    assert learn_guessing.verdict((turn(1, 2, 3),)).startswith("**You need the fewest bits: 1.00**, 75 % fewer")
    assert "you come in at place 2 of 4" in learn_guessing.verdict((turn(2, 1, 3),))
    assert "noise punishes confidence" in learn_guessing.verdict((turn(5, 6, 7),))


def test_facts_name_everything_that_a_result_depends_on(model: str) -> None:
    loaded = data.load_sample("convnet_mnist_step60")
    one = learn.Setting(loaded.gradient, "", model, 0)
    other = learn.Setting(loaded.gradient, "", model, 1)
    ids = {job_id("lesson", learn.facts_of(k, s, digits=d)) for k in "ab" for s in (one, other) for d in (5, 8)}
    assert len(ids) == 8


# ---- figures ----


def test_digit_bars_show_everybody_and_the_truth() -> None:
    figure = learn_figures.digit_bars({"m": [1 / 16] * 16, "c": [0.1] * 10 + [0] * 6, "you": [1 / 16] * 16}, "b")
    assert [t.type for t in figure.data] == ["bar", "bar", "scatter"]
    assert figure.data[0].y[0] == pytest.approx(6.25)
    assert figure.layout.shapes[0].x0 == 10.5
    assert figure.layout.xaxis.title.text
    assert figure.layout.yaxis.title.text == "probability, %"


def test_the_zoom_draws_each_interval_whole_and_leads_to_the_next() -> None:
    table = (1,) * 15 + (17,)
    code = coding.encode((15, 0), (table, table))
    figure = learn_figures.interval_zoom(code.steps, coding.number_of(code.bits))
    bars, links, marks = figure.data
    assert sum(w for w, row in zip(bars.x, bars.y, strict=True) if row == 0) == pytest.approx(1)
    assert links.x[0] == pytest.approx(15 / 32)
    assert links.x[3] == pytest.approx(1)
    for place, step in zip(marks.x, code.steps, strict=True):
        start = sum(step.table[: step.symbol]) / 32
        assert start <= place < start + step.table[step.symbol] / 32
    assert len(learn_figures.interval_zoom(code.steps).data) == 2


def test_curves_begin_at_one_and_are_told_apart() -> None:
    figure = learn_figures.lines({"a": [1.0, 2.0], "b": [2.0, 1.0]}, x_title="step", y_title="bits")
    assert [list(t.x) for t in figure.data] == [[1, 2], [1, 2]]
    assert figure.data[0].line.dash != figure.data[1].line.dash
    assert figure.data[0].line.color != figure.data[1].line.color


def test_gaps_are_marked_where_decoding_goes_wrong_and_zeros_left_out() -> None:
    figure = learn_figures.gaps_by_token({"fp32": [0.0, 1e-5], "fp64": [1e-13, 0.0]}, 1e-9, {"fp32": 1, "fp64": None})
    names = [t.name for t in figure.data]
    assert names.count("fp64") == 1
    assert figure.data[0].y == (None, 1e-5)
    marks = [t for t in figure.data if t.mode == "markers+text"]
    assert [(m.x[0], m.text[0]) for m in marks] == [(2, "fp32 goes wrong")]
    assert figure.layout.yaxis.type == "log"


def test_shares_stand_beside_probabilities() -> None:
    figure = learn_figures.shares_by_token(["0", "1"], [0.25, 0.75], [1.0, 0.75])
    assert [list(t.y) for t in figure.data] == [[25.0, 75.0], [100.0, 75.0]]
    assert list(figure.layout.xaxis.ticktext) == ["0", "1"]
