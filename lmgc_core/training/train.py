"""Training a small network step by step, and what is recorded on the way.

`training_steps` yields one result a step, so that a page can draw the loss as it falls and stop when asked;
`generate` runs it to the end. Law: equal settings give equal bits on the same machine and software.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lmgc_core.errors import Cancelled, InvalidSetting
from lmgc_core.gradient import Gradient
from lmgc_core.training.config import GenerateConfig
from lmgc_core.training.datasets import Data, load_data
from lmgc_core.training.networks import NETWORKS, build_network, count_parameters

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded at one step.

    Attributes:
        step: from 1.
        gradient: one tensor for each parameter of the network, by the parameter's name.
        loss: of that step's batch, before the step.
        metadata: how it came about, as text: enough to make it again.
    """

    step: int
    gradient: Gradient
    loss: float
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step that has been taken.

    Attributes:
        step: from 1.
        n_steps: of the whole run.
        loss: mean cross-entropy of the step's batch, in nats, before the step.
        recorded: what was recorded at this step, if anything.
    """

    step: int
    n_steps: int
    loss: float
    recorded: Recorded | None = None


def generate(
    config: GenerateConfig,
    on_step: Callable[[StepResult], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> list[Recorded]:
    """What a training run recorded, in the order of its steps.

    Args:
        config: what is trained, how, and which steps are recorded.
        on_step: called after every step.
        should_stop: asked before every step.

    Raises:
        InvalidSetting: for settings that do not fit each other.
        UnsupportedInput: for a data folder that cannot be used.
        Cancelled: when `should_stop` says so; `on_step` has seen what was recorded before.
    """
    recorded = []
    for result in training_steps(config, should_stop):
        if result.recorded is not None:
            recorded.append(result.recorded)
        if on_step is not None:
            on_step(result)
    return recorded


def training_steps(config: GenerateConfig, should_stop: Callable[[], bool] | None = None) -> Iterator[StepResult]:
    """One result for each step of a training run. Arguments and errors as `generate`."""
    import torch

    data = load_data(config.data)
    if config.network in NETWORKS and NETWORKS[config.network].takes != data.takes:
        fitting = ", ".join(n for n, network in NETWORKS.items() if network.takes == data.takes)
        raise InvalidSetting(f"network {config.network!r} does not read {data.name}; choose one of {fitting}")
    dtype = getattr(torch, config.precision)
    init, order, noise = (_generator(config.seed, purpose) for purpose in range(3))
    module = build_network(config.network, data.shape, data.n_classes, config.width, init, noise).to(dtype).train()
    optimizer = _optimizer(module, config)
    batches = _batches(data, config, order, noise)
    metadata = _metadata(module, config)
    wanted = set(config.recorded_steps)
    before: dict[int, dict[str, torch.Tensor]] = {}
    for step in range(1, config.steps + 1):
        if should_stop is not None and should_stop():
            raise Cancelled(f"training was stopped after {step - 1} of {config.steps} steps")
        with _threads(config.threads):
            epoch, indices = next(batches)
            _set_rate(optimizer, config, epoch)
            if config.record == "update" and step + config.local_steps - 1 in wanted:
                before[step + config.local_steps - 1] = {n: p.detach().clone() for n, p in module.named_parameters()}
            examples, labels = data.batch(indices, noise if config.augment else None)
            loss = _backward(
                module, optimizer, config, examples.to(dtype) if data.takes == "images" else examples, labels
            )
            tensors = _copy(_gradients(module)) if config.record == "gradient" and step in wanted else None
            _unscale(module, config)
            optimizer.step()
            if tensors is None and step in wanted:
                tensors = _copy(_after_step(module, optimizer, config, before.pop(step, {})))
        recorded = None
        if tensors is not None:
            gradient = Gradient.from_arrays(tensors, f"{config.network}_{data.name}_step{step}")
            notes = {**metadata, "step": str(step), "loss": repr(loss)}
            recorded = Recorded(step, gradient, loss, notes)
        yield StepResult(step, config.steps, loss, recorded)


def _generator(seed: int, purpose: int) -> torch.Generator:
    """A random source for one purpose, so that (say) dropout never changes the order of the examples."""
    import torch

    state = np.random.SeedSequence([seed, purpose]).generate_state(1, np.uint32)
    return torch.Generator().manual_seed(int(state[0]))


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """torch's thread count, set for the length of a step and put back."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _batches(
    data: Data, config: GenerateConfig, order: torch.Generator, noise: torch.Generator
) -> Iterator[tuple[int, np.ndarray[tuple[int], np.dtype[np.int64]]]]:
    """Endless (epoch from 0, indices): each epoch visits every example once, in a new order."""
    import torch

    epoch = 0
    while True:
        shuffled = torch.randperm(len(data), generator=order).numpy()
        for first in range(0, len(shuffled), config.batch_size):
            yield epoch, shuffled[first : first + config.batch_size]
        epoch += 1


def _optimizer(module: torch.nn.Module, config: GenerateConfig) -> torch.optim.Optimizer:
    import torch

    rate, decay = config.base_learning_rate, config.decay
    if config.optimizer == "sgd":
        return torch.optim.SGD(module.parameters(), lr=rate, momentum=config.momentum, weight_decay=decay)
    return torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=decay)


def _set_rate(optimizer: torch.optim.Optimizer, config: GenerateConfig, epoch: int) -> None:
    factor = 1.0
    if config.schedule == "cosine":
        factor = (1 + math.cos(math.pi * min(epoch, config.epochs) / config.epochs)) / 2
    for group in optimizer.param_groups:
        group["lr"] = config.base_learning_rate * factor


def _backward(
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    config: GenerateConfig,
    examples: torch.Tensor,
    labels: torch.Tensor,
) -> float:
    """Fills the gradients for one batch; returns its loss."""
    import torch

    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(module(examples).to(torch.float32), labels)
    scaled = loss * config.loss_scale if config.precision == "float16" else loss
    scaled.backward()  # type: ignore[no-untyped-call]
    return float(loss.detach())


def _unscale(module: torch.nn.Module, config: GenerateConfig) -> None:
    if config.precision == "float16":
        for gradient in _gradients(module).values():
            gradient.div_(config.loss_scale)


def _gradients(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def _after_step(
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    config: GenerateConfig,
    before: dict[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """An average of the optimizer's, or what the weights gained since `before`."""
    parameters = {name: p for name, p in module.named_parameters() if p.grad is not None}
    if config.record == "update":
        return {name: p.detach() - before[name] for name, p in parameters.items()}
    return {name: optimizer.state[p][config.record] for name, p in parameters.items()}


def _copy(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _metadata(module: torch.nn.Module, config: GenerateConfig) -> dict[str, str]:
    import torch

    settings = {**config.to_dict(), "data": config.data.partition(":")[0]}
    scale = config.loss_scale if config.precision == "float16" and config.record == "gradient" else 1.0
    return {
        "recorded": config.record,
        "module": config.network,
        "n_parameters": str(count_parameters(module)),
        "loss_scale": repr(float(scale)),
        "torch": torch.__version__,
        "settings": json.dumps(settings, sort_keys=True),
    }
