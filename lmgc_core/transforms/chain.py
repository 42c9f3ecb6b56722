"""Transform: the only lossy place. values → coded values and side information → values.

A transform is a chain of steps, spelled `topk:0.1+uniform:8`. Law: `reconstruct(coded, side bytes)`
equals `.values` bit for bit, and everything after the transform is exact. What a decoder must know
beside the coded values is in the side bytes, the spelling and the tensors' own specs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import Gradient, Tensor, TensorSpec
from lmgc_core.transforms.casts import Cast
from lmgc_core.transforms.positions import Indices
from lmgc_core.transforms.quantisers import Qsgd, Sign, Uniform
from lmgc_core.transforms.side import SideInformation, SideReader, SideWriter
from lmgc_core.transforms.sparsifiers import RandomK, TopK


class Step(Protocol):
    """One lossy step. `gives_integers`: nothing can follow. `needs_seed`: its inverse needs the seed."""

    @property
    def gives_integers(self) -> bool: ...

    @property
    def needs_seed(self) -> bool: ...

    @property
    def spelling(self) -> str: ...

    def coded_spec(self, spec: TensorSpec) -> TensorSpec: ...

    def apply(self, tensor: Tensor, side: SideWriter, seed: int) -> tuple[Tensor, Indices | None]: ...

    def invert(self, coded: Tensor, spec: TensorSpec, side: SideReader, seed: int) -> Tensor: ...


CASTS: dict[str, Cast] = {
    "fp16": Cast("fp16", "float16"),
    "bf16": Cast("bf16", "bfloat16"),
    "fp8": Cast("fp8", "float8_e4m3fn"),
    "fp8-e5m2": Cast("fp8-e5m2", "float8_e5m2"),
}
QUANTISERS: dict[str, tuple[type[Uniform] | type[Qsgd], int]] = {"uniform": (Uniform, 1), "qsgd": (Qsgd, 2)}
SPARSIFIERS: dict[str, type[TopK] | type[RandomK]] = {"topk": TopK, "randk": RandomK}

ALLOWED = (
    "none, fp16, bf16, fp8, fp8-e5m2, uniform:BITS (1 to 16), qsgd:BITS (2 to 16), sign, topk:FRACTION, "
    "randk:FRACTION (above 0, at most 1), or a chain such as topk:0.1+uniform:8; "
    "uniform:BITS:BLOCK and qsgd:BITS:BLOCK take one scale per BLOCK values"
)


@dataclass(frozen=True, slots=True)
class Transformed:
    """A gradient after a transform.

    Attributes:
        values: what decompressing gives back: the input's dtypes and shapes.
        coded: what is serialised.
        side: what the inverse needs beside `coded`.
        cells: for each tensor's name the flat C-order cell of each coded value, shape (n coded,), or
            None where coded value i belongs to cell i. Dropped cells appear in none.
    """

    values: Gradient
    coded: Gradient
    side: SideInformation
    cells: dict[str, Indices | None]


@dataclass(frozen=True, slots=True)
class Transform:
    """A chain of steps; without steps the identity."""

    steps: tuple[Step, ...]

    @property
    def spelling(self) -> str:
        """The canonical spelling; parsing it gives an equal transform."""
        return "+".join(step.spelling for step in self.steps) or "none"

    def __str__(self) -> str:
        return self.spelling

    @property
    def is_identity(self) -> bool:
        return not self.steps

    def coded_specs(self, specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Dtype and shape of the coded tensors, from the header alone.

        Raises:
            InvalidSetting: for a tensor that this transform cannot take; names it.
        """
        return tuple(self._spec_chain(spec)[-1] for spec in specs)

    def _spec_chain(self, spec: TensorSpec) -> list[TensorSpec]:
        if self.steps and (spec.dtype.kind != "float" or spec.dtype.sign_bits != 1):
            raise InvalidSetting(
                f"tensor {spec.name!r} holds {spec.dtype.name} values, but transform {self.spelling} needs signed "
                "floats; choose the float tensors alone, or transform none"
            )
        chain = [spec]
        for step in self.steps:
            chain.append(step.coded_spec(chain[-1]))
        return chain

    def apply(self, gradient: Gradient, seed: int = 0) -> Transformed:
        """Coded values, side information and what the inverse makes of them.

        Args:
            gradient: float tensors; with `none` any.
            seed: 0 or more; qsgd and randk depend on it, and on the tensors' names.

        Raises:
            InvalidSetting: for a tensor that this transform cannot take, or a negative seed.
        """
        if not self.steps:
            empty = SideInformation(b"", tuple((t.name, b"") for t in gradient))
            return Transformed(gradient, gradient, empty, {t.name: None for t in gradient})
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise InvalidSetting(f"seed {seed!r}: a whole number of 0 or more is needed")
        coded, sides, cells, values = [], [], {}, []
        for tensor in gradient:
            self._spec_chain(tensor.spec)
            current, data, where = tensor, b"", None
            for step in self.steps:
                writer = SideWriter()
                current, kept = step.apply(current, writer, seed)
                data = bytes(writer.data) + data  # the inverse reads the last step's side first
                where = kept if where is None else where if kept is None else where[kept]
            coded.append(current)
            sides.append((tensor.name, data))
            cells[tensor.name] = where
            values.append(self._invert(current, tensor.spec, SideReader(data), seed))
        shared = SideWriter()
        if self._needs_seed:
            shared.count(seed)
        return Transformed(
            Gradient(tuple(values), gradient.name, gradient.warnings),
            Gradient(tuple(coded), gradient.name, gradient.warnings),
            SideInformation(bytes(shared.data), tuple(sides)),
            cells,
        )

    @property
    def _needs_seed(self) -> bool:
        return any(step.needs_seed for step in self.steps)

    def reconstruct(self, coded: Gradient, side_bytes: bytes, specs: Sequence[TensorSpec], name: str = "") -> Gradient:
        """The inverse: the values that `apply` promised, bit for bit.

        Args:
            coded: as `apply` gave it, tensors in the order of `specs`.
            side_bytes: `SideInformation.to_bytes()`.
            specs: the input's own specs.
            name: a label for the result.

        Raises:
            CorruptContainer: where the side bytes end early, contradict themselves or are too many.
            InvalidSetting: where coded tensors do not match the specs.
        """
        if not self.steps:
            SideReader(side_bytes).finish()
            return coded
        if coded.specs != self.coded_specs(specs):
            raise InvalidSetting(f"the coded tensors are not what {self.spelling} makes of the given specs")
        reader = SideReader(side_bytes)
        seed = reader.count() if self._needs_seed else 0
        tensors = tuple(self._invert(c, spec, reader, seed) for c, spec in zip(coded, specs, strict=True))
        reader.finish()
        return Gradient(tensors, name)

    def _invert(self, coded: Tensor, spec: TensorSpec, side: SideReader, seed: int) -> Tensor:
        chain = self._spec_chain(spec)
        for step, before in zip(reversed(self.steps), reversed(chain[:-1]), strict=True):
            coded = step.invert(coded, before, side, seed)
        return coded


