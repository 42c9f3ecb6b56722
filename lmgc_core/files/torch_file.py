"""torch checkpoints (.pt, .pth, .bin, .ckpt): a restricted pickle that names storages, and the storages' bytes.

Only `torch.load(weights_only=True)` opens them, on the CPU, mapped where the file is an uncompressed zip.
There is no other way in: what needs code to open is refused, named, and stays closed. Declared storages are
compared with the archive's members first, because a mapped storage is not checked by torch itself.
"""

from __future__ import annotations

import pickle
import re
import threading
from contextlib import AbstractContextManager
from typing import Any

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import ReadOptions, Source, make_source, one_line, too_large
from lmgc_core.files.torch_check import (
    LEGACY_PICKLES,
    check_storages,
    most_instructions,
    names_asked_for,
    unsupported_names,
)
from lmgc_core.files.torch_numpy import STAND_INS
from lmgc_core.files.torch_tensors import Found, collect, words_of
from lmgc_core.files.zip_archive import compressed_bytes, open_zip
from lmgc_core.gradient import TensorSpec, Words

SAVE_AGAIN = (
    "where the file was made, save tensors alone: torch.save({name: tensor, ...}, path), or safetensors.torch.save_file"
)
ZIP_START = b"PK\x03\x04"
MAX_PICKLE_BYTES = 24 << 20  # and a quarter of the file
UNPICKLING_ERRORS = (pickle.UnpicklingError, AttributeError, ModuleNotFoundError)
OLDEST_TORCH = (2, 10)

# torch's list of allowed names is one for the whole process: one load at a time.
_LOADING = threading.Lock()


def open_torch(file: FileBytes, options: ReadOptions) -> Source:
    """The tensors of a checkpoint, names of nested dicts and lists joined by dots.

    Raises:
        UnsupportedInput: for what torch's restricted unpickler does not allow (the name that asked for code is
            given), for storages that are not whole, and when nothing can be read.
    """
    _check_version()
    mapped, n_values = False, file.size
    if file.head(4) == ZIP_START:  # as torch itself decides
        mapped, n_values = _check_archive(file, options)
    else:
        with file.path.open("rb") as stream:
            _check_names(names_asked_for(stream, LEGACY_PICKLES, most_instructions(file.size)))
    content = _load(file, mapped)
    found = collect(content)
    _check_copies(found, options, n_values)

    def fetch(spec: TensorSpec) -> Words:
        return words_of(found.tensors[spec.name], spec)

    return make_source(
        file.label,
        "torch",
        found.specs,
        fetch,
        metadata=found.metadata,
        refused=found.refused,
    )


def _check_version() -> None:
    import torch

    parts = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if parts is None or (int(parts[1]), int(parts[2])) < OLDEST_TORCH:
        raise UnsupportedInput(
            f"torch {torch.__version__} opens checkpoints unsafely; install torch 2.10 or newer to read this file"
        )


def _allowed() -> AbstractContextManager[Any]:
    import torch

    return torch.serialization.safe_globals([(stand_in, name) for name, stand_in in STAND_INS.items()])


def _load(file: FileBytes, mapped: bool) -> Any:
    import torch

    with _LOADING, _allowed():
        try:
            if file.path.name.endswith(".safetensors"):  # torch.load would go by this name
                with file.path.open("rb") as stream:
                    return torch.load(stream, map_location="cpu", weights_only=True)
            return torch.load(file.path, map_location="cpu", weights_only=True, mmap=mapped)
        except UNPICKLING_ERRORS as error:
            raise UnsupportedInput(_blocked(file, error)) from error
        except RuntimeError as error:
            raise UnsupportedInput(_not_whole(error)) from error


def _blocked(file: FileBytes, error: Exception) -> str:
    """Which names the file wanted to call; called while the allowed names are in force."""
    import torch

    try:
        names = list(torch.serialization.get_unsafe_globals_in_checkpoint(file.path))
    except Exception:  # the older format has no such list
        names = []
    text = str(error)
    if not names:
        match = re.search(r"GLOBAL ([\w.]+)", text) or re.search(r"(?:function|class|object) <[^>]*'([\w.]+)'", text)
        names = [match[1]] if match else []
    if "DTensor" in text or names:
        return _named(names or ["torch.distributed.tensor"])
    return f"not a torch checkpoint of plain tensors, or damaged ({_own_reason(text)}); {SAVE_AGAIN}"


def _check_names(names: list[str]) -> None:
    if asked := unsupported_names(names):
        raise UnsupportedInput(_named(asked))


def _named(names: list[str]) -> str:
    shown = one_line(", ".join(names[:3]) + (" ..." if len(names) > 3 else ""), 140)
    if any(name.startswith("torch.distributed") for name in names):
        return (
            f"DTensor (torch.distributed) holds a part of a tensor on each rank ({shown}); "
            "gather it first: tensor.full_tensor(), then torch.save"
        )
    return f"blocked: opening it would call {shown}, which is not allowed: it may be unsafe; {SAVE_AGAIN}"


def _own_reason(text: str) -> str:
    """torch's reason without the advice around it, which would have people switch the protection off."""
    reason = text.rsplit("WeightsUnpickler error:", 1)[-1].replace("Weights only load failed.", "")
    advice = r"In PyTorch 2\.6|\(Could this error|Please|Check the documentation|\n\n|This is an internal"
    return one_line(re.split(advice, reason)[0], 150)


def _not_whole(error: RuntimeError) -> str:
    text = str(error)
    if ".tar" in text and "legacy" in text:
        return f"the tar format of torch before 0.2 (legacy) is not supported: it cannot be opened safely; {SAVE_AGAIN}"
    return f"a torch file that is truncated or corrupt: {_own_reason(text)}; fetch or save it again"


def _check_archive(file: FileBytes, options: ReadOptions) -> tuple[bool, int]:
    """Whether the archive can be mapped, and the declared bytes of its members.

    Raises:
        UnsupportedInput: when members declare too much, or a storage is not as long as the pickle says.
    """
    archive = open_zip(file)
    members = {m.filename: m for m in archive.infolist()}
    prefix = next(name for name in members if name.endswith("data.pkl")).removesuffix("data.pkl")
    if (declared := compressed_bytes(list(members.values()))) > options.max_bytes:
        raise too_large(declared, options.max_bytes, "in compressed members")
    pickled = members[f"{prefix}data.pkl"]
    most_bytes = MAX_PICKLE_BYTES + file.size // 4
    if pickled.file_size > most_bytes:
        raise UnsupportedInput(
            f"holds {pickled.file_size:,} bytes of pickled objects beside its tensors, more than {most_bytes:,}; "
            f"{SAVE_AGAIN}"
        )
    with archive.open(pickled) as stream:
        _check_names(names_asked_for(stream, most=most_instructions(file.size)))
    with archive.open(pickled) as stream, _LOADING, _allowed():
        try:
            check_storages(file, stream, members, prefix)
        except UNPICKLING_ERRORS as error:
            raise UnsupportedInput(_blocked(file, error)) from error
    mapped = declared == 0
    return mapped, sum(m.file_size for m in members.values())


def _check_copies(found: Found, options: ReadOptions, n_bytes: int) -> None:
    """Raises UnsupportedInput when repeated or sparse values would grow far beyond the file."""
    grown = sum(size for name, size in found.copied_bytes.items() if options.wants(name))
    if grown > max(options.max_bytes, n_bytes):
        raise too_large(grown, options.max_bytes, "in strided, repeated or sparse tensors")
