"""Which parameters of a module are recorded, and under which names.

The names are those of the module its author wrote, not those that wrappers put in front.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lmgc_core.errors import InvalidSetting

if TYPE_CHECKING:
    import torch


WRAPPER_LEVELS = re.compile(r"\b(_orig_mod|_checkpoint_wrapped_module)\.")  # of torch.compile and checkpointing, inside


def unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """The module inside DistributedDataParallel, DataParallel and torch.compile, however nested."""
    import torch

    while True:
        if isinstance(module, torch.nn.parallel.DistributedDataParallel | torch.nn.DataParallel):
            module = module.module
        elif isinstance(inner := getattr(module, "_orig_mod", None), torch.nn.Module):
            module = inner
        elif isinstance(module, torch.nn.Module):
            return module
        else:
            raise InvalidSetting(f"module is a {type(module).__name__}; a torch.nn.Module is needed")


def name_pattern(include: str | None) -> re.Pattern[str] | None:
    """The compiled regular expression, None for none.

    Raises:
        InvalidSetting: if it isn't one.
    """
    if include is None:
        return None
    try:
        return re.compile(include)
    except (re.error, TypeError) as error:
        raise InvalidSetting(f"include {include!r} is not a regular expression: {error}") from None


def chosen_parameters(module: torch.nn.Module, include: re.Pattern[str] | None) -> dict[str, torch.nn.Parameter]:
    """The parameters to record, by name; those of compiled or checkpointed parts without the wrapper's level.

    Raises:
        InvalidSetting: when none is trained or chosen, or a chosen one is sharded or complex.
    """
    everything = {WRAPPER_LEVELS.sub("", name): p for name, p in module.named_parameters()}
    if not any(p.requires_grad for p in everything.values()):
        raise InvalidSetting(f"{type(module).__name__} has no parameter that is trained; nothing can be recorded")
    chosen = {name: p for name, p in everything.items() if include is None or include.search(name)}
    if not chosen:
        some = ", ".join(list(everything)[:8])
        pattern = include.pattern if include else ""
        raise InvalidSetting(f"include {pattern!r} is found in no parameter's name; there are {some}")
    for name, p in chosen.items():
        if type(p.data).__name__ == "DTensor":
            raise InvalidSetting(f"parameter {name!r} is sharded over processes; only whole parameters are recorded")
        if p.is_complex():
            raise InvalidSetting(
                f"parameter {name!r} is complex, which gradient files can't hold; leave it out by include"
            )
    return chosen
