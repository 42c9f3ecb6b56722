"""One model in memory, whoever asks; an older one is given up; a run goes on whatever its page does."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmgc_core.language_model as language_model
from lmgc_core.gradient import Gradient
from lmgc_core.settings import RunOptions, preset
from pages.ui import data, state, work
from pages.ui.jobs import JobContext, JobManager
from pages.ui.work import Measured, measure_work
from tests.test_ui_pages import SECONDS, fresh_server, gradient, open_gradient, run_to_the_end  # noqa: F401
from tests.tiny_models import tiny_gpt2


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Weak references to the models loaded from here on; nothing is on the shelf before."""
    work._shelf.cache_clear()
    found: list[Any] = []
    load = language_model.load_model

    def told(*arguments: Any, **named: Any) -> Any:
        loaded = load(*arguments, **named)
        found.append(weakref.ref(loaded))
        return loaded

    monkeypatch.setattr(language_model, "load_model", told, raising=False)
    return found


def small(seed: int) -> Gradient:
    return Gradient.from_arrays({"w": np.random.default_rng(seed).normal(size=40).astype(np.float32)})


def subject(seed: int, folder: str) -> Measured:
    return Measured(small(seed), f"{seed}.npy", "upload", preset("best", model=folder, context_window=128), 1)


def test_sessions_that_need_the_model_at_once_load_it_once(loads: list[Any], model: str) -> None:
    manager, gate = JobManager(), threading.Barrier(4)
    ids: list[str] = []

    def session(seed: int) -> None:
        gate.wait(10)
        asked = subject(seed, model)
        ids.append(manager.submit("measure", asked.facts, measure_work(asked, RunOptions()), asked).id)

    sessions = [threading.Thread(target=session, args=(seed,)) for seed in range(4)]
    for one in sessions:
        one.start()
    for one in sessions:
        one.join(30)
    for key in ids:
        ended = manager.wait(key, SECONDS)
        assert ended is not None
        assert ended.phase == "done", ended.error
    assert len(set(ids)) == 4
    assert len(loads) == 1


def test_another_model_takes_the_place_of_the_one_before(loads: list[Any], model: str, tmp_path: Path) -> None:
    manager, other = JobManager(), str(tiny_gpt2(tmp_path / "gpt2"))
    for folder in (model, other, model):
        asked = subject(len(loads), folder)
        ended = manager.wait(
            manager.submit("measure", asked.facts, measure_work(asked, RunOptions()), asked).id, SECONDS
        )
        assert ended is not None
        assert ended.phase == "done", ended.error
        gc.collect()
        assert sum(ref() is not None for ref in loads) == 1, "results and jobs hold no model"
    assert len(loads) == 3


def test_a_bug_keeps_its_trace_and_nothing_it_held() -> None:
    class Model:
        """Stands in for what is large."""

    held: list[Any] = []

    def broken(context: JobContext) -> None:
        large = Model()
        held.append(weakref.ref(large))
        raise ZeroDivisionError("a bug")

    manager = JobManager()
    ended = manager.wait(manager.submit("k", {}, broken).id, 10)
    assert ended is not None
    assert ended.phase == "broken"
    assert ended.exception is not None
    assert ended.exception.__traceback__ is not None
    gc.collect()
    assert held[0]() is None


def test_a_touch_in_the_middle_of_a_run_leaves_it_running(gradient: Gradient, model: str) -> None:  # noqa: F811
    at = open_gradient("app.py", gradient, model=model).run()
    at.button(key="run_button").click().run()
    job = at.session_state[state.RUN]
    at.session_state[state.PRESET] = "lean"
    at.run()
    assert not at.exception
    ended = data.jobs().wait(job, SECONDS)
    assert ended is not None
    assert ended.phase == "done"
    at.run()
    assert any("Settings have changed" in w.value for w in at.warning), "an older result says so"


def test_downloads_are_the_same_bytes_each_time_and_results_stay(gradient: Gradient, model: str) -> None:  # noqa: F811
    at = run_to_the_end(open_gradient("app.py", gradient, model=model).run(), "run_button", state.RUN)
    job = data.jobs().get(at.session_state[state.RUN])
    assert job is not None
    before = {m.label: m.value for m in at.metric}
    for name in ("report.json", "tokens.parquet", "bits.npz", "report.html"):
        first = data.report_file(job.id, job.version, name, job.result)
        data.report_file.clear()
        assert data.report_file(job.id, job.version, name, job.result) == first, name
    at.run()
    assert {m.label: m.value for m in at.metric} == before


@pytest.mark.parametrize(
    "array",
    [np.full((12, 9), 5, np.float32), np.full(40, np.nan, np.float32), np.zeros((1, 70_000), np.float32),
     np.float32([np.inf, -np.inf, 1.0]), np.float32(3.5)],
    ids=["constant", "all NaN", "wide", "infinities", "one value"],
)  # fmt: skip
def test_arrays_that_break_pictures_are_drawn(array: np.ndarray, model: str) -> None:
    at = open_gradient("app.py", Gradient.from_arrays({"w": array}), model=model, limit=1, tab="Tensors").run()
    at = run_to_the_end(at, "run_button", state.RUN)
    assert not at.error
    assert any("Heatmap of" in c.proto.alt for c in at.get("plotly_chart"))
    table = next(d.value for d in at.dataframe if "sampled" in d.value.columns)
    assert table["parameters"].tolist() == [array.size]
