"""What archive tests share: small gradients, mutations, and the command that decodes in a process of its own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from lmgc_core.gradient import DTYPES, Gradient, TensorSpec

ROOT = Path(__file__).parent.parent
PLAINEST_CPU = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}


def awkward_gradient() -> Gradient:
    """NaN payloads, -0.0, denormals, infinities, empty and nameless tensors, several dtypes."""
    generator = np.random.default_rng(0)
    return Gradient.from_arrays(
        {
            "z.w": (generator.normal(size=(4, 3, 3)) * 1e-3).astype("f4"),
            "": np.uint32([0x7F800001, 0xFFC01234, 0x80000000, 1, 0x7F800000]).view("f4"),
            "b": generator.normal(size=3).astype("f2"),
            "empty": np.zeros((0, 5)),
            "<b>": np.int8([-128, 0, 127]),
        }
    )


def random_gradient(seed: int, dtype: str, shape: tuple[int, ...]) -> Gradient:
    """Any bits at all, as values of that dtype."""
    spec = TensorSpec("w", DTYPES[dtype], shape)
    data = np.random.default_rng(seed).bytes(spec.raw_bytes)
    return Gradient.from_bytes([spec], bytes(b & 1 for b in data) if dtype == "bool" else data)


def resealed(data: bytes) -> bytes:
    """The same with the SHA-256 at its end made right again."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


def mutated(data: bytes, generator: np.random.Generator) -> bytes:
    """A few bytes changed, inserted, removed or moved."""
    out = bytearray(data)
    for _ in range(int(generator.integers(1, 4))):
        place, kind = int(generator.integers(len(out))), int(generator.integers(5))
        if kind == 0:
            out[place] ^= 1 << int(generator.integers(8))
        elif kind == 1:
            out[place] = int(generator.choice([0, 1, 127, 128, 255]))
        elif kind == 2:
            del out[place : place + int(generator.integers(1, 4))]
        elif kind == 3:
            out[place:place] = generator.bytes(int(generator.integers(1, 4)))
        else:
            other = int(generator.integers(len(out)))
            out[place : place + 4] = out[other : other + 4]
        if len(out) < 40:
            return bytes(out) + bytes(40)
    return bytes(out)


CHILD = """
import sys, json
from pathlib import Path
import torch
from lmgc_core.archive import compress, decompress
from lmgc_core.language_model import load_model
from lmgc_core.settings import RunOptions, preset
from tests.archive_cases import awkward_gradient
folder, place, threads, batch = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(threads)
options = RunOptions(batch_size=batch, threads=threads)
model = load_model(folder, options)
wanted = awkward_gradient()
for path in sorted(place.glob("in_*.lmgc")):
    found = decompress(path.read_bytes(), model, options=options)
    if found.specs != wanted.specs or found.to_bytes() != wanted.to_bytes():
        sys.exit(f"{path.name} decodes to something else")
    name = path.stem[3:]
    made = compress(wanted, model, preset(name, context_window=256, segment=2), options=options, verify="none")
    (place / f"out_{name}.lmgc").write_bytes(made.archive)
"""


def in_another_process(folder: Path, place: Path, threads: int, batch: int, plain_cpu: bool) -> None:
    """Decodes every in_*.lmgc there and encodes the same gradient as out_*.lmgc, under that environment."""
    environment = os.environ | (PLAINEST_CPU if plain_cpu else {}) | {"OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", CHILD, str(folder), str(place), str(threads), str(batch)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
