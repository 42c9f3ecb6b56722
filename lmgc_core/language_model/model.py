"""A loaded language model: ids → bits over a support. One copy serves many; a lock stands round the forward pass."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import ModelUnavailable
from lmgc_core.language_model.head import HeadShape, SupportHead, head_shapes, rows_in_a_piece
from lmgc_core.language_model.scoring import TokenIds, WindowScores, score_windows
from lmgc_core.language_model.tokenizer import CONTEXT_NAMES, TextTokenizer
from lmgc_core.settings import Precision

PROBE_LENGTH = 6
PROBE_TOLERANCE = 2e-4


class LanguageModel:
    """What `load_model` returns.

    Attributes:
        id: what the user called it.
        fingerprint: SHA-256 of weights and tokenizer, hex.
        n_parameters: weights, shared ones counted once.
        context_length: the most tokens it can see, start token included.
        dtype: the precision it computes in.
        device: "cpu", "cuda" ...
        tokenizer: text ↔ ids.
        vocabulary_size: rows of the output head.
        lock: held during every forward pass.
        module: the transformers model itself, for those who need more than `score`.
    """

    def __init__(
        self,
        module: Any,
        tokenizer: TextTokenizer,
        *,
        model_id: str,
        fingerprint: str,
        dtype: Precision,
        device: str,
    ) -> None:
        """Takes a transformers model in evaluation mode, and finds out on a probe how its output head works.

        Raises:
            ModelUnavailable: when it is not a causal language model.
        """
        self.id, self.fingerprint, self.dtype, self.device = model_id, fingerprint, dtype, device
        self.module, self.tokenizer = module, tokenizer
        self.lock = threading.Lock()
        self.n_parameters = sum(weight.numel() for weight in module.parameters())
        self.context_length = context_length(module.config)
        self._linear = module.get_output_embeddings()
        if self._linear is None:
            raise ModelUnavailable(f"{model_id} has no output head over tokens: it is not a causal language model")
        self.vocabulary_size = int(self._linear.weight.shape[0])
        self._backbone = module.base_model if module.base_model is not module else None
        self._shape = self._probe()

    @property
    def computes_rows_alone(self) -> bool:
        """Whether only the support's rows of the head are computed (False: all logits, then columns)."""
        return self._shape is not None

    def score(
        self,
        windows: Sequence[TokenIds],
        support: TokenIds,
        *,
        batch_size: int | Literal["auto"] = "auto",
        first_batch: int = 1,
        whole_support: bool = False,
        should_stop: Callable[[], bool] | None = None,
    ) -> Iterator[WindowScores]:
        """What every token of every window costs, window by window as they are done.

        Args:
            windows: token ids without the start token, each shape (n,), int32; together with it they fit the context.
            support: sorted ids over which the probabilities sum to one, see `TextTokenizer.support`.
            batch_size: windows in a forward pass; more is faster up to a point and takes memory.
            first_batch: windows in the first pass; fewer show something sooner.
            whole_support: also hand on the cost of every token of the support (four bytes each).
            should_stop: asked before each pass.

        Yields:
            one `WindowScores` a window, not always in order: go by its `index`.

        Raises:
            InvalidSetting: when a window does not fit the context, or a token is not in the support.
            LmgcError: when the outputs are not numbers.
            Cancelled: when asked to stop.
        """
        return score_windows(
            self,
            windows,
            support,
            batch_size=batch_size,
            first_batch=first_batch,
            whole_support=whole_support,
            should_stop=should_stop,
        )

    def arithmetic(self) -> AbstractContextManager[Any]:
        """What every computation stands in: for fp64, a mode in which nothing falls back to fp32 inside."""
        if self.dtype != "fp64":
            return nullcontext()
        from lmgc_core.language_model.exact_arithmetic import fp64_mode

        mode: AbstractContextManager[Any] = fp64_mode()
        return mode

    def support_head(self, support: TokenIds) -> SupportHead | None:
        """The output head on those rows, or None where all logits have to be computed."""
        return None if self._shape is None else SupportHead(self._linear, self._shape, support)

    def logit_pieces(
        self, batch: npt.NDArray[np.int64], lengths: Sequence[int], head: SupportHead | None, support: TokenIds
    ) -> Iterator[tuple[int, Any]]:
        """Logits over the support at the first `lengths[i]` positions of each row, in pieces (first row, logits)."""
        import torch

        ids = torch.as_tensor(batch, device=self.device)
        if head is not None:
            hidden = self.hidden_states(ids)
            return head.logits(torch.cat([row[:n] for row, n in zip(hidden, lengths, strict=True)]))
        return self._pieces_of_all_logits(ids, lengths, support)

    def hidden_states(self, ids: Any) -> Any:
        """The backbone's last hidden states (batch, tokens, width) for ids (batch, tokens)."""
        return self._backbone(input_ids=ids, use_cache=False).last_hidden_state  # type: ignore[misc]

    def _pieces_of_all_logits(self, ids: Any, lengths: Sequence[int], support: TokenIds) -> Iterator[tuple[int, Any]]:
        """The whole forward pass, a row at a time so that logits stay as small as they can, then columns."""
        import torch

        rows = torch.as_tensor(support, dtype=torch.int64, device=ids.device)
        first = 0
        for row, length in zip(ids, lengths, strict=True):
            logits = self.module(input_ids=row[None, :length], use_cache=False).logits[0]
            wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
            step = rows_in_a_piece(len(support), 8 if wide == torch.float64 else 4)
            for start in range(0, length, step):
                yield first + start, logits[start : start + step].to(wide)[:, rows]
            first += length

    def _probe(self) -> HeadShape | None:
        """The form of the head that gives the model's own logits on a few tokens; None if none does.

        Raises:
            ModelUnavailable: when a later token changes what was predicted before it.
        """
        import torch

        ids = torch.arange(2 * PROBE_LENGTH, device=self.device).reshape(2, -1) % self.vocabulary_size
        ids[1, :-1] = ids[0, :-1]
        with torch.inference_mode():
            logits = self.module(input_ids=ids, use_cache=False).logits.double()
            scale = max(1.0, float(logits.abs().max()))
            if not float((logits[0, :-1] - logits[1, :-1]).abs().max()) <= PROBE_TOLERANCE * 50 * scale:
                if not bool(torch.isfinite(logits).all()):
                    return HeadShape()
                raise ModelUnavailable(
                    f"{self.id} looks at tokens to the right: it is not a causal language model and cannot code text"
                )
            if self._backbone is None:
                return None
            try:
                hidden = self.hidden_states(ids)
                linear = torch.nn.functional.linear(hidden, self._linear.weight, getattr(self._linear, "bias", None))
            except (AttributeError, RuntimeError, TypeError):  # a backbone of another form: the whole pass works
                return None
            tolerance = PROBE_TOLERANCE * scale * (50 if linear.dtype in (torch.bfloat16, torch.float16) else 1)
            for shape in head_shapes(self.module.config):
                if float((shape.apply(linear.double().clone()) - logits).abs().max()) <= tolerance:
                    return shape
        return None


def context_length(config: Any) -> int:
    """The most tokens a configuration allows; a million where it names no limit (recurrent models)."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    for name in CONTEXT_NAMES:
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return 1_000_000
