"""Named lists of settings for `compare`: what stands in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lmgc_core.errors import InvalidSetting
from lmgc_core.settings import DEFAULT_MODEL, CodecConfig, Separator, preset

SEPARATORS: tuple[Separator, ...] = ("none", "space", "comma", "comma+space", "semicolon", "newline", "0x")
GROUP_SIZES = (1, 2, 3, 4, 8)
CONTEXT_WINDOWS = (256, 512, 1024, 2048, 4096)


def paper_grid(model: str = DEFAULT_MODEL, **shared: Any) -> list[CodecConfig]:
    """The authors' table: ISO and hex with each separator, then group sizes, then context windows, one at a time.

    Everything else is preset paper's; no separator is the same as no groups. Source: Wang & Fritz, NeurIPS 2024, the
    tables on serialization, on grouped bytes and on context.
    """
    rows: list[dict[str, Any]] = [{"alphabet": "iso", "separator": "none"}]
    rows += [{"separator": separator} for separator in SEPARATORS]
    rows += [{"group_size": size} for size in GROUP_SIZES]
    rows += [{"context_window": window} for window in CONTEXT_WINDOWS]
    return _distinct("paper", rows, model, shared)


def quick_grid(model: str = DEFAULT_MODEL, **shared: Any) -> list[CodecConfig]:
    """What a visitor asks first: the presets, and what each prior makes of the best one."""
    rows: list[dict[str, Any]] = [{"preset": "best", "prior": prior} for prior in ("mix", "counts", "llm")]
    rows += [{"preset": "lean", "prior": prior} for prior in ("mix", "llm")]
    rows += [{"preset": "paper", "support": "alphabet", "context_window": 1024, "prior": "llm"}]
    return _distinct("best", rows, model, shared)


def _distinct(default: str, rows: list[dict[str, Any]], model: str, shared: dict[str, Any]) -> list[CodecConfig]:
    made = [preset(row.pop("preset", default), model=model, **{**row, **shared}) for row in map(dict, rows)]
    return list({replace(config, explicit=()): config for config in reversed(made)}.values())[::-1]


GRIDS: dict[str, Callable[..., list[CodecConfig]]] = {"paper": paper_grid, "quick": quick_grid}
QUICK_LIMIT = 4  # the fewest blocks that have an interval


def grid(name: str, model: str = DEFAULT_MODEL, **shared: Any) -> list[CodecConfig]:
    """The settings of a named grid.

    Args:
        name: "paper" or "quick".
        model: predicts every row.
        shared: options that hold in every row, e.g. a lossy step or a seed.

    Raises:
        InvalidSetting: for another name, or an option that does not exist.

    >>> len(grid("paper")), len(grid("quick"))
    (16, 6)
    """
    if name not in GRIDS:
        raise InvalidSetting(f"grid {name!r} is not known; choose one of {', '.join(GRIDS)}")
    return GRIDS[name](model, **shared)