def parse_transform(spelling: str) -> Transform:
    """The transform of that spelling.

    Raises:
        InvalidSetting: for an unknown step, a number out of range, or a step after one that gives integers.

    >>> parse_transform("topk:0.10+uniform:8").spelling
    'topk:0.1+uniform:8'
    """
    if spelling == "none":
        return Transform(())
    steps: list[Step] = []
    for part in spelling.split("+"):
        if steps and steps[-1].gives_integers:
            raise InvalidSetting(
                f"transform {spelling!r}: {part!r} cannot follow {steps[-1].spelling}, which gives integers; "
                f"put {steps[-1].spelling} last"
            )
        steps.append(_parse_step(part, spelling))
    return Transform(tuple(steps))


def _parse_step(part: str, spelling: str) -> Step:
    name, *numbers = part.split(":")
    if name in CASTS and not numbers:
        return CASTS[name]
    if name == "sign" and not numbers:
        return Sign()
    if name in SPARSIFIERS and len(numbers) == 1:
        fraction = _fraction(numbers[0])
        if fraction is not None:
            return SPARSIFIERS[name](fraction)
    if name in QUANTISERS and len(numbers) in (1, 2) and all(n.isascii() and n.isdigit() for n in numbers):
        kind, least_bits = QUANTISERS[name]
        bits, block = int(numbers[0]), int(numbers[1]) if len(numbers) == 2 else 0
        if least_bits <= bits <= 16 and (block > 0 or len(numbers) == 1):
            return kind(bits, block)
    where = "" if part == spelling else f" in {spelling!r}"
    raise InvalidSetting(f"transform {part!r}{where} is not known; choose {ALLOWED}")


def _fraction(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 < value <= 1 else None


def transform_gradient(spelling: str, gradient: Gradient, seed: int = 0) -> Transformed:
    """`parse_transform(spelling).apply(gradient, seed)`: values, coded values, side information, cells."""
    return parse_transform(spelling).apply(gradient, seed)


def apply_transform(spelling: str, gradient: Gradient, seed: int = 0) -> tuple[Gradient, SideInformation]:
    """What decompressing would give back, and what it costs beside the coded values.

    >>> import numpy as np
    >>> values, side = apply_transform("topk:0.25", Gradient.from_arrays({"w": np.float32([1, -5, 2, 0])}))
    >>> values["w"].tolist(), side.n_bytes
    ([0.0, -5.0, 0.0, 0.0], 2)
    """
    transformed = transform_gradient(spelling, gradient, seed)
    return transformed.values, transformed.side
