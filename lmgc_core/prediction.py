"""Windows → bits: what the chosen prior and the remainder coder would spend, segment by segment.

With the language model alone, windows come as the model gives them. With counts or the mixture, tables start
fresh in each segment, whose windows go in step, exactly as an archive codes them: the model's probabilities are
rounded to the archive's grid first. A mixed window is handed on twice: with the model's own bits as soon as they
are there, and with the mixture's when its segment closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import Cancelled, InvalidSetting
from lmgc_core.guarded_rounding import round_to_bins
from lmgc_core.language_model import LanguageModel, WindowScores
from lmgc_core.plan import Coding, Window, segments
from lmgc_core.priors import make_prior, run_segment
from lmgc_core.remainder import remainder_model
from lmgc_core.report import WindowResult
from lmgc_core.segment_bins import SegmentBins
from lmgc_core.settings import CodecConfig, RunOptions

FIRST_LOOK_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Remainder:
    """What the cheap coder spends on one window: bits a parameter, and a share of the segment's tables."""

    bits: np.ndarray[Any, np.dtype[np.float64]]
    header_bits: float


def predicted(
    coding: Coding,
    windows: Sequence[Window],
    remainders: Sequence[Remainder],
    model: LanguageModel,
    config: CodecConfig,
    options: RunOptions,
    should_stop: Callable[[], bool] | None,
) -> Iterator[WindowResult]:
    """Window results as they are there, dtype by dtype since the support depends on the alphabet.

    Raises:
        UnsupportedInput: when a segment's distributions fit neither in memory nor in a temporary file.
        Cancelled: when asked to stop.
    """
    for name in dict.fromkeys(w.dtype.name for w in windows):
        own = [w for w in windows if w.dtype.name == name]
        alphabet = coding.serializers[name].alphabet_bytes if config.support == "alphabet" else None
        support = model.tokenizer.support(alphabet)
        token_bytes = model.tokenizer.token_bytes(support)
        for number, run in enumerate(segments(own, config.segment)):
            if should_stop is not None and should_stop():
                raise Cancelled("stopped; the windows that are done are kept")
            found: dict[int, WindowResult] = {}
            bins = SegmentBins([len(w.ids) for w in run], len(support)) if config.prior == "mix" else None
            if config.prior != "counts":
                # The same passes with and without the mixture, so that its rows and the model's own agree to the bit.
                for score in model.score(
                    [w.ids for w in run],
                    support,
                    batch_size=options.batch_size,
                    first_batch=1 if number == 0 else 0,
                    whole_support=bins is not None,
                    should_stop=should_stop,
                ):
                    found[score.index] = _result(run[score.index], score, model, remainders)
                    if bins is not None:
                        bins.put(score.index, 0, _bins(score))
                    yield found[score.index]
                if config.prior == "llm":
                    continue
            else:
                found = {i: _result(w, unasked(i, len(w.ids)), model, remainders) for i, w in enumerate(run)}
            prior = make_prior(
                config.prior,
                coding.serializers[name],
                [[v.spec for v in coding.values(w.pieces)] for w in run],
                token_bytes,
            )
            bits = run_segment(
                prior, None if bins is None else bins.logs, [np.searchsorted(support, w.ids) for w in run]
            )
            for i in range(len(run)):
                yield replace(found[i], surprisal_bits=bits[i])


def first_look(
    coding: Coding, window: Window, model: LanguageModel, config: CodecConfig, options: RunOptions
) -> WindowResult | None:
    """The model's own bits of a short beginning of a window, so that a view has something within a second.

    It is a window of its own: the block's parameters cut to at most 128 tokens. None where it would save no time.
    """
    if config.prior == "counts" or len(window.ids) < 2 * FIRST_LOOK_TOKENS:
        return None
    short = next(coding.windows([window.block], model.tokenizer, FIRST_LOOK_TOKENS))
    alphabet = coding.serializers[short.dtype.name].alphabet_bytes if config.support == "alphabet" else None
    (score,) = model.score([short.ids], model.tokenizer.support(alphabet), batch_size=options.batch_size)
    return _result(short, score, model, remainder_bits([short], config.segment))


def _bins(score: WindowScores) -> npt.NDArray[np.int16]:
    if score.support_bits is None:
        raise InvalidSetting("the mixture needs the model's whole distribution")
    found: npt.NDArray[np.int16] = round_to_bins(score.support_bits.astype(np.float64)).astype(np.int16)
    return found


def unasked(index: int, n_tokens: int) -> WindowScores:
    """Scores of a window that no language model was asked about: not-a-number, rank and tokens -1."""
    nothing: npt.NDArray[Any] = np.full(n_tokens, np.nan, np.float32)
    return WindowScores(
        index,
        nothing.astype(np.float64),
        nothing,
        np.full(n_tokens, -1, np.int32),
        nothing,
        np.full((n_tokens, 5), -1, np.int32),
        np.full((n_tokens, 5), np.nan, np.float32),
    )


def _result(window: Window, score: WindowScores, model: LanguageModel, remainders: Sequence[Remainder]) -> WindowResult:
    pieces = model.tokenizer.token_bytes(window.ids)
    remainder = remainders[window.index]
    return WindowResult(
        window=window,
        token_bytes=np.array([len(p) for p in pieces], np.int64),
        token_texts=tuple(p.decode("utf-8", "backslashreplace") for p in pieces),
        surprisal_bits=score.surprisal_bits,
        llm_surprisal_bits=score.surprisal_bits,
        entropy_bits=score.entropy_bits,
        rank=score.rank,
        cumulative_bits=score.cumulative_bits,
        top_token_ids=score.top_token_ids,
        top_bits=score.top_bits,
        remainder_bits=remainder.bits,
        header_bits=remainder.header_bits,
    )


def remainder_bits(windows: Sequence[Window], segment: int) -> list[Remainder]:
    """What the bits outside the text cost, window by window, with fresh tables in each segment."""
    found: list[Remainder] = []
    for run in segments(windows, segment):
        n_bits = run[0].text.remainder_bits
        values = np.concatenate([w.text.remainder for w in run])
        context = np.concatenate([w.text.context for w in run])
        plan = remainder_model(values, context, n_bits)
        edges = np.cumsum([0, *(w.n_parameters for w in run)])
        for i in range(len(run)):
            found.append(Remainder(plan.bits_per_value[edges[i] : edges[i + 1]], plan.header_bits / len(run)))
    return found
