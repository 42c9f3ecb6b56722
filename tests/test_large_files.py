"""A safetensors file of 4 GB, sparse on disk: inspected from its header, sampled within 2 GB of memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core.files import load_gradient
from lmgc_core.gradient import Gradient
from lmgc_core.word_pieces import PIECE_BYTES, word_pieces

ROOT = Path(__file__).parent.parent
N_VALUES = 1 << 29  # in each of two tensors of fp32

PROGRAM = """
import sys
from pathlib import Path
from lmgc_core.__main__ import main
code = main(sys.argv[1:])
text = Path("/proc/self/status").read_text()
print(1024 * int(next(l for l in text.splitlines() if l.startswith("VmHWM")).split()[1]), file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tensors of 2 GB, zeros but for a few values."""
    path = tmp_path_factory.mktemp("large") / "large.safetensors"
    size = 4 * N_VALUES
    entries = {
        name: {"dtype": "F32", "shape": [1024, N_VALUES // 1024], "data_offsets": [i * size, (i + 1) * size]}
        for i, name in enumerate(("a.weight", "b.weight"))
    }
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.write(np.float32([1.0, -0.5, 3e-5]).tobytes())
        file.truncate(8 + len(header) + 2 * size)
    if path.stat().st_blocks * 512 > 100 << 20:
        path.unlink()
        pytest.skip("this file system does not keep sparse files")
    return path


def run(*line: str) -> tuple[dict[str, Any], int]:
    """What a command prints as JSON, and the peak of its process in bytes."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell a process's peak")
    done = subprocess.run([sys.executable, "-c", PROGRAM, *line], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    return json.loads(done.stdout), int(done.stderr.split()[-1])


def test_inspecting_reads_the_header_alone(large: Path) -> None:
    found, peak = run("inspect", str(large), "--json")
    assert found["n_parameters"] == 2 * N_VALUES
    assert found["sha256"] is None
    assert peak < 300 << 20


@pytest.mark.slow
def test_a_sample_stays_within_two_gigabytes(large: Path, tiny_folder: Any) -> None:
    options = ["--preset", "lean", "--limit", "2", "--model", str(tiny_folder("tiny_llama")), "--json"]
    found, peak = run("measure", str(large), *options)
    assert found["sample"]["n_parameters"] == 864
    assert found["input"]["raw_bytes"] == 8 * N_VALUES
    assert found["input"]["zero_fraction"] == 1 - 3 / (2 * N_VALUES)
    assert peak < 2_000_000_000


def test_pieces_of_a_mapped_tensor_are_its_words(tmp_path: Path) -> None:
    """Over the edges of pieces, and again after their pages were given back."""
    values = np.arange(PIECE_BYTES // 4 + 5, dtype=np.uint32)
    path = tmp_path / "w.npy"
    np.save(path, values)
    (tensor,) = load_gradient(path)
    for _ in range(2):
        pieces = list(word_pieces(tensor.words))
        assert [len(p) for p in pieces] == [PIECE_BYTES // 4, 5]
        assert np.array_equal(np.concatenate(pieces), values)
    assert tensor.digest == Gradient.from_arrays({"": values}).tensors[0].digest


def test_pieces_of_strided_words_are_contiguous() -> None:
    pieces = list(word_pieces(np.arange(10, dtype=np.uint16)[::2]))
    assert [p.tolist() for p in pieces] == [[0, 2, 4, 6, 8]]
    assert all(p.flags.c_contiguous for p in pieces)
