"""What an archive needs of a language model: the model in fp64, or its tokenizer alone where the prior does not ask it.

Law: an archive is decoded with the very model or tokenizer that it was made with, or refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from lmgc_core.archive_header import MODEL_FINGERPRINT_BYTES, TOKENIZER_FINGERPRINT_BYTES, Header
from lmgc_core.errors import CorruptContainer, IncompatibleContainer, InvalidSetting
from lmgc_core.exact_scoring import ExactScorer
from lmgc_core.language_model import LanguageModel, TextTokenizer, load_model, load_tokenizer
from lmgc_core.settings import RunOptions, asks_model


@dataclass(frozen=True, slots=True)
class Predictor:
    """What coding tokens needs beside the data.

    Attributes:
        tokenizer: what tokens spell.
        scorer: the model in fp64; None where the prior does not ask it.
    """

    tokenizer: TextTokenizer
    scorer: ExactScorer | None


def predictor_of(prior: str, model: LanguageModel | TextTokenizer) -> Predictor:
    """What a prior needs of a model; its weights are not touched where the prior does not ask it.

    Raises:
        InvalidSetting: for a tokenizer where the model itself is needed.
        ModelUnavailable: when the model does not fit in memory as fp64; with the figures.
    """
    if not asks_model(prior):
        return Predictor(model if isinstance(model, TextTokenizer) else model.tokenizer, None)
    if isinstance(model, TextTokenizer):
        raise InvalidSetting(f"prior {prior} asks the language model, and only its tokenizer was given; load the model")
    return Predictor(model.tokenizer, ExactScorer(model))


def model_of(header: Header, options: RunOptions) -> LanguageModel | TextTokenizer:
    """What an archive says it was made with: the model, or its tokenizer alone where that is enough.

    Raises:
        ModelUnavailable: when it cannot be had.
    """
    return load_model(header.model, options) if asks_model(header.prior) else load_tokenizer(header.model)


def check_model(header: Header, model: LanguageModel | TextTokenizer) -> None:
    """Refuses another model or tokenizer than the archive was made with."""
    name = header.model or "another model"
    tokenizer = model if isinstance(model, TextTokenizer) else model.tokenizer
    if fingerprint_prefix(tokenizer.fingerprint, TOKENIZER_FINGERPRINT_BYTES) != header.tokenizer_fingerprint:
        given = "the one given" if isinstance(model, TextTokenizer) else f"that of {model.id}"
        raise IncompatibleContainer(
            f"the archive was made with the tokenizer of {name} ({header.tokenizer_fingerprint.hex()}), "
            f"{given} is another ({tokenizer.fingerprint[:8]}); load the model that it names"
        )
    if not asks_model(header.prior):
        return
    if isinstance(model, TextTokenizer):
        raise InvalidSetting(
            f"the archive needs the model {name} itself (prior {header.prior}), and only a tokenizer was given"
        )
    if fingerprint_prefix(model.fingerprint, MODEL_FINGERPRINT_BYTES) != header.model_fingerprint:
        raise IncompatibleContainer(
            f"the archive was made with {name} ({header.model_fingerprint.hex()}), not with {model.id} "
            f"({model.fingerprint[:16]}); load the model that it names"
        )
    if header.context_window > model.context_length:
        raise CorruptContainer(
            f"windows of {header.context_window} tokens do not fit {model.id}; the header is damaged"
        )


def fingerprint_prefix(fingerprint: str, n_bytes: int) -> bytes:
    """The first bytes of a fingerprint in hex."""
    return bytes.fromhex(fingerprint)[:n_bytes]
