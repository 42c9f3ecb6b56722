"""Baseline: a lossless compressor without a language model, and what one run of it found.

Inverse pair: `Baseline.encode` / `Baseline.decode`. Law: decoding gives the gradient's little-endian
C-order bytes, or the result is no size but a reason. Names, dtypes and shapes are known to the
decoder and not counted; everything else is, the codec's own headers included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lmgc_core.errors import CorruptContainer
from lmgc_core.gradient import DType, Gradient, TensorSpec, Words

Specs = Sequence[TensorSpec]


def takes_all(specs: Specs) -> str | None:
    """No reason to refuse."""
    return None


@dataclass(frozen=True, slots=True)
class Baseline:
    """One compressor.

    Attributes:
        id: published name; the same id means the same method for ever.
        label: for people: method and level.
        encode: gradient → bytes that hold all that `decode` needs beside the specs.
        decode: bytes and specs → the gradient's bytes.
        module: what must be importable, "" for the standard library.
        package: what pip installs where that is missing.
        refusal: specs → why this codec cannot take them, or None.
    """

    id: str
    label: str
    encode: Callable[[Gradient], bytes]
    decode: Callable[[bytes, Specs], bytes]
    module: str = ""
    package: str = ""
    refusal: Callable[[Specs], str | None] = takes_all


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """What one baseline reached on one gradient.

    Attributes:
        bytes: compressed size, only after decoding and comparing; else None.
        compression_rate: bytes over raw bytes, lower is better; None without size or without values.
        encode_mb_per_second: raw megabytes (10^6 bytes) a second of wall time, on this machine.
        verified: decoding gave exactly the gradient's bytes.
        reason: why there is no size; None where there is one.
    """

    id: str
    label: str
    bytes: int | None
    compression_rate: float | None
    encode_mb_per_second: float | None
    decode_mb_per_second: float | None
    verified: bool
    reason: str | None


def join_parts(parts: Sequence[bytes]) -> bytes:
    """The parts after each other, each after its length (seven bits a byte, low ones first).

    >>> join_parts([b"ab", b""]).hex()
    '02616200'
    """
    out = bytearray()
    for part in parts:
        size = len(part)
        while size > 127:
            out.append(size & 127 | 128)
            size >>= 7
        out.append(size)
        out += part
    return bytes(out)


def split_parts(data: bytes) -> list[bytes]:
    """The inverse of `join_parts`.

    Raises:
        CorruptContainer: where a part ends early.

    >>> split_parts(join_parts([b"ab", b""]))
    [b'ab', b'']
    """
    parts, offset = [], 0
    while offset < len(data):
        size = shift = 0
        while True:
            if offset >= len(data):
                raise CorruptContainer("a baseline's stream ends inside a length")
            byte = data[offset]
            offset, size, shift = offset + 1, size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        if offset + size > len(data):
            raise CorruptContainer("a baseline's stream ends inside a part")
        parts.append(data[offset : offset + size])
        offset += size
    return parts


def groups(specs: Specs) -> dict[DType, list[int]]:
    """Numbers of the tensors of each dtype, in the order of their first tensor."""
    found: dict[DType, list[int]] = {}
    for number, spec in enumerate(specs):
        found.setdefault(spec.dtype, []).append(number)
    return found


def by_dtype(
    id: str,
    label: str,
    encode_words: Callable[[Words, DType], bytes],
    decode_words: Callable[[bytes, DType, int], Words],
    module: str = "",
    package: str = "",
    refusal: Callable[[Specs], str | None] = takes_all,
) -> Baseline:
    """A baseline that codes all values of one dtype as one run, tensors after each other.

    Args:
        encode_words: words, shape (n,) with n ≥ 1, and their dtype → bytes.
        decode_words: the inverse, told n.
    """
    import numpy as np

    def encode(gradient: Gradient) -> bytes:
        parts = []
        for dtype, numbers in groups(gradient.specs).items():
            words = np.concatenate([gradient.tensors[i].words for i in numbers])
            parts.append(encode_words(words, dtype) if len(words) else b"")
        return parts[0] if len(parts) == 1 else join_parts(parts)

    def decode(data: bytes, specs: Specs) -> bytes:
        grouped = groups(specs)
        parts = [data] if len(grouped) == 1 else split_parts(data)
        tensors = [b""] * len(specs)
        for part, (dtype, numbers) in zip(parts, grouped.items(), strict=True):
            n = sum(specs[i].n_parameters for i in numbers)
            words = np.ascontiguousarray(decode_words(part, dtype, n) if n else np.zeros(0, dtype.word))
            raw, offset = words.tobytes(), 0
            for i in numbers:
                tensors[i] = raw[offset : offset + specs[i].raw_bytes]
                offset += specs[i].raw_bytes
            if offset != len(raw):
                raise CorruptContainer(f"{len(raw)} bytes decoded, {offset} are needed")
        return b"".join(tensors)

    return Baseline(id, label, encode, decode, module, package, refusal)


def whole_buffer(
    id: str,
    label: str,
    compress: Callable[[bytes], bytes],
    decompress: Callable[[bytes, int], bytes],
    module: str = "",
    package: str = "",
    refusal: Callable[[Specs], str | None] = takes_all,
) -> Baseline:
    """A baseline that takes all tensors' bytes as one buffer; `decompress` is told its length."""

    def encode(gradient: Gradient) -> bytes:
        return compress(gradient.to_bytes())

    def decode(data: bytes, specs: Specs) -> bytes:
        return decompress(data, sum(s.raw_bytes for s in specs))

    return Baseline(id, label, encode, decode, module, package, refusal)
