"""What is in a file, for tables and scripts: the `inspect` object of docs/interface."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmgc_core.errors import LmgcError
from lmgc_core.files.opening import open_source
from lmgc_core.files.source import DEFAULT_MAX_BYTES, RawByteOrder, Source
from lmgc_core.files.summary import Summary
from lmgc_core.gradient import TensorSpec

DIGEST_FILE_BYTES = 64 << 20
EMPTY_FIGURES: dict[str, Any] = dict.fromkeys(("sha256", "zero_fraction", "n_nonfinite", "min", "max", "mean", "std"))


def inspect_file(
    path: str | os.PathLike[str],
    *,
    raw_dtype: str | None = None,
    raw_byte_order: RawByteOrder = "little",
    raw_offset: int = 0,
    tensors: Sequence[str] = (),
    max_bytes: int = DEFAULT_MAX_BYTES,
    digest: bool = False,
    label: str | None = None,
) -> dict[str, Any]:
    """The file's tensors, their digests and figures; or its error, for a file that cannot be used.

    Args:
        path: a file or folder; the others as in `open_source`.
        digest: fill digests and figures also for files above 64 MB; they are read in pieces.

    Returns:
        {"file", "n_parameters", "sha256", "raw_bytes", "dtypes", "tensors", "warnings", "metadata", "format"}, or
        {"file", "error"}. `sha256` is over the tensors' little-endian C-order bytes in the order of their names.
    """
    shown = label or os.fspath(path)
    try:
        source = open_source(
            path,
            raw_dtype=raw_dtype,
            raw_byte_order=raw_byte_order,
            raw_offset=raw_offset,
            tensors=tensors,
            max_bytes=max_bytes,
            label=label,
        )
        specs = [source.spec(name) for name in tensors] if tensors else list(source.specs)
        full = digest or _size(Path(path)) <= DIGEST_FILE_BYTES
        return {"file": shown, **describe(source, specs, full)}
    except LmgcError as error:
        return {"file": shown, "error": str(error)}


def describe(source: Source, specs: Sequence[TensorSpec], full: bool) -> dict[str, Any]:
    """The `inspect` object of an opened source, without "file".

    Args:
        source: where the tensors are.
        specs: which of them.
        full: whether values are read for digests and figures; null otherwise.
    """
    whole = hashlib.sha256()
    figures: dict[str, dict[str, Any]] = {}
    for spec in sorted(specs, key=lambda s: s.name) if full else ():
        own = hashlib.sha256()
        summary = Summary(spec.dtype)
        for words in source.chunks(spec.name):
            own.update(words.data)
            whole.update(words.data)
            summary.add(words)
        figures[spec.name] = {"sha256": own.hexdigest(), **summary.figures()}
    return {
        "n_parameters": sum(s.n_parameters for s in specs),
        "sha256": whole.hexdigest() if full else None,
        "raw_bytes": sum(s.raw_bytes for s in specs),
        "dtypes": sorted({s.dtype.name for s in specs}),
        "tensors": [
            {
                "name": s.name,
                "shape": list(s.shape),
                "dtype": s.dtype.name,
                **figures.get(s.name, EMPTY_FIGURES),
            }
            for s in specs
        ],
        "warnings": list(source.warnings),
        "metadata": dict(source.metadata),
        "format": source.format,
    }


def _size(path: Path) -> int:
    """Bytes of a file, or of the files of a folder."""
    if path.is_dir():
        return sum(p.stat().st_size for p in path.iterdir() if p.is_file())
    return path.stat().st_size
