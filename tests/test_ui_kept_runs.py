"""The Runs page and runs that come back: by settings, by an address, on a server for one and for many."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from lmgc_core import store
from lmgc_core.codec import measure
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import load_model
from lmgc_core.question import Question
from lmgc_core.run_index import KeptRun
from lmgc_core.settings import preset
from lmgc_core.store import RunStore
from pages.ui import data, kept_chosen, kept_runs, state
from pages.ui.data import Loaded
from pages.ui.kept_table import Filter, label, table_row

ROOT = Path(__file__).parent.parent
SECONDS = 120


@pytest.fixture(autouse=True)
def fresh_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache folder that keeps runs, no jobs, one person's server."""
    monkeypatch.setenv("LMGC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(store.LIMIT_NAME)
    monkeypatch.setattr(state, "local_mode", lambda: True)
    restart()
    yield
    for job in list(data.jobs()._entries):
        data.jobs().cancel(job)


def restart() -> None:
    """What a server forgets when it ends."""
    data.jobs.clear()
    data.model_is_here.clear()
    data.catalogue.clear()


@pytest.fixture
def gradient() -> Gradient:
    rng = np.random.default_rng(0)
    return Gradient.from_arrays({"w": (rng.standard_normal((20, 9, 3)) * 1e-3).astype(np.float32)}, "small.npz")


@pytest.fixture
def kept(gradient: Gradient, model: str) -> list[KeptRun]:
    """Two runs on the same values, the newest first: preset lean, then best."""
    reader = load_model(model)
    for title, name in (("first **file**", "best"), ("second", "lean")):
        question = Question(gradient, preset(name, model=model), 0)
        report = measure(gradient, reader, question.config, limit=0)
        RunStore().keep(question, report, title=title, source="upload")
    return RunStore().rows()


def open_page(page: str, address: dict[str, str] | None = None, **facts: Any) -> AppTest:
    at = AppTest.from_file(str(ROOT / page), default_timeout=SECONDS)
    for key, value in facts.items():
        at.session_state[key] = value
    for key, value in (address or {}).items():
        at.query_params[key] = value
    return at.run()


def texts(at: AppTest) -> str:
    kinds = (at.markdown, at.caption, at.error, at.info, at.warning, at.text, at.metric)
    return "\n".join(str(e.value) + str(getattr(e, "label", "")) for kind in kinds for e in kind)


def cards(at: AppTest) -> dict[str, str]:
    return {m.label: m.value for m in at.metric}


def test_a_run_is_there_again_after_the_server_was_restarted(gradient: Gradient, model: str) -> None:
    facts = {"source": "upload", "loaded": Loaded(gradient, "upload", "small"), "model": model}
    at = open_page("app.py", **facts)
    at.button(key="run_button").click().run()
    run = at.session_state[state.RUN]
    data.jobs().wait(run, SECONDS)
    at.run()
    before = cards(at)
    assert not at.exception
    assert [row.id for row in RunStore().rows()] == [run]
    restart()
    started = time.perf_counter()
    for again in (open_page("app.py", **facts), open_page("app.py", kept_runs.address_of_run(RunStore().rows()[0]))):
        assert not again.exception
        assert not again.error
        assert cards(again)["rate, % of raw"] == before["rate, % of raw"]
        assert "Settings have changed" not in texts(again)
        assert again.session_state[state.RUN] == run
        restart()
    assert time.perf_counter() - started < SECONDS


def test_an_address_with_an_id_alone_opens_a_kept_run(kept: list[KeptRun], model: str) -> None:
    at = open_page("app.py", {"source": "run", "run": kept[0].id})
    assert not at.exception
    assert cards(at)["tokens per parameter"]


def test_a_run_opens_where_its_model_is_gone(kept: list[KeptRun], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmgc_core.language_model.locate.is_here", lambda name: False)
    monkeypatch.setattr(data, "model_is_here", lambda name: False)
    at = open_page("app.py", {**kept_runs.address_of_run(kept[0])})
    assert not at.exception
    assert cards(at)["tokens per parameter"]


def test_a_damaged_run_is_one_line_and_can_be_computed_anew(
    gradient: Gradient, kept: list[KeptRun], model: str
) -> None:
    for path in (RunStore().folder / "results").rglob("*.parquet"):
        path.write_bytes(b"")
    facts = {"source": "upload", "loaded": Loaded(gradient, "upload", "small"), "model": model, "preset": "lean"}
    at = open_page("app.py", **facts)
    assert not at.exception
    assert len(at.error) == 1
    assert "compute it anew" in at.error[0].value
    assert not at.button(key="run_button").disabled
    at.button(key="run_button").click().run()
    data.jobs().wait(at.session_state[state.RUN], SECONDS)
    at.run()
    assert not at.error
    assert RunStore().open(kept[0].id).totals.n_tokens
    page = open_page("pages/6_Runs.py", {"chosen": kept[1].id})
    assert not page.exception
    assert "delete it" in page.error[0].value
    page.button(key="delete_runs").click().run()
    page.button(key="delete_really").click().run()
    assert not page.exception
    assert [row.id for row in RunStore().rows()] == [kept[0].id]


def test_a_result_that_cannot_be_kept_is_shown_with_a_line(gradient: Gradient, model: str) -> None:
    RunStore().folder.parent.mkdir()
    RunStore().folder.write_text("in the way")
    at = open_page("app.py", source="upload", loaded=Loaded(gradient, "upload", "small"), model=model)
    at.button(key="run_button").click().run()
    data.jobs().wait(at.session_state[state.RUN], SECONDS)
    at.run()
    assert not at.exception
    assert cards(at)["tokens per parameter"]
    assert any("was not kept" in w.value for w in at.warning)


def test_an_empty_list_says_what_will_be_here() -> None:
    at = open_page("pages/6_Runs.py")
    assert not at.exception
    assert "Nothing yet" in at.info[0].value


def test_the_list_filters_and_says_how_much_room_there_is(kept: list[KeptRun]) -> None:
    at = open_page("pages/6_Runs.py")
    assert not at.exception
    assert at.dataframe[0].value["gradient"].tolist() == ["second", "first **file**"]
    assert "of 2.00\u202fGB" in texts(at)
    at.text_input(key=state.RUNS_WORDS).set_value("FILE best").run()
    assert at.dataframe[0].value["gradient"].tolist() == ["first **file**"]
    at.multiselect(key=state.RUNS_PRESETS).set_value(["lean"]).run()
    assert not at.dataframe
    assert "No run fits" in texts(at)
    at.text_input(key=state.RUNS_WORDS).set_value("").run()
    assert at.dataframe[0].value["gradient"].tolist() == ["second"]


def test_a_chosen_run_shows_its_numbers_and_files(kept: list[KeptRun]) -> None:
    at = open_page("pages/6_Runs.py", {"chosen": kept[1].id})
    assert not at.exception
    totals = RunStore().open(kept[1].id).totals
    assert cards(at)["tokens"] == f"{totals.n_tokens:,}".replace(",", "\u202f")
    assert len(at.get("download_button")) == 4
    assert "**file**" not in texts(at).replace("\\*\\*file\\*\\*", "")


def test_two_chosen_runs_are_compared(kept: list[KeptRun]) -> None:
    at = open_page("pages/6_Runs.py")
    at.multiselect(key=state.CHOSEN_RUNS).set_value([kept[0].id, kept[1].id]).run()
    assert not at.exception
    assert "Left against right" in texts(at)
    figures = at.dataframe[1].value.set_index("figure")
    assert figures.loc["preset"].tolist() == ["lean", "best"]
    assert "model" in figures.index
    assert texts(at).count("bits per parameter of text") == 2


def test_deleting_asks_first(kept: list[KeptRun]) -> None:
    at = open_page("pages/6_Runs.py", {"chosen": kept[0].id})
    at.button(key="delete_runs").click().run()
    assert len(RunStore().rows()) == 2
    assert "for good" in at.warning[0].value
    at.button(key="delete_not").click().run()
    assert not at.warning
    at.button(key="delete_runs").click().run()
    at.button(key="delete_really").click().run()
    assert not at.exception
    assert at.dataframe[0].value["gradient"].tolist() == ["first **file**"]
    assert at.multiselect(key=state.CHOSEN_RUNS).value == []


def test_visitors_of_a_shared_server_see_no_strangers_runs(
    kept: list[KeptRun], gradient: Gradient, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "local_mode", lambda: False)
    at = open_page("pages/6_Runs.py")
    assert not at.exception
    assert "Nothing yet" in at.info[0].value
    stranger = open_page("pages/6_Runs.py", {"chosen": kept[1].id})
    assert "file" not in texts(stranger)
    shared = open_page("app.py", {"source": "run", "run": kept[1].id})  # who has the address may see the run
    assert not shared.exception
    assert cards(shared)["tokens per parameter"]
    assert "first \\*" not in texts(shared)
    own = open_page("pages/6_Runs.py", own_runs={kept[1].id: "my name for it"})
    assert own.dataframe[0].value["gradient"].tolist() == ["my name for it"]


def test_a_list_that_cannot_be_read_is_one_line(kept: list[KeptRun]) -> None:
    (RunStore().folder / "index.sqlite3").write_bytes(b"no list at all" * 99)
    at = open_page("pages/6_Runs.py")
    assert not at.exception
    assert len(at.error) == 1
    assert "cannot be used" in at.error[0].value


def test_rows_filter_by_words_and_values(kept: list[KeptRun]) -> None:
    lean, best = kept
    assert Filter().takes(lean)
    assert Filter("SECOND mix").takes(lean)
    assert not Filter("second best").takes(lean)
    assert Filter(best.id).takes(best)
    assert Filter(titles=("second",), presets=("lean",)).takes(lean)
    assert not Filter(models=("gpt2",)).takes(lean)
    assert table_row(best)["measured"] == "whole"
    assert label(best) != label(lean)
    assert kept_chosen.different_settings(lean, best)[:1] != []
    assert kept_chosen.different_settings(best, best) == []


def test_a_run_on_a_whole_sample_has_the_samples_address(kept: list[KeptRun], monkeypatch: pytest.MonkeyPatch) -> None:
    made = kept[0].summary["input"]
    monkeypatch.setattr(kept_runs, "whole_samples", lambda: {(made["sha256"], made["n_parameters"]): "a_sample"})
    assert kept_runs.address_of_run(kept[0])["sample"] == "a_sample"
    assert kept_runs.address_of_run(kept[0])["source"] == "sample"
    assert kept_runs.address_of_run(kept[0])["run"] == kept[0].id
