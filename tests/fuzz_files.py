"""Opens mutated gradient files until the time is up, in a process of its own.

`python -m tests.fuzz_files SECONDS SEED [KIND...]`

For each it holds: nothing but `LmgcError` is raised, nothing is written, renamed, removed, started or connected to
anywhere (as Python tells it, and by looking), and memory stays within 100 MB and 1.5 times what the file declares
above the process that has imported torch and opened one whole file of each format. Prints one JSON object; the file
that broke a rule stays in the folder it names. A crash of the process itself leaves the file at `current`.
"""

from __future__ import annotations

import faulthandler
import io
import json
import os
import random
import struct
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lmgc_core.errors import LmgcError
from lmgc_core.files import load_gradient, open_source
from lmgc_core.files.inspection import describe
from tests.file_kinds import WRITERS, some_arrays, write_kind, write_safetensors

MEMORY_BYTES = 100 << 20
MAX_BYTES = 256 << 20
OPTIONS: list[dict] = [
    {},
    {"raw_dtype": "bfloat16"},
    {"raw_dtype": "float32", "raw_offset": 3, "raw_byte_order": "big"},
]
SPECIAL = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
]

# What opening a file never does, by the names of Python's audit events; "open" is looked at more closely.
FORBIDDEN = (
    "os.", "shutil.", "subprocess.", "socket.", "pickle.find_class", "ctypes.dlopen", "tempfile.", "webbrowser.",
)  # fmt: skip
HARMLESS = ("os.listdir", "os.scandir", "os.walk", "os.putenv", "os.unsetenv")

Edit = tuple[str, float, bytes]


def apply_edits(data: bytes, edits: list[Edit]) -> bytes:
    """The data after edits, each at a place between 0 and 1 of its length."""
    held = bytearray(data)
    for kind, place, new in edits:
        at = int(place * len(held))
        if kind == "put":
            held[at : at + len(new)] = new
        elif kind == "insert":
            held[at:at] = new
        elif kind == "cut":
            del held[at : at + len(new)]
        elif kind == "end":
            del held[at:]
        elif kind == "repeat":
            held[at:at] = held[at : at + 64]
        elif kind == "flip" and at < len(held):
            held[at] ^= new[0] if new else 1
    return bytes(held)


def random_edits(rng: random.Random) -> list[Edit]:
    edits: list[Edit] = []
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        kind = rng.choice(["put", "put", "insert", "cut", "end", "repeat", "flip", "flip", "flip"])
        if rng.random() < 0.5:
            new = struct.pack("<Q", rng.choice(SPECIAL))[: rng.choice([1, 2, 4, 8])]
        else:
            new = rng.randbytes(rng.randint(1, 6))
        # headers stand at the ends: go there more often
        place = rng.random() ** rng.choice([1, 3]) if rng.random() < 0.7 else 1 - rng.random() ** 3 * 0.3
        edits.append((kind, min(place, 0.999999), new))
    return edits


def inside_zip(data: bytes, change: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    """The archive with one member changed and its checksum right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        chosen = rng.choice(old.namelist())
        if rng.random() < 0.5:
            chosen = next((n for n in old.namelist() if n.endswith("data.pkl")), chosen)
        for member in old.infolist():
            content = old.read(member)
            method = zipfile.ZIP_DEFLATED if rng.random() < 0.1 else member.compress_type
            name = member.filename if rng.random() < 0.98 else rng.choice(old.namelist())
            new.writestr(name, change(content) if member.filename == chosen else content, method)
    return out.getvalue()


def seeds(folder: Path) -> dict[str, list[bytes]]:
    """Whole files of each kind to start from."""
    found: dict[str, list[bytes]] = {}
    for kind in WRITERS:
        if kind in ("folder", "index"):
            continue
        place = folder / kind
        place.mkdir()
        found[kind] = [
            write_kind(kind, place).read_bytes(),
            write_kind(kind, place, {"w": np.ones(3, "<f4")}).read_bytes(),
        ]
    found["torch"] += [_torch_seed(folder)]
    found["npy"] = []
    for array in (*some_arrays().values(), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(3, dtype=">i2")):
        stream = io.BytesIO()
        np.save(stream, array)
        found["npy"].append(stream.getvalue())
    found["csv"] = [
        b"w1,w2\n1,2\n3.5,-4e-3\n",
        "\ufeff1;2\r\n3;4\r\n".encode(),
        b"# a\n1 2\n3 4\n",
        b"nan\ninf\n-0.0\n",
    ]
    found["raw"] = [bytes(range(256))]
    found["index"] = [json.dumps({"weight_map": {"w": "shard.safetensors"}}).encode()]
    write_safetensors(folder / "shard.safetensors", {"w": np.ones(1, "<f4")})
    return found


def _torch_seed(folder: Path) -> bytes:
    import torch

    content = {
        "state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.ones(2, 2).t()}},
        "param_groups": [{"lr": np.float64(0.1), "params": [0], "param_names": ["w"]}],
        "emb": torch.sparse_coo_tensor([[0, 2, 0], [1, 0, 1]], [1.5, 2.0, 4.0], (3, 2)),
        "p": torch.nn.Parameter(torch.ones(3)),
        "wide": torch.ones(1).expand(4),
        "a": np.arange(3.0),
        "h": torch.ones(2, dtype=torch.bfloat16),
    }
    torch.save(content, folder / "seed.pt")
    return (folder / "seed.pt").read_bytes()


def peak_bytes() -> int | None:
    """Largest resident size since `forget_peak`, where the system says it."""
    try:
        text = Path("/proc/self/status").read_text()
        return 1024 * int(next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1])
    except (OSError, StopIteration):
        return None


def forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


class Watch:
    """Notes what Python is asked to do while it is on; an audit hook stays for the life of the process."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple) -> None:
        if not self.on:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND):
                self.seen.append(f"open {path!r} to write")
        elif event.startswith(FORBIDDEN) and event not in HARMLESS:
            self.seen.append(f"{event}{arguments!r}"[:200])


