"""Encoding, decoding, sizes and exceptions of archives → benchmarks/results/archive.csv (rows are appended).

python -m benchmarks.archive --preset lean --prior llm --values 6912 --threads 2

Speeds are tokens a second without loading the model. `scoring` is one parallel fp64 pass over the same windows,
with nothing done to its results: what decoding is compared with.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np
import torch

from lmgc_core.archive import compress
from lmgc_core.archive_decoding import decoded_words, open_archive
from lmgc_core.archive_model import Predictor
from lmgc_core.exact_scoring import ExactScorer
from lmgc_core.files import load_gradient
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import load_model
from lmgc_core.plan import prepare
from lmgc_core.samples import list_samples
from lmgc_core.settings import RunOptions, asks_model, preset

RESULTS = Path(__file__).parent / "results" / "archive.csv"


def measured(arguments: argparse.Namespace) -> dict[str, object]:
    """One row."""
    torch.set_num_threads(arguments.threads)
    sample = next(s for s in list_samples() if arguments.sample in str(s.path))
    whole = max(load_gradient(sample.path), key=lambda tensor: tensor.n_parameters)
    gradient = Gradient.from_arrays({whole.name: whole.array.reshape(-1)[: arguments.values]})
    explicit = {"context_window": arguments.context_window} if arguments.context_window else {}
    config = preset(arguments.preset, prior=arguments.prior, segment=arguments.segment, **explicit)
    model = load_model(arguments.model)
    options = RunOptions(threads=arguments.threads)

    started = time.perf_counter()
    scorer = ExactScorer(model)
    building = time.perf_counter() - started

    started = time.perf_counter()
    result = compress(gradient, model, config, options=options, verify="none")
    encoding = time.perf_counter() - started - building

    coding = prepare(gradient, config)
    windows = list(coding.windows(range(len(coding.blocks)), model.tokenizer, config.context_window))
    alphabet = next(iter(coding.serializers.values())).alphabet_bytes if config.support == "alphabet" else None
    support = model.tokenizer.support(alphabet)
    started = time.perf_counter()
    for _ in scorer.windows([w.ids for w in windows], support):
        pass
    scoring = time.perf_counter() - started

    container = open_archive(result.archive)
    started = time.perf_counter()
    words = decoded_words(
        container,
        Predictor(model.tokenizer, scorer if asks_model(config.prior) else None),
        None,
        None,
        options,
        "decode",
        None,
        None,
    )
    decoding = time.perf_counter() - started
    assert np.array_equal(words[0], coding.coded.tensors[0].words)

    report, n = result.report, result.report["n_tokens"]
    return {
        "model": model.id, "sample": sample.path.stem, "preset": arguments.preset, "prior": config.prior,
        "values": len(words[0]),
        "windows": len(windows), "segment": config.segment, "tokens": n, "support": len(support),
        "threads": arguments.threads,
        "scoring_tokens_per_second": round(n / scoring, 1),
        "encode_tokens_per_second": round(n / encoding, 1),
        "decode_tokens_per_second": round(n / decoding, 1),
        "decode_over_scoring": round(scoring / decoding, 3),
        "container_bytes": report["container_bytes"], "header_bytes": report["header_bytes"],
        "exceptions_per_million_tokens": round(1e6 * report["n_exceptions"] / n, 1),
        "surprisal_bits_per_token": round(report["surprisal_bits"] / n, 5),
        "code_length_bits_per_token": round(report["token_code_length_bits"] / n, 5),
        "compression_rate": round(report["compression_rate"], 5),
    }  # fmt: skip


def main() -> None:
    """Appends one row to the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--sample", default="convnet_mnist_step60")
    parser.add_argument("--preset", default="lean")
    parser.add_argument("--prior", default="llm", choices=["llm", "counts", "mix"])
    parser.add_argument("--values", type=int, default=6912)
    parser.add_argument("--context-window", type=int, default=0)
    parser.add_argument("--segment", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    row = measured(parser.parse_args())
    RESULTS.parent.mkdir(exist_ok=True)
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main()
