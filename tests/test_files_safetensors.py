"""safetensors, shards and folders: types kept, headers that lie, shards that are missing or lie outside."""

import json
from pathlib import Path

import numpy as np
import pytest

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files import inspect_file, load_gradient, open_source
from tests.file_kinds import write_index, write_safetensors, write_safetensors_header


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(UnsupportedInput) as caught:
        load_gradient(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path.name}: ")


def entry(dtype: str, shape: list[int], first: int, last: int) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, last]}


TYPES = {
    "BF16": ("bfloat16", 2), "F8_E4M3": ("float8_e4m3fn", 1), "F8_E5M2": ("float8_e5m2", 1),
    "F8_E8M0": ("float8_e8m0fnu", 1), "F8_E4M3FNUZ": ("float8_e4m3fnuz", 1), "F8_E5M2FNUZ": ("float8_e5m2fnuz", 1),
    "F16": ("float16", 2), "F32": ("float32", 4), "F64": ("float64", 8), "BOOL": ("bool", 1), "U64": ("uint64", 8),
}  # fmt: skip


@pytest.mark.parametrize("stored", list(TYPES))
def test_types_are_kept_and_never_widened(stored: str, tmp_path: Path) -> None:
    name, width = TYPES[stored]
    body = bytes(range(64))
    header = json.dumps({"g": entry(stored, [64 // width], 0, 64)}).encode()
    path = write_safetensors_header(tmp_path / "g.safetensors", header, body)
    (tensor,) = load_gradient(path)
    assert tensor.dtype.name == name
    assert tensor.words.tobytes() == body
    assert inspect_file(path)["raw_bytes"] == 64


def test_metadata_is_shown(tmp_path: Path) -> None:
    header = json.dumps({"__metadata__": {"step": "60", "network": "convnet"}, "g": entry("F32", [1], 0, 4)}).encode()
    path = write_safetensors_header(tmp_path / "g.safetensors", header, bytes(4))
    assert inspect_file(path)["metadata"] == {"step": "60", "network": "convnet"}
    assert load_gradient(path).metadata["step"] == "60"


@pytest.mark.parametrize("stored", ["C64", "F4"])
def test_types_that_cannot_be_held_are_named_and_others_load(stored: str, tmp_path: Path) -> None:
    n = {"C64": 1, "F4": 16}[stored]
    header = json.dumps({"odd": entry(stored, [n], 0, 8), "g": entry("F32", [2], 8, 16)}).encode()
    path = write_safetensors_header(tmp_path / "g.safetensors", header, bytes(8) + b"abcdefgh")
    gradient = load_gradient(path)
    assert gradient.to_bytes() == b"abcdefgh"
    assert any(stored in w for w in gradient.warnings)
    assert stored in refusal(path, tensors=["odd"])


def test_headers_off_the_grid_load_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "g.safetensors"
    for pad in range(4):
        header = json.dumps({"g": entry("F64", [2], 0, 16)}).encode() + b" " * pad
        path.write_bytes(len(header).to_bytes(8, "little") + header + np.array([1.5, -2], "<f8").tobytes())
        assert load_gradient(path)["g"].tolist() == [1.5, -2]


G = entry("F32", [1], 0, 4)
LIES = {
    "duplicate key": (b'{"g":' + json.dumps(G).encode() + b',"g":' + json.dumps(G).encode() + b"}", 4, "duplicate"),
    "overlap": (json.dumps({"a": entry("F32", [2], 0, 8), "b": entry("F32", [1], 4, 8)}).encode(), 8, "offset"),
    "hole": (json.dumps({"a": G, "b": entry("F32", [1], 8, 12)}).encode(), 12, "offset"),
    "shape and bytes": (json.dumps({"g": entry("F32", [1000, 1000], 0, 4)}).encode(), 4, "shape"),
    "negative": (json.dumps({"g": entry("F32", [-2], 0, 4)}).encode(), 4, "header"),
    "overflow": (json.dumps({"g": entry("F32", [2**62, 4], 0, 4)}).encode(), 4, "overflow"),
    "unknown dtype": (json.dumps({"g": entry("F31", [1], 0, 4)}).encode(), 4, "F31"),
    "offsets backwards": (json.dumps({"g": entry("F32", [1], 4, 0)}).encode(), 4, "offset"),
    "past the end": (json.dumps({"g": entry("F32", [1], 0, 4)}).encode(), 3, "header"),
    "bytes after": (json.dumps({"g": entry("F32", [1], 0, 4)}).encode(), 5, "header"),
    "no JSON": (b'{"g":', 4, "JSON"),
    "no tensors": (b"{}", 0, "no tensors"),
    "only metadata": (b'{"__metadata__":{"a":"b"}}', 0, "no tensors"),
    "not UTF-8": (b'{"\xff":1}', 4, "header"),
}


@pytest.mark.parametrize("what", list(LIES))
def test_headers_that_lie(what: str, tmp_path: Path) -> None:
    header, n_bytes, word = LIES[what]
    path = write_safetensors_header(tmp_path / "g.safetensors", header, bytes(n_bytes))
    text = refusal(path)
    assert word in text
    assert inspect_file(path)["error"].endswith(text)


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 10**9, 0, 1])
def test_header_lengths_that_lie(length: int, tmp_path: Path) -> None:
    path = tmp_path / "g.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + b'{"g":{}}')
    assert "header" in refusal(path).lower()


def test_an_index_alone_names_each_missing_shard(tmp_path: Path) -> None:
    path = write_index(tmp_path / "model.safetensors.index.json", {n: np.ones(2, "<f4") for n in "abc"})
    (tmp_path / "model-00001-of-00003.safetensors").unlink()
    (tmp_path / "model-00003-of-00003.safetensors").unlink()
    text = refusal(path)
    assert "2 of 3 shards are missing" in text
    assert "model-00001-of-00003" in text
    assert "model-00003-of-00003" in text


@pytest.mark.parametrize(
    "name", ["../out.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "C:\\x", "..\\x", "a\x00b"]
)
def test_no_shard_is_opened_outside_the_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_safetensors(tmp_path / "out.safetensors", {"a": np.ones(2, "<f4")})
    path = tmp_path / "in" / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"a": name}}))
    assert "outside this folder" in refusal(path)