def files_around(folder: Path) -> set[str]:
    """What lies in the folder and beside it."""
    beside = {p.name for p in folder.parent.iterdir() if not p.name.startswith(f"{folder.name}-fault")}
    return beside | {str(p) for p in folder.rglob("*")}


def try_file(path: Path, options: dict) -> tuple[str, int]:
    """ "opened" or "refused", and the bytes declared; raises whatever is not an LmgcError."""
    declared = 0
    try:
        source = open_source(path, max_bytes=MAX_BYTES, **options)
        declared = sum(s.raw_bytes for s in source.specs)
        if declared > MAX_BYTES:
            return "opened", declared
        describe(source, source.specs, True)
        gradient = load_gradient(path, max_bytes=MAX_BYTES, **options)
        if gradient.raw_bytes != declared:
            raise ValueError(f"{gradient.raw_bytes} bytes read, {declared} declared")
        return "opened", declared
    except LmgcError as error:
        if "\n" in str(error) or len(str(error)) > 1000 or not str(error).strip():
            raise ValueError(f"not one short line: {error!r}") from error
        if "; " not in str(error):
            raise ValueError(f"does not say what to do: {error!r}") from error
        return "refused", declared


def run(seconds: float, seed: int, kinds: list[str]) -> dict:
    rng = random.Random(seed)
    own = Path(tempfile.mkdtemp(prefix="fuzz-"))  # nobody else writes beside the files in it
    folder = own / "files"
    folder.mkdir()
    os.chdir(folder)
    watch = Watch()
    starts = seeds(folder)
    current = folder / "current"
    for kind, data in starts.items():  # imports and first allocations are not the file's doing
        current.write_bytes(data[0])
        try_file(current, {"raw_dtype": "uint8"} if kind == "raw" else {})
    before = files_around(folder)
    counts = {"opened": 0, "refused": 0}
    by_kind = {kind: dict(counts) for kind in starts}
    forget_peak()
    base = peak_bytes() or 0
    faults: list[str] = []
    slowest = 0.0
    largest = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until and len(faults) < 10:
        kind = rng.choice(kinds or list(starts))
        data = rng.choice(starts[kind])
        edits = random_edits(rng)
        if data[:2] == b"PK" and rng.random() < 0.6:
            data = inside_zip(data, lambda content, e=edits: apply_edits(content, e), rng)
        else:
            data = apply_edits(data, edits)
        current.write_bytes(data)
        options = rng.choice(OPTIONS) if rng.random() < 0.3 else {}
        forget_peak()
        started = time.monotonic()
        try:
            watch.seen.clear()
            watch.on = True
            try:
                outcome, declared = try_file(current, options)
            finally:
                watch.on = False
            counts[outcome] += 1
            by_kind[kind][outcome] += 1
            if watch.seen:
                raise ValueError(f"it did what it must not: {watch.seen[:3]}")
            grown = (peak_bytes() or 0) - base
            largest = max(largest, grown)
            if grown > MEMORY_BYTES + 1.5 * declared:
                raise ValueError(f"{grown >> 20} MB for {declared} declared bytes")
            if sum(counts.values()) % 20 == 0 and files_around(folder) != before:
                raise ValueError("a file appeared or went")
        except Exception as error:
            kept = folder.parent / f"{folder.name}-fault{len(faults)}-{kind}"
            kept.write_bytes(data)
            faults.append(f"{kept}: {type(error).__name__}: {str(error)[:200]}")
        slowest = max(slowest, time.monotonic() - started)
    if files_around(folder) != before:
        faults.append("a file appeared or went")
    return {
        **counts,
        "kinds": by_kind,
        "faults": faults,
        "slowest_seconds": round(slowest, 2),
        "largest_mb": largest >> 20,
    }


if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")
    sys.stdout.write(json.dumps(run(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])) + "\n")
