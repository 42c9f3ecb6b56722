"""Writes the golden archives of the current format version; what exists is not written again.

python -m tests.golden.write_golden [--again]

`--again` makes all of them anew: only as long as the format's version has not been released.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lmgc_core.archive import compress
from lmgc_core.container import VERSION
from lmgc_core.language_model import load_model
from lmgc_core.settings import CodecConfig, preset
from tests import tiny_models
from tests.archive_cases import awkward_gradient

HERE = Path(__file__).parent
SMALL = {"context_window": 256, "segment": 2}
CASES: dict[str, CodecConfig] = {
    "paper": preset("paper", **SMALL),
    "lean": preset("lean", **SMALL),
    "best": preset("best", **SMALL),
    "llm": preset("best", prior="llm", **SMALL),
    "counts": preset("best", prior="counts", **SMALL),
    "mix": preset("best", prior="mix", **SMALL),
    "paper_mix": preset("paper", prior="mix", **SMALL),
    "lean_counts": preset("lean", prior="counts", **SMALL),
    "lossy": preset("best", transform="topk:0.5+uniform:4", **SMALL),
}
"""Settings by name; every prior with small numbers, and counts of tokens in a small and in a large support."""


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
    for name, config in CASES.items():
        path = HERE / f"v{VERSION}_{name}.lmgc"
        if path.exists() and "--again" not in sys.argv:
            continue
        gradient = awkward_gradient()
        if name == "lossy":
            gradient = gradient.select(["z.w", "b"])
        result = compress(gradient, model, config, verify="all")
        path.write_bytes(result.archive)
        digests[path.stem] = result.report["sha256"]
        sys.stderr.write(f"wrote {path.name}\n")
    listed.write_text(json.dumps(digests, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
