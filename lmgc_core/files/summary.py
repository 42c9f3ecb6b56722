"""Figures of a tensor's values, gathered piece by piece: extremes, mean, spread, zeros, non-finite values.

Zeros and non-finite values are found in the words, never by comparing floats: a process may flush denormals.
Mean and spread are over finite values in float64, each piece scaled by a power of two, so that squares of
1e300 or 1e-300 neither overflow nor vanish. Pieces are merged as in Chan, Golub and LeVeque (1983).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.gradient import DType, Tensor, Words

PIECE_VALUES = 1 << 18


class Summary:
    """Running figures of one tensor.

    >>> from lmgc_core.gradient import DTYPES
    >>> s = Summary(DTYPES["float32"]); s.add(np.float32([1.0, 3.0, np.nan]).view("<u4")); s.figures()["std"]
    1.0
    """

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.n = 0
        self.n_zero = 0
        self.n_finite = 0
        self.low = math.inf
        self.high = -math.inf
        self._exponent = 0  # mean and squares are in units of 2**exponent
        self._mean = 0.0
        self._squares = 0.0

    def add(self, words: Words) -> None:
        """Counts more values in."""
        for first in range(0, len(words), PIECE_VALUES):
            self._add_piece(words[first : first + PIECE_VALUES])

    def _add_piece(self, words: Words) -> None:
        finite = finite_mask(words, self.dtype)
        self.n += len(words)
        self.n_zero += int(np.count_nonzero(zero_mask(words, self.dtype)))
        with np.errstate(all="ignore"):
            values = words.view(self.dtype.numpy).astype(np.float64)
            if not finite.all():
                values = values[finite]
            if not len(values):
                return
            low, high = float(values.min()), float(values.max())
            exponent = math.frexp(max(abs(low), abs(high)))[1]
            scaled = np.ldexp(values, -exponent)
            mean = float(scaled.mean())
            squares = float(np.square(scaled - mean).sum())
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._merge(len(values), exponent, mean, squares)

    def _merge(self, n: int, exponent: int, mean: float, squares: float) -> None:
        top = exponent if self.n_finite == 0 else max(exponent, self._exponent)
        mean, squares = math.ldexp(mean, exponent - top), math.ldexp(squares, 2 * (exponent - top))
        self._mean = math.ldexp(self._mean, self._exponent - top)
        self._squares = math.ldexp(self._squares, 2 * (self._exponent - top))
        total = self.n_finite + n
        gap = mean - self._mean
        self._mean += gap * n / total
        self._squares += squares + gap * gap * self.n_finite * n / total
        self._exponent, self.n_finite = top, total

    def figures(self) -> dict[str, Any]:
        """{"zero_fraction", "n_nonfinite", "min", "max", "mean", "std"}; None where there is nothing to say.

        "std" is the population's; extremes, mean and std are over finite values.
        """
        some = self.n_finite > 0
        spread = math.sqrt(self._squares / self.n_finite) if some else 0.0
        return {
            "zero_fraction": self.n_zero / self.n if self.n else None,
            "n_nonfinite": self.n - self.n_finite,
            "min": self.low if some else None,
            "max": self.high if some else None,
            "mean": math.ldexp(self._mean, self._exponent) if some else None,
            "std": math.ldexp(spread, self._exponent) if some else None,
        }


def zero_mask(words: Words, dtype: DType) -> npt.NDArray[np.bool_]:
    """Which values are +0 or -0, shape (n,); of bools, which are False."""
    if dtype.name == "float8_e8m0fnu":  # powers of two alone: it has no zero
        return np.zeros(len(words), bool)
    if dtype.kind != "float" or dtype.name.endswith("fnuz"):
        return np.asarray(words == 0)
    magnitude = words.dtype.type((1 << (dtype.bits - 1)) - 1)
    return np.asarray((words & magnitude) == 0)


def finite_mask(words: Words, dtype: DType) -> npt.NDArray[np.bool_]:
    """Which values are neither NaN nor infinite, shape (n,). Sources: IEEE 754, OCP 8-bit floats."""
    if dtype.kind != "float":
        return np.ones(len(words), bool)
    word = words.dtype.type
    if dtype.name == "float8_e8m0fnu":
        return np.asarray(words != 0xFF)
    if dtype.name.endswith("fnuz"):
        return np.asarray(words != 0x80)
    if dtype.name == "float8_e4m3fn":
        return np.asarray((words & word(0x7F)) != 0x7F)
    mask = word(((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits)
    return np.asarray((words & mask) != mask)


def tensor_figures(tensor: Tensor) -> dict[str, Any]:
    """The figures of a whole tensor, taken piece by piece: memory stays at a few megabytes.

    >>> from lmgc_core.gradient import tensor_from_array
    >>> tensor_figures(tensor_from_array("w", np.float32([0, 2])))["zero_fraction"]
    0.5
    """
    summary = Summary(tensor.dtype)
    summary.add(tensor.words)
    return summary.figures()
