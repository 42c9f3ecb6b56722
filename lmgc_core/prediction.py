"""Windows → bits: what the chosen prior and the remainder coder would spend, segment by segment.

With the language model alone, windows come as the model gives them. With counts or the mixture, tables start
fresh in each segment, whose windows go in step, exactly as an archive codes them: the model's probabilities are
rounded to the archive's grid first. A mixed window is handed on twice: with the model's own bits as soon as they
are there, and with the mixture's when its segment closes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import InvalidSetting
from lmgc_core.guarded_rounding import round_to_bins
from lmgc_core.language_model import LanguageModel, WindowScores
from lmgc_core.plan import Coding, Window, segments
from lmgc_core.priors import make_prior, run_segment
from lmgc_core.remainder import remainder_model
from lmgc_core.report import WindowResult
from lmgc_core.runner import Runner, ShouldStop
from lmgc_core.segment_bins import SegmentBins
from lmgc_core.serialization import PieceSpec, Serializer
from lmgc_core.settings import CodecConfig, PriorKind, RunOptions

FIRST_LOOK_TOKENS = 128
TokenIds = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Remainder:
    """What the cheap coder spends on one window: bits a parameter, and a share of the segment's tables."""

    bits: np.ndarray[Any, np.dtype[np.float64]]
    header_bits: float


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """What one segment needs beside the model to be measured, in a form that travels.

    Attributes:
        index: among the segments of the run.
        ids: tokens of each window.
        serializer: of the segment's dtype.
        places: the pieces of each window; what counting looks at.
        alphabet: bytes that texts are made of; None for the full vocabulary.
        prior: who predicts.
        batch_size: windows in a pass, or "auto".
        first_batch: windows in the first pass; 0 for no special first one.
    """

    index: int
    ids: tuple[TokenIds, ...]
    serializer: Serializer
    places: tuple[tuple[PieceSpec, ...], ...]
    alphabet: frozenset[int] | None
    prior: PriorKind
    batch_size: int | Literal["auto"]
    first_batch: int


@dataclass(frozen=True, slots=True)
class Scored:
    """One window of a task.

    Attributes:
        place: the window's, in its segment.
        scores: the model's.
        prior_bits: of each token by the prior, where that is not the model alone; None as long as it is not known.
    """

    place: int
    scores: WindowScores
    prior_bits: npt.NDArray[np.float64] | None = None


class SavedSegments(Protocol):
    """Where finished segments are kept, see `checkpoint`."""

    def find(self, task: SegmentTask) -> list[Scored] | None: ...

    def save(self, task: SegmentTask, found: Sequence[Scored]) -> None: ...


def score_segment(model: LanguageModel, task: SegmentTask, should_stop: ShouldStop | None) -> Iterator[Scored]:
    """The windows of a segment as they are there; a mixed one twice, see the module.

    Raises:
        UnsupportedInput: when the distributions fit neither in memory nor in a temporary file.
        Cancelled: when asked to stop.
    """
    support = model.tokenizer.support(task.alphabet)
    found: dict[int, Scored] = {}
    bins = SegmentBins([len(ids) for ids in task.ids], len(support)) if task.prior == "mix" else None
    if task.prior != "counts":
        # The same passes with and without the mixture, so that its rows and the model's own agree to the bit.
        for score in model.score(
            task.ids,
            support,
            batch_size=task.batch_size,
            first_batch=task.first_batch,
            whole_support=bins is not None,
            should_stop=should_stop,
        ):
            found[score.index] = Scored(score.index, replace(score, support_bits=None))
            if bins is not None:
                bins.put(score.index, 0, _bins(score))
            yield found[score.index]
        if task.prior == "llm":
            return
    else:
        found = {i: Scored(i, unasked(i, len(ids))) for i, ids in enumerate(task.ids)}
    prior = make_prior(task.prior, task.serializer, task.places, model.tokenizer.token_bytes(support))
    tokens = [np.searchsorted(support, ids) for ids in task.ids]
    bits = run_segment(prior, None if bins is None else bins.logs, tokens)
    for place in range(len(task.ids)):
        yield replace(found[place], prior_bits=bits[place])


def segment_tasks(
    coding: Coding, windows: Sequence[Window], config: CodecConfig, options: RunOptions
) -> Iterator[tuple[SegmentTask, tuple[Window, ...]]]:
    """The segments of a run with their windows, dtype by dtype since the support depends on the alphabet."""
    index = 0
    for name in dict.fromkeys(w.dtype.name for w in windows):
        serializer = coding.serializers[name]
        for number, run in enumerate(segments([w for w in windows if w.dtype.name == name], config.segment)):
            task = SegmentTask(
                index,
                tuple(w.ids for w in run),
                serializer,
                tuple(tuple(v.spec for v in coding.values(w.pieces)) for w in run),
                serializer.alphabet_bytes if config.support == "alphabet" else None,
                config.prior,
                options.batch_size,
                1 if number == 0 else 0,
            )
            yield task, run
            index += 1


def predicted(
    coding: Coding,
    windows: Sequence[Window],
    remainders: Sequence[Remainder],
    model: LanguageModel,
    config: CodecConfig,
    options: RunOptions,
    run: Runner,
    should_stop: ShouldStop | None,
    saved: SavedSegments | None = None,
) -> Iterator[WindowResult]:
    """Window results as they are there; first those of segments that an earlier run has saved.

    Raises:
        UnsupportedInput: when a segment's distributions fit neither in memory nor in a temporary file.
        Cancelled: when asked to stop.
    """
    own: dict[int, tuple[Window, ...]] = {}
    left: dict[int, SegmentTask] = {}
    for task, own[task.index] in segment_tasks(coding, windows, config, options):
        kept = None if saved is None else saved.find(task)
        if kept is None:
            left[task.index] = task
        for scored in kept or ():
            yield _result(own[task.index][scored.place], scored, model, remainders)
    latest: dict[int, dict[int, Scored]] = defaultdict(dict)
    for step in run(score_segment, list(left.values()), should_stop):
        for scored in step.found:
            latest[step.index][scored.place] = scored
            yield _result(own[step.index][scored.place], scored, model, remainders)
        if step.finished:
            done = list(latest.pop(step.index, {}).values())
            if saved is not None:
                saved.save(left[step.index], done)


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
    return _result(short, Scored(0, score), model, remainder_bits([short], config.segment))


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


def _result(window: Window, scored: Scored, model: LanguageModel, remainders: Sequence[Remainder]) -> WindowResult:
    score = scored.scores
    pieces = model.tokenizer.token_bytes(window.ids)
    remainder = remainders[window.index]
    return WindowResult(
        window=window,
        token_bytes=np.array([len(p) for p in pieces], np.int64),
        token_texts=tuple(p.decode("utf-8", "backslashreplace") for p in pieces),
        surprisal_bits=score.surprisal_bits if scored.prior_bits is None else scored.prior_bits,
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
