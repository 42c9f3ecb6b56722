"""Passages: a few consecutive values of a gradient, chosen by a seed, small enough for a lesson.

Values are taken from the tensor with the most values that are not zero, since a run of zeros teaches nothing, and the
passage is the one with the fewest zeros among some that the seed picks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import UnsupportedInput
from lmgc_core.gradient import Gradient, Tensor, TensorSpec

CANDIDATES = 8


def passage(gradient: Gradient, n_values: int, seed: int) -> Gradient:
    """Consecutive values of one tensor, as a gradient of that tensor alone; of few values, all.

    Args:
        gradient: what to take them from; tensors of whole numbers and of single bytes are left aside.
        n_values: how many, at least 1.
        seed: picks the place; the same seed, the same place.

    Raises:
        UnsupportedInput: when there are no floating-point values.
    """
    floats = [t for t in gradient if t.dtype.kind == "float" and t.dtype.bits >= 16 and t.n_parameters]
    if not floats:
        raise UnsupportedInput(f"{gradient.name or 'this gradient'} holds no floating-point values; choose another")
    zeros = [_is_zero(t) for t in floats]
    best = max(range(len(floats)), key=lambda i: int((~zeros[i]).sum()))
    tensor, is_zero = floats[best], zeros[best]
    n = min(n_values, tensor.n_parameters)
    starts = np.random.default_rng([seed, 3]).integers(0, tensor.n_parameters - n + 1, CANDIDATES).tolist()
    first = min(starts, key=lambda s: (int(is_zero[s : s + n].sum()), starts.index(s)))
    words = np.array(tensor.words[first : first + n])
    name = f"{tensor.name}[{first}:{first + n}]"
    return Gradient((Tensor(TensorSpec(name, tensor.dtype, (n,)), words),), f"{n} values of {gradient.name}")


def _is_zero(tensor: Tensor) -> npt.NDArray[np.bool_]:
    """Which words are +0 or -0, shape (n,)."""
    words = np.asarray(tensor.words)
    sign = words.dtype.type(1 << (tensor.dtype.bits - 1))
    found: npt.NDArray[np.bool_] = (words & ~sign) == 0
    return found
