"""Numbers as text: one row a line, cells between commas, semicolons, tabs or spaces.

Each cell becomes the float64 that Python's `float()` gives, the nearest one, and then the dtype that was asked for.
"Lossless" therefore means the parsed numbers, not the text. Law: float64 values written with `repr` come back
bit for bit, NaN payloads apart (text has none).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import ReadOptions, Source, make_source, one_line
from lmgc_core.gradient import DTYPES, DType, TensorSpec, Words
from lmgc_core.wording import counted

SEPARATORS = (";", "\t", ",")  # a space separates where none of these stands in the first line
NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE | re.ASCII)
NUMBER_LIKE = re.compile(r"[+-]?[.,]?\d|[+-]?(?:inf|nan)(?:inity)?$", re.IGNORECASE | re.ASCII)
PIECE_BYTES = 1 << 20


def open_csv(file: FileBytes, options: ReadOptions) -> Source:
    """One nameless tensor: (rows, columns), or flat when there is one row or one column.

    Raises:
        UnsupportedInput: with the line's number, for a cell that is no number, a decimal comma, or a row of
            another length than the first.
    """
    dtype = options.said_dtype or DTYPES["float64"]
    table = _Table(dtype)
    for line, cells, ended in _rows(file, table):
        table.add(line, cells, ended)
    words, notes = table.finish()
    spec = TensorSpec("", dtype, table.shape())
    return make_source(file.label, "csv", (spec,), lambda _: words, notes=notes)


class _Table:
    """Cells so far; values grow in a compact array, 8 bytes each."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self._separator: str | None = None
        self.values: array[Any] = array({"float": "d", "int": "q", "uint": "Q", "bool": "Q"}[dtype.kind])
        self.columns = 0
        self.in_row = 0
        self.rows = 0
        self.header = 0
        self.notes: list[str] = []

    def add(self, line: int, cells: list[str], ended: bool) -> None:
        """Takes cells of one row; `ended` when they are the last of it."""
        if ended and self._may_be_header() and not any(NUMBER_LIKE.match(cell) for cell in cells):
            self.header = line
            self.notes.append(f"line {line} was skipped as a header: {one_line(', '.join(cells), 80)}")
            return
        for cell in cells:
            value = self._value(line, cell)
            try:
                self.values.append(value)
            except OverflowError:
                raise UnsupportedInput(
                    f"line {line}: {cell} does not fit into {self.dtype.name}; choose another --raw-dtype"
                ) from None
        self.in_row += len(cells)
        if not ended:
            return
        if self.rows and self.in_row != self.columns:
            raise UnsupportedInput(
                f"line {line}: {counted(self.in_row, 'column')}, the rows above have {self.columns}; "
                "every row needs as many"
            )
        self.columns, self.in_row, self.rows = self.in_row, 0, self.rows + 1

    def separator_in(self, content: str) -> str:
        """What stands between cells, decided by the first line that has any."""
        if self._separator is None:
            self._separator = next((s for s in SEPARATORS if s in content), " ")
        return self._separator

    def _may_be_header(self) -> bool:
        return not (self.rows or self.in_row or self.header)

    def _value(self, line: int, cell: str) -> float | int:
        if NUMBER.fullmatch(cell):
            try:
                return float(cell) if self.dtype.kind == "float" else int(cell)
            except ValueError:
                raise UnsupportedInput(
                    f"line {line}: {cell!r} is no whole number, and {self.dtype.name} was asked for; "
                    "choose a float with --raw-dtype"
                ) from None
        if re.fullmatch(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", cell) or " " in cell:
            raise UnsupportedInput(
                f"line {line}: {one_line(cell, 40)!r} looks like a decimal comma or another separator; "
                "write a decimal point and one separator (comma, semicolon, tab or space)"
            )
        what = f"{one_line(cell, 40)!r} is not a number" if cell else "an empty cell"
        raise UnsupportedInput(f"line {line}: {what}; every cell needs a number")

    def shape(self) -> tuple[int, ...]:
        return (self.rows, self.columns) if self.rows > 1 and self.columns > 1 else (len(self.values),)

    def finish(self) -> tuple[Words, list[str]]:
        """The words, and what there is to say about them."""
        if not self.values:
            raise UnsupportedInput(
                "no numbers in this text; a table of numbers is needed (for raw numbers, give --raw-dtype)"
            )
        values = np.frombuffer(self.values, self.values.typecode)
        if self.dtype.kind == "float":
            with np.errstate(all="ignore"):
                typed = values.astype(self.dtype.numpy)
            lost = int(np.sum(np.isfinite(values) & ~np.isfinite(typed.astype(np.float64))))
            if lost:
                self.notes.append(f"{lost:,} numbers are beyond {self.dtype.name} and became infinite or NaN")
        else:
            limits = (
                (0, 1)
                if self.dtype.kind == "bool"
                else (np.iinfo(self.dtype.numpy).min, np.iinfo(self.dtype.numpy).max)
            )
            if values.min() < limits[0] or values.max() > limits[1]:
                raise UnsupportedInput(
                    f"numbers from {values.min()} to {values.max()} do not fit into {self.dtype.name} "
                    f"({limits[0]} to {limits[1]}); choose another --raw-dtype"
                )
            typed = values.astype(self.dtype.numpy)
        words: Words = typed.view(self.dtype.word)
        return words, self.notes


def _rows(file: FileBytes, table: _Table) -> Iterator[tuple[int, list[str], bool]]:
    """(line number, cells, whether the row ends with them) for lines that hold something; long lines in parts."""
    rest, line = "", 1
    for text, last in _pieces(file):
        lines = (rest + text).split("\n")
        rest = lines.pop()
        for content in lines:
            if not content and not table.in_row:
                line += 1
                continue
            yield from _cells(line, content, True, table)
            line += 1
        if last and rest:
            yield from _cells(line, rest, True, table)
        elif len(rest) > PIECE_BYTES:
            cut = rest.rfind(table.separator_in(rest))
            if cut > 0:
                yield from _cells(line, rest[:cut], False, table)
                rest = rest[cut + 1 :]
        if len(rest) > 4 * PIECE_BYTES:
            raise UnsupportedInput(
                f"line {line}: a cell of more than {len(rest):,} characters is no number; every cell needs one"
            )


def _pieces(file: FileBytes) -> Iterator[tuple[str, bool]]:
    """Decoded pieces with "\\n" line ends, and whether each is the last."""
    if file.head(2) in (b"\xff\xfe", b"\xfe\xff"):
        raise UnsupportedInput("UTF-16 text; save it as UTF-8")
    first = 3 if file.head(3) == b"\xef\xbb\xbf" else 0
    pending = b""
    while first < file.size:
        data = pending + file.slice(first, PIECE_BYTES)
        first += PIECE_BYTES
        last = first >= file.size
        pending = b"\r" if data.endswith(b"\r") and not last else b""  # its \n may come with the next piece
        data = data[: len(data) - len(pending)]
        # latin-1 takes every byte; only digits and signs matter, and a header is shown as it is
        yield data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").decode("latin1"), last
        file.forget()


def _cells(line: int, content: str, ended: bool, table: _Table) -> Iterator[tuple[int, list[str], bool]]:
    if not content.strip() and ended and not table.in_row:
        return
    if content.lstrip().startswith("#") and not table.rows and not table.in_row:
        table.notes.append(f"line {line} was skipped as a comment: {one_line(content, 80)}")
        return
    separator = table.separator_in(content)
    parts = content.split() if separator == " " else content.split(separator)
    yield line, [cell.strip().strip('"').strip() for cell in parts], ended
