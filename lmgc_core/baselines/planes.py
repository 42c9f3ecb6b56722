"""Byte planes: byte i of every value together, each plane coded alone or stored, whichever is shorter.

The strongest simple baselines on gradients: sign and exponent share a plane, the mantissa's noise
stays apart and costs nothing extra. A plane is one flag byte, its length where it is not the last
one's, and its content.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.baselines.contract import Specs, join_parts
from lmgc_core.baselines.general import compress_zstd, decompress_zstd, lzma_filters
from lmgc_core.errors import CorruptContainer
from lmgc_core.gradient import DType, Words

Bytes = npt.NDArray[np.uint8]
PlaneEncoder = Callable[[bytes], bytes]
PlaneDecoder = Callable[[bytes, int], bytes]

_STORED, _CODED = 0, 1
_TOTAL_BITS = 16
_ROWS = 1 << 20


# A plane has no alignment to exploit, and a literal's predecessor tells little: lc = lp = pb = 0 was
# the shortest choice on every sample gradient.
_PLANE_LZMA = {"lc": 0, "lp": 0, "pb": 0}


def encode_plane_xz(plane: bytes) -> bytes:
    """LZMA2 with one context for literals and no assumption about alignment."""
    return lzma.compress(plane, lzma.FORMAT_RAW, filters=lzma_filters(len(plane), **_PLANE_LZMA))


def decode_plane_xz(data: bytes, n: int) -> bytes:
    return lzma.decompress(data, lzma.FORMAT_RAW, filters=lzma_filters(n, **_PLANE_LZMA))


def encode_order0(plane: bytes) -> bytes:
    """A range code under the plane's own frequencies, the table of frequencies before it.

    Frequencies add up to 2^16; the table is a bitmap of the bytes that occur and 16 bits for each.
    """
    import constriction

    symbols = np.frombuffer(plane, np.uint8)
    counts = np.bincount(symbols, minlength=256)
    used = np.flatnonzero(counts)
    table = np.packbits(counts > 0).tobytes()
    if len(used) == 1:
        return table
    frequencies = _scaled(counts[used])
    numbers = np.searchsorted(used, symbols).astype(np.int32)
    coder = constriction.stream.queue.RangeEncoder()
    coder.encode(numbers, _model(frequencies))
    payload: bytes = coder.get_compressed().astype("<u4").tobytes()
    return table + (frequencies - 1).astype("<u2").tobytes() + payload


def decode_order0(data: bytes, n: int) -> bytes:
    import constriction

    used = np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8, 32)))
    if len(used) == 1:
        return bytes([int(used[0])]) * n
    frequencies = np.frombuffer(data, "<u2", len(used), 32).astype(np.int64) + 1
    words = np.frombuffer(data, "<u4", offset=32 + 2 * len(used)).astype(np.uint32)
    numbers: npt.NDArray[np.int32] = constriction.stream.queue.RangeDecoder(words).decode(_model(frequencies), n)
    return used.astype(np.uint8)[numbers].tobytes()


def _scaled(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Frequencies of 1 and more in proportion to the counts, adding up to 2^16."""
    total = 1 << _TOTAL_BITS
    spare = total - len(counts)
    scaled: npt.NDArray[np.int64] = 1 + np.floor(counts * (spare / counts.sum())).astype(np.int64)
    scaled[int(np.argmax(counts))] += total - int(scaled.sum())
    return scaled


def _model(frequencies: npt.NDArray[np.int64]) -> Any:
    import constriction

    probabilities = frequencies.astype(np.float64) / (1 << _TOTAL_BITS)
    return constriction.stream.model.Categorical(probabilities, perfect=False)


def _encode_plane(plane: bytes, encode: PlaneEncoder) -> bytes:
    coded = encode(plane)
    return bytes([_CODED]) + coded if len(coded) < len(plane) else bytes([_STORED]) + plane


def _decode_plane(data: bytes, n: int, decode: PlaneDecoder) -> bytes:
    plane = decode(data[1:], n) if data[0] == _CODED else data[1:]
    if len(plane) != n:
        raise CorruptContainer(f"a plane of {len(plane)} bytes, {n} are needed")
    return plane


