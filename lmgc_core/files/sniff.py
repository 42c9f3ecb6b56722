"""What a file is, by its content. Names are labels: an ending decides only between text and raw numbers,
and which reader explains what is wrong with content that nothing recognises.
"""

from __future__ import annotations

import codecs
import re
from pathlib import PurePath

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import ReadOptions, one_line

HEAD_BYTES = 1 << 16
MAX_JSON_BYTES = 64 << 20  # how far an index is looked for in JSON text
TEXT_ENDINGS = {".csv", ".tsv", ".txt", ".asc"}
TORCH_LEGACY_MAGIC = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the pickled number old torch files begin with

STRONG = {
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"GGUF": "gguf",
    b"\x89HDF\r\n\x1a\n": "hdf5",
}
# Recognised and not a gradient: what it is, and what to do. The first bytes could also be raw numbers.
NAMED = {
    b"\x1f\x8b": "gzip-compressed; unpack it first (gunzip)",
    b"BZh": "bzip2-compressed; unpack it first (bunzip2)",
    b"\xfd7zXZ\x00": "xz-compressed; unpack it first (unxz)",
    b"\x28\xb5\x2f\xfd": "zstd-compressed; unpack it first (zstd -d)",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it first",
    b"Rar!": "a rar archive; unpack it first",
    b"%PDF": "a PDF document; give the file with the numbers",
    b"\x89PNG": "a PNG picture; give the file with the numbers",
    b"\xff\xd8\xff": "a JPEG picture; give the file with the numbers",
    b"PAR1": "a Parquet table; save the columns as .npz or .csv",
    b"ARROW1": "an Arrow file; save the columns as .npz or .csv",
    b"MATLAB 5": "a MATLAB file; save the arrays as .npz or with -v7.3",
    b"SQLite format 3": "an SQLite database; save the numbers as .npz or .csv",
    b"\x8bLGC": "an .lmgc archive; decompress it first",
}
ENDING_FORMATS = {
    ".safetensors": "safetensors",
    ".npy": "npy",
    ".npz": "zip",
    ".pt": "zip",
    ".pth": "zip",
    ".ckpt": "zip",
    ".gguf": "gguf",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".csv": "csv",
    ".tsv": "csv",
}


def promised(file: FileBytes) -> str | None:
    """The format of numbers in binary that the file's name promises; None for none, and for tables."""
    found = ENDING_FORMATS.get(PurePath(file.label).suffix.lower())
    return None if found in (None, "csv") else PurePath(file.label).suffix.lower()[1:]


def sniff(file: FileBytes, options: ReadOptions) -> str:
    """The format's name: npy, zip, safetensors, torch, gguf, hdf5, index, csv or raw.

    Raises:
        UnsupportedInput: for content that is recognised but holds no gradient, or not recognised at all.
    """
    head = file.head(HEAD_BYTES)
    ending = PurePath(file.label).suffix.lower()
    said = options.raw_dtype is not None
    _refuse_pages(head)
    for magic, name in STRONG.items():
        if head.startswith(magic):
            return name
    if head[:1] == b"\x80" and TORCH_LEGACY_MAGIC in head[:40]:
        return "torch"
    if head[257:262] == b"ustar":
        raise UnsupportedInput(
            "a tar archive (torch before 0.2 wrote such files, legacy): not supported; unpack it, or save it again "
            "with a newer torch"
        )
    text = _is_text(head)
    length = int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and (length + 8 <= file.size or not said) and not _is_text(head[:8]):
        return "safetensors"
    if said and not (text and ending in TEXT_ENDINGS):
        return "raw"
    for magic, what in NAMED.items():
        if head.startswith(magic):
            raise UnsupportedInput(f"this file is {what}")
    if re.match(rb"\x80[\x02-\x05]", head):
        raise UnsupportedInput(
            "a bare Python pickle, which runs code when opened, is never opened; save arrays with numpy.savez "
            "or tensors with torch.save"
        )
    if text and head.lstrip()[:1] in (b"{", b"["):
        if file.contains(b'"weight_map"', MAX_JSON_BYTES):
            return "index"
        raise UnsupportedInput("JSON text, not numbers; save arrays as .npz, .safetensors or .csv")
    if text:
        return "csv"
    if ending in ENDING_FORMATS:
        wanted = ending.removeprefix(".")
        if ending == ".safetensors":
            return "safetensors"
        raise UnsupportedInput(
            f"not a {wanted} file: it begins with {_shown(head)}, not with that format's header; fetch or save it again"
        )
    raise UnsupportedInput(
        f"not a known format (it begins with {_shown(head)}); if it holds raw numbers, say which with --raw-dtype"
    )


def _refuse_pages(head: bytes) -> None:
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:2000].lower()
    if start.startswith(b"version https://git-lfs"):
        raise UnsupportedInput("a Git LFS pointer, not the data; fetch the real file with `git lfs pull`")
    if start.startswith((b"<!doctype html", b"<html")) or (start.startswith(b"<?xml") and b"<html" in start):
        raise UnsupportedInput("an HTML page (a sign-in or error page?), not the data; download the file itself")


def _is_text(head: bytes) -> bool:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return True
    if re.search(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]", head):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the head may end within a character
    except UnicodeDecodeError:
        return 4 * len(re.findall(rb"[\x80-\xff]", head)) < len(head)  # latin-1, say
    return True


def _shown(head: bytes) -> str:
    return one_line(repr(head[:8]))
