"""From the bins of guarded rounding to log-probabilities in whole numbers: where the model enters a mixture."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lmgc_core.guarded_rounding import CELLS_PER_BIT, Bins, Surprisals, grid, round_to_bins
from lmgc_core.priors.fixed_point import LOG_ONE, Integers

BEYOND = -25 * LOG_ONE
"""What the last bin stands for: less likely than the coder can say."""


@lru_cache(maxsize=1)
def logs_of_bins() -> Integers:
    """`log2_of_bins` of every bin, shape (n_bins,)."""
    cells = np.bincount(grid().bin_of_cell[:-1]).astype(np.int64)
    doubled = 2 * (np.cumsum(cells) - cells) + cells
    return np.append(-doubled * (LOG_ONE // (2 * CELLS_PER_BIT)), BEYOND)


def log2_of_bins(bins: Bins) -> Integers:
    """The log2 probability in the middle of each bin, in 1/4096 bit, any shape.

    >>> log2_of_bins(np.int16([0, 64])).tolist()
    [-32, -4128]
    """
    found: Integers = logs_of_bins()[bins]
    return found


def rounded_log2(surprisals: Surprisals) -> Integers:
    """The same from surprisals in bits, float64: what a measurement uses, so that it mixes what an archive would."""
    return log2_of_bins(round_to_bins(surprisals))
