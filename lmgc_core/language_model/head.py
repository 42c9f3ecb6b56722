"""The output head: hidden states → log-probabilities over a support, in pieces that stay small.

Only the rows of the support are multiplied. Most architectures end in a plain linear layer; some scale its
outputs or cap them (Granite, Cohere, Gemma). Which it is is found out on a probe, never assumed: where
nothing reproduces the model's own logits, the model's whole forward pass is used and columns are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import LmgcError

LOGITS_BYTES = 48 << 20  # of one piece; with the copy that the entropy needs, about 100 MB
TOP = 5
LN2 = float(np.log(2.0))


@dataclass(frozen=True, slots=True)
class HeadShape:
    """What follows the head's linear layer: `cap · tanh(scale · z / cap)`, or `scale · z` without a cap."""

    scale: float = 1.0
    cap: float = 0.0

    def apply(self, logits: Any) -> Any:
        """The model's logits from the linear layer's outputs; may work in place."""
        if self.scale != 1.0:
            logits = logits.mul_(self.scale)
        return logits.div_(self.cap).tanh_().mul_(self.cap) if self.cap else logits


def head_shapes(config: Any) -> list[HeadShape]:
    """The forms worth trying for a configuration, the plain one first."""
    cap = float(getattr(config, "final_logit_softcapping", None) or 0.0)
    scales = [1.0]
    for name, inverse in (("logit_scale", False), ("logits_scaling", True), ("lm_head_multiplier", False)):
        value = getattr(config, name, None)
        if isinstance(value, int | float) and value:
            scales.append(1.0 / value if inverse else float(value))
    return [HeadShape(scale, c) for c in dict.fromkeys((cap, 0.0)) for scale in reversed(scales)]


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What one run of tokens costs; every array has one row a token.

    `cumulative_bits` is -log2 of the chance of the tokens up to and including the coded one, in the support's order.
    """

    surprisal_bits: npt.NDArray[np.float64]
    entropy_bits: npt.NDArray[np.float32]
    rank: npt.NDArray[np.int32]
    cumulative_bits: npt.NDArray[np.float32]
    top_columns: npt.NDArray[np.int64]
    top_bits: npt.NDArray[np.float32]


class SupportHead:
    """The head's rows for one support, ready to be multiplied; columns are positions in the support."""

    def __init__(self, head: Any, shape: HeadShape, support: npt.NDArray[np.int32]) -> None:
        import torch

        whole = len(support) == head.weight.shape[0] and bool((support == np.arange(len(support))).all())
        rows = torch.as_tensor(support, dtype=torch.int64, device=head.weight.device)
        self._weight = head.weight.detach() if whole else head.weight.detach()[rows]
        bias = getattr(head, "bias", None)
        self._bias = None if bias is None else (bias.detach() if whole else bias.detach()[rows])
        self._shape = shape

    def logits(self, hidden: Any) -> Iterator[tuple[int, Any]]:
        """Pieces `(first row, logits (rows, support))` for hidden states (n, width), in fp32 or fp64."""
        import torch

        wide = torch.float64 if self._weight.dtype == torch.float64 else torch.float32
        step = rows_in_a_piece(len(self._weight), 8 if wide == torch.float64 else 4)
        for first in range(0, len(hidden), step):
            piece = torch.nn.functional.linear(hidden[first : first + step], self._weight, self._bias)
            yield first, self._shape.apply(piece.to(wide))


def rows_in_a_piece(n_columns: int, item_bytes: int) -> int:
    """How many tokens' logits are held at a time.

    >>> rows_in_a_piece(49_152, 4)
    256
    """
    return max(1, LOGITS_BYTES // (max(1, n_columns) * item_bytes))


def score_pieces(
    pieces: Iterator[tuple[int, Any]], columns: Any, support_bits: npt.NDArray[np.float32] | None = None
) -> TokenScores:
    """What tokens cost, given their logits piece by piece.

    Args:
        pieces: `(first row, logits (rows, support))`; overwritten.
        columns: the coded tokens' positions in the support, shape (n,), int64.
        support_bits: filled with the cost of every token of the support, shape (n, support), where given.

    Raises:
        LmgcError: when the model's logits are not numbers.
    """
    import torch

    n = len(columns)
    surprisal = np.empty(n, np.float64)
    entropy, rank, cumulative = np.empty(n, np.float32), np.empty(n, np.int32), np.empty(n, np.float32)
    top_columns, top_bits = np.full((n, TOP), -1, np.int64), np.full((n, TOP), np.nan, np.float32)
    for first, logits in pieces:
        last = first + len(logits)
        own = logits.gather(1, columns[first:last, None])
        width = min(TOP, logits.shape[1])
        best = torch.topk(logits, width, dim=-1)
        # one more array of this size and no third: pages that are new to the process cost more than the arithmetic
        spare = torch.empty_like(logits)
        rank[first:last] = torch.gt(logits, own, out=spare).sum(-1).cpu().numpy()
        highest = best.values[:, :1]
        shifted = logits.sub_(highest)
        weight = torch.exp(shifted, out=spare)
        total = weight.sum(-1, keepdim=True)
        log_total = total.log()
        cost = (log_total - (own - highest))[:, 0]
        if not bool(torch.isfinite(cost).all()):
            raise LmgcError("the model's outputs are not numbers; load it with --dtype fp32, or check its weights")
        surprisal[first:last] = (cost.double() / LN2).cpu().numpy()
        if support_bits is not None:
            support_bits[first:last] = ((log_total - shifted) / LN2).float().cpu().numpy()
        top_columns[first:last, :width] = best.indices.cpu().numpy()
        top_bits[first:last, :width] = ((log_total - (best.values - highest)) / LN2).cpu().numpy()
        # -sum p log p = log Z - sum w z / Z, with w = exp z
        mean = torch.bmm(weight[:, None], shifted[:, :, None])[:, :, 0] / total
        entropy[first:last] = ((log_total - mean)[:, 0] / LN2).cpu().numpy()
        share = torch.cumsum(weight, -1, out=shifted).gather(1, columns[first:last, None]) / total
        cumulative[first:last] = (-share[:, 0].log() / LN2).cpu().numpy()
    return TokenScores(surprisal, entropy, rank, cumulative, top_columns, top_bits)
