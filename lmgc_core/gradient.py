"""A gradient: named arrays and their little-endian C-order bytes.

Values move as unsigned words of the element's width, never through another float type, so that NaN
payloads, -0.0 and denormals survive. Inverse pair: `Gradient.to_bytes` / `Gradient.from_bytes`.
Law: `from_bytes(specs, to_bytes(g))` equals g as bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import InvalidSetting, UnsupportedInput
from lmgc_core.word_pieces import word_pieces

Words = npt.NDArray[np.unsignedinteger[Any]]
Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type by its fields: sign, exponent and mantissa bits of IEEE 754 (or none).

    Attributes:
        name: numpy's or ml_dtypes' name, e.g. "float32", "bfloat16".
        bits: width of one value; always a multiple of 8.
        kind: "float", "int", "uint" or "bool".
        exponent_bits: width of the exponent field, 0 for integers.
        mantissa_bits: width of the stored mantissa, 0 for integers.

    >>> DTYPES["float32"].exponent_bits, DTYPES["bfloat16"].mantissa_bits
    (8, 7)
    """

    name: str
    bits: int
    kind: Kind
    exponent_bits: int = 0
    mantissa_bits: int = 0

    @property
    def item_bytes(self) -> int:
        """Bytes of one value."""
        return self.bits // 8

    @property
    def sign_bits(self) -> int:
        """1 for a float with a sign bit, else 0."""
        return self.bits - self.exponent_bits - self.mantissa_bits if self.kind == "float" else 0

    @property
    def word(self) -> np.dtype[Any]:
        """The little-endian unsigned integer of the same width, as which values move."""
        return np.dtype(f"<u{self.item_bytes}")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype (from ml_dtypes for bfloat16 and float8)."""
        if self.name.startswith(("bfloat", "float8")):
            import ml_dtypes

            named: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.name))
            return named
        return np.dtype(self.name)


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("float64", 64, "float", 11, 52),
        DType("float32", 32, "float", 8, 23),
        DType("float16", 16, "float", 5, 10),
        DType("bfloat16", 16, "float", 8, 7),
        DType("float8_e4m3fn", 8, "float", 4, 3),
        DType("float8_e5m2", 8, "float", 5, 2),
        DType("float8_e4m3fnuz", 8, "float", 4, 3),
        DType("float8_e5m2fnuz", 8, "float", 5, 2),
        DType("float8_e8m0fnu", 8, "float", 8, 0),
        DType("int8", 8, "int"),
        DType("int16", 16, "int"),
        DType("int32", 32, "int"),
        DType("int64", 64, "int"),
        DType("uint8", 8, "uint"),
        DType("uint16", 16, "uint"),
        DType("uint32", 32, "uint"),
        DType("uint64", 64, "uint"),
        DType("bool", 8, "bool"),
    )
}


def dtype_named(name: str) -> DType:
    """The element type of that name.

    Raises:
        UnsupportedInput: for a name that is not in `DTYPES` (complex, object, records ...).
    """
    try:
        return DTYPES[name]
    except KeyError:
        raise UnsupportedInput(f"{name} values are not supported; convert to one of {', '.join(DTYPES)}") from None


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor's name, dtype and shape, without its values."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def n_parameters(self) -> int:
        """How many scalars; 1 for shape ().

        >>> TensorSpec("b", DTYPES["float32"], (3, 0)).n_parameters
        0
        """
        n = 1
        for size in self.shape:
            n *= size
        return n

    @property
    def raw_bytes(self) -> int:
        """Bytes of the values as they stand in memory."""
        return self.n_parameters * self.dtype.item_bytes


@dataclass(frozen=True, eq=False)
class Tensor:
    """One named array as words: flat, C order, little-endian unsigned integers of the dtype's width.

    `words` may be a memory map; it is never written to.
    """

    spec: TensorSpec
    words: Words

    def __post_init__(self) -> None:
        if self.words.shape != (self.spec.n_parameters,) or self.words.dtype != self.spec.dtype.word:
            raise InvalidSetting(
                f"tensor {self.spec.name!r}: {self.words.shape} words of {self.words.dtype}, "
                f"expected ({self.spec.n_parameters},) of {self.spec.dtype.word}"
            )

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def dtype(self) -> DType:
        return self.spec.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def n_parameters(self) -> int:
        return self.spec.n_parameters

    @property
    def raw_bytes(self) -> int:
        return self.spec.raw_bytes

    @property
    def array(self) -> npt.NDArray[Any]:
        """The values in their own dtype and shape: a read-only view of the words."""
        view = self.words.view(self.dtype.numpy).reshape(self.shape)
        view.flags.writeable = False
        return view

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the little-endian C-order bytes, hex."""
        state = hashlib.sha256()
        for piece in word_pieces(self.words):
            state.update(piece.data)
        return state.hexdigest()


def tensor_from_array(name: str, array: Any) -> Tensor:
    """A tensor holding exactly the bits of a numpy array (ml_dtypes included) or a dense torch tensor.

    Args:
        name: the tensor's label.
        array: any strides, byte order and memory layout; logical C order counts.

    Raises:
        UnsupportedInput: for complex, object, record, string or void elements.
    """
    if hasattr(array, "detach") and hasattr(array, "data_ptr"):
        array = _torch_to_numpy(array)
    values = np.asarray(array)
    try:
        dtype = dtype_named(values.dtype.name)
    except UnsupportedInput as error:
        raise UnsupportedInput(f"tensor {name!r}: {error}") from None
    if not values.dtype.isnative:
        values = values.byteswap().view(values.dtype.newbyteorder("="))
    words = np.frombuffer(np.ascontiguousarray(values).tobytes(), dtype.word)
    return Tensor(TensorSpec(name, dtype, values.shape), words)