INDEXES = {
    "no map": ({"weight_map": 3}, "weight_map"),
    "numbers": ({"weight_map": {"a": 1}}, "weight_map"),
    "empty": ({"weight_map": {}}, "names no tensors"),
    "lacks": ({"weight_map": {"b": "x.safetensors"}}, "lacks tensor 'b'"),
    "itself": ({"weight_map": {"b": "g.index.json"}}, "nested"),
}


@pytest.mark.parametrize("what", list(INDEXES))
def test_indexes_that_lie(what: str, tmp_path: Path) -> None:
    content, word = INDEXES[what]
    write_safetensors(tmp_path / "x.safetensors", {"a": np.ones(2, "<f4")})
    path = tmp_path / "g.index.json"
    path.write_text(json.dumps(content))
    assert word in refusal(path)


def test_tensors_that_the_index_does_not_name_are_left_out_and_said(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x.safetensors", {"a": np.ones(2, "<f4"), "extra": np.ones(1, "<f4")})
    path = tmp_path / "g.index.json"
    path.write_text(json.dumps({"weight_map": {"a": "x.safetensors"}}))
    gradient = load_gradient(path)
    assert [t.name for t in gradient] == ["a"]
    assert "extra" in gradient.warnings[0]


def test_a_folder_with_an_index_is_its_shards(tmp_path: Path) -> None:
    write_index(tmp_path / "model.safetensors.index.json", {n: np.ones(2, "<f4") for n in "abc"})
    assert [t.name for t in load_gradient(tmp_path)] == ["a", "b", "c"]


def test_several_files_take_their_names_in_front_only_where_needed(tmp_path: Path) -> None:
    one, two, other = tmp_path / "step10.safetensors", tmp_path / "step20.safetensors", tmp_path / "other.npz"
    for number, path in enumerate((one, two)):
        header = json.dumps({"__metadata__": {"step": str(number)}, "w": G}).encode()
        write_safetensors_header(path, header, bytes(4))
    np.savez(other, v=np.ones(2))
    assert [t.name for t in load_gradient([one, other])] == ["w", "v"]
    gradient = load_gradient([one, two])
    assert [t.name for t in gradient] == ["step10/w", "step20/w"]
    assert gradient.metadata == {"step10/step": "0", "step20/step": "1"}
    assert load_gradient([one, two], tensors=["step20/w"]).n_parameters == 1
    assert gradient.name == "step10.safetensors and 1 more"


def test_nameless_arrays_take_their_files_names(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(2))
    np.save(tmp_path / "b.npy", np.ones(2))
    assert [t.name for t in load_gradient([tmp_path / "a.npy", tmp_path / "b.npy"])] == ["a", "b"]
    assert [t.name for t in load_gradient([tmp_path / "a.npy"])] == [""]
    (tmp_path / "other").mkdir()
    np.save(tmp_path / "other" / "a.npy", np.ones(2))
    same = load_gradient([tmp_path / "a.npy", tmp_path / "other" / "a.npy"])
    assert [t.name for t in same] == ["a.npy#1", "a.npy#2"]


def test_what_cannot_be_read_in_a_folder_is_said_and_the_rest_loads(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(2))
    (tmp_path / "b.npy").write_bytes(b"")
    (tmp_path / "readme.md").write_text("What is here\nand more")
    (tmp_path / ".hidden").write_bytes(b"x")
    gradient = load_gradient(tmp_path)
    assert gradient.n_parameters == 2
    assert len(gradient.warnings) == 2
    assert "b.npy" in gradient.warnings[0]


def test_no_file_at_all(tmp_path: Path) -> None:
    assert "without a file" in refusal(tmp_path)
    with pytest.raises(UnsupportedInput, match="no files were given"):
        load_gradient([])


def test_opening_reads_no_values(tmp_path: Path) -> None:
    """The list of a file of a terabyte (a hole on disk) appears at once, and one value of it can be had."""
    header = json.dumps({"g": entry("F32", [1 << 38], 0, 1 << 40)}).encode()
    path = write_safetensors_header(tmp_path / "g.safetensors", header, b"")
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size + (1 << 40))
    answer = inspect_file(path)
    assert answer["n_parameters"] == 1 << 38
    assert answer["sha256"] is None
    assert answer["tensors"][0]["zero_fraction"] is None
    assert open_source(path).read("g").words[12345] == 0
