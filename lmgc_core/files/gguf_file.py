"""GGUF, llama.cpp's format: unquantised tensors are read, quantised ones refused by name.

The header is walked here and its values are stepped over, not made: lists of a vocabulary are long, and a length
that a file declares is held against the bytes it has before anything is made of it. Source: the GGUF specification,
versions 2 and 3, either byte order.
"""

from __future__ import annotations

import struct
from typing import Any, Literal

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import ReadOptions, Source, damaged, make_source, one_line
from lmgc_core.gradient import DTYPES, TensorSpec

# Storage types by their number: those that are plain, and the names of those that are not.
PLAIN = {
    0: "float32",
    1: "float16",
    24: "int8",
    25: "int16",
    26: "int32",
    27: "int64",
    28: "float64",
    30: "bfloat16",
}
QUANTISED = {
    2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K",
    14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
    22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9
ALIGNMENT = 32
MAX_AXES = 8
MAX_NAME_BYTES = 4096
MAX_TENSORS = 100_000
MAX_VALUES = 1_500_000  # the largest vocabularies with their merges have half as many
MAX_DEPTH = 4


def open_gguf(file: FileBytes, options: ReadOptions) -> Source:
    """The file's tensors; shapes are turned round, because GGUF lists the innermost size first.

    Raises:
        UnsupportedInput: for a damaged file, and when all tensors are quantised.
    """
    header = _Header(file)
    specs: list[TensorSpec] = []
    offsets: dict[str, int] = {}
    refused: dict[str, str] = {}
    for name, shape, kind, offset in header.tensors:
        if kind not in PLAIN:
            named = QUANTISED.get(kind, f"storage type {kind}")
            refused[name] = f"quantised values ({named}); convert the file to F16, BF16 or F32"
            continue
        spec = TensorSpec(name, DTYPES[PLAIN[kind]], shape)
        if offset + spec.raw_bytes > file.size:
            raise damaged(f"truncated: {name!r} ends at byte {offset + spec.raw_bytes:,}, the file has {file.size:,}")
        specs.append(spec)
        offsets[name] = offset
    return make_source(
        file.label,
        "gguf",
        specs,
        lambda spec: file.words(offsets[spec.name], spec, header.byte_order),
        metadata={key: one_line(value, 100) for key, value in header.texts.items()},
        refused=refused,
    )


class _Header:
    """A walk through the header.

    Attributes:
        byte_order: of all numbers of the file.
        texts: the metadata kept: the architecture, where it is said.
        tensors: name, shape (outermost first), storage type, offset in the file.
    """

    def __init__(self, file: FileBytes) -> None:
        self._file = file
        self._at = 4
        self._n_values = 0
        self.byte_order: Literal["little", "big"] = "little"
        version = self._number("I")
        if version & 0xFFFF == 0:
            self.byte_order, version = "big", version >> 24
        if version not in (2, 3):
            raise UnsupportedInput(f"GGUF version {version}; versions 2 and 3 are read, convert the file again")
        n_tensors, n_pairs = self._number("Q"), self._number("Q")
        self._check(n_pairs, 13, "metadata values")
        self._check(n_tensors, 24, "tensors")
        if n_tensors > MAX_TENSORS:
            raise UnsupportedInput(f"{n_tensors:,} tensors; at most {MAX_TENSORS:,} are read")
        self.texts: dict[str, str] = {}
        alignment = ALIGNMENT
        for _ in range(n_pairs):
            key, kind = self._text(), self._number("I")
            if key == "general.alignment" and kind == 4:
                alignment = self._number("I")
            elif key == "general.architecture" and kind == STRING:
                self.texts[key] = self._text()
            else:
                self._step_over(kind, 0)
        if not 0 < alignment <= 1 << 20:
            raise UnsupportedInput(f"an alignment of {alignment} bytes is not sensible; the file is damaged")
        placed = [self._tensor() for _ in range(n_tensors)]
        start = -(-self._at // alignment) * alignment
        self.tensors = [(name, shape, kind, start + offset) for name, shape, kind, offset in placed]

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name, n_axes = self._text(), self._number("I")
        if n_axes > MAX_AXES:
            raise UnsupportedInput(f"{name!r}: {n_axes:,} axes; at most {MAX_AXES} are read")
        sizes = [self._number("Q") for _ in range(n_axes)]
        kind, offset = self._number("I"), self._number("Q")
        return name, tuple(reversed(sizes)), kind, offset

    def _step_over(self, kind: int, depth: int) -> None:
        self._n_values += 1
        if self._n_values > MAX_VALUES:
            raise UnsupportedInput(f"more than {MAX_VALUES:,} metadata values; convert the file without them")
        if kind == STRING:
            self._skip(self._number("Q"))
        elif kind == ARRAY and depth < MAX_DEPTH:
            of, n = self._number("I"), self._number("Q")
            if of in VALUE_BYTES:
                self._skip(n * VALUE_BYTES[of])
                return
            self._check(n, 8, "values in a list")
            for _ in range(n):
                self._step_over(of, depth + 1)
        elif kind in VALUE_BYTES:
            self._skip(VALUE_BYTES[kind])
        else:
            raise UnsupportedInput(f"metadata of type {kind} is not known; the file is damaged or newer")

    def _text(self) -> str:
        n_bytes = self._number("Q")
        if n_bytes > MAX_NAME_BYTES:
            raise UnsupportedInput(f"a name of {n_bytes:,} bytes; at most {MAX_NAME_BYTES:,} are read")
        start = self._at
        self._skip(n_bytes)
        return self._file.slice(start, n_bytes).decode("utf-8")

    def _number(self, form: str) -> int:
        start = self._at
        self._skip(struct.calcsize(f"<{form}"))
        order = "<" if self.byte_order == "little" else ">"
        value: Any = struct.unpack(order + form, self._file.slice(start, self._at - start))[0]
        return int(value)

    def _skip(self, n_bytes: int) -> None:
        self._at += n_bytes
        if self._at > self._file.size:
            raise damaged(f"truncated: the header reaches to byte {self._at:,}, the file has {self._file.size:,}")

    def _check(self, n: int, least_bytes: int, what: str) -> None:
        """Holds a declared count against the bytes that are left."""
        if n * least_bytes > self._file.size - self._at:
            raise damaged(f"declares {n:,} {what}, more than its {self._file.size:,} bytes can hold")
