"""Frequencies over a large support by bins: tokens that the model puts into one bin, and that are not known, are alike.

So a step's whole numbers are made once a bin and once a known token, not once a token of the support.
Law: `row` and `interval` say what the whole table would; see docs/prior_arithmetic.md, "Frequencies".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmgc_core.coder import TOTAL
from lmgc_core.guarded_rounding import Bins
from lmgc_core.priors.fixed_point import Integers


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """How the tokens that are not known share what is theirs, in each row.

    Attributes:
        bins: of every token of the support, shape (n_rows, n_support).
        counts: tokens of each bin that are not known, shape (n_rows, n_bins).
        weights: what speaks for each token of a bin, shape (n_bins,).
        totals: of the weights of all tokens that are not known, shape (n_rows,).
    """

    bins: Bins
    counts: Integers
    weights: Integers
    totals: Integers


def unknown_tokens(bins: Bins, weights: Integers, known: Integers) -> Unknown:
    """Counts the tokens of each bin, but for the known ones.

    Args:
        bins: shape (n_rows, n_support).
        weights: of a token of each bin, shape (n_bins,).
        known: tokens, shape (k,).
    """
    n_bins = len(weights)
    counts = np.empty((len(bins), n_bins), np.int64)
    for row, (own, of_known) in enumerate(zip(bins, bins[:, known], strict=True)):
        counts[row] = np.bincount(own, minlength=n_bins)
        counts[row] -= np.bincount(of_known, minlength=n_bins)
    return Unknown(bins, counts, weights, counts @ weights)


@dataclass(frozen=True, slots=True, eq=False)
class BinnedFrequencies:
    """Distributions over a support; each adds up to 2^24, none is below 1.

    Attributes:
        bins: shape (n_rows, n_support).
        by_bin: frequency of a token that is not known, shape (n_rows, n_bins).
        known: tokens, shape (k,).
        of_known: their frequencies, shape (n_rows, k).
        favourites: the first token with the largest frequency, shape (n_rows,).
        rests: what it has on top, shape (n_rows,).
    """

    bins: Bins
    by_bin: Integers
    known: Integers
    of_known: Integers
    favourites: Integers
    rests: Integers

    def row(self, index: int) -> npt.NDArray[np.float64]:
        """f - 1 of one distribution, float64, shape (n_support,)."""
        found: npt.NDArray[np.float64] = (self.by_bin[index] - 1).astype(np.float64).take(self.bins[index])
        found[self.known] = self.of_known[index] - 1
        found[self.favourites[index]] += self.rests[index]
        return found

    def interval(self, index: int, token: int) -> tuple[int, int]:
        """(start, frequency) of one token of one distribution."""
        table, bins = self.by_bin[index], self.bins[index]
        start, frequency = int(table.take(bins[:token]).sum()), int(table[bins[token]])
        beyond = self.of_known[index] - table[bins[self.known]]
        start += int(beyond[self.known < token].sum())
        frequency += int(beyond[self.known == token].sum())
        favourite, rest = int(self.favourites[index]), int(self.rests[index])
        return start + rest * (favourite < token), frequency + rest * (favourite == token)


def binned_frequencies(unknown: Unknown, known: Integers, shares: Integers) -> BinnedFrequencies:
    """The frequencies of a step.

    Args:
        unknown: of the same known tokens.
        known: tokens in the order of their places, from place 1 on, shape (k,).
        shares: what each place has of 2^24 - n_support, shape (n_rows, k + 1); place 0 is all that are not known.
    """
    n_rows, n_support = unknown.bins.shape
    weights, totals = np.tile(unknown.weights, (n_rows, 1)), unknown.totals.copy()
    alone = totals == 0  # no token speaks for itself: all are alike, the known ones too
    weights[alone], totals[alone] = 1, n_support
    by_bin = weights * shares[:, :1] // totals[:, None] + 1
    of_known = shares[:, 1:] + np.where(alone, shares[:, 0] // n_support, 0)[:, None] + 1
    rests = TOTAL - (unknown.counts * by_bin).sum(axis=1) - of_known.sum(axis=1)
    favourites = np.empty(n_rows, np.int64)
    highest = np.where(unknown.counts > 0, by_bin, 0).max(axis=1)
    for row in range(n_rows):
        most = of_known[row].max(initial=0)
        likeliest = known[of_known[row] == most]
        if most <= highest[row]:
            alike = by_bin[row] == highest[row]
            hit = alike[unknown.bins[row]]
            hit[known] = False
            first = int(hit.argmax())
            likeliest = np.append(likeliest, first) if most == highest[row] else np.array([first])
        favourites[row] = likeliest.min()
    return BinnedFrequencies(unknown.bins, by_bin, known, of_known, favourites, rests)
