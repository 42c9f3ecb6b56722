"""The cache folder: models as they were fetched, built beside their place and moved there in one step.

Law: a folder under `models/` is complete or absent. What an interrupted build left behind lies in
`KEY.building-*` folders and is removed by the next one, which holds the same lock.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lmgc_core.errors import Cancelled, ModelUnavailable
from lmgc_core.whole_file import write_whole

LOCK_POLL_SECONDS = 0.2
BUILDING = ".building-"  # after the key, so that no key's leavings look like those of a longer one


def cache_folder() -> Path:
    """`LMGC_CACHE` if set, else the platform's cache folder for lmgc; not created here."""
    chosen = os.environ.get("LMGC_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("lmgc", appauthor=False)


def model_folder(key: str) -> Path:
    """Where the model with that key stands once it is complete."""
    return cache_folder() / "models" / key


@contextmanager
def build_in_place(key: str, should_stop: Any = None) -> Iterator[Path | None]:
    """A fresh folder to build a model in; moved to `model_folder(key)` when the block ends without an error.

    Yields None where another process finished the same model first. One process builds at a time;
    others wait, and stop waiting when `should_stop()` is true.

    Raises:
        ModelUnavailable: when the cache folder cannot be written.
        Cancelled: when asked to stop while waiting.
    """
    from filelock import FileLock, Timeout

    target = model_folder(key)
    root = target.parent
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(str(root / f"{key}.lock"))
        while True:
            try:
                lock.acquire(timeout=LOCK_POLL_SECONDS)
                break
            except Timeout:
                if should_stop is not None and should_stop():
                    raise Cancelled("stopped while another process was fetching the same model") from None
    except OSError as error:
        raise ModelUnavailable(
            f"the cache folder {root} cannot be written ({error.strerror or error}); set LMGC_CACHE to one that can"
        ) from None
    try:
        for stale in root.glob(f"{key}{BUILDING}*"):
            shutil.rmtree(stale, ignore_errors=True)
        if target.is_dir():
            yield None
            return
        folder = Path(tempfile.mkdtemp(prefix=f"{key}{BUILDING}", dir=root))
        try:
            finished = folder / "finished"
            finished.mkdir()
            yield finished
            os.replace(finished, target)
        except OSError as error:
            raise ModelUnavailable(
                f"the model could not be kept in {root} ({error.strerror or error}); "
                "free some space there or set LMGC_CACHE to another folder"
            ) from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        lock.release()


def read_json(path: Path) -> Any:
    """The content of a JSON file, or None where there is none or it cannot be read as one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write_json(path: Path, content: Any) -> None:
    """Writes a small JSON file in one step; a reader sees the old or the new content, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=1).encode())
