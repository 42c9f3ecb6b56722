"""Tensors by what they are (weights, biases, norms), by layer, by step; and the parameters that cost most and least.

Names are read as networks usually write them; what no rule knows is "other". Units: bits per parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from lmgc_core.cells import Quantity
    from lmgc_core.report import Report, TensorRow

GroupBy = Literal["kind", "layer", "step"]
_STEP = re.compile(r"(?:^|[^a-z])step[_\-=. ]?(\d+)", re.IGNORECASE)
_NORM = re.compile(r"norm|(?:^|[._])(?:bn|ln|gn)\d*(?:[._]|$)", re.IGNORECASE)
_EMBEDDING = re.compile(r"embed|position|wte|wpe", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Group:
    """Sampled tensors taken together; bits are means over their sampled parameters, side information apart."""

    label: str
    n_tensors: int
    n_sampled: int
    bits_per_parameter: float
    llm_bits_per_parameter: float


@dataclass(frozen=True, slots=True)
class Extreme:
    """A parameter and what it cost; `value` in float64."""

    tensor: str
    flat: int
    value: float
    number: float


@dataclass(frozen=True, slots=True)
class ValuePoints:
    """Some sampled parameters of a tensor: flat index, value, number; `step` says that every step-th one is here.

    `n_finite` counts the sampled parameters whose value is finite, the only ones that points are taken from.
    """

    flat: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    numbers: npt.NDArray[np.float32]
    n_finite: int
    step: int


def tensor_kind(name: str, shape: Sequence[int], sibling: Sequence[int] | None = None) -> str:
    """What a tensor is in its network: "weights", "biases", "norms", "embeddings" or "other".

    Args:
        name: as the file writes it.
        shape: its own.
        sibling: the shape of the `weight` beside it, if there is one: the bias of a norm belongs to the norm.

    >>> tensor_kind("conv1.weight", (8, 1, 3, 3)), tensor_kind("bn1.bias", (8,)), tensor_kind("fc.bias", (8,), (8, 4))
    ('weights', 'norms', 'biases')
    """
    last = name.rpartition(".")[2].lower()
    if _NORM.search(name) or (last == "weight" and len(shape) == 1):
        return "norms"
    if "bias" in last:
        return "norms" if sibling is not None and len(sibling) == 1 else "biases"
    if _EMBEDDING.search(name):
        return "embeddings"
    return "weights" if len(shape) > 1 else "other"


def tensor_layer(name: str) -> str:
    """The part of a tensor's name that numbers its layer.

    >>> tensor_layer("blocks.0.attention.keys.weight"), tensor_layer("conv2.bias"), tensor_layer("w")
    ('blocks.0', 'conv2', 'w')
    """
    parts = name.split(".")
    for i, part in enumerate(parts[:-1]):
        if part.isdecimal():
            return ".".join(parts[: i + 1])
    return ".".join(parts[:-1]) or name


def tensor_step(name: str) -> str:
    """The training step that a name tells.

    >>> tensor_step("step_00000100/conv1.weight"), tensor_step("conv1.weight")
    ('step 100', 'no step in the name')
    """
    found = _STEP.search(name)
    return f"step {int(found.group(1))}" if found else "no step in the name"


def grouped(rows: Sequence[TensorRow], by: GroupBy) -> tuple[Group, ...]:
    """Sampled tensors taken together by kind, layer or step, in the order of the file.

    Law: the groups' bits, weighted by their sampled parameters, add up to those of the tensors.
    """
    shapes = {row.name: row.shape for row in rows}
    labels: dict[GroupBy, Callable[[TensorRow], str]] = {
        "kind": lambda r: tensor_kind(r.name, r.shape, shapes.get(f"{r.name.rpartition('.')[0]}.weight")),
        "layer": lambda r: tensor_layer(r.name),
        "step": lambda r: tensor_step(r.name),
    }
    found: dict[str, list[TensorRow]] = {}
    for row in rows:
        if row.n_sampled:
            found.setdefault(labels[by](row), []).append(row)
    groups = []
    for label, members in found.items():
        n = sum(r.n_sampled for r in members)
        bits = sum((r.bits_per_parameter or 0.0) * r.n_sampled for r in members) / n
        llm_bits = sum((r.llm_bits_per_parameter or 0.0) * r.n_sampled for r in members) / n
        groups.append(Group(label, len(members), n, bits, llm_bits))
    return tuple(groups)


def extremes(report: Report, quantity: Quantity, n: int = 10) -> tuple[tuple[Extreme, ...], tuple[Extreme, ...]]:
    """(the `n` parameters with the largest number, the `n` with the smallest) of everything sampled; ties in order."""
    found: list[tuple[float, int, int]] = []
    cells = report.cell_numbers(quantity)
    names = [row.name for row in report.tensors if row.n_sampled]
    for at, name in enumerate(names):
        flat = np.ravel(cells[name])
        known = np.flatnonzero(~np.isnan(flat))
        order = known[np.argsort(flat[known], kind="stable")]
        ends = np.unique(np.concatenate([order[:n], order[-n:]]))
        found += [(float(flat[i]), at, int(i)) for i in ends]
    most = sorted(found, key=lambda f: (-f[0], f[1], f[2]))[:n]
    least = sorted(found)[:n]
    return _named(report, names, most), _named(report, names, least)


def _named(report: Report, names: Sequence[str], found: Iterable[tuple[float, int, int]]) -> tuple[Extreme, ...]:
    return tuple(
        Extreme(names[at], flat, float(_values(report, names[at], np.array([flat]))[0]), number)
        for number, at, flat in found
    )


def _values(report: Report, name: str, flat: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    tensor = report.coding.raw.tensor(name)
    with np.errstate(all="ignore"):
        return tensor.words[flat].view(tensor.dtype.numpy).astype(np.float64)


def value_points(report: Report, name: str, quantity: Quantity, limit: int = 3000) -> ValuePoints:
    """Value against number for at most `limit` sampled parameters of a tensor, taken at equal distances in C order."""
    cells = np.ravel(report.cell_numbers(quantity)[name])
    known = np.flatnonzero(~np.isnan(cells))
    values = _values(report, name, known)
    finite = np.isfinite(values)
    known, values = known[finite], values[finite]
    step = max(1, -(-known.size // limit))
    return ValuePoints(known[::step], values[::step], cells[known[::step]], int(known.size), step)
