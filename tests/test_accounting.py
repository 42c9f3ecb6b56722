"""Bits of tokens carried back to symbols, separators and parameters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmgc_core.accounting import spread, token_spans
from lmgc_core.errors import NotReversible
from lmgc_core.gradient import DTYPES
from lmgc_core.serialization import PieceValues, SerializedText, Serializer
from lmgc_core.settings import Serialization

WORDS = np.float32([1.0, -2.0, 0.0, 3.5]).view("<u4")


def hex_text() -> SerializedText:
    """Two-byte groups of two values: "3f80 0000 c000 0000"."""
    serializer = Serializer(DTYPES["float32"], Serialization(group_size=2))
    return serializer.write([PieceValues(WORDS[:2], 0, (2,))])


def test_worked_example() -> None:
    text = hex_text()
    assert text.text == "3f80 0000 c000 0000"
    # Tokens "3f8" | "0 0" | "000 c000 0000": 3 bits, 6 bits, 13 bits over 3, 3 and 13 bytes.
    found = spread(np.array([3.0, 6.0, 13.0]), np.array([3, 3, 13]), text)
    # "3f" 2 bits; "80": 1 + 2; the space 2; "00": 2 + 1; "00": 2; the space 1; then a bit a byte.
    np.testing.assert_allclose(found.symbol_bits, [[2, 3, 3, 2], [2, 2, 2, 2]])
    np.testing.assert_allclose(found.separator_bits, [2 + 1, 1])
    np.testing.assert_allclose(found.parameter_bits, [13, 9])
    spans = token_spans(np.array([3, 3, 13]), text)
    assert spans.first.tolist() == [0, 0, 0]
    assert spans.last.tolist() == [0, 0, 1]


def test_pure_separators_and_tokens_without_text() -> None:
    text = hex_text()
    sizes = np.array([0, 4, 1, 4, 1, 4, 1, 4])
    spans = token_spans(sizes, text)
    assert spans.first.tolist() == [-1, 0, -1, 0, -1, 1, -1, 1]
    assert spans.last.tolist() == [-1, 0, -1, 0, -1, 1, -1, 1]
    assert spans.owner.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    found = spread(np.array([8.0, 4, 0, 0, 0, 0, 0, 0]), sizes, text)
    np.testing.assert_allclose(found.symbol_bits, [[6, 6, 0, 0], [0, 0, 0, 0]])
    last = spread(np.array([0.0] * 8 + [5.0]), np.array([0, 4, 1, 4, 1, 4, 1, 4, 0]), text)
    assert last.parameter_bits.tolist() == pytest.approx([0, 5])


def test_refuses_tokens_that_are_not_the_text() -> None:
    with pytest.raises(NotReversible, match="18"):
        spread(np.array([1.0]), np.array([18]), hex_text())


ALPHABETS = [
    Serialization(),
    Serialization(alphabet="iso", separator="none"),
    Serialization(planes="head", alphabet="numbers"),
    Serialization(planes="head", alphabet="letters", separator="none", group_size=0),
    Serialization(alphabet="float", separator="semicolon", line=3),
]


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20), st.sampled_from(ALPHABETS), st.data())
def test_parts_add_up(words: list[int], settings: Serialization, data: st.DataObject) -> None:
    text = Serializer(DTYPES["float32"], settings).write([PieceValues(np.array(words, "<u4"), 0, (len(words),), 120)])
    length = len(text.text.encode())
    cuts = sorted(data.draw(st.sets(st.integers(1, max(length - 1, 1)), max_size=length - 1)))
    sizes = np.diff([0, *cuts, length]) if cuts and cuts[-1] < length else np.array([length])
    bits = np.array(data.draw(st.lists(st.floats(0, 40), min_size=len(sizes), max_size=len(sizes))))
    found = spread(bits, sizes, text)
    assert found.symbol_bits.shape == (len(words), text.symbols_per_parameter)
    assert found.parameter_bits.sum() == pytest.approx(bits.sum())
    assert (found.symbol_bits >= -1e-9).all()
    assert (found.separator_bits >= -1e-9).all()
    spans = token_spans(sizes, text)
    real = spans.first >= 0
    assert (spans.first[real] <= spans.last[real]).all()
    assert (np.diff(spans.owner) >= 0).all()
