"""Several settings on one sample of one gradient, with baselines, null controls and an audit.

The blocks do not depend on the serialization, so every row is about the same parameters (a sparsifier apart,
which has fewer to code) and rows are compared pair by pair. Settings that differ only in whether the model is
mixed with counts share its passes; neither that nor the order of the settings changes a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lmgc_core.baselines import BaselineResult, run_baselines
from lmgc_core.blocks import Estimate, estimate_rate
from lmgc_core.codec import Progress, measure, measuring_runner
from lmgc_core.controls import ALARM_RATE, CONTROLS
from lmgc_core.errors import Cancelled, LmgcError
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import LanguageModel
from lmgc_core.report import Report
from lmgc_core.runner import Runner
from lmgc_core.settings import DEFAULT_LIMIT, CodecConfig, RunOptions
from lmgc_core.transforms import transform_gradient

CONTROL_LIMIT = 2


@dataclass(frozen=True, slots=True)
class Row:
    """What one of the settings gave; `number` is its place among them."""

    number: int
    report: Report


@dataclass(frozen=True, slots=True)
class Control:
    """A null control coded like the best row; the rate is of the bits that the control holds.

    `alarm`: random bits below 99.9 % of themselves, so the counting must be wrong.
    """

    id: str
    compression_rate: float | None
    alarm: bool


@dataclass(frozen=True)
class Comparison:
    """What is known so far.

    Attributes:
        rows: in the order in which they were done.
        refused: one line for each of the settings that do not fit, by number.
        baselines: other compressors on the whole gradient, by lossy step; rates are of the raw bits, what the step
            keeps beside the values included.
        controls: null controls under the best row's settings.
        stopped: the run was ended early.
    """

    rows: tuple[Row, ...] = ()
    refused: dict[int, str] = field(default_factory=dict)
    baselines: dict[str, tuple[BaselineResult, ...]] = field(default_factory=dict)
    controls: tuple[Control, ...] = ()
    stopped: bool = False

    @property
    def sorted_rows(self) -> tuple[Row, ...]:
        """The lowest rate first; rows without one last."""
        return tuple(sorted(self.rows, key=lambda r: (_rate(r.report) is None, _rate(r.report), r.number)))

    @property
    def best_rows(self) -> dict[str, Row]:
        """The row of the lowest rate for each lossy step: rates at different errors are not comparable."""
        found: dict[str, Row] = {}
        for row in self.sorted_rows:
            found.setdefault(step_of(row), row)
        return dict(sorted(found.items(), key=lambda item: (item[0] != "none", item[0])))

    @property
    def pareto(self) -> tuple[int, ...]:
        """Numbers of the settings that no others of their lossy step beat in both bits and tokens per parameter."""
        found: list[int] = []
        for step in self.best_rows:
            own = [r for r in self.rows if step_of(r) == step]
            points = [(r.report.totals.bits_per_parameter, r.report.totals.tokens_per_parameter) for r in own]
            found += [own[i].number for i in pareto_front(points)]
        return tuple(sorted(found))

    def to_dict(self) -> dict[str, Any]:
        """As `compare --json` prints it."""
        rows = []
        for row in sorted(self.rows, key=lambda r: r.number):
            report = row.report.to_dict()
            found = {name: report[name] for name in ("input", "model", "settings", "sample", "totals", "timing")}
            for name in ("audit", "error"):
                if name in report:
                    found[name] = report[name]
            gap = difference(row.report, self.best_rows[step_of(row)].report)
            known = gap is not None and gap.low is not None
            found["against_best"] = None if gap is None else {
                "compression_rate": gap.value, "ci95": [gap.low, gap.high] if known else None
            }  # fmt: skip
            rows.append(found)
        raw = self.baselines.get("none", ())
        return {
            "rows": rows,
            "refused": [{"number": n, "error": line} for n, line in sorted(self.refused.items())],
            "baselines": [asdict(b) for b in raw],
            "lossy_baselines": {t: [asdict(b) for b in found] for t, found in self.baselines.items() if t != "none"},
            "controls": {c.id: {"compression_rate": c.compression_rate, "alarm": c.alarm} for c in self.controls},
            "pareto": [
                i for i, r in enumerate(sorted(self.rows, key=lambda r: r.number)) if r.number in set(self.pareto)
            ],
        }


def compare(
    gradient: Gradient,
    model: LanguageModel,
    configs: Sequence[CodecConfig],
    *,
    limit: int = DEFAULT_LIMIT,
    seed: int | None = None,
    options: RunOptions | None = None,
    baselines: bool = True,
    on_change: Callable[[Comparison], None] | None = None,
    on_progress: Callable[[int, Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Comparison:
    """Each configuration measured on the same seeded sample, then baselines and null controls.

    Args:
        configs: what to compare; each gives one row, or one line that says why not.
        limit, options: as for `measure`.
        seed: of the sample; the first configuration's if not given.
        baselines: whether to run the other compressors, on the whole gradient after each lossy step.
        on_change: called with everything so far after each row, each step's baselines and each control.
        on_progress: called with the number of the settings being measured, and their progress.
        should_stop: asked between batches; what is done is kept.
    """
    found = Comparison()
    if seed is None and configs:
        seed = configs[0].seed  # one sample for all rows, whatever seeds their random steps have

    def publish(changed: Comparison) -> Comparison:
        if on_change is not None:
            on_change(changed)
        return changed

    shared = {without_prior(c): n for n, c in enumerate(configs) if c.prior == "mix"}
    opened = ExitStack()
    try:
        runner = opened.enter_context(measuring_runner(model, options or RunOptions()))
        for number, config in sorted(enumerate(configs), key=lambda item: item[1].prior == "llm"):

            def progress(now: Progress, number: int = number) -> None:
                if on_progress is not None:
                    on_progress(number, now)

            source = next((r for r in found.rows if r.number == shared.get(without_prior(config))), None)
            try:
                if config.prior == "llm" and source is not None:
                    report = model_alone(source.report)
                else:
                    report = measure(
                        gradient,
                        model,
                        config,
                        limit=limit,
                        seed=seed,
                        options=options,
                        on_progress=progress,
                        should_stop=should_stop,
                        look_first=False,
                        runner=runner,
                    )
            except Cancelled:
                raise
            except LmgcError as error:
                found = publish(replace(found, refused={**found.refused, number: str(error)}))
                continue
            found = publish(replace(found, rows=(*found.rows, Row(number, report))))
        if baselines:
            for step in dict.fromkeys(["none", *(r.report.coding.config.transform for r in found.rows)]):
                results = lossy_baselines(gradient, step, found, should_stop)
                found = publish(replace(found, baselines={**found.baselines, step: results}))
        best = next(iter(found.sorted_rows), None)
        for name in CONTROLS:
            if best is None:
                break
            settings = best.report.coding.config
            try:
                control = run_control(name, gradient, model, settings, seed, options, should_stop, runner)
            except Cancelled:
                raise
            except LmgcError:  # the rows are measured; a control that does not fit their settings has no rate
                control = Control(name, None, False)
            found = publish(replace(found, controls=(*found.controls, control)))
    except Cancelled:
        return publish(replace(found, stopped=True))
    finally:
        opened.close()
    return found


def step_of(row: Row) -> str:
    """The lossy step of a row's settings."""
    return row.report.coding.config.transform


