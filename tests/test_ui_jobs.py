"""The job manager: one worker, the same work once, cancel keeps what was published."""

from __future__ import annotations

import threading

import pytest

from lmgc_core.errors import Cancelled, InvalidSetting
from pages.ui.jobs import JobContext, JobManager, job_id


def test_result_is_kept_and_the_same_work_is_not_done_twice() -> None:
    manager, calls = JobManager(), []

    def work(context: JobContext) -> int:
        calls.append(1)
        return 42

    first = manager.submit("k", {"a": 1}, work, subject="gradient")
    done = manager.wait(first.id, 10)
    assert done is not None
    assert (done.phase, done.result, done.subject, done.fraction) == ("done", 42, "gradient", 1.0)
    again = manager.submit("k", {"a": 1}, work)
    assert (again.id, again.phase, len(calls)) == (first.id, "done", 1)
    assert manager.submit("k", {"a": 2}, work).id != first.id


def test_cancel_between_batches_keeps_the_partial_result() -> None:
    manager = JobManager()
    half, go_on = threading.Event(), threading.Event()

    def work(context: JobContext) -> str:
        context.say("half way", 0.5)
        context.publish("half")
        half.set()
        go_on.wait(10)
        context.check()
        return "whole"

    job = manager.submit("k", {}, work)
    assert half.wait(10)
    running = manager.get(job.id)
    assert running is not None
    assert (running.phase, running.fraction, running.partial) == ("running", 0.5, "half")
    manager.cancel(job.id)
    with pytest.raises(Cancelled):
        manager.submit("k", {}, work)
    go_on.set()
    ended = manager.wait(job.id, 10)
    assert ended is not None
    assert (ended.phase, ended.partial, ended.result) == ("cancelled", "half", None)


def test_waiting_jobs_are_counted_and_can_be_cancelled_before_they_start() -> None:
    manager, go_on, ran = JobManager(), threading.Event(), []
    first = manager.submit("k", {"n": 1}, lambda c: go_on.wait(10))
    second = manager.submit("k", {"n": 2}, lambda c: ran.append(2))
    third = manager.submit("k", {"n": 3}, lambda c: ran.append(3))
    waiting = manager.get(third.id)
    assert waiting is not None
    assert waiting.phase == "waiting"
    assert waiting.queued_before >= 2
    manager.cancel(second.id)
    go_on.set()
    assert manager.wait(third.id, 10).phase == "done"  # type: ignore[union-attr]
    assert manager.get(second.id).phase == "cancelled"  # type: ignore[union-attr]
    assert ran == [3]
    assert manager.get(first.id).phase == "done"  # type: ignore[union-attr]


def test_expected_failures_are_one_line_and_bugs_stay_loud(caplog: pytest.LogCaptureFixture) -> None:
    manager = JobManager()

    def fails(context: JobContext) -> None:
        raise InvalidSetting("planes 'x' is not known")

    def breaks(context: JobContext) -> None:
        raise ZeroDivisionError("oh")

    failed = manager.wait(manager.submit("k", {"n": 1}, fails).id, 10)
    assert (failed.phase, failed.error) == ("failed", "planes 'x' is not known")  # type: ignore[union-attr]
    broken = manager.wait(manager.submit("k", {"n": 2}, breaks).id, 10)
    assert broken.phase == "broken"  # type: ignore[union-attr]
    assert isinstance(broken.exception, ZeroDivisionError)  # type: ignore[union-attr]
    assert "ended by a bug" in caplog.text
    retried = manager.submit("k", {"n": 1}, lambda c: "fine now")
    assert manager.wait(retried.id, 10).result == "fine now"  # type: ignore[union-attr]


def test_the_store_is_bounded_and_the_oldest_leaves_first() -> None:
    manager = JobManager(capacity=3)
    ids = []
    for n in range(5):
        ids.append(manager.submit("k", {"n": n}, lambda c: None).id)
        manager.wait(ids[-1], 10)
    assert [manager.get(i) is not None for i in ids] == [False, False, True, True, True]


def test_time_left_follows_the_fraction_done() -> None:
    now = [100.0]
    manager, told, go_on = JobManager(clock=lambda: now[0]), threading.Event(), threading.Event()

    def work(context: JobContext) -> None:
        context.say("quarter", 0.25)
        told.set()
        go_on.wait(10)

    job = manager.submit("k", {}, work)
    assert told.wait(10)
    assert manager.get(job.id).seconds_left(110.0) == pytest.approx(30.0)  # type: ignore[union-attr]
    go_on.set()
    assert manager.wait(job.id, 10).seconds_left(110.0) is None  # type: ignore[union-attr]


def test_ids_stand_for_the_work_and_not_for_the_order_of_its_facts() -> None:
    assert job_id("m", {"a": 1, "b": 2}) == job_id("m", {"b": 2, "a": 1})
    assert job_id("m", {"a": 1}) != job_id("m", {"a": 2})
    assert job_id("m", {"a": 1}) != job_id("n", {"a": 1})
