"""Gradient files: what is in them, and their values bit for bit.

`open_source` reads headers, `Source.read` values, `load_gradient` both; `inspect_file` describes;
`save_gradient` is the inverse of `load_gradient` for .safetensors, .npz and .npy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmgc_core.files.inspection import inspect_file as inspect_file
    from lmgc_core.files.opening import load_gradient as load_gradient
    from lmgc_core.files.opening import open_source as open_source
    from lmgc_core.files.saving import save_gradient as save_gradient
    from lmgc_core.files.source import Source as Source

_HOMES = {
    "inspect_file": "inspection",
    "load_gradient": "opening",
    "open_source": "opening",
    "save_gradient": "saving",
    "Source": "source",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"lmgc_core.files.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'lmgc_core.files' has no attribute {name!r}")
