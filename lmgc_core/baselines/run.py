"""Runs baselines and believes none of them: a size is shown only after decoding and comparing bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

from lmgc_core.baselines.catalogue import BASELINES, PAPER_IDS
from lmgc_core.baselines.contract import Baseline, BaselineResult, Specs, join_parts, split_parts
from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import Gradient, Tensor, TensorSpec

Progress = Callable[[int, int, BaselineResult], None]
Clock = Callable[[], float]


def run_baselines(
    gradient: Gradient,
    ids: Sequence[str] | None = None,
    *,
    on_progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
    clock: Clock = time.perf_counter,
) -> list[BaselineResult]:
    """What each baseline reaches on the gradient, in the order of the ids.

    Args:
        gradient: any dtypes, any sizes.
        ids: keys of `BASELINES`; None for all.
        on_progress: called after each one with how many are done, how many there are, and its result.
        should_stop: asked before each one; when true, the results so far are returned.
        clock: seconds, for the speeds.

    Raises:
        InvalidSetting: for an unknown id.
    """
    return run_each(
        [_named(id) for id in (BASELINES if ids is None else ids)], gradient, on_progress, should_stop, clock
    )


def run_baselines_in_chunks(
    gradient: Gradient,
    ids: Sequence[str] = PAPER_IDS,
    *,
    chunk_bytes: int = 512,
    on_progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
    clock: Clock = time.perf_counter,
) -> list[BaselineResult]:
    """The same on chunks of each tensor, compressed alone: how the paper's code fed its baselines.

    Ids and labels name the chunk, e.g. "gzip@512". Sizes include each chunk's length, without which
    nothing decodes. Small chunks make every one of these codecs look worse than it is.

    Raises:
        InvalidSetting: for an unknown id, or a chunk that is no whole number of values.
    """
    for spec in gradient.specs:
        if chunk_bytes < 1 or chunk_bytes % spec.dtype.item_bytes:
            raise InvalidSetting(
                f"chunks of {chunk_bytes} bytes: a multiple of {spec.dtype.item_bytes} is needed for {spec.dtype.name}"
            )
    return run_each([in_chunks(_named(id), chunk_bytes) for id in ids], gradient, on_progress, should_stop, clock)


def _named(id: str) -> Baseline:
    if id not in BASELINES:
        raise InvalidSetting(f"baseline {id!r} is not known; choose among {', '.join(BASELINES)}")
    return BASELINES[id]


def run_each(
    baselines: Iterable[Baseline],
    gradient: Gradient,
    on_progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
    clock: Clock = time.perf_counter,
) -> list[BaselineResult]:
    """`run_baselines` over given baselines instead of ids."""
    chosen, results = list(baselines), []
    for baseline in chosen:
        if should_stop is not None and should_stop():
            break
        results.append(run_one(baseline, gradient, clock))
        if on_progress is not None:
            on_progress(len(results), len(chosen), results[-1])
    return results


def run_one(baseline: Baseline, gradient: Gradient, clock: Clock = time.perf_counter) -> BaselineResult:
    """Encodes, decodes, compares; whatever goes wrong becomes the reason of a result without a size."""

    def without_size(reason: str) -> BaselineResult:
        return BaselineResult(baseline.id, baseline.label, None, None, None, None, False, reason)

    reason = baseline.refusal(gradient.specs)
    if reason is not None:
        return without_size(reason)
    raw = gradient.to_bytes()
    try:
        if baseline.module:
            import_module(baseline.module)
    except ImportError:
        return without_size(f"not installed: pip install {baseline.package or baseline.module}")
    except OSError as error:
        return without_size(f"{baseline.module} does not load: {_one_line(error)}")
    try:
        start = clock()
        packed = baseline.encode(gradient)
        middle = clock()
        back = baseline.decode(packed, gradient.specs)
        end = clock()
    # a foreign library may fail in its own way on an odd input; that is a finding about it, not about us
    except Exception as error:
        return without_size(f"failed: {type(error).__name__}: {_one_line(error)}")
    if back != raw:
        return without_size("decoding gave other bytes")
    megabytes = len(raw) / 1e6
    return BaselineResult(
        baseline.id,
        baseline.label,
        len(packed),
        len(packed) / len(raw) if raw else None,
        megabytes / (middle - start) if raw and middle > start else None,
        megabytes / (end - middle) if raw and end > middle else None,
        True,
        None,
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def best_baseline(results: Iterable[BaselineResult]) -> BaselineResult | None:
    """The smallest verified result; None where there is none. Of equal sizes the first."""
    verified = [r for r in results if r.verified and r.bytes is not None]
    return min(verified, key=lambda r: r.bytes or 0, default=None)


def in_chunks(baseline: Baseline, chunk_bytes: int) -> Baseline:
    """The baseline on chunks of each tensor, none knowing of the others."""

    def chunk_specs(specs: Specs) -> list[TensorSpec]:
        found = []
        for spec in specs:
            size = chunk_bytes // spec.dtype.item_bytes
            for first in range(0, spec.n_parameters, size):
                found.append(TensorSpec("", spec.dtype, (min(size, spec.n_parameters - first),)))
        return found

    def encode(gradient: Gradient) -> bytes:
        parts = []
        for tensor in gradient:
            size = chunk_bytes // tensor.dtype.item_bytes
            for first in range(0, tensor.n_parameters, size):
                words = tensor.words[first : first + size]
                chunk = Tensor(TensorSpec("", tensor.dtype, words.shape), words)
                parts.append(baseline.encode(Gradient((chunk,))))
        return join_parts(parts)

    def decode(data: bytes, specs: Specs) -> bytes:
        pairs = zip(split_parts(data), chunk_specs(specs), strict=True)
        return b"".join(baseline.decode(part, [spec]) for part, spec in pairs)

    label = f"{baseline.label}, in chunks of {chunk_bytes} bytes"
    return Baseline(
        f"{baseline.id}@{chunk_bytes}", label, encode, decode, baseline.module, baseline.package, baseline.refusal
    )
