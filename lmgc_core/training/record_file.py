"""One recorded step ↔ one safetensors file: tensors with their bits unchanged, and text that says what they are.

A file appears whole or not at all, and equal content gives equal bytes: safetensors writes metadata in a
random order, so the header is put in the order of its names afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lmgc_core.errors import UnsupportedInput
from lmgc_core.gradient import Gradient
from lmgc_core.whole_file import whole_file


def save_record(gradient: Gradient, path: Path | str, metadata: Mapping[str, str]) -> int:
    """Writes a gradient with metadata as safetensors, atomically; returns the bytes of the file.

    Args:
        gradient: any tensors; names and bits are kept.
        path: replaced if it is there.
        metadata: text to text.

    Raises:
        UnsupportedInput: where the folder cannot be written to.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path = Path(path)
    arrays = {tensor.name: np.ascontiguousarray(tensor.array).reshape(tensor.shape) for tensor in gradient}
    try:
        with whole_file(path) as temporary:
            save_file(arrays, temporary, dict(metadata))
            _sort_header(temporary)
    except (OSError, SafetensorError) as error:
        raise UnsupportedInput(f"{path.name} could not be written: {error}") from error
    return path.stat().st_size


def _sort_header(path: Path) -> None:
    """Puts the header's metadata in the order of its names, in place; its length stays."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        if "__metadata__" in header:
            header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) > length:
            return  # another spelling of the same text; the file is right as it is
        file.seek(8)
        file.write(text.ljust(length))
