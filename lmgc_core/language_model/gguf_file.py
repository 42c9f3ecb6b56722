"""A .gguf file read quickly: metadata, and the arrays it holds, dequantised one by one.

The gguf package reads the same in minutes where a file names 50,000 tokens, because it makes an array of
every string; its dequantisation is used. Source: the GGUF specification, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import ModelUnavailable

MAGIC = b"GGUF"
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MAX_TENSORS = 1_000_000


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One array's place: its logical shape (outermost first), storage type and offset in the file."""

    name: str
    shape: tuple[int, ...]
    storage: int
    offset: int


class GgufFile:
    """Metadata and tensors of a .gguf file.

    Attributes:
        metadata: keys to numbers, strings, booleans or lists of them.
        tensors: in file order.
    """

    def __init__(self, path: Path) -> None:
        """Reads the header.

        Raises:
            ModelUnavailable: for a file that is no GGUF, or ends before its header does.
        """
        self._path = path
        with open(path, "rb") as file:
            if file.read(4) != MAGIC:
                raise ModelUnavailable(f"{path.name} is not a GGUF file; fetch it again")
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 4
        try:
            self._read_header()
        except (struct.error, UnicodeDecodeError, KeyError, OverflowError, MemoryError):
            raise ModelUnavailable(f"{path.name} is cut short or damaged; fetch it again") from None

    def arrays(self) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
        """Every tensor as fp32, in file order, dequantised.

        Raises:
            ModelUnavailable: for a storage type that is not known, or data that end too early.
        """
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
        from gguf.quants import dequantize

        for tensor in self.tensors:
            try:
                kind = GGMLQuantizationType(tensor.storage)
                block, block_bytes = GGML_QUANT_SIZES[kind]
                n_bytes = int(np.prod(tensor.shape)) // block * block_bytes
                raw = np.frombuffer(self._data, np.uint8, n_bytes, tensor.offset)
                if kind in (GGMLQuantizationType.F32, GGMLQuantizationType.F16):
                    flat = raw.view(np.float32 if kind == GGMLQuantizationType.F32 else np.float16)
                else:
                    flat = dequantize(raw.reshape(*tensor.shape[:-1], -1), kind)
            except (ValueError, KeyError, NotImplementedError) as error:
                raise ModelUnavailable(f"{self._path.name}: tensor {tensor.name} cannot be read ({error})") from None
            yield tensor.name, np.ascontiguousarray(flat.reshape(tensor.shape), np.float32)

    def _read_header(self) -> None:
        version, n_tensors, n_pairs = self._take("<IQQ")
        if version not in (2, 3) or n_tensors > MAX_TENSORS:
            raise ModelUnavailable(f"{self._path.name} is GGUF version {version}; versions 2 and 3 are read")
        self.metadata: dict[str, Any] = {}
        for _ in range(n_pairs):
            key = self._string()
            self.metadata[key] = self._value(self._take("<I")[0])
        placed = []
        for _ in range(n_tensors):
            name = self._string()
            sizes = self._take(f"<{self._take('<I')[0]}Q")
            storage, offset = self._take("<IQ")
            placed.append((name, tuple(reversed(sizes)), storage, offset))
        alignment = int(self.metadata.get("general.alignment", 32))
        start = -(-self._at // alignment) * alignment
        self.tensors = [GgufTensor(name, shape, storage, start + offset) for name, shape, storage, offset in placed]

    def _take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return values

    def _string(self) -> str:
        (length,) = struct.unpack_from("<Q", self._data, self._at)
        start = self._at + 8
        self._at = start + length
        if self._at > len(self._data):
            raise struct.error("a string goes beyond the file")
        return self._data[start : self._at].decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            of, n = self._take("<IQ")
            if of in SCALARS:
                return list(self._take(f"<{n}{SCALARS[of]}"))
            return [self._value(of) for _ in range(n)]
        return self._take(f"<{SCALARS[kind]}")[0]
