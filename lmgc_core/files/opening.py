"""From paths to gradients: one file, several, a folder, or an index of shards, all as one `Source`.

Law: `load_gradient(p)` holds exactly the bits that `open_source(p).read(name)` gives for the chosen names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.csv_file import open_csv
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.many import combine, folder_members, with_slices
from lmgc_core.files.npy import open_npy
from lmgc_core.files.npz import open_npz
from lmgc_core.files.raw import open_raw
from lmgc_core.files.safetensors_file import open_safetensors
from lmgc_core.files.shards import open_index
from lmgc_core.files.sniff import promised, sniff
from lmgc_core.files.source import DEFAULT_MAX_BYTES, RawByteOrder, ReadOptions, Source, guarded, one_line
from lmgc_core.files.torch_file import open_torch
from lmgc_core.files.zip_archive import open_zip
from lmgc_core.gradient import Gradient

Path_ = str | os.PathLike[str]


def _open_gguf(file: FileBytes, options: ReadOptions) -> Source:
    from lmgc_core.files.gguf_file import open_gguf

    return open_gguf(file, options)


def _open_hdf5(file: FileBytes, options: ReadOptions) -> Source:
    from lmgc_core.files.hdf5_file import open_hdf5

    return open_hdf5(file, options)


def _open_zip(file: FileBytes, options: ReadOptions) -> Source:
    names = [m.filename for m in open_zip(file).infolist()]
    if any(name.endswith("/constants.pkl") for name in names):
        raise UnsupportedInput("a TorchScript program, which holds code; save model.state_dict() with torch.save")
    if any(name == "data.pkl" or name.endswith("/data.pkl") for name in names):
        return open_torch(file, options)
    if any(name.endswith(".npy") for name in names):
        return open_npz(file, options)
    held = ", ".join(repr(one_line(n, 40)) for n in names[:4]) or "nothing"
    raise UnsupportedInput(f"a zip archive of {held}: neither .npz nor torch; unpack it and give the files")


def _open_text(file: FileBytes, options: ReadOptions) -> Source:
    """A table of numbers; says so where the file's name promises something else."""
    name = promised(file)
    try:
        source = open_csv(file, options)
    except UnsupportedInput as error:
        if name is not None:
            raise UnsupportedInput(
                f"this is text, not a {name} file as its name says; read as a table of numbers: {error}"
            ) from error
        if options.said_dtype is not None:
            raise UnsupportedInput(
                f"text with this ending is read as a table of numbers, also with --raw-dtype: {error}; "
                "to take its bytes as raw numbers, give it another ending (.bin)"
            ) from error
        raise
    if name is None:
        return source
    note = f"this is text, not a {name} file as its name says; it was read as a table of numbers"
    return replace(source, notes=(note, *source.notes))


READERS: dict[str, Callable[[FileBytes, ReadOptions], Source]] = {
    "safetensors": open_safetensors,
    "npy": open_npy,
    "zip": _open_zip,
    "torch": open_torch,
    "csv": _open_text,
    "raw": open_raw,
    "gguf": _open_gguf,
    "hdf5": _open_hdf5,
}


def open_source(
    path: Path_ | Sequence[Path_],
    *,
    raw_dtype: str | None = None,
    raw_byte_order: RawByteOrder = "little",
    raw_offset: int = 0,
    tensors: Sequence[str] = (),
    max_bytes: int = DEFAULT_MAX_BYTES,
    label: str | None = None,
) -> Source:
    """What is in a file, read from its header: no values yet where the format allows.

    Args:
        path: a file, a folder, an index.json of shards, or several files.
        raw_dtype: type of values in files that do not say it (raw, csv, V1/V2/f1 in .npy).
        raw_byte_order: order of a raw value's bytes.
        raw_offset: bytes before the first raw value.
        tensors: the only names wanted, or slices of them (`w[3, :, 0]`); limits then count these alone.
        max_bytes: most bytes that compressed, repeated or sparse values may declare.
        label: the file's name in messages, where it differs from the path (uploads).

    Raises:
        UnsupportedInput: one line with the file's name, what was found and what to do.
        InvalidSetting: for an option out of range.
    """
    options = ReadOptions(raw_dtype, raw_byte_order, raw_offset, tuple(tensors), max_bytes)
    if isinstance(path, str | os.PathLike):
        return with_slices(_open_path(Path(path), options, label), tensors)
    sources = [_open_path(Path(p), options, None) for p in path]
    if not sources:
        raise UnsupportedInput("no files were given; give at least one")
    several = f"{sources[0].label} and {len(sources) - 1} more"
    return with_slices(sources[0] if len(sources) == 1 else combine(label or several, sources), tensors)


def _open_path(path: Path, options: ReadOptions, label: str | None) -> Source:
    label = label or one_line(path.name or path)
    with guarded(label, "gradient"):
        if path.is_dir():
            return _open_folder(path, options, label)
        file = FileBytes(path, label)
        format = sniff(file, options)
    with guarded(label, format):
        if format == "index":
            return open_index(file, options, lambda shard: _open_path(shard, options, None))
        return READERS[format](file, options)


def _open_folder(path: Path, options: ReadOptions, label: str) -> Source:
    sources, notes = [], []
    for member in folder_members(path):
        try:
            sources.append(_open_path(member, options, None))
        except UnsupportedInput as error:
            notes.append(f"left out: {error}")
    if not sources:
        found = f" ({notes[0]})" if notes else ""
        raise UnsupportedInput(f"a folder without a file that can be read{found}; give one that holds gradients")
    return combine(label, sources, notes)


def load_gradient(
    path_or_paths: Path_ | Sequence[Path_],
    *,
    raw_dtype: str | None = None,
    raw_byte_order: RawByteOrder = "little",
    raw_offset: int = 0,
    tensors: Sequence[str] = (),
    max_bytes: int = DEFAULT_MAX_BYTES,
    label: str | None = None,
) -> Gradient:
    """The gradient in a file, a folder or several files; only the chosen tensors are read.

    Args: as `open_source`.

    Raises:
        UnsupportedInput: one line with the file's name, what was found and what to do.
        InvalidSetting: for a tensor name that is not there, or an option out of range.
    """
    source = open_source(
        path_or_paths,
        raw_dtype=raw_dtype,
        raw_byte_order=raw_byte_order,
        raw_offset=raw_offset,
        tensors=tensors,
        max_bytes=max_bytes,
        label=label,
    )
    for name in tensors:
        source.spec(name)
    chosen = set(tensors)
    read = tuple(source.read(s.name) for s in source.specs if not tensors or s.name in chosen)
    return Gradient(read, source.label, source.warnings, dict(source.metadata))
