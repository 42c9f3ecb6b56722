"""Adaptive counts of tokens behind contexts of any kind, for supports of any size.

Tokens get a place among the known ones when they are first seen in the segment; place 0 stands for all that were not
seen yet. Contexts get rows in the order in which they come; when all are taken, new ones share the old.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lmgc_core.priors.counts import Counts
from lmgc_core.priors.fixed_point import Integers

MAX_KNOWN = 256
MAX_CONTEXTS = 4096


class KnownTokens:
    """Which tokens have a place: all of a small support, those seen so far of a large one.

    Attributes:
        size: places in all.
        place_of: int64, shape (n_support,): the token's place, 0 for none in a large support.
        tokens: int64, shape (n_known,): the tokens that have places, in order of places.
    """

    def __init__(self, n_support: int) -> None:
        self.all_known = n_support <= MAX_KNOWN
        self.size = n_support if self.all_known else MAX_KNOWN
        self.place_of = np.arange(n_support) if self.all_known else np.zeros(n_support, np.int64)
        self._tokens = np.arange(n_support) if self.all_known else np.zeros(MAX_KNOWN, np.int64)
        self._n = n_support if self.all_known else 1

    @property
    def tokens(self) -> Integers:
        """The tokens by place; place 0 of a large support stands for no token of its own."""
        return self._tokens[: self._n]

    @property
    def n_known(self) -> int:
        """Places taken."""
        return self._n

    def add(self, tokens: Integers) -> None:
        """Gives places to tokens that have none, while there are any."""
        if self.all_known:
            return
        for token in tokens.tolist():
            if self._n < MAX_KNOWN and self.place_of[token] == 0:
                self.place_of[token] = self._n
                self._tokens[self._n] = token
                self._n += 1


class ContextCounts:
    """Counts of known tokens, with rows for contexts as they come."""

    def __init__(self, size: int, increment: int = 64, limit: int = 16000) -> None:
        self._counts = Counts(MAX_CONTEXTS, size, 1, increment, limit)
        self._rows: dict[int, int] = {}

    def rows(self, contexts: Sequence[int]) -> Integers:
        """The row of each context, made where it is new."""
        known = self._rows
        found = []
        for context in contexts:
            row = known.get(context)
            if row is None:
                row = len(known) if len(known) < MAX_CONTEXTS else context % MAX_CONTEXTS
                known[context] = row
            found.append(row)
        return np.array(found, np.int64)

    def logs(self, rows: Integers) -> Integers:
        """log2 of the share of each place, shape (n, size)."""
        return self._counts.logs(rows)

    def add(self, rows: Integers, places: Integers) -> None:
        """Observes a place in each row."""
        self._counts.add(rows, places)
