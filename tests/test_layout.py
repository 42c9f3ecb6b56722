"""Layout: symbols and remainder together are the value, in every plane of every dtype."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import DTYPES, DType
from lmgc_core.layout import layout_of
from lmgc_core.settings import CHOICES, Serialization


def fits(dtype: DType, planes: str) -> bool:
    if planes == "high":
        return dtype.item_bytes >= 2
    if planes == "exponent":
        return dtype.kind == "float"
    return planes == "all" or dtype.kind == "float" or dtype.item_bytes == 1


@pytest.mark.parametrize("planes", CHOICES["planes"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda d: d.name)
def test_planes_exist_where_the_table_says(dtype: DType, planes: str) -> None:
    if fits(dtype, planes):
        layout = layout_of(dtype, Serialization(planes))
        assert layout.symbols_per_parameter * layout.symbol_bits + layout.remainder_bits == dtype.bits
    else:
        with pytest.raises(InvalidSetting, match=f"planes {planes} needs .*{dtype.name}; choose all"):
            layout_of(dtype, Serialization(planes))


@settings(max_examples=200, deadline=None)
@given(
    data=st.binary(max_size=64),
    dtype=st.sampled_from(list(DTYPES.values())),
    planes=st.sampled_from(CHOICES["planes"]),
    byte_order=st.sampled_from(CHOICES["byte_order"]),
    alphabet=st.sampled_from(["hex", "float"]),
)
def test_join_undoes_split(data: bytes, dtype: DType, planes: str, byte_order: str, alphabet: str) -> None:
    if not fits(dtype, planes):
        return
    words = np.frombuffer(data[: len(data) // dtype.item_bytes * dtype.item_bytes], dtype.word)
    layout = layout_of(dtype, Serialization(planes, byte_order, alphabet))
    symbols, remainder = layout.split(words)
    assert symbols.shape == (len(words), layout.symbols_per_parameter)
    assert all(int(s) >> layout.symbol_bits == 0 for s in symbols.reshape(-1))
    assert all(int(r) >> layout.remainder_bits == 0 for r in remainder)
    back = layout.join(symbols, remainder)
    assert back.dtype == dtype.word
    assert back.tobytes() == words.tobytes()


# 0xC0490FDB is -pi as float32: 1 | 10000000 | 1001001 00001111 11011011.
@pytest.mark.parametrize(
    ("planes", "byte_order", "symbols", "remainder", "context"),
    [
        ("all", "big", [0xC0, 0x49, 0x0F, 0xDB], 0, 0),
        ("all", "little", [0xDB, 0x0F, 0x49, 0xC0], 0, 0),
        ("high", "big", [0xC0, 0x49], 0x0FDB, 128),
        ("high", "little", [0x49, 0xC0], 0x0FDB, 128),
        ("exponent", "big", [0x80], 0xC90FDB, 128),
        ("head", "big", [0x180], 0x490FDB, 128),
    ],
)
def test_worked_example(planes: str, byte_order: str, symbols: list[int], remainder: int, context: int) -> None:
    layout = layout_of(DTYPES["float32"], Serialization(planes, byte_order))
    got, left = layout.split(np.array([0xC0490FDB], "<u4"))
    assert got.tolist() == [symbols]
    assert left.tolist() == [remainder]
    assert layout.context(got).tolist() == [context]


def test_the_context_of_wide_integers_is_the_length_of_their_top() -> None:
    layout = layout_of(DTYPES["int32"], Serialization("high"))
    symbols, remainder = layout.split(np.array([5, 1 << 16, 3 << 17, -1], "<i4").view("<u4"))
    assert layout.context(symbols).tolist() == [0, 1, 3, 16]
    assert remainder.tolist() == [5, 0, 0, 0xFFFF]


def test_the_float_alphabet_sees_whole_values() -> None:
    layout = layout_of(DTYPES["float64"], Serialization("all", "big", "float"))
    assert (layout.symbols_per_parameter, layout.symbol_bits, layout.remainder_bits) == (1, 64, 0)
