"""What jobs do: fetch a model, measure, compare, run the baselines, train.

Each `*_work` returns a function for `JobManager.submit`; the facts that name the job stand beside it.
Models stay loaded between jobs, one at a time, since one worker uses them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lmgc_core.gradient import Gradient
from lmgc_core.question import Question
from lmgc_core.settings import CodecConfig, RunOptions
from pages.ui.format import count, duration, size
from pages.ui.jobs import JobContext, JobManager, JobView, Work

if TYPE_CHECKING:
    from lmgc_core.compare import Comparison
    from lmgc_core.language_model import LanguageModel
    from lmgc_core.report import Report
    from lmgc_core.training import GenerateConfig, Recorded

BASELINE_BYTES = 64_000_000


@dataclass(frozen=True)
class Measured:
    """What a measuring job was given."""

    gradient: Gradient
    title: str
    source: str
    config: CodecConfig
    limit: int

    @cached_property
    def question(self) -> Question:
        """What is asked; its id is the job's, and the kept run's."""
        return Question(self.gradient, self.config, self.limit)

    @property
    def facts(self) -> Mapping[str, Any]:
        """What its result depends on."""
        return self.question.facts


@dataclass(frozen=True)
class Compared:
    """What a comparing job was given: settings by label."""

    gradient: Gradient
    title: str
    configs: tuple[tuple[str, CodecConfig], ...]
    limit: int

    @property
    def facts(self) -> Mapping[str, Any]:
        """What its result depends on."""
        configs = [(label, config.to_dict()) for label, config in self.configs]
        return {"gradient": self.gradient.identity, "limit": self.limit, "configs": configs}


@dataclass(frozen=True)
class Training:
    """Losses so far by step, and what was recorded."""

    losses: tuple[float, ...] = ()
    recorded: tuple[Recorded, ...] = ()


def fetch_text(progress: Any) -> str:
    """One line for a step of a fetch."""
    stage = getattr(progress, "stage", None)
    if stage is None:
        return str(progress)
    words = {"waiting": "waiting for its turn", "done": "model is here"}.get(stage, f"{stage} the model")
    total = progress.total_bytes
    return f"{words}, {size(progress.done_bytes)} of {size(total)}" if total and stage != "done" else words


def fetch_fraction(progress: Any) -> float | None:
    """How much of the present step is done."""
    total = getattr(progress, "total_bytes", 0)
    return min(1.0, progress.done_bytes / total) if total else None


@functools.lru_cache(maxsize=1)
def _shelf(model: str, options: RunOptions) -> list[LanguageModel]:
    return []


def loaded_model(model: str, options: RunOptions, context: JobContext) -> LanguageModel:
    """The model, from the shelf or loaded (and fetched) now."""
    shelf = _shelf(model, options)
    if not shelf:
        from lmgc_core.language_model import load_model

        context.say("loading the model")
        shelf.append(
            load_model(
                model,
                options,
                on_progress=lambda p: context.say(fetch_text(p), fetch_fraction(p)),
                should_stop=context.should_stop,
            )
        )
    return shelf[0]


def fetch_work(model: str) -> Work:
    """Fetches a catalogue model."""

    def work(context: JobContext) -> str:
        from lmgc_core.language_model import fetch_model

        context.say("fetching the model")
        fetch_model(
            model,
            on_progress=lambda p: context.say(fetch_text(p), fetch_fraction(p)),
            should_stop=context.should_stop,
        )
        return model

    return work


def measure_work(subject: Measured, options: RunOptions) -> Work:
    """Measures a sample of a gradient, unless the result is kept; partial reports are published window by window."""

    def work(context: JobContext) -> Report:
        from lmgc_core.codec import Progress
        from lmgc_core.kept import load_or_measure

        def load() -> LanguageModel:
            model = loaded_model(subject.config.model, options, context)
            context.check()
            context.say("serializing the sample", 0.0)
            return model

        def show(now: Progress) -> None:
            left = now.seconds / max(now.n_tokens_done, 1) * (now.n_tokens - now.n_tokens_done)
            note = f"{count(now.n_windows_done)} of {count(now.n_windows)} windows, about {duration(left)} left"
            context.publish(now.partial)
            context.say(note, now.n_tokens_done / max(now.n_tokens, 1))

        found = load_or_measure(
            replace(subject.question, options=options),
            load,
            title=subject.title,
            source=subject.source,
            on_progress=show,
            should_stop=context.should_stop,
        )
        if found.note:
            context.warn(found.note)
        return found.report

    return work


def compare_work(subject: Compared, options: RunOptions) -> Work:
    """Measures the same sample under several settings, then baselines and controls, publishing all as it comes."""

    def work(context: JobContext) -> Comparison:
        from lmgc_core.codec import Progress
        from lmgc_core.compare import compare

        labels, configs = zip(*subject.configs, strict=True)
        model = loaded_model(configs[0].model, options, context)
        context.check()
        context.say("serializing the sample", 0.0)
        done: set[int] = set()

        def change(found: Comparison) -> None:
            context.publish(found)
            done.update([r.number for r in found.rows], found.refused)
            if len(done) == len(configs):
                context.say("baselines and null controls", None)

        def show(number: int, now: Progress) -> None:
            share = (len(done) + now.n_tokens_done / max(now.n_tokens, 1)) / len(configs)
            context.say(f"{labels[number]}: {count(now.n_windows_done)} of {count(now.n_windows)} windows", share)

        found = compare(
            subject.gradient,
            model,
            configs,
            limit=subject.limit,
            options=options,
            baselines=subject.gradient.raw_bytes <= BASELINE_BYTES,
            on_change=change,
            on_progress=show,
            should_stop=context.should_stop,
        )
        context.check()
        return found

    return work


def baselines_work(gradient: Gradient) -> Work:
    """Runs every baseline on whole tensors, decoded and compared."""

    def work(context: JobContext) -> list[dict[str, Any]]:
        from lmgc_core.baselines import run_baselines

        context.say("running the baselines")
        return [asdict(row) for row in run_baselines(gradient)]

    return work


def submit_baselines(manager: JobManager, gradient: Gradient) -> JobView | None:
    """Queues the baselines of a gradient, unless it is so large that they would take minutes."""
    if gradient.raw_bytes > BASELINE_BYTES:
        return None
    return manager.submit("baselines", {"gradient": gradient.identity}, baselines_work(gradient))


def best_baseline(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The smallest verified result."""
    usable = [r for r in rows if r.get("verified") and r.get("compression_rate") is not None]
    return min(usable, key=lambda r: r["compression_rate"], default=None)


def train_work(config: GenerateConfig) -> Work:
    """Trains a small network, publishing the losses about twice a second and every recorded gradient."""

    def work(context: JobContext) -> Training:
        from lmgc_core.training import training_steps

        losses: list[float] = []
        recorded: list[Recorded] = []
        told = 0.0
        context.say("preparing the data", 0.0)
        for result in training_steps(config, context.should_stop):
            losses.append(result.loss)
            if result.recorded is not None:
                recorded.append(result.recorded)
            now = time.monotonic()
            if now - told > 0.4 or result.recorded is not None:
                context.publish(Training(tuple(losses), tuple(recorded)))
                context.say(f"step {count(result.step)} of {count(result.n_steps)}", result.step / result.n_steps)
                told = now
        return Training(tuple(losses), tuple(recorded))

    return work
