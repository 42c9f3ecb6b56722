"""One parameter and everything a report knows about it: pure functions.

Law: the tokens listed for a parameter are those whose range holds it, and a row of the token table leads
back to a parameter that its token carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmgc_core.gradient import DType, Tensor

if TYPE_CHECKING:
    import pandas as pd

    from lmgc_core.report import Report


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The parameter one step away along an axis; `step` is -1 or 1."""

    axis: int
    step: int
    flat: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A selected parameter.

    Attributes:
        tensor: the tensor's name.
        flat: flat C-order index.
        index: the same as a position in the tensor's shape.
        value: written so that it reads back to the same float.
        fields: (name, bits as text) of the raw word: sign, exponent, mantissa, or the whole word of an integer.
        bits: all bits it was charged, None where not sampled; `llm_bits` the model's part.
        text: what the model read for it, without the separator; None where not sampled.
        rows: rows of the token table that carry it.
    """

    tensor: str
    flat: int
    index: tuple[int, ...]
    value: str
    fields: tuple[tuple[str, str], ...]
    bits: float | None
    llm_bits: float | None
    text: str | None
    rows: tuple[int, ...]


def word_fields(word: int, dtype: DType) -> tuple[tuple[str, str], ...]:
    """The bits of a word by field, most significant first.

    >>> from lmgc_core.gradient import DTYPES
    >>> word_fields(0x3F80, DTYPES["bfloat16"])
    (('sign', '0'), ('exponent', '01111111'), ('mantissa', '0000000'))
    """
    bits = format(word, f"0{dtype.bits}b")
    if dtype.kind != "float":
        return (("bits", bits),)
    first, second = dtype.sign_bits, dtype.sign_bits + dtype.exponent_bits
    parts = (("sign", bits[:first]), ("exponent", bits[first:second]), ("mantissa", bits[second:]))
    return tuple((name, text) for name, text in parts if text)


def value_text(tensor: Tensor, flat: int) -> str:
    """The shortest decimal text that reads back to the same value."""
    value = tensor.words[flat : flat + 1].view(tensor.dtype.numpy)[0]
    if tensor.dtype.name in ("float16", "float32", "float64"):
        return np.format_float_scientific(value, trim="-") if value and abs(float(value)) < 1e-3 else str(value)
    return repr(float(value)) if tensor.dtype.kind == "float" else str(value)


def describe_parameter(report: Report, tensor: Tensor, flat: int, bits: float, llm_bits: float) -> Parameter:
    """A parameter with its cell's bits, its text and the rows of its tokens."""
    word = int(tensor.words[flat])
    index = tuple(int(i) for i in np.unravel_index(flat, tensor.shape)) if tensor.shape else ()
    return Parameter(
        tensor.name,
        flat,
        index,
        value_text(tensor, flat),
        word_fields(word, tensor.dtype),
        None if np.isnan(bits) else float(bits),
        None if np.isnan(llm_bits) else float(llm_bits),
        parameter_text(report, tensor.name, flat),
        rows_of(report.tokens, tensor.name, flat),
    )


def model_asked(report: Report) -> bool:
    """Whether the language model has predicted anything; adaptive counting alone asks none."""
    return report.coding.config.prior != "counts"


def rows_of(tokens: pd.DataFrame, tensor: str, flat: int) -> tuple[int, ...]:
    """Rows of the token table whose token carries the parameter."""
    if tokens.empty:
        return ()
    inside = (tokens["first_parameter"] <= flat) & (tokens["last_parameter"] >= flat) & (tokens["tensor"] == tensor)
    return tuple(int(i) for i in np.flatnonzero(inside.to_numpy()))


def parameter_of(tokens: pd.DataFrame, row: int) -> tuple[str, int] | None:
    """The first parameter that a row's token carries; the one before for a pure separator, if there is one."""
    while 0 <= row < len(tokens):
        first = int(tokens["first_parameter"].iat[row])
        if first >= 0:
            return str(tokens["tensor"].iat[row]), first
        row -= 1
    return None


