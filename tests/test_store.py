"""Kept runs: whole reports come back, whatever kills or crowds the process that keeps them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core import run_index, store
from lmgc_core.codec import measure
from lmgc_core.compare import model_alone
from lmgc_core.errors import Cancelled, RunsUnavailable
from lmgc_core.gradient import Gradient
from lmgc_core.kept import load_or_measure
from lmgc_core.question import Question
from lmgc_core.report import Report
from lmgc_core.run_index import MIGRATIONS, migrate
from lmgc_core.settings import CodecConfig, RunOptions, preset
from lmgc_core.store import RunStore

ROOT = Path(__file__).parent.parent


def gradient_of(seed: int = 0, n: int = 40, name: str = "small.npz") -> Gradient:
    rng = np.random.default_rng(seed)
    arrays = {"w": (rng.standard_normal((n, 9)) * 1e-3).astype(np.float32), "": np.arange(30, dtype=np.int16)}
    return replace(Gradient.from_arrays(arrays, name), warnings=("one note",), metadata={"step": "6"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept runs of a fresh cache."""
    monkeypatch.setenv("LMGC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(store.LIMIT_NAME)
    return tmp_path / "cache" / "runs"


def asked(model: Any, gradient: Gradient | None = None, **options: Any) -> Question:
    name = options.pop("name", "best")
    return Question(gradient or gradient_of(), preset(name, model=model.id, **options), 2)


def measured(question: Question, model: Any) -> Report:
    return measure(question.gradient, model, question.config, limit=question.limit)


def keep(question: Question, model: Any, **options: Any) -> Report:
    report = measured(question, model)
    RunStore(**options).keep(question, report, title="small", source="file")
    return report


def figures(report: Report) -> str:
    return json.dumps(report.to_dict())


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "best"},
        {"name": "paper", "context_window": 300},
        {"name": "best", "prior": "counts"},
        {"name": "lean", "transform": "topk:0.5+uniform:8"},
        {"name": "lean", "prior": "llm", "transform": "bf16"},
    ],
    ids=str,
)
def test_a_report_comes_back_to_the_last_bit(settings: dict[str, Any], tiny_model: Any, folder: Path) -> None:
    floats = gradient_of().select(["w"]) if "transform" in settings else gradient_of()
    question = asked(tiny_model, floats, **settings)
    report = keep(question, tiny_model)
    for again in (RunStore().open(question.id), RunStore().open(question.id, question.gradient)):
        assert figures(again) == figures(report)
        assert repr(again.tokens.to_dict("list")) == repr(report.tokens.to_dict("list"))
        assert again.complete == report.complete
        for name in report.bits:
            np.testing.assert_array_equal(again.bits[name], report.bits[name])
            np.testing.assert_array_equal(again.llm_bits[name], report.llm_bits[name])
        assert again.coding.raw.identity == question.gradient.identity
        assert (again.coding.raw.name, again.coding.raw.warnings) == ("small.npz", ("one note",))
        assert again.coding.raw.metadata == {"step": "6"}
        for ours, theirs in zip(report.results, again.results, strict=True):
            np.testing.assert_array_equal(ours.top_bits, theirs.top_bits)
            np.testing.assert_array_equal(ours.cumulative_bits, theirs.cumulative_bits)
            assert ours.window.text.text == theirs.window.text.text
    assert json.dumps(RunStore().report_json(question.id)) == figures(report)


def test_the_models_own_row_of_a_mixture_comes_back_too(tiny_model: Any, folder: Path) -> None:
    question = asked(tiny_model)
    alone = replace(question, config=replace(question.config, prior="llm"))
    report = model_alone(measured(question, tiny_model))
    RunStore().keep(alone, report, title="", source="file")
    assert figures(RunStore().open(alone.id)) == figures(report)


def test_a_question_is_answered_once(tiny_model: Any, folder: Path) -> None:
    question = asked(tiny_model)
    first = load_or_measure(question, lambda: tiny_model, title="small", source="file")

    def refuse() -> Any:
        raise AssertionError("the model was loaded")

    again = load_or_measure(question, refuse, title="other", source="upload")
    assert (first.kept_at, first.note) == (None, "")
    assert again.kept_at is not None
    assert figures(again.report) == figures(first.report)
    assert [row.title for row in RunStore().rows()] == ["small"]


