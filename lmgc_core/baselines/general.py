"""General-purpose byte compressors on the whole buffer, and the two media formats of the paper's tables."""

from __future__ import annotations

import bz2
import gzip
import lzma
from typing import Any

import numpy as np

from lmgc_core.baselines.contract import Specs

LEVEL_ZSTD = 19
PNG_WIDTH = 1024


def compress_gzip(data: bytes) -> bytes:
    """Deflate, level 9, in gzip's frame without a time stamp."""
    return gzip.compress(data, 9, mtime=0)


def decompress_gzip(data: bytes, n_bytes: int) -> bytes:
    return gzip.decompress(data)


def compress_bz2(data: bytes) -> bytes:
    return bz2.compress(data, 9)


def decompress_bz2(data: bytes, n_bytes: int) -> bytes:
    return bz2.decompress(data)


def lzma_filters(n_bytes: int, **options: int) -> list[dict[str, Any]]:
    """LZMA2 at its strongest preset, the dictionary no larger than the data (else 64 MiB)."""
    size = min(max(n_bytes, 4096), 1 << 26)
    return [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": size, **options}]


def compress_xz(data: bytes) -> bytes:
    """LZMA2 without xz's frame, index and checksum: the least that decodes."""
    return lzma.compress(data, lzma.FORMAT_RAW, filters=lzma_filters(len(data)))


def decompress_xz(data: bytes, n_bytes: int) -> bytes:
    return lzma.decompress(data, lzma.FORMAT_RAW, filters=lzma_filters(n_bytes))


def compress_zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=LEVEL_ZSTD, write_content_size=True, write_checksum=False).compress(data)


def decompress_zstd(data: bytes, n_bytes: int) -> bytes:
    import zstandard

    return zstandard.ZstdDecompressor().decompress(data, max_output_size=n_bytes)


def compress_brotli(data: bytes) -> bytes:
    import brotli

    packed: bytes = brotli.compress(data, quality=11, lgwin=24)
    return packed


def decompress_brotli(data: bytes, n_bytes: int) -> bytes:
    import brotli

    raw: bytes = brotli.decompress(data)
    return raw


def compress_lz4(data: bytes) -> bytes:
    """LZ4 block, high compression 12, without the frame; the length is known to the decoder."""
    import lz4.block

    packed: bytes = lz4.block.compress(data, mode="high_compression", compression=12, store_size=False)
    return packed


def decompress_lz4(data: bytes, n_bytes: int) -> bytes:
    import lz4.block

    raw: bytes = lz4.block.decompress(data, uncompressed_size=n_bytes)
    return raw


def refuse_png(specs: Specs) -> str | None:
    """Pictures have at least one pixel, and readers refuse very large ones."""
    n_bytes = sum(s.raw_bytes for s in specs)
    if n_bytes == 0:
        return "a picture cannot be empty"
    if n_bytes > 80_000_000:
        return f"a picture of {n_bytes} pixels is larger than readers accept (80 million)"
    return None


def compress_png(data: bytes) -> bytes:
    """The bytes as grey pixels, 1,024 a row, the last row padded with zeros."""
    import io

    from PIL import Image

    width = min(PNG_WIDTH, len(data))
    height = -(-len(data) // width)
    out = io.BytesIO()
    Image.frombytes("L", (width, height), data.ljust(width * height, b"\0")).save(out, "PNG", optimize=True)
    return out.getvalue()


def decompress_png(data: bytes, n_bytes: int) -> bytes:
    import io

    from PIL import Image

    with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
        return bytes(image.tobytes()[:n_bytes])


def refuse_flac(specs: Specs) -> str | None:
    """A recording has at least one sample."""
    return None if sum(s.raw_bytes for s in specs) else "a recording cannot be empty"


def compress_flac(data: bytes) -> bytes:
    """The bytes as 16-bit samples of one channel, little-endian, an odd last byte padded."""
    import io

    import soundfile

    out = io.BytesIO()
    samples = np.frombuffer(data.ljust(len(data) + len(data) % 2, b"\0"), "<i2")
    soundfile.write(out, samples, 44100, format="FLAC", subtype="PCM_16", compression_level=1.0)
    return out.getvalue()


def decompress_flac(data: bytes, n_bytes: int) -> bytes:
    import io

    import soundfile

    samples, _ = soundfile.read(io.BytesIO(data), dtype="int16")
    return bytes(samples.astype("<i2").tobytes()[:n_bytes])
