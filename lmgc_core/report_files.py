"""A report as files: report.json, tokens.parquet, bits.npz, report.html.

Each `*_bytes` function returns one file's content, so that a download and the command line write the same.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lmgc_core.errors import UnsupportedInput
from lmgc_core.report import Report
from lmgc_core.report_html import report_html
from lmgc_core.whole_file import write_whole


def json_bytes(report: Report) -> bytes:
    """report.json: every figure, None where one is not finite."""
    return (json.dumps(report.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def tokens_bytes(report: Report) -> bytes:
    """tokens.parquet: a row a token."""
    buffer = io.BytesIO()
    report.tokens.to_parquet(buffer, index=False)
    return buffer.getvalue()


def bits_bytes(report: Report) -> bytes:
    """bits.npz: bits per parameter as NAME, the language model's part as llm/NAME, in the tensors' shapes."""
    buffer = io.BytesIO()
    arrays = {name: report.bits[name] for name in report.bits}
    arrays |= {f"llm/{name}": report.llm_bits[name] for name in report.llm_bits}
    _write_npz(buffer, arrays)
    return buffer.getvalue()


def html_bytes(report: Report) -> bytes:
    """report.html: the main numbers and pictures in one file that needs no network."""
    return report_html(report).encode("utf-8")


REPORT_FILES: dict[str, Callable[[Report], bytes]] = {
    "report.json": json_bytes,
    "tokens.parquet": tokens_bytes,
    "bits.npz": bits_bytes,
    "report.html": html_bytes,
}


def write_report(report: Report, folder: str | os.PathLike[str]) -> None:
    """Writes all files of a report; each is there whole or not at all.

    Raises:
        UnsupportedInput: when the folder cannot be written.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, content in REPORT_FILES.items():
            write_whole(target / name, content(report))
    except OSError as error:
        raise UnsupportedInput(f"{target}: the report cannot be written there ({error.strerror or error})") from None


def _write_npz(buffer: io.BytesIO, arrays: dict[str, np.ndarray]) -> None:
    """A compressed .npz whose member names may be anything, the empty name and "file" included."""
    import zipfile

    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(f"{name}.npy", member.getvalue())