def test_what_the_same_words_and_other_words_ask(tiny_model: Any) -> None:
    base = asked(tiny_model)
    same = [
        replace(base, gradient=gradient_of(name="another name")),
        replace(base, options=RunOptions(batch_size=1, threads=1)),
        replace(base, config=preset("best", model=tiny_model.id, seed=0, transform="none")),
        replace(base, limit=0),
        replace(base, limit=500),
    ]
    assert {q.id for q in same} == {base.id}
    plain = CodecConfig(model=tiny_model.id, planes="head", alphabet="numbers", prior="mix")
    floats = gradient_of().select(["w"])
    assert Question(floats, plain, 1).id == Question(floats, preset("best", model=tiny_model.id), 1).id
    other = [
        base,
        replace(base, gradient=gradient_of(1)),
        replace(base, limit=1),
        replace(base, seed=1),
        replace(base, options=RunOptions(dtype="bf16")),
        replace(base, options=RunOptions(device="cuda")),
        *(
            replace(base, config=preset("best", **{"model": tiny_model.id, **changed}))
            for changed in (
                {"model": "gpt2"},
                {"alphabet": "hex"},
                {"context_window": 300},
                {"support": "full"},
                {"prior": "llm"},
                {"segment": 4},
                {"transform": "bf16"},
                {"seed": 1},
            )
        ),
    ]
    assert len({q.id for q in other}) == len(other)


def test_a_report_bears_the_name_and_the_words_of_who_asks_again(tiny_model: Any, folder: Path) -> None:
    floats = gradient_of().select(["w"])
    keep(Question(floats, preset("best", model=tiny_model.id), 0), tiny_model)
    plain = CodecConfig(model=tiny_model.id, planes="head", alphabet="numbers", prior="mix")
    question = Question(replace(floats, name="theirs.npy"), plain, 7, options=RunOptions(threads=3))
    found = load_or_measure(question, lambda: tiny_model, title="", source="file").report.to_dict()
    assert found["input"]["name"] == "theirs.npy"
    assert (found["settings"]["preset"], found["settings"]["limit"], found["settings"]["threads"]) == ("none", 7, 3)


def test_another_model_under_the_same_name_answers_anew(
    tiny_model: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = asked(tiny_model)
    load_or_measure(question, lambda: tiny_model, title="", source="file")
    monkeypatch.setattr("lmgc_core.kept.known_fingerprint", lambda name: "of other weights")
    assert load_or_measure(question, lambda: tiny_model, title="", source="file").kept_at is None
    assert len(RunStore().rows()) == 1
    monkeypatch.setattr("lmgc_core.kept.known_fingerprint", lambda name: None)  # no longer here: nothing speaks against
    assert load_or_measure(question, lambda: tiny_model, title="", source="file").kept_at is not None


def test_again_measures_and_replaces(tiny_model: Any, folder: Path) -> None:
    question = asked(tiny_model)
    load_or_measure(question, lambda: tiny_model, title="first", source="file")
    anew = load_or_measure(question, lambda: tiny_model, title="second", source="file", again=True)
    assert anew.kept_at is None
    assert [row.title for row in RunStore().rows()] == ["second"]
    assert len(list((folder / "results").iterdir())) == 1


def test_a_stopped_run_is_not_kept(tiny_model: Any, folder: Path) -> None:
    with pytest.raises(Cancelled):
        load_or_measure(asked(tiny_model), lambda: tiny_model, title="", source="file", should_stop=lambda: True)
    assert RunStore().rows() == []


def test_the_oldest_leave_first(tiny_model: Any, folder: Path) -> None:
    now = iter(range(100))
    questions = [asked(tiny_model, gradient_of(seed)) for seed in range(4)]
    for question in questions[:3]:
        keep(question, tiny_model, clock=lambda: float(next(now)))
    room = RunStore().n_bytes + 1000
    keep(questions[3], tiny_model, limit=room, clock=lambda: float(next(now)))
    kept = [row.id for row in RunStore().rows()]
    assert kept == [q.id for q in reversed(questions[4 - len(kept) :])]
    assert len(kept) < 4
    assert RunStore().n_bytes <= room
    assert len(list((folder / "results").iterdir())) == len(kept)
    assert len(list((folder / "gradients").iterdir())) == len(kept)
    with pytest.raises(RunsUnavailable, match=r"takes .* bytes"):
        keep(asked(tiny_model, gradient_of(9)), tiny_model, limit=500)
    assert [row.id for row in RunStore().rows()] == kept
    assert len(list((folder / "results").iterdir())) == len(kept)


def test_sizes_are_what_lies_on_the_disk(tiny_model: Any, folder: Path) -> None:
    keep(asked(tiny_model), tiny_model)
    keep(asked(tiny_model, name="lean"), tiny_model)
    on_disk = sum(
        p.stat().st_size for sub in ("results", "gradients") for p in (folder / sub).rglob("*") if p.is_file()
    )
    assert RunStore().n_bytes == on_disk
    assert len(list((folder / "gradients").iterdir())) == 1  # one gradient, two runs


def test_a_deleted_run_leaves_nothing(tiny_model: Any, folder: Path) -> None:
    question, other = asked(tiny_model), asked(tiny_model, name="lean")
    keep(question, tiny_model)
    keep(other, tiny_model)
    assert RunStore().delete(question.id)
    assert not RunStore().delete(question.id)
    assert figures(RunStore().open(other.id))  # the gradient that both share is still there
    assert RunStore().delete(other.id)
    assert [p for sub in ("results", "gradients") for p in (folder / sub).iterdir()] == []
    with pytest.raises(RunsUnavailable, match=f"no run {other.id} is kept"):
        RunStore().open(other.id)


def test_a_large_gradient_stays_where_it_is(tiny_model: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "GRADIENT_BYTES", 100)
    question = asked(tiny_model)
    report = keep(question, tiny_model)
    with pytest.raises(RunsUnavailable, match="is not kept with it"):
        RunStore().open(question.id)
    assert figures(RunStore().open(question.id, question.gradient)) == figures(report)
    assert load_or_measure(question, lambda: tiny_model, title="", source="").kept_at is not None


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)


