"""Bits of sign and exponent by the priors: the model alone, counts alone, both; with and without what they know.

Writes benchmarks/results/priors.csv. Every row of a tensor covers the same parameters, from the first on, everything
coded from the first value; byte planes + xz sees the same parameters in one piece. Run from the repository's root:
`python -m benchmarks.priors sample_gradients/convnet_mnist_step60.safetensors --tensor conv2.weight`. The model's
scores take most of the time; `--scores PATH` keeps them. `--no-model` measures counts alone.
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lmgc_core.baselines.planes import encode_plane_xz
from lmgc_core.files import load_gradient
from lmgc_core.language_model import LanguageModel, load_model, load_tokenizer
from lmgc_core.language_model.scoring import padded
from lmgc_core.priors import make_prior, rounded_log2, run_segment
from lmgc_core.priors.fixed_point import LOG_ONE
from lmgc_core.remainder import remainder_model
from lmgc_core.serialization import PieceSpec, PieceValues, SerializedText, Serializer, reference_of
from lmgc_core.settings import DEFAULT_MODEL, preset_serialization

RESULTS = Path(__file__).parent / "results" / "priors.csv"
WINDOW_PARAMETERS = 432
COLUMNS = [
    "file", "tensor", "shape", "prior", "segment", "shape_known", "n_windows", "n_parameters", "n_tokens",
    "bits_per_head", "compression_rate", "planes_xz_rate", "cpu_ms_per_token",
]  # fmt: skip


def model_logs(model: LanguageModel, windows: list[Any], support: Any) -> list[Any]:
    """Rounded log2 probabilities of every token of the support, by window, in 1/4096 bit."""
    import torch

    found = []
    for ids in windows:
        with model.lock, torch.inference_mode(), model.arithmetic():
            head = model.support_head(support)
            pieces = model.logit_pieces(padded([ids], model.tokenizer.start_id), [len(ids)], head, support)
            logs = torch.cat([torch.log_softmax(logits.double(), -1) for _, logits in pieces]).cpu().numpy()
        found.append(rounded_log2(logs / -np.log(2)).astype(np.int32))
    return found


def remainder_bits(texts: list[SerializedText], segment: int) -> float:
    """What the bits outside the text take, with the same segments."""
    total = 0.0
    for first in range(0, len(texts), segment):
        part = texts[first : first + segment]
        values, context = (np.concatenate([getattr(t, name) for t in part]) for name in ("remainder", "context"))
        plan = remainder_model(values, context, part[0].remainder_bits)
        total += plan.header_bits + float(plan.bits_per_value.sum())
    return total


def measured(
    kind: str, serializer: Serializer, pieces: list[Any], tokens: Any, logs: Any, indices: list[Any], segment: int
) -> tuple[float, float]:
    """(bits in all, CPU milliseconds a token)."""
    bits, start = 0.0, time.process_time()
    for first in range(0, len(pieces), segment):
        part = slice(first, first + segment)
        if kind == "llm":
            bits -= sum(x[np.arange(len(i)), i].sum() for x, i in zip(logs[part], indices[part], strict=True)) / LOG_ONE
        else:
            prior = make_prior(kind, serializer, pieces[part], tokens)  # type: ignore[arg-type]
            bits += sum(b.sum() for b in run_segment(prior, logs[part] if kind == "mix" else None, indices[part]))
    return float(bits), 1000 * (time.process_time() - start) / sum(map(len, indices))


def main() -> None:
    """Runs the benchmark and adds its rows to the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--tensor", required=True)
    parser.add_argument("--windows", type=int, default=16)
    parser.add_argument("--segments", default="16", help="comma list")
    parser.add_argument("--no-model", action="store_true")
    parser.add_argument("--scores", type=Path, help="keep the model's scores here, or read them if they are there")
    parsed = parser.parse_args()
    tensor = load_gradient(parsed.file).tensor(parsed.tensor)
    serializer = Serializer(tensor.dtype, preset_serialization("best", tensor.dtype))
    tokenizer = load_tokenizer(DEFAULT_MODEL)
    support = tokenizer.support(serializer.alphabet_bytes)
    place = {int(token): index for index, token in enumerate(support)}
    reference = reference_of(tensor.words, tensor.dtype)
    n_windows = min(parsed.windows, -(-tensor.n_parameters // WINDOW_PARAMETERS))
    pieces, ids, texts = [], [], []
    for first in range(0, n_windows * WINDOW_PARAMETERS, WINDOW_PARAMETERS):
        words = tensor.words[first : first + WINDOW_PARAMETERS]
        piece = PieceValues(words, first, tensor.shape, reference)
        texts.append(serializer.write([piece]))
        ids.append(tokenizer.encode(texts[-1].text))
        pieces.append([piece.spec])
    indices = [np.array([place[int(t)] for t in window], np.int64) for window in ids]
    logs = None
    if not parsed.no_model:
        if parsed.scores and parsed.scores.exists():
            kept = np.load(parsed.scores)
            logs = np.split(kept["logs"], np.cumsum(kept["lengths"])[:-1])
        else:
            logs = model_logs(load_model(DEFAULT_MODEL), ids, support)
            if parsed.scores:
                np.savez_compressed(parsed.scores, logs=np.concatenate(logs), lengths=[len(x) for x in logs])
    n_parameters = sum(p[0].n_parameters for p in pieces)
    planes = tensor.words[:n_parameters].view(np.uint8).reshape(n_parameters, -1).T
    xz = sum(min(n_parameters, len(encode_plane_xz(plane.tobytes()))) for plane in planes)
    flat: list[list[PieceSpec]] = [[replace(p, shape=(tensor.n_parameters,)) for p in window] for window in pieces]
    rows = []
    segments = [int(n) for n in parsed.segments.split(",")]
    runs = [("counts", n, True) for n in segments] + [("counts", segments[0], False)]
    if logs is not None:
        runs = [("llm", segments[0], True), *(("mix", n, True) for n in segments), *runs]
    for kind, segment, shape_known in runs:
        chosen = pieces if shape_known else flat
        bits, cpu = measured(kind, serializer, chosen, tokenizer.token_bytes(support), logs, indices, segment)
        rate = (bits + remainder_bits(texts, segment)) / n_parameters / tensor.dtype.bits
        rows.append(
            [parsed.file.name, parsed.tensor, "x".join(map(str, tensor.shape)), kind, segment, shape_known, n_windows,
             n_parameters, sum(map(len, indices)), round(bits / n_parameters, 4), round(rate, 5),
             round(8 * xz / n_parameters / tensor.dtype.bits, 5), round(cpu, 3) if kind != "llm" else ""]
        )  # fmt: skip
    fresh = not RESULTS.exists()
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", newline="") as out:
        writer = csv.writer(out)
        if fresh:
            writer.writerow(COLUMNS)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
