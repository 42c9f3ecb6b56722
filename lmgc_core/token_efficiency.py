"""How many tokens a serialization needs, without asking a model: only a tokenizer is read.

Token efficiency is raw bytes carried by one token (higher is better), held against the tokens that a
float's plain decimal text takes. Source: LM-GC section 3 (why the number of tokens matters).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lmgc_core.blocks import sample_blocks
from lmgc_core.gradient import Gradient
from lmgc_core.plan import Coding, Window, check_tokenizer, prepare
from lmgc_core.settings import DEFAULT_LIMIT, CodecConfig, check_context_window

if TYPE_CHECKING:
    from lmgc_core.language_model import TextTokenizer

PLAIN = CodecConfig(planes="all", alphabet="float", separator="space")


@dataclass(frozen=True, slots=True)
class Group:
    """One group of symbols as it stands in the text, and the tokens that touch it."""

    text: str
    tokens: tuple[str, ...]
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens of a sample of blocks.

    Attributes:
        n_blocks, n_blocks_total: sampled and in all.
        n_parameters: coded parameters sampled.
        n_tokens: their tokens, BOS apart.
        tokens_per_parameter: lower is faster.
        raw_bytes_per_token: raw bytes one token carries; higher is better.
        plain_tokens_per_parameter: the same parameters as plain decimal text.
        text: the first window's text.
        groups: the first groups of the first window beside their tokens.
    """

    n_blocks: int
    n_blocks_total: int
    n_parameters: int
    n_tokens: int
    tokens_per_parameter: float | None
    raw_bytes_per_token: float | None
    plain_tokens_per_parameter: float | None
    text: str
    groups: tuple[Group, ...]


def count_tokens(
    gradient: Gradient,
    tokenizer: TextTokenizer,
    config: CodecConfig | None = None,
    *,
    limit: int = DEFAULT_LIMIT,
    n_groups: int = 12,
) -> TokenCount:
    """Tokens and bytes of a seeded sample of blocks under these settings.

    Raises:
        InvalidSetting: for settings that do not fit the gradient.
        NotReversible: for a tokenizer that would not give the text back.
    """
    config = config or CodecConfig()
    if tokenizer.context_length is not None:
        check_context_window(config.context_window, tokenizer.context_length, config.model)
    coding = prepare(gradient, config)
    check_tokenizer(coding, tokenizer)
    chosen = sample_blocks(len(coding.blocks), limit, config.seed)
    windows = list(coding.windows(chosen, tokenizer, config.context_window))
    n_parameters = sum(w.n_parameters for w in windows)
    n_tokens = sum(len(w.ids) for w in windows)
    represented, raw_bits = _represented(coding, windows)
    return TokenCount(
        n_blocks=len(chosen),
        n_blocks_total=len(coding.blocks),
        n_parameters=n_parameters,
        n_tokens=n_tokens,
        tokens_per_parameter=n_tokens / represented if represented else None,
        raw_bytes_per_token=raw_bits / 8 / n_tokens if n_tokens else None,
        plain_tokens_per_parameter=_plain(gradient, tokenizer, config, limit),
        text=windows[0].text.text if windows else "",
        groups=first_groups(windows[0], tokenizer, n_groups) if windows else (),
    )


def _represented(coding: Coding, windows: list[Window]) -> tuple[float, float]:
    """(raw parameters, raw bits) that the windows stand for."""
    shares = coding.represented
    parameters = bits = 0.0
    for window in windows:
        for piece in window.pieces:
            name = coding.coded.tensors[piece.tensor_index].name
            share = (piece.last - piece.first) * shares[name]
            parameters += share
            bits += share * coding.raw_width[name]
    return parameters, bits


def _plain(gradient: Gradient, tokenizer: TextTokenizer, config: CodecConfig, limit: int) -> float | None:
    """Tokens per parameter of plain decimal text, on the same blocks of the untransformed values."""
    coding = prepare(gradient, PLAIN)
    chosen = sample_blocks(len(coding.blocks), limit, config.seed)
    n_tokens = n_parameters = 0
    for number in chosen:
        block = coding.blocks[number]
        n_tokens += len(tokenizer.encode(coding.serialize(block.dtype, block.pieces).text))
        n_parameters += sum(p.last - p.first for p in block.pieces)
    return n_tokens / n_parameters if n_parameters else None


def first_groups(window: Window, tokenizer: TextTokenizer, n_groups: int) -> tuple[Group, ...]:
    """The first groups of a window: what stands between separators, or one parameter where there are none."""
    text = window.text
    data = text.text.encode("utf-8")
    pieces = tokenizer.token_bytes(window.ids)
    stops = np.cumsum([len(p) for p in pieces])
    starts = stops - [len(p) for p in pieces]
    ends = np.append(text.symbol_starts[1:], len(data))
    per_parameter = np.arange(1, len(ends) + 1) % text.symbols_per_parameter == 0
    separated = text.symbol_stops < ends
    closing = np.flatnonzero(separated if separated.any() else per_parameter)
    groups: list[Group] = []
    begin = 0
    for last in [*closing[:n_groups].tolist(), len(ends) - 1][:n_groups]:
        end = int(ends[last])
        if end <= begin:
            break
        touching = np.flatnonzero((starts < end) & (stops > begin))
        groups.append(
            Group(
                data[begin:end].decode("utf-8"),
                tuple(pieces[i].decode("utf-8", "backslashreplace") for i in touching),
                tuple(int(window.ids[i]) for i in touching),
            )
        )
        begin = end
    return tuple(groups)
