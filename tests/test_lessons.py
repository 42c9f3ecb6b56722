"""The lessons' logic: right values by hand, laws by hypothesis, and a tiny model where one is asked."""

from __future__ import annotations

from fractions import Fraction
from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmgc_core.coder import TOTAL
from lmgc_core.controls import ALARM_RATE
from lmgc_core.errors import CorruptContainer, InvalidSetting, UnsupportedInput
from lmgc_core.gradient import Gradient
from lmgc_core.lessons import arithmetic_coding as coding
from lmgc_core.lessons import determinism, digits, guessing, nulls, published, writing
from lmgc_core.lessons.passages import passage


@pytest.fixture(scope="module")
def gradient() -> Gradient:
    rng = np.random.default_rng(0)
    return Gradient.from_arrays(
        {
            "zeros": np.zeros(900, np.float32),
            "w": (rng.standard_normal((40, 9, 2)) * 1e-3).astype(np.float32),
            "steps": np.arange(50, dtype=np.int32),
        },
        "small",
    )


# ---- passages ----


def test_a_passage_is_consecutive_values_and_the_same_for_the_same_seed(gradient: Gradient) -> None:
    one, again, other = passage(gradient, 30, 1), passage(gradient, 30, 1), passage(gradient, 30, 2)
    assert one.identity == again.identity != other.identity
    (tensor,) = one.tensors
    first, last = map(int, tensor.name.removeprefix("w[").rstrip("]").split(":"))
    whole = next(t for t in gradient if t.name == "w").words
    assert tensor.words.tolist() == whole.reshape(-1)[first:last].tolist()


def test_a_passage_avoids_zeros_and_whole_numbers() -> None:
    values = np.zeros(400, np.float32)
    values[100:200] = 1.5
    found = passage(Gradient.from_arrays({"w": values, "n": np.ones(900, np.int32)}), 8, 0)
    assert found.tensors[0].name.startswith("w[")
    with pytest.raises(UnsupportedInput, match="no floating-point values"):
        passage(Gradient.from_arrays({"n": np.ones(9, np.int32)}), 8, 0)


def test_a_passage_longer_than_the_tensor_is_the_tensor() -> None:
    assert passage(Gradient.from_arrays({"w": np.ones(5, np.float32)}), 30, 0).n_parameters == 5


# ---- the guessing game ----


@pytest.mark.parametrize(
    ("said", "confidence", "truth", "bits"),
    [
        ("3", 0.5, "3", 1.0),
        ("3b", 0.5, "b", 2.0),
        ("3", 0.25, "4", log2(20)),  # 0.75 over fifteen others: 0.05 each
        ("0123456789abcdef", 0.9, "7", 4.0),
        ("01234567", 0.5, "f", 4.0),
    ],
)
def test_a_guess_costs_what_the_truth_got(said: str, confidence: float, truth: str, bits: float) -> None:
    guess = guessing.Guess(said, confidence)
    assert guess.bits(truth) == pytest.approx(bits)
    assert sum(guess.probabilities) == pytest.approx(1)


@given(
    st.sets(st.sampled_from(digits.DIGITS), min_size=1, max_size=15),
    st.floats(0.02, 0.98),
    st.floats(0.02, 0.98),
)
def test_honesty_is_the_best_policy(said: set[str], believed: float, stated: float) -> None:
    def expected(confidence: float) -> float:
        guess = guessing.Guess("".join(sorted(said)), confidence)
        inside = guess.bits(min(said))
        outside = guess.bits(min(set(digits.DIGITS) - said))
        return believed * inside + (1 - believed) * outside

    assert expected(believed) <= expected(stated) + 1e-12


@pytest.mark.parametrize(("said", "confidence"), [("", 0.5), ("g", 0.5), ("33", 0.5), ("3", 0.0), ("3", 1.0)])
def test_a_guess_that_states_no_belief_is_refused(said: str, confidence: float) -> None:
    with pytest.raises(InvalidSetting):
        guessing.Guess(said, confidence)


