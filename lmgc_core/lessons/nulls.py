"""Null controls: what a compressor must not find, and what it must.

Four gradients of the same size: the real values, the same in random order, random bits, and one value throughout.
Random bits cannot be shortened by anybody (of all files of n bits, at most one in 2^k has a code of n - k bits), so a
rate below 100 % on them is a fault of the counting. What shuffling costs is what the order of the values was worth.
A constant costs next to nothing once it is recognised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmgc_core.codec import measure
from lmgc_core.controls import random_bits, shuffled
from lmgc_core.gradient import Gradient, Tensor
from lmgc_core.language_model import LanguageModel
from lmgc_core.report import Report
from lmgc_core.settings import CodecConfig, preset

N_VALUES = 192


def constant(gradient: Gradient, seed: int = 0) -> Gradient:
    """The same shapes, filled with the first value of each tensor; the seed changes nothing."""
    tensors = tuple(Tensor(t.spec, np.repeat(np.array(t.words[:1]), t.n_parameters)) for t in gradient)
    return Gradient(tensors, f"constant like {gradient.name}")


def unchanged(gradient: Gradient, seed: int = 0) -> Gradient:
    """The gradient itself."""
    return gradient


KINDS: dict[str, Callable[[Gradient, int], Gradient]] = {
    "the real values": unchanged,
    "the same, shuffled": shuffled,
    "random bits": random_bits,
    "one value throughout": constant,
}


@dataclass(frozen=True, slots=True)
class Null:
    """One of the four.

    Attributes:
        name: a key of `KINDS`.
        report: of all values.
    """

    name: str
    report: Report

    @property
    def text_bits(self) -> npt.NDArray[np.float64]:
        """Bits of each value that the model spends on its text (sign and exponent), in order, shape (n,)."""
        (bits,) = self.report.llm_bits.values()
        return np.asarray(bits, np.float64).reshape(-1)

    @property
    def stored_bits(self) -> int:
        """Bits of each value beside the text, taken as they are."""
        (serializer,) = self.report.coding.serializers.values()
        return serializer.remainder_bits

    @property
    def rate(self) -> float:
        """Share of the raw bits: text and the rest as it is; lower is better, 1 is no gain."""
        (tensor,) = self.report.coding.coded.tensors
        return float(self.text_bits.mean() + self.stored_bits) / tensor.dtype.bits

    def running_bits(self, span: int = 24) -> npt.NDArray[np.float64]:
        """Mean bits over each value and up to `span - 1` before it, shape (n,)."""
        sums = np.concatenate([[0.0], np.cumsum(self.text_bits)])
        stops = np.arange(1, len(sums))
        starts = np.maximum(stops - span, 0)
        found: npt.NDArray[np.float64] = (sums[stops] - sums[starts]) / (stops - starts)
        return found


def config_of(model: str) -> CodecConfig:
    """Signed small numbers, a window long enough for all of them, the model alone predicting."""
    return preset("best", model=model, prior="llm")


def measured_nulls(
    values: Gradient,
    model: LanguageModel,
    seed: int,
    on_null: Callable[[tuple[Null, ...]], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[Null, ...]:
    """All of `KINDS` made from one passage and measured with the same settings.

    Args:
        values: a passage.
        model: reads each once.
        seed: of the random bits and the new order.
        on_null: told of those done so far.
        should_stop: asked before each pass.
    """
    found: tuple[Null, ...] = ()
    for name, make in KINDS.items():
        report = measure(make(values, seed), model, config_of(model.id), limit=0, should_stop=should_stop)
        found = (*found, Null(name, report))
        if on_null is not None:
            on_null(found)
    return found
