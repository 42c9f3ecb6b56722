"""Results on disk: each question is computed once, on the command line and in the app alike.

`RunStore.keep` and `RunStore.find` are inverse: what was kept is found again by the question's id and the model's
fingerprint, as a whole `Report`. In the cache folder, under `runs/`: the list (SQLite), a folder of two Parquet files
a run, and the values of each gradient once, up to 64 MB; larger gradients stay where they are, and their runs open
where the gradient is at hand. Beyond the size limit the oldest runs leave first.

Law: whatever interrupts a process, every run on the list has had its files whole; what a killed one left is removed
later. A result that cannot be kept is no error of the run: callers catch `RunsUnavailable` and say so.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmgc_core.codec import run_settings
from lmgc_core.errors import LmgcError, RunsUnavailable, UnsupportedInput
from lmgc_core.gradient import Gradient
from lmgc_core.language_model.cache import cache_folder
from lmgc_core.question import Question, config_of
from lmgc_core.report import Report
from lmgc_core.run_index import KeptRun, RunIndex, total_bytes
from lmgc_core.run_tables import read_tables, write_tables

LIMIT_NAME = "LMGC_RUNS_BYTES"
DEFAULT_LIMIT_BYTES = 2_000_000_000
GRADIENT_BYTES = 64_000_000  # of a gradient's values that are kept with its runs
STALE_SECONDS = 3600.0  # a folder without a row is somebody's work until then
COLUMNS = (
    "id, made_at, title, source, gradient, label, fingerprint, config, summary, report, folder, digests, n_bytes, "
    "versions"
)
SUMMARY = ("input", "model", "settings", "sample", "totals", "timing")


def limit_bytes() -> int:
    """The most that kept runs may take: `LMGC_RUNS_BYTES`, or 2 GB; 0 keeps and finds nothing.

    Raises:
        RunsUnavailable: when the variable is no whole number of 0 or more.
    """
    chosen = os.environ.get(LIMIT_NAME, "").strip()
    if not chosen:
        return DEFAULT_LIMIT_BYTES
    if not chosen.isdecimal():
        raise RunsUnavailable(f"{LIMIT_NAME} is {chosen!r}; a whole number of bytes is needed, or 0 to keep no runs")
    return int(chosen)


class RunStore:
    """The kept runs of one folder.

    Args:
        folder: `runs` in the cache folder if not given.
        limit: bytes; `limit_bytes()` if not given.
        clock: seconds since 1970.

    Raises, from every method:
        RunsUnavailable: one line, when the folder, its list or a run's files cannot be used.
    """

    def __init__(
        self, folder: Path | None = None, limit: int | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.folder = cache_folder() / "runs" if folder is None else folder
        self.limit = limit_bytes() if limit is None else limit
        self._clock = clock
        self._index = RunIndex(self.folder / "index.sqlite3")

    # ---- what is there --------------------------------------------------------------------------------

    def rows(self) -> list[KeptRun]:
        """Every run, the newest first."""
        return self._index.rows() if self._index.exists else []

    def row(self, run: str) -> KeptRun | None:
        """The run of that id, None if it is not kept (any more)."""
        return self._index.row(run) if self._index.exists else None

    def report_json(self, run: str) -> dict[str, Any] | None:
        """The figures of a run as report.json has them; needs neither its tables nor its gradient."""
        return self._index.report(run) if self._index.exists else None

    @property
    def n_bytes(self) -> int:
        """What runs and gradients take on disk."""
        if not self._index.exists:
            return 0
        with self._index.reading() as file:
            return total_bytes(file)

    # ---- found again ----------------------------------------------------------------------------------

    def find(self, question: Question, fingerprint: Callable[[], str | None]) -> tuple[KeptRun, Report] | None:
        """The answer to a question, if it is kept and of the same model.

        Args:
            question: its own gradient is used, so the report bears the name that was asked for.
            fingerprint: the model's, or None where that is not known because it is not here; asked only when a run
                with the question's id is there.
        """
        row = self.row(question.id) if self.limit else None
        if row is None or fingerprint() not in (None, row.fingerprint):
            return None
        return row, self._read(row, question.gradient, question)

    def open(self, run: str, gradient: Gradient | None = None) -> Report:
        """The report of a run.

        Args:
            run: its id.
            gradient: what was measured, where it is at hand; else the kept values.
        """
        row = self.row(run)
        if row is None:
            raise RunsUnavailable(f"no run {run} is kept in {self.folder}; see python -m lmgc_core runs")
        return self._read(row, self.gradient(row) if gradient is None else gradient)

    def gradient(self, row: KeptRun) -> Gradient:
        """The gradient that a run measured, as it came."""
        if not row.has_gradient:
            raise RunsUnavailable(
                f"run {row.id}: its gradient ({row.summary['input']['raw_bytes']:,} bytes) is not kept with it; "
                "open the file it was made of, choose the same settings, and the run is found"
            )
        from lmgc_core.files import load_gradient

        try:
            stored = load_gradient(self._gradient_path(row.gradient))
            named = {t.name: t for t in stored}
            found = Gradient(
                tuple(named[name] for name in row.label["tensors"]),
                row.label["name"],
                tuple(row.label["warnings"]),
                row.label["metadata"],
            )
            intact = found.identity == row.gradient
        except (LmgcError, KeyError) as error:
            raise _damaged(row, str(error)) from None
        if not intact:
            raise _damaged(row, "the values of its gradient have changed")
        return found

    def _read(self, row: KeptRun, gradient: Gradient, question: Question | None = None) -> Report:
        try:
            folder = self.folder / "results" / row.folder
            if question is None:
                return read_tables(folder, row.digests, gradient, config_of(row.config))
            report = read_tables(folder, row.digests, gradient, question.config)
            settings = run_settings(question.config, question.options, question.limit, report.coding)
            return replace(report, settings=settings)
        except (LmgcError, TypeError) as error:
            raise _damaged(row, str(error)) from None

    # ---- kept -----------------------------------------------------------------------------------------

    def keep(self, question: Question, report: Report, *, title: str, source: str) -> KeptRun | None:
        """Keeps a whole report; an older answer to the same question leaves, then the oldest beyond the limit.

        Returns:
            The row; None where nothing is to be kept (a limit of 0).
        """
        if not self.limit:
            return None
        place = self.folder / "results" / f"{question.id}-{secrets.token_hex(4)}"
        try:
            place.mkdir(parents=True)
            (self.folder / "gradients").mkdir(exist_ok=True)
            self._sweep_results()
            digests = write_tables(report, place)
            gone = self._insert(question, report, title, source, place, digests)
        except (OSError, RunsUnavailable) as error:
            shutil.rmtree(place, ignore_errors=True)
            if isinstance(error, RunsUnavailable):
                raise
            raise RunsUnavailable(
                f"the result was not kept: {self.folder} cannot be written ({error.strerror or error}); free some "
                "space there, or set LMGC_CACHE to another folder"
            ) from None
        self._remove(gone)
        return self._index.row(question.id)

    def delete(self, run: str) -> bool:
        """Takes a run off the list, then its files; False if it was not there."""
        if not self._index.exists:
            return False
        with self._index.writing() as file:
            gone = [folder for (folder,) in file.execute("DELETE FROM runs WHERE id = ? RETURNING folder", (run,))]
            _forget_gradients(file)
        self._remove(gone)
        return bool(gone)

    def _insert(
        self, question: Question, report: Report, title: str, source: str, place: Path, digests: dict[str, str]
    ) -> list[str]:
        """One transaction: values, row, and what has to leave; returns the folders that are no longer named."""
        found = report.to_dict()
        gradient = question.gradient
        label = {
            "name": gradient.name,
            "tensors": [t.name for t in gradient],
            "warnings": list(gradient.warnings),
            "metadata": dict(gradient.metadata),
        }
        values = (
            question.id,
            self._clock(),
            _storable(title),
            source,
            gradient.identity,
            json.dumps(label),
            report.model.fingerprint,
            json.dumps(question.config.to_dict()),
            json.dumps({name: found[name] for name in SUMMARY}),
            json.dumps(found),
            place.name,
            json.dumps(digests),
            sum((place / table).stat().st_size for table in digests),
            json.dumps(library_versions()),
        )
        with self._index.writing() as file:
            self._keep_gradient(file, gradient)
            older = file.execute("DELETE FROM runs WHERE id = ? RETURNING folder", (question.id,)).fetchall()
            file.execute(f"INSERT INTO runs ({COLUMNS}) VALUES ({', '.join('?' * len(values))})", values)
            gone = [folder for (folder,) in older] + self._evict(file, question.id)
        return gone

    def _keep_gradient(self, file: sqlite3.Connection, gradient: Gradient) -> None:
        if gradient.raw_bytes > GRADIENT_BYTES:
            return
        path = self._gradient_path(gradient.identity)
        if not path.is_file():
            from lmgc_core.files import save_gradient

            try:
                save_gradient(replace(gradient, metadata={}), path)
            except UnsupportedInput as error:
                if isinstance(error.__cause__, OSError):
                    raise error.__cause__ from None
                return  # names that no file can hold: the run opens where its gradient is at hand
        file.execute("INSERT OR REPLACE INTO gradients VALUES (?, ?)", (gradient.identity, path.stat().st_size))

    def _evict(self, file: sqlite3.Connection, newest: str) -> list[str]:
        """Takes the oldest runs off the list until the rest fits.

        Raises:
            RunsUnavailable: when the newest alone does not; nothing is changed then.
        """
        gone: list[str] = []
        while (total := total_bytes(file)) > self.limit:
            oldest = file.execute(
                "SELECT id, folder FROM runs WHERE id != ? ORDER BY made_at LIMIT 1", (newest,)
            ).fetchone()
            if oldest is None:
                raise RunsUnavailable(
                    f"the result was not kept: it takes {total:,} bytes, all kept runs together may take "
                    f"{self.limit:,}; set {LIMIT_NAME} to more"
                )
            file.execute("DELETE FROM runs WHERE id = ?", (oldest[0],))
            _forget_gradients(file)
            gone.append(oldest[1])
        return gone

    # ---- files that nobody names any more -------------------------------------------------------------

    def _gradient_path(self, identity: str) -> Path:
        return self.folder / "gradients" / f"{identity}.safetensors"

    def _remove(self, folders: list[str]) -> None:
        """Removes tables that have left the list, and gradients that no run needs; while nobody else writes."""
        for name in folders:
            shutil.rmtree(self.folder / "results" / name, ignore_errors=True)
        with suppress(RunsUnavailable, OSError), self._index.writing() as file:
            needed = {identity for (identity,) in file.execute("SELECT identity FROM gradients")}
            for path in (self.folder / "gradients").glob("*.safetensors"):
                if path.stem not in needed:
                    path.unlink(missing_ok=True)

    def _sweep_results(self) -> None:
        """Removes folders that a killed process left."""
        with suppress(OSError, RunsUnavailable):
            named = {row.folder for row in self.rows()}
            for entry in os.scandir(self.folder / "results"):
                if entry.name not in named and self._clock() - entry.stat().st_mtime > STALE_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)


def library_versions() -> dict[str, str]:
    """Versions of the libraries whose arithmetic is in a result."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("numpy", "tokenizers", "torch", "transformers"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _forget_gradients(file: sqlite3.Connection) -> None:
    file.execute("DELETE FROM gradients WHERE identity NOT IN (SELECT gradient FROM runs)")


def _damaged(row: KeptRun, why: str) -> RunsUnavailable:
    return RunsUnavailable(f"run {row.id} cannot be opened: {why}; delete it, or compute it anew")


def _storable(text: str) -> str:
    """Text without what UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()
