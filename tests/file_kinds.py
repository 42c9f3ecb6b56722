"""Builders of gradient files: the same arrays in every format, and files that are wrong in one way each.

Shared by the tests of readers; nothing here is read from disk.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]

NAN_PAYLOADS = np.array([0x7F800001, 0xFFBFFFFF, 0x7FC00001, 0xFFC12345, 0x7F800000, 0x80000000, 1], "<u4").view("<f4")


def some_arrays() -> dict[str, np.ndarray]:
    """Two dtypes, three shapes (one empty, one of no axes), signalling NaNs, denormals and -0.0."""
    rng = np.random.default_rng(7)
    return {
        "conv.weight": rng.normal(size=(4, 3, 2)).astype("<f4"),
        "odd": NAN_PAYLOADS.copy(),
        "step": np.array(3.5, "<f8"),
        "none": np.zeros((3, 0), "<f4"),
    }


def raw_bytes(array: np.ndarray) -> bytes:
    """Little-endian C-order bytes, by numpy alone."""
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def write_safetensors(path: Path, arrays: Arrays) -> Path:
    """By hand, so that the tests do not lean on the writer they test."""
    names = {"float32": "F32", "float64": "F64", "float16": "F16", "uint8": "U8", "int64": "I64"}
    header: dict[str, Any] = {}
    body = b""
    for name, array in arrays.items():
        data = raw_bytes(array)
        header[name] = {
            "dtype": names[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    return write_safetensors_header(path, json.dumps(header).encode(), body)


def write_safetensors_header(path: Path, header: bytes, body: bytes) -> Path:
    padded = header + b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(padded)) + padded + body)
    return path


def write_npz(path: Path, arrays: Arrays) -> Path:
    np.savez(path, **arrays)
    return path


def write_npz_deflated(path: Path, arrays: Arrays) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def write_torch(path: Path, arrays: Arrays) -> Path:
    import torch

    torch.save(as_tensors(arrays), path)
    return path


def write_torch_legacy(path: Path, arrays: Arrays) -> Path:
    import torch

    torch.save(as_tensors(arrays), path, _use_new_zipfile_serialization=False)
    return path


def write_torch_deflated(path: Path, arrays: Arrays) -> Path:
    whole = io.BytesIO()
    import torch

    torch.save(as_tensors(arrays), whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
    return path


def as_tensors(arrays: Arrays) -> dict[str, Any]:
    """torch tensors with the arrays' bits (through bytes: torch keeps signalling NaNs only there)."""
    import torch

    return {
        name: torch.frombuffer(bytearray(raw_bytes(array)), dtype=getattr(torch, array.dtype.name)).reshape(array.shape)
        if array.size
        else torch.empty(array.shape, dtype=getattr(torch, array.dtype.name))
        for name, array in arrays.items()
    }


def write_gguf(path: Path, arrays: Arrays) -> Path:
    """GGUF 3 by hand: one metadata pair, then the tensor infos, then values aligned to 32 bytes."""
    kinds = {"float32": 0, "float16": 1, "float64": 28}

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    infos, body = b"", b""
    for name, array in arrays.items():
        shape = array.shape or (1,)
        infos += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        infos += struct.pack("<IQ", kinds[array.dtype.name], len(body))
        body += raw_bytes(array)
        if name != list(arrays)[-1]:
            body += bytes(-len(body) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(arrays), 1)
    head += text("general.architecture") + struct.pack("<I", 8) + text("gradient")
    head += infos
    path.write_bytes(head + bytes(-len(head) % 32) + body)
    return path


def write_hdf5(path: Path, arrays: Arrays) -> Path:
    import h5py

    with h5py.File(path, "w") as handle:
        for name, array in arrays.items():
            handle[name.replace(".", "/")] = array
    return path


def write_folder(path: Path, arrays: Arrays) -> Path:
    path.mkdir()
    for number, (name, array) in enumerate(arrays.items()):
        write_safetensors(path / f"part{number}.safetensors", {name: array})
    return path


def write_index(path: Path, arrays: Arrays) -> Path:
    folder = path.parent
    shards = {}
    for number, (name, array) in enumerate(arrays.items(), 1):
        shard = f"model-{number:05}-of-{len(arrays):05}.safetensors"
        write_safetensors(folder / shard, {name: array})
        shards[name] = shard
    path.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": shards}))
    return path


WRITERS: dict[str, tuple[str, Callable[[Path, Arrays], Path]]] = {
    "safetensors": ("g.safetensors", write_safetensors),
    "npz": ("g.npz", write_npz),
    "npz-deflated": ("d.npz", write_npz_deflated),
    "torch": ("g.pt", write_torch),
    "torch-legacy": ("legacy.ckpt", write_torch_legacy),
    "torch-deflated": ("deflated.pth", write_torch_deflated),
    "gguf": ("g.gguf", write_gguf),
    "hdf5": ("g.h5", write_hdf5),
    "folder": ("run", write_folder),
    "index": ("model.safetensors.index.json", write_index),
}


def arrays_for(kind: str) -> dict[str, np.ndarray]:
    """`some_arrays`, without what the format cannot say (GGUF has neither 0 axes nor sizes of 0)."""
    arrays = some_arrays()
    if kind == "gguf":
        arrays = {n: a for n, a in arrays.items() if a.shape and a.size}
    if kind == "hdf5":
        arrays = {n.replace(".", "/"): a for n, a in sorted(arrays.items())}
    return arrays


def write_kind(kind: str, folder: Path, arrays: Arrays | None = None) -> Path:
    """The arrays as a file of that kind in `folder`."""
    name, writer = WRITERS[kind]
    return writer(folder / name, arrays_for(kind) if arrays is None else arrays)


def npy_bytes(header: str, data: bytes, version: tuple[int, int] = (1, 0), length: int | None = None) -> bytes:
    """An npy file with that header text, as it is."""
    text = header.encode("latin1")
    width = "<H" if version[0] == 1 else "<I"
    text += b" " * (-(len(text) + 8 + struct.calcsize(width) + 1) % 64) + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack(width, len(text) if length is None else length) + text + data


def npy_header(descr: str, shape: object, fortran: bool = False) -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"
