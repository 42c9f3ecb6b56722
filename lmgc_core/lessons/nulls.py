"""Null controls: what a compressor must not find, and what it must.

Four gradients of the same size: the real values, the same in random order, random bits, and one value throughout.
Random bits cannot be shortened by anybody (of all files of n bits, at most one in 2^k has a code of n - k bits), so a
rate below 100 % on them is a fault of the counting. What shuffling costs is what the order of the values was worth.
A constant costs next to nothing once it is recognised: by counting at once, by the language model alone only for a
while, since texts that it has read do not repeat one number for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

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
        """Bits that each value's text (sign and exponent) takes, in order, shape (n,)."""
        paid = tuple(replace(r, llm_surprisal_bits=r.surprisal_bits) for r in self.report.results)
        (bits,) = replace(self.report, results=paid).llm_bits.values()
        return np.asarray(bits, np.float64).reshape(-1)

    @property
    def alone_bits(self) -> npt.NDArray[np.float64]:
        """The same by the language model alone, without the counts beside it."""
        (bits,) = self.report.llm_bits.values()
        return np.asarray(bits, np.float64).reshape(-1)

    @property
    def rate(self) -> float:
        """Share of the raw bits, everything counted; lower is better, 1 is no gain."""
        rate = self.report.totals.compression_rate
        return float("nan") if rate is None else rate


def running_mean(bits: npt.NDArray[np.float64], span: int) -> npt.NDArray[np.float64]:
    """The mean over each entry and up to `span - 1` before it, shape (n,).

    >>> running_mean(np.array([4.0, 2.0, 0.0]), 2).tolist()
    [4.0, 3.0, 1.0]
    """
    sums = np.concatenate([[0.0], np.cumsum(bits)])
    stops = np.arange(1, len(sums))
    starts = np.maximum(stops - span, 0)
    found: npt.NDArray[np.float64] = (sums[stops] - sums[starts]) / (stops - starts)
    return found


def config_of(model: str) -> CodecConfig:
    """Preset best: signs and exponents as small numbers, model and counts predicting together."""
    return preset("best", model=model)


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
