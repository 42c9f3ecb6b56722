"""Work that outlives a page's script: one worker thread, progress, cancel, a bounded store of results.

A job's id is made of what it computes (`job_id`), so that a reload, a second visitor or an address with
that id finds the same job, and nothing is computed twice. Readers get `JobView`s, never the live object.
What a job had published before it was cancelled or failed stays readable as `partial`.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lmgc_core.errors import Cancelled, LmgcError
from lmgc_core.question import question_id

Phase = Literal["waiting", "running", "done", "cancelled", "failed", "broken"]
ACTIVE: frozenset[Phase] = frozenset({"waiting", "running"})
CAPACITY = 24

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as a page sees it at one moment.

    Attributes:
        id: from `job_id`.
        kind: what sort of work, e.g. "measure".
        phase: "broken" is a bug, "failed" an expected failure whose line is `error`.
        subject: what the work was given (a gradient and its settings), kept so that an address alone can show it.
        note: what it is doing now, in a few words.
        warning: a line that stays with the result, e.g. that it was not kept.
        fraction: done, 0 to 1, or None while that is unknown.
        partial: the last thing published; `result` once done.
        version: grows with every change, so that a view knows whether to redraw.
        queued_before: jobs that will run first.
    """

    id: str
    kind: str
    phase: Phase
    subject: Any = None
    note: str = ""
    warning: str = ""
    fraction: float | None = None
    partial: Any = None
    result: Any = None
    error: str = ""
    exception: BaseException | None = None
    submitted_at: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None
    version: int = 0
    queued_before: int = 0

    @property
    def active(self) -> bool:
        """Waiting or running."""
        return self.phase in ACTIVE

    @property
    def poll_seconds(self) -> float | None:
        """How often a page should look: seldom while there is nothing to see, None when it will not change."""
        if not self.active:
            return None
        return 2.0 if self.fraction is None and self.partial is None else 0.5

    def seconds_left(self, now: float) -> float | None:
        """An estimate from the fraction done so far; None while there is nothing to go by."""
        if self.started_at is None or not self.fraction or self.phase != "running":
            return None
        return (now - self.started_at) * (1 - self.fraction) / self.fraction


class JobContext:
    """What running work may do: say where it stands, publish, ask whether to stop."""

    def __init__(self, manager: JobManager, job_id: str, stop: threading.Event) -> None:
        self._manager, self._id, self._stop = manager, job_id, stop

    def say(self, note: str, fraction: float | None = None) -> None:
        """Progress: a few words, and the fraction done if known."""
        self._manager._update(self._id, note=note, fraction=fraction)

    def publish(self, partial: Any) -> None:
        """A result so far, complete in itself; it stays if the job is cancelled."""
        self._manager._update(self._id, partial=partial)

    def warn(self, line: str) -> None:
        """Leaves a line that stays with the result."""
        self._manager._update(self._id, warning=line)

    def should_stop(self) -> bool:
        """Whether the job was asked to end; to be asked between batches."""
        return self._stop.is_set()

    def check(self) -> None:
        """Raises Cancelled if the job was asked to end."""
        if self._stop.is_set():
            raise Cancelled("stopped on request")


Work = Callable[[JobContext], Any]


@dataclass(slots=True)
class _Entry:
    view: JobView
    work: Work
    stop: threading.Event = field(default_factory=threading.Event)


def job_id(kind: str, facts: Mapping[str, Any]) -> str:
    """Twelve hex digits that stand for one piece of work.

    >>> job_id("measure", {"limit": 8}) == job_id("measure", {"limit": 8})
    True
    """
    return question_id(kind, facts)


