"""Bits of the remainder, part by part, and the whole beside the best of all baselines.

Writes benchmarks/results/remainder.csv: the bundled gradients, and gradients made from two of their tensors as casts,
quantisers, clipping and the like make them. `before` drops common low zeros and codes top bits; then each column adds
one part: ends of runs of zeros, repeats, grids. Heads are coded by counts alone, which needs no model. Run from the
repository's root: `python -m benchmarks.remainder` (`--only NAME` for some).
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from lmgc_core.baselines import best_baseline, run_baselines
from lmgc_core.coder import Decoder, Encoder
from lmgc_core.files import load_gradient
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import load_tokenizer
from lmgc_core.plan import prepare, segments
from lmgc_core.priors import make_prior, run_segment
from lmgc_core.remainder import remainder_model
from lmgc_core.remainder.bits import MAX_TOP_BITS, NO_TAIL, BitPlan, best_bits, bit_costs, dropped_bits
from lmgc_core.remainder.repeats import repeat_bits
from lmgc_core.remainder_coding import decode_remainders, encode_remainders
from lmgc_core.settings import DEFAULT_MODEL, preset

SAMPLES = Path("sample_gradients")
RESULTS = Path(__file__).parent / "results" / "remainder.csv"
COLUMNS = [
    "gradient", "dtype", "n_parameters", "head_bits", "before", "with_tails", "with_repeats", "with_grids",
    "rate_before", "rate", "best_baseline", "best_baseline_rate", "points_below", "model_seconds",
    "decode_seconds_per_segment",
]  # fmt: skip
F4 = np.float32


def quantised(values: Any, levels: int) -> Any:
    """Whole multiples of a step, up to `levels` on either side."""
    step = F4(np.abs(values).max() / levels)
    return np.round(values / step).astype(F4) * step


def made() -> Iterator[tuple[str, Any]]:
    """Gradients as a lossy or mixed-precision trainer would hand them on, 13,824 values each."""
    conv = load_gradient(SAMPLES / "convnet_mnist_step2.safetensors").tensor("conv2.weight")
    scores = load_gradient(SAMPLES / "embedding_words_step30.safetensors").tensor("output.weight")
    x, y = (t.words.view("<f4").reshape(t.shape)[:n] for t, n in ((conv, 12), (scores, 288)))
    rng = np.random.default_rng(0)
    half = x.astype(ml_dtypes.bfloat16).astype(F4)
    noisy = [(x * (1 + 0.5 * rng.standard_normal(x.shape))).astype(F4) for _ in range(8)]
    weights = (0.05 * rng.standard_normal(x.shape)).astype(F4)
    mean, spread = F4(np.abs(x).mean()), np.quantile(np.abs(x), [0.7, 0.9])
    step, low = F4((x.max() - x.min()) / 255), x.min()
    yield "convolution", x
    yield "linear", y
    yield "bfloat16 widened", half
    yield "bfloat16 scaled", half * F4(0.3712345)
    yield "mean of 8 bfloat16", (sum(n.astype(ml_dtypes.bfloat16).astype(F4) for n in noisy) / F4(8)).astype(F4)
    yield "float16 widened", (x * F4(1024)).astype(np.float16).astype(F4) / F4(1024)
    yield "float16 with small values", (x * F4(0.01)).astype(np.float16).astype(F4)
    yield "tf32", (x.view("<u4") & np.uint32(0xFFFFE000)).view("<f4")
    yield "float8 scaled", (x / mean).astype(ml_dtypes.float8_e4m3fn).astype(F4) * mean
    yield "int8 scaled", quantised(x, 127)
    yield "int8 scaled, linear", quantised(y, 127)
    yield "int8, a scale a filter", np.stack([quantised(part, 127) for part in x])
    yield "uint8 with an offset", (np.round((x - low) / step).astype(F4) * step + low).astype(F4)
    yield "int4 scaled", quantised(x, 7)
    yield "mean of 4 int8", (sum(quantised(n, 127) for n in noisy[:4]) / F4(4)).astype(F4)
    levels = np.quantile(x, np.linspace(0, 1, 256)).astype(F4)
    yield "256 levels", levels[np.clip(np.searchsorted(levels, x), 0, 255)]
    yield "powers of two", (np.sign(x) * 2.0 ** np.round(np.log2(np.abs(x) + 1e-30))).astype(F4)
    yield "signs", np.sign(x).astype(F4) * mean
    yield "three values", np.where(np.abs(x) > mean, np.sign(x) * F4(2) * mean, 0).astype(F4)
    yield "constant", np.full(x.shape, 0.0123, F4)
    yield "clipped", np.clip(x, -F4(spread[0]), F4(spread[0]))
    yield "largest tenth", np.where(np.abs(x) > spread[1], x, 0).astype(F4)
    yield "update of weights", (weights - F4(0.1) * x) - weights
    pixels = np.round(255 * rng.random(48)) / 255 * (rng.random(48) < 0.6)
    yield "one example, pixels", np.outer(y[:, 1], pixels.astype(F4))
    yield "one example, bits", np.outer(y[:, 1], rng.random(48) < 0.4).astype(F4)
    yield "rows again", y[rng.integers(0, 24, 288)]
    yield "float32 as float64", x.astype(np.float64)


def parts(values: Any, context: Any, n_bits: int) -> tuple[float, float, float, float]:
    """Bits of one segment's remainders: before, with tails, with repeats too, with all."""
    low = dropped_bits(values, n_bits)
    tops = range(min(MAX_TOP_BITS, n_bits - low) + 1)
    before = min(float(bit_costs(values, context, n_bits, BitPlan(low, top, NO_TAIL)).sum()) for top in tops)
    found = []
    for in_context, anywhere in product((False, True), repeat=2):
        left, bits = np.arange(len(values)), 0.0
        for groups in [context] * in_context + [np.ones_like(context)] * anywhere:
            numbers = np.unique(values[left], return_inverse=True)[1].reshape(-1)
            spent = repeat_bits(numbers, groups[left])
            bits, left = bits + float(spent.bits.sum()), left[spent.new]
        found.append(bits + float(best_bits(values[left], context[left], n_bits)[1].sum()))
    plan = remainder_model(values, context, n_bits)
    return before, found[0], min(found), float(plan.bits_per_value.sum()) + plan.header_bits


