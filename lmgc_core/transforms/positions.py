"""Sets of positions ↔ bytes: which of n cells, as short as four simple ways allow.

Inverse pair: `pack_positions` / `unpack_positions`; a reader knows n and how many positions there are.
A method byte says which way was shortest:

- 0: a bitmap, the first cell in the highest bit of a byte;
- 1 + r: Rice-coded gaps, the low r bits of all gaps first, then their quotients in unary
  (S. W. Golomb 1966, R. F. Rice 1979): near the entropy where positions are independent;
- 100: the bitmap, LZMA2; 101: gaps as bytes (255 says "and go on"), LZMA2: these find the structure
  that kept values of real gradients have (dead channels, large filters), often half the size.
"""

from __future__ import annotations

import lzma
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import CorruptContainer

Indices = npt.NDArray[np.int64]

_BITMAP, _LZMA_BITMAP, _LZMA_GAPS = 0, 100, 101
_MOST_RICE = 62
_GO_ON = 255


def pack_positions(indices: Indices, n: int) -> bytes:
    """The bytes of a rising set of positions below n; none for the empty and the full set.

    >>> pack_positions(np.array([0, 1, 5]), 8).hex(), pack_positions(np.arange(8), 8).hex()
    ('00c4', '')
    """
    k = len(indices)
    if k in (0, n):
        return b""
    gaps = np.diff(indices, prepend=-1) - 1
    flags = np.zeros(n, np.bool_)
    flags[indices] = True
    bitmap = np.packbits(flags).tobytes()
    near = max(0, int(np.log2((n - k) / k + 1)))
    rice = min(range(max(0, near - 2), near + 2), key=lambda r: k * r + int((gaps >> r).sum()))
    options = [(_BITMAP, bitmap), (rice + 1, _pack_rice(gaps, rice)), (_LZMA_BITMAP, _lzma(bitmap))]
    if int((gaps // _GO_ON).sum()) < n // 8:
        options.append((_LZMA_GAPS, _lzma(_gap_bytes(gaps))))
    method, data = min(options, key=lambda option: len(option[1]))
    return bytes([method]) + data


def unpack_positions(data: bytes, k: int, n: int) -> tuple[Indices, int]:
    """The k positions below n that stand at the start of `data`, and how many bytes they take.

    Raises:
        CorruptContainer: where the bytes end early or contradict k or n.
    """
    if k > n:
        raise CorruptContainer(f"side information names {k} positions among {n}")
    if k in (0, n):
        return np.arange(k, dtype=np.int64), 0
    if not data:
        raise CorruptContainer("side information ends before a set of positions")
    method, rest = data[0], data[1:]
    if method == _BITMAP:
        bitmap, used = rest[: (n + 7) // 8], (n + 7) // 8
        return _from_bitmap(bitmap, k, n), 1 + used
    if method == _LZMA_BITMAP:
        bitmap, used = _unlzma(rest, (n + 7) // 8)
        return _from_bitmap(bitmap, k, n), 1 + used
    if method == _LZMA_GAPS:
        packed, used = _unlzma(rest, k + n // _GO_ON + 1)
        return _from_gaps(_gaps_of(packed), k, n), 1 + used
    if method - 1 > _MOST_RICE:
        raise CorruptContainer(f"side information has the unknown method {method}")
    gaps, used = _unpack_rice(rest, method - 1, k, n)
    return _from_gaps(gaps, k, n), 1 + used


def _from_bitmap(bitmap: bytes, k: int, n: int) -> Indices:
    if len(bitmap) != (n + 7) // 8:
        raise CorruptContainer(f"a bitmap of {len(bitmap)} bytes, {(n + 7) // 8} are needed")
    found = np.flatnonzero(np.unpackbits(np.frombuffer(bitmap, np.uint8), count=n))
    if len(found) != k:
        raise CorruptContainer(f"side information marks {len(found)} positions, {k} are needed")
    return found.astype(np.int64)


def _from_gaps(gaps: Indices, k: int, n: int) -> Indices:
    if len(gaps) != k:
        raise CorruptContainer(f"side information holds {len(gaps)} positions, {k} are needed")
    if (gaps < 0).any() or (gaps >= n).any() or int(gaps.sum()) + k > n:
        raise CorruptContainer(f"side information names a position past {n}")
    return np.cumsum(gaps + 1) - 1


def _pack_rice(gaps: Indices, rice: int) -> bytes:
    low = gaps[:, None] >> np.arange(rice - 1, -1, -1, dtype=np.int64) & 1
    stops = np.cumsum((gaps >> rice) + 1) - 1
    unary = np.zeros(int(stops[-1]) + 1, np.bool_)
    unary[stops] = True
    return np.packbits(low.reshape(-1).astype(np.bool_)).tobytes() + np.packbits(unary).tobytes()


def _unpack_rice(data: bytes, rice: int, k: int, n: int) -> tuple[Indices, int]:
    low_bytes = (k * rice + 7) // 8
    if low_bytes > len(data):
        raise CorruptContainer("side information ends inside a set of positions")
    bits = np.unpackbits(np.frombuffer(data, np.uint8, low_bytes), count=k * rice).reshape(k, rice).astype(np.int64)
    longest = (k + (n - k >> rice) + 7) // 8
    unary = np.unpackbits(np.frombuffer(data[low_bytes : low_bytes + longest], np.uint8))
    stops = np.flatnonzero(unary)[:k]
    if len(stops) < k:
        raise CorruptContainer(f"side information holds {len(stops)} positions, {k} are needed")
    quotients = np.diff(stops, prepend=-1) - 1
    return (quotients << rice) + bits @ (1 << np.arange(rice - 1, -1, -1, dtype=np.int64)), (
        low_bytes + int(stops[-1]) // 8 + 1
    )


def _gap_bytes(gaps: Indices) -> bytes:
    wholes, rests = np.divmod(gaps, _GO_ON)
    out = np.full(int(wholes.sum()) + len(gaps), _GO_ON, np.uint8)
    out[np.cumsum(wholes + 1) - 1] = rests
    return out.tobytes()


def _gaps_of(data: bytes) -> Indices:
    values = np.frombuffer(data, np.uint8).astype(np.int64)
    ends = np.flatnonzero(values != _GO_ON)
    gaps: Indices = values[ends] + _GO_ON * (np.diff(ends, prepend=-1) - 1)
    return gaps


def _filters() -> list[dict[str, Any]]:
    return [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0}]


def _lzma(data: bytes) -> bytes:
    return lzma.compress(data, lzma.FORMAT_RAW, filters=_filters())


def _unlzma(data: bytes, most: int) -> tuple[bytes, int]:
    """At most `most` bytes, and how many bytes of `data` the stream took."""
    decoder = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_filters())
    try:
        out = decoder.decompress(data, max_length=most + 1)
    except lzma.LZMAError as error:
        raise CorruptContainer(f"side information does not decode: {error}") from None
    if not decoder.eof or len(out) > most:
        raise CorruptContainer("side information ends inside a set of positions")
    return out, len(data) - len(decoder.unused_data)
