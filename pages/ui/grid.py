"""A tensor as a picture of at most 256×256 cells, and the way back from a cell to its parameter.

A view turns any shape into rows and columns; reduction draws `factor` rows and columns as one cell and
says by which rule. NaN is "not sampled" and never counts. Law: `index[r, c]` is the flat C-order index
of a parameter inside cell (r, c), a sampled one where there is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lmgc_core.cells import Quantity

MAX_CELLS = 256
Reducer = Literal["mean", "max", "sum"]
REDUCERS: tuple[Reducer, ...] = ("mean", "max", "sum")
Extent = Literal["sampled", "whole"]
Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grid:
    """A picture of a tensor.

    Attributes:
        values: float32 (rows, columns), NaN where nothing was sampled.
        index: int64, same shape: the flat index of a parameter in each cell.
        rows: the first row of the view in each drawn row, int64.
        columns: the first column of the view in each drawn column, int64.
        factor: view rows and columns in one cell.
        reducer: how the values of one cell became one.
        row_label, column_label: what rows and columns are.
        n_rows_hidden: rows of the view left out because nothing in them was sampled.
    """

    values: Floats
    index: Indices
    rows: Indices
    columns: Indices
    factor: tuple[int, int]
    reducer: Reducer
    row_label: str
    column_label: str
    n_rows_hidden: int

    def cell_at(self, row: int, column: int) -> tuple[int, int] | None:
        """The drawn row and column of a place in the view; None where it is not drawn."""
        found = []
        for place, starts, factor in ((row, self.rows, self.factor[0]), (column, self.columns, self.factor[1])):
            at = int(np.searchsorted(starts, place, side="right")) - 1
            if at < 0 or (factor == 1 and starts[at] != place):
                return None
            found.append(at)
        return found[0], found[1]

    def span(self, first: float, last: float, axis: Literal[0, 1]) -> tuple[int, int]:
        """The view's rows (axis 0) or columns (axis 1), from and to, between two places in the drawn picture."""
        starts = self.rows if axis == 0 else self.columns
        low, high = sorted((first, last))
        from_, to = (int(np.clip(round(v), 0, starts.size - 1)) for v in (low, high))
        end = int(starts[to + 1]) if to + 1 < starts.size else int(starts[to]) + self.factor[axis]
        return int(starts[from_]), end

    def note(self) -> str:
        """What a reader must know about this picture, in one line; empty if cell and parameter are one."""
        notes = []
        if self.factor != (1, 1):
            notes.append(f"one cell is the {self.reducer} of {self.factor[0]}×{self.factor[1]} parameters")
        if self.n_rows_hidden:
            notes.append(f"{self.n_rows_hidden:,} rows without a sampled parameter are left out".replace(",", "\u202f"))
        return "; ".join(notes)


@dataclass(frozen=True, slots=True)
class View:
    """What is drawn of a report: the tensor, the quantity and the part of it, as `tensor_grid` takes them.

    Attributes:
        name: of the tensor.
        quantity: one of `lmgc_core.cells.QUANTITIES`.
        reach: of the colours, as `colouring` takes it.
    """

    name: str
    quantity: Quantity
    reach: int = 0
    extent: Extent = "whole"
    axes: tuple[int, int] | None = None
    at: tuple[int, ...] = ()
    reducer: Reducer = "mean"
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None

    def grid(self, numbers: npt.NDArray[np.floating]) -> Grid:
        """The picture of a tensor's numbers."""
        return tensor_grid(
            numbers,
            axes=self.axes,
            at=self.at,
            extent=self.extent,
            reducer=self.reducer,
            rows=self.rows,
            columns=self.columns,
        )


