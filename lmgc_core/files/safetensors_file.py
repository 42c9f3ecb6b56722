"""safetensors: a JSON header (name, dtype, shape, offsets) and the values, little-endian, without holes.

The library's parser validates the whole header; what it accepts has tensors that follow one another without
gap or overlap, so their places follow from their sizes. Values are mapped, never converted. Source: safetensors 0.8.
"""

from __future__ import annotations

import json
from typing import Any

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import ReadOptions, Source, damaged, make_source, one_line
from lmgc_core.gradient import DTYPES, TensorSpec

MAX_HEADER_BYTES = 5_000_000  # 50,000 tensors; parsed, a header takes 20 times its size in memory
DTYPE_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "BOOL": "bool",
}
# What the library knows and a gradient here cannot hold: bits of one value, and why.
REFUSED_DTYPES = {
    "C64": (64, "C64 (complex64) values are not supported; save real and imaginary parts as two tensors"),
    "F4": (4, "F4 values share bytes; save them as U8 or as a wider float"),
    "F6_E2M3": (6, "F6_E2M3 values share bytes; save them as U8 or as a wider float"),
    "F6_E3M2": (6, "F6_E3M2 values share bytes; save them as U8 or as a wider float"),
}


def open_safetensors(file: FileBytes, options: ReadOptions) -> Source:
    """The file's tensors, in the order of their bytes.

    Raises:
        UnsupportedInput: when the library's parser refuses the header, or there are no tensors.
    """
    from safetensors import SafetensorError, safe_open

    length = int.from_bytes(file.head(8), "little")
    if length > MAX_HEADER_BYTES and length + 8 <= file.size:
        raise UnsupportedInput(
            f"a header of {length:,} bytes; at most {MAX_HEADER_BYTES:,} are allowed; save fewer tensors a file"
        )
    try:
        with safe_open(file.path, framework="numpy") as handle:
            metadata = handle.metadata() or {}
            order = handle.offset_keys()
    except SafetensorError as error:
        raise damaged(f"not a whole safetensors file: {one_line(error, 140)}") from error
    entries = _entries(file.slice(8, length))
    specs: list[TensorSpec] = []
    offsets: dict[str, int] = {}
    refused: dict[str, str] = {}
    offset = 8 + length
    for name in order:
        stored, shape = entries[name]["dtype"], tuple(entries[name]["shape"])
        if stored in DTYPE_NAMES:
            spec = TensorSpec(name, DTYPES[DTYPE_NAMES[stored]], shape)
            specs.append(spec)
            offsets[name] = offset
            offset += spec.raw_bytes
        else:
            bits, why = REFUSED_DTYPES.get(stored, (0, f"{stored} values are not supported"))
            refused[name] = why
            offset += TensorSpec(name, DTYPES["uint8"], shape).n_parameters * bits // 8
    if offset != file.size:
        raise damaged(f"the header accounts for {offset:,} bytes, the file has {file.size:,}")
    return make_source(
        file.label,
        "safetensors",
        specs,
        lambda spec: file.words(offsets[spec.name], spec),
        metadata=metadata,
        refused=refused,
    )


def _entries(header: bytes) -> dict[str, Any]:
    """The header, which the library has checked; but of two entries of one name it keeps the last."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            name = next(n for n, _ in pairs if n in seen or seen.add(n))  # type: ignore[func-returns-value]
            raise UnsupportedInput(f"duplicate name: {name!r} stands twice in the header; give each its own name")
        return found

    content: dict[str, Any] = json.loads(header, object_pairs_hook=unique)
    return content
