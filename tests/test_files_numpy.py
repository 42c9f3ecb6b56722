"""npy and npz: orders, lost types, headers that lie, members that are no numbers."""

import pickle
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files import inspect_file, load_gradient
from tests.file_kinds import NAN_PAYLOADS, npy_bytes, npy_header, raw_bytes


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(UnsupportedInput) as caught:
        load_gradient(path, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(path.name)
    return str(caught.value)


def npy(folder: Path, data: bytes) -> Path:
    path = folder / "g.npy"
    path.write_bytes(data)
    return path


ARRAYS = {
    "fortran": np.asfortranarray(np.arange(15, dtype="<f4").reshape(3, 5)),
    "fortran 3d": np.asfortranarray(np.arange(24, dtype="<i2").reshape(2, 3, 4)),
    "big-endian": np.arange(7, dtype=">f4"),
    "big-endian fortran": np.asfortranarray(np.arange(12, dtype=">f8").reshape(3, 4)),
    "strided": np.arange(20, dtype="<f8")[::3],
    "reversed": np.arange(20, dtype="<u2")[::-1],
    "no axes": np.array(2.5, "<f2"),
    "no values": np.zeros((0,), "<f4"),
    "no values, two axes": np.zeros((3, 0), ">f4"),
    "bool": np.array([True, False]),
    "NaN payloads": NAN_PAYLOADS,
    "big-endian NaN payloads": NAN_PAYLOADS.view("<u4").byteswap().view(">f4"),
    "ones": np.ones((1, 5, 1), "<f4", order="F"),
}


@pytest.mark.parametrize("compressed", [None, False, True])
@pytest.mark.parametrize("what", list(ARRAYS))
def test_logical_order_and_little_endian_bytes(what: str, compressed: bool | None, tmp_path: Path) -> None:
    array = ARRAYS[what]
    path = tmp_path / ("g.npy" if compressed is None else "g.npz")
    if compressed is None:
        np.save(path, array)
    else:
        (np.savez_compressed if compressed else np.savez)(path, g=array)
    (tensor,) = load_gradient(path)
    expected = raw_bytes(np.ascontiguousarray(array).view(f"{array.dtype.str[0]}u{array.itemsize}"))
    assert tensor.shape == array.shape
    assert tensor.words.tobytes() == expected
    assert tensor.name == ("" if compressed is None else "g")
    assert inspect_file(path)["sha256"] == tensor.digest


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_lost_type_is_asked_for_and_then_believed(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "g.npy"
    array = np.arange(4).astype(getattr(ml_dtypes, dtype))
    np.save(path, array)
    text = refusal(path)
    assert "V2" in text or "V1" in text or "f1" in text
    assert f"--raw-dtype {'bfloat16' if dtype == 'bfloat16' else 'float8_e4m3fn'}" in text
    (tensor,) = load_gradient(path, raw_dtype=dtype)
    assert tensor.dtype.name == dtype
    assert tensor.words.tobytes() == array.tobytes()


def test_a_lost_type_of_another_width_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.npy"
    np.save(path, np.zeros(4, ml_dtypes.bfloat16))
    assert "has 4" in refusal(path, raw_dtype="float32")


def test_a_type_that_is_there_is_not_overruled(tmp_path: Path) -> None:
    path = tmp_path / "g.npy"
    np.save(path, np.zeros(4, "<f4"))
    assert load_gradient(path, raw_dtype="float64").tensors[0].dtype.name == "float32"


REFUSED = {
    "object": (np.array([None, 1], object), "object"),
    "record": (np.zeros(2, [("a", "<f4"), ("b", "<i2")]), "fields"),
    "complex": (np.zeros(2, "<c8"), "complex"),
    "text": (np.array(["a"]), "text"),
    "bytes": (np.array([b"a"]), "byte strings"),
    "dates": (np.zeros(2, "<M8[s]"), "M8"),
    "extended": (np.zeros(2, np.longdouble), "float128"),
    "wide void": (np.zeros(2, "V5"), "V5"),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_values_that_are_no_numbers_are_named(what: str, tmp_path: Path) -> None:
    array, word = REFUSED[what]
    np.save(tmp_path / "g.npy", array, allow_pickle=True)
    assert word in refusal(tmp_path / "g.npy")


@pytest.mark.parametrize("what", list(REFUSED))
def test_members_that_are_no_numbers_are_named_and_others_load(what: str, tmp_path: Path) -> None:
    array, word = REFUSED[what]
    path = tmp_path / "g.npz"
    np.savez(path, g=np.ones(3, "<f4"), hparams=array)
    gradient = load_gradient(path)
    assert [t.name for t in gradient] == ["g"]
    assert any("'hparams'" in w and word in w for w in gradient.warnings)
    assert inspect_file(path)["warnings"] == list(gradient.warnings)
    assert "'hparams'" in refusal(path, tensors=["hparams"])
    np.savez(path, hparams=array)
    assert "'hparams'" in refusal(path)


def test_no_object_is_unpickled(tmp_path: Path) -> None:
    canary = tmp_path / "canary"

    class Runs:
        def __reduce__(self) -> object:
            import os

            return os.mkdir, (str(canary),)

    np.save(tmp_path / "g.npy", np.array([Runs()], object), allow_pickle=True)
    np.savez(tmp_path / "g.npz", g=np.array([Runs()], object))
    refusal(tmp_path / "g.npy")
    refusal(tmp_path / "g.npz")
    assert not canary.exists()


F4 = "'<f4'"
LIES = {
    "header of 4 GiB": (npy_bytes(npy_header(F4, (4,)), bytes(16), (2, 0), 0xFFFFFFF0), "header"),
    "header longer than the file": (npy_bytes(npy_header(F4, (4,)), b"", length=9999), "truncated"),
    "overflow": (npy_bytes(npy_header(F4, (2**33, 2**33)), bytes(16)), "declares"),
    "2**34 values": (npy_bytes(npy_header(F4, (2**34,)), bytes(16)), "truncated"),
    "negative": (npy_bytes(npy_header(F4, (-4,)), bytes(16)), "negative"),
    "two negatives": (npy_bytes(npy_header(F4, (-2, -2)), bytes(16)), "negative"),
    "short": (npy_bytes(npy_header(F4, (8,)), bytes(16)), "truncated"),
    "shape of floats": (npy_bytes(npy_header(F4, (4.0,)), bytes(16)), "shape"),
    "shape of bools": (npy_bytes(npy_header(F4, (True,)), bytes(16)), "shape"),
    "shape a list": (npy_bytes(npy_header(F4, [4]), bytes(16)), "shape"),
    "shape a number": (npy_bytes(npy_header(F4, 4), bytes(16)), "shape"),
    "100 axes": (npy_bytes(npy_header(F4, (1,) * 100), bytes(16)), "axes"),
    "no dictionary": (npy_bytes("[1, 2]", bytes(16)), "header"),
    "a call": (npy_bytes("__import__('os').getcwd()", bytes(16)), "header"),
    "nested": (npy_bytes("(" * 5000, bytes(16)), "header"),
    "minus signs": (npy_bytes("-" * 9000 + "1", bytes(16)), "header"),
    "a field too many": (npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 1}", b""), "header"),
    "order a word": (npy_bytes("{'descr': '<f4', 'fortran_order': 'no', 'shape': (4,)}", bytes(16)), "fortran_order"),
    "dtype a number": (npy_bytes(npy_header("4", (4,)), bytes(16)), "dtype"),
    "dtype f3": (npy_bytes(npy_header("'<f3'", (4,)), bytes(16)), "f3"),
    "dtype unknown": (npy_bytes(npy_header("'<q9'", (4,)), bytes(16)), "q9"),
    "version 9": (npy_bytes(npy_header(F4, (4,)), bytes(16), (9, 0)), "version"),
    "magic alone": (b"\x93NUMPY", "header"),
    "not UTF-8": (b"\x93NUMPY\x03\x00\x04\x00\x00\x00\xff\xff\xff\xff", "utf-8"),
}  # fmt: skip


@pytest.mark.parametrize("what", list(LIES))
def test_headers_that_lie(what: str, tmp_path: Path) -> None:
    data, word = LIES[what]
    assert word in refusal(npy(tmp_path, data))


@pytest.mark.parametrize("what", [w for w in LIES if w != "magic alone"])
def test_members_whose_headers_lie(what: str, tmp_path: Path) -> None:
    data, word = LIES[what]
    path = tmp_path / "g.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("good.npy", npy_bytes(npy_header(F4, (1,)), bytes(4)))
        archive.writestr("bad.npy", data)
    if word in ("dtype", "f3", "q9"):  # a whole header of what is no number: left out
        assert any(word in w for w in load_gradient(path).warnings)
    else:
        text = refusal(path)
        assert word in text
        assert "'bad'" in text


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_header_version_loads(version: tuple[int, int], tmp_path: Path) -> None:
    path = npy(tmp_path, npy_bytes(npy_header(F4, (4,)), bytes(16), version))
    assert load_gradient(path).n_parameters == 4


def test_headers_of_python_2_load(tmp_path: Path) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 2L), }"
    assert load_gradient(npy(tmp_path, npy_bytes(header, bytes(16)))).tensors[0].shape == (2, 2)


def test_bytes_after_the_array_are_said(tmp_path: Path) -> None:
    path = npy(tmp_path, npy_bytes(npy_header(F4, (4,)), bytes(19)))
    gradient = load_gradient(path)
    assert gradient.n_parameters == 4
    assert any("3 bytes after" in w for w in gradient.warnings)


def zipped(folder: Path, *members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    path = folder / "g.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


ONE = npy_bytes(npy_header(F4, (1,)), bytes(4))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("a.npy", "a.npy"), ("a.npy", "a")])
def test_duplicate_names_are_an_error(names: tuple[str, str], tmp_path: Path) -> None:
    assert "duplicate" in refusal(zipped(tmp_path, *((n, ONE) for n in names)))


