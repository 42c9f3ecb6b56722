"""A language model that reads gradients one hexadecimal digit at a time.

Values are written as their top two bytes in four digits with commas between, every digit and comma a token of its own,
so that each digit has a distribution over just sixteen. A tokenizer left to itself would join some letters ("fb");
commas, unlike spaces, are never joined to what follows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lmgc_core.errors import ModelUnavailable
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import LanguageModel, TextTokenizer

DIGITS = "0123456789abcdef"
SEPARATOR = ","
PER_VALUE = 4

Distributions = npt.NDArray[np.float64]


def text_of(gradient: Gradient) -> str:
    """The top two bytes of every value as four hexadecimal digits, commas between.

    >>> text_of(Gradient.from_arrays({"w": np.float32([1.0, -2.0])}))
    '3f80,c000'
    """
    (tensor,) = gradient.tensors
    shift = max(tensor.dtype.bits - 16, 0)
    return SEPARATOR.join(f"{word >> shift:0{PER_VALUE}x}" for word in tensor.words.tolist())


def digit_tokens(tokenizer: TextTokenizer) -> dict[str, int]:
    """The token of each digit and of the comma, alone.

    Raises:
        ModelUnavailable: for a vocabulary without one of them.
    """
    ids = tokenizer.support(frozenset(f"{DIGITS}{SEPARATOR}".encode()))
    found: dict[str, int] = {}
    for token, spelled in zip(ids.tolist(), tokenizer.token_bytes(ids), strict=True):
        if len(spelled) == 1:
            found.setdefault(spelled.decode(), token)
    missing = [c for c in f"{DIGITS}{SEPARATOR}" if c not in found]
    if missing:
        raise ModelUnavailable(f"the model has no token for {missing[0]!r} alone; choose another for this lesson")
    return found


def digit_distributions(
    text: str, model: LanguageModel, should_stop: Callable[[], bool] | None = None
) -> Distributions:
    """What the model expects at every character of a text, over the sixteen digits, shape (n_characters, 16).

    Where a comma must stand is known, so the distributions are over digits alone; rows of commas mean nothing.

    Args:
        text: digits and commas.
        model: asked once for the whole text.
        should_stop: asked before the pass.
    """
    tokens = digit_tokens(model.tokenizer)
    support = np.array(sorted(tokens.values()), np.int32)
    ids = np.array([tokens[c] for c in text], np.int32)
    (scores,) = model.score([ids], support, whole_support=True, should_stop=should_stop)
    bits = scores.support_bits
    if bits is None:
        raise ValueError("the model gave no costs of the whole support")
    columns = np.searchsorted(support, [tokens[c] for c in DIGITS])
    chances = 2.0 ** -bits[:, columns].astype(np.float64)
    found: Distributions = chances / chances.sum(axis=1, keepdims=True)
    return found
