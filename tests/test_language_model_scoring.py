"""Bits are those of the model itself: the oracle is a plain forward pass over all logits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core.errors import Cancelled, InvalidSetting, LmgcError
from lmgc_core.language_model import head as head_module
from lmgc_core.language_model import load_model
from lmgc_core.language_model.scoring import padded, plan_passes
from lmgc_core.settings import RunOptions

HEX = frozenset(b"0123456789abcdef ")
FAMILIES = [
    "tiny_llama",
    "tiny_sentencepiece_llama",
    "tiny_gpt2",
    "tiny_llama_without_bos",
    "tiny_softcapped",
    "tiny_scaled",
]


def hex_windows(tokenizer: Any, sizes: tuple[int, ...] = (8, 3, 8, 0, 5), seed: int = 0) -> list[Any]:
    random = np.random.default_rng(seed)
    return [tokenizer.encode(" ".join(random.bytes(4).hex() for _ in range(n))) for n in sizes]


def oracle(model: Any, window: Any, support: Any) -> tuple[Any, Any]:
    """Surprisal and entropy in bits from all logits of the model, renormalised over the support, in fp64."""
    import torch

    with torch.inference_mode():
        ids = torch.tensor([[model.tokenizer.start_id, *window[:-1].tolist()]])
        logits = model.module(input_ids=ids, use_cache=False).logits[0].double()
    logp = torch.log_softmax(logits[:, torch.as_tensor(support, dtype=torch.int64)], -1).numpy() / np.log(2)
    return -logp[np.arange(len(window)), np.searchsorted(support, window)], -(2.0**logp * logp).sum(-1)


@pytest.fixture(scope="module")
def family(tiny_folder: Callable[[str], Path]) -> Callable[[str], Any]:
    loaded: dict[str, Any] = {}

    def load(name: str) -> Any:
        if name not in loaded:
            loaded[name] = load_model(str(tiny_folder(name)))
        return loaded[name]

    return load


@pytest.mark.parametrize("alphabet", [None, HEX], ids=["full", "alphabet"])
@pytest.mark.parametrize("name", FAMILIES)
def test_surprisal_is_that_of_the_plain_model(family: Callable[[str], Any], name: str, alphabet: Any) -> None:
    model = family(name)
    assert model.computes_rows_alone
    support, windows = model.tokenizer.support(alphabet), hex_windows(model.tokenizer)
    scores = {s.index: s for s in model.score(windows, support)}
    assert sorted(scores) == list(range(len(windows)))
    for index, window in enumerate(windows):
        got = scores[index]
        assert got.surprisal_bits.shape == got.entropy_bits.shape == got.rank.shape == (len(window),)
        assert got.top_token_ids.shape == got.top_bits.shape == (len(window), 5)
        if len(window):
            surprisal, entropy = oracle(model, window, support)
            np.testing.assert_allclose(got.surprisal_bits, surprisal, atol=1e-3)
            np.testing.assert_allclose(got.entropy_bits, entropy, atol=1e-3)


def test_ranks_and_top_five_agree_with_surprisals(tiny_model: Any) -> None:
    support = tiny_model.tokenizer.support(HEX)
    windows = hex_windows(tiny_model.tokenizer)
    seen = 0
    for scores in tiny_model.score(windows, support):
        for position, token in enumerate(windows[scores.index]):
            rank, top = scores.rank[position], scores.top_token_ids[position].tolist()
            assert (np.diff(scores.top_bits[position]) >= 0).all()
            assert (token in top) == (rank < 5)
            if rank < 5:
                assert top[rank] == token
                assert abs(scores.top_bits[position][rank] - scores.surprisal_bits[position]) < 1e-3
                seen += 1
    assert seen > 0


def test_a_support_smaller_than_five_is_filled_up(tiny_model: Any) -> None:
    window = tiny_model.tokenizer.encode("0" * 6)
    support = np.unique(window).astype(np.int32)
    (scores,) = tiny_model.score([window], support)
    assert (scores.top_token_ids[:, len(support) :] == -1).all()
    assert np.isnan(scores.top_bits[:, len(support) :]).all()
    np.testing.assert_allclose((2.0 ** -scores.top_bits[:, : len(support)]).sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_gpt2"])
def test_batches_and_padding_change_nothing(family: Callable[[str], Any], name: str) -> None:
    model = family(name)
    windows, support = hex_windows(model.tokenizer, (9, 2, 9, 5, 1, 7)), model.tokenizer.support(HEX)
    alone = {s.index: s.surprisal_bits for s in model.score(windows, support, batch_size=1)}
    for batch_size, first_batch in ((2, 1), (6, 0), ("auto", 3)):
        for scores in model.score(windows, support, batch_size=batch_size, first_batch=first_batch):
            np.testing.assert_allclose(scores.surprisal_bits, alone[scores.index], atol=1e-4)


def test_logits_are_computed_in_small_pieces(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    support, windows = tiny_model.tokenizer.support(None), hex_windows(tiny_model.tokenizer, (8, 8))
    whole = {s.index: s for s in tiny_model.score(windows, support)}
    monkeypatch.setattr(head_module, "LOGITS_BYTES", 5 * 4 * len(support))
    sizes = []
    pieces = head_module.SupportHead.logits

    def watched(self: Any, hidden: Any) -> Any:
        for first, logits in pieces(self, hidden):
            sizes.append(len(logits))
            yield first, logits

    monkeypatch.setattr(head_module.SupportHead, "logits", watched)
    for scores in tiny_model.score(windows, support):
        np.testing.assert_allclose(scores.surprisal_bits, whole[scores.index].surprisal_bits, atol=1e-4)
        assert (scores.rank == whole[scores.index].rank).mean() > 0.95
    assert max(sizes) == 5
    assert sum(sizes) == sum(map(len, windows))


def test_a_head_of_unknown_form_falls_back_to_the_whole_model(
    family: Callable[[str], Any], tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmgc_core.language_model.model.head_shapes", lambda config: [head_module.HeadShape()])
    model = load_model(str(tiny_folder("tiny_softcapped")))
    assert not model.computes_rows_alone
    windows, support = hex_windows(model.tokenizer), model.tokenizer.support(HEX)
    for scores in model.score(windows, support):
        if len(windows[scores.index]):
            np.testing.assert_allclose(
                scores.surprisal_bits, oracle(model, windows[scores.index], support)[0], atol=1e-3
            )


def test_windows_that_cannot_be_scored(family: Callable[[str], Any]) -> None:
    model = family("tiny_gpt2")
    support = model.tokenizer.support(HEX)
    longest = np.full(127, support[0], np.int32)
    (scores,) = model.score([longest], support)
    assert len(scores.surprisal_bits) == 127
    with pytest.raises(InvalidSetting, match=r"129 tokens, start token included.*128"):
        list(model.score([np.full(128, support[0], np.int32)], support))
    outside = model.tokenizer.encode("z")
    with pytest.raises(InvalidSetting, match=f"token {outside[0]} is not in the support"):
        list(model.score([outside], support))
    for bad in ([], [3, 2], [5, 5], [-1, 4], [0, 10**6]):
        with pytest.raises(InvalidSetting, match="a support is a rising list"):
            list(model.score([longest], np.array(bad, np.int32)))


def test_outputs_that_are_not_numbers_are_an_error(tiny_folder: Callable[[str], Path]) -> None:
    import torch

    model = load_model(str(tiny_folder("tiny_llama")))
    with torch.no_grad():
        model.module.base_model.norm.weight.fill_(float("nan"))
    with pytest.raises(LmgcError, match="not numbers"):
        list(model.score(hex_windows(model.tokenizer, (3,)), model.tokenizer.support(HEX)))


def test_scoring_can_be_stopped_between_passes(tiny_model: Any) -> None:
    answers = iter([False, True])
    scores = tiny_model.score(
        hex_windows(tiny_model.tokenizer, (4, 4)),
        tiny_model.tokenizer.support(HEX),
        batch_size=1,
        should_stop=lambda: next(answers),
    )
    assert next(scores).index == 0
    with pytest.raises(Cancelled):
        next(scores)


def test_the_lock_is_free_while_results_are_looked_at(tiny_model: Any) -> None:
    windows, support = hex_windows(tiny_model.tokenizer, (4, 4)), tiny_model.tokenizer.support(HEX)
    for _ in tiny_model.score(windows, support, batch_size=1):
        assert not tiny_model.lock.locked()


@pytest.mark.parametrize(("dtype", "tolerance"), [("int8", 0.5), ("bf16", 0.5), ("fp64", 1e-3)])
def test_other_precisions_stay_near_fp32(
    tiny_folder: Callable[[str], Path], tiny_model: Any, dtype: Any, tolerance: float
) -> None:
    model = load_model(str(tiny_folder("tiny_llama")), RunOptions(dtype=dtype))
    assert model.dtype == dtype
    assert model.fingerprint == tiny_model.fingerprint
    windows, support = hex_windows(model.tokenizer, (20,)), model.tokenizer.support(HEX)
    (got,), (exact,) = model.score(windows, support), tiny_model.score(windows, support)
    assert abs(got.surprisal_bits.mean() - exact.surprisal_bits.mean()) < tolerance
    assert np.isfinite(got.surprisal_bits).all()


def test_int8_is_refused_where_there_is_nothing_to_quantise(tiny_folder: Callable[[str], Path]) -> None:
    with pytest.raises(InvalidSetting, match="no linear layers"):
        load_model(str(tiny_folder("tiny_gpt2")), RunOptions(dtype="int8"))


def test_passes_cover_each_window_once_and_pad_little() -> None:
    lengths = [int(n) for n in np.random.default_rng(0).integers(2, 400, 50)]
    passes = plan_passes(lengths, 1000, "auto", 2)
    assert sorted(i for p in passes for i in p) == list(range(50))
    assert passes[0] == [0, 1]
    for group in passes[1:]:
        longest = max(lengths[i] for i in group)
        assert len(group) == 1 or len(group) * longest <= 1000
        assert all(2 * lengths[i] >= longest for i in group)
    assert max(len(p) for p in plan_passes(lengths, 1000, 4, 0)) == 4


def test_rows_begin_with_the_start_token_and_leave_out_the_last() -> None:
    rows = padded([np.array([5, 6, 7], np.int32), np.array([8], np.int32)], start_id=1)
    assert rows.tolist() == [[1, 5, 6], [1, 1, 1]]


@pytest.mark.model
def test_the_default_model_agrees_with_plain_transformers(default_model: Any) -> None:
    windows = hex_windows(default_model.tokenizer, (40, 25))
    for alphabet in (None, HEX):
        support = default_model.tokenizer.support(alphabet)
        for scores in default_model.score(windows, support):
            surprisal, _ = oracle(default_model, windows[scores.index], support)
            np.testing.assert_allclose(scores.surprisal_bits, surprisal, atol=0.01)
            assert abs(scores.surprisal_bits.mean() - surprisal.mean()) < 1e-4


@pytest.mark.parametrize("full", [False, True])
def test_the_whole_support_is_handed_on(tiny_model: Any, full: bool) -> None:
    ids = [tiny_model.tokenizer.encode(text) for text in ("3f 80 00 00 c1", "0a0b", "")]
    support = tiny_model.tokenizer.support(None if full else frozenset(b"0123456789abcdef "))
    for score in tiny_model.score(ids, support, whole_support=True):
        rows = score.support_bits
        assert rows.shape == (len(ids[score.index]), len(support))
        np.testing.assert_allclose(np.exp2(-rows.astype(np.float64)).sum(axis=1), 1, rtol=1e-4)
        own = rows[np.arange(len(rows)), np.searchsorted(support, ids[score.index])]
        np.testing.assert_allclose(own, score.surprisal_bits, atol=1e-4)
