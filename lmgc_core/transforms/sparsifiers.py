"""Sparsifiers: only some values are kept, as they are; inverse: put back, every other cell +0.0.

Kept values are serialised alone, as a tensor of shape (k,) in the order of their cells. With k ≥ n
a sparsifier is the identity, byte for byte, and the shape stays. k = round(fraction · n), at least 1.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lmgc_core.gradient import Tensor, TensorSpec, Words
from lmgc_core.transforms.exact import is_nan, magnitude_words
from lmgc_core.transforms.positions import Indices
from lmgc_core.transforms.side import SideReader, SideWriter


def kept_count(fraction: float, n: int) -> int:
    """How many of n values a fraction keeps: between 1 and n, ties of the rounding to even.

    >>> kept_count(0.1, 25), kept_count(0.001, 3), kept_count(0.5, 0)
    (2, 1, 0)
    """
    return min(n, max(1, round(fraction * n)))


def largest(keys: npt.NDArray[np.unsignedinteger[npt.NBitBase]] | Words, k: int) -> Indices:
    """Positions of the k largest keys, rising; of equal keys the first ones are taken.

    Args:
        keys: shape (n,), unsigned.
        k: clamped to 0..n.

    >>> largest(np.array([1, 7, 7, 7], np.uint8), 2).tolist()
    [1, 2]
    """
    n = len(keys)
    if k >= n:
        return np.arange(n, dtype=np.int64)
    if k <= 0:
        return np.zeros(0, np.int64)
    least = np.partition(keys, n - k)[n - k]
    above = np.flatnonzero(keys > least)
    equal = np.flatnonzero(keys == least)[: k - len(above)]
    return np.sort(np.concatenate([above, equal])).astype(np.int64)


def random_words(seed: int, purpose: str, name: str, n: int) -> npt.NDArray[np.uint64]:
    """n random words of 64 bits that depend on seed, purpose and tensor name alone.

    Philox (Salmon et al. 2011) keyed by SHA-256: the same on every machine and for any number of
    threads; tensors of different names get unrelated words.
    """
    text = f"{purpose}\0{seed}\0{name}".encode("utf-8", "surrogatepass")
    key = int.from_bytes(hashlib.sha256(text).digest()[:16], "little")
    return np.asarray(np.random.Philox(key=key).random_raw(n), dtype=np.uint64)


def _coded_spec(fraction: float, spec: TensorSpec) -> TensorSpec:
    k = kept_count(fraction, spec.n_parameters)
    return spec if k == spec.n_parameters else replace(spec, shape=(k,))


def _keep(tensor: Tensor, indices: Indices, coded_spec: TensorSpec) -> tuple[Tensor, Indices | None]:
    if len(indices) == tensor.n_parameters:
        return tensor, None
    return Tensor(coded_spec, tensor.words[indices]), indices


def _put_back(coded: Tensor, spec: TensorSpec, indices: Indices) -> Tensor:
    words = np.zeros(spec.n_parameters, spec.dtype.word)
    words[indices] = coded.words
    return Tensor(spec, words)


@dataclass(frozen=True, slots=True)
class TopK:
    """The values of largest magnitude; side information: their positions.

    A NaN counts as larger than any number; of equal magnitudes the first in C order are kept.
    """

    fraction: float
    gives_integers: bool = False
    needs_seed: bool = False

    @property
    def spelling(self) -> str:
        return f"topk:{self.fraction!r}"

    def coded_spec(self, spec: TensorSpec) -> TensorSpec:
        """The kept values' spec: shape (k,), or the tensor's own where all are kept."""
        return _coded_spec(self.fraction, spec)

    def apply(self, tensor: Tensor, side: SideWriter, seed: int) -> tuple[Tensor, Indices | None]:
        """The kept values and the flat cells they come from (None: all)."""
        keys = magnitude_words(tensor.words, tensor.dtype)
        keys[is_nan(tensor.words, tensor.dtype)] = np.iinfo(keys.dtype).max
        indices = largest(keys, kept_count(self.fraction, tensor.n_parameters))
        side.positions(indices, tensor.n_parameters)
        return _keep(tensor, indices, self.coded_spec(tensor.spec))

    def invert(self, coded: Tensor, spec: TensorSpec, side: SideReader, seed: int) -> Tensor:
        """The kept values in their cells, zeros elsewhere."""
        return _put_back(coded, spec, side.positions(coded.n_parameters, spec.n_parameters))


@dataclass(frozen=True, slots=True)
class RandomK:
    """Values chosen at random without replacement, not rescaled; side information: the seed, once.

    Scaling by n/k would make the result unbiased; it is left to the receiver, so that kept values
    stay exact.
    """

    fraction: float
    gives_integers: bool = False
    needs_seed: bool = True

    @property
    def spelling(self) -> str:
        return f"randk:{self.fraction!r}"

    def coded_spec(self, spec: TensorSpec) -> TensorSpec:
        """The kept values' spec: shape (k,), or the tensor's own where all are kept."""
        return _coded_spec(self.fraction, spec)

    def _indices(self, spec: TensorSpec, seed: int) -> Indices:
        n = spec.n_parameters
        return largest(random_words(seed, "randk", spec.name, n), kept_count(self.fraction, n))

    def apply(self, tensor: Tensor, side: SideWriter, seed: int) -> tuple[Tensor, Indices | None]:
        """The kept values and the flat cells they come from (None: all)."""
        return _keep(tensor, self._indices(tensor.spec, seed), self.coded_spec(tensor.spec))

    def invert(self, coded: Tensor, spec: TensorSpec, side: SideReader, seed: int) -> Tensor:
        """The kept values in their cells, zeros elsewhere."""
        return _put_back(coded, spec, self._indices(spec, seed))