def _torch_to_numpy(tensor: Any) -> npt.NDArray[Any]:
    import torch

    name = str(tensor.dtype).removeprefix("torch.")
    dtype = dtype_named(name)
    dense = tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
    if dense.numel() == 0:
        return np.empty(tuple(dense.shape), dtype.numpy)
    return np.array(dense.reshape(-1).view(torch.uint8).numpy()).view(dtype.numpy).reshape(tuple(dense.shape))


@dataclass(frozen=True, eq=False)
class Gradient:
    """Named tensors in the order of their file.

    Attributes:
        tensors: in file order; names are unique.
        name: a label for people (file name), never a path that is opened.
        warnings: what a reader had to say (skipped members, notes), one line each.
        metadata: short texts the file carries beside its tensors (a step, a source).
    """

    tensors: tuple[Tensor, ...]
    name: str = ""
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [t.name for t in self.tensors]
        if len(set(names)) != len(names):
            twice = sorted({n for n in names if names.count(n) > 1})
            raise UnsupportedInput(f"two tensors are both called {twice[0]!r}; give each its own name")

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], name: str = "") -> Gradient:
        """A gradient from a mapping of names to numpy arrays or torch tensors.

        >>> Gradient.from_arrays({"w": np.float32([1.0])}).to_bytes().hex()
        '0000803f'
        """
        return cls(tuple(tensor_from_array(str(k), v) for k, v in arrays.items()), name)

    @classmethod
    def from_bytes(cls, specs: Sequence[TensorSpec], data: bytes, name: str = "") -> Gradient:
        """The inverse of `to_bytes`.

        Raises:
            UnsupportedInput: when the length of `data` is not that of the specs.
        """
        need = sum(s.raw_bytes for s in specs)
        if need != len(data):
            raise UnsupportedInput(f"{len(data)} bytes for tensors of {need} bytes")
        tensors, offset = [], 0
        for spec in specs:
            tensors.append(Tensor(spec, np.frombuffer(data, spec.dtype.word, spec.n_parameters, offset)))
            offset += spec.raw_bytes
        return cls(tuple(tensors), name)

    def to_bytes(self) -> bytes:
        """All values as little-endian C-order bytes, in the order of `tensors`."""
        return b"".join(np.ascontiguousarray(t.words).tobytes() for t in self.tensors)

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        return tuple(t.spec for t in self.tensors)

    @property
    def n_parameters(self) -> int:
        return sum(t.n_parameters for t in self.tensors)

    @property
    def raw_bytes(self) -> int:
        return sum(t.raw_bytes for t in self.tensors)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the tensors' bytes in the order of their names, hex."""
        state = hashlib.sha256()
        for tensor in sorted(self.tensors, key=lambda t: t.name):
            for piece in word_pieces(tensor.words):
                state.update(piece.data)
        return state.hexdigest()

    @cached_property
    def identity(self) -> str:
        """SHA-256 over names, dtypes, shapes and bytes in file order, hex: equal only for what is equal in all."""
        state = hashlib.sha256()
        for tensor in self.tensors:
            state.update(repr((tensor.name, tensor.dtype.name, tensor.shape, tensor.digest)).encode("utf-8", "replace"))
        return state.hexdigest()

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.tensor(name).array

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name.

        Raises:
            InvalidSetting: if there is none; lists some that there are.
        """
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise InvalidSetting(no_such_tensor(name, [t.name for t in self.tensors]))

    def select(self, names: Sequence[str]) -> Gradient:
        """Only the named tensors, in file order; all of them for an empty list."""
        if not names:
            return self
        chosen = {self.tensor(n).name for n in names}
        return Gradient(tuple(t for t in self.tensors if t.name in chosen), self.name, self.warnings, self.metadata)


def no_such_tensor(name: str, names: Sequence[str]) -> str:
    """The line for a name that is not there, with some that are.

    >>> no_such_tensor("x", ["a", "b"]), no_such_tensor("x", [""])
    ("no tensor is called 'x'; there are 'a', 'b'", "no tensor is called 'x'; the only one has no name")
    """
    if list(names) == [""]:
        there = "the only one has no name"
    elif names:
        there = f"there are {', '.join(map(repr, names[:8]))}" + (f" and {len(names) - 8} more" * (len(names) > 8))
    else:
        there = "there is none at all"
    return f"no tensor is called {name!r}; {there}"


def exponent_field(words: Words, dtype: DType) -> npt.NDArray[np.int64]:
    """The biased exponent of each value, shape (n,); 0 for zeros and denormals. Source: IEEE 754.

    >>> exponent_field(np.float32([1.0, 0.0]).view("<u4"), DTYPES["float32"]).tolist()
    [127, 0]
    """
    mask = (1 << dtype.exponent_bits) - 1
    return ((words.astype(np.uint64) >> np.uint64(dtype.mantissa_bits)) & np.uint64(mask)).astype(np.int64)
