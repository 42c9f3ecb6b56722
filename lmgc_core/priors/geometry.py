"""Where the parameters of a segment's windows lie in their tensors: neighbours and columns, found from shapes alone.

A *lag* is how many parameters back a neighbour along an axis lies within the window; a *column* is the place within a
tensor's slice along its first axis (all weights of one output), the same for every output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmgc_core.priors.fixed_point import Integers
from lmgc_core.punctuation import Place

N_LAGS = 5
FLAT_LAGS = (9, 18, 27, 8, 10)
"""For tensors of one axis: a kernel of 3×3 is the likeliest row that a flattened tensor had."""

FARTHEST = 216
"""Half a block: neighbours farther back lie in the window too seldom."""

MAX_COLUMNS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """By window and parameter; windows of fewer parameters are padded.

    Attributes:
        lags: int64, shape (n_windows, n_parameters, N_LAGS); 0 where the neighbour is not in the window.
        near: the lag of the next row, shape (n_windows, n_parameters), 0 if there is none.
        kernel: the lag of the next kernel or row of rows, likewise.
        columns: which column, shape (n_windows, n_parameters).
        n_columns: columns in all; the first is that of tensors with one axis.
        sizes: parameters of each window, shape (n_windows,).
    """

    lags: Integers
    near: Integers
    kernel: Integers
    columns: Integers
    n_columns: int
    sizes: Integers


def axis_strides(shape: Sequence[int]) -> list[int]:
    """Distances between neighbours along each axis but the innermost, the nearest first, without repeats.

    >>> axis_strides((128, 64, 3, 3)), axis_strides((10, 50)), axis_strides((7,))
    ([3, 9, 576], [50], [])
    """
    strides, stride = [], 1
    for size in reversed(shape[1:]):
        stride *= size
        if stride > 1 and stride not in strides:
            strides.append(stride)
    return strides


def lags_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The lags that matter in a tensor of that shape, N_LAGS of them, 0 for none."""
    strides = axis_strides(shape)
    if not strides:
        return FLAT_LAGS
    first = strides[0]
    if len(strides) == 1:
        found = [first, first - 1, first + 1, 2 * first, 3 * first]
    else:
        second = strides[1]
        third = strides[2] if len(strides) > 2 and strides[2] <= FARTHEST else 3 * second
        found = [second, second - 1, second + 1, first if first > 4 else 2 * second, third]
    return tuple(lag if lag > 1 else 0 for lag in found)


def geometry_of(windows: Sequence[Sequence[Place]]) -> Geometry:
    """The geometry of a segment's windows, each given by its pieces in order."""
    n, size = len(windows), max((sum(p.n_parameters for p in w) for w in windows), default=0)
    lags = np.zeros((n, size + 1, N_LAGS), np.int64)
    near, kernel, columns = (np.zeros((n, size + 1), np.int64) for _ in range(3))
    offsets: dict[tuple[int, ...], int] = {}
    n_columns = 1
    for i, window in enumerate(windows):
        start = 0
        for piece in window:
            stop = start + piece.n_parameters
            within = np.arange(piece.n_parameters)
            chosen = lags_of(piece.shape)
            lags[i, start:stop] = np.where(within[:, None] >= np.array(chosen), np.array(chosen), 0)
            strides = axis_strides(piece.shape) or [FLAT_LAGS[0]]
            near[i, start:stop] = np.where(within >= strides[0], strides[0], 0)
            outer = strides[1] if len(strides) > 1 else 2 * strides[0]
            kernel[i, start:stop] = np.where(within >= outer, outer, 0)
            if len(piece.shape) > 1:
                row = int(np.prod(piece.shape[1:]))
                key = tuple(piece.shape[1:])
                if key not in offsets:
                    offsets[key] = n_columns
                    n_columns += min(row, MAX_COLUMNS)
                flat = piece.first_parameter + within
                columns[i, start:stop] = offsets[key] + flat % row % MAX_COLUMNS
            start = stop
    sizes = np.array([sum(p.n_parameters for p in w) for w in windows], np.int64)
    return Geometry(lags, near, kernel, columns, n_columns, sizes)
