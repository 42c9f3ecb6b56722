"""The container: round trips, small overhead, and refusal of everything that it would not have written."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.archive_header import (
    ALPHABETS,
    BYTE_ORDERS,
    DTYPE_CODES,
    PLANES,
    PRESETS,
    PRIORS,
    SEPARATORS,
    SUPPORTS,
    Header,
    longest_stated,
    read_header,
    tensor_fields,
    write_header,
)
from lmgc_core.archive_plan import CutRecorder, count_segments, in_segments, planned_windows
from lmgc_core.blocks import cut_windows, plan_blocks
from lmgc_core.byte_fields import FieldReader, FieldWriter
from lmgc_core.container import MAGIC, StoredSegment, read_container, write_container
from lmgc_core.errors import CorruptContainer, IncompatibleContainer, LmgcError, TruncatedContainer
from lmgc_core.gradient import DTYPES, TensorSpec
from lmgc_core.settings import CHOICES, Serialization

NUMBERS = Serialization("head", "big", "numbers", "space", "auto", 0)


def header_of(specs: tuple[TensorSpec, ...], **changes: object) -> Header:
    """A header for whole blocks of these tensors."""
    n_blocks = len(plan_blocks(specs))
    found = Header(
        model="smollm2-135m",
        source="",
        model_fingerprint=bytes(range(8)),
        tokenizer_fingerprint=bytes(range(4)),
        context_window=1024,
        longest_window=longest_stated(890),
        memory_megabytes=2399,
        segment=16,
        support="alphabet",
        prior="llm",
        preset="best",
        guard_exponent=30,
        transform="none",
        seed=0,
        serializations={s.dtype.name: NUMBERS for s in specs},
        specs=specs,
        coded_specs=specs,
        references=tuple(120 for s in specs if s.n_parameters),
        cuts=((n_blocks, 0b10),) if n_blocks else (),
        side=b"",
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def stored(header: Header, n_bytes: int = 40) -> bytes:
    """An archive with segments of noise."""
    generator = np.random.default_rng(0)
    segments = [
        StoredSegment(generator.bytes(i % 3), generator.bytes(n_bytes), int(generator.integers(1 << 32)))
        for i in range(count_segments(header))
    ]
    return write_container(header, segments)


FLOAT32 = DTYPES["float32"]
SMALL = header_of((TensorSpec("w", FLOAT32, (30, 16)), TensorSpec("b", FLOAT32, (5,))))


def test_codes_name_every_choice_that_there_is() -> None:
    """A choice without a code could not be written; codes are only appended to, so their order is frozen here."""
    for name, codes in {
        "planes": PLANES, "byte_order": BYTE_ORDERS, "alphabet": ALPHABETS, "separator": SEPARATORS,
        "support": SUPPORTS, "prior": PRIORS, "preset": PRESETS,
    }.items():  # fmt: skip
        assert set(codes) == set(CHOICES[name]), name
    assert set(DTYPE_CODES) == set(DTYPES)
    frozen = (PLANES, BYTE_ORDERS, ALPHABETS, SEPARATORS, SUPPORTS, PRIORS, PRESETS, DTYPE_CODES)
    assert hashlib.sha256(repr(frozen).encode()).hexdigest()[:16] == "6c23c8c80a4e344e"


def test_a_container_comes_back() -> None:
    header = header_of((TensorSpec("w", FLOAT32, (9000, 3)),), model="a/b", source="Hub: a/b", segment=7)
    data = stored(header)
    found = read_container(data, count_segments)
    assert found.header == header
    assert write_container(found.header, found.segments) == data
    assert found.header_bytes + found.payload_bytes + found.exceptions_bytes == len(data)


def test_overhead_of_a_hundred_kilobytes_is_a_thousandth() -> None:
    specs = (TensorSpec("f.4.weight", FLOAT32, (25_600,)),)
    header = header_of(specs)
    found = read_container(stored(header, 22_000), count_segments)
    assert len(found.segments) == 4
    assert found.header_bytes - len(tensor_fields(specs)) <= 102


@pytest.mark.parametrize("data", [stored(SMALL), stored(header_of(()))], ids=["small", "empty"])
def test_every_prefix_flip_and_tail_is_refused(data: bytes) -> None:
    for n in range(len(data)):
        with pytest.raises(LmgcError):
            read_container(data[:n], count_segments)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(LmgcError):
            read_container(bytes(flipped), count_segments)
    for tail in (b"\0", b"\n", data):
        with pytest.raises(LmgcError):
            read_container(data + tail, count_segments)


def test_cuts_are_called_so_and_strangers_too() -> None:
    data = stored(SMALL)
    with pytest.raises(TruncatedContainer):
        read_container(data[:-40], count_segments)
    with pytest.raises(TruncatedContainer):
        read_container(b"", count_segments)
    with pytest.raises(CorruptContainer, match=r"not an \.lmgc archive"):
        read_container(b"PK\x03\x04 some other file", count_segments)


def test_a_newer_format_is_named() -> None:
    data = bytearray(stored(SMALL))
    data[len(MAGIC)] = 2
    with pytest.raises(IncompatibleContainer, match="format 2"):
        read_container(resealed(bytes(data)), count_segments)


def resealed(data: bytes) -> bytes:
    """The same with its SHA-256 made right again."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


