"""Quantisers: small integers and a scale for each tensor or run of values; inverse: scaled back.

Computed in float64 and rounded once to the tensor's own type; scales are stored as float32, rounded
up, or as float64 where float32 cannot hold them. Zeros come back as +0.0. Values that are not finite
are kept: their positions and their exact bits stand in the side information. Results are clamped to
the largest finite value of the tensor's type. Integers are int8 up to 8 bits, else int16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.gradient import DTYPES, Tensor, TensorSpec, Words
from lmgc_core.transforms.exact import Float64s, from_float64, is_finite, largest_finite, to_float64
from lmgc_core.transforms.positions import Indices
from lmgc_core.transforms.side import SideReader, SideWriter
from lmgc_core.transforms.sparsifiers import random_words

Floats = npt.NDArray[np.floating[Any]]


def _integer_spec(spec: TensorSpec, bits: int) -> TensorSpec:
    return replace(spec, dtype=DTYPES["int8" if bits <= 8 else "int16"])


def _runs(n: int, block: int) -> tuple[Indices, Indices]:
    """Starts and lengths of the runs that share a scale; one run for block 0."""
    starts = np.arange(0, n, block or max(n, 1), dtype=np.int64)
    return starts, np.diff(starts, append=n)


def _spread(values: npt.NDArray[Any], lengths: Indices) -> npt.NDArray[Any]:
    """One value a run → one a parameter (a single one is left to broadcasting)."""
    return values if len(values) <= 1 else np.repeat(values, lengths)


def _write_exceptions(side: SideWriter, tensor: Tensor, finite: npt.NDArray[np.bool_]) -> None:
    where = np.flatnonzero(~finite)
    side.count(len(where))
    side.positions(where, tensor.n_parameters)
    side.array(tensor.words[where], tensor.dtype.word.name)


def _read_exceptions(side: SideReader, words: Words, spec: TensorSpec) -> Words:
    k = side.count()
    where = side.positions(k, spec.n_parameters)
    words[where] = side.array(k, spec.dtype.word.name)
    return words


def _write_scales(side: SideWriter, scales: Float64s) -> Float64s:
    """Writes the scales, one byte of width first, and returns them as the reader will see them."""
    with np.errstate(all="ignore"):
        narrow = scales.astype(np.float32)
        narrow = np.where(narrow < scales, np.nextafter(narrow, np.float32(np.inf)), narrow)
    fits = np.isfinite(narrow) & ((scales == 0) | (narrow >= np.float32(2.0**-126)))
    wide = not fits.all()
    side.array(np.array([wide]), "u1")
    side.array(scales if wide else narrow, "f8" if wide else "f4")
    return scales if wide else narrow.astype(np.float64)


def _read_scales(side: SideReader, n: int) -> Float64s:
    wide = side.array(1, "u1")[0]
    return side.array(n, "f8" if wide else "f4").astype(np.float64)


def _to_words(values: Float64s, spec: TensorSpec) -> Words:
    most = largest_finite(spec.dtype)
    # + 0.0 turns a negative zero into a positive one
    return from_float64(np.clip(values, -most, most) + 0.0, spec.dtype)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Equal steps from the smallest to the largest value, with an exact zero.

    step = (max − min) / (2^bits − 1). Where 0 lies in [min, max], the zero point is nudged to a whole
    code, so that zeros are exact; else the smallest value is stored exactly and codes count from it.
    Error: at most one step, half of one before the result is rounded to the tensor's type.

    Attributes:
        bits: 1 to 16; more bits, smaller error.
        block: values that share a scale, 0 for the whole tensor; smaller, finer and more side information.
    """

    bits: int
    block: int = 0
    gives_integers: bool = True
    needs_seed: bool = False

    @property
    def spelling(self) -> str:
        return f"uniform:{self.bits}" + (f":{self.block}" if self.block else "")

    def coded_spec(self, spec: TensorSpec) -> TensorSpec:
        """The same shape in int8 or int16."""
        return _integer_spec(spec, self.bits)

    def _shifts(self, zeros: Float64s) -> Float64s:
        """What is taken off the codes 0..2^bits − 1 so that they fit a signed integer, zero near 0."""
        bottom = 128 if self.bits <= 8 else 32768
        top_code = (1 << self.bits) - 1
        return np.clip(zeros, top_code - (bottom - 1), bottom)

    def apply(self, tensor: Tensor, side: SideWriter, seed: int) -> tuple[Tensor, Indices | None]:
        """The codes, shape kept."""
        spec, top_code = self.coded_spec(tensor.spec), (1 << self.bits) - 1
        if tensor.n_parameters == 0:
            return Tensor(spec, np.zeros(0, spec.dtype.word)), None
        values, finite = to_float64(tensor.words, tensor.dtype), is_finite(tensor.words, tensor.dtype)
        starts, lengths = _runs(len(values), self.block)
        low = np.minimum.reduceat(np.where(finite, values, np.inf), starts)
        high = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
        low, high = np.where(low > high, 0.0, low), np.where(low > high, 0.0, high)
        with np.errstate(all="ignore"):
            spans = high - low
            steps = np.where(np.isfinite(spans), spans / top_code, high / top_code - low / top_code)
            steps = np.minimum(steps, np.finfo(np.float64).max)
            short = steps * top_code < spans
            steps = np.where(short & (steps < np.finfo(np.float64).max), np.nextafter(steps, np.inf), steps)
        steps = _write_scales(side, steps)
        has_zero = (low <= 0) & (high >= 0)
        divisors = np.where(steps == 0, 1.0, steps)
        with np.errstate(over="ignore"):
            zeros = np.where(has_zero, np.clip(np.rint(-low / divisors), 0, top_code), 0.0)
        side.flags(has_zero)
        side.array(zeros[has_zero], "u1" if self.bits <= 8 else "u2")
        side.array(from_float64(low[~has_zero], tensor.dtype), tensor.dtype.word.name)
        _write_exceptions(side, tensor, finite)
        origins = _spread(np.where(has_zero, 0.0, low), lengths)
        with np.errstate(all="ignore"):
            codes = np.rint((values - origins) / _spread(divisors, lengths)) + _spread(zeros, lengths)
        codes = np.where(finite, np.clip(codes, 0, top_code), _spread(zeros, lengths))
        codes -= _spread(self._shifts(zeros), lengths)
        return Tensor(spec, codes.astype(spec.dtype.numpy).view(spec.dtype.word)), None

    def invert(self, coded: Tensor, spec: TensorSpec, side: SideReader, seed: int) -> Tensor:
        """origin + (code − zero point) · step, in the tensor's type."""
        if spec.n_parameters == 0:
            return Tensor(spec, np.zeros(0, spec.dtype.word))
        starts, lengths = _runs(spec.n_parameters, self.block)
        steps = _read_scales(side, len(starts))
        has_zero = side.flags(len(starts))
        n_zeros = int(has_zero.sum())
        zeros, origins = np.zeros(len(starts)), np.zeros(len(starts))
        zeros[has_zero] = side.array(n_zeros, "u1" if self.bits <= 8 else "u2")
        low = side.array(len(starts) - n_zeros, spec.dtype.word.name).astype(spec.dtype.word)
        origins[~has_zero] = to_float64(low, spec.dtype)
        codes = coded.words.view(coded.dtype.numpy) + _spread(self._shifts(zeros) - zeros, lengths)
        with np.errstate(all="ignore"):
            values = _spread(origins, lengths) + codes * _spread(steps, lengths)
        return Tensor(spec, _read_exceptions(side, _to_words(values, spec), spec))