def test_counting_looks_at_the_same_place_of_the_values_before() -> None:
    found = guessing.place_counts("3f80,3e80,b")
    assert found[0].tolist() == [1 / 16] * 16
    assert found[10][3] == pytest.approx(2.5 / 10)
    assert found[10][11] == pytest.approx(0.5 / 10)
    assert found[6][15] == pytest.approx(1.5 / 9)


def test_a_game_is_the_same_for_the_same_seed_and_adds_up(gradient: Gradient, tiny_model: Any) -> None:
    game = guessing.make_game(gradient, tiny_model, 3, 6)
    again = guessing.make_game(gradient, tiny_model, 3, 6)
    assert (game.history, game.truths) == (again.history, again.truths)
    assert game.model.tobytes() == again.model.tobytes()
    assert np.allclose(game.model.sum(axis=1), 1)
    assert np.allclose(game.counts.sum(axis=1), 1)
    assert game.shown(0) == game.history + ","
    assert game.shown(6) == f"{game.history},{game.truths[:4]},{game.truths[4:]}"
    guesses = [guessing.Guess("3b", 0.9)] * 5
    played = guessing.turns(game, guesses)
    assert [t.truth for t in played] == list(game.truths[:5])
    sums = guessing.totals(played)
    assert sums["uniform"] == 20
    assert sums["model"] == pytest.approx(
        -sum(log2(game.model[i][digits.DIGITS.index(d)]) for i, d in enumerate(game.truths[:5]))
    )


def test_the_model_has_read_what_stands_before_a_digit_and_nothing_after_it(tiny_model: Any) -> None:
    one = digits.digit_distributions("3f80,b", tiny_model)
    other = digits.digit_distributions("3f80,7", tiny_model)
    assert one == pytest.approx(other, abs=1e-6)
    assert digits.digit_distributions("1f80,b", tiny_model)[5] != pytest.approx(one[5], abs=1e-3)


def test_a_game_needs_history_and_digits(gradient: Gradient, tiny_model: Any) -> None:
    with pytest.raises(InvalidSetting, match="1 to 16"):
        guessing.make_game(gradient, tiny_model, 0, 17)
    with pytest.raises(UnsupportedInput, match="no history"):
        guessing.make_game(Gradient.from_arrays({"w": np.float32([1, 2])}), tiny_model, 0, 5)


# ---- arithmetic coding ----


def test_a_message_worked_out_by_hand() -> None:
    """a has 1/4, b 1/2, c 1/4. "bca": [1/4, 3/4), [5/8, 3/4), [5/8, 21/32); 0.101 is 5/8."""
    code = coding.encode((1, 2, 0), ((1, 2, 1),) * 3)
    assert [(s.after.low, s.after.high) for s in code.steps] == [
        (Fraction(1, 4), Fraction(3, 4)),
        (Fraction(5, 8), Fraction(3, 4)),
        (Fraction(5, 8), Fraction(21, 32)),
    ]
    assert [s.settled for s in code.steps] == ["", "101", "10100"]
    assert code.bits == "10100"
    assert code.surprisal_bits == 5
    assert [s.surprisal_bits for s in code.steps] == [1, 2, 2]


@st.composite
def messages(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, ...]]]:
    n, n_symbols = draw(st.integers(0, coding.MAX_SYMBOLS)), draw(st.integers(2, 6))
    tables = [tuple(draw(st.lists(st.integers(1, 50), min_size=n_symbols, max_size=n_symbols))) for _ in range(n)]
    return draw(st.lists(st.integers(0, n_symbols - 1), min_size=n, max_size=n)), tables


@given(messages())
def test_decoding_inverts_encoding_and_costs_less_than_two_bits_more(
    found: tuple[list[int], list[tuple[int, ...]]],
) -> None:
    message, tables = found
    code = coding.encode(message, tables)
    back = coding.decode(code.bits, len(message), lambda before: tables[len(before)])
    assert back == code.steps
    assert code.surprisal_bits - 1e-9 <= len(code.bits) < code.surprisal_bits + 2
    assert code.surprisal_bits == pytest.approx(sum(s.surprisal_bits for s in code.steps))
    for step in code.steps:
        assert code.bits.startswith(step.settled) or step.settled.startswith(code.bits)
        assert step.before.low <= step.after.low < step.after.high <= step.before.high