def plane_codec(
    encode: PlaneEncoder, decode: PlaneDecoder
) -> tuple[Callable[[Words, DType], bytes], Callable[[bytes, DType, int], Words]]:
    """Encoder and decoder of words by their byte planes, given those of one plane."""

    def encode_words(words: Words, dtype: DType) -> bytes:
        columns = np.ascontiguousarray(words).view(np.uint8).reshape(-1, dtype.item_bytes)
        parts = [_encode_plane(columns[:, i].tobytes(), encode) for i in range(dtype.item_bytes)]
        return join_parts(parts[:-1]) + parts[-1]

    def decode_words(data: bytes, dtype: DType, n: int) -> Words:
        parts = _split_before_last(data, dtype.item_bytes)
        columns = [np.frombuffer(_decode_plane(part, n, decode), np.uint8) for part in parts]
        return np.stack(columns, axis=1).view(dtype.word).reshape(-1)

    return encode_words, decode_words


def _split_before_last(data: bytes, n_parts: int) -> list[bytes]:
    """Parts of which only the last has no length before it."""
    parts, rest = [], data
    for _ in range(n_parts - 1):
        head = 0
        size = shift = 0
        while True:
            byte = rest[head]
            head, size, shift = head + 1, size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        parts.append(rest[head : head + size])
        rest = rest[head + size :]
    return [*parts, rest]


def refuse_exponents(specs: Specs) -> str | None:
    """Only floats have exponents."""
    for spec in specs:
        if spec.dtype.kind != "float":
            return f"tensor {spec.name!r} holds {spec.dtype.name} values, which have no exponent"
    return None


def _bits(words: Words, dtype: DType) -> Bytes:
    """Bits of each value, most significant first, shape (n, bits)."""
    columns = np.ascontiguousarray(words).view(np.uint8).reshape(-1, dtype.item_bytes)[:, ::-1]
    return np.unpackbits(columns, axis=1)


def encode_exponents(words: Words, dtype: DType) -> bytes:
    """Exponents under their own frequencies (order 0), sign and mantissa bits packed as they are."""
    from lmgc_core.gradient import exponent_field

    field = exponent_field(words, dtype)
    planes = [(field >> 8).astype(np.uint8), (field & 255).astype(np.uint8)][0 if dtype.exponent_bits > 8 else 1 :]
    coded = [_encode_plane(p.tobytes(), encode_order0) for p in planes]
    kept = _rest_columns(dtype)
    rest = [
        np.packbits(_bits(words[first : first + _ROWS], dtype)[:, kept]).tobytes()
        for first in range(0, len(words), _ROWS)
    ]
    return join_parts(coded) + b"".join(rest)


def decode_exponents(data: bytes, dtype: DType, n: int) -> Words:
    n_planes = 2 if dtype.exponent_bits > 8 else 1
    *planes, rest = _split_before_last(data, n_planes + 1)
    field = np.zeros(n, np.uint64)
    for plane in planes:
        field = field << np.uint64(8) | np.frombuffer(_decode_plane(plane, n, decode_order0), np.uint8)
    kept = _rest_columns(dtype)
    words: Words = np.empty(n, dtype.word)
    for first in range(0, n, _ROWS):
        rows = min(_ROWS, n - first)
        size = (rows * len(kept) + 7) // 8
        part, rest = rest[:size], rest[size:]
        bits = np.zeros((rows, dtype.bits), np.uint8)
        bits[:, kept] = np.unpackbits(np.frombuffer(part, np.uint8), count=rows * len(kept)).reshape(rows, len(kept))
        packed = np.ascontiguousarray(np.packbits(bits, axis=1)[:, ::-1])
        words[first : first + rows] = packed.view(dtype.word).reshape(-1)
    words |= (field << np.uint64(dtype.mantissa_bits)).astype(dtype.word)
    return words


def _rest_columns(dtype: DType) -> npt.NDArray[np.int64]:
    places = np.arange(dtype.bits)
    first = dtype.sign_bits
    return places[(places < first) | (places >= first + dtype.exponent_bits)]


ENCODE_XZ, DECODE_XZ = plane_codec(encode_plane_xz, decode_plane_xz)
ENCODE_ZSTD, DECODE_ZSTD = plane_codec(compress_zstd, decompress_zstd)
ENCODE_ORDER0, DECODE_ORDER0 = plane_codec(encode_order0, decode_order0)
