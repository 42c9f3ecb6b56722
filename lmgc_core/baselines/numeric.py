"""Compressors made for arrays of numbers; each takes all values of one dtype as one run."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.baselines.contract import Specs
from lmgc_core.gradient import DType, Words

# what these libraries see instead of a dtype they do not know: the unsigned integer of its width
_PCODEC = ("float64", "float32", "float16", "int64", "int32", "int16", "uint64", "uint32", "uint16")
_ZFP = ("float64", "float32", "int64", "int32")
# of the 28 bytes that its buffer has beyond the values, some are left for the coder's last bytes
_FPZIP_SPARE_BYTES = 20
_ZIPNN = ("float32", "float16", "bfloat16")


def _refuse_unless(specs: Specs, names: tuple[str, ...], codec: str) -> str | None:
    for spec in specs:
        if spec.dtype.name not in names:
            return f"{codec} takes {', '.join(names)}; tensor {spec.name!r} holds {spec.dtype.name}"
    if not any(s.n_parameters for s in specs):
        return f"{codec} needs at least one value"
    return None


def _as(words: Words, dtype: DType, known: tuple[str, ...]) -> npt.NDArray[Any]:
    return words.view(dtype.numpy) if dtype.name in known else words


def refuse_fpzip(specs: Specs) -> str | None:
    return _refuse_unless(specs, ("float32", "float64"), "fpzip")


def encode_fpzip(words: Words, dtype: DType) -> bytes:
    """fpzip, lossless, one dimension.

    Version 1.2.5 corrupts its heap where the result is longer than the values and 28 bytes (random
    bits do that). So zeros are appended as room, first plenty, then as few as the last result shows
    to be enough: what stands before them does not depend on them, and less of them is never longer.
    """
    import fpzip

    values = words.view(dtype.numpy)
    room = len(values) // 4 + 64
    while True:
        packed = bytes(fpzip.compress(np.concatenate([values, np.zeros(room, dtype.numpy)])))
        enough = max(0, -(-(len(packed) - values.nbytes - _FPZIP_SPARE_BYTES) // values.itemsize))
        if enough >= room:
            return packed
        room = enough


def decode_fpzip(data: bytes, dtype: DType, n: int) -> Words:
    import fpzip

    return np.ascontiguousarray(fpzip.decompress(data)).reshape(-1)[:n].view(dtype.word)


def refuse_zfp(specs: Specs) -> str | None:
    return _refuse_unless(specs, _ZFP, "zfp")


def encode_zfp(words: Words, dtype: DType) -> bytes:
    """zfp's reversible mode, one dimension."""
    import zfpy

    return bytes(zfpy.compress_numpy(words.view(dtype.numpy)))


def decode_zfp(data: bytes, dtype: DType, n: int) -> Words:
    import zfpy

    return np.ascontiguousarray(zfpy.decompress_numpy(data)).reshape(-1).view(dtype.word)


def refuse_pcodec(specs: Specs) -> str | None:
    return None if any(s.n_parameters for s in specs) else "pcodec needs at least one value"


def _pcodec_view(words: Words, dtype: DType) -> npt.NDArray[Any]:
    if dtype.name in _PCODEC:
        return words.view(dtype.numpy)
    return words if dtype.bits > 8 else words.astype(np.uint16)


def encode_pcodec(words: Words, dtype: DType) -> bytes:
    """Level 12; bfloat16 as 16-bit integers, types of one byte widened to them."""
    from pcodec import ChunkConfig, standalone

    return bytes(standalone.simple_compress(_pcodec_view(words, dtype), ChunkConfig(compression_level=12)))


def decode_pcodec(data: bytes, dtype: DType, n: int) -> Words:
    from pcodec import standalone

    values: npt.NDArray[Any] = np.asarray(standalone.simple_decompress(data))
    return values.view(dtype.word) if dtype.bits > 8 else values.astype(np.uint8)


def _encode_blosc2(words: Words, filter_name: str) -> bytes:
    import blosc2

    parameters = {
        "codec": blosc2.Codec.ZSTD,
        "clevel": 9,
        "typesize": words.itemsize,
        "nthreads": 1,
        "filters": [blosc2.Filter[filter_name]],
        "filters_meta": [0],
    }
    return bytes(blosc2.compress2(np.ascontiguousarray(words).tobytes(), **parameters))


def refuse_blosc2(specs: Specs) -> str | None:
    n_bytes = sum(s.raw_bytes for s in specs)
    if n_bytes == 0:
        return "blosc2 needs at least one value"
    return f"blosc2 takes less than 2 GB at once, these are {n_bytes} bytes" if n_bytes >= 2**31 - 32 else None


def encode_shuffle(words: Words, dtype: DType) -> bytes:
    """Bytes of equal place together, then zstd level 9."""
    return _encode_blosc2(words, "SHUFFLE")


def encode_bitshuffle(words: Words, dtype: DType) -> bytes:
    """Bits of equal place together, then zstd level 9."""
    return _encode_blosc2(words, "BITSHUFFLE")


def decode_blosc2(data: bytes, dtype: DType, n: int) -> Words:
    import blosc2

    return np.frombuffer(blosc2.decompress2(data, nthreads=1), dtype.word)


def refuse_zipnn(specs: Specs) -> str | None:
    return _refuse_unless(specs, _ZIPNN, "zipnn")


def _zipnn(dtype: DType) -> Any:
    from zipnn import ZipNN

    return ZipNN(input_format="byte", bytearray_dtype=dtype.name, threads=1)


def encode_zipnn(words: Words, dtype: DType) -> bytes:
    return bytes(_zipnn(dtype).compress(bytearray(np.ascontiguousarray(words).tobytes())))


def decode_zipnn(data: bytes, dtype: DType, n: int) -> Words:
    return np.frombuffer(bytes(_zipnn(dtype).decompress(data)), dtype.word)
