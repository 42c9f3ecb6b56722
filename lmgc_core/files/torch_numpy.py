"""Harmless stand-ins for the numpy names that checkpoints hold beside tensors (`lr = np.float64(0.1)`).

torch's restricted unpickler refuses numpy's own reconstructors, rightly: they trust what they are given.
These classes take the same arguments and keep them as plain data; nothing of numpy is called while unpickling.
An array becomes a tensor only afterwards, with its bytes counted against its shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lmgc_core.files.npy import RefusedMember, parse_npy_header
from lmgc_core.files.source import ReadOptions, damaged, one_line


class StoredDtype:
    """What a pickle says of a numpy dtype: its code, and in its state the byte order."""

    def __init__(self, *fields: Any) -> None:
        self.code = fields[0] if fields and isinstance(fields[0], str) else "?"
        self.order = "<"

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">", "|"):
            self.order = state[1]


class StoredScalar:
    """A numpy scalar in a checkpoint: a setting beside the tensors, skipped as Python numbers are."""

    def __init__(self, *fields: Any) -> None:
        self.fields = fields

    def __setstate__(self, state: Any) -> None:
        """Scalars have no state."""


class StoredArray:
    """A numpy array in a checkpoint, as the plain data its pickle holds."""

    def __init__(self, *fields: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> np.ndarray[Any, Any]:
        """The values, shape and dtype as stored.

        Raises:
            UnsupportedInput: for values that are not numbers, or bytes that do not fill the shape.
        """
        if not isinstance(self.state, tuple) or len(self.state) != 5:
            raise damaged("a numpy array without its values")
        _, shape, dtype, fortran, data = self.state
        if not isinstance(dtype, StoredDtype):
            raise RefusedMember("a numpy array of unknown dtype; save it as a tensor")
        order = "|" if dtype.order == "|" else dtype.order
        header = repr({"descr": f"{order}{dtype.code}", "fortran_order": bool(fortran), "shape": shape}).encode()
        magic = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
        read = parse_npy_header(magic + header, ReadOptions())
        spec = read.spec("")
        if not isinstance(data, bytes) or len(data) != spec.raw_bytes:
            held = f"{len(data):,} bytes" if isinstance(data, bytes) else one_line(type(data).__name__)
            raise damaged(f"a numpy array of {spec.raw_bytes:,} bytes holds {held}")
        words = np.frombuffer(data, spec.dtype.word.newbyteorder("<" if read.byte_order == "little" else ">"))
        values = words.astype(spec.dtype.word).view(spec.dtype.numpy)
        return values.reshape(spec.shape, order="F" if read.fortran else "C")


def _reconstruct(*fields: Any) -> StoredArray:
    return StoredArray(*fields)


def _scalar(*fields: Any) -> StoredScalar:
    return StoredScalar(*fields)


STAND_INS: dict[str, Any] = {
    "numpy.dtype": StoredDtype,
    "numpy.ndarray": StoredArray,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "numpy.core.multiarray._reconstruct": _reconstruct,
}
