"""The command line keeps what it measures, finds it again, shows and deletes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core import store
from lmgc_core.__main__ import main


@pytest.fixture
def line(tiny_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A measure command on a small file, in a fresh cache."""
    monkeypatch.setenv("LMGC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(store.LIMIT_NAME)
    values = (np.random.default_rng(0).standard_normal((30, 9)) * 1e-3).astype(np.float32)
    np.save(tmp_path / "small.npy", values)
    return ["measure", str(tmp_path / "small.npy"), "--model", str(tiny_folder("tiny_llama")), "--preset", "lean"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_measure_finds_its_result_again(line: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first = run(capsys, *line)
    again = run(capsys, *line, "--output", str(tmp_path / "out"))
    assert (first["run"]["found_again"], again["run"]["found_again"]) == (False, True)
    assert {**first, "run": None} == {**again, "run": None}  # the time of the first run too
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == {k: v for k, v in first.items() if k != "run"}
    assert main(line) == 0
    assert f"found again: run {first['run']['id']}" in capsys.readouterr().out
    assert run(capsys, *line, "--again")["run"] == first["run"]


def test_runs_are_listed_shown_written_and_deleted(
    line: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(capsys, "runs")["runs"] == []
    first, second = run(capsys, *line), run(capsys, *line, "--limit", "0", "--transform", "bf16")
    found = run(capsys, "runs")
    assert [r["id"] for r in found["runs"]] == [second["run"]["id"], first["run"]["id"]]
    assert found["runs"][1]["totals"] == first["totals"]
    assert found["runs"][1]["title"] == "small.npy"
    assert 0 < found["n_bytes"] < found["limit_bytes"] == 2_000_000_000
    assert main(["runs"]) == 0
    listed = capsys.readouterr().out
    assert "2 runs, " in listed
    assert "lean mix bf16" in listed
    shown = run(capsys, "runs", "show", first["run"]["id"], "--output", str(tmp_path / "files"))
    assert {k: v for k, v in shown.items() if k != "run"} == {k: v for k, v in first.items() if k != "run"}
    assert shown["run"]["gradient_kept"]
    assert sorted(p.name for p in (tmp_path / "files").iterdir()) == [
        "bits.npz", "report.html", "report.json", "tokens.parquet",
    ]  # fmt: skip
    assert main(["runs", "show", first["run"]["id"]]) == 0
    assert "bits/parameter" in capsys.readouterr().out
    assert run(capsys, "runs", "delete", first["run"]["id"])["deleted"] == first["run"]["id"]
    assert [r["id"] for r in run(capsys, "runs")["runs"]] == [second["run"]["id"]]
    assert not run(capsys, *line)["run"]["found_again"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["runs", "show"], "needs an ID"),
        (["runs", "show", "0123456789ab"], "no run '0123456789ab'"),
        (["runs", "delete", "nothing"], "no run 'nothing'"),
    ],
)
def test_mistakes_are_one_line(
    line: list[str], arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert word in error
    assert error.count("\n") == 1


def test_a_damaged_run_is_one_line_and_can_be_deleted(
    line: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run_id = run(capsys, *line)["run"]["id"]
    for path in (tmp_path / "cache" / "runs").rglob("*.parquet"):
        path.write_bytes(b"")
    assert main(["runs", "show", run_id, "--output", str(tmp_path / "files")]) == 2
    assert "delete it, or compute it anew" in capsys.readouterr().err
    assert run(capsys, "runs", "show", run_id)["totals"]["n_tokens"] > 0  # its figures stand on the list
    assert main(line) == 0
    captured = capsys.readouterr()
    assert "cannot be opened" in captured.err
    assert captured.err.count("\n") == 1
    assert "found again" not in captured.out


def test_measuring_goes_on_where_nothing_can_be_kept(
    line: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "runs").write_text("in the way")
    assert main(line) == 0
    captured = capsys.readouterr()
    assert "bits/parameter" in captured.out
    assert "was not kept" in captured.err
    assert captured.err.count("\n") == 1
