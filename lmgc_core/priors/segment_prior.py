"""Priors of a segment: `counts` from what the segment's windows held so far, `mix` with the language model beside it.

A step: `frequencies` for all windows that go on, then `update` with the tokens that came. Tables and weights are read
before a step and changed after it, in an order that does not depend on batching. From the rounded surprisals on all
is whole numbers, so that a decoder arrives at the same frequencies.

Law: frequencies add up to 2^24 and none is below 1, whatever came before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import InvalidSetting
from lmgc_core.guarded_rounding import Bins
from lmgc_core.priors.binned import BinnedFrequencies, binned_frequencies, unknown_tokens
from lmgc_core.priors.fixed_point import LOG_ONE, Integers, shares_of, tables
from lmgc_core.priors.geometry import geometry_of
from lmgc_core.priors.mixing import SHARE_BITS, WEIGHT_ONE, Mixer
from lmgc_core.priors.model_logs import log2_of_bins, logs_of_bins
from lmgc_core.priors.spelled_values import N_STATES, SpelledValues
from lmgc_core.priors.token_counts import ContextCounts, KnownTokens
from lmgc_core.punctuation import Place
from lmgc_core.serialization import Serializer

TOTAL_BITS = 24
TOTAL = 1 << TOTAL_BITS
Kind = Literal["counts", "mix"]
RATE = 2000
LEAST = -24 * LOG_ONE
"""The least that the model may say of a token."""
_PLACES = 16


@dataclass(frozen=True, slots=True, eq=False)
class WholeFrequencies:
    """Distributions written out.

    Attributes:
        table: int64, shape (n_rows, n_support), each row adding up to 2^24.
    """

    table: npt.NDArray[np.int64]

    def row(self, index: int) -> npt.NDArray[np.float64]:
        """f - 1 of one distribution, float64, shape (n_support,)."""
        found: npt.NDArray[np.float64] = (self.table[index] - 1).astype(np.float64)
        return found

    def interval(self, index: int, token: int) -> tuple[int, int]:
        """(start, frequency) of one token of one distribution."""
        return int(self.table[index, :token].sum()), int(self.table[index, token])


class SegmentPrior:
    """See `make_prior`."""

    def __init__(
        self, kind: Kind, serializer: Serializer, windows: Sequence[Sequence[Place]], token_bytes: Sequence[bytes]
    ) -> None:
        self._kind, n = kind, len(windows)
        self._n_support = len(token_bytes)
        self._known = KnownTokens(self._n_support)
        dtype, spelling = serializer.dtype, serializer.spelling
        self._values: SpelledValues | None = None
        texts = serializer.punctuation.texts
        if dtype.kind == "float" and spelling.kind == "numbers" and self._known.all_known:
            boundaries = [[texts[k] for k in serializer.punctuation.boundaries(w).tolist()] for w in windows]
            has_sign = serializer.layout.symbol_bits > dtype.exponent_bits
            self._values = SpelledValues(geometry_of(windows), boundaries, token_bytes, dtype.exponent_bits, has_sign)
        used = (serializer.punctuation.group_symbols > 0, serializer.punctuation.line != 0)
        separators = {text.encode()[-1] for text, is_used in zip(texts[1:], used, strict=True) if text and is_used}
        self._ends = np.array([any(b in separators for b in token) for token in token_bytes], np.bool_)
        self._tails = [_tail(token, separators) for token in token_bytes]
        self._lengths = np.array([_characters(token) for token in token_bytes], np.int64)
        fixed = not spelling.varies and spelling.kind in ("hex", "iso")
        self._period = spelling.max_characters * serializer.symbols_per_parameter if fixed and not separators else 0
        self._place = np.zeros(n, np.int64)
        self._history = [(-1, -1, -1, -1)] * n
        self._group: list[list[int]] = [[] for _ in range(n)]
        self._last_group: list[list[int]] = [[] for _ in range(n)]
        orders = 2 if self._values else 4
        self._tables = [ContextCounts(self._known.size) for _ in range(orders)]
        experts = ([WEIGHT_ONE] if self._values else []) + ([WEIGHT_ONE // 2] if kind == "mix" else [])
        own = WEIGHT_ONE // 24 if self._values else (WEIGHT_ONE // 6 if kind == "mix" else WEIGHT_ONE // 4)
        if self._values and kind == "mix":
            experts = [WEIGHT_ONE * 11 // 16, WEIGHT_ONE * 5 // 16]
        self._mixer = Mixer(N_STATES if self._values else _PLACES, np.array(experts + [own] * orders, np.int64), RATE)

    def frequencies(self, llm_log2: Integers | None, active: Integers) -> Integers:
        """Integer frequencies of the next token, shape (n, n_support), each row adding up to 2^24, none below 1.

        Args:
            llm_log2: the language model's log2 probabilities in 1/4096 bit, shape (n, n_support); None for `counts`.
            active: the windows that go on, rising, shape (n,).
        """
        if (llm_log2 is None) != (self._kind == "counts"):
            raise InvalidSetting(f"prior {self._kind} {'needs' if self._kind == 'mix' else 'takes no'} language model")
        known, n = self._known, len(active)
        logs = None if llm_log2 is None else np.maximum(llm_log2, LEAST)
        if known.all_known:
            return self._settled(self._shares(logs, active) + 1)
        seen = known.tokens[1:]
        if logs is None:
            fallback = np.ones((n, self._n_support), np.int64)
            fallback[:, seen] = 0
        else:
            fallback = shares_of(logs)
            fallback[:, seen] = 0
            unseen = _log_of_sum(fallback.sum(axis=1), 16)
            logs = np.concatenate([unseen[:, None], logs[:, seen]], axis=1)
        shares = self._shares(logs, active)
        found = np.ones((n, self._n_support), np.int64)
        fallback += fallback.sum(axis=1, keepdims=True) == 0
        found += fallback * shares[:, :1] // fallback.sum(axis=1, keepdims=True)
        found[:, seen] += shares[:, 1:]
        return self._settled(found)

    def distributions(self, bins: Bins | None, active: Integers) -> WholeFrequencies | BinnedFrequencies:
        """The same frequencies from the model's bins: over a large support without writing out each token's.

        Args:
            bins: shape (n, n_support); None for `counts`.
            active: as for `frequencies`.
        """
        if self._known.all_known:
            return WholeFrequencies(self.frequencies(None if bins is None else log2_of_bins(bins), active))
        if (bins is None) != (self._kind == "counts"):
            raise InvalidSetting(f"prior {self._kind} {'needs' if self._kind == 'mix' else 'takes no'} language model")
        seen = self._known.tokens[1:]
        if bins is None:
            alike = np.zeros((len(active), self._n_support), np.int16)
            unknown, logs = unknown_tokens(alike, np.ones(1, np.int64), seen), None
        else:
            by_bin = np.maximum(logs_of_bins(), LEAST)
            unknown = unknown_tokens(bins, shares_of(by_bin), seen)
            logs = np.concatenate([_log_of_sum(unknown.totals, 16)[:, None], by_bin[bins[:, seen]]], axis=1)
        return binned_frequencies(unknown, seen, self._shares(logs, active))

    def _shares(self, model_logs: Integers | None, active: Integers) -> Integers:
        """What each place gets of 2^24 - n_support, shape (n, n_known); kept in mind for `update`.

        Args:
            model_logs: of the places, shape (n, n_known); None for `counts`.
            active: the windows that go on.
        """
        inputs = [self._values.logs(active)] if self._values else []
        if model_logs is not None:
            inputs.append(model_logs)
        rows = [table.rows(c) for table, c in zip(self._tables, self._contexts(active), strict=True)]
        inputs += [table.logs(r)[:, : self._known.n_known] for table, r in zip(self._tables, rows, strict=True)]
        stacked = np.stack(inputs, axis=1)
        sets = self._values.states(active) if self._values else self._place[active]
        masses = self._mixer.masses(stacked, sets)
        totals = masses.sum(axis=1, keepdims=True)
        self._pending = (active, stacked, sets, (masses << SHARE_BITS) // totals, rows)
        found: Integers = masses * (TOTAL - self._n_support) // totals
        return found

    def _settled(self, found: Integers) -> Integers:
        """Frequencies with what is left of 2^24 on top of the first largest of each row."""
        found[np.arange(len(found)), found.argmax(axis=1)] += TOTAL - found.sum(axis=1)
        return found

    def _contexts(self, active: Integers) -> list[list[int]]:
        """A whole number for each table and window, from the window's own past."""
        size = self._n_support + 1
        found: list[list[int]] = [[] for _ in self._tables]
        for i in active.tolist():
            a, b, c, _ = self._history[i]
            place = int(self._place[i])
            if self._values:
                found[0].append((a + 1) * size + b + 1)
                found[1].append(((a + 1) * size + b + 1) * size + c + 1)
                continue
            group, last = self._group[i], self._last_group[i]
            above = last[len(group)] if len(group) < len(last) else -1
            first = last[0] if last else -1
            found[0].append(place)
            found[1].append((a + 1) * _PLACES + place)
            found[2].append(((a + 1) * size + b + 1) * _PLACES + place)
            found[3].append((((above + 1) * size + a + 1) * size + first + 1) * _PLACES + place)
        return found

    def update(self, active: Integers, tokens: Integers) -> None:
        """Takes the tokens that came, as indices into the support, in the windows given to `frequencies` before."""
        asked, inputs, sets, shares, rows = self._pending
        if not np.array_equal(asked, active):
            raise InvalidSetting("a prior is updated with the windows that its frequencies were asked for")
        places = self._known.place_of[tokens]
        self._mixer.learn(inputs, sets, shares, places)
        self._known.add(tokens)
        places = self._known.place_of[tokens]
        for table, r in zip(self._tables, rows, strict=True):
            table.add(r, places)
        for i, token in zip(active.tolist(), tokens.tolist(), strict=True):
            self._history[i] = (token, *self._history[i][:3])
            if self._ends[token]:
                self._last_group[i], self._group[i] = self._group[i], []
                self._place[i] = min(self._tails[token], _PLACES - 1)
            else:
                self._group[i].append(token)
                self._place[i] += self._lengths[token]
                if self._period:
                    if self._place[i] >= self._period:
                        self._last_group[i], self._group[i] = self._group[i], []
                    self._place[i] %= self._period
                self._place[i] = min(self._place[i], _PLACES - 1)
        if self._values:
            self._values.update(active, tokens)


