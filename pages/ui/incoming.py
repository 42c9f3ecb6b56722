"""Files on their way to a page: spooled, opened header first, read as far as chosen.

Uploads are written to a folder of this server's own under names of ours, opened there, and the folder is removed:
open files outlive their names. What a killed server leaves is swept by the next one (`sweep`), which knows by a
lock that nobody holds any more. Law: no name that came with a file is ever a path, except those of shards that an
index names, and only where they are plain.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from lmgc_core.errors import LmgcError, UnsupportedInput
from lmgc_core.gradient import Gradient, TensorSpec

if TYPE_CHECKING:
    from lmgc_core.files import Source

READ_BYTES = 1_000_000_000  # a file of more waits until tensors are chosen
SPOOL_PREFIX = "lmgc-upload-"
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
INDEX_ENDING = ".index.json"

Upload = tuple[str, Callable[[], bytes]]


@dataclass(frozen=True, slots=True)
class Opened:
    """A file, or several together, whose tensors are known and not read yet.

    Attributes:
        source: headers, and the way to the values.
        kind: "upload" or "path".
        title: for people.
        failures: a line for each file of the same upload that could not be used.
    """

    source: Source
    kind: str
    title: str
    failures: tuple[str, ...] = ()

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        return self.source.specs

    @property
    def raw_bytes(self) -> int:
        return sum(spec.raw_bytes for spec in self.specs)

    @property
    def is_large(self) -> bool:
        """Whether tensors have to be chosen before anything is read."""
        return self.raw_bytes > READ_BYTES and len(self.specs) > 1

    def read(self, names: Sequence[str] = ()) -> Gradient:
        """The named tensors, all for none.

        Raises:
            UnsupportedInput: when there is not a single value in them, or they cannot be read.
        """
        chosen = [s.name for s in self.specs if not names or s.name in names]
        gradient = Gradient(
            tuple(self.source.read(name) for name in chosen),
            self.title,
            self.source.warnings,
            dict(self.source.metadata),
        )
        if not gradient.n_parameters:
            raise UnsupportedInput(f"{self.title}: there is not a single value in it; choose a file that holds tensors")
        return gradient


def open_path(path: Path, raw_dtype: str | None) -> Opened:
    """A file or folder of this computer. Raises LmgcError for one that cannot be used."""
    from lmgc_core.files import open_source

    return Opened(open_source(path, raw_dtype=raw_dtype), "path", path.name or str(path))


def open_uploads(uploads: Sequence[Upload], raw_dtype: str | None) -> Opened:
    """Uploaded files as one; those that cannot be used are named, and leave the others usable.

    Raises:
        LmgcError: when none can be used.
    """
    from lmgc_core.files import open_source
    from lmgc_core.files.many import combine

    with _spooled(uploads) as files:
        sources, failures = [], []
        for path, name in files:
            try:
                sources.append(open_source(path, raw_dtype=raw_dtype, label=name))
            except LmgcError as error:
                failures.append(error)
        if not sources:
            raise failures[0]
        title = sources[0].label + (f" and {len(sources) - 1} more" if len(sources) > 1 else "")
        source = sources[0] if len(sources) == 1 else combine(title, sources)
        return Opened(source, "upload", title, tuple(str(error) for error in failures))


@contextmanager
def _spooled(uploads: Sequence[Upload]) -> Iterator[list[tuple[Path, str]]]:
    """The uploads as files of our own for as long as the block lasts: (path, name for people) of those to open."""
    folder = Path(tempfile.mkdtemp(prefix=SPOOL_PREFIX))
    lock = FileLock(str(folder) + ".lock")
    lock.acquire()
    try:
        names = [name for name, _ in uploads]
        has_index = any(name.endswith(INDEX_ENDING) for name in names)
        files: list[tuple[Path, str]] = []
        for number, (name, content) in enumerate(uploads):
            plain = has_index and PLAIN_NAME.fullmatch(name) is not None and names.count(name) == 1
            path = folder / (name if plain else f"upload-{number}{_ending(name)}")
            with path.open("wb") as file:
                file.write(content())
            files.append((path, PurePath(name).name or name))
        if has_index:
            from lmgc_core.files.many import folder_members

            wanted = set(folder_members(folder))
            files = [file for file in files if file[0] in wanted]
        yield files
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


def _ending(name: str) -> str:
    """The name's ending where it is a short plain word, for readers that ask for it; else nothing."""
    ending = PurePath(name).suffix.lower()
    return ending if re.fullmatch(r"\.[a-z0-9]{1,12}", ending) else ""


def sweep() -> int:
    """Removes what servers that were killed have left in the spool; returns how many uploads."""
    removed = 0
    for entry in Path(tempfile.gettempdir()).glob(f"{SPOOL_PREFIX}*.lock"):
        folder = entry.with_suffix("")
        lock = FileLock(str(entry), timeout=0)
        with suppress(Timeout, OSError):
            if hasattr(os, "getuid") and entry.stat().st_uid != os.getuid():
                continue
            with lock:
                removed += folder.is_dir()
                shutil.rmtree(folder, ignore_errors=True)
                entry.unlink(missing_ok=True)
    return removed


def kept_once(kept: tuple[Any, Any] | None, token: Any, load: Callable[[], Any]) -> tuple[Any, Any]:
    """(token, what `load` gives); the kept pair as long as the token stays."""
    return kept if kept is not None and kept[0] == token else (token, load())
