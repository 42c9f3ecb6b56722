"""Exceptions and payloads of segments → the words of their windows: the inverse of `segment_encoding`.

Windows of several segments advance in step, so that the model reads its weights seldom; each segment has its own
payload, exceptions and prior. Law: both sides see the same integer frequencies, made from surprisals that agree but
for the exceptions and from the same past.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from lmgc_core.coder import Decoder
from lmgc_core.errors import Cancelled, CorruptContainer
from lmgc_core.exact_scoring import ExactScorer
from lmgc_core.exception_lists import read_exceptions
from lmgc_core.gradient import Words
from lmgc_core.guarded_rounding import Bins, check_surprisals, round_to_bins, settle
from lmgc_core.language_model import TextTokenizer
from lmgc_core.remainder_coding import decode_remainders
from lmgc_core.serialization import PieceSpec, Serializer
from lmgc_core.settings import PriorKind
from lmgc_core.step_frequencies import step_prior

TokenIds = npt.NDArray[np.int32]


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

    def __init__(self, segment: SegmentToDecode, prior: PriorKind, spelled: Sequence[bytes], guard: float) -> None:
        self.windows = [_Window(segment.serializer, pieces) for pieces in segment.windows]
        self._remainder_bits = segment.serializer.remainder_bits
        self._decoder = Decoder(segment.payload)
        self._exceptions = read_exceptions(segment.exceptions, len(spelled))
        self._prior = step_prior(prior, segment.serializer, segment.windows, spelled)
        self._spelled, self._guard, self._position = spelled, guard, 0

    def step(self, active: Sequence[int], surprisals: npt.NDArray[np.float64] | None) -> list[int]:
        """Decodes one token of each active window, as places in the support.

        Args:
            active: the windows that are not complete, rising.
            surprisals: the model's, shape (n, n_support); None where it is not asked.
        """
        found = self._prior.frequencies(None if surprisals is None else self._bins(surprisals), np.array(active))
        tokens = []
        for row, index in enumerate(active):
            tokens.append(self._decoder.symbol(found.row(row)))
            self.windows[index].take(self._spelled[tokens[-1]])
        self._position += len(active)
        self._prior.update(np.array(active), np.array(tokens, np.int64))
        return tokens

    def _bins(self, surprisals: npt.NDArray[np.float64]) -> Bins:
        """The bins of a step, its exceptions applied."""
        bins = round_to_bins(surprisals)
        if self._exceptions:
            for row in range(len(bins)):
                for column, up in self._exceptions.pop(self._position + row, ()):
                    bins[row, column] = settle(surprisals[row, column], up, self._guard)
        return bins

    def words(self) -> list[list[Words]]:
        """The words of every piece of every window, once all are complete."""
        if self._exceptions:
            raise CorruptContainer("exceptions are left over behind the last token; the archive is damaged")
        contexts = [w.reader.context() for w in self.windows]
        remainders = decode_remainders(self._decoder, np.concatenate(contexts), self._remainder_bits)
        if not self._decoder.finished():
            raise CorruptContainer("a payload goes on behind its last value; the archive is damaged")
        edges = np.cumsum([len(c) for c in contexts])[:-1]
        return [w.reader.words(part) for w, part in zip(self.windows, np.split(remainders, edges), strict=True)]


def decode_segments(
    prior: PriorKind,
    tokenizer: TextTokenizer,
    scorer: ExactScorer | None,
    segments: Sequence[SegmentToDecode],
    support: TokenIds,
    guard: float,
    most_tokens: int,
    on_step: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> list[list[list[Words]]]:
    """The words of every piece of every window of several segments, all their windows in step.

    Args:
        prior: as in the settings.
        tokenizer: what the tokens spell.
        scorer: the model, None where the prior does not ask it.
        segments: of one dtype, so of one support.
        support: sorted ids.
        guard: in bits.
        most_tokens: no window has more.
        on_step: told after each step how many tokens it decoded, and how many parameters are complete so far.
        should_stop: asked before each step.

    Raises:
        CorruptContainer: where the content contradicts itself.
        Cancelled: when asked to stop.
    """
    spelled = tokenizer.token_bytes(support)
    running = [_Segment(s, prior, spelled, guard) for s in segments]
    rows = [(s, w) for s, segment in enumerate(running) for w in range(len(segment.windows))]
    stepper = None if scorer is None else scorer.stepper(len(rows), most_tokens, support)
    for _ in range(most_tokens):
        places = [i for i, (s, w) in enumerate(rows) if not running[s].windows[w].reader.complete]
        if not places:
            break
        if should_stop is not None and should_stop():
            raise Cancelled("stopped; nothing was decoded")
        if 2 * len(places) <= len(rows):
            if stepper is not None:
                stepper.keep(places)
            rows, places = [rows[i] for i in places], list(range(len(places)))
        surprisals = None if stepper is None else stepper.step()
        if surprisals is not None:
            check_surprisals(surprisals)
        ids = [tokenizer.start_id] * len(rows)
        for s, group in groupby([(rows[i][0], i) for i in places], itemgetter(0)):
            own = [i for _, i in group]
            tokens = running[s].step([rows[i][1] for i in own], None if surprisals is None else surprisals[own])
            for i, token in zip(own, tokens, strict=True):
                ids[i] = int(support[token])
        if stepper is not None:
            stepper.push(ids)
        if on_step is not None:
            on_step(len(places), sum(w.reader.n_parameters for segment in running for w in segment.windows))
    if not all(running[s].windows[w].reader.complete for s, w in rows):
        raise CorruptContainer("a window is longer than the header says; the archive is damaged")
    return [s.words() for s in running]