@pytest.mark.parametrize("what", ["tokens.parquet", "windows.parquet", "gradient"])
@pytest.mark.parametrize(
    "how", [damage, Path.unlink, lambda p: p.write_bytes(b""), lambda p: p.write_bytes(b"PAR1" * 9)]
)
def test_damage_is_one_line_and_the_run_is_computed_anew(what: str, how: Any, tiny_model: Any, folder: Path) -> None:
    question = asked(tiny_model)
    keep(question, tiny_model)
    pattern = "gradients/*.safetensors" if what == "gradient" else f"results/*/{what}"
    (path,) = folder.glob(pattern)
    how(path)
    with pytest.raises(
        RunsUnavailable, match=f"run {question.id} cannot be opened: .*delete it, or compute it anew"
    ) as caught:
        RunStore().open(question.id)
    assert "\n" not in str(caught.value)
    if what == "gradient":
        return
    found = load_or_measure(question, lambda: tiny_model, title="", source="file")
    assert found.kept_at is None
    assert "cannot be opened" in found.note
    assert load_or_measure(question, lambda: tiny_model, title="", source="file").kept_at is not None


def test_where_nothing_can_be_written_the_run_goes_on(tiny_model: Any, folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("a file where the folder should be")
    found = load_or_measure(asked(tiny_model), lambda: tiny_model, title="", source="file")
    assert found.report.totals.n_tokens > 0
    assert "was not kept" in found.note


def test_a_full_disk_leaves_no_half_run(tiny_model: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    found = load_or_measure(asked(tiny_model), lambda: tiny_model, title="", source="file")
    assert "No space left on device" in found.note
    assert RunStore().rows() == []
    assert list((folder / "results").iterdir()) == []


def test_a_list_that_is_no_list_is_one_line(tiny_model: Any, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "index.sqlite3").write_bytes(b"this is no database" * 100)
    with pytest.raises(RunsUnavailable, match=r"cannot be used .*move it away"):
        RunStore().rows()
    found = load_or_measure(asked(tiny_model), lambda: tiny_model, title="", source="file")
    assert "cannot be used" in found.note


def test_a_newer_list_is_refused(folder: Path) -> None:
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "index.sqlite3") as file:
        file.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(RunsUnavailable, match=r"newer version \(schema .*update"):
        RunStore().rows()


def test_limits_that_are_no_numbers_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.LIMIT_NAME, "2 GB")
    with pytest.raises(RunsUnavailable, match="whole number of bytes"):
        RunStore()
    monkeypatch.setenv(store.LIMIT_NAME, "12345")
    assert RunStore().limit == 12345


def test_a_limit_of_nothing_keeps_nothing(tiny_model: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.LIMIT_NAME, "0")
    for _ in range(2):
        assert load_or_measure(asked(tiny_model), lambda: tiny_model, title="", source="").kept_at is None
    assert not folder.exists()


