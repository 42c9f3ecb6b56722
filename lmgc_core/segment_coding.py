"""A segment: the tokens of windows in step, then their remainders ↔ exceptions and one payload.

Order of the choices: step by step, in each step the windows that are not complete yet, in order; then the
remainders of all windows, in order. So a decoder can advance all windows together, and knows from the text alone
when a window is complete. Inverse pair: `encode_segment` / `decode_segments`. Law: both see the same integer
frequencies, made by `guarded_rounding` from surprisals that agree but for the exceptions.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmgc_core.byte_fields import FieldReader, FieldWriter
from lmgc_core.coder import Decoder, Encoder
from lmgc_core.errors import Cancelled, CorruptContainer
from lmgc_core.exact_scoring import ExactScorer
from lmgc_core.gradient import Words
from lmgc_core.guarded_rounding import (
    Frequencies,
    check_surprisals,
    code_length_bits,
    find_exceptions,
    frequencies_of,
    round_to_bins,
    settle,
)
from lmgc_core.language_model.scoring import support_columns
from lmgc_core.remainder import LOW_FIELD_BITS, TOP_FIELD_BITS, RemainderDecoder, decisions, remainder_model
from lmgc_core.serialization import PieceSpec, SerializedText, Serializer
from lmgc_core.settings import RunOptions

TokenIds = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """What an encoder makes of a segment.

    Attributes:
        exceptions, payload: as they are stored.
        n_tokens, n_exceptions: how many.
        surprisal_bits: of the tokens, by the model.
        code_length_bits: of everything in the payload, by the integer frequencies.
        token_code_bits: of the tokens alone.
    """

    exceptions: bytes
    payload: bytes
    n_tokens: int
    n_exceptions: int
    surprisal_bits: float
    code_length_bits: float
    token_code_bits: float


@dataclass(frozen=True, slots=True)
class SegmentToDecode:
    """A stored segment and what its header says of it.

    Attributes:
        exceptions, payload: as they are stored.
        serializer: of its dtype.
        windows: the pieces of each window.
    """

    exceptions: bytes
    payload: bytes
    serializer: Serializer
    windows: tuple[tuple[PieceSpec, ...], ...]


def coding_order(lengths: Sequence[int]) -> tuple[Positions, Positions]:
    """(window, step) of every token of a segment, in the order in which they are coded.

    >>> [places.tolist() for places in coding_order([1, 3, 2])]
    [[0, 1, 2, 1, 2, 1], [0, 0, 0, 1, 1, 2]]
    """
    windows = np.repeat(np.arange(len(lengths)), lengths)
    steps = np.concatenate([np.arange(n) for n in lengths]) if len(lengths) else np.zeros(0, np.int64)
    order = np.lexsort((windows, steps))
    return windows[order], steps[order]


def write_exceptions(positions: Positions, columns: Positions, up: npt.NDArray[np.bool_]) -> bytes:
    """Exceptions as varints: how far in coding order, then twice the column (from the last one if at the same
    position) with the side in the lowest bit."""
    out, last_position, last_column = FieldWriter(), 0, 0
    for position, column, side in zip(positions.tolist(), columns.tolist(), up.tolist(), strict=True):
        last_column = last_column if position == last_position else 0
        out.number(position - last_position)
        out.number((column - last_column) << 1 | side)
        last_position, last_column = position, column
    return bytes(out.data)


def read_exceptions(data: bytes, n_support: int) -> dict[int, list[tuple[int, bool]]]:
    """(column, side) of the exceptions at each position: the inverse of `write_exceptions`."""
    fields, found, position, column = FieldReader(data, what="list of exceptions"), {}, 0, 0  # type: ignore[var-annotated]
    while fields.left:
        step = fields.number()
        column = 0 if step else column
        position += step
        packed = fields.number(2 * n_support)
        column += packed >> 1
        here = found.setdefault(position, [])
        if column >= n_support or (here and packed < 2):
            raise fields.damaged(f"column {column} of {n_support}")
        here.append((column, bool(packed & 1)))
    return found


def encode_segment(
    scorer: ExactScorer,
    windows: Sequence[TokenIds],
    texts: Sequence[SerializedText],
    support: TokenIds,
    guard: float,
    options: RunOptions,
    should_stop: Callable[[], bool] | None = None,
) -> EncodedSegment:
    """The exceptions and payload of one segment.

    Args:
        scorer: the model.
        windows: token ids of each window, shape (n,).
        texts: of each window; their remainders are coded.
        support: sorted ids, shape (m,).
        guard: in bits.
        options: how many windows go through the model together.

    Raises:
        UnsupportedInput: when the model gives NaN.
        Cancelled: when asked to stop.
    """
    lengths = [len(w) for w in windows]
    place = support_columns(support, scorer.model.vocabulary_size)
    columns = [place[np.asarray(w, np.int64)] for w in windows]
    starts, chosen = ([np.zeros(n, np.int64) for n in lengths] for _ in range(2))
    found: list[tuple[Positions, Positions, Positions, npt.NDArray[np.bool_]]] = []
    surprisal_bits = 0.0
    for window, first, surprisals in scorer.windows(windows, support, options.batch_size, should_stop):
        check_surprisals(surprisals)
        exceptions = find_exceptions(surprisals, guard)
        frequencies = frequencies_of(round_to_bins(surprisals))
        for row, column in enumerate(columns[window][first : first + len(surprisals)].tolist()):
            starts[window][first + row], chosen[window][first + row] = frequencies.interval(row, column)
            surprisal_bits += float(surprisals[row, column])
        found.append(
            (np.full(len(exceptions.rows), window), exceptions.rows + first, exceptions.columns, exceptions.up)
        )
    order_windows, order_steps = coding_order(lengths)
    encoder = Encoder()
    for window, step in zip(order_windows.tolist(), order_steps.tolist(), strict=True):
        encoder.interval(int(starts[window][step]), int(chosen[window][step]))
    token_bits = float(code_length_bits(np.concatenate([*chosen, np.ones(0, np.int64)])).sum())
    remainder_bits = _encode_remainders(encoder, texts)
    where = np.empty((len(lengths), max(lengths, default=0)), np.int64)
    where[order_windows, order_steps] = np.arange(len(order_windows))
    rows, steps, marked, up = (
        (np.concatenate(parts) for parts in zip(*found, strict=True)) if found else (where[:0, 0],) * 4
    )
    positions = where[rows, steps]
    order = np.lexsort((marked, positions))
    return EncodedSegment(
        write_exceptions(positions[order], marked[order], up[order].astype(np.bool_)),
        encoder.to_bytes(),
        len(order_windows),
        len(order),
        surprisal_bits,
        token_bits + remainder_bits,
        token_bits,
    )


def _encode_remainders(encoder: Encoder, texts: Sequence[SerializedText]) -> float:
    """Codes the remainders of all windows behind the tokens; their code length in bits."""
    n_bits = texts[0].remainder_bits
    if n_bits == 0:
        return 0.0
    values = np.concatenate([t.remainder for t in texts])
    context = np.concatenate([t.context for t in texts])
    plan = remainder_model(values, context, n_bits)
    encoder.raw(np.array([plan.low], np.uint64), LOW_FIELD_BITS)
    encoder.raw(np.array([plan.top], np.uint64), TOP_FIELD_BITS)
    made = decisions(values, context, n_bits, plan)
    for bit, frequency in zip(made.bits.tolist(), made.frequencies.tolist(), strict=True):
        encoder.decision(bit, frequency)
    coded = made.raw_bits > 0
    encoder.raw(made.raw[coded], int(made.raw_bits.max(initial=0)))
    return plan.header_bits + float(plan.bits_per_value.sum())


class _Window:
    """One window being decoded: its text so far."""

    def __init__(self, serializer: Serializer, pieces: tuple[PieceSpec, ...]) -> None:
        self.reader = serializer.reader(pieces)
        self._characters = codecs.getincrementaldecoder("utf-8")()

    def take(self, spelled: bytes) -> None:
        try:
            self.reader.feed(self._characters.decode(spelled))
        except UnicodeDecodeError:
            raise CorruptContainer("the tokens of a window do not spell a text; the archive is damaged") from None


class _Segment:
    """One segment being decoded."""

    def __init__(self, segment: SegmentToDecode, support: TokenIds, guard: float) -> None:
        self.windows = [_Window(segment.serializer, pieces) for pieces in segment.windows]
        self.remainder_bits = segment.serializer.remainder_bits
        self._decoder = Decoder(segment.payload)
        self._exceptions = read_exceptions(segment.exceptions, len(support))
        self._guard, self._position = guard, 0

    @property
    def has_exceptions(self) -> bool:
        """Whether any are still to come."""
        return bool(self._exceptions)

    def correct(self, n_active: int, surprisals: npt.NDArray[np.float64], bins: npt.NDArray[np.int16]) -> None:
        """Sets right the bins of the next step, in place; rows are the active windows."""
        for row in range(n_active):
            for column, up in self._exceptions.pop(self._position + row, ()):
                bins[row, column] = settle(surprisals[row, column], up, self._guard)

    def token(self, frequencies: Frequencies, row: int) -> int:
        """The place in the support of the next token."""
        self._position += 1
        return self._decoder.symbol(frequencies.row(row))

    def words(self) -> list[list[Words]]:
        """The words of every piece of every window, once all are complete."""
        if self._exceptions:
            raise CorruptContainer("exceptions are left over behind the last token; the archive is damaged")
        contexts = [w.reader.context() for w in self.windows]
        remainders = self._remainders(np.concatenate(contexts))
        if not self._decoder.finished():
            raise CorruptContainer("a payload goes on behind its last value; the archive is damaged")
        edges = np.cumsum([len(c) for c in contexts])[:-1]
        return [w.reader.words(part) for w, part in zip(self.windows, np.split(remainders, edges), strict=True)]

    def _remainders(self, context: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        if self.remainder_bits == 0:
            return np.zeros(len(context), np.uint64)
        low, top = (int(self._decoder.raw(1, n)[0]) for n in (LOW_FIELD_BITS, TOP_FIELD_BITS))
        model = RemainderDecoder(context, self.remainder_bits, top, low)
        while (frequency := model.frequency()) is not None:
            model.push(self._decoder.decision(frequency))
        n_raw = model.raw_bits()
        raw = np.zeros(len(context), np.uint64)
        raw[n_raw > 0] = self._decoder.raw(int((n_raw > 0).sum()), int(n_raw.max(initial=0)))
        return model.values(raw)


def decode_segments(
    scorer: ExactScorer,
    segments: Sequence[SegmentToDecode],
    support: TokenIds,
    guard: float,
    most_tokens: int,
    on_step: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> list[list[list[Words]]]:
    """The words of every piece of every window of several segments, all their windows in step.

    Args:
        scorer: the model.
        segments: of one dtype, so of one support.
        support: sorted ids.
        guard: in bits.
        most_tokens: no window has more.
        on_step: told how many tokens each step decoded.
        should_stop: asked before each step.

    Raises:
        CorruptContainer: where the content contradicts itself.
        Cancelled: when asked to stop.
    """
    running = [_Segment(s, support, guard) for s in segments]
    spelled = scorer.model.tokenizer.token_bytes(support)
    rows = [(s, w) for s in running for w in s.windows]
    stepper = scorer.stepper(len(rows), most_tokens, support)
    for _ in range(most_tokens):
        active = [not w.reader.complete for _, w in rows]
        if not any(active):
            break
        if should_stop is not None and should_stop():
            raise Cancelled("stopped; nothing was decoded")
        if 2 * sum(active) <= len(rows):
            kept = [i for i, still in enumerate(active) if still]
            stepper.keep(kept)
            rows, active = [rows[i] for i in kept], [True] * len(kept)
        surprisals = stepper.step()
        check_surprisals(surprisals)
        bins = round_to_bins(surprisals)
        places = [i for i, still in enumerate(active) if still]
        _correct(running, rows, places, surprisals, bins)
        frequencies = frequencies_of(bins)
        tokens = [scorer.model.tokenizer.start_id] * len(rows)
        for row in places:
            segment, window = rows[row]
            column = segment.token(frequencies, row)
            tokens[row] = int(support[column])
            window.take(spelled[column])
        stepper.push(tokens)
        if on_step is not None:
            on_step(len(places))
    if not all(w.reader.complete for _, w in rows):
        raise CorruptContainer("a window is longer than the header says; the archive is damaged")
    return [s.words() for s in running]


def _correct(
    running: Sequence[_Segment],
    rows: Sequence[tuple[_Segment, _Window]],
    places: Sequence[int],
    surprisals: npt.NDArray[np.float64],
    bins: npt.NDArray[np.int16],
) -> None:
    """Applies each segment's exceptions to the rows of its active windows."""
    for segment in running:
        if segment.has_exceptions:
            own = [i for i in places if rows[i][0] is segment]
            part = bins[own]
            segment.correct(len(own), surprisals[own], part)
            bins[own] = part
