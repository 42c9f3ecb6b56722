"""Serialization as a whole: exact for any bytes, any dtype and any settings that fit."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmgc_core.errors import CorruptContainer, InvalidSetting
from lmgc_core.gradient import DTYPES, DType, Words
from lmgc_core.punctuation import SEPARATORS
from lmgc_core.serialization import PieceSpec, PieceValues, Serializer, reference_of
from lmgc_core.settings import CHOICES, Serialization

FLOAT32 = DTYPES["float32"]

serializations = st.builds(
    Serialization,
    planes=st.sampled_from(CHOICES["planes"]),
    byte_order=st.sampled_from(CHOICES["byte_order"]),
    alphabet=st.sampled_from(CHOICES["alphabet"]),
    separator=st.sampled_from(CHOICES["separator"]),
    group_size=st.one_of(st.just("auto"), st.integers(0, 9)),
    line=st.one_of(st.just("auto"), st.integers(0, 7)),
)
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@st.composite
def pieces_of(draw: st.DrawFn, dtype: DType) -> list[PieceValues]:
    """Runs of up to 12 parameters of up to 3 tensors, with any bits and any reference."""
    pieces = []
    for shape in draw(st.lists(shapes, max_size=3)):
        n = int(np.prod(shape, dtype=int))
        first = draw(st.integers(0, n))
        count = draw(st.integers(0, min(n - first, 12)))
        data = draw(st.binary(min_size=count * dtype.item_bytes, max_size=count * dtype.item_bytes))
        words = np.frombuffer(data, dtype.word)
        any_reference = st.integers(0, (1 << dtype.exponent_bits) - 1)
        pieces.append(PieceValues(words, first, shape, draw(st.just(reference_of(words, dtype)) | any_reference)))
    return pieces


def make(dtype: DType, serialization: Serialization) -> Serializer | None:
    try:
        return Serializer(dtype, serialization)
    except InvalidSetting:
        return None


def as_bytes(parts: list[Words]) -> list[bytes]:
    return [part.tobytes() for part in parts]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), dtype=st.sampled_from(list(DTYPES.values())), serialization=serializations)
def test_every_accepted_setting_is_exact_and_its_spans_cover_the_text(
    data: st.DataObject, dtype: DType, serialization: Serialization
) -> None:
    serializer = make(dtype, serialization)
    if serializer is None:
        return
    pieces = data.draw(pieces_of(dtype))
    specs = [piece.spec for piece in pieces]
    written = serializer.write(pieces)
    n = sum(piece.n_parameters for piece in pieces)

    assert as_bytes(serializer.read(written.text, specs, written.remainder)) == [p.words.tobytes() for p in pieces]

    raw = written.text.encode("utf-8")
    assert written.n_parameters == n
    assert len(written.symbol_starts) == len(written.symbol_stops) == n * written.symbols_per_parameter
    assert (written.symbol_starts < written.symbol_stops).all()
    assert (written.symbol_stops[:-1] <= written.symbol_starts[1:]).all()
    if n:
        assert written.symbol_starts[0] == 0
        assert written.symbol_stops[-1] <= len(raw)
    allowed_gaps = {b"", b"\n", SEPARATORS[serialization.separator].encode()}
    starts, stops = [*written.symbol_starts.tolist(), len(raw)], [0, *written.symbol_stops.tolist()]
    assert {raw[stop:start] for start, stop in zip(starts, stops, strict=True)} <= allowed_gaps
    assert set(raw) <= serializer.alphabet_bytes

    assert written.remainder_bits == dtype.bits - written.symbols_per_parameter * serializer.layout.symbol_bits
    assert written.remainder.shape == written.context.shape == (n,)
    assert all(int(r) >> written.remainder_bits == 0 for r in written.remainder)

    reader, done = serializer.reader(specs), [0]
    for character in written.text:
        assert not reader.complete
        done.append(reader.feed(character))
    assert reader.complete
    assert done == sorted(done)
    assert reader.n_parameters == n
    np.testing.assert_array_equal(reader.context(), written.context)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(list(DTYPES.values())), serialization=serializations)
def test_a_changed_text_is_refused_or_reads_as_the_values_that_spell_it(
    data: st.DataObject, dtype: DType, serialization: Serialization
) -> None:
    """No silent repair: whatever is accepted is exactly what its values are written as."""
    serializer = make(dtype, serialization)
    if serializer is None:
        return
    pieces = data.draw(pieces_of(dtype))
    written = serializer.write(pieces)
    position = data.draw(st.integers(0, len(written.text)))
    cut = data.draw(st.integers(0, 2))
    put = data.draw(st.text("0123456789abcdefxABZ~-+. ,;:\nin\xe9", max_size=2))
    changed = written.text[:position] + put + written.text[position + cut :]
    try:
        words = serializer.read(changed, [piece.spec for piece in pieces], written.remainder)
    except CorruptContainer:
        return
    again = [PieceValues(w, p.first_parameter, p.shape, p.reference) for w, p in zip(words, pieces, strict=True)]
    assert serializer.write(again).text == changed


def test_worked_example() -> None:
    """1.0 is 3f800000 and -2.5 is c0200000: exponents 127 and 128, reference 128."""
    words = np.float32([1.0, -2.5]).view("<u4")
    piece = PieceValues(words, 0, (2,), reference_of(words, FLOAT32))
    expected = {
        ("all", "hex", "space"): "3f800000 c0200000",
        ("all", "hex", "none"): "3f800000c0200000",
        ("all", "decimal", "comma"): "63,128,0,0,192,32,0,0,",
        ("all", "float", "semicolon"): "1.0;-2.5;",
        ("high", "hex", "comma+space"): "3f80, c020",
        ("exponent", "hex", "0x"): "7f0x80",
        ("exponent", "iso", "none"): "\x7f\x80",
        ("exponent", "numbers", "space"): "2 1 ",
        ("head", "hex", "newline"): "07f\n180",
        ("head", "numbers", "space"): "2 -1 ",
        ("head", "letters", "none"): "bA",
    }
    for (planes, alphabet, separator), text in expected.items():
        serializer = Serializer(FLOAT32, Serialization(planes, "big", alphabet, separator))
        assert serializer.write([piece]).text == text
    little = Serializer(FLOAT32, Serialization("all", "little", "hex", "space", 4))
    assert little.write([piece]).text == "0000803f 000020c0"
    written = Serializer(FLOAT32, Serialization("head", "big", "numbers", "space")).write([piece])
    assert written.symbol_starts.tolist() == [0, 2]
    assert written.symbol_stops.tolist() == [1, 4]
    assert written.remainder.tolist() == [0, 0x200000]
    assert written.context.tolist() == [127, 128]


def test_spans_count_utf8_bytes() -> None:
    serializer = Serializer(DTYPES["uint8"], Serialization("all", "big", "iso", "none"))
    written = serializer.write([PieceValues(np.uint8([0x41, 0xE9, 0]), 0, (3,))])
    assert written.text == "A\xe9\x00"
    assert written.symbol_stops.tolist() == [1, 3, 4]


def test_groups_run_on_over_pieces_and_parameters() -> None:
    serializer = Serializer(FLOAT32, Serialization("all", "big", "hex", "space", 3))
    words = np.float32([1.0, 1.0]).view("<u4")
    text = serializer.write([PieceValues(words[:1], 4, (5,)), PieceValues(words[1:], 0, (1,))]).text
    assert text == "3f8000 003f80 0000"


def test_lines_follow_the_tensor_not_the_window() -> None:
    serializer = Serializer(FLOAT32, Serialization("head", "big", "letters", "none", 0, "auto"))
    words = np.full(7, np.float32(1.0).view("<u4"))
    piece = PieceValues(words, 2, (3, 3), 127)
    assert serializer.write([piece]).text == "a\naaa\naaa"
    small = PieceValues(words[:2], 0, (2,), 127)
    assert serializer.write([piece, small]).text == "a\naaa\naaa\naa"


def test_a_newline_stands_instead_of_a_separator_and_closes_varying_spellings() -> None:
    serializer = Serializer(FLOAT32, Serialization("head", "big", "numbers", "space", "auto", 2))
    words = np.float32([1, 1, 1, 1]).view("<u4")
    assert serializer.write([PieceValues(words, 0, (4,), 127)]).text == "1 1\n1 1\n"


def test_nothing_is_written_for_no_values() -> None:
    written = Serializer(FLOAT32, Serialization()).write([])
    assert (written.text, written.n_parameters, len(written.symbol_starts)) == ("", 0, 0)
    assert Serializer(FLOAT32, Serialization()).read("", [], written.remainder) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("0a 1", "too early"),
        ("0a 1f ", "behind the last"),
        ("0a,1f", "' ' expected"),
        ("0A 1f", "spells no symbol"),
        ("0a  1f", "spells no symbol"),
        ("", "too early"),
    ],
)
def test_what_is_wrong_with_a_text_is_said(text: str, what: str) -> None:
    serializer = Serializer(DTYPES["uint8"], Serialization())
    specs = [PieceValues(np.uint8([10, 31]), 0, (2,)).spec]
    with pytest.raises(CorruptContainer, match=what):
        serializer.read(text, specs, np.zeros(2, np.uint64))


def test_a_boundary_that_does_not_come_is_noticed_before_the_text_ends() -> None:
    serializer = Serializer(FLOAT32, Serialization("head", alphabet="numbers"))
    reader = serializer.reader([PieceSpec(1000, 0, (1000,))])
    assert reader.feed("1111") == 0
    with pytest.raises(CorruptContainer, match="' ' missing in '1111"):
        reader.feed("1111")


@pytest.mark.parametrize(
    ("dtype", "serialization", "what"),
    [
        ("float32", Serialization("head", alphabet="iso"), "alphabet iso .* 9"),
        ("float64", Serialization("exponent", alphabet="iso"), "alphabet iso .* 11"),
        ("float32", Serialization("all", alphabet="letters"), "alphabet letters needs planes exponent or head"),
        ("float32", Serialization("all", alphabet="numbers"), "alphabet numbers needs planes exponent or head"),
        ("int32", Serialization("all", alphabet="numbers"), "int32 has none"),
        ("int8", Serialization("head", alphabet="letters"), "hex, iso, decimal or numbers"),
        ("float32", Serialization("head", alphabet="float"), "choose planes all"),
        ("int32", Serialization("head"), "planes head .* all or high"),
        ("int16", Serialization("exponent"), "planes exponent needs floats"),
        ("uint8", Serialization("high"), "planes high needs values of 2 bytes"),
        ("float32", Serialization(alphabet="decimal", separator="none"), "separator none"),
        ("float32", Serialization(alphabet="decimal", group_size=4), "group size 4"),
        ("float32", Serialization(alphabet="float", group_size=0), "group size 0"),
    ],
)
def test_settings_that_do_not_fit_are_refused_and_name_the_tensor(
    dtype: str, serialization: Serialization, what: str
) -> None:
    with pytest.raises(InvalidSetting, match=what) as caught:
        Serializer(DTYPES[dtype], serialization, "layer.weight")
    assert str(caught.value).startswith("tensor 'layer.weight': ")
    assert "\n" not in str(caught.value)


def test_every_preset_fits_every_dtype() -> None:
    from lmgc_core.settings import preset_serialization

    for dtype in DTYPES.values():
        for name in ("paper", "lean", "best"):
            Serializer(dtype, preset_serialization(name, dtype))


def test_the_documentation_is_right() -> None:
    page = Path(__file__).parent.parent / "docs" / "serialization.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 15
    assert result.failed == 0
