"""The small real gradients that lie in `sample_gradients/`, as their MANIFEST.json lists them.

Reads the list alone: no tensor, no torch. How each was made stands in its entry and in make_samples.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmgc_core.errors import InvalidSetting, UnsupportedInput

SAMPLES_FOLDER = Path(__file__).resolve().parent.parent / "sample_gradients"


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample gradient.

    Attributes:
        name: short and stable, the file's name without its ending.
        title: for people, e.g. "ConvNet on MNIST, step 60".
        origin: what was recorded, on which data.
        command: makes the file again, from the repository's root.
        seed: of that run.
        path: of the file.
        dtypes: element types, each once, in file order.
        n_tensors: tensors in the file.
        n_parameters: scalars in the file.
        raw_bytes: of these scalars.
        kept: "all", or how tensors were cut.
        sha256: of the file, hex.
        digest: of the gradient, hex; what `Gradient.digest` gives.
        licence: SPDX id.
    """

    name: str
    title: str
    origin: str
    command: str
    seed: int
    path: Path
    dtypes: tuple[str, ...]
    n_tensors: int
    n_parameters: int
    raw_bytes: int
    kept: str
    sha256: str
    digest: str
    licence: str


def list_samples(folder: Path = SAMPLES_FOLDER) -> list[Sample]:
    """The samples in the order of the manifest; an empty list where the folder is not there.

    Raises:
        UnsupportedInput: for a manifest that can't be read.
    """
    manifest = folder / "MANIFEST.json"
    if not manifest.is_file():
        return []
    try:
        return [_sample(folder, entry) for entry in json.loads(manifest.read_text(encoding="utf-8"))]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnsupportedInput(f"{manifest.name} of the samples can't be read: {error!r}") from None


def sample_path(name: str, folder: Path = SAMPLES_FOLDER) -> Path:
    """Where the sample of that name lies.

    Raises:
        InvalidSetting: if there is none of that name.
        UnsupportedInput: if its file is missing.
    """
    samples = list_samples(folder)
    for sample in samples:
        if sample.name == name:
            if not sample.path.is_file():
                raise UnsupportedInput(f"sample {name!r} is listed but missing; make it again with: {sample.command}")
            return sample.path
    known = ", ".join(s.name for s in samples) or "none: the folder sample_gradients is missing"
    raise InvalidSetting(f"no sample is called {name!r}; there are {known}")


def _sample(folder: Path, entry: dict[str, Any]) -> Sample:
    tensors = entry["tensors"]
    file = Path(str(entry["file"])).name
    return Sample(
        name=file.removesuffix(".safetensors"),
        title=str(entry["title"]),
        origin=str(entry["origin"]),
        command=str(entry["command"]),
        seed=int(entry["seed"]),
        path=folder / file,
        dtypes=tuple(dict.fromkeys(str(t["dtype"]) for t in tensors)),
        n_tensors=len(tensors),
        n_parameters=int(entry["n_parameters"]),
        raw_bytes=int(entry["raw_bytes"]),
        kept=str(entry["kept"]),
        sha256=str(entry["sha256"]),
        digest=str(entry["digest"]),
        licence=str(entry["licence"]),
    )
