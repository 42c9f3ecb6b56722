"""Counts behind the two histograms of a tensor, and the table of tensors: pure functions of words.

Values that are not finite are counted apart; nothing is sampled below `SAMPLE_ABOVE` values, above it a
regular thinning is used and stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.files.summary import tensor_figures
from lmgc_core.gradient import Gradient, Tensor, TensorSpec, exponent_field
from pages.ui.format import shape

SAMPLE_ABOVE = 4_000_000
N_BINS = 81
FIGURES = {"min": "min", "max": "max", "mean": "mean", "std": "std", "n_nonfinite": "not finite"}


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """Counts by value. `n_outside` lie beyond the drawn range, `n_nonfinite` are infinite or not a number."""

    counts: tuple[int, ...]
    edges: tuple[float, ...]
    n_outside: int
    n_nonfinite: int
    n_zero: int
    thinned: int


@dataclass(frozen=True, slots=True)
class ExponentCounts:
    """Counts by power of two; zeros, denormals and non-finite values apart."""

    exponents: tuple[int, ...]
    counts: tuple[int, ...]
    n_zero: int
    n_denormal: int
    n_nonfinite: int
    thinned: int


def _thinned(tensor: Tensor) -> tuple[npt.NDArray[Any], int]:
    step = max(1, -(-tensor.n_parameters // SAMPLE_ABOVE))
    return tensor.words[::step], step


def _span(finite: npt.NDArray[np.float64]) -> tuple[float, float]:
    low, high = (float(q) for q in np.quantile(finite, [0.001, 0.999]))
    if low < 0 < high:
        low, high = -max(-low, high), max(-low, high)
    if not high > low:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    return low, high


def value_counts(tensor: Tensor, span: tuple[float, float] | None = None) -> ValueCounts:
    """How often values occur, over the range that holds 99.8 % of the finite ones, symmetric where signs differ.

    Args:
        tensor: of any dtype.
        span: a range to use instead, so that two histograms can be laid over each other.
    """
    words, step = _thinned(tensor)
    with np.errstate(all="ignore"):
        values = words.view(tensor.dtype.numpy).astype(np.float64)
    finite = values[np.isfinite(values)]
    n_nonfinite = int(values.size - finite.size)
    if not finite.size:
        return ValueCounts((), (0.0, 1.0), 0, n_nonfinite, 0, step)
    low, high = span or _span(finite)
    counts, edges = np.histogram(finite, bins=N_BINS, range=(low, high))
    outside = int(finite.size - counts.sum())
    return ValueCounts(
        tuple(counts.tolist()), tuple(edges.tolist()), outside, n_nonfinite, int((finite == 0).sum()), step
    )


def exponent_counts(tensor: Tensor) -> ExponentCounts | None:
    """How often each power of two occurs; None for integers."""
    dtype = tensor.dtype
    if dtype.kind != "float" or not dtype.mantissa_bits:
        return None
    words, step = _thinned(tensor)
    fields = exponent_field(words, dtype)
    found = np.bincount(fields, minlength=1)
    with np.errstate(all="ignore"):
        finite = np.isfinite(words.view(dtype.numpy).astype(np.float64))
    magnitude = words & dtype.word.type((1 << (dtype.exponent_bits + dtype.mantissa_bits)) - 1)
    n_zero = int((magnitude == 0).sum())
    kept = np.bincount(fields[finite & (fields > 0)], minlength=found.size)
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    used = np.flatnonzero(kept)
    drawn = np.arange(used[0], used[-1] + 1) if used.size else used
    return ExponentCounts(
        tuple((drawn - bias).tolist()),
        tuple(kept[drawn].tolist()),
        n_zero,
        int(found[0]) - n_zero,
        int((~finite).sum()),
        step,
    )


def tensor_rows(gradient: Gradient, with_figures: bool = True) -> list[dict[str, Any]]:
    """One row a tensor, in file order, as `spec_rows` has them."""
    return spec_rows(gradient.specs, {t.name: tensor_figures(t) for t in gradient} if with_figures else {})


def spec_rows(specs: Sequence[TensorSpec], figures: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a tensor: name, shape, dtype, sizes; extremes, mean, spread, zeros and non-finite values where known.

    Args:
        specs: the tensors.
        figures: by name, as `lmgc_core.files` gives them.
    """
    return [
        {
            "tensor": spec.name,
            "shape": shape(spec.shape),
            "dtype": spec.dtype.name,
            "parameters": spec.n_parameters,
            "bytes": spec.raw_bytes,
            **{label: figures.get(spec.name, {}).get(key) for key, label in FIGURES.items()},
            "zeros %": _percent(figures.get(spec.name, {}).get("zero_fraction")),
        }
        for spec in specs
    ]


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else 100 * fraction
