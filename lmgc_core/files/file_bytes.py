"""A regular file's bytes, mapped: words that stand ready in the file are views of it, all others are copied in pieces.

The law: `words(offset, spec)` has the bits that the file has, in little-endian words and logical C order.
A mapped word is aligned, little-endian and in C order; other words cost their own size in memory and no more,
because the pages they were copied from are given back.
"""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path
from typing import Literal

import numpy as np

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.source import CHUNK_BYTES, damaged, empty_words
from lmgc_core.gradient import TensorSpec, Words

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileBytes:
    """The bytes of one file, read-only; the file stays open as long as this object or a view of it lives.

    Attributes:
        path: where it is.
        label: what people call it.
        size: length in bytes, never 0.

    Raises:
        UnsupportedInput: for what is not a regular file, or has no bytes.
        OSError: when it cannot be opened.
    """

    def __init__(self, path: Path, label: str) -> None:
        self.path = path
        self.label = label
        # Without O_NONBLOCK a named pipe would wait here for a writer.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                kind = KINDS.get(stat.S_IFMT(status.st_mode), "something else")
                raise UnsupportedInput(f"this is {kind}, not a file; give a regular file")
            self.size = status.st_size
            if self.size == 0:
                raise UnsupportedInput("the file is empty (0 bytes); choose another or save it again")
            self._map = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(handle)

    def head(self, n_bytes: int) -> bytes:
        """The first bytes, at most `n_bytes`."""
        return self._map[:n_bytes]

    def slice(self, first: int, n_bytes: int) -> bytes:
        """A copy of the bytes from `first` on, at most `n_bytes`."""
        return self._map[first : first + n_bytes]

    def contains(self, sought: bytes, n_bytes: int) -> bool:
        """Whether the bytes sought stand among the first `n_bytes`; nothing is copied."""
        return self._map.find(sought, 0, n_bytes) >= 0

    def forget(self) -> None:
        """Gives resident pages back; they are read again when needed."""
        if hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def words(
        self,
        offset: int,
        spec: TensorSpec,
        byte_order: Literal["little", "big"] = "little",
        fortran: bool = False,
    ) -> Words:
        """The words of a tensor whose values lie together at `offset`.

        Args:
            offset: bytes before the first value.
            spec: dtype and logical shape.
            byte_order: order of a value's bytes in the file.
            fortran: whether the first axis varies fastest in the file.

        Raises:
            UnsupportedInput: when they reach past the end of the file.
        """
        if spec.n_parameters == 0:
            return empty_words(spec)
        if offset < 0 or offset + spec.raw_bytes > self.size:
            raise damaged(
                f"{spec.name!r}: truncated: {spec.raw_bytes:,} bytes expected from byte {offset:,} on, "
                f"the file has {self.size:,} in all"
            )
        stored_type = spec.dtype.word.newbyteorder("<" if byte_order == "little" else ">")
        stored = np.frombuffer(self._map, stored_type, spec.n_parameters, offset)
        aligned = offset % spec.dtype.item_bytes == 0
        flat = not fortran or sum(size > 1 for size in spec.shape) <= 1
        if flat and aligned and stored_type == spec.dtype.word:
            return stored
        out = empty_words(spec)
        if flat:
            step = CHUNK_BYTES // spec.dtype.item_bytes
            for first in range(0, len(out), step):
                out[first : first + step] = stored[first : first + step]
                self.forget()
            return out
        target = out.reshape(spec.shape)
        columns = stored.reshape(spec.shape, order="F")
        step = max(1, CHUNK_BYTES * spec.shape[-1] // spec.raw_bytes)
        for first in range(0, spec.shape[-1], step):
            target[..., first : first + step] = columns[..., first : first + step]
            self.forget()
        return out
