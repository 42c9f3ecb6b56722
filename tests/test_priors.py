"""Priors: exact sums, a decoder that keeps step, whole numbers, and gains where there is something to learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import DTYPES
from lmgc_core.guarded_rounding import round_to_bins
from lmgc_core.priors import log2_of_bins, make_prior, rounded_log2, run_segment
from lmgc_core.priors.counts import Counts
from lmgc_core.priors.fixed_point import FLOOR, LOG_ONE, log_share, power_of, tables
from lmgc_core.priors.geometry import axis_strides, geometry_of
from lmgc_core.priors.mixing import WEIGHT_ONE, Mixer
from lmgc_core.serialization import PieceSpec, PieceValues, Serializer, reference_of
from lmgc_core.settings import Serialization
from tests.reference_prior import ReferencePrior

TOTAL = 1 << 24
NUMBERS = Serialization("head", "big", "numbers", "space", "auto", 0)
SERIALIZATIONS = {
    "numbers": NUMBERS,
    "numbers, lines": Serialization("head", "big", "numbers", "space", "auto", "auto"),
    "numbers, comma and space": Serialization("head", "big", "numbers", "comma+space", "auto", 0),
    "exponents": Serialization("exponent", "big", "numbers", "space", "auto", 0),
    "letters": Serialization("head", "big", "letters", "none", 0, 0),
    "hex": Serialization("all", "big", "hex", "space", "auto", 0),
    "hex, no separator": Serialization("all", "little", "hex", "none", 0, 0),
    "iso": Serialization("all", "big", "iso", "none", 0, 0),
    "decimal": Serialization("high", "big", "decimal", "comma", "auto", 0),
    "float": Serialization("all", "big", "float", "space", "auto", 0),
}


def values_like_a_gradient(n: int, seed: int = 0) -> np.ndarray:
    """Smooth in scale and sign, with some exact zeros."""
    rng = np.random.default_rng(seed)
    scale = np.exp2(np.cumsum(rng.normal(0, 0.3, n)) - 8)
    values = scale * np.convolve(rng.normal(size=n + 4), np.ones(5) / 5, "valid")
    values[rng.random(n) < 0.05] = 0
    return values.astype(np.float32)


def windows_of(serialization, values, n_windows, size, shape=None):
    """Serializer, pieces by window, the tokens' bytes, token indices by window.

    Tokens are single characters and a few pairs, chosen greedily as a tokenizer would.
    """
    serializer = Serializer(DTYPES["float32"], serialization)
    words = values.view("<u4")
    shape = shape or (len(values),)
    reference = reference_of(words, serializer.dtype)
    texts, pieces = [], []
    for w in range(n_windows):
        piece = PieceValues(words[w * size : (w + 1) * size], w * size, shape, reference)
        texts.append(serializer.write([piece]).text)
        pieces.append([piece.spec])
    alphabet = sorted(bytes([b]) for b in serializer.alphabet_bytes)
    pairs = sorted({b" -", b",-", b"aa", b"Ab", b"0 ", b"00"} & {a + b for a in alphabet for b in alphabet})
    support = alphabet + pairs
    place = {token: index for index, token in enumerate(support)}
    indices = []
    for text in texts:
        data, found, at = text.encode(), [], 0
        while at < len(data):
            step = 2 if data[at : at + 2] in place else 1
            found.append(place[data[at : at + step]])
            at += step
        indices.append(np.array(found, np.int64))
    return serializer, pieces, support, indices


def noisy_model(indices, n_support, strength=4, seed=1):
    """Log-probabilities of a model that knows the next token a little better than chance, in 1/4096 bit."""
    rng = np.random.default_rng(seed)
    found = []
    for tokens in indices:
        logits = rng.normal(0, 1.5, (len(tokens), n_support))
        logits[np.arange(len(tokens)), tokens] += strength
        logs = logits / math.log(2) - np.log2(np.exp(logits).sum(axis=1, keepdims=True))
        found.append((np.rint(logs * 64) * 64).astype(np.int64))
    return found


def test_logarithms_are_floors_and_powers_agree():
    log2, power = tables().log2, tables().power
    for n in (1, 2, 3, 5, 17, 255, 4097, 40000, 65535):
        assert log2[n] == math.floor(LOG_ONE * math.log2(n) + (1e-9 if n & (n - 1) == 0 else 0))
    for k in (0, 1, 100, 4095):
        assert power[k] == math.floor(2 ** (30 - k / LOG_ONE))
    assert power_of(np.int64([0, -LOG_ONE * 31, -LOG_ONE * 60])).tolist() == [1 << 30, 0, 0]
    assert log_share(np.int64([0, 1, 2]), np.int64([2])).tolist()[2] == 0
    assert FLOOR < -16 * LOG_ONE


def test_counts_fade_and_never_reach_zero():
    counts = Counts(2, 3, 1, 64, 1000)
    for _ in range(100):
        counts.add(np.int64([0]), np.int64([2]))
    logs = counts.logs(np.int64([0, 1]))
    assert logs[0, 2] > -LOG_ONE // 50
    assert logs[0, 0] < -7 * LOG_ONE
    assert logs[1].tolist() == [logs[1, 0]] * 3
    for _ in range(20):
        counts.add(np.int64([0]), np.int64([0]))
    assert counts.logs(np.int64([0]))[0].argmax() == 0


def test_mixing_is_that_of_real_numbers_and_learns_the_better_expert():
    rng = np.random.default_rng(0)
    mixer = Mixer(1, np.full(2, WEIGHT_ONE // 2), 2000)
    good = np.log2([0.7, 0.2, 0.1])
    bad = np.log2([0.1, 0.2, 0.7])
    inputs = np.rint(np.stack([good, bad])[None] * LOG_ONE).astype(np.int64)
    real = np.exp2((good + bad) / 2)
    shares = mixer.shares(inputs, np.int64([0]))
    assert shares[0] / 65536 == pytest.approx(real / real.sum(), abs=1e-3)
    for symbol in rng.choice(3, 2000, p=[0.7, 0.2, 0.1]):
        shares = mixer.shares(inputs, np.int64([0]))
        mixer.learn(inputs, np.int64([0]), shares, np.int64([symbol]))
    assert mixer.shares(inputs, np.int64([0]))[0] / 65536 == pytest.approx([0.7, 0.2, 0.1], abs=0.06)


def test_geometry_knows_neighbours_that_lie_in_the_window():
    assert axis_strides((4, 1, 1, 5)) == [5]
    found = geometry_of([[PieceSpec(20, 9, (6, 5)), PieceSpec(3, 0, (3,))]])
    assert found.near[0, :21].tolist() == [0] * 5 + [5] * 15 + [0]
    assert found.columns[0, :3].tolist() == [5, 1, 2]
    assert found.columns[0, 20:23].tolist() == [0, 0, 0]
    assert found.sizes.tolist() == [23]


@pytest.mark.parametrize("kind", ["counts", "mix"])
@pytest.mark.parametrize("name", SERIALIZATIONS)
def test_frequencies_are_exact_whatever_the_serialization(name, kind):
    values = values_like_a_gradient(120)
    serializer, pieces, support, indices = windows_of(SERIALIZATIONS[name], values, 3, 40, (4, 30))
    logs = noisy_model(indices, len(support)) if kind == "mix" else None
    prior = make_prior(kind, serializer, pieces, support)
    for t in range(max(map(len, indices))):
        active = np.array([i for i in range(3) if len(indices[i]) > t])
        model = None if logs is None else np.stack([logs[i][t] for i in active])
        found = prior.frequencies(model, active)
        assert found.dtype == np.int64
        assert found.shape == (len(active), len(support))
        assert (found.sum(axis=1) == TOTAL).all()
        assert found.min() >= 1
        prior.update(active, np.array([indices[i][t] for i in active]))


@pytest.mark.parametrize("name", ["numbers", "letters", "hex"])
@pytest.mark.parametrize("n_extra", [0, 400])
def test_supports_of_any_size(name, n_extra):
    values = values_like_a_gradient(400)
    serializer, pieces, support, indices = windows_of(SERIALIZATIONS[name], values, 4, 100)
    support = support + [b"%d+" % i for i in range(n_extra)]
    logs = noisy_model(indices, len(support), strength=2 + n_extra / 200)
    both = sum(b.sum() for b in run_segment(make_prior("mix", serializer, pieces, support), logs, indices))
    counts = sum(b.sum() for b in run_segment(make_prior("counts", serializer, pieces, support), None, indices))
    alone = sum(-x[np.arange(len(i)), i].sum() / LOG_ONE for x, i in zip(logs, indices, strict=True))
    assert both < min(counts, alone)


def test_decoder_keeps_step_and_windows_may_stop_at_different_times():
    values = values_like_a_gradient(200, seed=3)
    serializer, pieces, support, indices = windows_of(NUMBERS, values, 4, 50, (20, 10))
    logs = noisy_model(indices, len(support))
    bits = run_segment(make_prior("mix", serializer, pieces, support), logs, indices)
    # A decoder draws its tokens from cumulative frequencies alone.
    prior = make_prior("mix", serializer, pieces, support)
    decoded: list[list[int]] = [[] for _ in indices]
    for t in range(max(map(len, indices))):
        active = np.array([i for i in range(4) if len(indices[i]) > t])
        found = prior.frequencies(np.stack([logs[i][t] for i in active]), active)
        tokens = []
        for row, i in zip(found, active, strict=True):
            upper = np.cumsum(row)
            target = upper[indices[i][t]] - 1  # a point of the interval that was coded
            tokens.append(int(np.searchsorted(upper, target, side="right")))
            decoded[i].append(tokens[-1])
            assert bits[i][t] == 24 - np.log2(row[tokens[-1]])
        prior.update(active, np.array(tokens))
    assert decoded == [i.tolist() for i in indices]


def test_nothing_of_another_window_ahead_is_used():
    values = values_like_a_gradient(120, seed=4)
    serializer, pieces, support, indices = windows_of(NUMBERS, values, 2, 60)
    n = min(map(len, indices)) // 2
    first = run_segment(make_prior("counts", serializer, pieces, support), None, [i[:n] for i in indices])
    whole = run_segment(make_prior("counts", serializer, pieces, support), None, indices)
    assert first[0].tolist() == whole[0][:n].tolist()
    assert first[1].tolist() == whole[1][:n].tolist()


def test_counts_learn_scale_and_sign():
    values = values_like_a_gradient(1600, seed=5)
    serializer, pieces, support, indices = windows_of(NUMBERS, values, 8, 200)
    bits = sum(b.sum() for b in run_segment(make_prior("counts", serializer, pieces, support), None, indices))
    heads = (values.view("<u4") >> 23).astype(np.int64)
    share = np.bincount(heads)[np.bincount(heads) > 0] / len(heads)
    order_0 = -(share * np.log2(share)).sum()
    assert bits / len(values) < order_0 - 0.5


def test_random_bits_cost_what_they_hold():
    rng = np.random.default_rng(6)
    words = rng.integers(0, 1 << 32, 400, dtype=np.uint32)
    serializer, pieces, support, indices = windows_of(SERIALIZATIONS["hex"], words.view(np.float32), 4, 100)
    bits = sum(b.sum() for b in run_segment(make_prior("counts", serializer, pieces, support), None, indices))
    assert bits > 0.999 * 32 * 400


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.sampled_from(["numbers", "numbers, comma and space"]))
def test_any_token_stream_keeps_the_sums(tokens, name):
    values = values_like_a_gradient(30)
    serializer, pieces, support, _ = windows_of(SERIALIZATIONS[name], values, 1, 30)
    prior = make_prior("counts", serializer, pieces, support)
    for token in tokens:
        found = prior.frequencies(None, np.array([0]))
        assert found.sum() == TOTAL
        assert found.min() >= 1
        prior.update(np.array([0]), np.array([token % len(support)]))


def test_mistakes_are_named():
    values = values_like_a_gradient(10)
    serializer, pieces, support, _ = windows_of(NUMBERS, values, 1, 10)
    with pytest.raises(InvalidSetting, match="counts or mix"):
        make_prior("llm", serializer, pieces, support)
    with pytest.raises(InvalidSetting, match="language model"):
        make_prior("mix", serializer, pieces, support).frequencies(None, np.array([0]))


def test_an_outer_product_is_seen_through_columns():
    rng = np.random.default_rng(7)
    rows, columns = rng.normal(size=40), rng.normal(size=30)
    values = (np.outer(rows, columns) + 0.02 * rng.normal(size=(40, 30))).astype(np.float32).reshape(-1)
    costs = []
    for shape in ((40, 30), (1200,)):
        serializer, pieces, support, indices = windows_of(NUMBERS, values, 10, 120, shape)
        bits = run_segment(make_prior("counts", serializer, pieces, support), None, indices)
        costs.append(sum(b.sum() for b in bits) / len(values))
    assert costs[0] < costs[1] - 0.2


def test_bins_of_the_model_become_whole_log_probabilities():
    surprisals = np.array([0.0, 0.5, 3.0, 7.9, 12.0, 30.0])
    found = rounded_log2(surprisals)
    assert found.dtype == np.int64
    assert np.abs(found[:4] / LOG_ONE + surprisals[:4]).max() < 1 / 32
    assert found[-1] == -25 * LOG_ONE
    assert (np.diff(found) < 0).all()


def test_a_thousand_windows_in_step_stay_within_the_tables():
    """All of them count in the same contexts at once, and all pull the predictors the same way."""
    counts = Counts(1, 3, 1, 128, 24000)
    counts.add(np.zeros(4096, np.int64), np.arange(4096) % 2)
    assert (counts.logs(np.int64([0])) <= 0).all()
    values = np.repeat(values_like_a_gradient(6, seed=8), 1100).reshape(6, 1100).T.reshape(-1).copy()
    serializer, pieces, support, indices = windows_of(NUMBERS, values, 1100, 6)
    bits = run_segment(make_prior("counts", serializer, pieces, support), None, indices)
    assert all((b > 0).all() and (b <= 24).all() for b in bits)


def test_bytes_without_separators_are_told_apart_by_their_place():
    """The exponent's byte is cheap, the last one is noise: each value costs less than its bits."""
    values = values_like_a_gradient(1200, seed=9)
    serializer, pieces, support, indices = windows_of(SERIALIZATIONS["hex, no separator"], values, 4, 300)
    bits = run_segment(make_prior("counts", serializer, pieces, support), None, indices)
    assert sum(b.sum() for b in bits) / len(values) < 31


