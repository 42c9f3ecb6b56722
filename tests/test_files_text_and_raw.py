"""Raw numbers and tables of text: no value lost, none guessed, the line named."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.errors import UnsupportedInput
from lmgc_core.files import load_gradient
from lmgc_core.gradient import DTYPES


def written(folder: Path, data: bytes | str, name: str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(UnsupportedInput) as caught:
        load_gradient(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path.name}: ")


@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("offset", [0, 1, 8])
def test_raw_numbers_of_every_type(dtype: str, order: str, offset: int, tmp_path: Path) -> None:
    width = DTYPES[dtype].item_bytes
    data = bytes(range(256 - 256 % width))
    path = written(tmp_path, b"#" * offset + data, "g.bin")
    (tensor,) = load_gradient(path, raw_dtype=dtype, raw_byte_order=order, raw_offset=offset)
    expected = data if order == "little" else np.frombuffer(data, f">u{width}").astype(f"<u{width}").tobytes()
    assert tensor.words.tobytes() == expected
    assert tensor.name == ""


@pytest.mark.parametrize(
    ("n_bytes", "options", "words"),
    [
        (10, {"raw_dtype": "float32"}, ["10 bytes", "multiple of 4", "remainder 2"]),
        (12, {"raw_dtype": "float32", "raw_offset": 1}, ["11 bytes", "remainder 3"]),
        (12, {"raw_dtype": "float32", "raw_offset": 12}, ["12 bytes", "leaves none"]),
        (12, {"raw_dtype": "float32", "raw_offset": 99}, ["leaves none"]),
        (12, {}, ["--raw-dtype"]),
        (0, {"raw_dtype": "float32"}, ["empty"]),
    ],
)
def test_raw_lengths_that_do_not_fit(n_bytes: int, options: dict, words: list[str], tmp_path: Path) -> None:
    text = refusal(written(tmp_path, b"\x00" * n_bytes, "g.bin"), **options)
    assert all(word in text for word in words)


@pytest.mark.parametrize(
    "data", [b"12345678", b"1,2\n3,4\n", b" " * 8, b"<|end|>\n", b"\x80\x02\x00\x00", b"\x1f\x8b\x08\x00"]
)
def test_what_was_called_raw_is_raw(data: bytes, tmp_path: Path) -> None:
    assert load_gradient(written(tmp_path, data, "g.bin"), raw_dtype="uint8").to_bytes() == data


TABLES = {
    "one column": ("1.5\n-2\n3e-3\n", [1.5, -2, 0.003]),
    "one row": ("1,2,3", [1, 2, 3]),
    "rows": ("1,2\n3,4\n5,6\n", [[1, 2], [3, 4], [5, 6]]),
    "mark and CRLF": ("\ufeff1.5\r\n-2\r\n", [1.5, -2]),
    "CR": ("1\r2\r3", [1, 2, 3]),
    "header": ("w1,w2\n1,2\n3,4\n", [[1, 2], [3, 4]]),
    "header with umlaut": ("größe\n1\n", [1]),
    "semicolons": ("1.5;2\n3;4", [[1.5, 2], [3, 4]]),
    "tabs": ("1\t2\n3\t4", [[1, 2], [3, 4]]),
    "spaces": ("  1   2\n 3 4 ", [[1, 2], [3, 4]]),
    "comma and space": ("1, 2\n3, 4", [[1, 2], [3, 4]]),
    "quotes": ('"1","2"\n"3","4"', [[1, 2], [3, 4]]),
    "comment": ("# w1 w2\n1 2\n3 4\n", [[1, 2], [3, 4]]),
    "blank lines": ("\n1\n\n2\n\n", [1, 2]),
    "words for numbers": ("inf\n-inf\n-0.0\nInfinity\n+1.\n.5", [np.inf, -np.inf, -0.0, np.inf, 1, 0.5]),
}


@pytest.mark.parametrize("what", list(TABLES))
def test_tables(what: str, tmp_path: Path) -> None:
    text, expected = TABLES[what]
    gradient = load_gradient(written(tmp_path, text, "g.csv"))
    assert gradient[""].tobytes() == np.array(expected, "<f8").tobytes()
    assert gradient.tensors[0].shape == np.shape(expected)
    assert bool(gradient.warnings) == ("header" in what or "comment" in what)


BROKEN = {
    "text cell": ("1,2\n3,oops\n", ["line 2", "oops"]),
    "decimal comma": ("6,5;3,3\n3,4;1,0\n", ["line 1", "decimal comma"]),
    "decimal comma in one column": ("1;2\n3,5;4", ["line 2", "decimal comma"]),
    "decimal commas between spaces": ("1,5 2,5\n", ["line 1", "decimal comma"]),
    "ragged": ("1,2\n3\n", ["line 2", "1 column,", "have 2"]),
    "empty cell": ("1,,2\n", ["line 1", "empty cell"]),
    "underscore": ("1\n1_000\n", ["line 2", "1_000"]),
    "hexadecimal": ("1\n0x10\n", ["line 2", "0x10"]),
    "other digits": ("1\n\u0661\n", ["line 2"]),
    "only a header": ("w1,w2\n", ["no numbers"]),
    "two headers": ("a,b\nc,d\n1,2\n", ["line 2", "'c'"]),
    "a half header": ("w1,2\n3,4\n", ["line 1", "w1"]),
    "NUL": ("1\n\x00\n", ["not a csv"]),
    "only spaces": ("   \n  ", ["no numbers"]),
}


@pytest.mark.parametrize("what", list(BROKEN))
def test_broken_tables_name_the_line(what: str, tmp_path: Path) -> None:
    text, words = BROKEN[what]
    said = refusal(written(tmp_path, text, "g.csv"))
    assert all(word in said for word in words), said


def test_utf16_is_named(tmp_path: Path) -> None:
    assert "UTF-16" in refusal(written(tmp_path, "1\n2\n".encode("utf-16"), "g.csv"))


def test_long_lines_are_read_in_parts(tmp_path: Path) -> None:
    values = np.arange(400_000) / 3
    row = ",".join(map(repr, values.tolist()))
    assert len(row) > 4 << 20
    gradient = load_gradient(written(tmp_path, f"{row}\n{row}", "g.csv"))
    assert gradient.tensors[0].shape == (2, 400_000)
    assert gradient[""][1].tobytes() == values.tobytes()
    assert "is no number" in refusal(written(tmp_path, "1" * (9 << 20), "g.csv"))


@pytest.mark.parametrize(
    ("dtype", "text", "expected"),
    [
        ("float32", "0.1\n1e-45\n", np.float32([0.1, 1e-45])),
        ("int8", "-128\n127\n", np.int8([-128, 127])),
        ("int64", "-9223372036854775808\n9223372036854775807", np.array([-(2**63), 2**63 - 1], "<i8")),
        ("uint64", "18446744073709551615\n0", np.array([2**64 - 1, 0], "<u8")),
        ("bool", "1\n0\n", np.array([True, False])),
    ],
)
def test_the_type_that_was_asked_for(dtype: str, text: str, expected: np.ndarray, tmp_path: Path) -> None:
    gradient = load_gradient(written(tmp_path, text, "g.csv"), raw_dtype=dtype)
    assert gradient[""].dtype == expected.dtype
    assert gradient[""].tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("dtype", "text", "word"),
    [
        ("int8", "128", "do not fit"),
        ("int32", "1.5", "line 1"),
        ("uint64", "-1", "line 1"),
        ("int64", "1\n" * 29 + "9" * 30, "line 30"),
    ],
)
def test_numbers_that_do_not_fit_the_type(dtype: str, text: str, word: str, tmp_path: Path) -> None:
    assert word in refusal(written(tmp_path, text, "g.csv"), raw_dtype=dtype)


def test_overflow_to_infinity_is_said(tmp_path: Path) -> None:
    gradient = load_gradient(written(tmp_path, "1e39\n1", "g.csv"), raw_dtype="float32")
    assert np.isinf(gradient[""][0])
    assert any("1 numbers are beyond float32" in w for w in gradient.warnings)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=30))
def test_every_float64_survives_its_text(tmp_path_factory: pytest.TempPathFactory, words: list[int]) -> None:
    values = [struct.unpack("<d", struct.pack("<Q", w))[0] for w in words]
    values = [v for v in values if v == v] or [0.0]
    path = written(tmp_path_factory.mktemp("t"), "\n".join(map(repr, values)), "g.csv")
    assert load_gradient(path).to_bytes() == np.array(values, "<f8").tobytes()


def test_nearest_float64_as_python_reads_it(tmp_path: Path) -> None:
    cells = ["-15.361", "-15.361000", "8.5899e9", "9007199254740993", "5e-324", "1.7976931348623157e308", "1e400"]
    path = written(tmp_path, "\n".join(cells), "g.csv")
    assert load_gradient(path).to_bytes() == np.array([float(c) for c in cells]).tobytes()


@pytest.mark.parametrize("name", ["g.npy", "g.npz", "g.safetensors", "g.pt", "g.h5", "g.gguf"])
def test_text_under_another_formats_name_is_said(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("hello world\nthis is text\n")
    with pytest.raises(UnsupportedInput) as caught:
        load_gradient(path)
    kind = name.partition(".")[2]
    assert f"this is text, not a {kind} file as its name says; read as a table of numbers: line 2" in str(caught.value)
    path.write_text("1,2\n3,4\n")
    gradient = load_gradient(path)
    assert gradient[""].tolist() == [[1, 2], [3, 4]]
    assert gradient.warnings[0].startswith(f"this is text, not a {kind} file")


def test_a_said_type_and_a_text_ending_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("hello world\nthis is text\n")
    with pytest.raises(UnsupportedInput, match=r"table of numbers, also with --raw-dtype: line 2.*another ending"):
        load_gradient(path, raw_dtype="float32")
