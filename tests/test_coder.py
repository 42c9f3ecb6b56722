"""The range coder: exact frequencies, golden words, stated overhead, damage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmgc_core.coder import OVERHEAD_BITS, TOTAL, TOTAL_BITS, Decoder, Encoder, raw_chunks
from lmgc_core.errors import CorruptContainer, LmgcError


def frequencies(generator: np.random.Generator, n: int) -> np.ndarray:
    """n frequencies of 1 or more that add up to 2^24, from flat to very peaked."""
    weights = generator.random(n) ** generator.choice([0.5, 4.0, 40.0])
    found = 1 + np.floor(weights / weights.sum() * (TOTAL - n)).astype(np.int64)
    found[generator.integers(n)] += TOTAL - found.sum()
    return found


@pytest.mark.parametrize("n", [2, 3, 86, 257, 15_492, 49_152, 262_144])
def test_the_library_uses_exactly_the_given_boundaries(n: int) -> None:
    """Coding by the whole table and by the bare interval gives the same words, at both ends of every interval tried."""
    generator = np.random.default_rng(n)
    f = frequencies(generator, n)
    starts = np.cumsum(f) - f
    choices = [0, n - 1, int(f.argmax()), int(f.argmin()), *generator.integers(0, n, 20).tolist()]
    encoder = Encoder()
    for choice in choices:
        encoder.interval(int(starts[choice]), int(f[choice]))
    decoder = Decoder(encoder.to_bytes())
    assert [decoder.symbol((f - 1).astype(np.float64)) for _ in choices] == choices


def test_each_point_of_the_range_belongs_to_its_interval() -> None:
    """A first word that begins with the 24 bits of a point decodes to the interval holding that point."""
    f = np.array([1, 5, 1, 2**23, 70_000, 1, 2**24 - 2**23 - 70_008], np.int64)
    stops = np.cumsum(f)
    for point in sorted({0, *(stops - 1).tolist(), *stops[:-1].tolist()}):
        payload = (point << 8).to_bytes(4, "big")
        assert Decoder(payload).symbol((f - 1).astype(np.float64)) == int(np.searchsorted(stops, point, "right"))


def test_golden_words() -> None:
    """The words of a fixed message; another version of the library that gives others would not read old archives."""
    encoder = Encoder()
    for start, frequency in [(0, 1), (TOTAL - 1, 1), (4_000_000, 12_000_000), (0, TOTAL - 1), (77, 1_000)]:
        encoder.interval(start, frequency)
    for bit, frequency in [(1, 1), (0, 65_535), (1, 32_768), (0, 40_000)]:
        encoder.decision(bit, frequency)
    encoder.raw(np.uint64([0x7FFFFF, 0, 0x123456]), 23)
    assert encoder.to_bytes().hex() == GOLDEN


GOLDEN = "000000fffeff3d0cc5071c5cef84dd17dda72ae3814fe4"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(2, 40))
def test_mixed_messages_come_back_within_the_stated_overhead(seed: int, length: int, n: int) -> None:
    generator = np.random.default_rng(seed)
    encoder, bits, message = Encoder(), 0.0, []
    for _ in range(length):
        kind = int(generator.integers(3))
        if kind == 0:
            f = frequencies(generator, n)
            choice = int(generator.choice(n, p=f / f.sum()))
            encoder.interval(int(f[:choice].sum()), int(f[choice]))
            bits += TOTAL_BITS - np.log2(f[choice])
            message.append(("symbol", f, choice))
        elif kind == 1:
            frequency = int(generator.integers(1, 1 << 16))
            bit = int(generator.integers(2))
            encoder.decision(bit, frequency)
            bits += 16 - np.log2(frequency if bit else (1 << 16) - frequency)
            message.append(("decision", frequency, bit))
        else:
            width = int(generator.integers(0, 65))
            values = generator.integers(0, 1 << 63, 3, dtype=np.uint64) >> np.uint64(max(0, 63 - width))
            encoder.raw(values, width)
            bits += 3 * width
            message.append(("raw", width, values))
    payload = encoder.to_bytes()
    assert 8 * len(payload) <= bits + OVERHEAD_BITS + 0.01 * length + 1
    assert not payload.endswith(b"\0")
    decoder = Decoder(payload)
    for kind_name, given_, expected in message:
        if kind_name == "symbol":
            assert decoder.symbol((given_ - 1).astype(np.float64)) == expected
        elif kind_name == "decision":
            assert decoder.decision(given_) == expected
        else:
            assert decoder.raw(3, given_).tolist() == expected.tolist()
    assert decoder.finished()


@pytest.mark.parametrize("tail", [np.zeros(9, np.int64), np.full(9, 6)], ids=["zeros", "ones"])
def test_messages_that_end_in_zero_or_full_bytes(tail: np.ndarray) -> None:
    f = np.full(7, TOTAL // 7, np.int64)
    f[0] += TOTAL - f.sum()
    encoder = Encoder()
    message = [3, 1, *tail.tolist()]
    for choice in message:
        encoder.interval(int(f[:choice].sum()), int(f[choice]))
    decoder = Decoder(encoder.to_bytes())
    assert [decoder.symbol((f - 1).astype(np.float64)) for _ in message] == message


def test_average_loss_is_under_a_thousandth_of_a_bit() -> None:
    generator = np.random.default_rng(3)
    f = frequencies(generator, 20)
    choices = generator.choice(20, 20_000, p=f / f.sum())
    starts = np.cumsum(f) - f
    encoder = Encoder()
    for choice in choices:
        encoder.interval(int(starts[choice]), int(f[choice]))
    code_length = float((TOTAL_BITS - np.log2(f[choices])).sum())
    assert code_length <= 8 * len(encoder.to_bytes()) <= code_length + OVERHEAD_BITS + 0.001 * len(choices)


def test_any_payload_decodes_or_is_refused() -> None:
    generator = np.random.default_rng(5)
    refused = 0
    for _ in range(200):
        decoder = Decoder(generator.bytes(int(generator.integers(0, 12))))
        f = frequencies(generator, 9)
        try:
            assert all(0 <= decoder.symbol((f - 1).astype(np.float64)) < 9 for _ in range(30))
        except CorruptContainer:
            refused += 1
    assert refused < 200
    beyond = Decoder(b"\xff" * 16)
    with pytest.raises(LmgcError):
        [beyond.symbol(np.array([0.0, TOTAL - 2])) for _ in range(9)]


class ReferenceDecoder:
    """The decoder as docs/format.md spells it out, in whole numbers alone."""

    def __init__(self, payload: bytes) -> None:
        self.payload, self.place = payload, 0
        self.lower, self.range = 0, 2**64 - 1
        self.point = self.word() << 32 | self.word()

    def word(self) -> int:
        word = self.payload[self.place : self.place + 4].ljust(4, b"\0")
        self.place += 4
        return int.from_bytes(word, "big")

    def symbol(self, f: list[int]) -> int:
        scale = self.range >> 24
        quantile = (self.point - self.lower) % 2**64 // scale
        choice, start = 0, 0
        while start + f[choice] <= quantile:
            start += f[choice]
            choice += 1
        self.lower = (self.lower + scale * start) % 2**64
        self.range = scale * f[choice]
        if self.range < 2**32:
            self.lower = self.lower << 32 & (2**64 - 1)
            self.range <<= 32
            self.point = self.point << 32 & (2**64 - 1) | self.word()
        return choice


def test_an_independent_decoder_reads_the_same_choices() -> None:
    generator = np.random.default_rng(8)
    for _ in range(20):
        message = []
        encoder = Encoder()
        for _ in range(60):
            f = frequencies(generator, int(generator.integers(2, 12)))
            choice = int(generator.integers(len(f)))
            encoder.interval(int(f[:choice].sum()), int(f[choice]))
            message.append((f, choice))
        encoder.raw(np.uint64([3, 65_535]), 16)
        decoder = ReferenceDecoder(encoder.to_bytes())
        assert [decoder.symbol(f.tolist()) for f, _ in message] == [choice for _, choice in message]
        assert [decoder.symbol([256] * 65_536) for _ in range(2)] == [3, 65_535]


def test_raw_chunks_cover_every_bit_once() -> None:
    for n_bits in range(65):
        chunks = raw_chunks(n_bits)
        assert sum(width for _, width in chunks) == n_bits
        assert [shift for shift, _ in chunks] == sorted((s for s, _ in chunks), reverse=True)


@pytest.mark.parametrize(("start", "frequency"), [(0, 0), (-1, 5), (5, TOTAL), (TOTAL - 4, 5)])
def test_intervals_outside_the_range_are_a_programming_error(start: int, frequency: int) -> None:
    with pytest.raises(ValueError, match="interval"):
        Encoder().interval(start, frequency)