def measured(name: str, gradient: Gradient, tokenizer: Any) -> list[Any]:
    """One row of the table."""
    config = preset("best", prior="counts")
    coding = prepare(gradient, config)
    windows = list(coding.windows(range(len(coding.blocks)), tokenizer, config.context_window))
    heads, costs, model_seconds, decode_seconds = 0.0, np.zeros(4), 0.0, 0.0
    for run in segments(windows, config.segment):
        serializer = coding.serializers[run[0].dtype.name]
        support = tokenizer.support(serializer.alphabet_bytes)
        specs = [[v.spec for v in coding.values(w.pieces)] for w in run]
        prior = make_prior("counts", serializer, specs, tokenizer.token_bytes(support))
        heads += sum(float(b.sum()) for b in run_segment(prior, None, [np.searchsorted(support, w.ids) for w in run]))
        values, context = (np.concatenate([getattr(w.text, part) for w in run]) for part in ("remainder", "context"))
        costs += parts(values, context, serializer.remainder_bits)
        start = time.process_time()
        remainder_model(values, context, serializer.remainder_bits)
        middle = time.process_time()
        encoder = Encoder()
        encode_remainders(encoder, [w.text for w in run])
        payload = encoder.to_bytes()
        begun = time.process_time()
        back = decode_remainders(Decoder(payload), context, serializer.remainder_bits)
        decode_seconds = max(decode_seconds, time.process_time() - begun)
        model_seconds += middle - start
        if not np.array_equal(back, values):
            raise SystemExit(f"{name}: the remainders do not decode")
    n, width = sum(w.n_parameters for w in windows), windows[0].dtype.bits
    best = best_baseline(run_baselines(gradient))
    if best is None or best.compression_rate is None:
        raise SystemExit(f"{name}: no baseline runs")
    before, rate = ((heads + cost) / n / width for cost in (costs[0], costs[3]))
    return [
        name, windows[0].dtype.name, n, round(heads / n, 3), *np.round(costs / n, 3), round(before, 4), round(rate, 4),
        best.id, round(best.compression_rate, 4), round(100 * (best.compression_rate - rate), 2),
        round(model_seconds, 2), round(decode_seconds, 2),
    ]  # fmt: skip


def main() -> None:
    """Runs the benchmark and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", help="names of gradients, or their beginnings")
    parsed = parser.parse_args()
    tokenizer = load_tokenizer(DEFAULT_MODEL)
    gradients = [(path.stem, load_gradient(path)) for path in sorted(SAMPLES.glob("*.safetensors"))]
    gradients += [(name, Gradient.from_arrays({"w": np.ascontiguousarray(values)})) for name, values in made()]
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        for name, gradient in gradients:
            if not parsed.only or any(name.startswith(start) for start in parsed.only):
                writer.writerow(measured(name, gradient, tokenizer))
                out.flush()


if __name__ == "__main__":
    main()