@given(messages(), st.text("01", max_size=30))
def test_whatever_follows_the_code_changes_nothing(found: tuple[list[int], list[tuple[int, ...]]], tail: str) -> None:
    message, tables = found
    code = coding.encode(message, tables)
    back = coding.decode(code.bits + tail, len(message), lambda before: tables[len(before)])
    assert [s.symbol for s in back] == message


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="up to 8"):
        coding.encode((0,) * 9, ((1, 1),) * 9)
    with pytest.raises(InvalidSetting, match="at least 1"):
        coding.encode((0,), ((1, 0),))
    with pytest.raises(CorruptContainer, match="outside"):
        coding.Interval(Fraction(1, 2), Fraction(1, 4)).symbol_at((1, 1), Fraction(1, 8))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=16).filter(lambda p: sum(p) > 0.01))
def test_frequencies_leave_everybody_room_and_stay_close(weights: list[float]) -> None:
    chances = [w / sum(weights) for w in weights]
    table = coding.frequencies_of(chances, 256)
    assert sum(table) == 256
    assert min(table) >= 1
    assert all(abs(f - (1 + p * (256 - len(table)))) < 1 for f, p in zip(table, chances, strict=True))


# ---- why tokens matter ----


def test_every_way_of_writing_holds_the_same_values(gradient: Gradient, tiny_model: Any) -> None:
    values = passage(gradient, 12, 0)
    seen: list[int] = []
    found = writing.written_in_every_way(values, tiny_model, lambda so_far: seen.append(len(so_far)))
    assert [w.name for w in found] == list(writing.WAYS)
    assert seen == list(range(1, len(found) + 1))
    for way in found:
        assert way.report is not None
        assert way.report.totals.n_tokens == len(way.report.tokens)
        assert way.bits == pytest.approx(way.report.tokens["surprisal_bits"].sum() / 12 + (way.stored_bits or 0))
    stored = {w.name: w.stored_bits for w in found}
    assert stored["hex, values apart"] == stored["decimal text"] == 0
    assert stored["sign and exponent as letters"] == 23


def test_a_way_that_does_not_fit_says_why() -> None:
    assert writing.Writing("ISO characters", None, "does not fit").bits is None


# ---- null controls ----


def test_noise_is_not_compressed_and_a_constant_is(gradient: Gradient, tiny_model: Any) -> None:
    values = passage(gradient, 48, 0)
    found = {n.name: n for n in nulls.measured_nulls(values, tiny_model, 0)}
    assert list(found) == list(nulls.KINDS)
    assert found["random bits"].rate >= ALARM_RATE
    assert found["one value throughout"].rate < found["the real values"].rate / 2
    shuffled = found["the same, shuffled"].report.coding.raw.tensors[0]
    assert sorted(shuffled.words.tolist()) == sorted(values.tensors[0].words.tolist())
    for null in found.values():
        (all_bits,) = null.report.bits.values()
        assert null.rate >= np.asarray(all_bits).mean() / 32 - 1e-9  # side information comes on top
        assert len(null.text_bits) == len(null.alone_bits) == 48
        assert null.text_bits.sum() == pytest.approx(null.report.tokens["surprisal_bits"].sum())
        assert (null.text_bits != null.alone_bits).any()


# ---- determinism ----


def bits_table(rng: np.random.Generator, n_rows: int, n_support: int) -> np.ndarray[Any, Any]:
    chances = rng.dirichlet(np.full(n_support, 0.3), n_rows) + 1e-9
    return -np.log2(chances / chances.sum(axis=1, keepdims=True))


def test_equal_sides_read_everything() -> None:
    rng = np.random.default_rng(0)
    table = bits_table(rng, 60, 14)
    found = determinism.trial("fp64", rng.integers(0, 14, 60), table, table.copy())
    assert (found.gap_bits, found.first_difference, found.first_wrong_plain, found.first_wrong_guarded) == (
        0,
        None,
        None,
        None,
    )


