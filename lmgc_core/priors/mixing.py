"""Geometric mixing of experts: p is in proportion to 2^(sum of weight · log-probability), weights learned online.

The weights follow the gradient of the code length; the weight set is chosen by a small context. For two symbols this is
logistic mixing. Sources: Mattern, "Linear and geometric mixtures" (DCC 2013); Mahoney, PAQ.
"""

from __future__ import annotations

import numpy as np

from lmgc_core.priors.fixed_point import Integers, power_of

WEIGHT_BITS = 20
WEIGHT_ONE = 1 << WEIGHT_BITS
SHARE_BITS = 16


class Mixer:
    """Weight sets for `n_inputs` experts.

    Args:
        n_sets: weight sets.
        start: weights at first, in units of 1, shape (n_inputs,), whole 2^-20ths.
        rate: how fast weights follow; in 2^-20 of a weight for an input that was better by one bit than expected.
        boost: the rate is larger at first: rate · (1 + boost · 16 / (16 + updates of the set)).
    """

    def __init__(self, n_sets: int, start: Integers, rate: int, boost: int = 2) -> None:
        self._weights = np.tile(np.asarray(start, np.int64), (n_sets, 1))
        self._seen = np.zeros(n_sets, np.int64)
        self._rate, self._boost = rate, boost

    def shares(self, inputs: Integers, sets: Integers) -> Integers:
        """The mixture in 2^-16ths, shape (n, n_symbols); rounded down, so that they add up to a little less.

        Args:
            inputs: log-probabilities, shape (n, n_inputs, n_symbols).
            sets: the weight set of each row, shape (n,).
        """
        masses = self.masses(inputs, sets)
        shares: Integers = (masses << SHARE_BITS) // masses.sum(axis=1, keepdims=True)
        return shares

    def masses(self, inputs: Integers, sets: Integers) -> Integers:
        """The mixture without its normalisation, the likeliest symbol's being 2^30, shape (n, n_symbols)."""
        mixed = np.matmul(self._weights[sets][:, None, :], inputs)[:, 0] >> WEIGHT_BITS
        return power_of(mixed - mixed.max(axis=1, keepdims=True))

    def learn(self, inputs: Integers, sets: Integers, shares: Integers, symbols: Integers) -> None:
        """Moves the weights towards what would have coded `symbols` shorter.

        Args:
            inputs, sets: as given to `shares`.
            shares: what it gave.
            symbols: what came, shape (n,).
        """
        expected = np.matmul(inputs, shares[:, :, None])[:, :, 0] >> SHARE_BITS
        better = inputs[np.arange(len(symbols)), :, symbols] - expected
        seen = self._seen[sets]
        rates = self._rate + self._rate * self._boost * 16 // (16 + seen)
        np.add.at(self._weights, sets, (better * rates[:, None] + (1 << 11)) >> 12)
        np.clip(self._weights, -WEIGHT_ONE, 8 * WEIGHT_ONE, out=self._weights)
        np.add.at(self._seen, sets, 1)
