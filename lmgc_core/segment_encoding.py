"""A segment's tokens and remainders → exceptions and one payload; the inverse is `segment_decoding`.

Order of the choices: step by step, in each step the windows that are not complete yet, in order; then the
remainders of all windows, in order. So a decoder can advance all windows together, and knows from the text alone
when a window is complete. The model goes over whole windows in parallel. Its bins are used up at once where the
prior learns nothing, and are kept until the segment's last step where it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmgc_core.coder import Encoder
from lmgc_core.errors import Cancelled, UnsupportedInput
from lmgc_core.exact_scoring import ExactScorer, Surprisals
from lmgc_core.exception_lists import Positions, write_exceptions
from lmgc_core.guarded_rounding import Bins, check_surprisals, code_length_bits, find_exceptions, round_to_bins
from lmgc_core.remainder_coding import encode_remainders
from lmgc_core.segment_bins import SegmentBins
from lmgc_core.serialization import SerializedText
from lmgc_core.settings import RunOptions
from lmgc_core.step_frequencies import StepPrior

TokenIds = npt.NDArray[np.int32]
Exceptions = tuple[Positions, Positions, Positions, npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """What an encoder makes of a segment.

    Attributes:
        exceptions, payload: as they are stored.
        n_tokens, n_exceptions: how many.
        surprisal_bits: of the tokens, by the prior; where it counts, its chances are whole numbers, so this is
            `token_code_bits`.
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


class _Choices:
    """The interval of every token of a segment, filled in any order."""

    def __init__(self, columns: Sequence[Positions]) -> None:
        self.columns = columns
        self.starts, self.frequencies = ([np.zeros(len(c), np.int64) for c in columns] for _ in range(2))
        self.found: list[Exceptions] = []
        self.surprisal_bits = 0.0

    def note(self, window: int, first: int, surprisals: Surprisals, guard: float) -> Bins:
        """Takes down exceptions and the tokens' surprisals of some positions; their bins."""
        check_surprisals(surprisals)
        near = find_exceptions(surprisals, guard)
        self.found.append((np.full(len(near.rows), window), near.rows + first, near.columns, near.up))
        chosen = self.columns[window][first : first + len(surprisals)]
        self.surprisal_bits += float(surprisals[np.arange(len(chosen)), chosen].sum())
        return round_to_bins(surprisals)


def coding_order(lengths: Sequence[int]) -> tuple[Positions, Positions]:
    """(window, step) of every token of a segment, in the order in which they are coded.

    >>> [places.tolist() for places in coding_order([1, 3, 2])]
    [[0, 1, 2, 1, 2, 1], [0, 0, 0, 1, 1, 2]]
    """
    windows = np.repeat(np.arange(len(lengths)), lengths)
    steps = np.concatenate([np.arange(n) for n in lengths]) if len(lengths) else np.zeros(0, np.int64)
    order = np.lexsort((windows, steps))
    return windows[order], steps[order]


def encode_segment(
    prior: StepPrior,
    scorer: ExactScorer | None,
    windows: Sequence[TokenIds],
    texts: Sequence[SerializedText],
    support: TokenIds,
    guard: float,
    options: RunOptions,
    should_stop: Callable[[], bool] | None = None,
) -> EncodedSegment:
    """The exceptions and payload of one segment.

    Args:
        prior: fresh.
        scorer: the model, None where the prior does not ask it.
        windows: token ids of each window, shape (n,).
        texts: of each window; their remainders are coded.
        support: sorted ids, shape (m,).
        guard: in bits.
        options: how many windows go through the model together.

    Raises:
        UnsupportedInput: when the model gives NaN, a token is outside the support, or bins fit nowhere.
        Cancelled: when asked to stop.
    """
    lengths = [len(w) for w in windows]
    choices = _Choices([_places(w, support) for w in windows])
    if prior.learns:
        _take_steps(choices, prior, scorer, windows, support, guard, options, should_stop)
    elif scorer is not None:
        for window, first, surprisals in scorer.windows(windows, support, options.batch_size, should_stop):
            found = prior.frequencies(choices.note(window, first, surprisals, guard), np.arange(len(surprisals)))
            for row, column in enumerate(choices.columns[window][first : first + len(surprisals)].tolist()):
                place = found.interval(row, column)
                choices.starts[window][first + row], choices.frequencies[window][first + row] = place
    order_windows, order_steps = coding_order(lengths)
    encoder = Encoder()
    for window, step in zip(order_windows.tolist(), order_steps.tolist(), strict=True):
        encoder.interval(int(choices.starts[window][step]), int(choices.frequencies[window][step]))
    token_bits = float(code_length_bits(np.concatenate([*choices.frequencies, np.ones(0, np.int64)])).sum())
    remainder_bits = encode_remainders(encoder, texts)
    n_exceptions, exceptions = _in_coding_order(choices.found, lengths, order_windows, order_steps)
    return EncodedSegment(
        exceptions,
        encoder.to_bytes(),
        len(order_windows),
        n_exceptions,
        token_bits if prior.learns else choices.surprisal_bits,
        token_bits + remainder_bits,
        token_bits,
    )


def _places(ids: TokenIds, support: TokenIds) -> Positions:
    """Each token's place in the support."""
    found = np.searchsorted(support, ids).astype(np.int64)
    outside = (found >= len(support)) | (support[np.minimum(found, len(support) - 1)] != ids)
    if outside.any():
        raise UnsupportedInput(
            f"the tokenizer writes a token ({int(ids[outside][0])}) that is not among the {len(support):,} of the "
            "support; choose support full"
        )
    return found


def _take_steps(
    choices: _Choices,
    prior: StepPrior,
    scorer: ExactScorer | None,
    windows: Sequence[TokenIds],
    support: TokenIds,
    guard: float,
    options: RunOptions,
    should_stop: Callable[[], bool] | None,
) -> None:
    """Fills in the intervals of a prior that learns: the model's bins of all windows first, then step by step."""
    lengths = np.array([len(w) for w in windows], np.int64)
    bins = None
    if scorer is not None:
        bins = SegmentBins(lengths.tolist(), len(support))
        for window, first, surprisals in scorer.windows(windows, support, options.batch_size, should_stop):
            bins.put(window, first, choices.note(window, first, surprisals, guard))
    for step in range(int(lengths.max(initial=0))):
        if should_stop is not None and should_stop():
            raise Cancelled("stopped; nothing was written")
        active = np.flatnonzero(lengths > step)
        found = prior.frequencies(None if bins is None else bins.step(active, step), active)
        tokens = np.array([choices.columns[i][step] for i in active.tolist()], np.int64)
        for row, (i, token) in enumerate(zip(active.tolist(), tokens.tolist(), strict=True)):
            choices.starts[i][step], choices.frequencies[i][step] = found.interval(row, token)
        prior.update(active, tokens)


def _in_coding_order(
    found: Sequence[Exceptions], lengths: Sequence[int], order_windows: Positions, order_steps: Positions
) -> tuple[int, bytes]:
    """How many exceptions there are, and their list."""
    if not found:
        return 0, b""
    where = np.empty((len(lengths), max(lengths, default=0)), np.int64)
    where[order_windows, order_steps] = np.arange(len(order_windows))
    rows, steps, marked, up = (np.concatenate(parts) for parts in zip(*found, strict=True))
    positions = where[rows, steps]
    order = np.lexsort((marked, positions))
    return len(order), write_exceptions(positions[order], marked[order], up[order].astype(np.bool_))
