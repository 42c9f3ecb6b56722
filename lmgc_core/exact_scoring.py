"""Exact scoring: surprisals over a support in fp64, in one parallel pass or step by step.

`ExactScorer.windows` is for encoding (all positions at once), `Stepper` for decoding (the next position of
several windows). Law: for equal prefixes both give equal surprisals up to `guarded_rounding.GUARD_BITS` / 1000,
whatever the batch, threads, instruction set or device; docs/format.md says how that was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import Cancelled, ModelUnavailable
from lmgc_core.language_model import LanguageModel
from lmgc_core.language_model.exact_arithmetic import (
    cache_argument,
    cache_bytes_per_token,
    exact_bytes,
    exact_model,
    fp64_mode,
    step_cache,
)
from lmgc_core.language_model.llama_steps import LlamaSteps, has_steps
from lmgc_core.language_model.load import available_memory
from lmgc_core.language_model.scoring import padded

TokenIds = npt.NDArray[np.int32]
Surprisals = npt.NDArray[np.float64]

PASS_TOKENS = 2048
BITS_PER_NAT = 1.4426950408889634


class ExactScorer:
    """A language model in fp64.

    Attributes:
        model: the fp64 copy.
        cache_bytes_per_token: of decoding, for each token of each window in step.
    """

    def __init__(self, model: LanguageModel) -> None:
        """Builds the fp64 copy.

        Raises:
            ModelUnavailable: when it does not fit or cannot be built; with the figures.
        """
        import torch

        need, free = exact_bytes(model), available_memory()
        if free is not None and model.device == "cpu" and need > free:
            raise ModelUnavailable(
                f"{model.id} needs {need / 1e9:.1f} GB more as fp64, which archives are made with, and "
                f"{free / 1e9:.1f} GB are free; close something or choose a smaller model"
            )
        with model.lock, torch.no_grad():
            self.model = exact_model(model)
            with torch.inference_mode(), fp64_mode():
                self._has_steps = has_steps(self.model)
        self.model.lock = model.lock
        self.cache_bytes_per_token = cache_bytes_per_token(self.model)

    def windows(
        self,
        windows: Sequence[TokenIds],
        support: TokenIds,
        batch_size: int | Literal["auto"] = "auto",
        should_stop: Callable[[], bool] | None = None,
    ) -> Iterator[tuple[int, int, Surprisals]]:
        """Surprisals of the whole support before every token of every window.

        Args:
            windows: token ids without the start token, each shape (n,).
            support: sorted ids, shape (m,).
            batch_size: windows a pass.
            should_stop: asked before each pass.

        Yields:
            (window, first position, surprisals in bits, float64, shape (some positions, m)), in order.

        Raises:
            Cancelled: when asked to stop.
        """
        import torch

        with self.model.lock, torch.inference_mode(), fp64_mode():
            head = self.model.support_head(support)
        for group in _passes([len(w) for w in windows], batch_size):
            if should_stop is not None and should_stop():
                raise Cancelled("stopped; nothing was written")
            batch = padded([windows[i] for i in group], self.model.tokenizer.start_id)
            lengths = [len(windows[i]) for i in group]
            stops = np.cumsum(lengths)
            with self.model.lock, torch.inference_mode(), fp64_mode():
                for first, logits in self.model.logit_pieces(batch, lengths, head, support):
                    found = _surprisals(logits)
                    while len(found):
                        row = int(np.searchsorted(stops, first, "right"))
                        n = min(len(found), int(stops[row]) - first)
                        yield group[row], first - int(stops[row]) + lengths[row], found[:n]
                        found, first = found[n:], first + n

    def stepper(self, n_rows: int, n_tokens: int, support: TokenIds) -> Stepper:
        """A decoder's view: windows in step, each from its start token on.

        Args:
            n_rows: windows.
            n_tokens: the most steps.
            support: sorted ids.
        """
        if self._has_steps and self.model.computes_rows_alone:
            return LlamaStepper(self.model, n_rows, n_tokens, support)
        return ModuleStepper(self.model, n_rows, n_tokens, support)


class Stepper(Protocol):
    """Windows decoded in step, all at the same position."""

    def step(self) -> Surprisals:
        """Surprisals of the support for the next token of each window, float64, shape (n_rows, m)."""
        ...

    def push(self, ids: Sequence[int]) -> None:
        """The tokens that were decoded, one a window."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Goes on with these windows alone; rising indices. Call after `push`."""
        ...


