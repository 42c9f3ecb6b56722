"""Gradients as the content of files to download: bytes in memory, or the reason why a format cannot hold them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from lmgc_core.errors import LmgcError
from lmgc_core.gradient import Gradient, Tensor, TensorSpec

FORMATS: dict[str, str] = {
    ".safetensors": "every name and type",
    ".npz": "for NumPy, all tensors by name",
    ".npy": "for NumPy, one tensor without its name",
}


def file_of(gradient: Gradient, suffix: str) -> bytes:
    """The content of a file of that kind. Raises LmgcError for what the format cannot hold."""
    from lmgc_core.files import save_gradient

    with tempfile.TemporaryDirectory(prefix="lmgc-download-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / f"gradient{suffix}"
        save_gradient(gradient, path)
        return path.read_bytes()


def refusal(gradient: Gradient, suffix: str) -> str:
    """Why a format cannot hold these names and types, "" if it can; no value is written.

    >>> refusal(Gradient.from_arrays({"w": np.float32([1.0])}), ".npy")
    ''
    """
    empty = (Tensor(TensorSpec(t.name, t.dtype, (0,)), np.zeros(0, t.dtype.word)) for t in gradient)
    try:
        file_of(Gradient(tuple(empty)), suffix)
    except LmgcError as error:
        return str(error)
    return ""


def plain_name(text: str) -> str:
    """A file name made of letters, digits, dots, dashes and underscores, of a length that every disk takes.

    >>> plain_name("ConvNet on MNIST, step 60")
    'ConvNet_on_MNIST__step_60'
    """
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in text)[:80] or "gradient"
