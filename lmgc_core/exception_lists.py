"""Lists of exceptions: where an encoder had to say how a surprisal was rounded ↔ bytes of a segment.

Inverse pair: `write_exceptions` / `read_exceptions`. Law: only what the writer makes is read.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lmgc_core.byte_fields import FieldReader, FieldWriter

Positions = npt.NDArray[np.int64]


def write_exceptions(positions: Positions, columns: Positions, up: npt.NDArray[np.bool_]) -> bytes:
    """Exceptions as varints: how far in coding order, then twice the column (from the last one if at the same
    position) with the side in the lowest bit."""
    out, last_position, last_column = FieldWriter(), 0, 0
    for position, column, side in zip(positions.tolist(), columns.tolist(), up.tolist(), strict=True):
        last_column = last_column if position == last_position else 0
        out.number(position - last_position)
        out.number((column - last_column) << 1 | side)
        last_position, last_column = position, column
    return bytes(out.data)


def read_exceptions(data: bytes, n_support: int) -> dict[int, list[tuple[int, bool]]]:
    """(column, side) of the exceptions at each position: the inverse of `write_exceptions`."""
    fields, found, position, column = FieldReader(data, what="list of exceptions"), {}, 0, 0  # type: ignore[var-annotated]
    while fields.left:
        step = fields.number()
        column = 0 if step else column
        position += step
        packed = fields.number(2 * n_support)
        column += packed >> 1
        here = found.setdefault(position, [])
        if column >= n_support or (here and packed < 2):
            raise fields.damaged(f"column {column} of {n_support}")
        here.append((column, bool(packed & 1)))
    return found