@dataclass(frozen=True, slots=True)
class Qsgd:
    """Stochastic rounding to signed levels of the Euclidean norm: right on average over seeds.

    Source: QSGD, Alistarh et al. 2017, equation for Q_s. With s = 2^(bits − 1) − 1 levels a value v
    becomes ‖v‖₂ · sign(v) · l / s, l being |v| · s / ‖v‖₂ rounded up with the probability of its
    fraction. Error: at most ‖v‖₂ / s. The noise depends on seed and tensor name alone.

    Attributes:
        bits: 2 to 16, the sign included.
        block: values that share a norm, 0 for the whole tensor; smaller, less noise and more side information.
    """

    bits: int
    block: int = 0
    gives_integers: bool = True
    needs_seed: bool = False

    @property
    def spelling(self) -> str:
        return f"qsgd:{self.bits}" + (f":{self.block}" if self.block else "")

    def coded_spec(self, spec: TensorSpec) -> TensorSpec:
        """The same shape in int8 or int16."""
        return _integer_spec(spec, self.bits)

    def apply(self, tensor: Tensor, side: SideWriter, seed: int) -> tuple[Tensor, Indices | None]:
        """The signed levels, shape kept."""
        spec, levels = self.coded_spec(tensor.spec), (1 << (self.bits - 1)) - 1
        if tensor.n_parameters == 0:
            return Tensor(spec, np.zeros(0, spec.dtype.word)), None
        finite = is_finite(tensor.words, tensor.dtype)
        values = np.where(finite, to_float64(tensor.words, tensor.dtype), 0.0)
        starts, lengths = _runs(len(values), self.block)
        most = np.maximum.reduceat(np.abs(values), starts)
        shares = values / _spread(np.where(most == 0, 1.0, most), lengths)
        with np.errstate(over="ignore"):
            norms = most * np.sqrt(np.add.reduceat(shares * shares, starts))
        norms = _write_scales(side, np.clip(norms, most, np.finfo(np.float64).max))
        _write_exceptions(side, tensor, finite)
        exact = np.minimum(np.abs(values) / _spread(np.where(norms == 0, 1.0, norms), lengths), 1.0) * levels
        noise = (random_words(seed, "qsgd", tensor.name, len(values)) >> np.uint64(11)) * 2.0**-53
        below = np.floor(exact)
        codes = np.copysign(below + (noise < exact - below), values)
        return Tensor(spec, codes.astype(spec.dtype.numpy).view(spec.dtype.word)), None

    def invert(self, coded: Tensor, spec: TensorSpec, side: SideReader, seed: int) -> Tensor:
        """norm · level / s, in the tensor's type."""
        if spec.n_parameters == 0:
            return Tensor(spec, np.zeros(0, spec.dtype.word))
        starts, lengths = _runs(spec.n_parameters, self.block)
        norms = _spread(_read_scales(side, len(starts)), lengths)
        with np.errstate(over="ignore"):
            values = norms * (coded.words.view(coded.dtype.numpy) / ((1 << (self.bits - 1)) - 1))
        return Tensor(spec, _read_exceptions(side, _to_words(values, spec), spec))


