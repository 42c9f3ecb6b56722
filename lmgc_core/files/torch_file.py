"""torch checkpoints (.pt, .pth, .bin, .ckpt): a restricted pickle that names storages, and the storages' bytes.

Only `torch.load(weights_only=True)` opens them, on the CPU, mapped where the file is an uncompressed zip.
There is no other way in: what needs code to open is refused, named, and stays closed. Declared storages are
compared with the archive's members first, because a mapped storage is not checked by torch itself.
"""

from __future__ import annotations

import pickle
import re
import threading
import zipfile
from contextlib import AbstractContextManager
from typing import Any

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import ReadOptions, Source, make_source, one_line, too_large
from lmgc_core.files.torch_numpy import STAND_INS
from lmgc_core.files.torch_tensors import Found, collect, words_of
from lmgc_core.files.zip_archive import compressed_bytes, open_zip
from lmgc_core.gradient import TensorSpec, Words

SAVE_AGAIN = (
    "where the file was made, save tensors alone: torch.save({name: tensor, ...}, path), or safetensors.torch.save_file"
)
MAX_PICKLE_BYTES = 64 << 20
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
    if zipfile.is_zipfile(file.path) or file.head(2) == b"PK":
        mapped, n_values = _check_archive(file, options)
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
            return torch.load(file.path, map_location="cpu", weights_only=True, mmap=mapped)
        except (pickle.UnpicklingError, AttributeError, ModuleNotFoundError) as error:
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
    if any("torch.distributed" in name for name in names) or "DTensor" in text:
        return (
            f"DTensor (torch.distributed) holds a part of a tensor on each rank ({one_line(', '.join(names), 120)}); "
            "gather it first: tensor.full_tensor(), then torch.save"
        )
    if names:
        shown = ", ".join(names[:6]) + (" ..." if len(names) > 6 else "")
        return f"blocked: opening it would call {one_line(shown)}, which is not allowed: it may be unsafe; {SAVE_AGAIN}"
    return f"not a torch checkpoint of plain tensors, or damaged ({one_line(_first_sentence(text), 120)}); {SAVE_AGAIN}"


def _first_sentence(text: str) -> str:
    """torch's own reason without the advice that surrounds it."""
    reason = text.rsplit("WeightsUnpickler error:", 1)[-1]
    for advice in ("Weights only load failed.", "In PyTorch 2.6", "Please", "Check the documentation"):
        reason = (
            reason.replace("Weights only load failed.", "") if advice.startswith("Weights") else reason.split(advice)[0]
        )
    return one_line(reason.split("\n\n")[0]).strip(" .") or "unreadable"


def _not_whole(error: RuntimeError) -> str:
    text = str(error)
    if ".tar" in text and "legacy" in text:
        return f"the tar format of torch before 0.2 (legacy) is not supported: it cannot be opened safely; {SAVE_AGAIN}"
    return f"a torch file that is truncated or corrupt: {one_line(_first_sentence(text), 160)}; fetch or save it again"


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
    if pickled.file_size > MAX_PICKLE_BYTES:
        raise UnsupportedInput(
            f"holds {pickled.file_size:,} bytes of pickled objects beside its tensors, more than "
            f"{MAX_PICKLE_BYTES:,}; {SAVE_AGAIN}"
        )
    with archive.open(pickled) as stream, _LOADING, _allowed():
        for key, expected in _declared_storages(file, stream).items():
            member = members.get(f"{prefix}data/{key}")
            if member is None:
                raise UnsupportedInput(f"corrupt: storage {key!r} is not in the archive; fetch or save it again")
            if member.file_size != expected:
                raise UnsupportedInput(
                    f"corrupt: storage {key!r} has {member.file_size:,} bytes, expected {expected:,}; "
                    "fetch or save it again"
                )
    mapped = declared == 0
    return mapped, sum(m.file_size for m in members.values())


def _declared_storages(file: FileBytes, stream: Any) -> dict[str, int]:
    """Bytes of each storage the pickle names, found by torch's own restricted unpickler without reading any."""
    import torch
    from torch._weights_only_unpickler import Unpickler

    declared: dict[str, int] = {}

    class Census(Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            if not isinstance(pid, tuple) or len(pid) != 5:
                raise UnsupportedInput("corrupt: a storage is not described by five fields")
            _, kind, key, _, count = pid
            if type(count) is not int or count < 0:
                raise UnsupportedInput(f"corrupt: storage {key!r} declares {count!r} values")
            dtype = torch.uint8 if kind is torch.UntypedStorage else kind.dtype
            n_bytes = count * torch._utils._element_size(dtype)  # type: ignore[no-untyped-call]
            if declared.setdefault(str(key), n_bytes) != n_bytes:
                raise UnsupportedInput(f"corrupt: storage {key!r} is described with two sizes")
            if n_bytes > file.size and n_bytes > 1 << 62:
                raise UnsupportedInput(f"corrupt: storage {key!r} declares {n_bytes:,} bytes")
            plain = torch.UntypedStorage(n_bytes, device="meta")  # type: ignore[no-untyped-call]
            return torch.storage.TypedStorage(wrap_storage=plain, dtype=dtype, _internal=True)  # type: ignore[no-untyped-call]

    try:
        Census(stream, encoding="utf-8").load()  # type: ignore[no-untyped-call]
    except (pickle.UnpicklingError, AttributeError, ModuleNotFoundError) as error:
        raise UnsupportedInput(_blocked(file, error)) from error
    finally:
        torch._utils._sparse_tensors_to_validate.clear()
    return declared


def _check_copies(found: Found, options: ReadOptions, n_bytes: int) -> None:
    """Raises UnsupportedInput when repeated or sparse values would grow far beyond the file."""
    grown = sum(size for name, size in found.copied_bytes.items() if options.wants(name))
    if grown > max(options.max_bytes, n_bytes):
        raise too_large(grown, options.max_bytes, "in strided, repeated or sparse tensors")
