"""What archive tests share: small gradients, mutations, and the command that decodes in a process of its own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core.archive import decompress
from lmgc_core.archive_decoding import open_archive
from lmgc_core.container import StoredSegment, write_container
from lmgc_core.gradient import DTYPES, Gradient, TensorSpec
from lmgc_core.settings import CodecConfig, preset

ROOT = Path(__file__).parent.parent
PRESETS = ("paper", "lean", "best")
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {"prior": "llm"}) for name in PRESETS},
    "counts": ("best", {"prior": "counts"}),
    "mix": ("best", {"prior": "mix"}),
    "paper_mix": ("paper", {"prior": "mix"}),
    "lean_counts": ("lean", {"prior": "counts"}),
}
"""Preset and explicit settings by name: every prior with small numbers, counts of tokens in supports of two sizes."""

PLAINEST_CPU = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
}


def small(name: str, **changes: Any) -> CodecConfig:
    """One of `CONFIGS` with windows and segments small enough that there are several."""
    chosen, explicit = CONFIGS[name]
    return preset(chosen, **({"context_window": 256, "segment": 2} | explicit | changes))  # type: ignore[arg-type]


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


def with_mutated_segment(data: bytes, model: Any, generator: np.random.Generator) -> bytes:
    """The same with a payload or a list of exceptions mutated, and every checksum made right again.

    The check covers what a segment decodes to, so it is taken from a decoder that does not compare it.

    Raises:
        LmgcError: when the mutation does not decode to anything.
    """
    container = open_archive(data)
    index = int(generator.integers(len(container.segments)))
    segment = container.segments[index]
    if segment.exceptions and generator.integers(2):
        changed = StoredSegment(mutated(segment.exceptions, generator, 1), segment.payload, 0)
    else:
        changed = StoredSegment(segment.exceptions, mutated(segment.payload, generator, 1), 0)
    found: dict[tuple[bytes, bytes], int] = {}
    honest = StoredSegment.check_of

    def waived(self: StoredSegment, words: bytes) -> int:
        found[self.exceptions, self.payload] = honest(self, words)
        return self.check

    segments = [changed if i == index else s for i, s in enumerate(container.segments)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoredSegment, "check_of", waived)
        decompress(write_container(container.header, segments), model)
    segments[index] = replace(changed, check=found[changed.exceptions, changed.payload])
    return write_container(container.header, segments)


def mutated(data: bytes, generator: np.random.Generator, least: int = 40) -> bytes:
    """A few bytes changed, inserted, removed or moved; at least so many are left."""
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
        if len(out) < least:
            return bytes(out) + bytes(least)
    return bytes(out)


CHILD = """
import sys, json
from pathlib import Path
import torch
from lmgc_core.archive import compress, decompress
from lmgc_core.language_model import load_model
from lmgc_core.settings import RunOptions
from tests.archive_cases import awkward_gradient, small
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
    made = compress(wanted, model, small(name), options=options, verify="none")
    (place / f"out_{name}.lmgc").write_bytes(made.archive)
"""


def in_another_process(folder: Path, place: Path, threads: int, batch: int, plain_cpu: bool) -> None:
    """Decodes every in_*.lmgc there and encodes the same gradient as out_*.lmgc, under that environment."""
    environment = os.environ | (PLAINEST_CPU if plain_cpu else {}) | {"OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", CHILD, str(folder), str(place), str(threads), str(batch)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
