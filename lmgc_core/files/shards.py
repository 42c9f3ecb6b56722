"""A model in several files: an index.json maps each tensor to the shard that holds it. Source: the Hub's convention."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import ReadOptions, Source, damaged, make_source, one_line
from lmgc_core.gradient import TensorSpec, Words
from lmgc_core.wording import counted

MAX_INDEX_BYTES = 10_000_000


def shard_names(index: Path) -> set[str]:
    """The files an index names, empty when it cannot be read (opening it then says why)."""
    try:
        with index.open("rb") as stream:
            data = stream.read(MAX_INDEX_BYTES + 1)
        return set(_weight_map(data, len(data)).values())
    except (OSError, UnsupportedInput):
        return set()


def open_index(file: FileBytes, options: ReadOptions, open_shard: Callable[[Path], Source]) -> Source:
    """All tensors of all shards, in the index's order.

    Args:
        file: the index.
        options: as for the shards themselves.
        open_shard: opens one shard beside the index.

    Raises:
        UnsupportedInput: for shards that are missing (each is named) or lie outside the index's folder, and for
            tensors that the index names and their shard lacks.
    """
    weight_map = _weight_map(file.slice(0, MAX_INDEX_BYTES + 1), file.size)
    folder = file.path.parent
    names = sorted(set(weight_map.values()))
    for name in names:
        if not _is_plain(name):
            raise UnsupportedInput(
                f"shard {one_line(name, 80)!r} lies outside this folder; shards must be files beside the index"
            )
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        shown = ", ".join(one_line(n, 80) for n in missing[:8]) + (" ..." if len(missing) > 8 else "")
        verb = "is" if len(missing) == 1 else "are"
        raise UnsupportedInput(
            f"{len(missing)} of {counted(len(names), 'shard')} {verb} missing: {shown}; "
            "put them beside the index and give all"
        )
    shards = {name: open_shard(folder / name) for name in names}
    specs: list[TensorSpec] = []
    refused: dict[str, str] = {}
    notes: list[str] = []
    for tensor, name in weight_map.items():
        shard = shards[name]
        if tensor in shard.refused:
            refused[tensor] = shard.refused[tensor]
            continue
        found = next((s for s in shard.specs if s.name == tensor), None)
        if found is None:
            raise damaged(f"shard {name} lacks tensor {tensor!r} that the index places there")
        specs.append(found)
    for name, shard in shards.items():
        extra = [s.name for s in shard.specs if s.name not in weight_map]
        if extra:
            notes.append(
                f"{name}: left out {counted(len(extra), 'tensor')} that the index does not name ({extra[0]!r})"
            )

    def fetch(spec: TensorSpec) -> Words:
        return shards[weight_map[spec.name]].read(spec.name).words

    metadata = {key: value for shard in shards.values() for key, value in shard.metadata.items()}
    return make_source(file.label, "index", specs, fetch, metadata=metadata, notes=notes, refused=refused)


def _weight_map(data: bytes, size: int) -> dict[str, str]:
    if size > MAX_INDEX_BYTES:
        raise UnsupportedInput(f"an index of {size:,} bytes, at most {MAX_INDEX_BYTES:,} are allowed; give the shards")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged(f"an index that is no JSON: {one_line(error)}") from error
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise damaged("an index whose weight_map does not map tensor names to files")
    if not weight_map:
        raise UnsupportedInput("an index that names no tensors; give the shards")
    return weight_map


def _is_plain(name: str) -> bool:
    """Whether it is a file name and nothing more: no folder, drive or way up."""
    plain = PurePosixPath(name).name == name == PureWindowsPath(name).name
    return plain and name not in ("", ".", "..") and "\x00" not in name
