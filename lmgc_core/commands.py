"""The commands of `python -m lmgc_core`: read options, call the library, print.

With --json one object goes to stdout (inspect: one a line and a file); progress goes to stderr.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lmgc_core.archive_commands import run_compress, run_decompress, run_describe, run_verify
from lmgc_core.errors import InvalidSetting
from lmgc_core.options import codec_config, codec_configs, file_options, listed_options, run_options
from lmgc_core.run_commands import run_runs
from lmgc_core.terminal import ProgressLine, check_target, complain, emit, figure, say
from lmgc_core.wording import counted

if TYPE_CHECKING:
    from lmgc_core.codec import Progress
    from lmgc_core.report import Report
    from lmgc_core.settings import CodecConfig


def check_early(config: CodecConfig, limit: int) -> None:
    """Raises InvalidSetting for what is wrong whatever the file and the model, before either is read."""
    from lmgc_core.codec import check_limit
    from lmgc_core.transforms import parse_transform

    parse_transform(config.transform)
    check_limit(limit)


def run_inspect(arguments: argparse.Namespace) -> int:
    """What is in each file; exit code 2 if any of them failed."""
    from lmgc_core.files import inspect_file

    options = file_options(arguments)
    failed = False
    for name in arguments.files:
        found = inspect_file(name, digest=arguments.digest, **options)
        failed = failed or "error" in found
        if arguments.json:
            emit(found)
        elif "error" in found:
            complain(found["error"])
        else:
            n, raw = counted(found["n_parameters"], "parameter"), counted(found["raw_bytes"], "byte")
            say(f"{name}: {n}, {raw} raw, sha256 {found['sha256']}")
            for tensor in found["tensors"]:
                shape = "×".join(map(str, tensor["shape"])) or "scalar"
                zeros = tensor["zero_fraction"]
                about = "" if zeros is None else f", {100 * zeros:.3g} % zeros, {tensor['n_nonfinite']} not finite"
                say(f"  {tensor['name']!r}: {tensor['dtype']} {shape}{about}")
            for warning in found["warnings"]:
                say(f"  note: {warning}")
    return 2 if failed else 0


def run_tokens(arguments: argparse.Namespace) -> int:
    """Tokens and bytes per token, with the first groups beside their tokens."""
    from lmgc_core.codec import run_settings
    from lmgc_core.files import load_gradient
    from lmgc_core.language_model import load_tokenizer
    from lmgc_core.plan import prepare
    from lmgc_core.report import describe_input
    from lmgc_core.settings import RunOptions
    from lmgc_core.token_efficiency import count_tokens

    config = codec_config(arguments)
    check_early(config, arguments.limit)
    gradient = load_gradient(arguments.file, **file_options(arguments))
    progress = ProgressLine(arguments)
    tokenizer = load_tokenizer(config.model, on_progress=progress.show_fetch)
    progress.close()
    count = count_tokens(gradient, tokenizer, config, limit=arguments.limit)
    if arguments.json:
        settings = run_settings(config, RunOptions(), arguments.limit, prepare(gradient, config))
        emit({"input": describe_input(gradient), "settings": settings, **asdict(count)})
        return 0
    if not count.n_blocks_total:
        say(f"{gradient.name}: holds no values, so there are no tokens")
        return 0
    sample = f"{count.n_blocks} of {counted(count.n_blocks_total, 'block')}, {counted(count.n_parameters, 'parameter')}"
    say(f"{gradient.name}: {counted(count.n_tokens, 'token')} in {sample}")
    say(f"  {figure(count.tokens_per_parameter, 'tokens/parameter')} (lower is faster)")
    say(f"  {figure(count.raw_bytes_per_token, 'raw bytes/token')} (higher is better)")
    say(f"  {figure(count.plain_tokens_per_parameter, 'tokens/parameter')} as plain decimal text")
    for group in count.groups:
        say(f"  {group.text!r:<16} {' '.join(map(repr, group.tokens))}")
    return 0


def run_measure(arguments: argparse.Namespace) -> int:
    """Bits for each token, cell and tensor of a sample or of the whole file."""
    from datetime import datetime

    from lmgc_core.files import load_gradient
    from lmgc_core.kept import load_or_measure
    from lmgc_core.language_model import LanguageModel, load_model
    from lmgc_core.question import Question
    from lmgc_core.report_files import write_report

    config, options = codec_config(arguments), run_options(arguments)
    check_early(config, arguments.limit)
    if arguments.output:
        check_target(Path(arguments.output), folder=True)
    gradient = load_gradient(arguments.file, **file_options(arguments))
    progress = ProgressLine(arguments)
    question = Question(gradient, config, arguments.limit, options=options)

    def load() -> LanguageModel:
        return load_model(config.model, options, on_progress=progress.show_fetch)

    def show(now: Progress) -> None:
        left = now.seconds / max(now.n_tokens_done, 1) * (now.n_tokens - now.n_tokens_done)
        progress.show(f"{now.n_windows_done} of {counted(now.n_windows, 'window')}, about {left:.0f} s left")

    try:
        found = load_or_measure(
            question,
            load,
            title=gradient.name,
            source="file",
            again=arguments.again,
            resume=arguments.resume,
            on_progress=show,
        )
    finally:
        progress.close()
    report = found.report
    if found.note:
        complain(f"note: {found.note}")
    if arguments.output:
        write_report(report, arguments.output)
    if arguments.json:
        emit({**report.to_dict(), "run": {"id": found.id, "found_again": found.kept_at is not None}})
        return 0
    totals, sample = report.totals, report.to_dict()["sample"]
    rate = None if totals.compression_rate is None else 100 * totals.compression_rate
    interval = totals.rate_ci95
    about = f", 95 % interval {100 * interval[0]:.2f} to {100 * interval[1]:.2f} %" if interval else ""
    scope = "whole gradient" if sample["complete"] else "estimate"
    say(f"{gradient.name}: {sample['n_blocks']} of {counted(sample['n_blocks_total'], 'block')} ({scope})")
    say(f"  {figure(totals.bits_per_parameter, 'bits/parameter')}, all parts included (lower is better)")
    say(f"  {figure(rate, '% of raw')} (lower is better{about})")
    say(f"  {figure(totals.tokens_per_parameter, 'tokens/parameter')} (lower is faster)")
    say(f"  {figure(totals.raw_bytes_per_token, 'raw bytes/token')} (higher is better)")
    if config.transform != "none":
        error, kept = report.error, report.coding.coded.n_parameters
        say(
            f"  after {config.transform}: {kept} of {counted(gradient.n_parameters, 'value')} kept, "
            f"{figure(error.psnr_db, 'dB PSNR')} (higher is better), root mean square error {figure(error.rmse)}, "
            f"{error.n_flushed} became zero, {error.n_overflowed} overflowed"
        )
    say(f"  {report.seconds:.1f} s")
    if found.kept_at is not None:
        when = datetime.fromtimestamp(found.kept_at).strftime("%Y-%m-%d %H:%M")
        say(f"  found again: run {found.id} of {when}; --again measures it anew")
    return 0


def run_compare(arguments: argparse.Namespace) -> int:
    """Rows of settings on the same sample, sorted by rate, with baselines, null controls and an audit."""
    from lmgc_core.compare import compare, difference, step_of
    from lmgc_core.files import load_gradient
    from lmgc_core.grids import QUICK_LIMIT, grid
    from lmgc_core.language_model import load_model
    from lmgc_core.settings import DEFAULT_LIMIT

    options = run_options(arguments)
    if arguments.grid is None:
        configs = codec_configs(arguments)
    elif hasattr(arguments, "preset"):
        raise InvalidSetting(f"grid {arguments.grid} names its presets itself; leave --preset or --grid out")
    else:
        configs = [config for given in listed_options(arguments) for config in grid(arguments.grid, **given)]
        configs = list(dict.fromkeys(configs))
    if len({c.model for c in configs}) > 1:
        raise InvalidSetting("compare takes one model; give one --model")
    limit = arguments.limit
    if limit is None:
        limit = QUICK_LIMIT if arguments.grid == "quick" else DEFAULT_LIMIT
    for config in configs:
        check_early(config, limit)
    gradient = load_gradient(arguments.file, **file_options(arguments))
    progress = ProgressLine(arguments)
    model = load_model(configs[0].model, options, on_progress=progress.show_fetch)

    def show(row: int, now: Progress) -> None:
        progress.show(
            f"settings {row + 1} of {len(configs)}: {now.n_windows_done} of {counted(now.n_windows, 'window')}"
        )

    try:
        found = compare(gradient, model, configs, limit=limit, options=options, on_progress=show)
    finally:
        progress.close()
    if not found.rows:
        raise InvalidSetting(next(iter(found.refused.values()), "there is nothing to compare"))
    if arguments.json:
        emit(found.to_dict())
        return 0
    say(f"{gradient.name}: % of raw (lower is better), points above the best of the same lossy step (95 % interval),")
    say("tokens/parameter, settings; * on the Pareto front; {n}: % of raw that the published code would have counted")
    for row in found.sorted_rows:
        totals, best = row.report.totals, found.best_rows[step_of(row)].report
        gap = difference(row.report, best)
        above = "" if gap is None or row.report is best else f"{100 * gap.value:+.2f}"
        if above and gap is not None and gap.low is not None and gap.high is not None:
            above += f" ({100 * gap.low:+.2f} to {100 * gap.high:+.2f})"
        mark = "*" if row.number in found.pareto else " "
        audit = row.report.audit
        published = f" {{{figure(100 * audit.published_compression_rate)}}}" if audit else ""
        tokens = figure(totals.tokens_per_parameter, digits=3)
        about = describe_config(row.report.coding.config, row.report)
        say(f"{mark} {percent(totals.compression_rate):>7} {above:<24} {tokens:>6}  {about}{published}")
    for number, line in found.refused.items():
        say(f"      n/a  settings {number + 1}: {line}")
    for step, results in found.baselines.items():
        about = "whole file" if step == "none" else f"whole file after {step}"
        for baseline in sorted((b for b in results if b.bytes is not None), key=lambda b: b.bytes or 0):
            say(f"  {percent(baseline.compression_rate):>7}  {baseline.id} ({about})")
    for control in found.controls:
        alarm = " ALARM: the counting is wrong" if control.alarm else ""
        say(f"  {percent(control.compression_rate):>7}  control: {control.id}, like the best row{alarm}")
    return 0


def percent(rate: float | None) -> str:
    """A rate as percent of raw."""
    return figure(None if rate is None else 100 * rate)


def describe_config(config: CodecConfig, report: Report) -> str:
    """A configuration as one short line: the serialization of the first dtype and what differs from defaults."""
    chosen = next(iter(report.coding.serializers.values())).serialization
    words = [chosen.planes, chosen.alphabet, chosen.separator, f"group {chosen.group_size}", f"line {chosen.line}"]
    words += [chosen.byte_order, f"context {config.context_window}", config.support, config.prior]
    return " ".join([*words, *([config.transform] if config.transform != "none" else [])])


def run_baselines(arguments: argparse.Namespace) -> int:
    """Every baseline's size, after decoding and comparing."""
    from lmgc_core.baselines import run_baselines as compare_baselines
    from lmgc_core.files import load_gradient
    from lmgc_core.report import describe_input

    gradient = load_gradient(arguments.file, **file_options(arguments))
    rows = [asdict(row) for row in compare_baselines(gradient)]
    if arguments.json:
        emit({"input": describe_input(gradient), "baselines": rows})
        return 0
    raw = counted(gradient.raw_bytes, "byte")
    say(f"{gradient.name}: {raw} raw (sizes are whole, decoded and compared; lower is better)")
    for row in sorted(rows, key=lambda r: r["bytes"] if r["bytes"] is not None else float("inf")):
        if row["bytes"] is None:
            say(f"  {row['id']:<20} n/a: {row['reason']}")
        else:
            rate, taken = row["compression_rate"], counted(row["bytes"], "byte")
            say(f"  {row['id']:<20} {taken}, {figure(None if rate is None else 100 * rate, '% of raw')}")
    return 0


