"""Null controls: gradients of the same shape in which there is nothing, or less, to find.

Random bits cannot be compressed by anyone: a rate under 100 % on them is a fault of the counting. Shuffled
values keep the distribution of single values and lose their order: what the rate loses by shuffling is what
context was worth. Source: counting argument, at most a share of 2^-k of all files can be shortened by k bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lmgc_core.gradient import Gradient, Tensor

ALARM_RATE = 0.999


def random_bits(gradient: Gradient, seed: int = 0) -> Gradient:
    """The same names, shapes and dtypes, filled with random bits (whatever values these make)."""
    rng = np.random.default_rng([seed, 1])
    tensors = tuple(
        Tensor(t.spec, np.frombuffer(rng.bytes(t.raw_bytes), t.dtype.word, t.n_parameters)) for t in gradient
    )
    return Gradient(tensors, f"random bits like {gradient.name}")


def shuffled(gradient: Gradient, seed: int = 0) -> Gradient:
    """The same values in random order within each tensor."""
    rng = np.random.default_rng([seed, 2])
    tensors = tuple(
        Tensor(t.spec, rng.permutation(np.array(t.words)).astype(t.dtype.word, copy=False)) for t in gradient
    )
    return Gradient(tensors, f"shuffled {gradient.name}")


CONTROLS: dict[str, Callable[[Gradient, int], Gradient]] = {"random_bits": random_bits, "shuffled": shuffled}