def _characters(token: bytes) -> int:
    """Characters that begin in the token."""
    return sum(byte & 0xC0 != 0x80 for byte in token)


def _tail(token: bytes, separators: set[int]) -> int:
    """Bytes behind the last separator in the token."""
    return next((k for k, byte in enumerate(reversed(token)) if byte in separators), len(token))


def _log_of_sum(sums: Integers, one_bits: int) -> Integers:
    """log2 of whole numbers in units of 2^-one_bits, in 1/4096 bit, shape (n,)."""
    log2 = tables().log2
    sums = np.maximum(sums, 1)
    shift = np.maximum(np.searchsorted(np.int64(1) << np.arange(62, dtype=np.int64), sums, side="right") - 16, 0)
    found: Integers = log2[sums >> shift] + (shift - one_bits) * LOG_ONE
    return np.minimum(found, 0)


def make_prior(
    kind: Kind, serializer: Serializer, windows: Sequence[Sequence[Place]], token_bytes: Sequence[bytes]
) -> SegmentPrior:
    """A fresh prior for a segment.

    Args:
        kind: "counts" or "mix".
        serializer: of the segment's dtype.
        windows: the pieces of each window, in order.
        token_bytes: the support's tokens.

    Raises:
        InvalidSetting: for another kind.
    """
    if kind not in ("counts", "mix"):
        raise InvalidSetting(f"prior {kind!r} keeps no tables; choose counts or mix")
    return SegmentPrior(kind, serializer, windows, token_bytes)