def run_generate(arguments: argparse.Namespace) -> int:
    """Trains a small network and writes the recorded gradients."""
    from lmgc_core.training import GenerateConfig, Recorded, save_record, training_steps
    from lmgc_core.training.merge import merge_recorded

    try:
        steps = tuple(int(n) for n in arguments.record_at.split(",")) if arguments.record_at else ()
    except ValueError:
        raise InvalidSetting(f"--record-at {arguments.record_at!r}: step numbers with commas, e.g. 1,60") from None
    target = Path(arguments.output)
    if target.suffix != ".safetensors":
        raise InvalidSetting(f"--output {target.name!r}: generate writes safetensors; end the name in .safetensors")
    check_target(target)
    config = GenerateConfig(
        network=arguments.network,
        data=arguments.data,
        steps=arguments.steps,
        record_at=steps,
        batch_size=arguments.batch_size,
        width=arguments.width,
        optimizer=arguments.optimizer,
        record=arguments.record,
        seed=arguments.seed,
    )
    progress = ProgressLine(arguments)
    recorded: list[Recorded] = []
    for result in training_steps(config):
        progress.show(f"step {result.step} of {result.n_steps}, loss {result.loss:.4f}")
        recorded += [result.recorded] if result.recorded else []
    progress.close()
    gradient, metadata = merge_recorded(recorded)
    save_record(gradient, target, metadata)
    if arguments.json:
        emit(
            {
                "file": str(target),
                "steps": [r.step for r in recorded],
                "loss": [r.loss for r in recorded],
                "n_parameters": gradient.n_parameters,
                "sha256": gradient.digest,
            }
        )
    else:
        say(f"{target}: {counted(gradient.n_parameters, 'parameter')} of step {metadata.get('step', '')}")
    return 0


