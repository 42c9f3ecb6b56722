"""Determinism: the same probabilities computed in one pass and token by token, and what that does to decoding.

An encoder knows the whole text and asks the model once; a decoder has to ask it token by token. Sums of
floating-point numbers depend on their order, so the two get slightly different probabilities, and a coder whose two
sides use different frequencies soon reads nonsense. The experiment is done, not argued: frequencies are made from
both sides, the text is coded with the encoder's and decoded with the decoder's, and the first wrong token is
reported. Up to it both have seen the same tokens, so the decoder's probabilities may be computed on the true text.

Guarded rounding (see `lmgc_core.guarded_rounding`): log-probabilities are rounded to a grid, and where one lies
within a guard of a boundary the encoder writes down which side it took. It works when the gap is smaller than the
guard. Kin: PMATIC (arXiv 2601.10678).
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.coder import TOTAL, Decoder, Encoder
from lmgc_core.errors import Cancelled, CorruptContainer
from lmgc_core.exact_scoring import BITS_PER_NAT, ExactScorer
from lmgc_core.gradient import Gradient
from lmgc_core.guarded_rounding import find_exceptions, frequencies_of, round_to_bins, settle
from lmgc_core.language_model import LanguageModel
from lmgc_core.language_model.exact_arithmetic import cache_argument
from lmgc_core.plan import prepare
from lmgc_core.settings import preset

Surprisals = npt.NDArray[np.float64]
Table = npt.NDArray[np.int64]
PRECISIONS = ("fp32", "bf16", "fp64")
MEANINGS = {"fp32": "24 significant bits", "bf16": "8 significant bits", "fp64": "53 significant bits"}
N_TOKENS = 48


@dataclass(frozen=True, slots=True)
class Trial:
    """What one precision gives.

    Attributes:
        precision: "fp32", "bf16" or "fp64".
        n_tokens: of the text.
        gap_bits: the largest difference of the two sides' surprisals, over all tokens of the support.
        gap_by_token: the largest at each token, shape (n_tokens,).
        first_difference: the first token whose plainly rounded frequencies differ; None if none do.
        first_wrong_plain: the first token that decodes wrongly with plainly rounded frequencies; None if none does.
        n_exceptions: how many roundings the encoder had to write down with the archive's guard.
        first_wrong_guarded: the first token that decodes wrongly with guarded rounding; None if none does.
    """

    precision: str
    n_tokens: int
    gap_bits: float
    gap_by_token: npt.NDArray[np.float64]
    first_difference: int | None
    first_wrong_plain: int | None
    n_exceptions: int
    first_wrong_guarded: int | None


def plain_frequencies(surprisals: Surprisals) -> Table:
    """Frequencies as one would make them without a thought: 1 + floor(p · (2^24 - n)), the rest to the likeliest.

    Args:
        surprisals: in bits, shape (n_rows, n).

    Returns:
        shape (n_rows, n); each row adds up to 2^24.

    >>> plain_frequencies(np.array([[1.0, 2.0, 2.0]])).tolist()
    [[8388608, 4194304, 4194304]]
    """
    n = surprisals.shape[1]
    chances = np.exp2(-surprisals)
    chances /= chances.sum(axis=1, keepdims=True)
    found: Table = 1 + np.floor(chances * (TOTAL - n)).astype(np.int64)
    found[np.arange(len(found)), surprisals.argmin(axis=1)] += TOTAL - found.sum(axis=1)
    return found


def guarded_frequencies(encoder: Surprisals, decoder: Surprisals) -> tuple[Table, Table, int]:
    """Both sides' frequencies by guarded rounding, and how many exceptions the encoder writes down.

    Args:
        encoder, decoder: surprisals in bits, shape (n_rows, n).
    """
    exceptions = find_exceptions(encoder)
    own, others = round_to_bins(encoder), round_to_bins(decoder)
    for row, column, up in zip(exceptions.rows, exceptions.columns, exceptions.up, strict=True):
        with contextlib.suppress(CorruptContainer):  # too far off for the exception: its own rounding stays
            others[row, column] = settle(float(decoder[row, column]), bool(up))
    return _whole(own), _whole(others), len(exceptions.rows)


def _whole(bins: Any) -> Table:
    frequencies = frequencies_of(bins)
    found: Table = np.stack([frequencies.row(i) for i in range(len(bins))]).astype(np.int64) + 1
    return found


def first_wrong_token(columns: npt.NDArray[np.int64], encoder: Table, decoder: Table) -> int | None:
    """Codes a text with one side's frequencies and decodes it with the other's: the first token read wrongly.

    Args:
        columns: the tokens, as places in the support, shape (n,).
        encoder, decoder: frequencies, shape (n, n_support).

    Returns:
        None where all come back.
    """
    writer = Encoder()
    for column, table in zip(columns.tolist(), encoder, strict=True):
        writer.interval(int(table[:column].sum()), int(table[column]))
    reader = Decoder(writer.to_bytes())
    for place, (column, table) in enumerate(zip(columns.tolist(), decoder, strict=True)):
        try:
            if reader.symbol((table - 1).astype(np.float64)) != column:
                return place
        except CorruptContainer:
            return place
    return None


def first_difference(one: Table, other: Table) -> int | None:
    """The first row in which two tables differ; None if they are equal."""
    rows = np.flatnonzero((one != other).any(axis=1))
    return int(rows[0]) if rows.size else None


def trial(precision: str, columns: npt.NDArray[np.int64], encoder: Surprisals, decoder: Surprisals) -> Trial:
    """What two sides' surprisals lead to.

    Args:
        precision: in which they were computed.
        columns: the text's tokens as places in the support, shape (n,).
        encoder: from one pass, in bits, shape (n, n_support).
        decoder: token by token, the same shape.
    """
    gaps = np.abs(encoder - decoder).max(axis=1)
    plain = plain_frequencies(encoder), plain_frequencies(decoder)
    own, others, n_exceptions = guarded_frequencies(encoder, decoder)
    return Trial(
        precision=precision,
        n_tokens=len(columns),
        gap_bits=float(gaps.max()),
        gap_by_token=gaps,
        first_difference=first_difference(*plain),
        first_wrong_plain=first_wrong_token(columns, *plain),
        n_exceptions=n_exceptions,
        first_wrong_guarded=first_wrong_token(columns, own, others),
    )


def both_ways(
    model: LanguageModel,
    precision: str,
    ids: npt.NDArray[np.int32],
    support: npt.NDArray[np.int32],
    on_token: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[Surprisals, Surprisals]:
    """The surprisals of the support before every token, from one pass and token by token, in one precision.

    Args:
        model: loaded as fp32; a copy is made for the other precisions and dropped again.
        precision: one of `PRECISIONS`.
        ids: the text's tokens, shape (n,).
        support: sorted ids, shape (m,).
        on_token: told how many steps are done.
        should_stop: asked at every step.

    Returns:
        two arrays of float64, shape (n, m).
    """
    told = on_token or (lambda n: None)
    if precision == "fp64":
        scorer = ExactScorer(model)
        together = np.concatenate([rows for _, _, rows in scorer.windows([ids], support, should_stop=should_stop)])
        stepper = scorer.stepper(1, len(ids), support)
        rows = []
        for place, token in enumerate(ids.tolist()):
            check_stop(should_stop)
            rows.append(stepper.step())
            stepper.push([token])
            told(place + 1)
        return together, np.concatenate(rows)
    return _both_ways_of_module(model, precision, ids, support, told, should_stop)


def check_stop(should_stop: Callable[[], bool] | None) -> None:
    """Raises Cancelled when asked to stop."""
    if should_stop is not None and should_stop():
        raise Cancelled("stopped; the precisions done so far are kept")


def _both_ways_of_module(
    model: LanguageModel,
    precision: str,
    ids: npt.NDArray[np.int32],
    support: npt.NDArray[np.int32],
    told: Callable[[int], None],
    should_stop: Callable[[], bool] | None,
) -> tuple[Surprisals, Surprisals]:
    """The same with the model as transformers runs it, its own cache of keys and values included."""
    import torch

    with model.lock, torch.inference_mode():
        module = model.module if precision == "fp32" else copy.deepcopy(model.module).to(torch.bfloat16)
        fed = torch.as_tensor(np.concatenate([[model.tokenizer.start_id], ids[:-1]]), device=model.device)
        columns = torch.as_tensor(support, dtype=torch.int64, device=model.device)

        def surprisals(logits: Any) -> Surprisals:
            found: Surprisals = (torch.log_softmax(logits[:, columns].double(), -1) * -BITS_PER_NAT).cpu().numpy()
            return found

        together = surprisals(module(input_ids=fed[None], use_cache=False).logits[0])
        rows, cache, cache_name = [], None, cache_argument(module.forward)
        for place in range(len(ids)):
            check_stop(should_stop)
            found = module(input_ids=fed[None, place : place + 1], use_cache=True, **{cache_name: cache})
            cache = found.past_key_values
            rows.append(surprisals(found.logits[0]))
            told(place + 1)
    return together, np.concatenate(rows)


def trials(
    values: Gradient,
    model: LanguageModel,
    on_step: Callable[[str, int, int, tuple[Trial, ...]], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[Trial, ...]:
    """Every precision on the beginning of one text: signs and exponents as small numbers, preset best's way.

    Args:
        values: a passage.
        model: loaded as fp32.
        on_step: told the precision, how many tokens of how many are done, and the trials so far.
        should_stop: asked at every token.

    Raises:
        Cancelled: when asked to stop.
    """
    coding = prepare(values, preset("best", model=model.id, prior="llm"))
    (serializer,) = coding.serializers.values()
    window = next(coding.windows(range(len(coding.blocks)), model.tokenizer, 1024))
    ids, support = window.ids[:N_TOKENS], model.tokenizer.support(serializer.alphabet_bytes)
    columns = np.searchsorted(support, ids).astype(np.int64)
    found: tuple[Trial, ...] = ()
    for precision in PRECISIONS:

        def told(n_done: int, precision: str = precision, found: tuple[Trial, ...] = found) -> None:
            if on_step is not None:
                on_step(precision, n_done, len(ids), found)

        together, stepwise = both_ways(model, precision, ids, support, told, should_stop)
        found = (*found, trial(precision, columns, together, stepwise))
        told(len(ids), precision, found)
    return found
