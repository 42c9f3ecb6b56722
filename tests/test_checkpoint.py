"""A killed run goes on: equal numbers, and no finished segment is scored again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from lmgc_core.checkpoint import Checkpoint
from lmgc_core.codec import measure
from lmgc_core.gradient import Gradient
from lmgc_core.settings import preset

ROOT = Path(__file__).parent.parent

PROGRAM = """
import os, signal, sys
from lmgc_core import prediction
from lmgc_core.__main__ import main

log, killed_at, honest = sys.argv[1], int(sys.argv[2]), prediction.score_segment

def noted(model, task, should_stop):
    if task.index == killed_at:
        os.kill(os.getpid(), signal.SIGKILL)
    with open(log, "a") as file:
        file.write(f"{task.index}\\n")
    yield from honest(model, task, should_stop)

prediction.score_segment = noted
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no kill -9")
def test_after_kill_9_a_run_goes_on_where_it_was(tmp_path: Path, tiny_folder: Any) -> None:
    values = (np.random.default_rng(0).normal(size=800) * 1e-3).astype("f4")
    save_file({"w": values}, tmp_path / "g.safetensors")
    environment = os.environ | {"LMGC_CACHE": str(tmp_path / "cache"), "LMGC_RUNS_BYTES": "0"}

    def run(killed_at: int, *more: str) -> tuple[int, dict[str, Any] | None, list[int]]:
        """Exit code, what was printed, and the segments that were scored."""
        log = tmp_path / "log"
        log.write_text("")
        line = ["measure", str(tmp_path / "g.safetensors"), "--json", "--limit", "0", "--threads", "1"]
        line += ["--preset", "lean", "--prior", "llm", "--context-window", "128", "--segment", "2"]
        line += ["--model", str(tiny_folder("tiny_llama")), *more]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(log), str(killed_at), *line],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        found = json.loads(done.stdout) if done.returncode == 0 else None
        return done.returncode, found, [int(n) for n in log.read_text().split()]

    code, _, scored = run(2)
    assert code == -9
    assert scored == [0, 1]
    code, resumed, scored_then = run(-1, "--resume")
    assert code == 0
    assert scored_then[0] == 2
    code, whole, scored_in_all = run(-1)
    assert code == 0
    assert scored_in_all == [0, 1, *scored_then]
    assert resumed is not None
    assert whole is not None
    assert resumed["sample"]["complete"]
    for name in ("totals", "parts", "tensors", "context_curve", "sample"):
        assert resumed[name] == whole[name]
    assert not list((tmp_path / "cache").rglob("segment-*")), "a whole run leaves nothing behind"


@pytest.mark.parametrize("prior", ["mix", "counts"])
def test_saved_segments_give_every_figure_again(tmp_path: Path, tiny_model: Any, prior: str) -> None:
    values = (np.random.default_rng(1).normal(size=150) * 1e-3).astype("f4")
    gradient, config = Gradient.from_arrays({"w": values}), preset("lean", prior=prior, context_window=64, segment=2)
    saved = Checkpoint(tmp_path / "run")
    first = measure(gradient, tiny_model, config, limit=0, saved=saved)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a saved segment was scored again")

    second = measure(
        gradient, tiny_model, config, limit=0, saved=saved, runner=lambda work, tasks, stop: iter(map(refuse, tasks))
    )
    assert second.totals == first.totals
    assert second.complete
    for a, b in zip(first.results, second.results, strict=True):
        for name in ("surprisal_bits", "llm_surprisal_bits", "rank", "top_token_ids", "top_bits", "entropy_bits"):
            assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=name != "rank"), name


def test_damaged_and_foreign_segments_are_scored_again(tmp_path: Path, tiny_model: Any) -> None:
    generator = np.random.default_rng(2)
    config = preset("lean", prior="counts", context_window=64, segment=2)
    saved = Checkpoint(tmp_path / "run")
    gradients = [Gradient.from_arrays({"w": generator.normal(size=100).astype("f4")}) for _ in range(2)]
    measure(gradients[0], tiny_model, config, limit=0, saved=saved)
    paths = sorted(saved.folder.iterdir())
    paths[0].write_bytes(paths[0].read_bytes()[:100])
    clean = measure(gradients[1], tiny_model, config, limit=0)
    assert measure(gradients[1], tiny_model, config, limit=0, saved=saved).totals == clean.totals