def neighbours(shape: tuple[int, ...], flat: int) -> tuple[Neighbour, ...]:
    """The parameters next to one, before and behind it along each axis, the innermost axis first.

    >>> [(n.axis, n.step, n.flat) for n in neighbours((3, 4), 4)]
    [(1, 1, 5), (0, -1, 0), (0, 1, 8)]
    """
    found = []
    stride = 1
    for axis in reversed(range(len(shape))):
        place = flat // stride % shape[axis]
        found += [Neighbour(axis, s, flat + s * stride) for s in (-1, 1) if 0 <= place + s < shape[axis]]
        stride *= shape[axis]
    return tuple(found)


def parameter_at(tokens: pd.DataFrame, window: int, position: int) -> tuple[str, int] | None:
    """The parameter that a window's token at a position carries, BOS being position 0; the last for one beyond it."""
    inside = np.flatnonzero((tokens["window"] == window).to_numpy()) if len(tokens) else np.zeros(0, np.int64)
    if not inside.size:
        return None
    return parameter_of(tokens, int(inside[min(max(position - 1, 0), inside.size - 1)]))


def most_surprising(bits: npt.NDArray[np.floating]) -> int | None:
    """The flat index of the sampled parameter with the most bits; None where nothing was sampled.

    >>> most_surprising(np.float32([[np.nan, 2.0], [7.0, np.nan]]))
    2
    """
    known = np.ravel(bits)
    return None if np.isnan(known).all() else int(np.nanargmax(known))


def parameter_text(report: Report, name: str, flat: int) -> str | None:
    """The text of one parameter's symbols, with separators between them but not after."""
    coded = report.coding.coded.tensors
    kept = report.coding.transformed.cells.get(name)
    if kept is not None:
        found = int(np.searchsorted(kept, flat))
        if found >= len(kept) or int(kept[found]) != flat:
            return None
        flat = found
    for result in report.results:
        offset = 0
        for piece in result.window.pieces:
            if coded[piece.tensor_index].name == name and piece.first <= flat < piece.last:
                text = result.window.text
                first = (offset + flat - piece.first) * text.symbols_per_parameter
                last = first + text.symbols_per_parameter - 1
                data = text.text.encode("utf-8")
                return data[int(text.symbol_starts[first]) : int(text.symbol_stops[last])].decode("utf-8")
            offset += piece.last - piece.first
    return None


def parse_index(text: str, shape: tuple[int, ...]) -> int | None:
    """The flat index that "17, 4, 1, 2" or "20306" means in that shape; None if it means none.

    >>> parse_index("1, 2", (3, 4)), parse_index("6", (3, 4)), parse_index("9 9", (3, 4))
    (6, 6, None)
    """
    words = text.replace(",", " ").replace("[", " ").replace("]", " ").split()
    if not words or not all(w.isdecimal() for w in words):
        return None
    numbers = [int(w) for w in words]
    n = int(np.prod(shape, dtype=np.int64))
    if len(numbers) == len(shape) and all(i < s for i, s in zip(numbers, shape, strict=True)):
        return int(np.ravel_multi_index(tuple(numbers), shape)) if shape else None
    return numbers[0] if len(numbers) == 1 and numbers[0] < n else None


def picked_parameter(event: Mapping[str, Any] | None, n_parameters: int) -> int | None:
    """The flat index that a click on the heatmap means; None if nothing was picked.

    The browser sends a point's `customdata` as a list, or, where the figure holds an array, as a mapping with
    the positions as text.

    >>> picked_parameter({"selection": {"points": [{"customdata": {"0": 7, "1": 2.5}}]}}, 10)
    7
    """
    points = ((event or {}).get("selection") or {}).get("points") or []
    for point in points:
        data = point.get("customdata")
        if isinstance(data, Mapping):
            data = data.get("0", data.get(0))
        elif isinstance(data, list | tuple):
            data = data[0] if data else None
        if isinstance(data, int | float) and 0 <= data < n_parameters:
            return int(data)
    return None


def picked_box(event: Mapping[str, Any] | None) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """((first, last) place down, (first, last) place across) of a box that was dragged over a heatmap.

    >>> picked_box({"selection": {"box": [{"x": [1.2, 3.9], "y": [0.1, 2.2]}]}})
    ((0.1, 2.2), (1.2, 3.9))
    """
    boxes = ((event or {}).get("selection") or {}).get("box") or []
    if not boxes:
        return None
    across, down = boxes[-1].get("x") or [], boxes[-1].get("y") or []
    if len(across) < 2 or len(down) < 2:
        return None
    return (float(min(down)), float(max(down))), (float(min(across)), float(max(across)))