@dataclass(frozen=True, slots=True)
class Sign:
    """The sign of each value times one scale, the mean magnitude of the values that are not zero.

    Ternary: zeros stay zero. Among all such scales this one has the least squared error.
    Source: 1-bit SGD and scaled sign compression (Seide et al. 2014, Karimireddy et al. 2019).
    """

    gives_integers: bool = True
    needs_seed: bool = False

    @property
    def spelling(self) -> str:
        return "sign"

    def coded_spec(self, spec: TensorSpec) -> TensorSpec:
        """The same shape in int8."""
        return _integer_spec(spec, 8)

    def apply(self, tensor: Tensor, side: SideWriter, seed: int) -> tuple[Tensor, Indices | None]:
        """−1, 0 and 1, shape kept."""
        spec = self.coded_spec(tensor.spec)
        if tensor.n_parameters == 0:
            return Tensor(spec, np.zeros(0, spec.dtype.word)), None
        finite = is_finite(tensor.words, tensor.dtype)
        values = np.where(finite, to_float64(tensor.words, tensor.dtype), 0.0)
        magnitudes = np.abs(values[values != 0])
        most = magnitudes.max(initial=0.0)
        scale = min(most, float((magnitudes / most).mean()) * most) if most > 0 else 0.0
        side.array(from_float64(np.array([scale]), tensor.dtype), tensor.dtype.word.name)
        _write_exceptions(side, tensor, finite)
        return Tensor(spec, np.sign(values).astype(np.int8).view(spec.dtype.word)), None

    def invert(self, coded: Tensor, spec: TensorSpec, side: SideReader, seed: int) -> Tensor:
        """The scale with each code's sign, in the tensor's type."""
        if spec.n_parameters == 0:
            return Tensor(spec, np.zeros(0, spec.dtype.word))
        scale = to_float64(side.array(1, spec.dtype.word.name).astype(spec.dtype.word), spec.dtype)
        values = np.sign(coded.words.view(np.int8)) * scale
        return Tensor(spec, _read_exceptions(side, _to_words(values, spec), spec))