def without_prior(config: CodecConfig) -> CodecConfig:
    """What two configurations share that differ in the prior alone."""
    return replace(config, prior="llm", explicit=tuple(n for n in config.explicit if n != "prior"))


def _rate(report: Report) -> float | None:
    return report.totals.compression_rate


def model_alone(mixed: Report) -> Report:
    """The report that prior llm would give, from one of prior mix: the same passes, the model's own bits."""
    coding = replace(mixed.coding, config=replace(mixed.coding.config, prior="llm"))
    results = tuple(replace(r, surprisal_bits=r.llm_surprisal_bits) for r in mixed.results)
    return replace(mixed, coding=coding, results=results, settings={**mixed.settings, "prior": "llm"})


def difference(row: Report, other: Report) -> Estimate | None:
    """How much higher the row's compression rate is than the other's, on the blocks that both have scored.

    The blocks' differences are estimated as one sample, so what both find hard cancels out: the interval is
    narrower than either rate's. Side information of the whole gradient counts in the value.

    Returns:
        None where the rows do not code the same parameters in each block.
    """
    blocks = sorted(row.per_block.keys() & other.per_block.keys())
    if not blocks or len(row.coding.blocks) != len(other.coding.blocks):
        return None
    if not all(math.isclose(row.per_block[b][1], other.per_block[b][1], rel_tol=1e-9) for b in blocks):
        return None
    bits = [row.per_block[b][0] - other.per_block[b][0] for b in blocks]
    found = estimate_rate(bits, [row.per_block[b][1] for b in blocks], len(row.coding.blocks))
    side = (row.side_bits - other.side_bits) / (8 * row.coding.raw.raw_bytes)
    return Estimate(
        found.value + side,
        None if found.low is None else found.low + side,
        None if found.high is None else found.high + side,
    )


def lossy_baselines(
    gradient: Gradient, step: str, found: Comparison, should_stop: Callable[[], bool] | None = None
) -> tuple[BaselineResult, ...]:
    """Every baseline on what the lossy step leaves, at rates of the raw bits, the step's side information included."""
    own = next((r.report.coding.transformed for r in found.rows if r.report.coding.config.transform == step), None)
    if step == "none" or own is None:
        return tuple(run_baselines(gradient, should_stop=should_stop))
    return tuple(
        result
        if result.bytes is None
        else replace(
            result,
            bytes=result.bytes + own.side.n_bytes,
            compression_rate=(result.bytes + own.side.n_bytes) / gradient.raw_bytes if gradient.raw_bytes else None,
        )
        for result in run_baselines(own.coded, should_stop=should_stop)
    )


def run_control(
    name: str,
    gradient: Gradient,
    model: LanguageModel,
    config: CodecConfig,
    seed: int | None = None,
    options: RunOptions | None = None,
    should_stop: Callable[[], bool] | None = None,
    runner: Runner | None = None,
) -> Control:
    """One null control on a few blocks: what the lossy step would leave, replaced, and held against its own bits."""
    coded = transform_gradient(config.transform, gradient, seed=config.seed).coded
    null = CONTROLS[name](coded, config.seed if seed is None else seed)
    exact = replace(config, transform="none")
    report = measure(
        null, model, exact, limit=CONTROL_LIMIT, seed=seed, options=options, should_stop=should_stop, runner=runner
    )
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
