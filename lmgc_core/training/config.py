"""What is trained, how, and which of its steps are recorded: the settings of `generate`.

The defaults are the paper's set-up (LM-GC, appendix: SGD 0.1, momentum 0.9, weight decay 5e-4, batch 128,
a cosine over 200 epochs that moves once an epoch).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lmgc_core.errors import InvalidSetting

OptimizerName = Literal["sgd", "adamw"]
RecordKind = Literal["gradient", "exp_avg", "exp_avg_sq", "update"]
TrainPrecision = Literal["float32", "bfloat16", "float16"]
Schedule = Literal["cosine", "constant"]

CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer": get_args(OptimizerName),
    "record": get_args(RecordKind),
    "precision": get_args(TrainPrecision),
    "schedule": get_args(Schedule),
}
LEARNING_RATES = {"sgd": 0.1, "adamw": 1e-3}
WEIGHT_DECAYS = {"sgd": 5e-4, "adamw": 1e-2}


@dataclass(frozen=True, slots=True)
class GenerateConfig:
    """A training run and what to keep of it. Steps count from 1.

    Attributes:
        network: one of `networks.NETWORKS`.
        data: one of `datasets.DATA`; a folder follows a colon, as in "cifar10:/data/cifar-10-batches-bin".
        steps: optimizer steps in all.
        record_at: the steps to record; empty for the last one alone.
        batch_size: examples a step; an epoch's last batch may be smaller.
        width: None for the paper's; smaller is faster and keeps the architecture.
        optimizer: "sgd" or "adamw".
        learning_rate: None for 0.1 (sgd) or 0.001 (adamw).
        momentum: of sgd; adamw has betas of 0.9 and 0.999.
        weight_decay: None for 5e-4 (sgd) or 0.01 (adamw).
        schedule: "cosine" lowers the rate once an epoch, towards 0 at the end of `epochs`.
        epochs: length of the cosine, whatever the number of steps.
        record: the gradient, an average that adamw keeps, or what the weights gained.
        local_steps: steps that an update spans, the recorded one being the last: a federated learner's round.
        precision: of weights, hence of gradients.
        loss_scale: factor on the loss in float16; recorded gradients carry it, the optimizer sees it removed.
        augment: the paper's random crop and flip, where the data have one.
        seed: of weights, order, augmentation and dropout.
        threads: of torch while training; the order of sums, and so the last bits, depend on it.
    """

    network: str = "convnet"
    data: str = "mnist"
    steps: int = 60
    record_at: tuple[int, ...] = ()
    batch_size: int = 128
    width: int | None = None
    optimizer: OptimizerName = "sgd"
    learning_rate: float | None = None
    momentum: float = 0.9
    weight_decay: float | None = None
    schedule: Schedule = "cosine"
    epochs: int = 200
    record: RecordKind = "gradient"
    local_steps: int = 1
    precision: TrainPrecision = "float32"
    loss_scale: float = 1024.0
    augment: bool = True
    seed: int = 0
    threads: int = 2

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InvalidSetting(f"{name} {getattr(self, name)!r} is not known; choose one of {', '.join(allowed)}")
        for name, low in (("steps", 1), ("batch_size", 1), ("epochs", 1), ("local_steps", 1), ("threads", 1)):
            _check_whole(name, getattr(self, name), low)
        _check_whole("seed", self.seed, 0)
        for name in ("learning_rate", "momentum", "weight_decay", "loss_scale"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0 <= value < float("inf")):
                raise InvalidSetting(f"{name.replace('_', ' ')} {value!r}: a finite number of 0 or more is needed")
        if self.loss_scale == 0:
            raise InvalidSetting("loss scale 0: a number above 0 is needed")
        if not isinstance(self.record_at, tuple | list):
            raise InvalidSetting(f"record at {self.record_at!r}: a tuple of step numbers is needed, as in (1, 60)")
        for step in self.record_at:
            _check_whole("step to record", step, 1)
            if step > self.steps:
                raise InvalidSetting(f"step to record {step} comes after the last of {self.steps} steps; raise steps")
        if self.record == "update" and self.local_steps > self.recorded_steps[0]:
            raise InvalidSetting(
                f"local steps {self.local_steps}: the update at step {self.recorded_steps[0]} can span "
                f"{self.recorded_steps[0]} at most; record later or lower local steps"
            )
        if self.record in ("exp_avg", "exp_avg_sq") and self.optimizer != "adamw":
            raise InvalidSetting(f"record {self.record!r}: only adamw keeps it, the optimizer is {self.optimizer!r}")

    @property
    def recorded_steps(self) -> tuple[int, ...]:
        """The steps to record, ascending, each once.

        >>> GenerateConfig(steps=5).recorded_steps, GenerateConfig(steps=5, record_at=(3, 1, 3)).recorded_steps
        ((5,), (1, 3))
        """
        return tuple(sorted(set(self.record_at))) or (self.steps,)

    @property
    def base_learning_rate(self) -> float:
        """The rate at the first step."""
        return LEARNING_RATES[self.optimizer] if self.learning_rate is None else self.learning_rate

    @property
    def decay(self) -> float:
        """The weight decay that holds."""
        return WEIGHT_DECAYS[self.optimizer] if self.weight_decay is None else self.weight_decay

    def to_dict(self) -> dict[str, Any]:
        """Every option by its name."""
        return {**asdict(self), "record_at": list(self.recorded_steps)}


def _check_whole(name: str, value: object, low: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise InvalidSetting(f"{name.replace('_', ' ')} {value!r}: a whole number of {low} or more is needed")
