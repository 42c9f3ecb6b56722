"""Slices: the bits that numpy takes, one spelling, the same from a file, the command line and in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.errors import InvalidSetting
from lmgc_core.files import inspect_file, load_gradient, open_source
from lmgc_core.gradient import tensor_from_array
from lmgc_core.slices import cut_tensor, parse_slice, slice_text, split_slice
from tests.file_kinds import write_kind


@st.composite
def arrays_and_slices(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int | slice, ...]]:
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))
    index: list[int | slice] = []
    for size in shape:
        first = draw(st.integers(0, size - 1))
        index.append(first if draw(st.booleans()) else slice(first, draw(st.integers(first + 1, size))))
    words = np.arange(int(np.prod(shape)), dtype="<u4") * np.uint32(2654435761)
    return words.view("<f4").reshape(shape), tuple(index)


@settings(max_examples=200, deadline=None)
@given(arrays_and_slices())
def test_a_slice_has_numpys_bits_and_its_text_reads_back(case: tuple) -> None:
    array, index = case
    part = cut_tensor(tensor_from_array("w", array), index)
    assert part.shape == array[index].shape
    assert part.words.tobytes() == np.ascontiguousarray(array[index]).tobytes()
    text = slice_text(index, array.shape)
    assert parse_slice(text, array.shape) == index
    whole = array[index].shape == array.shape
    assert part.name == ("w" if whole else f"w{text}")
    assert split_slice(f"a[0].w{text}") == ("a[0].w", text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[4]", "axis 0 has 4 positions; 4 is beyond them"),
        ("[-5]", "beyond"),
        ("[2:2]", "takes nothing"),
        ("[3:1]", "takes nothing"),
        ("[0, 0, 0]", "at most 2"),
        ("[::2]", "neither a position nor a range"),
        ("[x]", "neither"),
        ("3", "brackets"),
    ],
)
def test_what_is_no_slice_is_said(text: str, message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        parse_slice(text, (4, 3))


@pytest.mark.parametrize("kind", ["safetensors", "npz", "npz-deflated", "torch", "folder", "index"])
def test_a_file_gives_the_slice_that_memory_gives(kind: str, tmp_path: Path) -> None:
    path = write_kind(kind, tmp_path)
    name = "conv.weight[1, :, 0:1]"
    part = load_gradient(path, tensors=[name])
    whole = load_gradient(path)["conv.weight"]
    assert [t.name for t in part] == [name]
    assert part[name].tobytes() == np.ascontiguousarray(whole[1, :, 0:1]).tobytes()
    answer = inspect_file(path, tensors=[name])
    assert (answer["sha256"], answer["tensors"][0]["shape"]) == (part.digest, [3, 1])
    source = open_source(path, tensors=[name, "odd"])
    assert b"".join(c.tobytes() for c in source.chunks(name)) == part.to_bytes()
    assert {"conv.weight", "odd", name} <= {s.name for s in source.specs}
    with pytest.raises(InvalidSetting, match="axis 0 has 4 positions"):
        load_gradient(path, tensors=["conv.weight[9]"])
    with pytest.raises(InvalidSetting, match="no tensor is called 'wrong"):
        load_gradient(path, tensors=["wrong[0]"])


def test_a_nameless_array_is_sliced_by_brackets_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", np.arange(12.0).reshape(3, 4))
    part = load_gradient(tmp_path / "g.npy", tensors=["[2, 1:3]"])
    assert part["[2, 1:3]"].tolist() == [9.0, 10.0]
    with pytest.raises(InvalidSetting, match="no tensor is called 'nope'; the only one has no name"):
        load_gradient(tmp_path / "g.npy", tensors=["nope"])


def test_a_name_that_looks_like_a_slice_is_still_a_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", **{"w[0]": np.ones(2), "w": np.zeros(3)})
    assert load_gradient(tmp_path / "g.npz", tensors=["w[0]"])["w[0]"].tolist() == [1.0, 1.0]
