"""What a checkpoint's pickle asks for, found before any of it is given.

A pickle is a straight line of instructions, so that listing its names needs no execution. Its storages are
found by running torch's own restricted unpickler with empty storages, so that what is checked is what will be
loaded: `torch.load(mmap=True)` does not compare a storage's declared length with the archive's member.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Mapping
from typing import IO, Any

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.file_bytes import FileBytes
from lmgc_core.files.source import damaged
from lmgc_core.files.torch_numpy import STAND_INS

MOST_INSTRUCTIONS = 1_200_000  # some 40,000 tensors
LEGACY_PICKLES = 5  # magic number, protocol, system, content, storage keys


def most_instructions(n_bytes: int) -> int:
    """How many instructions a pickle may have in a file of `n_bytes`: each may cost a small object in memory."""
    return MOST_INSTRUCTIONS + n_bytes // 100


def names_asked_for(stream: IO[bytes], n_pickles: int = 1, most: int = MOST_INSTRUCTIONS) -> list[str]:
    """The global names ("module.name") in a stream of pickles, in order, each once.

    Raises:
        UnsupportedInput: for more than `most` instructions.

    >>> import io
    >>> names_asked_for(io.BytesIO(b"cos\\nmkdir\\n."))
    ['os.mkdir']
    """
    names: dict[str, None] = {}
    n_instructions = 0
    for _ in range(n_pickles):
        for opcode, argument, _ in pickletools.genops(stream):
            n_instructions += 1
            if n_instructions > most:
                raise UnsupportedInput(
                    f"holds more than {most:,} pickled objects and steps beside its tensors; save tensors alone"
                )
            if opcode.name in ("GLOBAL", "INST"):
                names[str(argument).replace(" ", ".", 1)] = None
            elif opcode.name == "STACK_GLOBAL":
                names["a name made up while opening"] = None
    return list(names)


def unsupported_names(names: list[str]) -> list[str]:
    """Those that some import has allowed for the whole process, but that are no tensors a gradient can hold.

    torch's own short list of tensor rebuilders stays; what other modules have put beside it does not, so that
    a file opens alike whatever was imported before (DTensor among them).
    """
    import torch

    added = {
        one[1] if isinstance(one, tuple) else f"{one.__module__}.{one.__qualname__}"
        for one in torch.serialization.get_safe_globals()
    }
    return [n for n in names if n not in STAND_INS and (n in added or n.startswith("torch.distributed."))]


def check_storages(file: FileBytes, stream: IO[bytes], members: Mapping[str, zipfile.ZipInfo], prefix: str) -> None:
    """Compares every storage that the pickle declares with its member of the archive.

    Args:
        file: the archive.
        stream: its pickle.
        members: the archive's members by name.
        prefix: the folder inside the archive that holds data.pkl.

    Raises:
        UnsupportedInput: for a storage that is missing or of another length.
        pickle.UnpicklingError: for what the restricted unpickler does not allow.
    """
    import torch
    from torch._weights_only_unpickler import Unpickler

    whole = torch.UntypedStorage.from_file(str(file.path), False, file.size)  # type: ignore[no-untyped-call]

    class Census(Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            if not isinstance(pid, tuple) or len(pid) != 5:
                raise damaged("corrupt: a storage is not described by five fields")
            _, kind, key, _, count = pid
            if type(count) is not int or count < 0:
                raise damaged(f"corrupt: storage {key!r} declares {count!r} values")
            dtype = torch.uint8 if kind is torch.UntypedStorage else kind.dtype
            expected = count * torch._utils._element_size(dtype)  # type: ignore[no-untyped-call]
            member = members.get(f"{prefix}data/{key}")
            if member is None:
                raise damaged(f"corrupt: storage {key!r} is not in the archive")
            if member.file_size != expected:
                raise damaged(f"corrupt: storage {key!r} has {member.file_size:,} bytes, expected {expected:,}")
            # Only the length matters here; no byte of it is read.
            plain = whole[:expected] if expected <= file.size else torch.UntypedStorage(expected)  # type: ignore[no-untyped-call]
            return torch.storage.TypedStorage(wrap_storage=plain, dtype=dtype, _internal=True)  # type: ignore[no-untyped-call]

    try:
        Census(stream, encoding="utf-8").load()  # type: ignore[no-untyped-call]
    finally:
        torch._utils._sparse_tensors_to_validate.clear()
