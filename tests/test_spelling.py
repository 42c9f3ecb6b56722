"""Spelling and punctuation: each symbol has one text, each text one symbol."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmgc_core.errors import CorruptContainer
from lmgc_core.float_text import MAX_CHARACTERS, float_to_text, is_finite, text_to_float
from lmgc_core.gradient import DTYPES, DType
from lmgc_core.layout import layout_of
from lmgc_core.punctuation import line_parameters, punctuation_of
from lmgc_core.serialization import PieceSpec
from lmgc_core.settings import Serialization
from lmgc_core.spelling import Spelling, reference_of, spelling_of

FLOATS = [d for d in DTYPES.values() if d.kind == "float"]
TABLES = [
    (dtype, planes, alphabet)
    for dtype in DTYPES.values()
    for planes in ("all", "exponent", "head")
    for alphabet in ("hex", "iso", "decimal", "letters", "numbers")
    if (dtype.kind == "float" or (planes == "head" and dtype.item_bytes == 1))
    and not (alphabet in ("letters", "numbers") and planes == "all")
    and not (alphabet == "letters" and dtype.kind != "float")
]


def spelling(dtype: DType, planes: str, alphabet: str) -> Spelling | None:
    layout = layout_of(dtype, Serialization(planes, alphabet=alphabet))
    if alphabet == "iso" and layout.symbol_bits > 8:
        return None
    return spelling_of(layout, planes, alphabet)


@pytest.mark.parametrize(("dtype", "planes", "alphabet"), TABLES, ids=lambda v: getattr(v, "name", v))
def test_a_table_has_each_symbol_once_under_any_reference(dtype: DType, planes: str, alphabet: str) -> None:
    one = spelling(dtype, planes, alphabet)
    if one is None:
        return
    for reference in {0, 1, (1 << dtype.exponent_bits) // 2, (1 << dtype.exponent_bits) - 1}:
        symbols = np.arange(1 << one.width, dtype=np.uint64)
        texts, n_bytes = one.spell(symbols, reference)
        assert len(set(texts)) == len(texts)
        assert max(map(len, texts)) <= one.max_characters
        assert {c for text in texts for c in text} <= one.characters
        assert n_bytes.tolist() == [len(text.encode("utf-8")) for text in texts]
        for symbol, text in enumerate(texts):
            assert one.symbol_of(text, reference) == symbol
            if not one.varies:
                assert one.length_at(text + "a", 0) == len(text)


def test_heads_as_numbers_and_letters() -> None:
    """Reference 127 (1.0): 1.0, -1.0, 0.5, 0.0, -0.0, 2.0, inf, the smallest normal, in float32."""
    words = np.float32([1.0, -1.0, 0.5, 0.0, -0.0, 2.0, np.inf, 2.0**-126]).view("<u4")
    symbols = layout_of(DTYPES["float32"], Serialization("head")).split(words)[0][:, 0]
    numbers, _ = spelling_of(layout_of(DTYPES["float32"], Serialization("head")), "head", "numbers").spell(symbols, 127)
    letters, _ = spelling_of(layout_of(DTYPES["float32"], Serialization("head")), "head", "letters").spell(symbols, 127)
    assert numbers == ["1", "-1", "2", "0", "-0", "256", "129", "127"]
    assert letters == ["a", "A", "b", "0", "1", "~080", "~0ff", "~001"]


def test_exponents_as_letters_use_both_cases() -> None:
    one = spelling_of(layout_of(DTYPES["float32"], Serialization("exponent")), "exponent", "letters")
    assert one.spell(np.uint64([127, 102, 101, 76, 75, 0]), 127)[0] == ["a", "z", "A", "Z", "~4b", "0"]


def test_bytes_as_numbers_are_the_values() -> None:
    for name, expected in (("int8", ["0", "127", "-128", "-1"]), ("uint8", ["0", "127", "128", "255"])):
        one = spelling_of(layout_of(DTYPES[name], Serialization("head")), "head", "numbers")
        assert one.spell(np.uint64([0, 127, 128, 255]), 0)[0] == expected


@pytest.mark.parametrize("text", ["01", "+1", "-", "", " 1", "1 ", "512", "257", "1.0", "٣", "1_0"])
def test_numbers_have_one_form(text: str) -> None:
    one = spelling_of(layout_of(DTYPES["float32"], Serialization("head")), "head", "numbers")
    with pytest.raises(CorruptContainer, match="spells no symbol"):
        one.symbol_of(text, 127)


def test_the_reference_is_the_largest_finite_exponent() -> None:
    def of(values: list[float], name: str) -> int:
        words = np.array(values, DTYPES[name].numpy).view(DTYPES[name].word)
        return reference_of(words, DTYPES[name])

    assert of([0.25, -8.0, math.nan, math.inf], "float32") == 130
    assert of([math.nan, 0.0], "float32") == 0
    assert of([], "float32") == 0
    assert of([448.0, math.nan], "float8_e4m3fn") == 15
    assert of([5.0], "int8") == 0


# ------------------------------------------------------------------ the float spelling


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.bits <= 16], ids=lambda d: d.name)
def test_every_pattern_of_a_small_float_comes_back(dtype: DType) -> None:
    texts = set()
    for word in range(1 << dtype.bits):
        text = float_to_text(word, dtype)
        texts.add(text)
        assert text_to_float(text, dtype) == word
    assert len(texts) == 1 << dtype.bits


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.bits <= 16], ids=lambda d: d.name)
def test_texts_are_the_values_that_numpy_sees(dtype: DType) -> None:
    """An independent reading: the text's double lies nearer to this value than to its neighbours."""
    words = np.arange(1 << dtype.bits).astype(dtype.word)
    with np.errstate(invalid="ignore"):
        values = words.view(dtype.numpy).astype(np.float64)
    np.testing.assert_array_equal(np.isfinite(values), is_finite(words, dtype))
    np.testing.assert_array_equal(np.isnan(values), [float_to_text(int(w), dtype).startswith("nan") for w in words])
    finite = is_finite(words, dtype)
    read = np.array([float(float_to_text(int(w), dtype)) for w in words[finite]])
    levels = np.unique(values[finite])
    place = np.searchsorted(levels, values[finite])
    half_below = np.concatenate([[np.inf], np.diff(levels) / 2])[place]
    half_above = np.concatenate([np.diff(levels) / 2, [np.inf]])[place]
    assert (np.where(read < values[finite], values[finite] - read, 0) <= half_below).all()
    assert (np.where(read > values[finite], read - values[finite], 0) <= half_above).all()


