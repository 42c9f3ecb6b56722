"""Parameters a second and bits a parameter: each preset, and plain transformers on the authors' format.

Writes benchmarks/results/presets.csv. All rows see one bundled tensor, in one run. The peer is
what the paper's code does with a window: all logits of one window at a time, in fp32. A window of the authors' format
holds fewer parameters, so the peer sees only the first of them (`--peer-windows`); its rate of work does not change.
Run from the repository's root: `python -m benchmarks.presets`.
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
from pathlib import Path

from benchmarks.scoring import matrix_gflops, plain
from lmgc_core import load_gradient, load_model, measure, preset
from lmgc_core.plan import prepare
from lmgc_core.samples import sample_path
from lmgc_core.settings import Preset, RunOptions

RESULTS = Path(__file__).parent / "results" / "presets.csv"
COLUMNS = [
    "engine", "preset", "dtype", "n_parameters", "n_tokens", "tokens_per_parameter", "bits_per_parameter",
    "compression_rate", "seconds", "tokens_per_second", "parameters_per_second", "against_plain", "matrix_gflops",
    "sample", "tensor", "machine", "threads", "torch", "transformers",
]  # fmt: skip


def main() -> None:
    """Runs the benchmark and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", default="convnet_mnist_step60")
    parser.add_argument("--tensor", default="conv2.weight")
    parser.add_argument("--limit", type=int, default=16, help="blocks for lean and best")
    parser.add_argument(
        "--paper-limit", type=int, default=2, help="blocks for paper, whose tokens are ten times as many"
    )
    parser.add_argument("--peer-windows", type=int, default=2)
    options = parser.parse_args()

    import torch
    import transformers

    gradient = load_gradient(sample_path(options.sample)).select([options.tensor])
    models = {d: load_model("smollm2-135m", RunOptions(dtype=d, device="cpu")) for d in ("fp32", "int8")}
    model = models["fp32"]
    paper = preset("paper")
    coding = prepare(gradient, paper)
    windows = [w for w in coding.windows([0], model.tokenizer, paper.context_window)][: options.peer_windows]
    model.module(input_ids=torch.ones(1, 8, dtype=torch.int64))
    started = time.perf_counter()
    bits = sum(plain(model.module, model.tokenizer.start_id, [w.ids]) for w in windows)
    seconds = time.perf_counter() - started
    n_tokens, n_parameters = sum(len(w.ids) for w in windows), sum(w.n_parameters for w in windows)
    pace = n_parameters / seconds
    shared = {
        "sample": options.sample,
        "tensor": options.tensor,
        "machine": f"{platform.machine()} {platform.system()}",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "matrix_gflops": f"{matrix_gflops():.1f}",
    }
    rows = [
        {
            "engine": "transformers, all logits",
            "preset": "paper",
            "dtype": "fp32",
            "n_parameters": n_parameters,
            "n_tokens": n_tokens,
            "tokens_per_parameter": f"{n_tokens / n_parameters:.3f}",
            "bits_per_parameter": f"{bits / n_parameters:.3f}",
            "compression_rate": f"{bits / n_parameters / 32:.5f}",
            "seconds": f"{seconds:.2f}",
            "tokens_per_second": f"{n_tokens / seconds:.1f}",
            "parameters_per_second": f"{pace:.1f}",
            "against_plain": "1.0",
            **shared,
        }
    ]
    runs: list[tuple[Preset, str, int]] = [
        ("paper", "fp32", options.paper_limit),
        *(("lean", d, options.limit) for d in models),
        *(("best", d, options.limit) for d in models),
    ]
    for name, dtype, limit in runs:
        report = measure(
            gradient, models[dtype], preset(name), limit=limit, options=RunOptions(dtype=dtype, device="cpu")
        )
        found, timing = report.totals, report.to_dict()["timing"]
        rows.append(
            {
                "engine": "lmgc_core",
                "preset": name,
                "dtype": dtype,
                "n_parameters": report.to_dict()["sample"]["n_parameters"],
                "n_tokens": found.n_tokens,
                "tokens_per_parameter": f"{found.tokens_per_parameter:.3f}",
                "bits_per_parameter": f"{found.bits_per_parameter:.3f}",
                "compression_rate": f"{found.compression_rate:.5f}",
                "seconds": f"{timing['seconds']:.2f}",
                "tokens_per_second": f"{timing['tokens_per_second']:.1f}",
                "parameters_per_second": f"{timing['parameters_per_second']:.1f}",
                "against_plain": f"{timing['parameters_per_second'] / pace:.1f}",
                **shared,
            }
        )
    RESULTS.parent.mkdir(exist_ok=True)
    with open(RESULTS, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
