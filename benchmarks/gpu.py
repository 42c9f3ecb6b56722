"""All that is checked on a GPU, in under five minutes → benchmarks/results/gpu.csv; one line where there is no CUDA.

Scoring in fp32 and bf16, batch after batch twice as large until the memory is full (the fastest is what a run should
take), each precision's bits against those of the CPU in fp32; and archives made on the GPU that decode on the CPU, and
the other way round. A row a check; `passed` says whether it holds. Run from the repository's root:
`python -m benchmarks.gpu`.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from lmgc_core import compress, decompress, load_gradient, load_model, preset
from lmgc_core.gradient import Gradient
from lmgc_core.plan import prepare
from lmgc_core.samples import sample_path
from lmgc_core.settings import Precision, RunOptions

RESULTS = Path(__file__).parent / "results" / "gpu.csv"
COLUMNS = [
    "check", "dtype", "batch_size", "tokens", "seconds", "tokens_per_second", "bits_per_token", "peak_gpu_bytes",
    "passed", "gpu", "torch",
]  # fmt: skip
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")
SECONDS = 240.0  # after that no further check is begun
BITS_APART = {"fp32": 0.001, "bf16": 0.05}  # of the mean bits a token on the CPU in fp32


def main() -> int:
    """Runs the checks and writes the table; 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--windows", type=int, default=512)
    parser.add_argument("--values", type=int, default=864, help="of the archives")
    options = parser.parse_args()

    import torch

    if not torch.cuda.is_available():
        sys.stdout.write("skipped: torch sees no CUDA device here\n")
        return 0
    started = time.perf_counter()
    rows: list[dict[str, Any]] = []
    shared = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    gradient = load_gradient(sample_path("convnet_mnist_step60")).select(["conv2.weight"])
    config = preset("best", prior="llm")
    coding = prepare(gradient, config)
    on_cpu = load_model(options.model, RunOptions(device="cpu"))
    blocks = range(min(options.windows, len(coding.blocks)))
    ids = [w.ids for w in coding.windows(blocks, on_cpu.tokenizer, config.context_window)]
    windows = [ids[i % len(ids)] for i in range(options.windows)]
    support = on_cpu.tokenizer.support(next(iter(coding.serializers.values())).alphabet_bytes)
    few = windows[:2]
    wanted = mean_bits(on_cpu, few, support, 2)

    for dtype in PRECISIONS:
        model = load_model(options.model, RunOptions(device="cuda", dtype=dtype))
        found = mean_bits(model, few, support, 2)
        rows.append(
            {
                "check": "bits as on the CPU",
                "dtype": dtype,
                "bits_per_token": f"{found:.5f}",
                "passed": abs(found - wanted) <= BITS_APART[dtype],
            }
        )
        batch = 1
        while batch <= len(windows) and time.perf_counter() - started < SECONDS:
            own = windows[: max(batch, 8)]
            torch.cuda.reset_peak_memory_stats()
            begun = time.perf_counter()
            try:
                bits = mean_bits(model, own, support, batch)
            except torch.OutOfMemoryError:
                rows.append({"check": "batch", "dtype": dtype, "batch_size": batch, "passed": "out of memory"})
                torch.cuda.empty_cache()
                break
            seconds, n_tokens = time.perf_counter() - begun, sum(map(len, own))
            rows.append(
                {
                    "check": "batch",
                    "dtype": dtype,
                    "batch_size": batch,
                    "tokens": n_tokens,
                    "seconds": f"{seconds:.3f}",
                    "tokens_per_second": f"{n_tokens / seconds:.1f}",
                    "bits_per_token": f"{bits:.5f}",
                    "peak_gpu_bytes": torch.cuda.max_memory_allocated(),
                    "passed": True,
                }
            )
            batch *= 2
        del model
        torch.cuda.empty_cache()

    values = Gradient.from_arrays({"w": gradient["conv2.weight"].reshape(-1)[: options.values]})
    places = {"cpu": on_cpu, "cuda": load_model(options.model, RunOptions(device="cuda"))}
    for here, there in (("cuda", "cpu"), ("cpu", "cuda")):
        begun = time.perf_counter()
        made = compress(values, places[here], config, verify="none")
        back = decompress(made, places[there])
        rows.append(
            {
                "check": f"archive of {here} decodes on {there}",
                "dtype": "fp64",
                "tokens": made.report["n_tokens"],
                "seconds": f"{time.perf_counter() - begun:.3f}",
                "passed": back.to_bytes() == values.to_bytes(),
            }
        )
    RESULTS.parent.mkdir(exist_ok=True)
    with open(RESULTS, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({**row, **shared} for row in rows)
    return int(any(row["passed"] is False for row in rows))


def mean_bits(model: Any, windows: list[Any], support: Any, batch_size: int) -> float:
    """Bits a token of these windows."""
    scores = model.score(windows, support, batch_size=batch_size, first_batch=0)
    return float(np.concatenate([s.surprisal_bits for s in scores]).mean())


if __name__ == "__main__":
    sys.exit(main())