class JobManager:
    """One queue, one worker; thread-safe. The clock comes in so that tests own it."""

    def __init__(self, capacity: int = CAPACITY, clock: Callable[[], float] = time.time) -> None:
        self._capacity, self._clock = capacity, clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._queue: deque[str] = deque()
        self._lock = threading.Condition()
        self._worker: threading.Thread | None = None

    def submit(self, kind: str, facts: Mapping[str, Any], work: Work, subject: Any = None) -> JobView:
        """Queues work unless the same is there already, waiting, running or done."""
        key = job_id(kind, facts)
        with self._lock:
            known = self._entries.get(key)
            if known is not None and (known.view.active or known.view.phase == "done"):
                if not (known.view.active and known.stop.is_set()):
                    self._entries.move_to_end(key)
                    return known.view
                raise Cancelled("the same run is just being stopped; try again in a moment")
            view = JobView(key, kind, "waiting", subject, "waiting", submitted_at=self._clock())
            self._entries[key] = _Entry(view, work)
            self._entries.move_to_end(key)
            self._queue.append(key)
            self._evict()
            if self._worker is None or not self._worker.is_alive():
                self._worker = threading.Thread(target=self._run, name="jobs", daemon=True)
                self._worker.start()
            self._lock.notify_all()
            return view

    def adopt(self, key: str, kind: str, subject: Any, result: Any, finished_at: float) -> JobView:
        """Takes in a result that was computed before, as if the work had been done here; never replaces a job."""
        with self._lock:
            if key not in self._entries:
                view = JobView(
                    key, kind, "done", subject, "done", fraction=1.0, partial=result, result=result,
                    submitted_at=finished_at, finished_at=finished_at,
                )  # fmt: skip
                self._entries[key] = _Entry(view, _done)
                self._evict()
            return self._entries[key].view

    def forget(self, key: str) -> None:
        """Lets go of a job that is not active; nothing happens to an active one."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and not entry.view.active:
                del self._entries[key]

    def get(self, key: str | None) -> JobView | None:
        """The job of that id as it is now; None if there is none (any more)."""
        with self._lock:
            entry = self._entries.get(key or "")
            if entry is None:
                return None
            before = self._queue.index(entry.view.id) + 1 if entry.view.id in self._queue else 0
            return replace(entry.view, queued_before=before)

    def cancel(self, key: str) -> None:
        """Asks a job to end; a waiting one ends at once, a running one between two batches."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or not entry.view.active:
                return
            entry.stop.set()
            if key in self._queue:
                self._queue.remove(key)
                self._change(entry, phase="cancelled", note="stopped", finished_at=self._clock())
            else:
                self._change(entry, note="stopping after this batch")

    def finished(self, kind: str) -> list[JobView]:
        """Jobs of that kind which are done, the newest last."""
        with self._lock:
            return [e.view for e in self._entries.values() if e.view.kind == kind and e.view.phase == "done"]

    def wait(self, key: str, timeout: float) -> JobView | None:
        """The job once it is no longer active, or as it is after `timeout` seconds. For tests and scripts."""
        with self._lock:
            self._lock.wait_for(lambda: key not in self._entries or not self._entries[key].view.active, timeout)
        return self.get(key)

    def _update(self, key: str, **changes: Any) -> None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.view.phase == "running":
                if entry.stop.is_set():
                    changes.pop("note", None)
                self._change(entry, **changes)

    def _change(self, entry: _Entry, **changes: Any) -> None:
        entry.view = replace(entry.view, version=entry.view.version + 1, **changes)
        self._lock.notify_all()

    def _evict(self) -> None:
        idle = [k for k, e in list(self._entries.items())[:-1] if not e.view.active]
        for key in idle[: max(0, len(self._entries) - self._capacity)]:
            del self._entries[key]

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._queue:
                    self._lock.wait()
                key = self._queue.popleft()
                entry = self._entries[key]
                self._change(entry, phase="running", note="starting", started_at=self._clock())
            ending: dict[str, Any]
            try:
                result = entry.work(JobContext(self, key, entry.stop))
                ending = {"phase": "done", "result": result, "partial": result, "fraction": 1.0, "note": "done"}
            except Cancelled as error:
                ending = {"phase": "cancelled", "error": str(error), "note": "stopped"}
            except LmgcError as error:
                ending = {"phase": "failed", "error": str(error), "note": "failed"}
            except Exception as error:
                _log.exception("job %s (%s) ended by a bug", key, entry.view.kind)
                traceback.clear_frames(error.__traceback__)  # the trace stays, what it held (a model) does not
                ending = {"phase": "broken", "exception": error, "error": f"{type(error).__name__}: {error}"}
            with self._lock:
                entry.work = _done
                self._change(entry, finished_at=self._clock(), **ending)


def _done(context: JobContext) -> None:
    """Stands in for work that has run, so that what it held can be freed."""
