"""Time and memory of `measure` from 1 to 64 windows, and what a 4 GB file takes → benchmarks/results/memory.csv.

Each row is a process of its own. `peak_bytes` is its largest resident size, `grown_bytes` what the run added to it once
the model had scored a first window; `seconds` is the run without loading the model. Run from the repository's root:
`python -m benchmarks.memory`; `--model tiny` takes a random model of the tests, whose own memory hides little.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "memory.csv"
WINDOWS = (1, 2, 4, 8, 16, 32, 64)
LARGE_VALUES = 1 << 30
COLUMNS = [
    "what", "windows", "tokens", "seconds", "seconds_per_window", "peak_bytes", "grown_bytes", "model", "preset",
    "prior", "file_bytes", "machine", "torch",
]  # fmt: skip


def peak_bytes() -> int:
    """The process's largest resident size since it was last forgotten."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1])


def child(arguments: argparse.Namespace) -> dict[str, object]:
    """One row's figures, in the process that is measured."""
    from lmgc_core import load_gradient, load_model, measure, preset
    from lmgc_core.files import inspect_file
    from lmgc_core.settings import RunOptions

    if arguments.child == "inspect":
        started = time.perf_counter()
        inspect_file(arguments.file)
        return {"seconds": time.perf_counter() - started, "peak_bytes": peak_bytes()}
    gradient = load_gradient(arguments.file)
    model = load_model(arguments.model, RunOptions(device="cpu"))
    config = preset("lean", prior="llm", segment=1)
    measure(gradient, model, config, limit=1)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before, started = peak_bytes(), time.perf_counter()
    report = measure(gradient, model, config, limit=arguments.windows)
    report.to_dict()
    seconds = time.perf_counter() - started
    return {
        "windows": len(report.results),
        "tokens": report.totals.n_tokens,
        "seconds": seconds,
        "seconds_per_window": seconds / len(report.results),
        "peak_bytes": peak_bytes(),
        "grown_bytes": peak_bytes() - before,
    }


def large_file(folder: Path) -> Path:
    """A safetensors file of 4 GB of zeros, sparse on disk."""
    path = folder / "large.safetensors"
    entry = {"w": {"dtype": "F32", "shape": [LARGE_VALUES], "data_offsets": [0, 4 * LARGE_VALUES]}}
    header = json.dumps(entry).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 4 * LARGE_VALUES)
    return path


def main() -> None:
    """Runs the benchmark and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--most-windows", type=int, default=WINDOWS[-1])
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--child", choices=["measure", "inspect"], help=argparse.SUPPRESS)
    parser.add_argument("--windows", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        sys.stdout.write(json.dumps(child(arguments)) + "\n")
        return

    import torch

    from lmgc_core.samples import sample_path

    def row(what: str, kind: str, file: Path, windows: int) -> dict[str, object]:
        line = [sys.executable, "-m", "benchmarks.memory", "--child", kind, "--file", str(file)]
        line += ["--windows", str(windows), "--model", arguments.model]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        shared = {
            "what": what,
            "model": Path(arguments.model).name,
            "preset": "lean",
            "prior": "llm",
            "file_bytes": file.stat().st_size,
            "machine": f"{platform.machine()} {platform.system()}",
            "torch": torch.__version__,
        }
        return {n: f"{v:.3f}" if isinstance(v, float) else v for n, v in {**shared, **found}.items()}

    sample = sample_path("convnet_mnist_step60")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.model == "tiny":
            from tests.tiny_models import tiny_llama

            arguments.model = str(tiny_llama(Path(folder) / "tiny"))
        rows = [row("windows", "measure", sample, n) for n in WINDOWS if n <= arguments.most_windows]
        large = large_file(Path(folder))
        rows += [row("4 GB, inspect", "inspect", large, 0), row("4 GB, sample of 2", "measure", large, 2)]
    RESULTS.parent.mkdir(exist_ok=True)
    with open(RESULTS, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
