"""Lossy steps whose every cost is counted: casts, quantisers, sparsifiers and chains of them.

Start with `apply_transform` (values and side information), `transform_gradient` (all there is),
`parse_transform(...).reconstruct` (the decoder's inverse) and `measure_error`.
"""

from lmgc_core.transforms.chain import (
    ALLOWED,
    Transform,
    Transformed,
    apply_transform,
    parse_transform,
    transform_gradient,
)
from lmgc_core.transforms.error_report import ErrorReport, measure_error
from lmgc_core.transforms.side import SideInformation

__all__ = [
    "ALLOWED",
    "ErrorReport",
    "SideInformation",
    "Transform",
    "Transformed",
    "apply_transform",
    "measure_error",
    "parse_transform",
    "transform_gradient",
]
