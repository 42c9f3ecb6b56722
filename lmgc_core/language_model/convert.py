"""A .gguf file as a folder that transformers and tokenizers read: weights dequantised once, bit for bit.

Runs in a child process (`python -m lmgc_core.language_model.convert GGUF FOLDER`): reading GGUF holds
the interpreter for seconds, takes memory that is better given back, and libraries talk to stderr meanwhile.
The weights are kept as fp32, the type in which dequantised 4-bit values (half-precision scale times
integer, plus half-precision offset) are exact as computed; bf16 or fp16 would round them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lmgc_core.errors import LmgcError, ModelUnavailable
from lmgc_core.language_model.cache import build_in_place, model_folder
from lmgc_core.language_model.children import last_line, run_child
from lmgc_core.language_model.gguf_file import GgufFile
from lmgc_core.language_model.gguf_llama import is_plain_llama, write_folder

ORIGIN_FILE = "lmgc.json"
READ_BYTES = 1 << 20


def file_sha256(path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file's content, hex.

    Raises:
        ModelUnavailable: when it cannot be read.
    """
    state = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(READ_BYTES):
                state.update(chunk)
                if on_bytes is not None:
                    on_bytes(len(chunk))
    except OSError as error:
        raise ModelUnavailable(f"{path} cannot be read ({error.strerror or error})") from None
    return state.hexdigest()


def convert_gguf(
    gguf: Path,
    folder: Path,
    gguf_sha256: str,
    on_tick: Callable[[], None] = lambda: None,
    should_stop: Callable[[], bool] | None = None,
) -> None:
    """Fills `folder` with model.safetensors, config.json and the tokenizer of a .gguf file.

    Raises:
        ModelUnavailable: when the file is no GGUF of an architecture that transformers reads.
        Cancelled: when asked to stop.
    """
    package_home = str(Path(__file__).resolve().parents[2])
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([package_home, *filter(None, [environment.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "lmgc_core.language_model.convert", str(gguf), str(folder)]
    status, output = run_child(command, environment, on_tick, should_stop)
    if status != 0 or not (folder / "model.safetensors").is_file():
        raise ModelUnavailable(f"{gguf.name} cannot be used as a model: {last_line(output) or 'the reader stopped'}")
    weights = (folder / "model.safetensors").stat()
    origin = {"gguf_sha256": gguf_sha256, "weights_bytes": weights.st_size, "weights_mtime_ns": weights.st_mtime_ns}
    (folder / ORIGIN_FILE).write_text(json.dumps(origin), encoding="utf-8")


def folder_of_gguf(gguf: Path, should_stop: Callable[[], bool] | None = None) -> Path:
    """The converted folder of any .gguf file, made on first use and found by the file's digest afterwards.

    Raises:
        ModelUnavailable: when there is no such file, or it cannot be used.
    """
    if not gguf.is_file():
        raise ModelUnavailable(f"there is no file {gguf}; give a .gguf file, a folder, a Hub id or a catalogue id")
    digest = file_sha256(gguf)
    key = f"gguf-{digest[:32]}"
    if not model_folder(key).is_dir():
        with build_in_place(key, should_stop) as folder:
            if folder is not None:
                convert_gguf(gguf, folder, digest, should_stop=should_stop)
    return model_folder(key)


def _convert_here(gguf: Path, folder: Path) -> None:
    """The child's work: our own reader for plain Llamas, transformers for everything else."""
    file = GgufFile(gguf)
    if is_plain_llama(file):
        write_folder(file, folder)
    else:
        convert_with_transformers(gguf, folder)


def convert_with_transformers(gguf: Path, folder: Path) -> None:
    """The same folder, read by transformers: any architecture it knows, in a minute or so."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    tied = set(getattr(model, "all_tied_weights_keys", None) or {}) if model.config.tie_word_embeddings else set()
    weights = {name: w.contiguous() for name, w in model.state_dict().items() if name not in tied}
    config: dict[str, Any] = model.config.to_dict()
    for noise in ("quantization_config", "_name_or_path", "transformers_version"):
        config.pop(noise, None)
    config["architectures"] = [type(model).__name__]
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True), encoding="utf-8")
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    special = {name: getattr(tokenizer, name) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
    (folder / "tokenizer_config.json").write_text(json.dumps(special, indent=1), encoding="utf-8")
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})


if __name__ == "__main__":
    try:
        _convert_here(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
    except LmgcError as error:
        sys.exit(f"ERROR: {error}")
    except Exception as error:  # the parent shows this one line
        sys.exit(f"ERROR: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