class ModuleStepper:
    """Steps of any model, by its own module; see `Stepper`."""

    def __init__(self, model: LanguageModel, n_rows: int, n_tokens: int, support: TokenIds) -> None:
        import torch

        self._model, self._support = model, torch.as_tensor(support, dtype=torch.int64, device=model.device)
        with model.lock, torch.inference_mode(), fp64_mode():
            self._head = model.support_head(support)
            self._cache = step_cache(model, n_rows, n_tokens)
        self._forward = model.module.base_model if self._head is not None else model.module
        self._cache_argument = cache_argument(self._forward.forward)
        self._ids = np.full(n_rows, model.tokenizer.start_id, np.int64)

    def step(self) -> Surprisals:
        """See `Stepper`."""
        import torch

        with self._model.lock, torch.inference_mode(), fp64_mode():
            ids = torch.as_tensor(self._ids[:, None], device=self._model.device)
            found = self._forward(input_ids=ids, use_cache=True, **{self._cache_argument: self._cache})
            if self._head is None:
                return _surprisals(found.logits[:, -1].index_select(1, self._support))
            parts = [_surprisals(logits) for _, logits in self._head.logits(found.last_hidden_state[:, -1])]
        return np.concatenate(parts)

    def push(self, ids: Sequence[int]) -> None:
        """See `Stepper`."""
        self._ids = np.asarray(ids, np.int64)

    def keep(self, rows: Sequence[int]) -> None:
        """See `Stepper`."""
        import torch

        self._ids = self._ids[list(rows)]
        with torch.inference_mode():
            self._cache.keep(list(rows))


class LlamaStepper:
    """Steps of a plain Llama on a CPU; see `Stepper`."""

    def __init__(self, model: LanguageModel, n_rows: int, n_tokens: int, support: TokenIds) -> None:
        import torch

        self._model = model
        with model.lock, torch.inference_mode(), fp64_mode():
            self._head = model.support_head(support)
            self._steps = LlamaSteps(model, n_rows, n_tokens)
        self._ids = np.full(n_rows, model.tokenizer.start_id, np.int64)

    def step(self) -> Surprisals:
        """See `Stepper`."""
        import torch

        with self._model.lock, torch.inference_mode():
            hidden = self._steps.step(self._ids)
            return np.concatenate([_surprisals(logits) for _, logits in self._head.logits(hidden)])  # type: ignore[union-attr]

    def push(self, ids: Sequence[int]) -> None:
        """See `Stepper`."""
        self._ids = np.asarray(ids, np.int64)

    def keep(self, rows: Sequence[int]) -> None:
        """See `Stepper`."""
        import torch

        self._ids = self._ids[list(rows)]
        with torch.inference_mode():
            self._steps.keep(rows)


def _surprisals(logits: Any) -> Surprisals:
    import torch

    found: Surprisals = (torch.log_softmax(logits, -1) * -BITS_PER_NAT).cpu().numpy()
    return found


def _passes(lengths: Sequence[int], batch_size: int | Literal["auto"]) -> list[list[int]]:
    """Consecutive windows that share a pass; windows without tokens take no part."""
    groups: list[list[int]] = []
    for i in (i for i, n in enumerate(lengths) if n):
        if groups:
            longest = max(lengths[i], *(lengths[j] for j in groups[-1]))
            size = len(groups[-1]) + 1
            if size * longest <= PASS_TOKENS if batch_size == "auto" else size <= batch_size:
                groups[-1].append(i)
                continue
        groups.append([i])
    return groups
