"""Finished segments of a run on disk, so that a killed run goes on where it was.

Inverse pair: `Checkpoint.save` / `Checkpoint.find`. A segment is one file, there whole or not at all, of what the
prior said of each token; texts and remainders are made again from the gradient. Law: a resumed run gives the numbers of
one that was never killed, and loses at most the segments that were being scored.
"""

from __future__ import annotations

import io
import shutil
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.language_model import WindowScores
from lmgc_core.prediction import Scored, SegmentTask
from lmgc_core.whole_file import write_whole

FIELDS = ("surprisal_bits", "entropy_bits", "rank", "cumulative_bits", "top_token_ids", "top_bits")


class Checkpoint:
    """The finished segments of one run.

    Args:
        folder: for this run alone; made when the first segment is saved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, task: SegmentTask) -> list[Scored] | None:
        """What was saved of a segment; None where nothing was, or of other tokens."""
        try:
            with np.load(self._path(task), allow_pickle=False) as stored:
                arrays: dict[str, npt.NDArray[Any]] = {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
            return None
        if not {"stamp", *FIELDS} <= arrays.keys() or int(arrays["stamp"]) != _stamp(task):
            return None
        edges = np.cumsum([0, *(len(ids) for ids in task.ids)])
        found = []
        for place in range(len(task.ids)):
            rows = slice(edges[place], edges[place + 1])
            scores = WindowScores(place, *(arrays[name][rows] for name in FIELDS))
            found.append(Scored(place, scores, arrays["prior_bits"][rows] if "prior_bits" in arrays else None))
        return found

    def save(self, task: SegmentTask, found: Sequence[Scored]) -> None:
        """Keeps a segment; a disk that is full, or that may not be written, costs the chance to go on, not the run."""
        ordered = sorted(found, key=lambda scored: scored.place)
        arrays: dict[str, Any] = {name: np.concatenate([getattr(s.scores, name) for s in ordered]) for name in FIELDS}
        arrays["stamp"] = np.int64(_stamp(task))
        if task.prior != "llm":
            arrays["prior_bits"] = np.concatenate([s.prior_bits for s in ordered if s.prior_bits is not None])
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(task), buffer.getvalue())

    def clear(self) -> None:
        """Forgets the run."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, task: SegmentTask) -> Path:
        return self.folder / f"segment-{task.index:08d}.npz"


def _stamp(task: SegmentTask) -> int:
    """A checksum of a segment's tokens and of where its windows end."""
    stamp = zlib.crc32(task.prior.encode())
    for ids in task.ids:
        stamp = zlib.crc32(len(ids).to_bytes(4, "little") + np.ascontiguousarray(ids, "<i4").tobytes(), stamp)
    return stamp
