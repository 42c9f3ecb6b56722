"""Models from the Hugging Face Hub, as a folder of files; every way in which that fails is one line within seconds.

Only files are fetched here; reading them is the same code as for a local folder. What is already in
the Hub's own cache is used without asking the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

from lmgc_core.errors import Cancelled, LmgcError, ModelUnavailable

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
TOKENIZER_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "tokenizer.model",
    "spiece.model",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
)
SAFE_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model-?????-of-?????.safetensors")
PICKLED_WEIGHTS = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-?????-of-?????.bin")
CONTACT_SECONDS = 8.0


def hub_folder(
    repository: str,
    *,
    weights: bool = True,
    gated: bool = False,
    should_stop: Callable[[], bool] | None = None,
) -> Path:
    """The local folder of a Hub repository's files, fetched where they are not in the Hub's cache.

    Args:
        repository: "owner/name", or one of the old single names such as "gpt2".
        weights: also the weights, not the tokenizer and configuration alone.
        gated: known to need an account, for a better message.

    Raises:
        ModelUnavailable: when it does not exist, is gated, the Hub cannot be reached, or it has no usable files.
    """
    if not REPOSITORY.fullmatch(repository):
        raise ModelUnavailable(
            f"{repository!r} is no folder, no .gguf file, no catalogue id and no Hub id (owner/name)"
        )
    kept = kept_folder(repository, weights=weights)
    if kept is not None:
        return kept
    import huggingface_hub as hub

    try:
        info = hub.HfApi().model_info(repository, timeout=CONTACT_SECONDS)
        wanted = wanted_files([file.rfilename for file in info.siblings or ()], repository, weights)
        folder = hub.snapshot_download(
            repository,
            revision=info.sha,
            allow_patterns=wanted,
            etag_timeout=CONTACT_SECONDS,
            max_workers=2,
            tqdm_class=_silent_bar(should_stop),
        )
    except LmgcError:
        raise
    except Exception as error:  # the client's own errors, and those of the HTTP library below it
        raise ModelUnavailable(explain(repository, error, gated)) from None
    return Path(folder)


def _silent_bar(should_stop: Callable[[], bool] | None) -> Any:
    """A progress bar that draws nothing, through which a download can be stopped."""
    bar: Any = import_module("tqdm").tqdm

    class SilentBar(bar):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.pop("name", None)
            super().__init__(*args, **{**kwargs, "disable": True})

        def update(self, n: float | None = 1) -> bool | None:
            if should_stop is not None and should_stop():
                raise Cancelled("stopped while fetching a model; what had come stays in the Hub's own cache")
            return None

    return SilentBar


def kept_folder(repository: str, *, weights: bool = True) -> Path | None:
    """The folder in the Hub's cache, if all that is needed stands there; never asks the network."""
    try:
        import huggingface_hub as hub

        folder = Path(hub.snapshot_download(repository, local_files_only=True))
    except Exception:  # not there: the client has several ways to say so
        return None
    names = {path.name for path in folder.iterdir()}
    has_tokenizer = bool(names & {"tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model", "vocab.txt"})
    if "config.json" not in names or not has_tokenizer:
        return None
    return folder if not weights or has_all_weights(folder) else None


def has_all_weights(folder: Path) -> bool:
    """Whether a folder holds a single file of weights, or every shard its index names."""
    from lmgc_core.language_model.cache import read_json

    for single, index in ((SAFE_WEIGHTS[0], SAFE_WEIGHTS[1]), (PICKLED_WEIGHTS[0], PICKLED_WEIGHTS[1])):
        if (folder / single).is_file():
            return True
        shards = (read_json(folder / index) or {}).get("weight_map")
        if shards and all((folder / name).is_file() for name in set(shards.values())):
            return True
    return False


def wanted_files(names: Sequence[str], repository: str, weights: bool) -> list[str]:
    """The files to fetch: tokenizer, configuration and weights, in safetensors where there are any.

    >>> wanted_files(["config.json", "pytorch_model.bin", "model.safetensors", "README.md"], "a/b", True)
    ['config.json', 'model.safetensors']

    Raises:
        ModelUnavailable: when the repository has no configuration or no weights of either kind.
    """
    chosen = [name for name in names if name in TOKENIZER_FILES]
    if "config.json" not in chosen:
        raise ModelUnavailable(f"{repository} has no config.json: it is not a model that transformers reads")
    if not weights:
        return chosen
    for kind in (SAFE_WEIGHTS, PICKLED_WEIGHTS):
        found = [name for name in names if any(fnmatch(name, pattern) for pattern in kind)]
        if any(not name.endswith(".json") for name in found):
            return chosen + found
    raise ModelUnavailable(f"{repository} has no weights as safetensors or .bin; pick a repository that has")


def explain(repository: str, error: Exception, gated: bool) -> str:
    """One line for whatever went wrong between here and the Hub."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status: Any = getattr(getattr(error, "response", None), "status_code", None)
    if "GatedRepoError" in kinds or (gated and status in (401, 403)):
        return (
            f"{repository} is gated: accept its licence at https://huggingface.co/{repository}, "
            "then log in with `hf auth login` and try again"
        )
    if kinds & {"RepositoryNotFoundError", "RevisionNotFoundError"} or status in (401, 404):
        return f"the Hub has no model called {repository!r} (or it is private); check the spelling"
    if isinstance(error, OSError) and error.errno == 28:
        return f"no space left for {repository}; free some, or set HF_HOME to another disk"
    if "HTTPStatusError" in kinds or "HfHubHTTPError" in kinds:
        return f"the Hub refused {repository} (HTTP {status}); try again later"
    return (
        f"the Hugging Face Hub cannot be reached to fetch {repository}; check the connection, "
        f"or give --model a local folder of it (the default model needs no Hub)"
    )