def run_models(arguments: argparse.Namespace) -> int:
    """The catalogue, or fetches one entry."""
    from lmgc_core.language_model import catalogue_rows, fetch_model

    if arguments.action == "fetch":
        if not arguments.id:
            raise InvalidSetting("models fetch needs an ID; see python -m lmgc_core models")
        progress = ProgressLine(arguments)
        if arguments.from_file is not None and not Path(arguments.from_file).is_file():
            raise InvalidSetting(f"--from {arguments.from_file}: there is no such file")
        folder = fetch_model(arguments.id, from_file=arguments.from_file, on_progress=progress.show_fetch)
        progress.close()
        if arguments.json:
            emit({"id": arguments.id, "folder": str(folder)})
        else:
            say(f"{arguments.id} is in {folder}")
        return 0
    rows = catalogue_rows()
    if arguments.json:
        emit({"models": rows})
        return 0
    for row in rows:
        here = "here" if row["is_here"] else "not here"
        size = figure(row["download_bytes"] / 1e6, "MB") if row["download_bytes"] else "n/a"
        say(
            f"{row['id']:<18} {size:>10}  context {row['context_length']:>6}  "
            f"{row['licence']:<14} {here:<9} {row['source']}"
        )
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "inspect": run_inspect,
    "tokens": run_tokens,
    "measure": run_measure,
    "compare": run_compare,
    "baselines": run_baselines,
    "generate": run_generate,
    "models": run_models,
    "runs": run_runs,
    "compress": run_compress,
    "decompress": run_decompress,
    "verify": run_verify,
    "describe": run_describe,
}