def reference_of_segment(kind, serializer, pieces, support):
    """The plain program of docs/prior_arithmetic.md for the same segment."""
    settings, dtype = serializer.serialization, serializer.dtype
    separator = {"none": "", "space": " ", "comma": ",", "comma+space": ", "}[settings.separator]
    ends = {separator.encode()[-1]} if separator and settings.group_size != 0 else set()
    ends |= {10} if settings.line != 0 else set()
    characters = {"hex": 8, "iso": 4}.get(settings.alphabet, 0)
    numbers = None
    if settings.alphabet == "numbers" and dtype.kind == "float":
        texts = serializer.punctuation.texts
        boundaries = [[texts[k] for k in serializer.punctuation.boundaries(w)] for w in pieces]
        numbers = boundaries, dtype.exponent_bits, settings.planes == "head"
    windows = [[(p.n_parameters, p.first_parameter, p.shape) for p in w] for w in pieces]
    return ReferencePrior(kind == "mix", windows, support, ends, characters, numbers)


@pytest.mark.parametrize(
    ("name", "n_extra", "kind"),
    [(name, 0, "mix") for name in SERIALIZATIONS]
    + [("numbers", 0, "counts"), ("iso", 0, "counts"), ("letters", 260, "counts")]
    + [("numbers", 260, "mix"), ("hex, no separator", 260, "mix")],
)
def test_the_documented_arithmetic_gives_the_same_frequencies(name, n_extra, kind):
    """An independent program, written from docs/prior_arithmetic.md alone, agrees with the library to the last unit."""
    values = values_like_a_gradient(150, seed=10)
    shapes = [(9, 5), (50,), (7, 4, 3, 3)]
    serializer, pieces, support, indices = windows_of(SERIALIZATIONS[name], values, 3, 30 if n_extra else 50)
    pieces = [
        [PieceSpec(20, i, shape, p.reference), PieceSpec(p.n_parameters - 20, 3 * i, shapes[i - 1], p.reference)]
        for i, (shape, [p]) in enumerate(zip(shapes, pieces, strict=True))
    ]
    support = support + [b"%d+" % i for i in range(n_extra)]
    logs = noisy_model(indices, len(support)) if kind == "mix" else None
    ours = make_prior(kind, serializer, pieces, support)
    theirs = reference_of_segment(kind, serializer, pieces, support)
    for t in range(min(30 if n_extra else 70, *(len(i) for i in indices))):
        active = [i for i in range(3) if i != t % 11]
        model = None if logs is None else np.stack([logs[i][t] for i in active])
        found = ours.frequencies(model, np.array(active))
        assert found.tolist() == theirs.frequencies(active, None if model is None else model.tolist()), f"step {t}"
        # Now and then another token than the text has, so that a window loses its thread.
        tokens = [int(indices[i][t]) if t % 37 else (t * 7 + i) % len(support) for i in active]
        ours.update(np.array(active), np.array(tokens))
        theirs.update(list(zip(active, tokens, strict=True)))