def test_half_precision_texts_are_never_longer_than_numpys() -> None:
    for word in range(0, 1 << 16, 7):
        value = np.uint16(word).view(np.float16)
        if np.isfinite(value):
            digits = float_to_text(word, DTYPES["float16"]).replace("-", "").replace(".", "").strip("0").split("e")[0]
            other = np.format_float_scientific(value, unique=True, trim="-").split("e")[0]
            assert len(digits.rstrip("0")) <= max(1, len(other.replace("-", "").replace(".", "")))


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**64 - 1))
@example(0x0010000000000000)
@example(0x000FFFFFFFFFFFFF)
@example(1)
@example(0x7FEFFFFFFFFFFFFF)
@example(0x4340000000000000)
@example(0x3F50624DD2F1A9FC)
def test_float64_is_spelled_as_repr_does(word: int) -> None:
    value = struct.unpack("<d", struct.pack("<Q", word))[0]
    text = float_to_text(word, DTYPES["float64"])
    if not math.isnan(value):
        assert text == repr(value)
    assert text_to_float(text, DTYPES["float64"]) == word
    assert len(text) <= MAX_CHARACTERS


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_float32_comes_back(word: int) -> None:
    text = float_to_text(word, DTYPES["float32"])
    assert text_to_float(text, DTYPES["float32"]) == word
    value = np.uint32(word).view(np.float32)
    if np.isfinite(value):
        assert np.float32(text) == value


@pytest.mark.parametrize(
    ("name", "word", "text"),
    [
        ("float32", 0x80000000, "-0.0"),
        ("float32", 0x00000001, "1e-45"),
        ("float32", 0x7F7FFFFF, "3.4028235e+38"),
        ("float32", 0xFF800000, "-inf"),
        ("float32", 0x7FC00001, "nan:7fc00001"),
        ("float32", 0xFF800001, "nan:ff800001"),
        ("float32", 0x4E000004, "536871200.0"),  # 536871168: the shorter one is a tie, and ties go to even
        ("float32", 0x3A83126F, "0.001"),
        ("float32", 0x38D1B717, "0.0001"),
        ("float32", 0x3727C5AC, "1e-05"),
        ("bfloat16", 0x3DCD, "0.1"),
        ("float8_e4m3fn", 0x7E, "450.0"),
        ("float8_e4m3fnuz", 0x80, "nan:80"),
        ("float8_e8m0fnu", 0x80, "2.0"),
        ("float16", 0x7BFF, "65500.0"),
    ],
)
def test_float_spellings_worked_by_hand(name: str, word: int, text: str) -> None:
    assert float_to_text(word, DTYPES[name]) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.",
        ".5",
        "1.00",
        "01.0",
        "+1.0",
        "1e0",
        "1.0e+00",
        "0.10",
        "0.1000000001",
        "3.5e+38",
        "1e+99",
        "1e-5",
        "1e-99999",
        "--0.0",
        "1.0\n",
        "٣.0",
        "9999999999999999999999999999999999999999.0",
        "infinity",
        "-inf ",
        "nan",
        "-nan:7fc00000",
        "nan:7F800001",
        "nan:3f800000",
    ],
)
def test_any_other_text_of_a_float_is_refused(text: str) -> None:
    with pytest.raises(CorruptContainer, match="is not how"):
        text_to_float(text, DTYPES["float32"])


# ------------------------------------------------------------------ punctuation


@pytest.mark.parametrize(
    ("line", "shape", "expected"),
    [
        (0, (8, 3, 3, 3), 0),
        (5, (8,), 5),
        ("auto", (), 0),
        ("auto", (8,), 0),
        ("auto", (4, 8), 8),
        ("auto", (2, 4, 8), 8),
        ("auto", (16, 8, 3, 3), 9),
        ("auto", (2, 2, 8, 3, 5), 15),
        ("auto", (16, 8, 1, 1), 8),
        ("auto", (16, 1), 0),
        ("auto", (16, 1, 3, 3), 9),
        ("auto", (0, 5), 5),
        ("auto", (5, 0), 0),
    ],
)
def test_lines_by_shape(line: int | str, shape: tuple[int, ...], expected: int) -> None:
    assert line_parameters(line, shape) == expected  # type: ignore[arg-type]


def test_boundaries_counted_by_hand() -> None:
    """Groups of 3 over 4 bytes a value and a newline after the tensor's values 1, 3, 5 ..."""
    punctuation = punctuation_of(Serialization(separator="comma", group_size=3, line=2), 4, varies=False)
    kinds = punctuation.boundaries([PieceSpec(3, 1, (9,))])
    assert "".join(".,n"[kind] for kind in kinds) == "..,n.,..,..."
    closed = punctuation_of(Serialization(separator="comma"), 4, varies=True)
    assert closed.boundaries([PieceSpec(2, 0, (9,))]).tolist() == [1] * 8
