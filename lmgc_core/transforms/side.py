"""Side information: the bytes that a lossy step needs beside its coded values.

Inverse pair: `SideWriter` / `SideReader`. Every chunk ends where its reader stops, so nothing but
the content takes room, and `SideInformation.n_bytes` is exactly `len(to_bytes())`: what an archive
stores is what the report counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import CorruptContainer
from lmgc_core.transforms.positions import Indices, pack_positions, unpack_positions


@dataclass(frozen=True, slots=True)
class SideInformation:
    """What a transform costs beside its coded values.

    Attributes:
        shared: bytes that all tensors share (the seed, where a decoder needs it).
        tensors: name and bytes of each tensor, in the gradient's order.
    """

    shared: bytes
    tensors: tuple[tuple[str, bytes], ...]

    @property
    def n_bytes(self) -> int:
        """All bytes, exactly as many as `to_bytes` gives."""
        return len(self.shared) + sum(len(data) for _, data in self.tensors)

    @property
    def tensor_bytes(self) -> dict[str, int]:
        """Bytes of each tensor by its name, without the shared ones."""
        return {name: len(data) for name, data in self.tensors}

    def to_bytes(self) -> bytes:
        """The shared bytes, then each tensor's; `Transform.reconstruct` reads them back."""
        return self.shared + b"".join(data for _, data in self.tensors)


@dataclass(slots=True)
class SideWriter:
    """Appends numbers, arrays and sets of positions to a run of bytes."""

    data: bytearray = field(default_factory=bytearray)

    def count(self, value: int) -> None:
        """A whole number of 0 or more, seven bits a byte, low ones first (LEB128)."""
        while value > 127:
            self.data.append(value & 127 | 128)
            value >>= 7
        self.data.append(value)

    def array(self, values: npt.NDArray[Any], dtype: str) -> None:
        """The values as little-endian `dtype`; their number is known to the reader."""
        self.data += np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()

    def flags(self, flags: npt.NDArray[np.bool_]) -> None:
        """One bit each, the first in the highest bit of a byte."""
        self.data += np.packbits(flags).tobytes()

    def positions(self, indices: Indices, n: int) -> None:
        """A set of rising positions below n whose size the reader knows; nothing for none or all of them."""
        self.data += pack_positions(indices, n)


@dataclass(slots=True)
class SideReader:
    """Reads what `SideWriter` wrote, in the same order.

    Every method raises `CorruptContainer` where the bytes end early or contradict themselves.
    """

    data: bytes
    offset: int = 0

    def take(self, n_bytes: int) -> bytes:
        """The next bytes."""
        end = self.offset + n_bytes
        if end > len(self.data):
            raise CorruptContainer(f"side information ends after {len(self.data)} bytes, {end} are needed")
        part, self.offset = self.data[self.offset : end], end
        return part

    def count(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def array(self, n: int, dtype: str) -> npt.NDArray[Any]:
        little = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(self.take(n * little.itemsize), little)

    def flags(self, n: int) -> npt.NDArray[np.bool_]:
        packed = np.frombuffer(self.take((n + 7) // 8), np.uint8)
        return np.unpackbits(packed, count=n).astype(np.bool_)

    def positions(self, k: int, n: int) -> Indices:
        indices, used = unpack_positions(self.data[self.offset :], k, n)
        self.offset += used
        return indices

    def finish(self) -> None:
        """Raises CorruptContainer where bytes are left over."""
        if self.offset != len(self.data):
            raise CorruptContainer(f"side information has {len(self.data) - self.offset} bytes too many")
