"""The choice between this process and a cluster, and how another process comes by the very same model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from lmgc_core.errors import ModelUnavailable
from lmgc_core.language_model import LanguageModel, load_model
from lmgc_core.ray_pool import actor_pool
from lmgc_core.runner import LocalRunner, Runner
from lmgc_core.settings import RunOptions


def open_runner(
    here: Any, elsewhere: Callable[[RunOptions], Any], options: RunOptions
) -> AbstractContextManager[Runner]:
    """A runner for the time of a `with` block.

    Args:
        here: the model that a local runner works with.
        elsewhere: makes an equal one in another process, with that process's options; can be pickled.
        options: which backend, and how much of it.

    Raises:
        LmgcError: when Ray is not installed or its cluster cannot be reached.
    """
    return actor_pool(elsewhere, options) if options.backend == "ray" else nullcontext(LocalRunner(here))


def same_model(model_id: str, fingerprint: str, options: RunOptions) -> LanguageModel:
    """The model of that name, if it is the very one that is meant.

    Raises:
        ModelUnavailable: when it is another one here, or cannot be had.
    """
    model = load_model(model_id, options)
    if model.fingerprint != fingerprint:
        raise ModelUnavailable(
            f"{model_id} is another model on this node ({model.fingerprint[:12]}, not {fingerprint[:12]}); "
            "put the same files on every node"
        )
    return model


def name_elsewhere(model_id: str) -> str:
    """A model's name as other processes of this machine, and nodes that share its files, understand it."""
    path = Path(model_id).expanduser()
    return str(path.resolve()) if path.exists() else model_id
