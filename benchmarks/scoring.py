"""Tokens a second and bits a token: plain transformers with all logits, and this package, on the same windows.

Writes benchmarks/results/scoring.csv. Every engine sees the same windows in the same run, in rounds that
alternate; the best round of each counts. Processor seconds stand beside seconds: on a machine that does other
things meanwhile only they can be compared. Run from the repository's root: `python -m benchmarks.scoring`.
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lmgc_core.language_model import load_model
from lmgc_core.settings import RunOptions

RESULTS = Path(__file__).parent / "results" / "scoring.csv"
SAMPLE = Path(__file__).parent.parent / "sample_gradients"
HEX = frozenset(b"0123456789abcdef ")
COLUMNS = [
    "engine", "dtype", "support", "support_tokens", "n_tokens", "seconds", "cpu_seconds", "tokens_per_second",
    "bits_per_token", "against_plain", "against_plain_cpu", "matrix_gflops", "machine", "threads", "torch",
    "transformers", "model", "window_tokens",
]  # fmt: skip


def windows_of_text(tokenizer: Any, values: Any, n_windows: int, n_tokens: int) -> list[Any]:
    """Equal windows of big-endian hex with a space between values."""
    ids = tokenizer.encode(" ".join(value.tobytes()[::-1].hex() for value in values))
    return [ids[i * n_tokens : (i + 1) * n_tokens] for i in range(n_windows)]


def plain(module: Any, start_id: int, windows: list[Any]) -> float:
    """Bits of all tokens by transformers alone: all logits of a batch, log-softmax, pick."""
    import torch

    ids = torch.as_tensor(np.stack([np.concatenate([[start_id], w]) for w in windows]), dtype=torch.int64)
    with torch.inference_mode():
        logp = torch.log_softmax(module(input_ids=ids[:, :-1], use_cache=False).logits.float(), -1)
        return float(-logp.gather(-1, ids[:, 1:, None]).double().sum() / np.log(2))


def matrix_gflops(rows: int = 1024, inner: int = 576, columns: int = 1536, repeats: int = 20) -> float:
    """fp32 matrix products of the model's MLP shape, GFLOP/s."""
    import torch

    a, b = torch.randn(rows, inner), torch.randn(inner, columns)
    start = time.perf_counter()
    for _ in range(repeats):
        a @ b
    return 2e-9 * rows * inner * columns * repeats / (time.perf_counter() - start)


def main() -> None:
    """Runs the benchmark and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument("--window-tokens", type=int, default=511)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--gradient", type=Path, default=None, help=".safetensors; a bundled sample if not given")
    options = parser.parse_args()

    import torch
    import transformers
    from safetensors.numpy import load_file

    path = options.gradient or sorted(SAMPLE.glob("convnet*.safetensors"))[-1]
    tensors = load_file(path)
    values = max(tensors.values(), key=lambda array: array.size).astype(np.float32).ravel()
    models = {dtype: load_model("smollm2-135m", RunOptions(dtype=dtype, device="cpu")) for dtype in ("fp32", "int8")}
    fp32 = models["fp32"]
    windows = windows_of_text(fp32.tokenizer, values[:20_000], options.windows, options.window_tokens)
    n_tokens = sum(map(len, windows))
    supports = {"full": fp32.tokenizer.support(None), "alphabet": fp32.tokenizer.support(HEX)}

    def ours(dtype: str, support: str) -> Callable[[], float]:
        return lambda: sum(
            float(s.surprisal_bits.sum()) for s in models[dtype].score(windows, supports[support], first_batch=0)
        )

    engines: dict[tuple[str, str, str], Callable[[], float]] = {
        ("transformers, all logits", "fp32", "full"): lambda: plain(fp32.module, fp32.tokenizer.start_id, windows),
        **{("lmgc_core", d, s): ours(d, s) for d in ("fp32", "int8") for s in ("full", "alphabet")},
    }
    fp32.module(input_ids=torch.ones(1, 8, dtype=torch.int64))
    seconds: dict[tuple[str, str, str], float] = dict.fromkeys(engines, float("inf"))
    cpu_seconds = dict(seconds)
    bits: dict[tuple[str, str, str], float] = {}
    gflops = 0.0
    for _ in range(options.rounds):
        gflops = max(gflops, matrix_gflops())
        for key, engine in engines.items():
            start, cpu_start = time.perf_counter(), time.process_time()
            bits[key] = engine()
            seconds[key] = min(seconds[key], time.perf_counter() - start)
            cpu_seconds[key] = min(cpu_seconds[key], time.process_time() - cpu_start)
    base, cpu_base = next(iter(seconds.values())), next(iter(cpu_seconds.values()))
    RESULTS.parent.mkdir(exist_ok=True)
    with open(RESULTS, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for (engine_name, dtype, support), took in seconds.items():
            cpu_took = cpu_seconds[engine_name, dtype, support]
            writer.writerow(
                {
                    "engine": engine_name,
                    "dtype": dtype,
                    "support": support,
                    "support_tokens": len(supports[support]),
                    "n_tokens": n_tokens,
                    "seconds": f"{took:.2f}",
                    "cpu_seconds": f"{cpu_took:.2f}",
                    "tokens_per_second": f"{n_tokens / took:.1f}",
                    "bits_per_token": f"{bits[engine_name, dtype, support] / n_tokens:.4f}",
                    "against_plain": f"{base / took:.2f}",
                    "against_plain_cpu": f"{cpu_base / cpu_took:.2f}",
                    "matrix_gflops": f"{gflops:.1f}",
                    "machine": f"{platform.machine()} {platform.system()}",
                    "threads": torch.get_num_threads(),
                    "torch": torch.__version__,
                    "transformers": transformers.__version__,
                    "model": fp32.id,
                    "window_tokens": options.window_tokens,
                }
            )


if __name__ == "__main__":
    main()
