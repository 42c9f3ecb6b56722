"""Files that appear whole or not at all: written beside their place, then moved there in one step.

Law: whatever interrupts the writing, the place holds its old content or the new one, never half of it. A process
that is killed leaves a hidden file beside it, which the next writing of the same name removes once it is old.
Source: rename(2), which replaces in one step within a file system.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = ".partial"
STALE_SECONDS = 3600.0  # a writer that still lives after that has long touched its file


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A place to write to; it becomes `path` when the block ends without an error, and vanishes otherwise.

    Args:
        path: an existing file is replaced as a whole; its folder must be there.

    Yields:
        A hidden file of the same ending in the same folder, empty and readable by whom the umask lets.

    Raises:
        OSError: when the folder cannot be written, or the disk is full.
    """
    target = Path(path)
    _sweep(target)
    handle, name = tempfile.mkstemp(prefix=_prefix(target), suffix=MARK + target.suffix, dir=target.parent)
    temporary = Path(name)
    try:
        os.close(handle)
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp, and some libraries, let only the owner read
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes bytes as a file, whole or not at all.

    Raises:
        OSError: when the folder cannot be written, or the disk is full.
    """
    with whole_file(path) as place:
        place.write_bytes(content)


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}."


def _sweep(target: Path) -> None:
    """Removes what killed writers of the same name have left."""
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            named = entry.name.startswith(_prefix(target)) and entry.name.endswith(MARK + target.suffix)
            with suppress(OSError):
                if named and time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE_SECONDS:
                    os.unlink(entry.path)


def _umask() -> int:
    """The process's umask; Python can only read it by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current