def test_mixed_parts_are_refused() -> None:
    one, other = stored(SMALL), stored(replace(SMALL, seed=5))
    assert len(one) == len(other)
    for middle in range(8, len(one), 13):
        if one[:middle] + other[middle:] not in (one, other):
            with pytest.raises(LmgcError):
                read_container(one[:middle] + other[middle:], count_segments)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"cuts": ((2, 0b10), (1, 0b10))}, CorruptContainer),
        ({"cuts": ((1, 0b10),)}, CorruptContainer),
        ({"cuts": ((1 << 40, 0b10),)}, CorruptContainer),
        ({"cuts": ((2, 0),)}, CorruptContainer),
        ({"context_window": 1}, CorruptContainer),
        ({"longest_window": 1 << 20}, CorruptContainer),
        ({"segment": 0}, CorruptContainer),
        ({"guard_exponent": 3}, CorruptContainer),
        ({"references": (300, 120)}, CorruptContainer),
        ({"specs": (TensorSpec("w", FLOAT32, (30, 16)),) * 2}, LmgcError),
        ({"specs": (TensorSpec("w", FLOAT32, (1 << 47, 3)), TensorSpec("b", FLOAT32, (5,)))}, LmgcError),
        ({"specs": (TensorSpec("w", FLOAT32, (1 << 40,)), TensorSpec("b", FLOAT32, (5,)))}, LmgcError),
    ],
)
def test_headers_that_lie_are_refused(changes: dict[str, object], what: type[LmgcError]) -> None:
    """Sealed as they are, so that only the parser stands in the way."""
    if "specs" in changes:
        changes |= {"coded_specs": changes["specs"]}
    lie = replace(SMALL, **changes)  # type: ignore[arg-type]
    with pytest.raises(what):
        read_container(write_container(lie, [StoredSegment(b"", b"abc", 1)]), count_segments)


def test_a_header_that_inflates_to_more_than_it_says_is_refused() -> None:
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = packed.compress(bytes(50_000_000)) + packed.flush()
    out = FieldWriter()
    out.fixed(MAGIC)
    out.number(1)
    out.number(60_000 << 1 | 1)
    out.block(bomb)
    with pytest.raises(CorruptContainer):
        read_container(resealed(bytes(out.data) + bytes(32)), count_segments)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=8), st.sampled_from(sorted(DTYPES)), st.lists(st.integers(0, 40), max_size=4))),
    st.sampled_from([Serialization(), Serialization("all", "little", "hex", "0x", 3, "auto"), Serialization(line=9)]),
)
def test_headers_come_back(tensors: list[tuple[str, str, list[int]]], serialization: Serialization) -> None:
    specs = tuple(TensorSpec(n, DTYPES[d], tuple(s)) for n, (_, d, s) in {t[0]: t for t in tensors}.items())
    chosen = {s.dtype.name: serialization for s in specs}
    header = header_of(specs, serializations=chosen, references=())
    assert read_header(write_header(header)) == header
    assert count_segments(header) == len(list(in_segments(planned_windows(header), header.segment)))


@given(st.lists(st.integers(1, 432), min_size=1, max_size=6), st.integers(1, 300))
@settings(max_examples=40, deadline=None)
def test_recorded_cuts_plan_the_same_windows(sizes: list[int], most: int) -> None:
    specs = tuple(TensorSpec(str(i), FLOAT32, (n,)) for i, n in enumerate(sizes))
    plan, recorder, windows = plan_blocks(specs), CutRecorder(), []
    for block in plan:
        made = cut_windows(block, lambda pieces: sum(p.last - p.first for p in pieces) <= most)
        recorder.add(block, made)
        windows += made
    header = header_of(specs, cuts=recorder.cuts, segment=3)
    assert [w.pieces for w in planned_windows(header)] == windows
    assert count_segments(header) == -(-len(windows) // 3)


def test_trees_that_do_not_fit_are_refused() -> None:
    for tree in (0b1, 0b11, 0b100, 0b1101, 0b1 << 900 | (1 << 900) - 1):
        with pytest.raises(CorruptContainer):
            list(planned_windows(header_of((TensorSpec("w", FLOAT32, (400,)),), cuts=((1, tree),))))


@given(st.integers(0, (1 << 63) - 1))
def test_numbers_come_back(value: int) -> None:
    out = FieldWriter()
    out.number(value)
    fields = FieldReader(bytes(out.data))
    assert fields.number() == value
    fields.finish()


@pytest.mark.parametrize("data", [b"\x80\x00", b"\xff" * 12, b"\x80", b""])
def test_numbers_spelled_otherwise_are_refused(data: bytes) -> None:
    with pytest.raises((CorruptContainer, TruncatedContainer)):
        FieldReader(data).number()
