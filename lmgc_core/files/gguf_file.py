"""GGUF, llama.cpp's format: unquantised tensors are read, quantised ones refused by name. Needs the gguf package."""

from __future__ import annotations

from typing import Any

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import ReadOptions, Source, make_source, one_line
from lmgc_core.gradient import DTYPES, TensorSpec

DTYPE_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
}


def open_gguf(file: FileBytes, options: ReadOptions) -> Source:
    """The file's tensors; shapes are turned round, because GGUF lists the innermost size first.

    Raises:
        UnsupportedInput: without the gguf package, for a damaged file, and when all tensors are quantised.
    """
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise UnsupportedInput("GGUF files need the gguf package; install it with `pip install gguf`") from error
    reader = GGUFReader(file.path)
    specs: list[TensorSpec] = []
    offsets: dict[str, int] = {}
    refused: dict[str, str] = {}
    for tensor in reader.tensors:
        shape = tuple(int(size) for size in reversed(tensor.shape.tolist()))
        kind = tensor.tensor_type.name
        if kind not in DTYPE_NAMES:
            refused[tensor.name] = f"quantised values ({kind}); convert the file to F16, BF16 or F32"
            continue
        spec = TensorSpec(tensor.name, DTYPES[DTYPE_NAMES[kind]], shape)
        offset = int(tensor.data_offset)
        if offset + spec.raw_bytes > file.size:
            raise UnsupportedInput(
                f"truncated: {tensor.name!r} ends at byte {offset + spec.raw_bytes:,} of {file.size:,}"
            )
        specs.append(spec)
        offsets[spec.name] = offset
    metadata = {"general.architecture": text} if (text := _text(reader, "general.architecture")) else {}
    byte_order = "big" if getattr(reader, "endianess", 0) == 1 else "little"
    return make_source(
        file.label,
        "gguf",
        specs,
        lambda spec: file.words(offsets[spec.name], spec, byte_order),  # type: ignore[arg-type]
        metadata=metadata,
        refused=refused,
    )


def _text(reader: Any, key: str) -> str | None:
    found = reader.get_field(key)
    value = found.contents() if found is not None else None
    return one_line(value, 100) if isinstance(value, str) else None