def run_segment(
    prior: SegmentPrior,
    llm_log2: Callable[[Integers, int], Integers] | Sequence[Integers] | None,
    token_indices_by_window: Sequence[Integers],
) -> list[npt.NDArray[np.float64]]:
    """Bits of each token of each window: -log2 of its frequency over 2^24, as a coder would spend.

    Args:
        prior: fresh.
        llm_log2: gives those of a step, as in `SegmentPrior.frequencies`, for the active windows; or all of them, each
            window's shape (n_tokens, n_support); None for counts.
        token_indices_by_window: each shape (n_tokens,).
    """
    lengths = np.array([len(t) for t in token_indices_by_window], np.int64)
    bits = [np.zeros(n) for n in lengths]
    for t in range(int(lengths.max(initial=0))):
        active = np.flatnonzero(lengths > t)
        if llm_log2 is None or callable(llm_log2):
            logs = None if llm_log2 is None else llm_log2(active, t)
        else:
            logs = np.stack([llm_log2[i][t] for i in active.tolist()])
        tokens = np.array([token_indices_by_window[i][t] for i in active.tolist()], np.int64)
        found = prior.frequencies(logs, active)[np.arange(len(active)), tokens]
        for i, f in zip(active, found, strict=True):
            bits[i][t] = TOTAL_BITS - np.log2(f)
        prior.update(active, tokens)
    return bits
