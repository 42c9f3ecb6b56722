"""A model's fingerprint: the same weights, configuration and tokenizer have the same, wherever they lie.

Hashing runs at about 1 GB/s, so digests of weights are kept in the cache folder, by the files' paths,
sizes and times. Weights dequantised from a .gguf are identified by the .gguf itself.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from lmgc_core.language_model.cache import cache_folder, read_json, write_json
from lmgc_core.language_model.convert import ORIGIN_FILE, file_sha256

CONFIG_NOISE = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache", "architectures")


def model_fingerprint(folder: Path, tokenizer_fingerprint: str) -> str:
    """SHA-256 that identifies a model and its tokenizer, hex."""
    state = hashlib.sha256(b"lmgc model 1\n")
    state.update(weights_identity(folder).encode())
    state.update(b"\n" + tokenizer_fingerprint.encode())
    return state.hexdigest()


def weights_identity(folder: Path) -> str:
    """What stands for a folder's weights and configuration: its .gguf's digest, or those of its files."""
    origin = read_json(folder / ORIGIN_FILE)
    weights = folder / "model.safetensors"
    if isinstance(origin, dict) and weights.is_file():
        now = weights.stat()
        if (now.st_size, now.st_mtime_ns) == (origin.get("weights_bytes"), origin.get("weights_mtime_ns")):
            return f"gguf {origin.get('gguf_sha256')}"
    config = read_json(folder / "config.json") or {}
    kept = {name: value for name, value in config.items() if name not in CONFIG_NOISE}
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    digests = [f"{path.name} {_digest(path)}" for path in files]
    return "\n".join([json.dumps(kept, sort_keys=True), *digests])


def _digest(path: Path) -> str:
    """The file's SHA-256, from the cache where the file has not changed since."""
    status = path.stat()
    place = str(path.resolve())
    stamp = [place, status.st_size, status.st_mtime_ns]
    kept = cache_folder() / "digests" / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.json"
    known = read_json(kept)
    if isinstance(known, dict) and known.get("stamp") == stamp:
        return str(known["sha256"])
    digest = file_sha256(path)
    with suppress(OSError):  # a cache that cannot be written costs time, not the result
        write_json(kept, {"stamp": stamp, "sha256": digest})
    return digest


def known_fingerprint(id_or_path: str) -> str | None:
    """The fingerprint that a model would have if it were loaded now, found without loading it.

    None where the model is not here, so that nothing is known; "" for a .gguf file that has not been read yet, which
    therefore is none that has predicted anything.
    """
    from lmgc_core.errors import LmgcError
    from lmgc_core.language_model.cache import model_folder
    from lmgc_core.language_model.locate import is_here, locate
    from lmgc_core.language_model.tokenizer import tokenizer_of_folder

    try:
        if not is_here(id_or_path):
            return None
        path = Path(id_or_path).expanduser()
        if path.is_file():
            folder = model_folder(f"gguf-{_digest(path)[:32]}")
            if not folder.is_dir():
                return ""
        else:
            folder = locate(id_or_path).folder
        return model_fingerprint(folder, tokenizer_of_folder(folder).fingerprint)
    except (LmgcError, OSError):
        return None
