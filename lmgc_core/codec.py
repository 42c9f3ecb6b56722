"""`measure`: how many bits a language model needs for each part of a gradient. The only place that composes.

Measuring is fast and gives no decodable bytes; its result is a `Report`, which says so by its type. Archives
(`lmgc_core.archive`) walk the same plan with exact arithmetic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from lmgc_core.backend import name_elsewhere, open_runner, same_model
from lmgc_core.blocks import sample_blocks
from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import LanguageModel
from lmgc_core.plan import Coding, check_tokenizer, prepare
from lmgc_core.prediction import SavedSegments, first_look, predicted, remainder_bits
from lmgc_core.report import ModelInfo, Report, WindowResult
from lmgc_core.runner import Runner
from lmgc_core.settings import DEFAULT_LIMIT, CodecConfig, RunOptions, check_context_window


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands.

    Attributes:
        n_windows_done, n_windows: windows scored and in all.
        n_tokens_done, n_tokens: likewise for tokens, those of a first look included.
        seconds: since planning began.
        partial: a report over the windows done so far, complete in itself.
    """

    n_windows_done: int
    n_windows: int
    n_tokens_done: int
    n_tokens: int
    seconds: float
    partial: Report


def measure(
    gradient: Gradient,
    model: LanguageModel,
    config: CodecConfig | None = None,
    *,
    limit: int = DEFAULT_LIMIT,
    seed: int | None = None,
    options: RunOptions | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    look_first: bool = True,
    runner: Runner | None = None,
    saved: SavedSegments | None = None,
) -> Report:
    """The bits of a seeded sample of blocks, token by token, cell by cell.

    Args:
        gradient: what to measure; never modified.
        model: from `load_model`.
        config: serialization, context, support, prior, lossy step.
        limit: blocks to sample; 0 is the whole gradient. More blocks, narrower interval, more time.
        seed: of the sample; the configuration's seed if not given.
        options: batch size, threads, precision; they change speed, and the last digits.
        on_progress: called after each batch, and before the first with a short beginning of the first window.
        look_first: whether to score that short beginning; only for who shows partial reports.
        should_stop: asked between batches; True ends the run.
        runner: where to score, from `measuring_runner`, for several runs in a row; opened by the options if not given.
        saved: finished segments of an earlier run of the same question, see `checkpoint`; they are not scored again.

    Raises:
        InvalidSetting: a setting that does not fit the gradient or the model.
        NotReversible: tokens that would not give the text back.
        Cancelled: when `should_stop` said so; `on_progress` has had the last partial report.
    """
    config = config or CodecConfig()
    options = options or RunOptions()
    check_config(config, model, limit)
    started = time.perf_counter()
    coding = prepare(gradient, config)
    check_tokenizer(coding, model.tokenizer)
    chosen = sample_blocks(len(coding.blocks), limit, config.seed if seed is None else seed)
    windows = list(coding.windows(chosen, model.tokenizer, config.context_window))
    remainders = remainder_bits(windows, config.segment)
    settings = run_settings(config, options, limit, coding)
    info = ModelInfo(model.id, model.fingerprint, model.n_parameters, model.dtype, model.device)
    n_tokens = sum(len(w.ids) for w in windows)
    results: dict[int, WindowResult] = {}

    def report(looking: bool = False) -> Report:
        return Report(
            coding,
            info,
            tuple(results[i] for i in sorted(results)),
            chosen,
            len(windows) + looking,  # a first look is never the whole
            time.perf_counter() - started,
            settings,
            peak_memory_bytes(),
        )

    def tell(n_done: int) -> None:
        if on_progress is not None:
            done = sum(len(r.surprisal_bits) for r in results.values())
            on_progress(
                Progress(n_done, len(windows), done, n_tokens, time.perf_counter() - started, report(n_done == 0))
            )

    looks = look_first and on_progress is not None and len(windows) > 0
    if looks and (look := first_look(coding, windows[0], model, config, options)):
        results[0] = look
        tell(0)
        del results[0]
    with nullcontext(runner) if runner is not None else measuring_runner(model, options) as run:
        for result in predicted(coding, windows, remainders, model, config, options, run, should_stop, saved):
            results[result.window.index] = result
            tell(len(results))
    return report()


def measuring_runner(model: LanguageModel, options: RunOptions) -> AbstractContextManager[Runner]:
    """Where windows are scored: in this process, or on a cluster whose actors load the same model.

    Raises:
        LmgcError: when the cluster cannot be used.
    """
    elsewhere = partial(same_model, name_elsewhere(model.id), model.fingerprint)
    return open_runner(model, elsewhere, replace(options, dtype=model.dtype))


def check_limit(limit: int) -> None:
    """Raises InvalidSetting for a limit below 0."""
    if limit < 0:
        raise InvalidSetting(f"limit {limit}: a number of blocks, or 0 for the whole gradient")


def check_config(config: CodecConfig, model: LanguageModel, limit: int) -> None:
    """Raises InvalidSetting where the settings do not fit the model or each other."""
    check_limit(limit)
    check_context_window(config.context_window, model.context_length, model.id)


def run_settings(config: CodecConfig, options: RunOptions, limit: int, coding: Coding) -> dict[str, Any]:
    """Every option of a run by its name with underscores, with what a preset chose for each dtype."""
    chosen = {name: asdict(config.serialization(s.dtype)) for name, s in coding.serializers.items()}
    settings = {**config.to_dict(), **asdict(options), "limit": limit}
    if len(chosen) == 1:
        settings |= next(iter(chosen.values()))
    else:
        settings["serializations"] = chosen
    return settings


def peak_memory_bytes() -> int:
    """The largest resident size of this process so far, in bytes; 0 where the platform does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
