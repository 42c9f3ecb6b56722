"""The model's bins of a segment, kept until its last step: a prior that learns needs them in the order of coding.

Two bytes for each token of the support at each position: 3 MB for 16 windows of small numbers, 2.7 GB for 16 windows of
2,048 tokens over a full vocabulary. Beyond 256 MB they lie in an unnamed temporary file, so memory stays bounded.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence

import numpy as np

from lmgc_core.errors import UnsupportedInput
from lmgc_core.guarded_rounding import Bins
from lmgc_core.priors import log2_of_bins
from lmgc_core.priors.fixed_point import Integers

HELD_BYTES = 256_000_000
"""Bins of a segment that are held in memory; more of them go to a temporary file."""


class SegmentBins:
    """Bins by window and step.

    Args:
        lengths: tokens of each window.
        n_support: tokens of the support.

    Raises:
        UnsupportedInput: when the temporary file would not fit; with the figures.
    """

    def __init__(self, lengths: Sequence[int], n_support: int) -> None:
        stops = np.cumsum(np.asarray(lengths, np.int64))
        self._starts, n_tokens = stops - lengths, sum(lengths)
        need = 2 * n_tokens * n_support
        if need <= HELD_BYTES:
            self._bins: Bins = np.empty((n_tokens, n_support), np.int16)
            return
        free = shutil.disk_usage(tempfile.gettempdir()).free
        if need > free:
            raise UnsupportedInput(
                f"prior mix keeps {n_support:,} tokens' probabilities for {n_tokens:,} tokens, {need / 1e9:.1f} GB, "
                f"and temporary files have {free / 1e9:.1f} GB; choose support alphabet or a smaller segment"
            )
        with tempfile.TemporaryFile(prefix="lmgc-") as file:
            self._bins = np.memmap(file, np.int16, "w+", shape=(n_tokens, n_support))

    def put(self, window: int, first: int, bins: Bins) -> None:
        """Takes the bins of a window's positions from `first` on, shape (n, n_support)."""
        place = int(self._starts[window]) + first
        self._bins[place : place + len(bins)] = bins

    def step(self, windows: Integers, step: int) -> Bins:
        """The bins of these windows at a step, shape (n, n_support)."""
        found: Bins = self._bins[self._starts[windows] + step]
        return found

    def logs(self, windows: Integers, step: int) -> Integers:
        """The same as log-probabilities, see `log2_of_bins`."""
        return log2_of_bins(self.step(windows, step))

    @property
    def in_memory(self) -> bool:
        """Whether they are not in a file."""
        return not isinstance(self._bins, np.memmap)
