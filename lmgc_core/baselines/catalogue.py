"""The baselines by their ids. An id, once published, means the same method for ever."""

from __future__ import annotations

from lmgc_core.baselines import general, numeric, planes
from lmgc_core.baselines.contract import Baseline, by_dtype, whole_buffer

_ALL = (
    whole_buffer("gzip", "gzip -9", general.compress_gzip, general.decompress_gzip),
    whole_buffer("bz2", "bzip2 -9", general.compress_bz2, general.decompress_bz2),
    whole_buffer("xz", "xz -9e (LZMA2, no frame)", general.compress_xz, general.decompress_xz),
    whole_buffer("zstd", "zstd -19", general.compress_zstd, general.decompress_zstd, "zstandard", "zstandard"),
    whole_buffer("brotli", "brotli -q 11", general.compress_brotli, general.decompress_brotli, "brotli", "brotli"),
    whole_buffer("lz4", "LZ4 HC 12 (block)", general.compress_lz4, general.decompress_lz4, "lz4.block", "lz4"),
    whole_buffer(
        "png",
        "PNG, grey, a pixel a byte",
        general.compress_png,
        general.decompress_png,
        "PIL.Image",
        "pillow",
        general.refuse_png,
    ),
    whole_buffer(
        "flac",
        "FLAC 8, 16-bit mono",
        general.compress_flac,
        general.decompress_flac,
        "soundfile",
        "soundfile",
        general.refuse_flac,
    ),
    by_dtype("fpzip", "fpzip", numeric.encode_fpzip, numeric.decode_fpzip, "fpzip", "fpzip", numeric.refuse_fpzip),
    by_dtype(
        "zfp", "zfp, reversible", numeric.encode_zfp, numeric.decode_zfp, "zfpy", "zfpy==1.0.1", numeric.refuse_zfp
    ),
    by_dtype(
        "pcodec", "pcodec 12", numeric.encode_pcodec, numeric.decode_pcodec, "pcodec", "pcodec", numeric.refuse_pcodec
    ),
    by_dtype(
        "blosc2-shuffle",
        "blosc2: byte shuffle + zstd 9",
        numeric.encode_shuffle,
        numeric.decode_blosc2,
        "blosc2",
        "blosc2",
        numeric.refuse_blosc2,
    ),
    by_dtype(
        "blosc2-bitshuffle",
        "blosc2: bit shuffle + zstd 9",
        numeric.encode_bitshuffle,
        numeric.decode_blosc2,
        "blosc2",
        "blosc2",
        numeric.refuse_blosc2,
    ),
    by_dtype(
        "zipnn",
        "ZipNN",
        numeric.encode_zipnn,
        numeric.decode_zipnn,
        "zipnn",
        '"zipnn>=0.5" (builds with a C compiler)',
        numeric.refuse_zipnn,
    ),
    by_dtype(
        "order0-planes", "byte planes, order-0 range code", planes.ENCODE_ORDER0, planes.DECODE_ORDER0, "constriction"
    ),
    by_dtype("planes-xz", "byte planes + xz -9e", planes.ENCODE_XZ, planes.DECODE_XZ),
    by_dtype("planes-zstd", "byte planes + zstd -19", planes.ENCODE_ZSTD, planes.DECODE_ZSTD, "zstandard"),
    by_dtype(
        "exponent-entropy",
        "exponents, order-0 range code; the rest stored",
        planes.encode_exponents,
        planes.decode_exponents,
        "constriction",
        refusal=planes.refuse_exponents,
    ),
)
BASELINES: dict[str, Baseline] = {baseline.id: baseline for baseline in _ALL}

# the baselines of the paper's tables, which its code fed 512 bytes at a time
PAPER_IDS = ("png", "flac", "gzip", "xz", "fpzip")
