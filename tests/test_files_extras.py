"""GGUF and HDF5, which need packages of their own."""

import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files import inspect_file, load_gradient
from tests.file_kinds import write_gguf, write_hdf5


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(UnsupportedInput) as caught:
        load_gradient(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("h5py")
    path = write_hdf5(tmp_path / "g.h5", {"w": np.ones(4, "<f4")})
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert "pip install h5py" in refusal(path)


def test_gguf_shapes_types_and_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    arrays = {"w": np.arange(6, dtype="<f4").reshape(2, 3), "h": np.arange(4, dtype="<f2"), "d": np.arange(2.0)}
    gradient = load_gradient(write_gguf(tmp_path / "g.gguf", arrays))
    assert {n: gradient[n].tolist() for n in arrays} == {n: a.tolist() for n, a in arrays.items()}
    assert gradient.metadata == {"general.architecture": "gradient"}


def test_gguf_quantised_tensors_are_named(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "q.gguf"
    writer = gguf.GGUFWriter(path, "gradient")
    writer.add_array("tokenizer.ggml.tokens", ["a", "bc", ""] * 50)
    writer.add_array("scores", [1.5, 2.5])
    writer.add_custom_alignment(64)
    writer.add_tensor("plain", np.ones((2, 4), "<f4"))
    writer.add_tensor("packed", np.zeros((2, 18), np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    gradient = load_gradient(path)
    assert [t.name for t in gradient] == ["plain"]
    assert "'packed'" in gradient.warnings[0]
    assert "Q4_0" in gradient.warnings[0]


@pytest.mark.parametrize(
    "head",
    [
        b"GGUF",
        b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 60),
        b"GGUF" + struct.pack("<IQQ", 9, 0, 0),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 0, 1 << 40),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 8, 1 << 40),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 9, 3) * 9,
        b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"w" + struct.pack("<IQQIQ", 2, 1 << 40, 1 << 40, 0, 0),
    ],
)  # fmt: skip
def test_gguf_headers_that_lie(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "g.gguf"
    path.write_bytes(head + bytes(64))
    assert refusal(path)


def test_gguf_of_the_other_byte_order(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "b.gguf", "gradient", endianess=gguf.GGUFEndian.BIG)
    writer.add_tensor("w", np.arange(6, dtype="<f4").reshape(2, 3))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert load_gradient(tmp_path / "b.gguf")["w"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_hdf5_groups_orders_and_filters(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "g.h5"
    values = np.arange(24, dtype="<f4").reshape(4, 6)
    with h5py.File(path, "w") as handle:
        handle["a/b/w"] = values
        handle["big"] = values.astype(">f8")
        handle.create_dataset("zipped", data=values, chunks=(2, 3), compression="gzip", shuffle=True)
        handle["none"] = np.zeros((3, 0), "<f4")
        handle["one"] = np.float64(2.5)
        handle["flags"] = np.array([True, False])
    gradient = load_gradient(path)
    assert gradient["a/b/w"].tolist() == gradient["zipped"].tolist() == gradient["big"].tolist() == values.tolist()
    assert gradient["none"].shape == (3, 0)
    assert gradient["one"] == 2.5
    assert inspect_file(path)["sha256"] == gradient.digest


def test_hdf5_never_leaves_the_file(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    other = write_hdf5(tmp_path / "other.h5", {"secret": np.ones(2)})
    (tmp_path / "bytes.bin").write_bytes(bytes(16))
    path = tmp_path / "g.h5"
    with h5py.File(path, "w") as handle:
        handle["w"] = np.ones(3)
        handle["out"] = h5py.ExternalLink(str(other), "secret")
        handle["loop"] = h5py.SoftLink("/loop")
        handle.create_dataset("stored_elsewhere", (2,), "<f8", external=[(str(tmp_path / "bytes.bin"), 0, 16)])
        layout = h5py.VirtualLayout((2,), "<f8")
        layout[:] = h5py.VirtualSource(str(other), "secret", shape=(2,))
        handle.create_virtual_dataset("virtual", layout)
    gradient = load_gradient(path)
    assert [t.name for t in gradient] == ["w"]
    assert gradient.warnings == (
        "'stored_elsewhere', 'virtual' were left out: values that lie in another file; copy them into this one",
    )


def test_hdf5_values_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "g.h5"
    with h5py.File(path, "w") as handle:
        handle["text"] = "words"
        handle["record"] = np.zeros(2, [("a", "<f4")])
        handle["complex"] = np.zeros(2, "<c8")
        handle["w"] = np.ones(3)
    gradient = load_gradient(path)
    assert [t.name for t in gradient] == ["w"]
    assert all(any(repr(n) in w for w in gradient.warnings) for n in ("text", "record", "complex"))


def test_hdf5_names_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "g.h5"
    with h5py.File(path, "w") as handle:
        handle[b"\xff\xfe"] = np.ones(2)
        handle["w"] = np.ones(3)
    answer = inspect_file(path)
    assert [t["name"] for t in answer["tensors"]] == ["w"]
    assert "no valid text" in answer["warnings"][0]


def test_hdf5_declared_sizes_are_limited(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "g.h5"
    with h5py.File(path, "w") as handle:
        handle.create_dataset("unwritten", (1 << 40,), "<f8", chunks=(1 << 16,))
        handle["w"] = np.ones(3)
    assert "--max-bytes" in refusal(path)
    assert load_gradient(path, tensors=["w"]).n_parameters == 3
