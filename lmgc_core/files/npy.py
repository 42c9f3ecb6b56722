"""numpy's .npy: a text header (dtype, order, shape) before the values. Source: numpy's format description (NEP 1).

The header is read here, and not by numpy, because a lost type ("V2", "f1") or a pickled one has to be named,
and because declared and present bytes are compared before anything is allocated. Nothing is unpickled, ever.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any, Literal

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import ReadOptions, Source, damaged, dtype_of_width, make_source
from lmgc_core.gradient import DTYPES, DType, TensorSpec
from lmgc_core.wording import counted

MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 10_000  # numpy's own limit: longer texts make its parser slow
MAX_AXES = 64

KIND_NAMES = {"f": "float", "i": "int", "u": "uint", "b": "bool"}
REFUSED_KINDS = {
    "O": "object values, which are pickles and run code when opened; save plain numbers, e.g. array.astype('float32')",
    "c": "complex values; save real and imaginary parts as two arrays",
    "M": "dates; save numbers",
    "m": "time spans; save numbers",
    "S": "byte strings; save numbers",
    "a": "byte strings; save numbers",
    "U": "text; save numbers",
    "g": "extended precision values; save array.astype('float64')",
}


class RefusedMember(UnsupportedInput):
    """A whole, readable header of values that are not numbers a gradient can hold."""


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What a header says.

    Attributes:
        dtype: the element type.
        shape: the logical shape.
        fortran: whether the first axis varies fastest.
        byte_order: order of a value's bytes.
        n_bytes: length of magic, version and header: the offset of the values.
    """

    dtype: DType
    shape: tuple[int, ...]
    fortran: bool
    byte_order: Literal["little", "big"]
    n_bytes: int

    def spec(self, name: str) -> TensorSpec:
        """The tensor of that name."""
        return TensorSpec(name, self.dtype, self.shape)


def parse_npy_header(head: bytes, options: ReadOptions) -> NpyHeader:
    """The header at the start of `head`.

    Args:
        head: the first bytes of the file; `MAX_HEADER_BYTES + 12` are enough.
        options: `raw_dtype` names the type of values whose own was lost.

    Raises:
        RefusedMember: for values that are not numbers, or whose type was lost and not said.
        UnsupportedInput: for a header that is no header.
    """
    if not head.startswith(MAGIC) or len(head) < 10:
        raise damaged("not an npy file, or truncated: the header is missing")
    major = head[6]
    if major not in (1, 2, 3):
        raise UnsupportedInput(f"npy header version {major}.{head[7]} is not known; 1.0, 2.0 and 3.0 are")
    start = 10 if major == 1 else 12
    length = int.from_bytes(head[8:start], "little")
    if length > MAX_HEADER_BYTES:
        raise damaged(f"npy header of {length:,} bytes, at most {MAX_HEADER_BYTES:,} are allowed")
    text = head[start : start + length]
    if len(text) < length:
        raise damaged(f"truncated: npy header of {length:,} bytes, {len(text):,} are there")
    try:
        fields = _header_fields(text.decode("latin1" if major < 3 else "utf-8"))
    except UnicodeDecodeError:
        raise damaged("npy header is not utf-8 text, as version 3.0 needs") from None
    shape, fortran = fields["shape"], fields["fortran_order"]
    dtype, byte_order = _element_type(fields["descr"], options)
    return NpyHeader(dtype, shape, fortran, byte_order, start + length)


def _header_fields(text: str) -> dict[str, Any]:
    text = re.sub(r"(?<=\d)L(?=\s*[,)])", "", text)  # Python 2 wrote long integers as 3L
    try:
        fields = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise damaged("npy header is no dictionary of descr, fortran_order and shape") from None
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise damaged("npy header must hold exactly descr, fortran_order and shape")
    shape = fields["shape"]
    if not isinstance(shape, tuple) or not all(type(n) is int for n in shape):
        raise damaged(f"npy header: shape {shape!r} is no tuple of whole numbers")
    if any(n < 0 for n in shape):
        raise damaged(f"npy header: shape {shape!r} has a negative size")
    if len(shape) > MAX_AXES:
        raise UnsupportedInput(f"npy header: {len(shape)} axes, at most {MAX_AXES} are allowed; save it with fewer")
    if type(fields["fortran_order"]) is not bool:
        raise damaged(f"npy header: fortran_order {fields['fortran_order']!r} is neither True nor False")
    return fields


def _element_type(descr: Any, options: ReadOptions) -> tuple[DType, Literal["little", "big"]]:
    if isinstance(descr, list | tuple):
        raise RefusedMember(f"structured dtype (records with fields) {descr!r}; save each field as its own array")
    parts = re.fullmatch(r"([<>|=]?)([A-Za-z?])(\d*)", descr) if isinstance(descr, str) else None
    if parts is None:
        raise RefusedMember(f"npy header: dtype {descr!r} is not known; save float, int or bool values")
    order: Literal["little", "big"] = "big" if parts[1] == ">" else "little"
    kind, width = parts[2], int(parts[3] or (1 if parts[2] in "?b" else 0))
    if kind in REFUSED_KINDS:
        raise RefusedMember(f"dtype {descr!r}: {REFUSED_KINDS[kind]}")
    if kind == "V" or (kind == "f" and width == 1):
        return _lost_type(kind, width, options), order
    named = "bool" if kind in "?b" and width == 1 else f"{KIND_NAMES.get(kind, kind)}{8 * width}"
    if named not in DTYPES:
        raise RefusedMember(f"dtype {descr!r} ({named}) is not supported; save one of {', '.join(DTYPES)}")
    return DTYPES[named], order


def _lost_type(kind: str, width: int, options: ReadOptions) -> DType:
    choices = dtype_of_width(width)
    said = options.said_dtype
    if said is not None and said.item_bytes == width:
        return said
    if said is not None:
        raise RefusedMember(
            f"dtype {kind}{width} (void, its type was lost) has {width} bytes a value, "
            f"--raw-dtype {said.name} has {said.item_bytes}; choose one of {', '.join(choices) or 'none'}"
        )
    example = {1: "float8_e4m3fn", 2: "bfloat16"}.get(width)
    hint = f"say what it is, e.g. --raw-dtype {example} (of {', '.join(choices)})" if example else "save plain numbers"
    raise RefusedMember(f"dtype {kind}{width} (void): numpy did not store the type of these values; {hint}")


def open_npy(file: FileBytes, options: ReadOptions) -> Source:
    """One nameless tensor.

    Raises:
        UnsupportedInput: when fewer bytes are there than the header declares, and as `parse_npy_header`.
    """
    header = parse_npy_header(file.head(MAX_HEADER_BYTES + 12), options)
    spec = header.spec("")
    trailing = check_length(spec, file.size - header.n_bytes)
    return make_source(
        file.label,
        "npy",
        (spec,),
        lambda s: file.words(header.n_bytes, s, header.byte_order, header.fortran),
        notes=[trailing] if trailing else [],
    )


def check_length(spec: TensorSpec, present: int) -> str | None:
    """Compares declared with present bytes; a warning when more are there.

    Raises:
        UnsupportedInput: when fewer are there.
    """
    if present < spec.raw_bytes:
        raise damaged(
            f"truncated: shape {spec.shape} of {spec.dtype.name} declares {spec.raw_bytes:,} bytes, "
            f"{max(present, 0):,} are there"
        )
    if present > spec.raw_bytes:
        left = counted(present - spec.raw_bytes, "byte")
        return f"{left} after the array left out; only the first array is read"
    return None
