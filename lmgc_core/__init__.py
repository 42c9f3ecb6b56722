"""What do language models know about gradients: the library behind the app and the command line.

Names are loaded on first use, so that `import lmgc_core` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Gradient": "gradient",
    "Tensor": "gradient",
    "TensorSpec": "gradient",
    "CodecConfig": "settings",
    "RunOptions": "settings",
    "Serialization": "settings",
    "preset": "settings",
    "LmgcError": "errors",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"lmgc_core.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'lmgc_core' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_HOMES)
