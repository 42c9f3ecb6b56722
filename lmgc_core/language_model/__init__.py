"""Language models as priors: text ↔ token ids, and ids → bits over a support.

`load_tokenizer` needs the tokenizers library alone; `load_model` needs torch and transformers. Both are
imported on first use. A model is a catalogue id, a folder, a .gguf file or a Hub id.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmgc_core.language_model.catalogue import CATALOGUE
    from lmgc_core.language_model.fetch import FetchProgress, fetch_model
    from lmgc_core.language_model.identity import known_fingerprint
    from lmgc_core.language_model.load import load_model, load_tokenizer
    from lmgc_core.language_model.locate import catalogue_rows, is_here
    from lmgc_core.language_model.model import LanguageModel
    from lmgc_core.language_model.scoring import WindowScores
    from lmgc_core.language_model.tokenizer import TextTokenizer

_HOMES = {
    "CATALOGUE": "catalogue",
    "catalogue_rows": "locate",
    "FetchProgress": "fetch",
    "fetch_model": "fetch",
    "is_here": "locate",
    "known_fingerprint": "identity",
    "LanguageModel": "model",
    "load_model": "load",
    "load_tokenizer": "load",
    "TextTokenizer": "tokenizer",
    "WindowScores": "scoring",
}

__all__ = [
    "CATALOGUE",
    "FetchProgress",
    "LanguageModel",
    "TextTokenizer",
    "WindowScores",
    "catalogue_rows",
    "fetch_model",
    "is_here",
    "known_fingerprint",
    "load_model",
    "load_tokenizer",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"lmgc_core.language_model.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'lmgc_core.language_model' has no attribute {name!r}")
