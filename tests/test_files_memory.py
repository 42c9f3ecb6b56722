"""Memory: lists of tensors cost nothing, one tensor costs itself, and files that lie cost less than 100 MB.

Each measurement is made in a process of its own that has imported torch.
"""

import io
import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.file_kinds import npy_bytes, npy_header, write_safetensors, write_torch

ROOT = Path(__file__).parents[1]
SIZE = 48 << 20

PROGRAM = """
import json, sys
from pathlib import Path
import torch, safetensors, h5py
from lmgc_core.errors import LmgcError
from lmgc_core.files import inspect_file, load_gradient, open_source

def peak():
    text = Path("/proc/self/status").read_text()
    return 1024 * int(next(l for l in text.splitlines() if l.startswith("VmHWM")).split()[1])

def digest(path):
    return load_gradient(path).digest

hows = {"open": open_source, "inspect": lambda p: inspect_file(p, digest=True), "load": digest}
for how, path in json.loads(sys.argv[1]):
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    try:
        hows[how](path)
    except LmgcError:
        pass
    print(peak() - before)
"""


def grown(*tasks: tuple[str, Path]) -> list[int]:
    """Bytes by which each of the tasks raises the process's peak."""
    pytest.importorskip("h5py")
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("this system does not tell a process's peak")
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([(how, str(path)) for how, path in tasks])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(line) for line in run.stdout.split()]


def values(dtype: str = "<f4", order: str = "C") -> np.ndarray:
    n = SIZE // np.dtype(dtype).itemsize
    return (
        np.random.default_rng(0).integers(0, 256, SIZE, np.uint8).view(dtype).reshape(-1, 1024)[: n // 1024].copy(order)
    )


def deflated(path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("g.npy", npy_bytes(npy_header("'<f4'", (SIZE // 4,)), bytes(SIZE)))
    return path


def saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def zipped(path: Path, array: np.ndarray) -> Path:
    np.savez(path, g=array)
    return path


FILES = {
    "npy": lambda f: saved(f / "g.npy", values()),
    "npy big-endian": lambda f: saved(f / "g.npy", values(">f4")),
    "npy fortran": lambda f: saved(f / "g.npy", values(order="F")),
    "npz": lambda f: zipped(f / "g.npz", values()),
    "npz deflated": lambda f: deflated(f / "g.npz"),
    "safetensors": lambda f: write_safetensors(f / "g.safetensors", {"g": values()}),
    "torch": lambda f: write_torch(f / "g.pt", {"g": values()}),
}


def test_a_tensor_costs_at_most_one_and_a_half_times_itself(tmp_path: Path) -> None:
    tasks = []
    for number, write in enumerate(FILES.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write(folder)
        tasks += [(how, path) for how in ("open", "inspect", "load")]
    found = grown(*tasks)
    for what, opened, inspected, loaded in zip(FILES, found[0::3], found[1::3], found[2::3], strict=True):
        assert opened < 20 << 20, what
        assert inspected < 1.5 * SIZE, what
        assert loaded < 1.5 * SIZE, what
        if what == "npz deflated":
            assert inspected < SIZE // 2  # read in pieces


def bomb(path: Path, declared: int) -> Path:
    whole = io.BytesIO(npy_bytes(npy_header("'<f4'", (declared // 4,)), b""))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("g.npy", whole.getvalue() + bytes(100))
    return path


def test_files_that_lie_cost_little(tmp_path: Path) -> None:
    import torch

    sparse = torch.sparse_coo_tensor([[0]], [1.0], (1 << 35,))
    torch.save({"a": sparse}, tmp_path / "sparse.pt")
    torch.save({"a": torch.ones(1).expand(1 << 35)}, tmp_path / "wide.pt")
    (tmp_path / "long.npy").write_bytes(npy_bytes(npy_header("'<f4'", (1 << 34,)), bytes(16)))
    (tmp_path / "header.npy").write_bytes(npy_bytes(npy_header("'<f4'", (4,)), bytes(16), (2, 0), 0xFFFFFFF0))
    (tmp_path / "g.safetensors").write_bytes((10**9).to_bytes(8, "little") + b'{"a":')
    bomb(tmp_path / "bomb.npz", 1 << 34)
    (tmp_path / "beyond.safetensors").write_bytes((1 << 40).to_bytes(8, "little") + b'{"a":')
    with (tmp_path / "garbage.safetensors").open("wb") as file:
        file.write((100_000_000).to_bytes(8, "little") + b"{")
        file.truncate(100_000_008)
    for name, n_tensors in {"most.safetensors": 77_000, "many.safetensors": 150_000}.items():
        entries = (f'"t{i}":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{i + 1}]}}' for i in range(n_tensors))
        header = f"{{{','.join(entries)}}}".encode()
        (tmp_path / name).write_bytes(len(header).to_bytes(8, "little") + header + bytes(n_tensors))
    with (tmp_path / "index.json").open("wb") as file:
        file.write(b'{"weight_map": {')
        file.writelines(b'"t%d": "s",' % i for i in range(1_500_000))
    pair = b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a"
    (tmp_path / "list.gguf").write_bytes(pair + struct.pack("<IIQ", 9, 8, 1 << 40) + bytes(100))
    (tmp_path / "long.gguf").write_bytes(pair + struct.pack("<IIQ", 9, 8, 2_000_000) + bytes(16_000_000))
    for name, pickled in {
        "lists.pt": b"]" * 1_190_000,
        "dicts.pt": b"}" * 5_000_000,
        "text.pt": b"X" + struct.pack("<I", 24_000_000) + b"a" * 24_000_000,
    }.items():
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/data.pkl", b"\x80\x02" + pickled + b".")
    paths = sorted(tmp_path.iterdir())
    for path, cost in zip(paths, grown(*(("load", path) for path in paths)), strict=True):
        assert cost < 100 << 20, path.name
