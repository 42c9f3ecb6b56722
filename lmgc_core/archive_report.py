"""What is said of an archive: what its header tells, and what making it cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lmgc_core.archive_decoding import open_archive
from lmgc_core.archive_header import tensor_fields
from lmgc_core.archive_proof import Verify
from lmgc_core.language_model.catalogue import CATALOGUE
from lmgc_core.plan import Coding
from lmgc_core.segment_encoding import EncodedSegment
from lmgc_core.settings import asks_model


@dataclass(frozen=True, slots=True)
class CompressResult:
    """An archive and what it cost.

    Attributes:
        archive: the bytes of the .lmgc file.
        report: sizes and proof, as interface: report, `compress`; further keys are additions.
    """

    archive: bytes
    report: dict[str, Any]


def describe(archive: bytes | CompressResult) -> dict[str, Any]:
    """What an archive says about itself; needs no model and decodes nothing.

    Raises:
        TruncatedContainer, CorruptContainer, IncompatibleContainer: as `decompress`.
    """
    container = open_archive(archive_bytes(archive))
    header = container.header
    entry = CATALOGUE.get(header.model)
    return {
        "format": 1,
        "container_bytes": container.n_bytes,
        "header_bytes": container.header_bytes,
        "names_and_shapes_bytes": len(tensor_fields(header.specs)),
        "payload_bytes": container.payload_bytes,
        "exceptions_bytes": container.exceptions_bytes,
        "n_segments": len(container.segments),
        "raw_bytes": sum(s.raw_bytes for s in header.specs),
        "compression_rate": _rate_of(container.n_bytes, sum(s.raw_bytes for s in header.specs)),
        "model": {
            "id": header.model,
            "source": header.source or (entry.source if entry else ""),
            "fingerprint": header.model_fingerprint.hex() or None,
            "tokenizer_fingerprint": header.tokenizer_fingerprint.hex(),
        },
        "decoding": {
            "needs": "model" if asks_model(header.prior) else "tokenizer",
            "memory_bytes": header.memory_megabytes * 1_000_000,
            "windows_in_step": header.segment,
            "longest_window": header.longest_window,
        },
        "settings": {
            "context_window": header.context_window,
            "support": header.support,
            "prior": header.prior,
            "segment": header.segment,
            "transform": header.transform,
            "seed": header.seed,
            "preset": header.preset,
            "guard_bits": 2.0**-header.guard_exponent,
            "serializations": {
                name: {f: getattr(s, f) for f in s.__dataclass_fields__} for name, s in header.serializations.items()
            },
        },
        "lossy": header.transform != "none",
        "tensors": [{"name": s.name, "dtype": s.dtype.name, "shape": list(s.shape)} for s in header.specs],
    }


def archive_bytes(archive: bytes | CompressResult) -> bytes:
    """The bytes of an archive, also of one that was just made."""
    return archive.archive if isinstance(archive, CompressResult) else bytes(archive)


def _rate_of(n_bytes: int, raw_bytes: int) -> float | None:
    return n_bytes / raw_bytes if raw_bytes else None


def compress_report(
    archive: bytes, coding: Coding, encoded: Sequence[EncodedSegment], verify: Verify, proven: Sequence[int]
) -> dict[str, Any]:
    """Sizes and proof, as interface: report, `compress`."""
    container = open_archive(archive)
    values, n_tokens = coding.transformed.values, sum(s.n_tokens for s in encoded)
    complete = len(proven) == len(encoded)
    return {
        "container_bytes": len(archive),
        "header_bytes": container.header_bytes,
        "payload_bytes": container.payload_bytes,
        "exceptions_bytes": container.exceptions_bytes,
        "n_exceptions": sum(s.n_exceptions for s in encoded),
        "surprisal_bits": math.fsum(s.surprisal_bits for s in encoded),
        "code_length_bits": math.fsum(s.code_length_bits for s in encoded),
        "token_code_length_bits": math.fsum(s.token_code_bits for s in encoded),
        "compression_rate": _rate_of(len(archive), coding.raw.raw_bytes),
        "verified": "none" if verify == "none" else "all" if complete else "sample",
        "verified_segments": len(proven),
        "verified_tokens": sum(proven),
        "n_segments": len(encoded),
        "n_tokens": n_tokens,
        "prior": container.header.prior,
        "raw_bytes": coding.raw.raw_bytes,
        "side_information_bytes": coding.transformed.side.n_bytes,
        "names_and_shapes_bytes": len(tensor_fields(container.header.specs)),
        "sha256": values.digest,
    }
