"""Token ids → bits: windows scored in batches, each result handed on as soon as it is there.

A window is scored alone: the start token first (never coded), then its tokens, the first of them counted.
Windows of unequal length share a batch by padding on the right, which changes nothing in a causal model
because no position looks to its right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import Cancelled, InvalidSetting
from lmgc_core.language_model.head import SupportHead, TokenScores, score_pieces

TokenIds = npt.NDArray[np.int32]
CPU_PASS_TOKENS = 2048
ACCELERATOR_PASS_TOKENS = 32_768


@dataclass(frozen=True, slots=True)
class WindowScores:
    """What the tokens of one window cost, over the support.

    Attributes:
        index: which of the windows.
        surprisal_bits: -log2 p of each token, float64, shape (n,).
        entropy_bits: the expected cost before the token was seen, float32, shape (n,).
        rank: how many tokens were likelier; 0 is the likeliest, int32, shape (n,).
        cumulative_bits: -log2 of the chance of all tokens up to and including it, in the support's order of ids,
            float32, shape (n,); what an audit of the published code needs.
        top_token_ids: the five likeliest, int32, shape (n, 5); -1 where the support is smaller.
        top_bits: their costs, float32, shape (n, 5); NaN where the support is smaller.
        support_bits: the cost of every token of the support, float32, shape (n, support); None unless asked for.
    """

    index: int
    surprisal_bits: npt.NDArray[np.float64]
    entropy_bits: npt.NDArray[np.float32]
    rank: npt.NDArray[np.int32]
    cumulative_bits: npt.NDArray[np.float32]
    top_token_ids: TokenIds
    top_bits: npt.NDArray[np.float32]
    support_bits: npt.NDArray[np.float32] | None = None


def plan_passes(
    lengths: Sequence[int], pass_tokens: int, batch_size: int | Literal["auto"] = "auto", first_batch: int = 1
) -> list[list[int]]:
    """Which windows go through the model together: lists of indices, in the order of the passes.

    The first pass holds `first_batch` windows, so that a view has something early. The others are grouped by length
    (little padding) and ordered by their first index. Windows without tokens take no part.

    Args:
        lengths: tokens of each window, start token included.
        pass_tokens: the padded tokens that "auto" puts in one pass; more is faster up to a point, and takes memory.
        batch_size: windows a pass, or "auto".
        first_batch: windows of the first pass; 0 for no special first pass.

    >>> plan_passes([100, 50, 100, 50], 200)
    [[0], [1, 2], [3]]
    """
    indices = [i for i, n in enumerate(lengths) if n > 1]
    head, rest = indices[:first_batch], indices[first_batch:]
    rest.sort(key=lambda i: (-lengths[i], i))
    passes: list[list[int]] = []
    for i in rest:
        room = passes and (
            (len(passes[-1]) + 1) * lengths[passes[-1][0]] <= pass_tokens
            if batch_size == "auto"
            else len(passes[-1]) < batch_size
        )
        if room and 2 * lengths[i] >= lengths[passes[-1][0]]:
            passes[-1].append(i)
        else:
            passes.append([i])
    ordered = sorted((sorted(p) for p in passes), key=lambda p: p[0])
    return ([head] if head else []) + ordered


def padded(windows: Sequence[TokenIds], start_id: int) -> npt.NDArray[np.int64]:
    """Windows as one array (batch, longest), the start token first, filled up on the right.

    The last token of a window predicts nothing, so it does not go in: row length equals the tokens coded.
    """
    longest = max(len(w) for w in windows)
    out = np.full((len(windows), longest), start_id, np.int64)
    for row, window in zip(out, windows, strict=True):
        row[1 : len(window)] = window[:-1]
    return out


def score_windows(
    model: Any,
    windows: Sequence[TokenIds],
    support: TokenIds,
    *,
    batch_size: int | Literal["auto"] = "auto",
    first_batch: int = 1,
    whole_support: bool = False,
    should_stop: Callable[[], bool] | None = None,
) -> Iterator[WindowScores]:
    """What `LanguageModel.score` does; see there."""
    import torch

    support = np.asarray(support, np.int32)
    column_of = support_columns(support, model.vocabulary_size)
    longest = max((len(w) for w in windows), default=0) + 1
    if longest > model.context_length:
        raise InvalidSetting(
            f"a window of {longest:,} tokens, start token included, is more than {model.id} can see "
            f"({model.context_length:,}); choose a context window of {model.context_length:,} or less"
        )
    columns = [column_of[np.asarray(w, np.int64)] for w in windows]
    for index, found in enumerate(columns):
        if len(found) and found.min() < 0:
            lost = int(np.asarray(windows[index])[found.argmin()])
            raise InvalidSetting(f"window {index}: token {lost} is not in the support of {len(support):,} tokens")
    on_cpu = model.device == "cpu"
    pass_tokens = CPU_PASS_TOKENS if on_cpu else ACCELERATOR_PASS_TOKENS
    head: SupportHead | None = None
    for index, window in enumerate(windows):
        if not len(window):
            nothing = np.empty((0, len(support)), np.float32) if whole_support else None
            yield _window_scores(index, None, support, support_bits=nothing)
    for group in plan_passes([len(w) + 1 for w in windows], pass_tokens, batch_size, first_batch):
        if should_stop is not None and should_stop():
            raise Cancelled("stopped; the windows scored so far are kept")
        with model.lock, torch.inference_mode(), model.arithmetic():
            head = head or model.support_head(support)
            batch = padded([windows[i] for i in group], model.tokenizer.start_id)
            lengths = [len(windows[i]) for i in group]
            coded = torch.as_tensor(np.concatenate([columns[i] for i in group]), device=model.device)
            every = np.empty((sum(lengths), len(support)), np.float32) if whole_support else None
            scores = score_pieces(model.logit_pieces(batch, lengths, head, support), coded, every)
        first = 0
        for index, length in zip(group, lengths, strict=True):
            rows = slice(first, first + length)
            yield _window_scores(index, scores, support, rows, None if every is None else every[rows])
            first += length


def support_columns(support: TokenIds, n_rows: int) -> npt.NDArray[np.int64]:
    """The place of every token in the support, -1 for those outside, shape (n_rows,).

    Raises:
        InvalidSetting: for an empty support, or one with ids that the model does not have.
    """
    if not len(support) or support[0] < 0 or support[-1] >= n_rows or (np.diff(support) <= 0).any():
        raise InvalidSetting(f"a support is a rising list of token ids from 0 to {n_rows - 1:,}, and not empty")
    place = np.full(n_rows, -1, np.int64)
    place[support] = np.arange(len(support))
    return place


def _window_scores(
    index: int,
    scores: TokenScores | None,
    support: TokenIds,
    rows: slice = slice(0, 0),
    support_bits: npt.NDArray[np.float32] | None = None,
) -> WindowScores:
    if scores is None:
        scores = score_pieces(iter(()), ())
    columns = scores.top_columns[rows]
    ids = np.where(columns < 0, -1, support[columns]).astype(np.int32)
    return WindowScores(
        index,
        scores.surprisal_bits[rows],
        scores.entropy_bits[rows],
        scores.rank[rows],
        scores.cumulative_bits[rows],
        ids,
        scores.top_bits[rows],
        support_bits,
    )
