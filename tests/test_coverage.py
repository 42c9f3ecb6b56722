"""The interval of a sampled rate, held against the rate of a whole tensor that the real model scored once."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from lmgc_core.blocks import estimate_rate, sample_blocks
from lmgc_core.codec import measure
from lmgc_core.files import load_gradient
from lmgc_core.samples import sample_path
from lmgc_core.settings import preset

SEEDS = 200


@pytest.mark.model
def test_the_interval_covers_the_whole_tensors_rate(default_model: Any) -> None:
    gradient = load_gradient(sample_path("convnet_mnist_step60")).select(["conv2.weight"])
    report = measure(gradient, default_model, preset("lean"), limit=0)
    bits: dict[int, float] = defaultdict(float)
    raw: dict[int, float] = defaultdict(float)
    for result in report.results:
        bits[result.window.block] += float(result.surprisal_bits.sum() + result.remainder_bits.sum())
        raw[result.window.block] += 32.0 * result.window.n_parameters
    n = len(bits)
    rate = sum(bits.values()) / sum(raw.values())
    for limit in (4, 8, 16):
        covered = 0
        for seed in range(SEEDS):
            chosen = sample_blocks(n, limit, seed)
            found = estimate_rate([bits[b] for b in chosen], [raw[b] for b in chosen], n)
            covered += (found.low or 0.0) <= rate <= (found.high or 0.0)
        assert covered >= 0.9 * SEEDS, f"{limit} blocks: {covered} of {SEEDS}"
