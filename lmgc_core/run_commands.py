"""The command `runs`: what is kept on disk, one run in figures or as files, and taking one away."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmgc_core.errors import InvalidSetting
from lmgc_core.terminal import check_target, emit, figure, say
from lmgc_core.wording import counted

if TYPE_CHECKING:
    from lmgc_core.run_index import KeptRun
    from lmgc_core.store import RunStore


def run_runs(arguments: argparse.Namespace) -> int:
    """Lists the kept runs, shows one, or deletes one."""
    from lmgc_core.store import RunStore

    store = RunStore()
    if arguments.action is None:
        return _list(store, arguments.json)
    if not arguments.id:
        raise InvalidSetting(f"runs {arguments.action} needs an ID; see python -m lmgc_core runs")
    row = store.row(arguments.id)
    if row is None:
        raise InvalidSetting(f"no run {arguments.id!r} is kept in {store.folder}; see python -m lmgc_core runs")
    if arguments.action == "delete":
        store.delete(row.id)
        if arguments.json:
            emit({"deleted": row.id, "n_bytes": store.n_bytes})
        else:
            say(f"run {row.id} is deleted; {counted(store.n_bytes, 'byte')} are kept")
        return 0
    return _show(store, row, arguments)


def describe_run(row: KeptRun) -> dict[str, Any]:
    """A row of the list as one JSON object."""
    return {
        "id": row.id,
        "made_at": datetime.fromtimestamp(row.made_at).astimezone().isoformat(timespec="seconds"),
        "title": row.title,
        "source": row.source,
        "n_bytes": row.n_bytes,
        "gradient_kept": row.has_gradient,
        "versions": row.versions,
        **row.summary,
    }


def _list(store: RunStore, as_json: bool) -> int:
    rows = store.rows()
    if as_json:
        runs = [describe_run(row) for row in rows]
        emit({"runs": runs, "n_bytes": store.n_bytes, "limit_bytes": store.limit, "folder": str(store.folder)})
        return 0
    for row in rows:
        say(f"{row.id}  {_when(row)}  {_rate(row):>10}  {_title(row)}, {_settings(row)}")
    taken, most = figure(store.n_bytes / 1e6, "MB"), figure(store.limit / 1e6, "MB")
    say(f"{counted(len(rows), 'run')}, {taken} of {most} at most, in {store.folder}")
    return 0


def _show(store: RunStore, row: KeptRun, arguments: argparse.Namespace) -> int:
    if arguments.output:
        from lmgc_core.report_files import write_report

        check_target(Path(arguments.output), folder=True)
        write_report(store.open(row.id), arguments.output)
    found = store.report_json(row.id) or {}
    if arguments.json:
        emit({**found, "run": {k: v for k, v in describe_run(row).items() if k not in found}})
        return 0
    totals, sample, interval = found["totals"], found["sample"], found["totals"]["rate_ci95"]
    about = f", 95 % interval {100 * interval[0]:.2f} to {100 * interval[1]:.2f} %" if interval else ""
    scope = "whole gradient" if sample["complete"] else "estimate"
    say(f"run {row.id} of {_when(row)}: {_title(row)}, {_settings(row)}")
    say(f"  {sample['n_blocks']} of {counted(sample['n_blocks_total'], 'block')} ({scope})")
    say(f"  {figure(totals['bits_per_parameter'], 'bits/parameter')}, all parts included (lower is better)")
    say(f"  {_rate(row)} of raw (lower is better{about})")
    say(f"  {figure(totals['tokens_per_parameter'], 'tokens/parameter')} (lower is faster)")
    say(f"  {figure(totals['raw_bytes_per_token'], 'raw bytes/token')} (higher is better)")
    kept = "its gradient is kept" if row.has_gradient else "its gradient is not kept"
    libraries = ", ".join(f"{name} {version}" for name, version in row.versions.items())
    say(f"  computed with {libraries or 'libraries that were not written down'}")
    say(f"  {found['timing']['seconds']:.1f} s, {counted(row.n_bytes, 'byte')} on disk, {kept}")
    return 0


def _when(row: KeptRun) -> str:
    return datetime.fromtimestamp(row.made_at).strftime("%Y-%m-%d %H:%M")


def _rate(row: KeptRun) -> str:
    rate = row.summary["totals"]["compression_rate"]
    return figure(None if rate is None else 100 * rate, "%")


def _title(row: KeptRun) -> str:
    return " ".join(row.title.split()) or "(no name)"


def _settings(row: KeptRun) -> str:
    settings, sample = row.summary["settings"], row.summary["sample"]
    words = [settings["preset"] if settings["preset"] != "none" else "own settings", settings["prior"]]
    words += [settings["transform"]] if settings["transform"] != "none" else []
    blocks = "whole" if sample["complete"] else f"{sample['n_blocks']} of {counted(sample['n_blocks_total'], 'block')}"
    return f"{' '.join(words)}, {row.summary['model']['id']}, {blocks}"
