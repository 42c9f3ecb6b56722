"""The remainders of a segment ↔ choices of its payload, behind the tokens.

Inverse pair: `encode_remainders` / `decode_remainders`. The model of what is likely is `remainder`'s, the bytes are
`coder`'s; here they meet.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lmgc_core.coder import Decoder, Encoder
from lmgc_core.remainder import code_remainders, read_plan, remainder_model, write_plan
from lmgc_core.serialization import SerializedText


class _Writer:
    """`remainder.Choices` that go to an encoder."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def decision(self, bit: int, frequency: int) -> int:
        self._encoder.decision(bit, frequency)
        return bit

    def symbol(self, number: int, frequencies: npt.NDArray[np.int64]) -> int:
        self._encoder.interval(int(frequencies[:number].sum()), int(frequencies[number]))
        return number

    def raw(self, values: npt.NDArray[np.uint64], n_bits: int) -> npt.NDArray[np.uint64]:
        self._encoder.raw(values, n_bits)
        return values


class _Reader:
    """`remainder.Choices` that come from a decoder."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def decision(self, bit: int, frequency: int) -> int:
        return self._decoder.decision(frequency)

    def symbol(self, number: int, frequencies: npt.NDArray[np.int64]) -> int:
        return self._decoder.symbol(frequencies.astype(np.float64) - 1)

    def raw(self, values: npt.NDArray[np.uint64], n_bits: int) -> npt.NDArray[np.uint64]:
        return self._decoder.raw(len(values), n_bits)


def encode_remainders(encoder: Encoder, texts: Sequence[SerializedText]) -> float:
    """Codes the remainders of all windows behind the tokens; their code length in bits."""
    n_bits = texts[0].remainder_bits
    if n_bits == 0:
        return 0.0
    values = np.concatenate([t.remainder for t in texts])
    context = np.concatenate([t.context for t in texts])
    plan = remainder_model(values, context, n_bits)
    writer = _Writer(encoder)
    write_plan(writer, plan)
    code_remainders(writer, values, context, n_bits, plan)
    return plan.header_bits + float(plan.bits_per_value.sum())


def decode_remainders(decoder: Decoder, context: npt.NDArray[np.int64], n_bits: int) -> npt.NDArray[np.uint64]:
    """The remainders of all windows, uint64, shape (n_parameters,).

    Args:
        decoder: behind the last token.
        context: of every parameter, shape (n_parameters,).
        n_bits: of a remainder.
    """
    if n_bits == 0:
        return np.zeros(len(context), np.uint64)
    reader = _Reader(decoder)
    return code_remainders(reader, None, context, n_bits, read_plan(reader, n_bits))
