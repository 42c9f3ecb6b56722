"""Bits of tokens carried back to symbols, separators, parameters and cells.

Concept: a token's bits are shared equally by the UTF-8 bytes of its text; a symbol takes its bytes' bits,
and a separator's bits stand with the symbol before it. Law: nothing is lost on the way, the parts of a
window add up to its tokens' total. Units: bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import NotReversible
from lmgc_core.serialization import SerializedText

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TextBits:
    """One window's bits by place.

    Attributes:
        symbol_bits: (n_parameters, symbols_per_parameter), bits of each symbol's own text.
        separator_bits: (n_parameters,), bits of the separators and newlines after the parameter's symbols.
    """

    symbol_bits: Floats
    separator_bits: Floats

    @property
    def parameter_bits(self) -> Floats:
        """Symbols and separators together, (n_parameters,)."""
        total: Floats = self.symbol_bits.sum(axis=1) + self.separator_bits
        return total


def spread(token_bits: Floats, token_bytes: Indices, text: SerializedText) -> TextBits:
    """The bits of each symbol and separator of a window.

    Args:
        token_bits: (n_tokens,) bits of each token.
        token_bytes: (n_tokens,) UTF-8 bytes of each token's text; they add up to the text's length. A token
            without text of its own (a tokenizer's added prefix space) gives its bits to the first byte after it.
        text: the serialized window.

    Raises:
        NotReversible: when the tokens' bytes are not the text's length.
    """
    length = len(text.text.encode("utf-8"))
    if int(token_bytes.sum()) != length:
        raise NotReversible(f"tokens of {int(token_bytes.sum())} bytes for a text of {length}")
    k = text.symbols_per_parameter
    n_symbols = text.n_parameters * k
    if n_symbols == 0:
        return TextBits(np.zeros((0, k)), np.zeros(0))
    has_bytes = token_bytes > 0
    bearer = np.minimum(np.cumsum(has_bytes) - has_bytes, int(has_bytes.sum()) - 1)
    edges = np.concatenate(([0], np.cumsum(token_bytes[has_bytes])))
    running = np.concatenate(([0.0], np.cumsum(np.bincount(bearer, weights=token_bits))))
    at_start = np.interp(text.symbol_starts, edges, running)
    at_stop = np.interp(text.symbol_stops, edges, running)
    next_start = np.append(at_start[1:], running[-1])
    symbols = (at_stop - at_start).reshape(-1, k)
    separators = (next_start - at_stop).reshape(-1, k).sum(axis=1)
    return TextBits(symbols, separators)


@dataclass(frozen=True, slots=True)
class TokenSpans:
    """Which parameters each token's text touches, as positions in the window; -1 for a pure separator.

    Attributes:
        first: (n_tokens,) first parameter touched, or -1.
        last: (n_tokens,) last parameter touched, or -1.
        owner: (n_tokens,) the parameter a token stands with: its first, or the one before a separator.
    """

    first: Indices
    last: Indices
    owner: Indices


def token_spans(token_bytes: Indices, text: SerializedText) -> TokenSpans:
    """The parameters behind each token of a window."""
    k = text.symbols_per_parameter
    stops = np.cumsum(token_bytes)
    starts = stops - token_bytes
    first_symbol = np.searchsorted(text.symbol_stops, starts, side="right")
    last_symbol = np.searchsorted(text.symbol_starts, stops, side="left") - 1
    pure = (first_symbol > last_symbol) | (token_bytes == 0)
    owner_symbol = np.clip(np.where(pure, first_symbol - 1, first_symbol), 0, max(len(text.symbol_starts) - 1, 0))
    first = np.where(pure, -1, first_symbol // k)
    last = np.where(pure, -1, last_symbol // k)
    return TokenSpans(first.astype(np.int64), last.astype(np.int64), (owner_symbol // k).astype(np.int64))
