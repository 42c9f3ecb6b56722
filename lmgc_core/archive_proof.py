"""The proof of an archive: its bytes are decoded and held against what went in, before they are given out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

import numpy as np

from lmgc_core.archive_decoding import OnProgress, ShouldStop, decoded_words, open_archive
from lmgc_core.archive_model import Predictor
from lmgc_core.archive_plan import in_segments, planned_windows
from lmgc_core.errors import LmgcError
from lmgc_core.gradient import Gradient, Tensor
from lmgc_core.plan import Coding
from lmgc_core.settings import RunOptions
from lmgc_core.transforms import parse_transform

VERIFY_TOKENS = 10_000
Verify = Literal["auto", "all", "none"]


def segments_to_verify(n_tokens: Sequence[int], verify: Verify, seed: int) -> list[int]:
    """Indices of the segments that are decoded as a proof."""
    everything = list(range(len(n_tokens)))
    if verify == "none":
        return []
    if verify == "all" or sum(n_tokens) <= VERIFY_TOKENS:
        return everything
    shuffled = random.Random(seed).sample(everything, len(everything))
    chosen: list[int] = []
    while sum(n_tokens[i] for i in chosen) < VERIFY_TOKENS:
        chosen.append(shuffled[len(chosen)])
    return sorted(chosen)


def prove(
    archive: bytes,
    coding: Coding,
    predictor: Predictor,
    chosen: Sequence[int],
    options: RunOptions,
    on_progress: OnProgress | None,
    should_stop: ShouldStop | None,
) -> None:
    """Decodes the chosen segments from the archive's bytes and compares every bit; raises LmgcError otherwise."""
    container = open_archive(archive)
    header = container.header
    words = decoded_words(container, predictor, None, set(chosen), options, "verify", on_progress, should_stop)
    for index, run in enumerate(in_segments(planned_windows(header), header.segment)):
        for piece in (p for w in run for p in w.pieces) if index in set(chosen) else ():
            own = coding.coded.tensors[piece.tensor_index].words[piece.first : piece.last]
            if not np.array_equal(own, words[piece.tensor_index][piece.first : piece.last]):
                raise LmgcError("the archive does not decode to its input; nothing was written, please report this")
    if len(chosen) == len(container.segments):
        whole = Gradient(tuple(Tensor(s, w) for s, w in zip(header.coded_specs, words, strict=True)))
        back = parse_transform(header.transform).reconstruct(whole, header.side, header.specs)
        if back.to_bytes() != coding.transformed.values.to_bytes():
            raise LmgcError("the lossy step is not inverted as promised; nothing was written, please report this")