def test_names_are_labels_and_nothing_is_written(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    names = ["../../up", "/absolute", "layer1/weight", "..\\down", "x.npy.npy"]
    path = zipped(inside, *((f"{n}.npy", ONE) for n in names))
    before = {p for p in tmp_path.rglob("*")}
    assert [t.name for t in load_gradient(path)] == names
    assert {p for p in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(method: int, tmp_path: Path) -> None:
    assert "compression method" in refusal(zipped(tmp_path, ("a.npy", ONE), method=method))


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path, ("a.npy", ONE))
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    assert "encrypted" in refusal(path)


def test_a_flipped_value_is_noticed(tmp_path: Path) -> None:
    path = zipped(tmp_path, ("a.npy", npy_bytes(npy_header(F4, (4,)), b"abcdabcdabcdabcd")))
    path.write_bytes(path.read_bytes().replace(b"abcd", b"abce", 1))
    assert "CRC" in refusal(path)


def test_the_declared_size_is_limited_and_not_the_ratio(tmp_path: Path) -> None:
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, zeros=np.zeros(1 << 20, "<f4"), small=np.ones(3))
    assert load_gradient(path).n_parameters == (1 << 20) + 3
    assert "--max-bytes" in refusal(path, max_bytes=1 << 20)
    assert load_gradient(path, max_bytes=1 << 20, tensors=["small"]).n_parameters == 3
    np.savez(path, zeros=np.zeros(1 << 20, "<f4"))
    assert load_gradient(path, max_bytes=1).n_parameters == 1 << 20


def test_zip_archives_of_other_things_are_named(tmp_path: Path) -> None:
    path = tmp_path / "letter.docx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "<x/>")
    assert "word/document.xml" in refusal(path)
    with zipfile.ZipFile(path, "w"):
        pass
    assert "nothing" in refusal(path)


def test_the_pickle_module_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was opened")

    monkeypatch.setattr(pickle, "load", never)
    monkeypatch.setattr(pickle, "loads", never)
    np.save(tmp_path / "g.npy", np.array([{}], object), allow_pickle=True)
    refusal(tmp_path / "g.npy")
