"""Casts: values rounded to a narrower float type, ties to even; inverse: widened back, exactly.

A finite value past the target's range becomes an infinity, or a NaN in float8_e4m3fn, which has no
infinities: nothing is clamped, and `ErrorReport.n_overflowed` counts them. A NaN stays a NaN, its
payload is not kept. A tensor that is already as narrow as the target's values allow passes unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lmgc_core.gradient import DTYPES, DType, Tensor, TensorSpec
from lmgc_core.transforms.exact import from_float64, to_float64
from lmgc_core.transforms.positions import Indices
from lmgc_core.transforms.side import SideReader, SideWriter


@dataclass(frozen=True, slots=True)
class Cast:
    """One cast.

    Attributes:
        name: how the transform is spelled.
        target: name of the float type it rounds to.
    """

    name: str
    target: str
    gives_integers: bool = False
    needs_seed: bool = False

    @property
    def spelling(self) -> str:
        return self.name

    def _dtype_for(self, dtype: DType) -> DType:
        target = DTYPES[self.target]
        return dtype if target.bits > dtype.bits else target

    def coded_spec(self, spec: TensorSpec) -> TensorSpec:
        """The same tensor in the target's type, unless that is the wider one."""
        return replace(spec, dtype=self._dtype_for(spec.dtype))

    def apply(self, tensor: Tensor, side: SideWriter, seed: int) -> tuple[Tensor, Indices | None]:
        """The rounded tensor; every cell stays where it is."""
        target = self._dtype_for(tensor.dtype)
        if target == tensor.dtype:
            return tensor, None
        words = from_float64(to_float64(tensor.words, tensor.dtype), target)
        return Tensor(self.coded_spec(tensor.spec), words), None

    def invert(self, coded: Tensor, spec: TensorSpec, side: SideReader, seed: int) -> Tensor:
        """The rounded values in the tensor's own type."""
        if coded.dtype == spec.dtype:
            return Tensor(spec, coded.words)
        return Tensor(spec, from_float64(to_float64(coded.words, coded.dtype), spec.dtype))
