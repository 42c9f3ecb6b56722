"""What cannot be loaded is refused in one clear line."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lmgc_core.errors import LmgcError, ModelUnavailable
from lmgc_core.language_model import hub, is_here, load, load_model, load_tokenizer
from lmgc_core.settings import RunOptions


def test_a_model_that_looks_to_the_right_is_refused(tiny_folder: Callable[[str], Path]) -> None:
    with pytest.raises(ModelUnavailable, match="not a causal language model"):
        load_model(str(tiny_folder("tiny_bidirectional")))


def test_an_encoder_decoder_is_refused(tmp_path: Path, tiny_folder: Callable[[str], Path]) -> None:
    folder = shutil.copytree(tiny_folder("tiny_llama"), tmp_path / "t5")
    (folder / "config.json").write_text('{"model_type": "t5", "is_encoder_decoder": true}', encoding="utf-8")
    with pytest.raises(ModelUnavailable, match="not a causal language model"):
        load_model(str(folder))


def test_an_unknown_architecture_and_code_of_its_own(tmp_path: Path, tiny_folder: Callable[[str], Path]) -> None:
    folder = shutil.copytree(tiny_folder("tiny_llama"), tmp_path / "own")
    canary = tmp_path / "canary"
    (folder / "modeling_own.py").write_text(f"open({str(canary)!r}, 'w')\n", encoding="utf-8")
    auto = {"AutoConfig": "modeling_own.Config", "AutoModelForCausalLM": "modeling_own.Model"}
    (folder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": auto}), encoding="utf-8")
    with pytest.raises(ModelUnavailable, match=r"code of its own|not a causal language model"):
        load_model(str(folder))
    assert not canary.exists()


def test_damaged_weights(tmp_path: Path, tiny_folder: Callable[[str], Path]) -> None:
    folder = shutil.copytree(tiny_folder("tiny_llama"), tmp_path / "cut")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors"):
        load_model(str(folder))


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"no config\.json"):
        load_model(str(tmp_path))
    with pytest.raises(ModelUnavailable, match=r"no config\.json"):
        load_tokenizer(str(tmp_path))


def test_memory_is_compared_before_loading(tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "available_memory", lambda: 1_000_000)
    with pytest.raises(ModelUnavailable, match=r"takes about 0\.3 GB of memory as fp32 and 0\.0 GB are free"):
        load_model(str(tiny_folder("tiny_llama")), RunOptions(device="cpu"))


def test_a_device_that_is_not_there(tiny_folder: Callable[[str], Path]) -> None:
    with pytest.raises(LmgcError, match="device 'nonesuch' cannot be used here"):
        load_model(str(tiny_folder("tiny_llama")), RunOptions(device="nonesuch"))


def test_fingerprints_follow_weights_and_configuration(tmp_path: Path, tiny_folder: Callable[[str], Path]) -> None:
    first = load_model(str(tiny_folder("tiny_llama"))).fingerprint
    copied = shutil.copytree(tiny_folder("tiny_llama"), tmp_path / "copy")
    assert load_model(str(copied)).fingerprint == first
    config = json.loads((copied / "config.json").read_text(encoding="utf-8"))
    (copied / "config.json").write_text(json.dumps(config | {"transformers_version": "0"}), encoding="utf-8")
    assert load_model(str(copied)).fingerprint == first
    (copied / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-3}), encoding="utf-8")
    assert load_model(str(copied)).fingerprint != first


@pytest.mark.parametrize("name", ["no such model", "../up", "a/b/c", "", "http://example.org/x"])
def test_what_is_no_name_of_a_model(name: str) -> None:
    assert not is_here(name) or name == ""
    with pytest.raises(ModelUnavailable):
        load_tokenizer(name)


def test_the_hub_out_of_reach_is_one_line(tmp_path: Path) -> None:
    """The real client, against a port where nothing answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    code = (
        "from lmgc_core.errors import ModelUnavailable\n"
        "from lmgc_core.language_model import load_model\n"
        "try:\n    load_model('gpt2')\n"
        "except ModelUnavailable as error:\n    print(error)\n"
    )
    environment = {**os.environ, "HF_ENDPOINT": f"http://127.0.0.1:{port}", "HF_HOME": str(tmp_path)}
    environment.pop("HF_HUB_OFFLINE", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "cannot be reached to fetch openai-community/gpt2" in done.stdout
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr


class Response:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


def hub_error(name: str, status: int | None = None) -> Exception:
    error = type(name, (Exception,), {})("long text\nof several lines")
    if status is not None:
        error.response = Response(status)  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "gated", "message"),
    [
        (hub_error("GatedRepoError", 403), False, "is gated: accept its licence at https://huggingface.co/a/b"),
        (hub_error("HfHubHTTPError", 401), True, "is gated"),
        (hub_error("RepositoryNotFoundError", 401), False, "no model called 'a/b'"),
        (hub_error("HfHubHTTPError", 503), False, r"refused a/b \(HTTP 503\)"),
        (hub_error("ConnectTimeout"), False, "cannot be reached"),
        (OSError(28, "No space left on device"), False, "no space left"),
    ],
)
def test_each_failure_of_the_hub_has_its_line(error: Exception, gated: bool, message: str) -> None:
    import re

    line = hub.explain("a/b", error, gated)
    assert re.search(message, line)
    assert "\n" not in line


def test_safetensors_are_wanted_before_pickles() -> None:
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    names = ["config.json", "tokenizer.json", "pytorch_model.bin", *shards, "onnx/model.onnx", "evil.py"]
    assert hub.wanted_files(names, "a/b", True) == ["config.json", "tokenizer.json", *shards]
    assert hub.wanted_files(names, "a/b", False) == ["config.json", "tokenizer.json"]
    assert hub.wanted_files(["config.json", "pytorch_model.bin"], "a/b", True)[-1] == "pytorch_model.bin"
    for missing in (["README.md"], ["config.json", "model.gguf"]):
        with pytest.raises(ModelUnavailable, match="a/b has no"):
            hub.wanted_files(missing, "a/b", True)


def test_pickled_weights_load_through_the_safe_reader(tmp_path: Path, tiny_folder: Callable[[str], Path]) -> None:
    import torch
    from safetensors.torch import load_file

    folder = shutil.copytree(tiny_folder("tiny_llama"), tmp_path / "pickled")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert load_model(str(folder)).n_parameters == load_model(str(tiny_folder("tiny_llama"))).n_parameters

    class Harmful:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "canary"),)

    torch.save(weights | {"extra": Harmful()}, folder / "pytorch_model.bin")
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        load_model(str(folder))
    assert not (tmp_path / "canary").exists()
