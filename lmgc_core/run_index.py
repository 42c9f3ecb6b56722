"""The list of kept results: one SQLite file in WAL mode, which several processes may use at once.

A row is inserted after its files are whole, and removed before they go, so a row that is there has had its files.
Each step of the schema is a migration; `user_version` says how many have been made. Source: sqlite.org, "Write-Ahead
Logging" and "PRAGMA user_version".
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmgc_core.errors import RunsUnavailable

BUSY_SECONDS = 30.0
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE runs (
            id TEXT PRIMARY KEY, made_at REAL NOT NULL, title TEXT NOT NULL, source TEXT NOT NULL,
            gradient TEXT NOT NULL, label TEXT NOT NULL, fingerprint TEXT NOT NULL, config TEXT NOT NULL,
            summary TEXT NOT NULL, report TEXT NOT NULL, folder TEXT NOT NULL, digests TEXT NOT NULL,
            n_bytes INTEGER NOT NULL)""",
        "CREATE TABLE gradients (identity TEXT PRIMARY KEY, n_bytes INTEGER NOT NULL)",
        "CREATE INDEX runs_by_age ON runs (made_at)",
    ),
    ("ALTER TABLE runs ADD COLUMN versions TEXT NOT NULL DEFAULT '{}'",),
)


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A row of the list.

    Attributes:
        id: of the question that the run answers.
        made_at: when it was kept, seconds since 1970.
        title: of the gradient, for people.
        source: "sample", "upload", "file" ... where the gradient came from.
        gradient: its identity.
        has_gradient: whether its values are kept too.
        fingerprint: of the model that predicted.
        config: the settings by name.
        summary: "input", "model", "settings", "sample", "totals" and "timing" of report.json.
        folder: name of the folder that holds its tables.
        digests: of these, by file name.
        n_bytes: their size.
        label: name, warnings and metadata of the gradient.
        versions: of the libraries that computed, by name; empty for runs kept before these were written down.
    """

    id: str
    made_at: float
    title: str
    source: str
    gradient: str
    has_gradient: bool
    fingerprint: str
    config: dict[str, Any]
    summary: dict[str, Any]
    folder: str
    digests: dict[str, str]
    n_bytes: int
    label: dict[str, Any]
    versions: dict[str, str]


_COLUMNS = (
    "runs.id, made_at, title, source, gradient, identity IS NOT NULL, fingerprint, config, summary, folder, "
    "digests, runs.n_bytes, label, versions"
)
_FROM = f"SELECT {_COLUMNS} FROM runs LEFT JOIN gradients ON gradient = identity"


class RunIndex:
    """Rows in and out; a connection for each use, so that threads and processes may share one file.

    Raises, from every method:
        RunsUnavailable: when the file cannot be used, is damaged, or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether anything has ever been kept."""
        return self.path.is_file()

    def rows(self) -> list[KeptRun]:
        """Every run, the newest first."""
        with self.reading() as file:
            return [_kept(row) for row in file.execute(f"{_FROM} ORDER BY made_at DESC, runs.id")]

    def row(self, run: str) -> KeptRun | None:
        """The run of that id."""
        with self.reading() as file:
            found = file.execute(f"{_FROM} WHERE runs.id = ?", (run,)).fetchone()
        return None if found is None else _kept(found)

    def report(self, run: str) -> dict[str, Any] | None:
        """report.json of a run, as it was when it was kept."""
        with self.reading() as file:
            found = file.execute("SELECT report FROM runs WHERE id = ?", (run,)).fetchone()
        return None if found is None else json.loads(found[0])

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one moment."""
        with self._open() as file:
            yield file

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection that alone may write; everything done in the block happens, or nothing."""
        with self._open() as file:
            file.execute("BEGIN IMMEDIATE")
            try:
                yield file
                file.execute("COMMIT")
            except BaseException:
                if file.in_transaction:
                    file.execute("ROLLBACK")
                raise

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)) as file:
                if _version(file) != len(MIGRATIONS):
                    self._migrate(file)
                yield file
        except sqlite3.Error as error:
            raise RunsUnavailable(
                f"the list of kept runs, {self.path}, cannot be used ({error}); {_advice(error)}"
            ) from None

    def _migrate(self, file: sqlite3.Connection) -> None:
        from filelock import FileLock, Timeout

        try:
            with FileLock(f"{self.path}.lock", timeout=BUSY_SECONDS):
                version = _version(file)
                if version > len(MIGRATIONS):
                    raise RunsUnavailable(
                        f"the runs in {self.path.parent} were kept by a newer version (schema {version}, this one "
                        f"knows {len(MIGRATIONS)}); update, or set LMGC_CACHE to another folder"
                    )
                file.execute("PRAGMA journal_mode = WAL")
                migrate(file, MIGRATIONS)
        except (OSError, Timeout) as error:
            raise RunsUnavailable(f"the folder of kept runs, {self.path.parent}, cannot be written ({error})") from None


def migrate(file: sqlite3.Connection, steps: Sequence[Sequence[str]]) -> None:
    """Makes the steps that a file has not made yet, all or none."""
    file.execute("BEGIN IMMEDIATE")
    try:
        for number in range(_version(file), len(steps)):
            for statement in steps[number]:
                file.execute(statement)
            file.execute(f"PRAGMA user_version = {number + 1}")
        file.execute("COMMIT")
    except BaseException:
        if file.in_transaction:
            file.execute("ROLLBACK")
        raise


def total_bytes(file: sqlite3.Connection) -> int:
    """What all rows' files take, gradients once each."""
    (found,) = file.execute(
        "SELECT (SELECT coalesce(sum(n_bytes), 0) FROM runs) + (SELECT coalesce(sum(n_bytes), 0) FROM gradients)"
    ).fetchone()
    return int(found)


def _version(file: sqlite3.Connection) -> int:
    return int(file.execute("PRAGMA user_version").fetchone()[0])


def _kept(row: tuple[Any, ...]) -> KeptRun:
    values = list(row)
    values[5] = bool(values[5])
    for place in (7, 8, 10, 12, 13):
        values[place] = json.loads(values[place])
    return KeptRun(*values)


def _advice(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text or "busy" in text:
        return "another process holds it; try again in a moment"
    if "full" in text:
        return "free some space there"
    if "readonly" in text or "unable to open" in text:
        return "set LMGC_CACHE to a folder that can be written"
    return "move it away to begin a new one"
