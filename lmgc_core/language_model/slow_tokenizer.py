"""Tokenizers that come without a tokenizer.json: transformers converts them once, the result is kept by digest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from lmgc_core.errors import ModelUnavailable
from lmgc_core.language_model.cache import cache_folder, read_json, write_json

SOURCES = ("tokenizer.model", "spiece.model", "vocab.json", "merges.txt", "vocab.txt", "tokenizer_config.json")


def tokenizer_content(folder: Path) -> Any:
    """A parsed tokenizer.json made from whatever tokenizer files a folder has.

    Raises:
        ModelUnavailable: when there are none, or transformers cannot convert them.
    """
    present = [folder / name for name in SOURCES if (folder / name).is_file()]
    if not any(path.name != "tokenizer_config.json" for path in present):
        raise ModelUnavailable(
            f"{folder} has no tokenizer (tokenizer.json, tokenizer.model or vocab.json are looked for)"
        )
    state = hashlib.sha256()
    for path in present:
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    kept = cache_folder() / "tokenizers" / f"{state.hexdigest()[:32]}.json"
    content = read_json(kept)
    if content is None:
        content = _convert(folder)
        write_json(kept, content)
    return content


def _convert(folder: Path) -> Any:
    from transformers import AutoTokenizer

    from lmgc_core.language_model.quiet import quiet_transformers

    with quiet_transformers():
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            return json.loads(tokenizer.backend_tokenizer.to_str())
        except Exception as error:  # every kind, from missing packages to damaged files
            reason = " ".join(str(error).split())[:200]
            raise ModelUnavailable(
                f"{folder} has only a tokenizer that cannot be converted ({reason}); put a tokenizer.json beside it"
            ) from None
