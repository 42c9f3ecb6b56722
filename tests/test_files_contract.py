"""The contract of every reader: the stored bits, headers before values, names, digests, nothing but LmgcError."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from lmgc_core.errors import InvalidSetting, UnsupportedInput
from lmgc_core.files import inspect_file, load_gradient, open_source
from tests.file_kinds import WRITERS, arrays_for, raw_bytes, write_kind

KINDS = list(WRITERS)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "hdf5":
        pytest.importorskip("h5py")
    return request.param


def test_every_bit_comes_back(kind: str, tmp_path: Path) -> None:
    arrays = arrays_for(kind)
    gradient = load_gradient(write_kind(kind, tmp_path))
    assert {t.name for t in gradient} == set(arrays)
    for name, array in arrays.items():
        tensor = gradient.tensor(name)
        assert tensor.shape == array.shape
        assert tensor.dtype.name == array.dtype.name
        assert tensor.words.tobytes() == raw_bytes(array)


def test_the_tensor_list_keeps_the_files_order(kind: str, tmp_path: Path) -> None:
    source = open_source(write_kind(kind, tmp_path))
    names = [s.name for s in source.specs]
    if kind == "safetensors":  # tensors of no bytes have no place among the others
        names = [n for n in names if n != "none"]
        assert names == [n for n in arrays_for(kind) if n != "none"]
    else:
        assert names == list(arrays_for(kind))


def test_pieces_are_the_whole(kind: str, tmp_path: Path) -> None:
    source = open_source(write_kind(kind, tmp_path))
    for spec in source.specs:
        pieces = list(source.chunks(spec.name))
        assert b"".join(p.tobytes() for p in pieces) == source.read(spec.name).words.tobytes()


def test_inspect_agrees_with_loading(kind: str, tmp_path: Path) -> None:
    path = write_kind(kind, tmp_path)
    answer = inspect_file(path)
    gradient = load_gradient(path)
    assert answer["sha256"] == gradient.digest
    assert answer["n_parameters"] == gradient.n_parameters
    assert answer["raw_bytes"] == gradient.raw_bytes
    assert {t["name"]: t["sha256"] for t in answer["tensors"]} == {t.name: t.digest for t in gradient}
    ordered = b"".join(raw_bytes(a) for _, a in sorted(arrays_for(kind).items()))
    assert answer["sha256"] == hashlib.sha256(ordered).hexdigest()


def test_only_the_chosen_tensor_is_read(kind: str, tmp_path: Path) -> None:
    gradient = load_gradient(write_kind(kind, tmp_path), tensors=["odd"])
    assert [t.name for t in gradient] == ["odd"]


def test_a_name_that_is_not_there_is_the_callers_mistake(kind: str, tmp_path: Path) -> None:
    path = write_kind(kind, tmp_path)
    with pytest.raises(InvalidSetting, match="no tensor is called 'wrong'"):
        load_gradient(path, tensors=["wrong"])
    assert "no tensor is called 'wrong'" in inspect_file(path, tensors=["wrong"])["error"]


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_file_cut_short_is_named(kind: str, kept: float, tmp_path: Path) -> None:
    path = write_kind(kind, tmp_path)
    if path.is_dir():
        pytest.skip("a folder is not cut; its files are")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(UnsupportedInput) as caught:
        load_gradient(path)
    text = str(caught.value)
    assert text.startswith(f"{path.name}: ")
    assert "\n" not in text
    assert len(text) > len(path.name) + 10
    assert inspect_file(path) == {"file": str(path), "error": text}


@pytest.mark.parametrize("name", ["upload", "g.safetensors", "g.npy", "g.pt", "g.csv", "g.gguf"])
def test_content_counts_and_not_the_name(kind: str, name: str, tmp_path: Path) -> None:
    if kind in ("folder", "index"):
        pytest.skip("a name has no say there")
    path = write_kind(kind, tmp_path)
    other = path.rename(tmp_path / name)
    assert load_gradient(other).n_parameters == sum(a.size for a in arrays_for(kind).values())


def test_words_are_never_writable_into_the_file(kind: str, tmp_path: Path) -> None:
    path = write_kind(kind, tmp_path)
    if not path.is_file():
        pytest.skip("one file is enough")
    before = path.read_bytes()
    tensor = load_gradient(path).tensor("odd")
    with pytest.raises(ValueError, match="read-only"):
        tensor.array[0] = 1
    assert path.read_bytes() == before


def test_the_label_stands_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "spooled-17"
    path.write_bytes(b"")
    with pytest.raises(UnsupportedInput, match=r"^mine\.npy: the file is empty"):
        load_gradient(path, label="mine.npy")
    assert inspect_file(path, label="mine.npy")["file"] == "mine.npy"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"raw_dtype": "float33"}, "raw dtype 'float33' is not known"),
        ({"raw_byte_order": "middle"}, "raw byte order 'middle'"),
        ({"raw_offset": -1}, "raw offset -1"),
        ({"max_bytes": -1}, "max bytes -1"),
        ({"raw_offset": 1.5}, "raw offset 1.5"),
    ],
)
def test_options_out_of_range_are_refused(options: dict, message: str, tmp_path: Path) -> None:
    path = tmp_path / "g.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(InvalidSetting, match=message):
        load_gradient(path, **options)
