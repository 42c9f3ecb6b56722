"""Decoding an archive: a parsed container and a model → the words of its tensors, segment by segment.

Whatever cannot be decoded is refused before a value is given out: a transform that is not known, a header that
contradicts itself, a segment whose check does not match. Memory grows with the segments in step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from lmgc_core.archive_header import Header, needs_reference
from lmgc_core.archive_model import Predictor
from lmgc_core.archive_plan import PlannedWindow, count_segments, in_segments, planned_windows
from lmgc_core.blocks import Piece
from lmgc_core.container import Container, read_container
from lmgc_core.errors import CorruptContainer, IncompatibleContainer, InvalidSetting, ModelUnavailable
from lmgc_core.exact_scoring import ExactScorer
from lmgc_core.gradient import DTYPES, Words
from lmgc_core.language_model.load import available_memory
from lmgc_core.segment_decoding import SegmentToDecode, decode_segments
from lmgc_core.serialization import PieceSpec, Serializer
from lmgc_core.settings import RunOptions
from lmgc_core.transforms import parse_transform

ROWS_IN_STEP = 64
"""Most windows that advance together without being asked to: more reads the weights less often, and from here on hardly
any faster. So memory grows with the windows in step and never with the file."""

Group = list[tuple[int, list[PlannedWindow]]]


@dataclass(frozen=True, slots=True)
class ArchiveProgress:
    """Where compressing or decompressing stands.

    Attributes:
        stage: "encode", "verify" or "decode".
        n_parameters_done, n_parameters: coded parameters so far and in all.
        n_tokens_done: tokens so far.
    """

    stage: str
    n_parameters_done: int
    n_parameters: int
    n_tokens_done: int


OnProgress = Callable[[ArchiveProgress], None]
ShouldStop = Callable[[], bool]


def open_archive(data: bytes) -> Container:
    """The parsed container of an archive, its header checked against itself; needs no model.

    Raises:
        TruncatedContainer, CorruptContainer, IncompatibleContainer: for what cannot be decoded.
    """
    container = read_container(data, count_segments)
    _check_header(container.header)
    return container


def check_size(header: Header, max_bytes: int) -> None:
    """Refuses an archive that says it holds more than `max_bytes`."""
    for specs in (header.specs, header.coded_specs):
        need = sum(s.raw_bytes for s in specs)
        if need > max_bytes:
            raise IncompatibleContainer(
                f"the archive says it holds {need:,} bytes, more than the limit of {max_bytes:,}; "
                "raise max bytes if you trust it"
            )


def _check_header(header: Header) -> None:
    """Refuses headers whose lossy step, serializations or side information contradict the tensors."""
    try:
        if parse_transform(header.transform).coded_specs(header.specs) != header.coded_specs:
            raise CorruptContainer("the header's coded tensors are not what its lossy step makes; it is damaged")
        for name, serialization in header.serializations.items():
            Serializer(next(s.dtype for s in header.coded_specs if s.dtype.name == name), serialization)
    except InvalidSetting as error:
        raise CorruptContainer(f"the header contradicts itself ({error}); it is damaged") from None


def decoded_words(
    container: Container,
    predictor: Predictor,
    wanted: set[int] | None,
    chosen: set[int] | None,
    options: RunOptions,
    stage: str,
    on_progress: OnProgress | None,
    should_stop: ShouldStop | None,
) -> list[Words]:
    """The words of the coded tensors; only the `chosen` segments, or those that hold `wanted` tensors, are filled."""
    header = container.header
    serializers = {n: Serializer(DTYPES[n], s) for n, s in header.serializations.items()}
    words = [np.zeros(s.n_parameters if wanted is None or i in wanted else 0, s.dtype.word)
             for i, s in enumerate(header.coded_specs)]  # fmt: skip
    references = _references(header)
    done, tokens, total = 0, 0, sum(s.n_parameters for s in header.coded_specs)

    def on_step(n_tokens: int, n_parameters: int) -> None:
        nonlocal tokens
        tokens += n_tokens
        if on_progress is not None:
            on_progress(ArchiveProgress(stage, done + n_parameters, total, tokens))

    def needed() -> Iterator[tuple[int, list[PlannedWindow]]]:
        for index, run in enumerate(in_segments(planned_windows(header), header.segment)):
            here = {p.tensor_index for w in run for p in w.pieces}
            if (chosen is None or index in chosen) and (wanted is None or here & wanted):
                yield index, run

    for group in _groups(needed(), _rows_in_step(header, predictor.scorer, options)):
        dtype = group[0][1][0].dtype
        alphabet = serializers[dtype.name].alphabet_bytes if header.support == "alphabet" else None
        support = predictor.tokenizer.support(alphabet)
        segments = [
            SegmentToDecode(
                container.segments[i].exceptions,
                container.segments[i].payload,
                serializers[dtype.name],
                tuple(tuple(_piece(header, references, p) for p in w.pieces) for w in run),
            )
            for i, run in group
        ]
        guard = 2.0**-header.guard_exponent
        found = decode_segments(
            header.prior, predictor.tokenizer, predictor.scorer, segments, support, guard, header.longest_window,
            on_step, should_stop,
        )  # fmt: skip
        for (index, run), windows in zip(group, found, strict=True):
            parts = [part for window in windows for part in window]
            if (
                container.segments[index].check_of(b"".join(p.tobytes() for p in parts))
                != container.segments[index].check
            ):
                raise CorruptContainer(
                    f"segment {index} does not decode to what was stored: it is damaged, or this machine's "
                    "arithmetic differs by more than archives allow"
                )
            for piece, part in zip((p for w in run for p in w.pieces), parts, strict=True):
                if wanted is None or piece.tensor_index in wanted:
                    words[piece.tensor_index][piece.first : piece.last] = part
                done += piece.n_parameters
    return words


def _references(header: Header) -> dict[int, int]:
    """The reference of each coded tensor that has one, by its index."""
    having = (i for i, s in enumerate(header.coded_specs) if needs_reference(s, header.serializations[s.dtype.name]))
    return dict(zip(having, header.references, strict=True))


def _piece(header: Header, references: dict[int, int], piece: Piece) -> PieceSpec:
    index = piece.tensor_index
    return PieceSpec(piece.n_parameters, piece.first, header.coded_specs[index].shape, references.get(index, 0))


def _rows_in_step(header: Header, scorer: ExactScorer | None, options: RunOptions) -> int:
    """How many windows advance together: attention keeps at most half of the free memory, or one segment's need.

    Raises:
        ModelUnavailable: when one segment alone does not fit in memory; with the figures.
    """
    if scorer is None:
        return ROWS_IN_STEP if options.batch_size == "auto" else options.batch_size
    row_bytes = max(1, scorer.cache_bytes_per_token * header.longest_window)
    free = available_memory() if scorer.model.device == "cpu" else None
    n_windows = min(header.segment, sum(n * tree.bit_count() for n, tree in header.cuts))
    if free is not None and n_windows * row_bytes > free:
        raise ModelUnavailable(
            f"the {n_windows} windows of a segment take {n_windows * row_bytes / 1e9:.1f} GB to decode and "
            f"{free / 1e9:.1f} GB are free; close something or use a machine with more memory"
        )
    room = ROWS_IN_STEP if free is None else max(1, free // 2 // row_bytes)
    return min(ROWS_IN_STEP, room) if options.batch_size == "auto" else options.batch_size


def _groups(segments: Iterable[tuple[int, list[PlannedWindow]]], rows: int) -> Iterator[Group]:
    """Consecutive segments of one dtype that are decoded together: as many as `rows` windows, at least one segment."""
    group: Group = []
    for index, run in segments:
        if group and (sum(len(r) for _, r in group) + len(run) > rows or group[0][1][0].dtype != run[0].dtype):
            yield group
            group = []
        group.append((index, run))
    if group:
        yield group
