"""Parts of a tensor, spelled as one spells them in numpy: `conv2.weight[3, :, :, 0]`, `w[0:8]`.

A slice has one entry an axis: a position, which takes the axis away, or a range without a step. Inverse pair:
`slice_text` / `parse_slice`. Law: `cut_tensor(t, i).array` has the bits of `t.array[i]`, in C order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import Tensor, TensorSpec
from lmgc_core.wording import counted

Index = tuple[int | slice, ...]

_NAMED = re.compile(r"(?P<name>.*)(?P<slice>\[[\s\d,:+-]*\])", re.DOTALL)


def slice_text(index: Index, shape: Sequence[int]) -> str:
    """The slice in brackets, a whole axis as a colon.

    >>> slice_text((3, slice(0, 9), slice(1, 2)), (64, 9, 3))
    '[3, :, 1:2]'
    """
    entries = []
    for entry, size in zip(index, shape, strict=True):
        if isinstance(entry, int):
            entries.append(str(entry))
        else:
            first, last, _ = entry.indices(size)
            entries.append(":" if (first, last) == (0, size) else f"{first}:{last}")
    return f"[{', '.join(entries)}]"


def parse_slice(text: str, shape: Sequence[int]) -> Index:
    """The slice that a text in brackets means for that shape; missing last axes are whole.

    Raises:
        InvalidSetting: for what is no slice, has too many axes, or takes nothing.

    >>> parse_slice("[3, 2:4]", (64, 9, 3))
    (3, slice(2, 4, None), slice(0, 3, None))
    """
    found = re.fullmatch(r"\s*\[(.*)\]\s*", text, re.DOTALL)
    entries = [e.strip() for e in found[1].split(",")] if found and found[1].strip() else []
    if found is None or len(entries) > len(shape):
        raise InvalidSetting(
            f"slice {text!r}: brackets with at most {len(shape)} positions or ranges are needed for shape "
            f"{tuple(shape)}, e.g. {slice_text(tuple(slice(0, size) for size in shape), shape)}"
        )
    entries += [":"] * (len(shape) - len(entries))
    return tuple(_entry(e, size, axis, text) for axis, (e, size) in enumerate(zip(entries, shape, strict=True)))


def _entry(entry: str, size: int, axis: int, text: str) -> int | slice:
    if re.fullmatch(r"[+-]?\d{1,18}", entry):
        place = int(entry) + size * (int(entry) < 0)
        if not 0 <= place < size:
            raise InvalidSetting(f"slice {text!r}: axis {axis} has {counted(size, 'position')}; {entry} is beyond them")
        return place
    found = re.fullmatch(r"([+-]?\d{1,18})?\s*:\s*([+-]?\d{1,18})?", entry)
    if found is None:
        raise InvalidSetting(f"slice {text!r}: {entry!r} is neither a position nor a range like 2:5")
    first, last, _ = slice(*(None if n is None else int(n) for n in found.groups())).indices(size)
    if first >= last:
        raise InvalidSetting(
            f"slice {text!r}: {entry} takes nothing of axis {axis}, which has {counted(size, 'position')}"
        )
    return slice(first, last)


def split_slice(name: str) -> tuple[str, str] | None:
    """The tensor's name and the slice in brackets behind it; None where none stands there.

    >>> split_slice("conv2.weight[3, :]"), split_slice("bias")
    (('conv2.weight', '[3, :]'), None)
    """
    found = _NAMED.fullmatch(name)
    return (found["name"], found["slice"]) if found else None


def cut_spec(spec: TensorSpec, index: Index) -> TensorSpec:
    """What a slice of a tensor is called, and its shape."""
    whole = tuple(slice(0, size) for size in spec.shape)
    if index == whole:
        return spec
    shape = tuple(
        len(range(*entry.indices(size)))
        for entry, size in zip(index, spec.shape, strict=True)
        if isinstance(entry, slice)
    )
    return TensorSpec(f"{spec.name}{slice_text(index, spec.shape)}", spec.dtype, shape)


def cut_tensor(tensor: Tensor, index: Index) -> Tensor:
    """The slice as a tensor of its own, named like `conv2.weight[3, :, :, 0]`; the whole tensor is itself.

    >>> from lmgc_core.gradient import tensor_from_array
    >>> part = cut_tensor(tensor_from_array("w", np.arange(6.0).reshape(2, 3)), (1, slice(0, 2)))
    >>> part.name, part.array.tolist()
    ('w[1, 0:2]', [3.0, 4.0])
    """
    spec = cut_spec(tensor.spec, index)
    if spec == tensor.spec:
        return tensor
    words = np.ascontiguousarray(tensor.words.reshape(tensor.shape)[index]).reshape(-1)
    return Tensor(spec, words)


def wanted_slices(names: Sequence[str], specs: Sequence[TensorSpec]) -> Iterator[tuple[str, TensorSpec, Index]]:
    """For each name that is no tensor's own but a slice of one: the name, the whole tensor, the slice.

    Raises:
        InvalidSetting: for a slice that does not fit its tensor.
    """
    by_name = {spec.name: spec for spec in specs}
    for name in dict.fromkeys(names):
        found = None if name in by_name else split_slice(name)
        if found is not None and found[0] in by_name:
            whole = by_name[found[0]]
            yield name, whole, parse_slice(found[1], whole.shape)
