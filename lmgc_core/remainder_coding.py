"""The remainders of a segment ↔ choices of its payload, behind the tokens.

Inverse pair: `encode_remainders` / `decode_remainders`. The model of what is likely is `remainder`'s, the bytes are
`coder`'s; here they meet.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lmgc_core.coder import Decoder, Encoder
from lmgc_core.remainder import LOW_FIELD_BITS, TOP_FIELD_BITS, RemainderDecoder, decisions, remainder_model
from lmgc_core.serialization import SerializedText


def encode_remainders(encoder: Encoder, texts: Sequence[SerializedText]) -> float:
    """Codes the remainders of all windows behind the tokens; their code length in bits."""
    n_bits = texts[0].remainder_bits
    if n_bits == 0:
        return 0.0
    values = np.concatenate([t.remainder for t in texts])
    context = np.concatenate([t.context for t in texts])
    plan = remainder_model(values, context, n_bits)
    encoder.raw(np.array([plan.low], np.uint64), LOW_FIELD_BITS)
    encoder.raw(np.array([plan.top], np.uint64), TOP_FIELD_BITS)
    made = decisions(values, context, n_bits, plan)
    for bit, frequency in zip(made.bits.tolist(), made.frequencies.tolist(), strict=True):
        encoder.decision(bit, frequency)
    coded = made.raw_bits > 0
    encoder.raw(made.raw[coded], int(made.raw_bits.max(initial=0)))
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
    low, top = (int(decoder.raw(1, n)[0]) for n in (LOW_FIELD_BITS, TOP_FIELD_BITS))
    model = RemainderDecoder(context, n_bits, top, low)
    while (frequency := model.frequency()) is not None:
        model.push(decoder.decision(frequency))
    n_raw = model.raw_bits()
    raw = np.zeros(len(context), np.uint64)
    raw[n_raw > 0] = decoder.raw(int((n_raw > 0).sum()), int(n_raw.max(initial=0)))
    return model.values(raw)
