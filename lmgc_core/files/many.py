"""Several files as one source: names get their file's name in front where they would clash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from lmgc_core.files.source import Source, make_source
from lmgc_core.gradient import Tensor, TensorSpec, Words
from lmgc_core.slices import cut_spec, cut_tensor, wanted_slices

MAX_FILES = 10_000


def folder_members(folder: Path) -> list[Path]:
    """The files to open in a folder, sorted: indexes of shards stand for their shards; hidden files are left out."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))[:MAX_FILES]
    indexes = [p for p in files if p.name.endswith(".index.json")]
    if not indexes:
        return files
    from lmgc_core.files.shards import shard_names

    covered = {name for index in indexes for name in shard_names(index)}
    return [p for p in files if p.name not in covered]


def combine(label: str, sources: Sequence[Source], notes: Sequence[str] = ()) -> Source:
    """One source over all; `Source.fetch` goes to the file a tensor came from.

    Names stay as they are when no two files share one and none is nameless; otherwise every name gets
    "file/" in front, without the ending where that still tells the files apart.
    """
    if len(sources) == 1:
        only = sources[0]
        return make_source(
            label,
            only.format,
            only.specs,
            only.fetch,
            stream=only.stream,
            metadata=only.metadata,
            notes=[*notes, *only.notes],
            refused=only.refused,
        )
    names = [name for s in sources for name in (*(spec.name for spec in s.specs), *s.refused)]
    clash = len(set(names)) < len(names) or "" in names
    prefixes = _prefixes([s.label for s in sources])
    home: dict[str, tuple[Source, str]] = {}
    specs: list[TensorSpec] = []
    refused: dict[str, str] = {}
    metadata: dict[str, str] = {}
    said = list(notes)
    for prefix, source in zip(prefixes, sources, strict=True):
        for spec in source.specs:
            name = _inside(prefix, spec.name) if clash else spec.name
            home[name] = source, spec.name
            specs.append(TensorSpec(name, spec.dtype, spec.shape))
        refused |= {(_inside(prefix, name) if clash else name): why for name, why in source.refused.items()}
        metadata |= {f"{prefix}/{key}": value for key, value in source.metadata.items()}
        said += [f"{source.label}: {text}" for text in source.notes]

    def fetch(spec: TensorSpec) -> Words:
        source, name = home[spec.name]
        return source.read(name).words

    def stream(spec: TensorSpec) -> Iterator[Words]:
        source, name = home[spec.name]
        yield from source.chunks(name)

    return make_source(label, "folder", specs, fetch, stream=stream, metadata=metadata, notes=said, refused=refused)


def with_slices(source: Source, names: Sequence[str]) -> Source:
    """The source with the slices among `names` (`w[3, :, 0]`) as tensors beside the whole ones.

    Raises:
        InvalidSetting: for a slice that does not fit its tensor.
    """
    cuts = {name: (whole, index) for name, whole, index in wanted_slices(names, source.specs)}
    if not cuts:
        return source
    specs = [
        *source.specs,
        *(TensorSpec(name, whole.dtype, cut_spec(whole, index).shape) for name, (whole, index) in cuts.items()),
    ]

    def fetch(spec: TensorSpec) -> Words:
        if spec.name not in cuts:
            return source.fetch(spec)
        whole, index = cuts[spec.name]
        return cut_tensor(Tensor(whole, source.fetch(whole)), index).words

    def stream(spec: TensorSpec) -> Iterator[Words]:
        if spec.name in cuts:
            yield fetch(spec)
        else:
            yield from source.chunks(spec.name)

    return replace(source, specs=tuple(specs), fetch=fetch, stream=stream)


def _inside(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if name else prefix


def _prefixes(labels: Sequence[str]) -> list[str]:
    """A short distinct name for each file.

    >>> _prefixes(["a.npy", "b.npy"]), _prefixes(["a.npy", "a.npz"])
    (['a', 'b'], ['a.npy', 'a.npz'])
    """
    for shorten in (lambda label: PurePath(label).stem, lambda label: label):
        short = [shorten(label) for label in labels]
        if len(set(short)) == len(short):
            return short
    return [f"{label}#{number}" for number, label in enumerate(labels, 1)]
