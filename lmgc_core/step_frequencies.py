"""What a segment's prior gives at a step: integer frequencies of the next token of each window that goes on.

The language model alone makes them from its bins and remembers nothing. Counts make them from what the segment's
windows held so far, and need no model; the mixture takes both. Whoever codes asks for a step's frequencies, codes the
step's tokens, and says which they were, in this order; so encoder and decoder see the same past.
Law: frequencies add up to 2^24 and none is below 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lmgc_core.guarded_rounding import Bins, check_support, frequencies_of
from lmgc_core.priors import SegmentPrior, make_prior
from lmgc_core.punctuation import Place
from lmgc_core.serialization import Serializer
from lmgc_core.settings import PriorKind

Indices = npt.NDArray[np.int64]


class StepFrequencies(Protocol):
    """Distributions over the support, one a row."""

    def row(self, index: int) -> npt.NDArray[np.float64]:
        """f - 1 of one distribution, as `coder.Decoder.symbol` takes it."""
        ...

    def interval(self, index: int, token: int) -> tuple[int, int]:
        """(start, frequency) of one token of one distribution."""
        ...


class StepPrior(Protocol):
    """A segment's prior, fresh when it is made."""

    @property
    def learns(self) -> bool:
        """Whether frequencies depend on the tokens before, so that steps have to be taken in order."""
        ...

    def frequencies(self, bins: Bins | None, active: Indices) -> StepFrequencies:
        """Of the next token, a row for each active window.

        Args:
            bins: of the language model, shape (n, n_support); None where it is not asked.
            active: the windows that go on, rising, shape (n,).
        """
        ...

    def update(self, active: Indices, tokens: Indices) -> None:
        """Takes the tokens of these windows, as places in the support."""
        ...


class ModelAlone:
    """The prior `llm`."""

    learns = False

    def frequencies(self, bins: Bins | None, active: Indices) -> StepFrequencies:
        """See `StepPrior`."""
        if bins is None:
            raise ValueError("prior llm needs the model's bins")
        return frequencies_of(bins)

    def update(self, active: Indices, tokens: Indices) -> None:
        """Nothing is remembered."""


class Counting:
    """The priors `counts` and `mix`."""

    learns = True

    def __init__(self, prior: SegmentPrior) -> None:
        self._prior = prior

    def frequencies(self, bins: Bins | None, active: Indices) -> StepFrequencies:
        """See `StepPrior`."""
        return self._prior.distributions(bins, active)

    def update(self, active: Indices, tokens: Indices) -> None:
        """See `StepPrior`."""
        self._prior.update(active, tokens)


def step_prior(
    kind: PriorKind, serializer: Serializer, windows: Sequence[Sequence[Place]], token_bytes: Sequence[bytes]
) -> StepPrior:
    """A fresh prior for a segment.

    Args:
        kind: as in the settings.
        serializer: of the segment's dtype.
        windows: the pieces of each window, in order.
        token_bytes: of the support.

    Raises:
        UnsupportedInput: for a support of a size that frequencies cannot be made of.
    """
    check_support(len(token_bytes))
    return ModelAlone() if kind == "llm" else Counting(make_prior(kind, serializer, windows, token_bytes))
