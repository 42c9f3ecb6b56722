"""Mutated files of every format: nothing but LmgcError, no crash, no file written, memory bounded.

The default run takes seconds; `LMGC_FUZZ_MINUTES=10 pytest -m slow tests/test_files_fuzz.py` takes that long, from a
new seed each time unless `LMGC_FUZZ_SEED` names one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmgc_core.errors import LmgcError
from lmgc_core.files import inspect_file, load_gradient
from tests.file_kinds import write_kind
from tests.fuzz_files import Watch, apply_edits

ROOT = Path(__file__).parents[1]
MINUTES = float(os.environ.get("LMGC_FUZZ_MINUTES", "10"))
SEED = int(os.environ.get("LMGC_FUZZ_SEED", int.from_bytes(os.urandom(4), "little")))

EDIT = st.tuples(
    st.sampled_from(["put", "insert", "cut", "end", "repeat", "flip"]),
    st.floats(0, 0.999),
    st.binary(min_size=1, max_size=8),
)


@pytest.mark.parametrize("kind", ["safetensors", "npz", "npz-deflated", "torch-deflated"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(EDIT, min_size=1, max_size=6))
def test_any_edit_opens_or_is_refused_in_one_line(kind: str, edits: list, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir(exist_ok=True)
    data = apply_edits(write_kind(kind, whole).read_bytes(), edits)
    path = tmp_path / "edited"
    path.write_bytes(data)
    answer = inspect_file(path)
    if "error" in answer:
        with pytest.raises(LmgcError) as caught:
            load_gradient(path)
        assert str(caught.value) == answer["error"]
        assert "\n" not in answer["error"]
    else:
        assert load_gradient(path).digest == answer["sha256"]


def fuzz(seconds: float, seed: int, folder: Path) -> dict:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    run = subprocess.run(
        [sys.executable, "-m", "tests.fuzz_files", str(seconds), str(seed)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds + 200,
    )
    assert run.returncode == 0, f"crashed with {run.returncode}: {run.stderr[-2000:]}"
    return json.loads(run.stdout.splitlines()[-1])


def test_a_short_run_over_all_formats(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    found = fuzz(10, 20, tmp_path)
    assert found["faults"] == []
    assert found["opened"] > 10
    assert found["refused"] > 10


@pytest.mark.slow
@pytest.mark.timeout(60 * MINUTES + 300)
def test_a_long_run_over_all_formats(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    found = fuzz(60 * MINUTES, SEED, tmp_path)
    assert found["faults"] == []
    assert all(n["refused"] for n in found["kinds"].values()), found["kinds"]
    assert all(n["opened"] for n in found["kinds"].values()), found["kinds"]


def test_the_watch_notices_what_a_file_must_not_do(tmp_path: Path) -> None:
    watch = Watch()
    path = tmp_path / "x"
    path.write_bytes(b"before it is on")
    watch.on = True
    path.read_bytes()
    assert watch.seen == []
    path.write_bytes(b"x")
    path.unlink()
    (tmp_path / "folder").mkdir()
    subprocess.run([sys.executable, "-c", ""], check=True)
    watch.on = False
    assert [next(w for w in ("open", "remove", "mkdir", "Popen") if w in seen) for seen in watch.seen[:3]] == [
        "open",
        "remove",
        "mkdir",
    ]
    assert any("Popen" in seen for seen in watch.seen)
