"""What a measuring run is asked: the gradient, what its result depends on, and the id that follows from both.

Two runs with the same id would give the same numbers, up to what the model's own files add (its fingerprint is
compared apart, since it is known only where the model is). Names, titles, batch size and threads are not part of it.
A preset counts as what it chooses for the gradient's types, so that a preset and its settings spelled out are one
question; a sample of all blocks and the whole gradient are one, too.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from lmgc_core.blocks import plan_blocks
from lmgc_core.gradient import DTYPES, Gradient
from lmgc_core.settings import CodecConfig, RunOptions

KIND = "measure"
RESULTS = 1  # to be raised when `measure` gives other numbers for the same question


def question_id(kind: str, facts: Any) -> str:
    """Twelve hex digits that stand for one piece of work.

    >>> question_id("measure", {"a": 1, "b": 2}) == question_id("measure", {"b": 2, "a": 1})
    True
    """
    text = json.dumps([kind, facts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Question:
    """One call of `measure`, before it is made.

    Attributes:
        gradient, config, limit, seed, options: as for `measure`; `seed` None is the configuration's.
    """

    gradient: Gradient
    config: CodecConfig
    limit: int
    seed: int | None = None
    options: RunOptions = field(default_factory=RunOptions)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """All that the numbers depend on, apart from the model's files."""
        config = self.config
        dtypes = {t.dtype.name for t in self.gradient} if config.transform == "none" else set(DTYPES)
        limit = self.limit
        if config.transform == "none" and limit >= len(plan_blocks(self.gradient.specs)):
            limit = 0
        return {
            "results": RESULTS,
            "gradient": self.gradient.identity,
            "model": config.model,
            "serialization": {name: asdict(config.serialization(DTYPES[name])) for name in sorted(dtypes)},
            "context_window": config.context_window,
            "support": config.support,
            "prior": config.prior,
            "segment": config.segment,
            "transform": config.transform,
            "seeds": [config.seed, config.seed if self.seed is None else self.seed],
            "limit": limit,
            "dtype": self.options.dtype,
            "device": self.options.device,
        }

    @property
    def id(self) -> str:
        """The run's id: the same in addresses, on the command line and in the store."""
        return question_id(KIND, self.facts)


def config_of(stored: dict[str, Any]) -> CodecConfig:
    """The inverse of `CodecConfig.to_dict`.

    >>> config_of(CodecConfig(alphabet="iso").to_dict()) == CodecConfig(alphabet="iso")
    True
    """
    return CodecConfig(**{**stored, "explicit": tuple(stored.get("explicit", ()))})
