"""The command line: exit codes, one line on stderr, one object on stdout."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core.__main__ import main

ROOT = Path(__file__).parent.parent


@pytest.fixture
def gradient_file(tmp_path: Path) -> str:
    path = tmp_path / "w.npy"
    np.save(path, np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32))
    return str(path)


@pytest.fixture
def tiny(tiny_folder: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> list[str]:
    folder = tiny_folder("tiny_llama")
    capsys.readouterr()  # what building the model printed
    return ["--model", str(folder)]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The one object that a command prints."""
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert len(lines) == 1
    return json.loads(lines[0])


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr of a command that fails."""
    try:
        code: Any = main(list(arguments))
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    return captured.err


def test_inspect_answers_for_each_file(capsys: pytest.CaptureFixture[str], gradient_file: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "no.npy")
    assert main(["inspect", gradient_file, missing, "--json"]) == 2
    good, bad = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert good["n_parameters"] == 200
    assert good["dtypes"] == ["float32"]
    assert set(bad) == {"file", "error"}
    assert main(["inspect", gradient_file]) == 0
    assert "5×40" in capsys.readouterr().out
    assert refused(capsys, "inspect", missing).count("no.npy") == 1


def test_tokens_measure_and_compare(
    capsys: pytest.CaptureFixture[str], gradient_file: str, tiny: list[str], tmp_path: Path
) -> None:
    count = run(capsys, "tokens", gradient_file, *tiny, "--preset", "best")
    assert count["n_parameters"] == 200
    assert count["groups"][0]["text"].endswith(" ")
    report = run(capsys, "measure", gradient_file, *tiny, "--preset", "best", "--output", str(tmp_path / "out"))
    assert report["totals"]["n_tokens"] == count["n_tokens"]
    assert json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["totals"] == report["totals"]
    found = run(capsys, "compare", gradient_file, *tiny, "--planes", "all,head", "--alphabet", "hex")
    assert [row["settings"]["planes"] for row in found["rows"]] == ["all", "head"]
    assert found["controls"]["random_bits"]["compression_rate"] >= 0.999
    assert not found["controls"]["random_bits"]["alarm"]
    assert found["pareto"]
    quick = run(capsys, "compare", gradient_file, *tiny, "--grid", "quick", "--context-window", "400", "--seed", "3")
    assert len(quick["rows"]) == 6
    assert {(row["settings"]["context_window"], row["settings"]["seed"]) for row in quick["rows"]} == {(400, 3)}
    assert all(row["totals"]["compression_rate"] and row["against_best"] for row in quick["rows"])
    assert "leave --preset or --grid out" in refused(
        capsys, "compare", gradient_file, *tiny, "--grid", "quick", "--preset", "lean"
    )
    assert main(["measure", gradient_file, *tiny, "--preset", "lean", "--transform", "topk:0.001"]) == 0
    assert "1 of 200 values kept" in capsys.readouterr().out
    for command in ("tokens", "measure", "compare"):
        assert main([command, gradient_file, *tiny, "--preset", "lean"]) == 0
        assert "w.npy" in capsys.readouterr().out


@pytest.mark.parametrize("prior", ["llm", "counts", "mix"])
def test_an_archive_goes_round(
    capsys: pytest.CaptureFixture[str], gradient_file: str, tiny: list[str], tmp_path: Path, prior: str
) -> None:
    archive, back = str(tmp_path / "w.lmgc"), str(tmp_path / "back.npy")
    made = run(capsys, "compress", gradient_file, "-o", archive, *tiny, "--preset", "lean", "--prior", prior)
    parts = ("header_bytes", "payload_bytes", "exceptions_bytes")
    assert made["container_bytes"] == sum(made[k] for k in parts) == Path(archive).stat().st_size
    told = run(capsys, "describe", archive)
    assert told["n_segments"] == made["n_segments"]
    assert told["settings"]["prior"] == made["prior"] == prior
    assert main(["describe", archive]) == 0
    assert ("no model" in capsys.readouterr().out) == (prior == "counts")
    assert run(capsys, "decompress", archive, "-o", back, *tiny)["sha256"] == made["sha256"]
    assert Path(back).read_bytes() == Path(gradient_file).read_bytes()
    found = run(capsys, "verify", archive, gradient_file, *tiny)
    assert (found["sha256"], found["prior"]) == (made["sha256"], prior)

    data = Path(archive).read_bytes()
    Path(archive).write_bytes(data[:-3])
    assert "w.lmgc" in refused(capsys, "decompress", archive, "-o", str(tmp_path / "b2.npy"), *tiny)
    assert not (tmp_path / "b2.npy").exists()
    assert "w.npy" in refused(capsys, "describe", gradient_file)


def test_generate_writes_what_it_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = str(tmp_path / "g.safetensors")
    made = run(capsys, "generate", "-o", target, "--steps", "2", "--record-at", "1,2", "--width", "8")
    seen = run(capsys, "inspect", target)
    assert made["sha256"] == seen["sha256"]
    assert made["steps"] == [1, 2]
    assert {t["name"].split("/")[0] for t in seen["tensors"]} == {"step1", "step2"}


def test_models_and_baselines(capsys: pytest.CaptureFixture[str], gradient_file: str) -> None:
    rows = run(capsys, "models")["models"]
    assert rows[0]["id"] == "smollm2-135m"
    found = {b["id"]: b for b in run(capsys, "baselines", gradient_file)["baselines"]}
    assert found["xz"]["verified"]
    assert found["xz"]["bytes"] > 0


MISTAKES = [
    (["measure", "FILE", "--alphabet", "hexx"], "hexx"),
    (["measure", "FILE", "--limit", "-1"], "limit"),
    (["measure", "FILE", "--transform", "nonsense"], "nonsense"),
    (["measure", "FILE", "--group-size", "-3"], "group size"),
    (["measure", "FILE", "--batch-size", "0"], "batch size"),
    (["measure", "FILE", "--segment", "0"], "segment"),
    (["measure", "FILE", "--seed", "-1"], "seed"),
    (["measure", "FILE", "--output", "FILE"], "folder"),
    (["measure", "FILE", "--model", "/nowhere/at/all"], "/nowhere/at/all"),
    (["measure", "NOFILE"], "NOFILE"),
    (["tokens", "FILE", "--tensor", "nope"], "nope"),
    (["compress", "FILE", "-o", "out.zip"], ".lmgc"),
    (["compress", "FILE", "-o", "/no/such/folder/x.lmgc"], "/no/such/folder"),
    (["decompress", "FILE", "-o", "x.txt"], ".safetensors"),
    (["generate", "-o", "x.bin"], ".safetensors"),
    (["generate", "-o", "x.safetensors", "--network", "nope"], "nope"),
    (["models", "fetch"], "ID"),
    (["models", "fetch", "smollm2-135m", "--from", "NOFILE"], "NOFILE"),
    (["nonsense"], "nonsense"),
]


@pytest.mark.parametrize(("arguments", "word"), MISTAKES, ids=lambda v: " ".join(v) if isinstance(v, list) else v)
def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], gradient_file: str, arguments: list[str], word: str
) -> None:
    line = refused(capsys, *(gradient_file if a == "FILE" else a for a in arguments))
    assert word in line


def test_a_process_says_so_with_its_exit_code(tmp_path: Path) -> None:
    bad = tmp_path / "text.npy"
    bad.write_text("<html>not a gradient</html>", "utf-8")
    command = [sys.executable, "-m", "lmgc_core", "inspect", str(bad), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 2
    assert "html" in json.loads(done.stdout)["error"].lower()


def test_counts_have_their_nouns_and_nothing_is_said_of_nothing(
    tmp_path: Path, tiny_folder: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "one.npy", np.float32([1.5]))
    np.save(tmp_path / "none.npy", np.zeros((0, 3), np.float32))
    model = str(tiny_folder("tiny_gpt2"))
    assert main(["inspect", str(tmp_path / "one.npy")]) == 0
    assert ": 1 parameter, 4 bytes raw" in capsys.readouterr().out
    assert main(["tokens", str(tmp_path / "one.npy"), "--model", model, "--context-window", "128"]) == 0
    assert "in 1 of 1 block, 1 parameter\n" in capsys.readouterr().out
    assert main(["tokens", str(tmp_path / "none.npy"), "--model", model, "--context-window", "128"]) == 0
    assert capsys.readouterr().out == "none.npy: holds no values, so there are no tokens\n"
    assert main(["tokens", str(tmp_path / "one.npy"), "--model", model, "--context-window", "129"]) == 2
    assert f"context window 129 is more than {model} sees at once (128)" in capsys.readouterr().err
    assert main(["tokens", str(tmp_path / "one.npy"), "--model", ""]) == 2
    assert "model '': a catalogue id" in capsys.readouterr().err
