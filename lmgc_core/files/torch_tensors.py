"""Tensors inside a loaded checkpoint: where they stand, what they are, and their words.

Dict keys and list places are joined by dots; optimizer states are named by their parameters where the file
knows the names. Strides, views and tied storages are undone: each name has its own values in logical C order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files.source import damaged, one_line
from lmgc_core.files.torch_numpy import StoredArray
from lmgc_core.gradient import DTYPES, TensorSpec, Words, tensor_from_array

MAX_DEPTH = 100
MAX_PLACES = 2_000_000
CONTAINER_PLACES = 20  # a dict or list counts for more than a number, as it takes longer to walk


@dataclass(slots=True)
class Found:
    """What a walk through a checkpoint has met.

    Attributes:
        specs: readable tensors in the order met.
        tensors: the objects behind them.
        refused: names of tensors that cannot be read, with the reason.
        metadata: numbers and short texts at the top, e.g. a step.
        copied_bytes: bytes of tensors whose values have to be copied or repeated to be read.
    """

    specs: list[TensorSpec] = field(default_factory=list)
    tensors: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    copied_bytes: dict[str, int] = field(default_factory=dict)


def collect(content: Any) -> Found:
    """All tensors in the nested dicts and lists of `content`.

    Raises:
        UnsupportedInput: for two places of one name, and for nesting that has no end.
    """
    found = Found()
    if isinstance(content, Mapping):
        for key, value in content.items():
            if isinstance(value, int | float | str) and not isinstance(value, bool):
                found.metadata[one_line(key)] = one_line(value)
    _Walk(found).visit(content, "", 0)
    return found


class _Walk:
    def __init__(self, found: Found) -> None:
        import torch

        self.found = found
        self.places = 0
        self.storages = torch.storage.TypedStorage, torch.UntypedStorage
        self.tensor = torch.Tensor

    def visit(self, value: Any, name: str, depth: int) -> None:
        self.places += 1
        if isinstance(value, Mapping | list | tuple):
            self.places += CONTAINER_PLACES
        if depth > MAX_DEPTH or self.places > MAX_PLACES:
            raise UnsupportedInput(
                f"nested more than {MAX_DEPTH} deep or {MAX_PLACES:,} wide; save a flat dict of tensors"
            )
        if isinstance(value, self.tensor):
            self.add(value, name)
        elif isinstance(value, StoredArray):
            self.add_array(value, name)
        elif isinstance(value, Mapping):
            for key, inner in _named_states(value).items():
                self.visit(inner, _join(name, key), depth + 1)
        elif isinstance(value, list | tuple):
            for index, inner in enumerate(value):
                self.visit(inner, _join(name, index), depth + 1)
        elif isinstance(value, self.storages):
            self.refuse(name, "a storage without shape; save the tensor itself")

    def add(self, tensor: Any, name: str) -> None:
        if reason := _refusal(tensor):
            self.refuse(name, reason)
            return
        dtype = DTYPES[str(tensor.dtype).removeprefix("torch.")]
        spec = TensorSpec(name, dtype, tuple(tensor.shape))
        self.claim(name)
        self.found.specs.append(spec)
        self.found.tensors[name] = tensor
        if _is_sparse(tensor) or not tensor.is_contiguous() or tensor.is_neg():
            self.found.copied_bytes[name] = spec.raw_bytes

    def add_array(self, stored: StoredArray, name: str) -> None:
        try:
            array = stored.array()
        except UnsupportedInput as error:
            self.refuse(name, str(error))
            return
        self.claim(name)
        self.found.specs.append(TensorSpec(name, DTYPES[array.dtype.name], array.shape))
        self.found.tensors[name] = array

    def refuse(self, name: str, reason: str) -> None:
        self.claim(name)
        self.found.refused[name] = reason

    def claim(self, name: str) -> None:
        if name in self.found.tensors or name in self.found.refused:
            raise UnsupportedInput(f"duplicate name: two tensors are both called {name!r}; give each its own name")


def _join(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _named_states(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """An optimizer's state dict with its numbers replaced by parameter names, where its groups hold them."""
    state, groups = value.get("state"), value.get("param_groups")
    if not isinstance(state, Mapping) or not isinstance(groups, list):
        return value
    names: dict[Any, str] = {}
    for group in groups:
        if isinstance(group, Mapping) and isinstance(group.get("param_names"), list):
            names |= dict(zip(group.get("params", ()), group["param_names"], strict=False))
    if not names:
        return value
    return {**value, "state": {names.get(key, key): inner for key, inner in state.items()}}


def _is_sparse(tensor: Any) -> bool:
    import torch

    return bool(tensor.layout == torch.sparse_coo)


def _refusal(tensor: Any) -> str | None:
    """Why a tensor cannot be read, or None."""
    import torch

    named = str(tensor.dtype).removeprefix("torch.")
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return f"a {type(tensor).__name__} is not a plain tensor; save its values as one"
    if tensor.is_quantized:
        return f"quantised values ({named}); save tensor.dequantize() or tensor.int_repr()"
    if tensor.dtype.is_complex:
        return f"{named} values are not supported (complex); save torch.view_as_real(tensor)"
    if tensor.device.type == "meta":
        return "a tensor on the meta device has no values; save it from a real device"
    if tensor.layout not in (torch.strided, torch.sparse_coo):
        return f"layout {str(tensor.layout).removeprefix('torch.')}; save tensor.to_dense()"
    if named not in DTYPES:
        return f"{named} values are not supported; save one of {', '.join(DTYPES)}"
    return None


def words_of(tensor: Any, spec: TensorSpec) -> Words:
    """The tensor's words; a view of its memory where that stands in C order.

    Raises:
        UnsupportedInput: for a sparse tensor whose indices lie outside its shape.
    """
    import torch

    if isinstance(tensor, np.ndarray):
        return tensor_from_array(spec.name, tensor).words
    dense = tensor.detach()
    if _is_sparse(dense):
        dense = _to_dense(dense, spec)
    if dense.numel() == 0:
        return np.empty(0, spec.dtype.word)
    dense = dense.resolve_neg().contiguous()
    words: Words = dense.reshape(-1).view(torch.uint8).numpy().view(spec.dtype.word)
    return words


def _to_dense(tensor: Any, spec: TensorSpec) -> Any:
    """Dense values of a sparse tensor, those of equal indices added; indices are checked before they are used."""
    import torch

    try:
        checked = torch.sparse_coo_tensor(tensor._indices(), tensor._values(), tensor.shape, check_invariants=True)
    except (RuntimeError, ValueError) as error:
        raise damaged(
            f"{spec.name!r}: sparse tensor with indices outside its shape {spec.shape}: {one_line(error, 120)}"
        ) from error
    return checked.to_dense()
