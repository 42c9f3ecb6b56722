"""Bundled gradients of 32-bit floats as a whole: preset best under each prior, the best baseline, real archives.

Appends to benchmarks/results/whole_files.csv: one row a gradient, the smallest first. Rates are of the raw bytes,
lower is better; they hold every bit of the file but names and shapes, which `names_and_shapes_rate` has. `--archives`
makes an archive of the gradients named, so that the bytes on a disk stand beside the bits that were counted.
Run from the repository's root: `python -m benchmarks.whole_files`; a gradient that has a row is left out.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

from lmgc_core import load_gradient, load_model, preset
from lmgc_core.archive import compress
from lmgc_core.baselines.run import best_baseline
from lmgc_core.compare import compare
from lmgc_core.samples import list_samples
from lmgc_core.settings import DEFAULT_MODEL, RunOptions

RESULTS = Path(__file__).parent / "results" / "whole_files.csv"
PRIORS = ("mix", "counts", "llm")
COLUMNS = [
    "sample", "n_parameters", "n_tokens", "preset", *(f"{prior}_rate" for prior in PRIORS), "best_baseline",
    "baseline_rate", "points_below", "archive_rate", "names_and_shapes_rate", "verified", "seconds", "model",
    "fingerprint", "seed", "command",
]  # fmt: skip


def row_of(sample: str, path: Path, archived: bool) -> dict[str, object]:
    """One gradient's row."""
    gradient, model = load_gradient(path), load_model(DEFAULT_MODEL, RunOptions())
    config = preset("best")
    started = time.perf_counter()
    found = compare(gradient, model, [preset("best", prior=prior) for prior in PRIORS], limit=0)
    seconds = time.perf_counter() - started
    rates = {PRIORS[row.number]: row.report.totals.compression_rate for row in found.rows}
    best = best_baseline(found.baselines["none"])
    row: dict[str, object] = {
        "sample": sample,
        "n_parameters": gradient.n_parameters,
        "n_tokens": found.rows[0].report.totals.n_tokens,
        "preset": "best",
        **{f"{prior}_rate": f"{rate:.5f}" for prior, rate in rates.items()},
        "best_baseline": best.id,
        "baseline_rate": f"{best.compression_rate:.5f}",
        "points_below": f"{100 * (best.compression_rate - rates['mix']):.2f}",
        "seconds": f"{seconds:.0f}",
        "model": model.id,
        "fingerprint": model.fingerprint,
        "seed": config.seed,
        "command": f"python -m lmgc_core measure sample_gradients/{path.name} --preset best --limit 0",
    }
    if archived:
        report = compress(gradient, model, config, verify="auto").report
        named = report["names_and_shapes_bytes"] / gradient.raw_bytes
        row["archive_rate"] = f"{report['container_bytes'] / gradient.raw_bytes - named:.5f}"
        row["names_and_shapes_rate"] = f"{named:.5f}"
        row["verified"] = report["verified"]
    return row


def main() -> None:
    """Appends the rows that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archives", default="", help="samples to make archives of, separated by commas")
    options = parser.parse_args()
    there = set()
    if RESULTS.exists():
        with RESULTS.open(encoding="utf-8") as file:
            there = {row["sample"] for row in csv.DictReader(file)}
    for sample in sorted(list_samples(), key=lambda s: s.path.stat().st_size):
        gradient = load_gradient(sample.path)
        if sample.name in there or any(t.spec.dtype.name != "float32" for t in gradient):
            continue
        row = row_of(sample.name, sample.path, sample.name in options.archives.split(","))
        new = not RESULTS.exists()
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if new:
                writer.writeheader()
            writer.writerow(row)


if __name__ == "__main__":
    main()
