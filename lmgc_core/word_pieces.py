"""A tensor's words in pieces of a few megabytes, so that a look at all of them does not need memory for all of them.

Law: the pieces, joined, are the words. Pages of a mapped file are given back behind each piece; they are read again
when they are needed. Source: madvise(2), MADV_DONTNEED on a read-only mapping.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

PIECE_BYTES = 8 << 20

_Words = npt.NDArray[np.unsignedinteger[Any]]


def word_pieces(words: _Words) -> Iterator[_Words]:
    """Runs of consecutive words of about 8 MB, contiguous, in order.

    >>> [len(piece) for piece in word_pieces(np.zeros(5_000_000, np.uint32))]
    [2097152, 2097152, 805696]
    """
    mapped = _mapping(words)
    step = PIECE_BYTES // words.itemsize
    for first in range(0, len(words), step):
        yield np.ascontiguousarray(words[first : first + step])
        if mapped is not None:
            mapped.madvise(mmap.MADV_DONTNEED)


def _mapping(words: _Words) -> mmap.mmap | None:
    """The read-only mapping of a file that the words are a view of, where there is one that can give pages back."""
    base: Any = words
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if words.flags.writeable or type(base) is not mmap.mmap or not hasattr(base, "madvise"):
        return None
    return base
