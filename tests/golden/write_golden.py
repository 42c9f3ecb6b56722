"""Writes the golden archives of the current format version; what exists is never written again.

python -m tests.golden.write_golden
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lmgc_core.archive import compress
from lmgc_core.container import VERSION
from lmgc_core.language_model import load_model
from lmgc_core.settings import preset
from tests import tiny_models
from tests.archive_cases import awkward_gradient

HERE = Path(__file__).parent


def main() -> None:
    """Adds the archives that are missing, and their digests."""
    folder = HERE / "model"
    if not folder.exists():
        tokenizer = tiny_models.byte_level_tokenizer()
        config = tiny_models.llama_config(tokenizer.get_vocab_size(), tie_word_embeddings=True, hidden_size=16)
        roles = {"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>"}
        tiny_models.save_folder(folder, config, tokenizer, roles)
    model = load_model(str(folder))
    model.id = "tests/golden/model"
    listed = HERE / "digests.json"
    digests = json.loads(listed.read_text("utf-8")) if listed.exists() else {}
    for name in ("paper", "lean", "best", "lossy"):
        path = HERE / f"v{VERSION}_{name}.lmgc"
        if path.exists():
            continue
        gradient = awkward_gradient()
        config = preset(name if name != "lossy" else "best", context_window=256, segment=2)
        if name == "lossy":
            gradient = gradient.select(["z.w", "b"])
            config = preset("best", context_window=256, segment=2, transform="topk:0.5+uniform:4")
        result = compress(gradient, model, config, verify="all")
        path.write_bytes(result.archive)
        digests[path.stem] = result.report["sha256"]
        sys.stderr.write(f"wrote {path.name}\n")
    listed.write_text(json.dumps(digests, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
