"""What LM-GC's published code counts: p / cumsum(p) beside p.

For each token the code divides its probability by the running sum up to and including it
(github.com/hui-po-wang/LM-GC, 726993b, compressors/language_model.py). The results add up to more than one, so no code
with these lengths can be decoded (L. G. Kraft, 1949: the lengths of a decodable code satisfy sum 2^-length ≤ 1), and
the cost of a text comes to depend on the order of the vocabulary. On average over a distribution the missing bits stay
below log2 e = 1.443. Whether the paper's tables were made with it is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import e, log2

import numpy as np
import numpy.typing as npt

from lmgc_core.codec import measure
from lmgc_core.controls import random_bits
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import LanguageModel
from lmgc_core.report import Report
from lmgc_core.settings import CodecConfig

N_VALUES = 64
MOST_MISSING_BITS = log2(e)

Probabilities = npt.NDArray[np.float64]


def published_shares(probabilities: Probabilities) -> Probabilities:
    """p / cumsum(p) along the last axis: what the published code hands to its coder as probabilities.

    >>> published_shares(np.array([0.25, 0.25, 0.5])).tolist()
    [1.0, 0.5, 0.5]
    """
    found: Probabilities = probabilities / np.cumsum(probabilities, axis=-1)
    return found


def kraft_sum(probabilities: Probabilities) -> float:
    """The sum of 2^-length over code lengths -log2 p: more than 1 cannot be decoded.

    >>> kraft_sum(np.array([1.0, 0.5, 0.5]))
    2.0
    """
    return float(np.sum(probabilities, axis=-1))


def missing_bits(probabilities: Probabilities) -> float:
    """Bits a token that the published code leaves out, in the mean over the distribution itself.

    >>> missing_bits(np.array([0.5, 0.5]))
    0.5
    """
    return float(-(probabilities * np.log2(np.cumsum(probabilities))).sum())


@dataclass(frozen=True, slots=True, eq=False)
class OneToken:
    """One distribution of the model over its possible tokens, in the vocabulary's order.

    Attributes:
        texts: the tokens.
        probabilities: of each, shape (n,).
        token: the place of the one that came.
    """

    texts: tuple[str, ...]
    probabilities: Probabilities
    token: int

    @property
    def shares(self) -> Probabilities:
        """What the published code takes for probabilities."""
        return published_shares(self.probabilities)


@dataclass(frozen=True, slots=True)
class Audited:
    """A report and one token of it, looked at closely.

    Attributes:
        name: "the real values" or "random bits".
        report: of all values, the model alone predicting; its `audit` holds the published code's figures.
        one: the distribution in the middle of the text.
    """

    name: str
    report: Report
    one: OneToken


def config_of(model: str) -> CodecConfig:
    """The authors' hexadecimal text, most significant byte first, over the tokens that it can contain."""
    return CodecConfig(model=model, planes="all", byte_order="big", alphabet="hex", separator="space")


def audited(
    values: Gradient,
    model: LanguageModel,
    seed: int,
    on_audited: Callable[[tuple[Audited, ...]], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[Audited, ...]:
    """The passage and random bits of the same shape, counted truly and as the published code does.

    Args:
        values: a passage.
        model: reads each twice.
        seed: of the random bits.
        on_audited: told of those done so far.
        should_stop: asked before each pass.
    """
    found: tuple[Audited, ...] = ()
    for name, gradient in (("the real values", values), ("random bits", random_bits(values, seed))):
        report = measure(gradient, model, config_of(model.id), limit=0, should_stop=should_stop)
        found = (*found, Audited(name, report, _middle_token(report, model, should_stop)))
        if on_audited is not None:
            on_audited(found)
    return found


def _middle_token(report: Report, model: LanguageModel, should_stop: Callable[[], bool] | None) -> OneToken:
    window = report.results[0].window
    (serializer,) = report.coding.serializers.values()
    support = model.tokenizer.support(serializer.alphabet_bytes)
    place = len(window.ids) // 2
    ids = window.ids[: place + 1]
    (scores,) = model.score([ids], support, whole_support=True, should_stop=should_stop)
    if scores.support_bits is None:
        raise ValueError("the model gave no costs of the whole support")
    chances = 2.0 ** -scores.support_bits[-1].astype(np.float64)
    texts = tuple(b.decode("utf-8", "backslashreplace") for b in model.tokenizer.token_bytes(support))
    return OneToken(texts, chances / chances.sum(), int(np.searchsorted(support, ids[-1])))