def two_axes(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """The pairs of axes a tensor of three or more axes can be sliced along, the largest first."""
    pairs = [(a, b) for a in range(len(shape)) for b in range(a + 1, len(shape))]
    return sorted(pairs, key=lambda p: -shape[p[0]] * shape[p[1]]) if len(shape) > 2 else []


def view_shape(shape: tuple[int, ...], axes: tuple[int, int] | None = None) -> tuple[int, int]:
    """(rows, columns) of a tensor's whole picture, before any reduction.

    >>> view_shape((8, 4, 3, 3)), view_shape((8, 4, 3, 3), (2, 3)), view_shape((10,))
    ((8, 36), (3, 3), (3, 4))
    """
    if axes is not None:
        return shape[axes[0]], shape[axes[1]]
    size = math.prod(shape)
    if len(shape) < 2:
        width = max(1, math.ceil(math.sqrt(size)))
        return max(1, math.ceil(size / width)), width
    return shape[0], size // max(shape[0], 1)


def place_in_view(
    shape: tuple[int, ...], flat: int, axes: tuple[int, int] | None = None, at: tuple[int, ...] = ()
) -> tuple[int, int] | None:
    """The view's row and column of a parameter; None if the slice at `at` does not hold it.

    >>> place_in_view((8, 4, 3, 3), 37), place_in_view((4, 3, 2), 7, (0, 1), (1,)), place_in_view((4, 3, 2), 7, (0, 1))
    ((1, 1), (1, 0), None)
    """
    if axes is None:
        row, column = divmod(flat, view_shape(shape)[1])
        return row, column
    index = [int(i) for i in np.unravel_index(flat, shape)]
    rest = [i for i in range(len(shape)) if i not in axes]
    if any(index[i] != held for i, held in zip(rest, (*at, *[0] * len(rest)), strict=False)):
        return None
    return index[axes[0]], index[axes[1]]


def tensor_grid(
    array: npt.NDArray[np.floating],
    *,
    axes: tuple[int, int] | None = None,
    at: tuple[int, ...] = (),
    extent: Extent = "whole",
    reducer: Reducer = "mean",
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
    max_cells: int = MAX_CELLS,
) -> Grid:
    """The picture of a tensor.

    Args:
        array: the tensor's own shape; NaN where not sampled.
        axes: two axes to draw, the others held at `at`; None draws the first axis against all the others
            (a vector is folded into a near square).
        at: one position for each remaining axis, in order.
        extent: "sampled" leaves out rows in which nothing was sampled.
        reducer: what a cell shows of its parameters.
        rows, columns: only the view's rows and columns from one to below the other, at the resolution they have.
    """
    shape = array.shape
    flat = np.asarray(array, np.float32)
    index = np.arange(flat.size, dtype=np.int64).reshape(shape)
    if axes is not None:
        rest = iter(at)
        cut = tuple(slice(None) if i in axes else next(rest, 0) for i in range(len(shape)))
        values, index = flat[cut], index[cut]
        labels = (f"axis {axes[0]}", f"axis {axes[1]}")
    elif len(shape) < 2:
        n_rows, width = view_shape(shape)
        values = np.full(n_rows * width, np.nan, np.float32)
        values[: flat.size] = flat.ravel()
        padded = np.full(n_rows * width, -1, np.int64)
        padded[: flat.size] = np.arange(flat.size)
        values, index = values.reshape(n_rows, width), padded.reshape(n_rows, width)
        labels = (f"index ÷ {width}", "index within the row")
    else:
        values, index = flat.reshape(shape[0], -1), index.reshape(shape[0], -1)
        inner = "axis 1" if len(shape) == 2 else f"axes 1–{len(shape) - 1}, flat"
        labels = ("axis 0", inner)
    from_row, to_row = rows or (0, values.shape[0])
    from_column, to_column = columns or (0, values.shape[1])
    values, index = (a[from_row:to_row, from_column:to_column] for a in (values, index))
    drawn = np.arange(from_row, from_row + values.shape[0], dtype=np.int64)
    across = np.arange(from_column, from_column + values.shape[1], dtype=np.int64)
    hidden = 0
    if extent == "sampled" and values.size:
        seen = ~np.isnan(values).all(axis=1)
        if seen.any():
            hidden = int((~seen).sum())
            values, index, drawn = values[seen], index[seen], drawn[seen]
    return _reduced(values, index, drawn, across, labels, hidden, reducer, max_cells)


def _reduced(
    values: Floats,
    index: Indices,
    rows: Indices,
    columns: Indices,
    labels: tuple[str, str],
    hidden: int,
    reducer: Reducer,
    max_cells: int,
) -> Grid:
    n_rows, n_columns = values.shape
    f_rows, f_columns = (max(1, math.ceil(n / max_cells)) for n in values.shape)
    if (f_rows, f_columns) == (1, 1):
        return Grid(values, index, rows, columns, (1, 1), reducer, *labels, hidden)
    out_rows, out_columns = math.ceil(n_rows / f_rows), math.ceil(n_columns / f_columns)
    padding = ((0, out_rows * f_rows - n_rows), (0, out_columns * f_columns - n_columns))
    tiles = _tiles(np.pad(values, padding, constant_values=np.nan), f_rows, f_columns)
    places = _tiles(np.pad(index, padding, constant_values=-1), f_rows, f_columns)
    known = ~np.isnan(tiles)
    n_known = known.sum(axis=2)
    if reducer == "max":
        out = np.where(known, tiles, -np.inf).max(axis=2)
    else:
        out = np.where(known, tiles, 0).sum(axis=2, dtype=np.float64)
        if reducer == "mean":
            out = out / np.maximum(n_known, 1)
    out = np.where(n_known > 0, out, np.nan).astype(np.float32)
    first = np.take_along_axis(places, known.argmax(axis=2)[..., None], axis=2)[..., 0]
    return Grid(out, first, rows[::f_rows], columns[::f_columns], (f_rows, f_columns), reducer, *labels, hidden)


def _tiles(array: npt.NDArray, f_rows: int, f_columns: int) -> npt.NDArray:  # type: ignore[type-arg]
    """(rows, columns) → (rows / f, columns / f, f·f)."""
    rows, columns = array.shape[0] // f_rows, array.shape[1] // f_columns
    return array.reshape(rows, f_rows, columns, f_columns).swapaxes(1, 2).reshape(rows, columns, f_rows * f_columns)
