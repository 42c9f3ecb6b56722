"""A report as two Parquet files, and back: a row a token, a row a window.

What follows from the gradient and the settings alone (values, text, blocks) is made again when the report is
opened; a checksum of each window's text tells whether it came out the same. Law: `read_tables(write_tables(r))`
has every figure of r, to the last bit; one changed byte is noticed. Source: Apache Parquet.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lmgc_core.blocks import Piece
from lmgc_core.errors import LmgcError, RunsUnavailable
from lmgc_core.gradient import DTYPES, Gradient
from lmgc_core.plan import Coding, Window, prepare
from lmgc_core.report import ModelInfo, Report, WindowResult
from lmgc_core.settings import CodecConfig
from lmgc_core.whole_file import whole_file

TOKENS, WINDOWS = "tokens.parquet", "windows.parquet"
ABOUT = b"lmgc"


def write_tables(report: Report, folder: Path) -> dict[str, str]:
    """Writes both files; returns their digests by name: SHA-256, hex.

    Raises:
        OSError: when the folder cannot be written, or the disk is full.
    """
    import pyarrow.parquet as parquet

    digests = {}
    for name, table in ((TOKENS, _token_table(report)), (WINDOWS, _window_table(report))):
        with whole_file(folder / name) as place:
            parquet.write_table(table, place, compression="zstd")
            digests[name] = hashlib.sha256(place.read_bytes()).hexdigest()
    return digests


def read_tables(folder: Path, digests: Mapping[str, str], gradient: Gradient, config: CodecConfig) -> Report:
    """The report again.

    Args:
        folder: where `write_tables` has written.
        digests: what it gave back.
        gradient: what was measured.
        config: as it was measured.

    Raises:
        RunsUnavailable: when a file is missing or damaged, or does not belong to this gradient.
    """
    import pyarrow

    try:
        return _read(folder, digests, gradient, config)
    except (OSError, pyarrow.ArrowException, KeyError, ValueError, TypeError, IndexError, LmgcError) as error:
        why = " ".join(str(error).split())[:160] or type(error).__name__
        raise RunsUnavailable(f"its files are missing or damaged ({why})") from None


def _token_table(report: Report) -> Any:
    import pyarrow

    results = report.results
    n_top = results[0].top_token_ids.shape[1] if results else 1
    counts = [len(r.surprisal_bits) for r in results]

    def joined(name: str, dtype: Any) -> Any:
        return np.concatenate([np.zeros(0, dtype), *(getattr(r, name).astype(dtype, copy=False) for r in results)])

    def top(name: str, dtype: Any) -> Any:
        flat = np.concatenate(
            [np.zeros(0, dtype), *(getattr(r, name).astype(dtype, copy=False).ravel() for r in results)]
        )
        return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), n_top)

    ids = [r.window.ids.astype(np.int32, copy=False) for r in results]
    columns = {
        "window": np.repeat(np.array([r.window.index for r in results], np.int32), counts),
        "token_id": np.concatenate([np.zeros(0, np.int32), *ids]),
        "text": pyarrow.array([t for r in results for t in r.token_texts], pyarrow.string()),
        "n_bytes": joined("token_bytes", np.int64),
        "surprisal_bits": joined("surprisal_bits", np.float64),
        "llm_surprisal_bits": joined("llm_surprisal_bits", np.float64),
        "entropy_bits": joined("entropy_bits", np.float32),
        "rank": joined("rank", np.int32),
        "cumulative_bits": joined("cumulative_bits", np.float32),
        "top_token_ids": top("top_token_ids", np.int32),
        "top_bits": top("top_bits", np.float32),
    }
    if report.coding.config.prior == "llm":
        del columns["llm_surprisal_bits"]  # the same numbers
    return pyarrow.table(columns)


def _window_table(report: Report) -> Any:
    import pyarrow

    about = {
        "model": asdict(report.model),
        "sampled_blocks": list(report.sampled_blocks),
        "n_windows": report.n_windows,
        "seconds": report.seconds,
        "settings": report.settings,
        "peak_memory_bytes": report.peak_memory_bytes,
    }
    windows = [r.window for r in report.results]
    places = pyarrow.list_(pyarrow.int64())
    table = pyarrow.table(
        {
            "window": np.array([w.index for w in windows], np.int32),
            "block": np.array([w.block for w in windows], np.int64),
            "dtype": pyarrow.array([w.dtype.name for w in windows], pyarrow.string()),
            "tensor": pyarrow.array([[p.tensor_index for p in w.pieces] for w in windows], places),
            "first": pyarrow.array([[p.first for p in w.pieces] for w in windows], places),
            "last": pyarrow.array([[p.last for p in w.pieces] for w in windows], places),
            "text_checksum": np.array([_checksum(w.text.text) for w in windows], np.uint32),
            "header_bits": np.array([r.header_bits for r in report.results], np.float64),
            "remainder_bits": pyarrow.array(
                [r.remainder_bits for r in report.results], pyarrow.list_(pyarrow.float64())
            ),
        }
    )
    return table.replace_schema_metadata({ABOUT: json.dumps(about)})


def _read(folder: Path, digests: Mapping[str, str], gradient: Gradient, config: CodecConfig) -> Report:
    import pyarrow
    import pyarrow.parquet as parquet

    def table(name: str) -> Any:
        content = (folder / name).read_bytes()
        if hashlib.sha256(content).hexdigest() != digests[name]:
            raise ValueError(f"{name} has changed since it was written")
        return parquet.read_table(pyarrow.BufferReader(content)).combine_chunks()

    tokens, windows = table(TOKENS), table(WINDOWS)
    about = json.loads(windows.schema.metadata[ABOUT])
    coding = prepare(gradient, config)
    columns = {name: _numbers(tokens.column(name)) for name in tokens.column_names if name != "text"}
    if config.prior == "llm":
        columns["llm_surprisal_bits"] = columns["surprisal_bits"]
    texts = tokens.column("text").to_pylist()
    rows = windows.to_pylist()
    edges = np.searchsorted(columns["window"], [row["window"] for row in rows] + [np.iinfo(np.int32).max])
    results = tuple(
        _result(coding, row, columns, texts, slice(int(first), int(last)))
        for row, first, last in zip(rows, edges[:-1], edges[1:], strict=True)
    )
    return Report(
        coding,
        ModelInfo(**about["model"]),
        results,
        tuple(about["sampled_blocks"]),
        int(about["n_windows"]),
        float(about["seconds"]),
        about["settings"],
        int(about["peak_memory_bytes"]),
    )


def _result(coding: Coding, row: dict[str, Any], columns: dict[str, Any], texts: list[str], own: slice) -> WindowResult:
    dtype = DTYPES[row["dtype"]]
    pieces = tuple(Piece(*place) for place in zip(row["tensor"], row["first"], row["last"], strict=True))
    text = coding.serialize(dtype, pieces)
    if _checksum(text.text) != row["text_checksum"]:
        raise ValueError("the text of a window is no longer what was measured")
    surprisal = columns["surprisal_bits"][own]
    alone = columns["llm_surprisal_bits"]
    return WindowResult(
        window=Window(row["window"], row["block"], dtype, pieces, text, columns["token_id"][own]),
        token_bytes=columns["n_bytes"][own],
        token_texts=tuple(texts[own]),
        surprisal_bits=surprisal,
        llm_surprisal_bits=surprisal if alone is columns["surprisal_bits"] else alone[own],
        entropy_bits=columns["entropy_bits"][own],
        rank=columns["rank"][own],
        cumulative_bits=columns["cumulative_bits"][own],
        top_token_ids=columns["top_token_ids"][own],
        top_bits=columns["top_bits"][own],
        remainder_bits=np.array(row["remainder_bits"], np.float64),
        header_bits=float(row["header_bits"]),
    )


def _numbers(column: Any) -> Any:
    """A column as an array; one of lists as a table."""
    import pyarrow

    (chunk,) = column.chunks if column.num_chunks else (pyarrow.array([], column.type),)
    if not pyarrow.types.is_fixed_size_list(column.type):
        return chunk.to_numpy(zero_copy_only=False)
    return chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, column.type.list_size)


def _checksum(text: str) -> int:
    return zlib.crc32(text.encode("utf-8"))
