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
    "load_gradient": "files",
    "inspect_file": "files",
    "save_gradient": "files",
    "load_model": "language_model",
    "load_tokenizer": "language_model",
    "measure": "codec",
    "Progress": "codec",
    "Report": "report",
    "write_report": "report_files",
    "RunStore": "store",
    "Question": "question",
    "load_or_measure": "kept",
    "compress": "archive",
    "decompress": "archive",
    "verify_archive": "archive",
    "describe": "archive",
    "record_gradients": "training",
    "generate": "training",
    "GenerateConfig": "training",
    "compare": "compare",
    "count_tokens": "token_efficiency",
    "apply_transform": "transforms",
    "measure_error": "transforms",
    "run_baselines": "baselines",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(import_module(f"lmgc_core.{_HOMES[name]}"), name)
        globals()[name] = found  # also where a submodule of the same name has just been bound
        return found
    raise AttributeError(f"module 'lmgc_core' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_HOMES)
