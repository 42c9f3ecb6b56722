"""Gradients to files: the inverse of `load_gradient` for .safetensors, .npz and .npy.

Law: `load_gradient(save_gradient(g, p))` has the bits of g. A file appears whole or not at all.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from lmgc_core.errors import UnsupportedInput
from lmgc_core.gradient import Gradient, Tensor
from lmgc_core.whole_file import whole_file

RESERVED_NAME = "__metadata__"


def save_gradient(gradient: Gradient, path: str | os.PathLike[str]) -> Path:
    """Writes the gradient in the format that the path's ending names, and returns the path.

    Args:
        gradient: what to write; .npy holds one tensor without its name.
        path: ends in .safetensors, .npz or .npy; an existing file is replaced as a whole.

    Raises:
        UnsupportedInput: for another ending, for what the format cannot hold, or when the disk refuses.
    """
    target = Path(path)
    write = WRITERS.get(target.suffix.lower())
    if write is None:
        raise UnsupportedInput(f"{target.name}: end the name in one of {', '.join(WRITERS)}")
    try:
        _check_names(gradient)
        with whole_file(target) as temporary:
            write(gradient, temporary)
    except OSError as error:
        raise UnsupportedInput(f"{target.name}: cannot be written: {error.strerror or error}") from error
    except UnsupportedInput as error:
        raise UnsupportedInput(f"{target.name}: {error}") from error
    return target


def _check_names(gradient: Gradient) -> None:
    for tensor in gradient:
        try:
            tensor.name.encode()
        except UnicodeEncodeError:
            raise UnsupportedInput(f"the name {tensor.name!r} is no valid text; rename that tensor") from None


def _write_safetensors(gradient: Gradient, path: Path) -> None:
    from safetensors import SafetensorError, TensorSpec, serialize_file

    kept: list[Any] = []  # the library reads addresses: the words must live until it is done
    members: dict[str, Any] = {}
    for tensor in gradient:
        if tensor.name == RESERVED_NAME:
            raise UnsupportedInput(f"safetensors reserves the name {RESERVED_NAME!r}; rename that tensor")
        words = np.ascontiguousarray(tensor.words)
        kept.append(words)
        members[tensor.name] = TensorSpec(
            dtype=tensor.dtype.name, shape=list(tensor.shape), data_ptr=words.ctypes.data, data_len=words.nbytes
        )
    try:
        serialize_file(members, path, metadata=dict(gradient.metadata) or None)
    except SafetensorError as error:
        raise UnsupportedInput(f"safetensors cannot hold this: {error}") from error


def _write_npz(gradient: Gradient, path: Path) -> None:
    if len(gradient) == 0:
        raise UnsupportedInput("a gradient without tensors; .npz would be an empty archive")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for tensor in gradient:
            if "\x00" in tensor.name:
                raise UnsupportedInput(f"a zip archive cannot hold the name {tensor.name!r}; save as .safetensors")
            member = zipfile.ZipInfo(f"{tensor.name}.npy")  # a fixed date: equal gradients give equal files
            with archive.open(member, "w", force_zip64=True) as stream:
                _write_array(tensor, stream)


def _write_npy(gradient: Gradient, path: Path) -> None:
    if len(gradient) != 1:
        raise UnsupportedInput(f".npy holds one array, there are {len(gradient)}; save as .npz or .safetensors")
    with path.open("wb") as stream:
        _write_array(gradient.tensors[0], stream)


def _write_array(tensor: Tensor, stream: IO[bytes]) -> None:
    if tensor.dtype.name.startswith(("bfloat", "float8")):
        raise UnsupportedInput(
            f"{tensor.name!r}: numpy's formats lose the type of {tensor.dtype.name}; save as .safetensors"
        )
    order = "|" if tensor.dtype.item_bytes == 1 else "<"
    header = {
        "descr": f"{order}{'b' if tensor.dtype.kind == 'bool' else tensor.dtype.numpy.kind}{tensor.dtype.item_bytes}",
        "fortran_order": False,
        "shape": tensor.shape,
    }
    np.lib.format.write_array_header_1_0(stream, header)
    words = np.ascontiguousarray(tensor.words)
    step = (8 << 20) // tensor.dtype.item_bytes
    for first in range(0, len(words), step):
        stream.write(words[first : first + step].tobytes())


WRITERS: dict[str, Callable[[Gradient, Path], None]] = {
    ".safetensors": _write_safetensors,
    ".npz": _write_npz,
    ".npy": _write_npy,
}
