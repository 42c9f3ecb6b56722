"""The segments of an archive as tasks that travel: what one needs beside the model, and the work on it.

Inverse pair: `encode_tasks` writes them in the order of the archive; `archive_decoding` walks the same order. Law:
a task's payload does not depend on where, or in what order, it was worked on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmgc_core.archive_model import Predictor, predictor_of
from lmgc_core.archive_plan import CutRecorder, in_segments
from lmgc_core.backend import name_elsewhere, same_model
from lmgc_core.errors import ModelUnavailable
from lmgc_core.language_model import LanguageModel, TextTokenizer, load_tokenizer
from lmgc_core.plan import Coding, Window
from lmgc_core.runner import ShouldStop
from lmgc_core.segment_encoding import EncodedSegment, encode_segment
from lmgc_core.serialization import PieceSpec, SerializedText, Serializer
from lmgc_core.settings import CodecConfig, PriorKind, RunOptions
from lmgc_core.step_frequencies import step_prior


@dataclass(frozen=True, slots=True)
class EncodeTask:
    """One segment to encode.

    Attributes:
        index: its place in the archive.
        ids, texts, places: of each window: tokens, text with its remainder, pieces.
        serializer: of the segment's dtype.
        alphabet: bytes that texts are made of; None for the full vocabulary.
        prior: who predicts.
        guard_exponent: the guard is 2 to the minus that, in bits.
        options: how many windows go through the model together.
    """

    index: int
    ids: tuple[npt.NDArray[np.int32], ...]
    texts: tuple[SerializedText, ...]
    places: tuple[tuple[PieceSpec, ...], ...]
    serializer: Serializer
    alphabet: frozenset[int] | None
    prior: PriorKind
    guard_exponent: int
    options: RunOptions


def encode_task(predictor: Predictor, task: EncodeTask, should_stop: ShouldStop | None) -> Iterator[EncodedSegment]:
    """The segment, with a fresh prior."""
    support = predictor.tokenizer.support(task.alphabet)
    prior = step_prior(
        task.prior, task.serializer, [list(p) for p in task.places], predictor.tokenizer.token_bytes(support)
    )
    guard = 2.0**-task.guard_exponent
    yield encode_segment(prior, predictor.scorer, task.ids, task.texts, support, guard, task.options, should_stop)


def encode_tasks(
    coding: Coding,
    tokenizer: TextTokenizer,
    config: CodecConfig,
    guard_exponent: int,
    options: RunOptions,
    recorder: CutRecorder,
) -> Iterator[tuple[EncodeTask, list[Window]]]:
    """Every segment with its windows, in order, while the recorder takes down how each block was cut."""
    windows = _recorded(coding, tokenizer, config, recorder)
    for index, run in enumerate(in_segments(windows, config.segment)):
        serializer = coding.serializers[run[0].dtype.name]
        task = EncodeTask(
            index,
            tuple(w.ids for w in run),
            tuple(w.text for w in run),
            tuple(tuple(v.spec for v in coding.values(w.pieces)) for w in run),
            serializer,
            serializer.alphabet_bytes if config.support == "alphabet" else None,
            config.prior,
            guard_exponent,
            options,
        )
        yield task, run


def segment_words(coding: Coding, run: Sequence[Window]) -> bytes:
    """The coded values of a segment, little-endian; what its checksum covers."""
    return b"".join(np.ascontiguousarray(p.words).tobytes() for w in run for p in coding.values(w.pieces))


def predictor_elsewhere(prior: PriorKind, name: str, fingerprint: str, options: RunOptions) -> Predictor:
    """What an archive needs of the model of that name, in another process.

    Args:
        prior: who predicts.
        name, fingerprint: the model's; the tokenizer's where the prior does not ask the model.
        options: threads and device.

    Raises:
        ModelUnavailable: when it is another one there, or cannot be had.
    """
    if prior != "counts":
        return predictor_of(prior, same_model(name, fingerprint, options))
    tokenizer = load_tokenizer(name)
    if tokenizer.fingerprint != fingerprint:
        raise ModelUnavailable(f"the tokenizer of {name} is another one on this node; put the same files on every node")
    return Predictor(tokenizer, None)


def named_model(model: LanguageModel | TextTokenizer, config: CodecConfig) -> tuple[str, str]:
    """Name and fingerprint for `predictor_elsewhere`."""
    if isinstance(model, TextTokenizer):
        return name_elsewhere(config.model), model.fingerprint
    fingerprint = model.tokenizer.fingerprint if config.prior == "counts" else model.fingerprint
    return name_elsewhere(model.id), fingerprint


def _recorded(coding: Coding, tokenizer: TextTokenizer, config: CodecConfig, recorder: CutRecorder) -> Iterator[Window]:
    for number in range(len(coding.blocks)):
        windows = list(coding.windows([number], tokenizer, config.context_window))
        recorder.add(coding.blocks[number], [w.pieces for w in windows])
        yield from windows
