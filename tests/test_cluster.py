"""Segments on a Ray cluster: the same numbers as here, whatever is lost on the way; one clear line without Ray."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgc_core.__main__ import main
from lmgc_core.archive import compress
from lmgc_core.codec import Progress, measure
from lmgc_core.errors import Cancelled, InvalidSetting, LmgcError
from lmgc_core.gradient import Gradient
from lmgc_core.language_model import load_tokenizer
from lmgc_core.ray_pool import actor_size
from lmgc_core.runner import LocalRunner, Step
from lmgc_core.samples import sample_path
from lmgc_core.settings import CodecConfig, RunOptions, preset

ROOT = Path(__file__).parent.parent
SMALL = {"context_window": 128, "segment": 2}


def gradient(n_values: int) -> Gradient:
    values = np.random.default_rng(0).normal(size=n_values) * 1e-3
    return Gradient.from_arrays({"w": values.astype("f4")})


def test_without_ray_a_command_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny_folder: Any
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    line = ["--model", str(tiny_folder("tiny_llama")), "--limit", "1", "--backend", "ray"]
    capsys.readouterr()
    assert main(["measure", str(sample_path("convnet_mnist_step60")), *line]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "pip install" in err


def test_an_address_needs_the_backend_that_it_is_for() -> None:
    with pytest.raises(InvalidSetting, match="choose backend ray"):
        RunOptions(address="auto")


def test_an_actor_takes_a_gpu_with_its_share_of_the_cpus() -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 24.0, "GPU": 8.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]
    found = actor_size(nodes, RunOptions(backend="ray"))
    assert (found.cpus, found.gpus, found.most) == (3, 1, 8)
    assert actor_size(nodes, RunOptions(backend="ray", device="cpu")).most == 6
    assert actor_size(nodes, RunOptions(backend="ray", actors=2)).most == 2


def test_a_cluster_without_room_for_an_actor_is_refused() -> None:
    with pytest.raises(LmgcError, match="8 CPUs"):
        actor_size([{"Alive": True, "Resources": {"CPU": 4.0}}], RunOptions(backend="ray", threads=8))


class _Numbered:
    def __init__(self, index: int) -> None:
        self.index = index


def _halves(model: str, task: _Numbered, should_stop: Any) -> Iterator[str]:
    yield f"{model}{task.index}a"
    yield f"{model}{task.index}b"


def test_the_local_runner_says_when_a_task_has_given_everything() -> None:
    steps = list(LocalRunner("m")(_halves, [_Numbered(0), _Numbered(1)]))
    assert steps[:3] == [Step(0, ("m0a",), False), Step(0, ("m0b",), False), Step(0, (), True)]
    assert steps[-1] == Step(1, (), True)
    with pytest.raises(Cancelled):
        next(LocalRunner("m")(_halves, [_Numbered(0)], lambda: True))


# ---- two nodes on this machine ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of two nodes with one CPU each, as Ray counts them; the driver stands on the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_raylet_start_wait_time_s", "180")
        patch.setenv("RAY_worker_register_timeout_seconds", "180")
        patch.setenv("PYTHONPATH", str(ROOT))
        pytest.importorskip("ray", reason='Ray is not installed; pip install "ray[data]"')
        from ray.cluster_utils import Cluster

        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}, shutdown_at_exit=True
        )
        try:
            cluster.second = cluster.add_node(num_cpus=1)
            yield cluster
        finally:
            cluster.shutdown()


def spread(cluster: Any, **changes: Any) -> RunOptions:
    return RunOptions(**({"backend": "ray", "address": cluster.address, "threads": 1, "device": "cpu"} | changes))


@pytest.fixture
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.cluster
@pytest.mark.usefixtures("one_thread")
def test_a_cluster_gives_the_same_numbers_and_the_same_archive(nodes: Any, tiny_model: Any) -> None:
    source, config = gradient(700), preset("lean", prior="mix", **SMALL)
    here = measure(source, tiny_model, config, limit=0, options=RunOptions(threads=1))
    there = measure(source, tiny_model, config, limit=0, options=spread(nodes))
    assert there.complete
    assert [r.window.index for r in there.results] == [r.window.index for r in here.results]
    assert here.totals == there.totals
    for a, b in zip(here.results, there.results, strict=True):
        assert np.array_equal(a.surprisal_bits, b.surprisal_bits)
        assert np.array_equal(a.llm_surprisal_bits, b.llm_surprisal_bits)
        assert np.array_equal(a.top_token_ids, b.top_token_ids)
    archive = compress(source, tiny_model, config, verify="none").archive
    assert compress(source, tiny_model, config, options=spread(nodes), verify="none").archive == archive


@pytest.mark.cluster
@pytest.mark.usefixtures("one_thread")
def test_a_cancelled_run_keeps_what_was_done(nodes: Any, tiny_model: Any) -> None:
    source, config = gradient(1500), CodecConfig(planes="head", alphabet="letters", separator="none", **SMALL)
    seen: list[Progress] = []
    with pytest.raises(Cancelled):
        measure(
            source,
            tiny_model,
            config,
            limit=0,
            options=spread(nodes, actors=1),
            on_progress=seen.append,
            look_first=False,
            should_stop=lambda: bool(seen),
        )
    partial = seen[-1].partial
    assert 0 < len(partial.results) < seen[-1].n_windows
    assert not partial.complete
    whole = measure(source, tiny_model, config, limit=0, options=RunOptions(threads=1))
    own = {r.window.index: r.surprisal_bits for r in whole.results}
    assert all(np.array_equal(r.surprisal_bits, own[r.window.index]) for r in partial.results)


@pytest.mark.cluster
def test_a_killed_node_loses_nothing(nodes: Any, tiny_folder: Any) -> None:
    """The second node dies after the first segment; whatever it held is done again on the first."""
    source, config = gradient(6000), preset("lean", prior="counts", model=str(tiny_folder("tiny_llama")), **SMALL)
    tokenizer = load_tokenizer(config.model)
    killed: list[int] = []

    def kill(now: Any) -> None:
        if now.stage == "encode" and not killed:
            killed.append(now.n_parameters_done)
            nodes.remove_node(nodes.second, allow_graceful=False)

    options = spread(nodes, actors=2)
    made = compress(source, tokenizer, config, options=options, verify="none", on_progress=kill)
    assert 0 < killed[0] < source.n_parameters
    assert made.archive == compress(source, tokenizer, config, verify="none").archive
