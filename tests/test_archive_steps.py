"""Archives decoded in step: many segments together, windows that end early, memory, and the quick steps of a Llama."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core import archive_decoding, exact_scoring
from lmgc_core.archive import compress, decompress
from lmgc_core.archive_decoding import ArchiveProgress, open_archive
from lmgc_core.errors import ModelUnavailable
from lmgc_core.exact_scoring import ExactScorer
from lmgc_core.gradient import Gradient
from lmgc_core.guarded_rounding import GUARD_BITS
from lmgc_core.language_model import llama_steps, load_model
from lmgc_core.settings import RunOptions
from tests import tiny_models
from tests.archive_cases import small


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize(("name", "n"), [("lean", 900), ("mix", 450), ("paper_mix", 90)])
def test_segments_in_step_do_not_touch_each_other(tiny_model: Any, name: str, n: int, rows: int) -> None:
    """Windows of several lengths, of several segments: what is decoded does not depend on how many go together."""
    generator = np.random.default_rng(5)
    gradient = Gradient.from_arrays(
        {"a": generator.normal(size=n).astype("f4"), "b": np.zeros(20, "f4"), "c": generator.normal(size=9) * 1e-30}
    )
    archive = compress(gradient, tiny_model, small(name), verify="none")
    steps: list[ArchiveProgress] = []
    back = decompress(archive, tiny_model, options=RunOptions(batch_size=rows), on_progress=steps.append)
    assert back.to_bytes() == gradient.to_bytes()
    assert steps[-1].n_parameters_done == steps[-1].n_parameters == gradient.n_parameters
    assert steps[-1].n_tokens_done == archive.report["n_tokens"]
    assert all(a.n_parameters_done <= b.n_parameters_done for a, b in itertools.pairwise(steps))
    assert len({p.n_parameters_done for p in steps}) > archive.report["n_segments"]


def test_memory_in_step_grows_with_what_is_free_and_not_with_the_file(
    tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most half of what is free, or one segment; refused, with figures, where one segment does not fit."""
    gradient = Gradient.from_arrays({"a": np.random.default_rng(2).normal(size=900).astype("f4")})
    header = open_archive(compress(gradient, tiny_model, small("lean"), verify="none").archive).header
    scorer = ExactScorer(tiny_model)
    row = scorer.cache_bytes_per_token * header.longest_window
    auto = RunOptions()
    for free, rows in [(4 * row, 2), (20 * row, 10), (1 << 40, archive_decoding.ROWS_IN_STEP), (2 * row, 1)]:
        monkeypatch.setattr(archive_decoding, "available_memory", lambda free=free: free)
        assert archive_decoding._rows_in_step(header, scorer, auto) == rows
    monkeypatch.setattr(archive_decoding, "available_memory", lambda: 2 * row - 1)
    for options in (auto, RunOptions(batch_size=8)):
        with pytest.raises(ModelUnavailable, match="2 windows of a segment"):
            archive_decoding._rows_in_step(header, scorer, options)


def run_in_step(stepper: Any, windows: Any) -> Any:
    """Surprisals before each token of windows of equal length, shape (windows, steps, m); the second half of the
    steps without the first window."""
    found = []
    for step in range(windows.shape[1]):
        if step == windows.shape[1] // 2:
            stepper.keep(range(1, len(windows)))
            windows = windows[1:]
        found.append(stepper.step()[-2:])
        stepper.push(windows[:, step].tolist())
    return np.stack(found)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1, "head_dim": 6, "tie_word_embeddings": False},
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0}},
        {"rms_norm_eps": 1e-2, "num_hidden_layers": 3},
    ],
)
def test_steps_past_the_module_are_those_of_the_module(tmp_path: Path, changes: dict[str, Any]) -> None:
    model = load_model(str(tiny_models.tiny_llama(tmp_path / "model", **changes)))
    scorer = ExactScorer(model)
    support = model.tokenizer.support(None)
    windows = np.random.default_rng(1).integers(3, 290, (3, 12))
    quick = scorer.stepper(3, 12, support)
    assert isinstance(quick, exact_scoring.LlamaStepper)
    gap = run_in_step(quick, windows) - run_in_step(exact_scoring.ModuleStepper(scorer.model, 3, 12, support), windows)
    assert np.abs(gap).max() < GUARD_BITS / 1000
    given = {name: weight.double() for name, weight in model.module.state_dict().items()}
    own = scorer.model.module.state_dict()
    assert all(bool((own[name] == weight).all()) for name, weight in given.items())
    assert sum(
        s.nbytes() for s in {w.untyped_storage().data_ptr(): w.untyped_storage() for w in own.values()}.values()
    ) == (8 * model.n_parameters)


@pytest.mark.parametrize("changes", [{"attention_bias": True}, {"mlp_bias": True}, {"hidden_act": "gelu"}])
def test_what_is_no_plain_llama_goes_through_its_module(tmp_path: Path, changes: dict[str, Any]) -> None:
    model = load_model(str(tiny_models.tiny_llama(tmp_path / "model", **changes)))
    stepper = ExactScorer(model).stepper(2, 4, model.tokenizer.support(None))
    assert isinstance(stepper, exact_scoring.ModuleStepper)


def test_a_llama_that_computes_something_else_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(str(tiny_models.tiny_llama(tmp_path / "model")))
    monkeypatch.setattr(llama_steps, "_normed", lambda rows, norm: rows * norm.weight)
    stepper = ExactScorer(model).stepper(2, 4, model.tokenizer.support(None))
    assert isinstance(stepper, exact_scoring.ModuleStepper)


def test_a_model_in_fp64_shares_its_weights_and_takes_quick_steps(tmp_path: Path) -> None:
    folder = tiny_models.tiny_llama(tmp_path / "model")
    model = load_model(str(folder), RunOptions(dtype="fp64"))
    theirs = {w.data_ptr() for w in model.module.parameters()}
    scorer = ExactScorer(model)
    assert {w.data_ptr() for w in scorer.model.module.parameters()} == theirs
    assert isinstance(scorer.stepper(2, 4, model.tokenizer.support(None)), exact_scoring.LlamaStepper)
