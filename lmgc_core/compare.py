"""Several settings on one sample of one gradient, with baselines and null controls.

The blocks do not depend on the serialization, so every row is about the same parameters (a sparsifier apart,
which has fewer to code) and rows may be compared pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lmgc_core.baselines import BaselineResult, run_baselines
from lmgc_core.codec import Progress, measure
from lmgc_core.controls import ALARM_RATE, CONTROLS
from lmgc_core.errors import Cancelled
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import LanguageModel
from lmgc_core.report import Report
from lmgc_core.settings import DEFAULT_LIMIT, CodecConfig, RunOptions

CONTROL_LIMIT = 2


@dataclass(frozen=True, slots=True)
class Control:
    """A null control measured with a row's settings; `alarm` means that the counting must be wrong."""

    id: str
    compression_rate: float | None
    alarm: bool


@dataclass(frozen=True)
class Comparison:
    """Rows in the order of their settings; fewer than asked for if the run was stopped.

    Attributes:
        rows: one report a configuration.
        baselines: other compressors on the whole gradient.
        controls: null controls under the first row's settings.
        stopped: the run was ended early.
    """

    rows: tuple[Report, ...]
    baselines: tuple[BaselineResult, ...]
    controls: tuple[Control, ...]
    stopped: bool = False

    @property
    def pareto(self) -> tuple[int, ...]:
        """Row numbers that no other row beats in both bits and tokens per parameter."""
        return pareto_front([(r.totals.bits_per_parameter, r.totals.tokens_per_parameter) for r in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """As `compare --json` prints it."""
        rows = [report.to_dict() for report in self.rows]
        return {
            "rows": [{"settings": row["settings"], "totals": row["totals"]} for row in rows],
            "baselines": [asdict(b) for b in self.baselines],
            "controls": {c.id: {"compression_rate": c.compression_rate, "alarm": c.alarm} for c in self.controls},
            "pareto": list(self.pareto),
        }


def compare(
    gradient: Gradient,
    model: LanguageModel,
    configs: Sequence[CodecConfig],
    *,
    limit: int = DEFAULT_LIMIT,
    seed: int | None = None,
    options: RunOptions | None = None,
    on_row: Callable[[Report], None] | None = None,
    on_progress: Callable[[int, Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Comparison:
    """Each configuration measured on the same seeded sample, then baselines and null controls.

    Args:
        configs: what to compare; each gives one row.
        limit, seed, options: as for `measure`.
        on_row: called with each finished report.
        on_progress: called with the row's number and its progress.
        should_stop: asked between batches; rows that are done are kept.
    """
    rows: list[Report] = []
    try:
        for number, config in enumerate(configs):

            def progress(now: Progress, number: int = number) -> None:
                if on_progress is not None:
                    on_progress(number, now)

            report = measure(
                gradient,
                model,
                config,
                limit=limit,
                seed=seed,
                options=options,
                on_progress=progress,
                should_stop=should_stop,
            )
            rows.append(report)
            if on_row is not None:
                on_row(report)
        baselines = tuple(run_baselines(gradient, should_stop=should_stop))
        controls = tuple(
            run_control(name, gradient, model, configs[0], seed=seed, options=options, should_stop=should_stop)
            for name in CONTROLS
            if configs
        )
    except Cancelled:
        return Comparison(tuple(rows), (), (), stopped=True)
    return Comparison(tuple(rows), baselines, controls)


def run_control(
    name: str,
    gradient: Gradient,
    model: LanguageModel,
    config: CodecConfig,
    *,
    seed: int | None = None,
    options: RunOptions | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Control:
    """One null control on a few blocks. A rate below 99.9 % on random bits is an alarm."""
    null = CONTROLS[name](gradient, config.seed if seed is None else seed)
    report = measure(null, model, config, limit=CONTROL_LIMIT, seed=seed, options=options, should_stop=should_stop)
    rate = report.totals.compression_rate
    return Control(name, rate, name == "random_bits" and rate is not None and rate < ALARM_RATE)


def pareto_front(points: Sequence[tuple[float | None, float | None]]) -> tuple[int, ...]:
    """Indices of the points that no other point beats or equals in both coordinates; lower is better.

    >>> pareto_front([(26.0, 2.1), (27.0, 0.7), (28.0, 1.0), (None, None)])
    (0, 1)
    """
    known = [(i, a, b) for i, (a, b) in enumerate(points) if a is not None and b is not None]
    front = []
    for i, a, b in known:
        beaten = any((c <= a and d <= b) and ((c, d) != (a, b) or j < i) for j, c, d in known if j != i)
        if not beaten:
            front.append(i)
    return tuple(front)
