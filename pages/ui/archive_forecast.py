"""How long an archive will take to make and to prove: pure arithmetic on what will be done, without Streamlit.

Encoding goes over whole windows in parallel. Decoding goes token by token, all windows side by side, so that its
time is that of the longest window's steps more than that of the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmgc_core.archive_proof import VERIFY_TOKENS
from lmgc_core.settings import asks_model
from pages.ui.format import duration

ROWS_IN_STEP = 64
ENCODE_TOKEN_SECONDS = 0.012  # the default model in fp64, a cautious guess
STEP_SECONDS = 0.13
STEP_TOKEN_SECONDS = 0.015
COUNTED_TOKEN_SECONDS = 0.001  # what counting adds, in either direction
LOADING_SECONDS = 18.0
LAST_RUNS = 3


@dataclass(frozen=True, slots=True)
class Ahead:
    """What making an archive will do.

    Attributes:
        n_tokens: to encode.
        n_windows: that hold them.
        longest: tokens of the longest window, about.
        proof_tokens: how many of them will be decoded as proof.
        prior: who predicts.
        model_size: parameters, as a multiple of the default model's; None if not known.
    """

    n_tokens: int
    n_windows: int
    longest: int
    proof_tokens: int
    prior: str
    model_size: float | None

    @property
    def proof_steps(self) -> int:
        """Steps of the proof: one for each token of the longest window, for each group of windows in step.

        >>> Ahead(600, 8, 75, 600, "llm", 1.0).proof_steps
        75
        """
        windows = -(-self.n_windows * self.proof_tokens // max(self.n_tokens, 1))
        return self.longest * -(-windows // ROWS_IN_STEP)

    @property
    def encode_seconds(self) -> float:
        """A cautious guess."""
        asked = ENCODE_TOKEN_SECONDS * (self.model_size or 1.0) if asks_model(self.prior) else 0.0
        return self.n_tokens * (asked + self._counting)

    @property
    def proof_seconds(self) -> float:
        """A cautious guess."""
        if not asks_model(self.prior):
            return self.proof_tokens * self._counting
        model = STEP_SECONDS * self.proof_steps + STEP_TOKEN_SECONDS * self.proof_tokens
        return model * (self.model_size or 1.0) + self.proof_tokens * self._counting

    @property
    def _counting(self) -> float:
        return 0.0 if self.prior == "llm" else COUNTED_TOKEN_SECONDS


def look_ahead(
    n_parameters: int, window_parameters: int, window_tokens: float, proof: str, prior: str, model_size: float | None
) -> Ahead:
    """What an archive of so many parameters will take, given the first window's parameters and tokens.

    >>> look_ahead(288, 36, 74, "auto", "llm", 1.0).n_tokens
    592
    """
    n_tokens = round(window_tokens * n_parameters / max(window_parameters, 1))
    n_windows = -(-n_parameters // max(window_parameters, 1))
    proof_tokens = n_tokens if proof == "all" else min(n_tokens, VERIFY_TOKENS)
    return Ahead(n_tokens, n_windows, round(window_tokens), proof_tokens, prior, model_size)


def fitting(n_parameters: int, n_tokens: float, context_window: int) -> tuple[int, float]:
    """A window's parameters and tokens after halving until it fits the context, as blocks are.

    >>> fitting(288, 594.0, 128)
    (36, 74.25)
    """
    while n_tokens >= context_window and n_parameters > 1:
        n_parameters, n_tokens = n_parameters // 2, n_tokens / 2
    return n_parameters, n_tokens


@dataclass(frozen=True, slots=True)
class ArchiveForecast:
    """Seconds by phase, and whether archives made on this server tell so or a cautious guess."""

    loading: float
    encoding: float
    proof: float
    measured: bool

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.loading + self.encoding + self.proof

    def words(self) -> str:
        """One line for the page.

        >>> ArchiveForecast(12.0, 6.0, 20.0, True).words()
        'about 38 s: model 12 s, encoding 6 s, proof 20 s'
        """
        parts = f"encoding {duration(self.encoding)}, proof {duration(self.proof)}"
        if self.loading:
            parts = f"model {duration(self.loading)}, {parts}"
        return f"about {duration(self.seconds)}: {parts}" + ("" if self.measured else " (a guess until a first one)")


def forecast_archive(
    ahead: Ahead, done: Sequence[tuple[Ahead, float, float]], is_loaded: bool
) -> ArchiveForecast | None:
    """How long it will take, given (what, seconds of encoding, seconds of proof) of archives made here like it.

    None for a model of unknown size that has made none here.
    """
    last = done[-LAST_RUNS:]
    loading = 0.0 if is_loaded or not asks_model(ahead.prior) else LOADING_SECONDS
    if not last:
        if ahead.model_size is None and asks_model(ahead.prior):
            return None
        return ArchiveForecast(loading, ahead.encode_seconds, ahead.proof_seconds, False)
    encode_pace = sum(seconds for _, seconds, _ in last) / max(sum(a.encode_seconds for a, _, _ in last), 1e-9)
    proof_pace = sum(seconds for _, _, seconds in last) / max(sum(a.proof_seconds for a, _, _ in last), 1e-9)
    return ArchiveForecast(loading, ahead.encode_seconds * encode_pace, ahead.proof_seconds * proof_pace, True)