@pytest.mark.parametrize(
    ("name", "n_extra", "kind"),
    [
        ("letters", 400, "mix"),
        ("hex", 400, "mix"),
        ("letters", 400, "counts"),
        ("numbers", 0, "mix"),
        ("iso", 600, "mix"),
    ],
)
def test_frequencies_by_bins_are_those_written_out(name, n_extra, kind):
    """Rows and intervals of every token, also where the model says next to nothing, or the same of all."""
    values = values_like_a_gradient(120, seed=3)
    serializer, pieces, support, indices = windows_of(SERIALIZATIONS[name], values, 3, 40)
    support = support + [b"%d+" % i for i in range(n_extra)]
    n, rng = len(support), np.random.default_rng(7)
    first, second = (make_prior(kind, serializer, pieces, support) for _ in range(2))
    last = int(round_to_bins(np.array([np.inf]))[0])
    for t in range(min(40, *(len(i) for i in indices))):
        active = np.array([i for i in range(3) if i != t % 5])
        bins = rng.integers(0, last + 1, (len(active), n)).astype(np.int16)
        if t % 4 == 1:
            bins[:] = last
        elif t % 4 == 2:
            bins[:] = rng.integers(0, last, (len(active), 1))
        elif t % 4 == 3:
            bins[:, n // 2 :] = last
        table = first.frequencies(log2_of_bins(bins) if kind == "mix" else None, active)
        found = second.distributions(bins if kind == "mix" else None, active)
        starts = np.cumsum(table, axis=1) - table
        for row in range(len(active)):
            assert (found.row(row) == table[row] - 1).all(), f"step {t}"
            for token in [0, n - 1, *rng.integers(0, n, 20).tolist(), *indices[active[row]][: t + 1].tolist()]:
                assert found.interval(row, token) == (starts[row, token], table[row, token])
        tokens = np.array([int(indices[i][t]) for i in active])
        first.update(active, tokens)
        second.update(active, tokens)