def test_a_small_gap_breaks_plain_rounding_and_guarded_rounding_ends_it() -> None:
    rng = np.random.default_rng(1)
    table = bits_table(rng, 200, 14)
    columns = np.array([rng.choice(14, p=np.exp2(-row)) for row in table])
    near = table + rng.uniform(-1, 1, table.shape) * 4e-10  # above what 24-bit frequencies hide, below the guard
    wide = table + rng.uniform(-1, 1, table.shape) * 3e-5
    kept, lost = determinism.trial("fp64", columns, table, near), determinism.trial("fp32", columns, table, wide)
    assert kept.first_difference is not None
    assert kept.first_wrong_guarded is None
    assert lost.first_wrong_plain is not None
    assert lost.first_wrong_plain >= (lost.first_difference or 0)
    assert lost.first_wrong_guarded is not None
    assert lost.gap_bits == pytest.approx(3e-5, rel=0.1)


def test_plain_frequencies_leave_everybody_room() -> None:
    table = determinism.plain_frequencies(bits_table(np.random.default_rng(2), 20, 30))
    assert (table.sum(axis=1) == TOTAL).all()
    assert (table >= 1).all()


@pytest.mark.parametrize("precision", determinism.PRECISIONS)
def test_both_ways_of_a_tiny_model(tiny_model: Any, precision: str) -> None:
    support = tiny_model.tokenizer.support(frozenset(b"0123456789abcdef,"))
    ids = tiny_model.tokenizer.encode("3f80,3e91,bf02,3d11")
    told: list[int] = []
    one, other = determinism.both_ways(tiny_model, precision, ids, support, told.append)
    assert one.shape == other.shape == (len(ids), len(support))
    assert told == list(range(1, len(ids) + 1))
    assert np.exp2(-one).sum(axis=1) == pytest.approx(1)
    low, high = {"fp32": (0, 1e-3), "bf16": (1e-4, 1.0), "fp64": (0, 1e-9)}[precision]
    assert low <= np.abs(one - other).max() <= high
    (scores,) = tiny_model.score([ids], support)
    columns = np.searchsorted(support, ids)
    own = one[np.arange(len(ids)), columns]
    assert own == pytest.approx(scores.surprisal_bits, abs=0.5 if precision == "bf16" else 1e-3)


# ---- what the published code counts ----


def test_the_published_shares_by_hand() -> None:
    chances = np.array([0.1, 0.2, 0.3, 0.4])
    assert published.published_shares(chances) == pytest.approx([1, 2 / 3, 1 / 2, 2 / 5])
    assert published.kraft_sum(published.published_shares(chances)) == pytest.approx(1 + 2 / 3 + 1 / 2 + 2 / 5)
    assert published.missing_bits(np.array([0.5, 0.5])) == pytest.approx(0.5)


@given(st.lists(st.floats(1e-6, 1), min_size=2, max_size=60))
def test_no_distribution_misses_more_than_log2_e_bits(weights: list[float]) -> None:
    chances = np.array(weights) / sum(weights)
    assert 0 <= published.missing_bits(chances) < published.MOST_MISSING_BITS
    assert published.kraft_sum(published.published_shares(chances)) > 1


def test_the_published_code_counts_less_on_random_bits_too(gradient: Gradient, tiny_model: Any) -> None:
    real, noise = published.audited(passage(gradient, 16, 0), tiny_model, 0)
    for found in (real, noise):
        assert found.report.audit is not None
        truth, counted = found.report.totals.bits_per_token, found.report.audit.published_bits_per_token
        assert counted is not None
        assert truth is not None
        assert counted < truth
        assert found.one.probabilities.sum() == pytest.approx(1)
        window = found.report.results[0]
        middle = len(window.window.ids) // 2
        own = -log2(found.one.probabilities[found.one.token])
        assert own == pytest.approx(float(window.surprisal_bits[middle]), abs=1e-3)
        missing = -log2(found.one.probabilities[: found.one.token + 1].sum())
        assert missing == pytest.approx(float(window.cumulative_bits[middle]), abs=1e-3)
    assert (noise.report.totals.compression_rate or 0) >= ALARM_RATE