def test_an_old_list_is_migrated_and_keeps_its_runs(tiny_model: Any, folder: Path) -> None:
    question = asked(tiny_model)
    report = keep(question, tiny_model)
    assert set(RunStore().rows()[0].versions) == {"numpy", "tokenizers", "torch", "transformers"}
    path = folder / "index.sqlite3"
    with sqlite3.connect(path, isolation_level=None) as file:  # as schema 1 had it
        names = store.COLUMNS.removesuffix(", versions")
        runs = file.execute(f"SELECT {names} FROM runs").fetchall()
        gradients = file.execute("SELECT * FROM gradients").fetchall()
    for left in folder.glob("index.sqlite3*"):
        left.unlink()
    with sqlite3.connect(path, isolation_level=None) as file:
        migrate(file, MIGRATIONS[:1])
        file.executemany(f"INSERT INTO runs VALUES ({', '.join('?' * 13)})", runs)
        file.executemany("INSERT INTO gradients VALUES (?, ?)", gradients)
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
    (row,) = RunStore().rows()
    assert (row.id, row.versions) == (question.id, {})
    assert figures(RunStore().open(question.id)) == figures(report)
    keep(asked(tiny_model, gradient_of(1)), tiny_model)
    assert len(RunStore().rows()) == 2
    with sqlite3.connect(path) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "index.sqlite3", isolation_level=None) as file:
        migrate(file, MIGRATIONS[:1])
        with pytest.raises(sqlite3.Error):
            migrate(file, (MIGRATIONS[0], ("CREATE TABLE more (a)", "no SQL at all")))
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
        assert file.execute("SELECT name FROM sqlite_master WHERE name = 'more'").fetchone() is None


# Two processes keep, find and delete in one folder; what they kept is whole.
CROWD = """
import sys
from tests.test_store import asked, gradient_of, measured, RunStore
from lmgc_core.language_model import load_model
model, seed = load_model(sys.argv[1]), int(sys.argv[2])
question = asked(model, gradient_of(seed))
report = measured(question, model)
print("ready", flush=True)
sys.stdin.readline()
for turn in range(int(sys.argv[3])):
    own = asked(model, gradient_of(seed), segment=turn + 2)
    RunStore().keep(own, report, title=f"{seed} {turn}", source="file")
    RunStore().rows()
    if turn % 3 == 2:
        RunStore().delete(own.id)
print("done", flush=True)
"""


def crowd(model: Any, seed: int, n: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CROWD, model.id, str(seed), str(n)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def start(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def test_two_processes_share_one_store(tiny_model: Any, folder: Path) -> None:
    both = [crowd(tiny_model, 0, 9), crowd(tiny_model, 0, 9)]  # the same gradient and the same questions
    start(*both)
    assert [p.communicate(timeout=120)[0] for p in both] == ["done\n", "done\n"]
    rows = RunStore().rows()
    assert {row.title for row in rows} <= {f"0 {turn}" for turn in range(9) if turn % 3 != 2}
    assert len(rows) >= 6
    for row in rows:
        assert RunStore().open(row.id).totals.n_tokens
    assert {row.folder for row in rows} == {p.name for p in (folder / "results").iterdir()}


def test_what_a_killed_process_leaves_is_whole_or_swept(tiny_model: Any, folder: Path) -> None:
    for wait in (0.05, 0.15):
        process = crowd(tiny_model, 1, 10_000)
        start(process)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    for row in RunStore().rows():
        assert RunStore().open(row.id).totals.n_tokens
    (folder / "results" / "left-behind").mkdir(parents=True, exist_ok=True)
    os.utime(folder / "results" / "left-behind", (1, 1))
    (folder / "gradients" / f"{'0' * 64}.safetensors").write_bytes(b"nobody's")
    keep(asked(tiny_model, gradient_of(2)), tiny_model)
    assert not (folder / "results" / "left-behind").exists()
    assert not list((folder / "gradients").glob("0000*"))


def test_the_store_can_be_moved(tiny_model: Any, folder: Path, tmp_path: Path) -> None:
    question = asked(tiny_model)
    report = keep(question, tiny_model)
    shutil.copytree(folder, tmp_path / "moved")
    assert figures(RunStore(tmp_path / "moved").open(question.id)) == figures(report)


def test_the_list_is_in_wal_mode(tiny_model: Any, folder: Path) -> None:
    keep(asked(tiny_model), tiny_model)
    with sqlite3.connect(run_index.RunIndex(folder / "index.sqlite3").path) as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
