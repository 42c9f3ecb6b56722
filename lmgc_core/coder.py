"""The range coder: choices ↔ payload bytes, given integer frequencies. The only user of constriction.

It knows nothing of models: a choice is an interval of 2^24, a decision a bit with a 16-bit frequency, a
raw bit an even chance. Inverse pair: `Encoder` / `Decoder`. Law: a decoder that names the same
frequencies in the same order reads the same choices.

Cost: at most 32 bits a payload beyond the code length (the end of the last word), and on average less than 0.001
bits a choice (the coder's range has at least 32 bits, frequencies 24). constriction's models take probabilities; f - 1
as float64 is taken as exactly f, since its fixed-point step then multiplies by one and adds one.
Sources: G. N. N. Martin, Range encoding (1979); R. Bamler, arXiv 2201.01741 (constriction).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import CorruptContainer

TOTAL_BITS = 24
TOTAL = 1 << TOTAL_BITS
DECISION_BITS = 16
RAW_CHUNK_BITS = 16
OVERHEAD_BITS = 32
"""Most bits of a payload beyond the code length of what it holds, losses of precision apart."""

_SHIFT = TOTAL_BITS - DECISION_BITS

Frequencies = npt.NDArray[np.float64]


def _model(frequencies: Any) -> Any:
    """constriction's model with exactly these frequencies, given as f - 1."""
    import constriction

    return constriction.stream.model.Categorical(np.asarray(frequencies, np.float64), perfect=False, lazy=True)


def _even(bits: int) -> Any:
    import constriction

    return constriction.stream.model.Uniform(1 << bits)


def raw_chunks(n_bits: int) -> list[tuple[int, int]]:
    """How raw values of `n_bits` are cut: (shift, width) of each chunk, the topmost first.

    Only the first chunk is narrower than 16 bits.

    >>> raw_chunks(23), raw_chunks(32)
    ([(16, 7), (0, 16)], [(16, 16), (0, 16)])
    """
    chunks = []
    top = n_bits
    while top:
        width = top % RAW_CHUNK_BITS or RAW_CHUNK_BITS
        top -= width
        chunks.append((top, width))
    return chunks


class Encoder:
    """Takes choices in order and gives their payload.

    >>> encoder = Encoder()
    >>> encoder.interval(0, 1 << 23), encoder.decision(1, 1 << 15), len(encoder.to_bytes())
    (None, None, 1)
    """

    def __init__(self) -> None:
        import constriction

        self._coder = constriction.stream.queue.RangeEncoder()

    def interval(self, start: int, frequency: int) -> None:
        """One choice: the interval from `start` to `start + frequency` - 1 of 0 to 2^24 - 1.

        Three frequencies (what lies below, the choice, what lies above) give the same words as the whole table.

        Args:
            start: sum of the frequencies before the choice.
            frequency: 1 to 2^24 - 1.
        """
        above = TOTAL - start - frequency
        if start < 0 or above < 0 or not 0 < frequency < TOTAL:
            raise ValueError(f"interval {start}, {frequency} of {TOTAL}")
        parts = [frequency - 1]
        if start:
            parts.insert(0, start - 1)
        if above:
            parts.append(above - 1)
        self._coder.encode(1 if start else 0, _model(parts))

    def decision(self, bit: int, frequency: int) -> None:
        """One bit, when a 1 has `frequency` of 2^16, 1 to 2^16 - 1. A 0 has the lower interval."""
        zero = ((1 << DECISION_BITS) - frequency) << _SHIFT
        if bit:
            self.interval(zero, frequency << _SHIFT)
        else:
            self.interval(0, zero)

    def raw(self, values: npt.NDArray[np.uint64], n_bits: int) -> None:
        """Bits that stand as they are: of each value the chunks of `raw_chunks`, chunk by chunk.

        Args:
            values: uint64, shape (n,), each below 2^n_bits.
            n_bits: 0 to 64.
        """
        if not len(values):
            return
        for shift, width in raw_chunks(n_bits):
            part = (values >> np.uint64(shift)) & np.uint64((1 << width) - 1)
            self._coder.encode(part.astype(np.int32), _even(width))

    def to_bytes(self) -> bytes:
        """The payload: big-endian 32-bit words without the zero bytes at their end, which a decoder supplies."""
        words: npt.NDArray[np.uint32] = self._coder.get_compressed()
        return words.astype(">u4").tobytes().rstrip(b"\0")


class Decoder:
    """Reads the choices of a payload back, in order."""

    def __init__(self, payload: bytes) -> None:
        import constriction

        whole = payload + bytes(-len(payload) % 4)
        self._coder = constriction.stream.queue.RangeDecoder(np.frombuffer(whole, ">u4").astype(np.uint32))

    def symbol(self, less_one: Frequencies) -> int:
        """The next choice among n.

        Args:
            less_one: f - 1 for each of the n frequencies f, float64; they add up to 2^24 - n.

        Raises:
            CorruptContainer: for a payload that no encoder makes.
        """
        return int(self._decode(_model(less_one)))

    def decision(self, frequency: int) -> int:
        """The next bit, when a 1 has `frequency` of 2^16."""
        zero = ((1 << DECISION_BITS) - frequency) << _SHIFT
        return int(self._decode(_model([zero - 1, TOTAL - zero - 1])))

    def raw(self, n_values: int, n_bits: int) -> npt.NDArray[np.uint64]:
        """The next `n_values` raw values of `n_bits`, uint64."""
        values = np.zeros(n_values, np.uint64)
        if not n_values:
            return values
        for shift, width in raw_chunks(n_bits):
            part = self._decode(_even(width), n_values)
            values |= np.asarray(part).astype(np.uint64) << np.uint64(shift)
        return values

    def finished(self) -> bool:
        """False when the payload surely goes on behind what was read."""
        return bool(self._coder.maybe_exhausted())

    def _decode(self, *arguments: Any) -> Any:
        try:
            return self._coder.decode(*arguments)
        except AssertionError:
            raise CorruptContainer("a payload that no encoder makes; the archive is damaged") from None
