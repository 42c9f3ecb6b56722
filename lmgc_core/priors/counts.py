"""Adaptive counts: for each of a table's contexts a distribution over a few symbols, from what was seen there.

Counts are whole numbers; an observation adds `increment`, and a context whose total passes `limit` is halved, so that
old observations fade. Additions commute: the order of windows within a step does not matter.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lmgc_core.priors.fixed_point import LOG_MAX, Integers, tables

Mask = npt.NDArray[np.bool_]


class Counts:
    """Counts of `n_symbols` symbols in `n_contexts` contexts.

    Args:
        start: counts before anything was seen, at least 1, shape (n_contexts, n_symbols) or what broadcasts to it;
            larger ones learn more slowly.
        increment: what an observation adds.
        limit: the total above which a context is halved, until it is no more than that.
    """

    def __init__(self, n_contexts: int, n_symbols: int, start: Integers | int, increment: int, limit: int) -> None:
        self._counts = np.empty((n_contexts, n_symbols), np.int64)
        self._counts[:] = start
        self._totals = self._counts.sum(axis=1)
        self._increment = increment
        self._limit = min(limit, LOG_MAX // 2)

    def logs(self, contexts: Integers) -> Integers:
        """log2 of each symbol's share, in 1/4096 bit, shape (n, n_symbols)."""
        log2 = tables().log2
        found: Integers = log2[self._counts[contexts]] - log2[self._totals[contexts]][:, None]
        return found

    def logs_at(self, contexts: Integers, symbols: Integers) -> Integers:
        """The same for the symbols named in `symbols`, shape (n, m)."""
        log2 = tables().log2
        found: Integers = log2[self._counts[contexts[:, None], symbols]] - log2[self._totals[contexts]][:, None]
        return found

    def add(self, contexts: Integers, symbols: Integers) -> None:
        """Observes one symbol in each of the contexts, shape (n,) both."""
        np.add.at(self._counts, (contexts, symbols), self._increment)
        np.add.at(self._totals, contexts, self._increment)
        full = contexts[self._totals[contexts] > self._limit]
        while len(full):  # more than once only where hundreds of windows are in step
            rows = np.unique(full)
            self._counts[rows] = (self._counts[rows] + 1) >> 1
            self._totals[rows] = self._counts[rows].sum(axis=1)
            full = rows[self._totals[rows] > self._limit]
