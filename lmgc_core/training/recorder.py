"""A recorder of gradients for anyone's training loop: one line round it, one file for each recorded step.

It listens to the optimizer: when a step begins, the gradients are what the optimizer will use, that is
accumulated, averaged over processes, unscaled and clipped. Law: a file holds the bits of `parameter.grad`
at that moment, sparse ones made dense. On other steps one counter moves and nothing else happens.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lmgc_core.errors import InvalidSetting, UnsupportedInput
from lmgc_core.gradient import Gradient, Tensor, tensor_from_array
from lmgc_core.training.parameters import chosen_parameters, name_pattern, unwrapped
from lmgc_core.training.record_file import save_record

if TYPE_CHECKING:
    import torch

FILE_PATTERN = "step_{step:08d}{suffix}.safetensors"
N_NAMES_LISTED = 20
HEADER_BYTES_A_TENSOR = 160  # what safetensors writes about a tensor beside its name, at most


def record_gradients(
    module: torch.nn.Module,
    folder: Path | str,
    every: int = 100,
    include: str | None = None,
    max_bytes: int | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    start: int = 0,
) -> GradientRecorder:
    """A context manager that records the module's gradients at every `every`-th optimizer step inside it.

    Args:
        module: what is trained; wrapped in DistributedDataParallel or compiled, its own names are recorded.
        folder: made if missing; files are called step_00000100.safetensors and never replaced.
        every: optimizer steps between two records; larger costs less time and disk.
        include: a regular expression; only parameters in whose name it is found are recorded.
        max_bytes: most that all files of this recorder may take; the first record that would go beyond it is
            not written, a warning says so, and recording ends while training goes on.
        optimizer: the one to listen to; None listens to each that holds a parameter of the module.
        start: steps that were taken before, for a training that is resumed.

    Raises:
        InvalidSetting: for settings that do not fit the module, or a folder with records of later steps.
        UnsupportedInput: for a folder that can't be made.
    """
    return GradientRecorder(module, folder, every, include, max_bytes, optimizer, start)


class GradientRecorder:
    """See `record_gradients`.

    Attributes:
        files: what was written, in order.
        n_steps: optimizer steps seen, `start` included.
        n_bytes: of all files.
        n_none: trained parameters that had no gradient when they were due, added up over the records.
        n_overflowed: records left out because GradScaler found a value that is not finite and skipped the step.
        problem: why recording ended early, in one line; "" while all is well.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        folder: Path | str,
        every: int = 100,
        include: str | None = None,
        max_bytes: int | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        start: int = 0,
    ) -> None:
        for name, value, low in (("every", every, 1), ("max bytes", max_bytes, 1), ("start", start, 0)):
            if name == "max bytes" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise InvalidSetting(f"{name} {value!r}: a whole number of {low} or more is needed")
        if optimizer is not None and not hasattr(optimizer, "register_step_pre_hook"):
            raise InvalidSetting(
                f"optimizer {type(optimizer).__name__} has no register_step_pre_hook; give the torch.optim.Optimizer "
                "inside it, or none to listen to all"
            )
        self._module = unwrapped(module)
        self._include = name_pattern(include)
        self._parameters = chosen_parameters(self._module, self._include)
        self._folder, self._every, self._max_bytes, self._optimizer = Path(folder), every, max_bytes, optimizer
        self._start = start
        # An optimizer is known by the parameters it held when first seen: one made anew for the same ones goes on
        # with their count. Weak, since an optimizer that its owner dropped should not stay in memory.
        self._held_names: WeakKeyDictionary[torch.optim.Optimizer, tuple[str, ...]] = WeakKeyDictionary()
        self._steps: dict[tuple[str, ...], int] = {}
        self._handles: list[Any] = []
        self._is_due_after = False
        self.files: list[Path] = []
        self.n_bytes = 0
        self.n_none = 0
        self.n_overflowed = 0
        self.problem = ""

    @property
    def n_steps(self) -> int:
        """Optimizer steps seen, `start` included; of the busiest optimizer if there are several."""
        return max(self._steps.values(), default=self._start)

    def __enter__(self) -> GradientRecorder:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        if self._handles:
            raise InvalidSetting("this recorder is already running; make another with record_gradients")
        if _rank() == 0:
            self._prepare_folder()
        if self._optimizer is not None:
            self._handles = [
                self._optimizer.register_step_pre_hook(self._before_step),
                self._optimizer.register_step_post_hook(self._after_step),
            ]
        else:
            self._handles = [
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
            ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_listening()
        if kind is None and not self._steps and not self.problem:
            warnings.warn(
                "record_gradients saw no step of an optimizer that holds the module's parameters; nothing was recorded",
                RuntimeWarning,
                stacklevel=2,
            )

    def _stop_listening(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _prepare_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnsupportedInput(f"folder {str(self._folder)!r} can't be made: {error.strerror}") from error
        later = [p for p in self._folder.glob("step_*.safetensors") if _step_of(p) > self._start]
        if later:
            raise InvalidSetting(
                f"folder {str(self._folder)!r} already holds {min(later).name}; choose another folder, or say "
                f"start={max(map(_step_of, later))} if this training goes on from there"
            )

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if optimizer not in self._held_names:
            self._held_names[optimizer] = tuple(self._held(optimizer))
        names = self._held_names[optimizer]
        if not names:
            return
        self._steps[names] = self._steps.get(names, self._start) + 1
        if self._steps[names] % self._every:
            return
        # A closure computes the gradients inside the step: they are final only when it is over.
        self._is_due_after = any(callable(a) for a in (*args[1:], *kwargs.values()))
        if not self._is_due_after:
            self._record(optimizer)

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._is_due_after and self._held_names.get(optimizer):
            self._is_due_after = False
            self._record(optimizer)

    def _held(self, optimizer: torch.optim.Optimizer) -> dict[str, torch.nn.Parameter]:
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        return {name: p for name, p in self._parameters.items() if id(p) in held}

    def _record(self, optimizer: torch.optim.Optimizer) -> None:
        if _rank() != 0 or self.problem:
            return
        found_inf = getattr(optimizer, "found_inf", None)
        if found_inf is not None and float(found_inf) > 0:
            self.n_overflowed += 1
            return
        names = self._held_names[optimizer]
        step, place = self._steps[names], list(self._steps).index(names)
        path = self._folder / FILE_PATTERN.format(step=step, suffix=f".optimizer{place}" if place else "")
        parameters = {name: p for name, p in self._held(optimizer).items() if p.requires_grad or p.grad is not None}
        gradients = {name: p.grad for name, p in parameters.items() if p.grad is not None}
        missing = [name for name in parameters if name not in gradients]
        self.n_none += len(missing)
        if not gradients:
            return
        metadata = self._metadata(optimizer, step, gradients, missing)
        need = len(json.dumps(metadata)) + sum(_file_bytes(*item) for item in gradients.items())
        if self._max_bytes is not None and self.n_bytes + need > self._max_bytes:
            self._give_up(
                f"recording ended before step {step}: its {need:,} bytes and the {self.n_bytes:,} written before are "
                f"more than max_bytes {self._max_bytes:,}; raise it, or record less with every or include"
            )
            return
        try:
            tensors = tuple(_tensor(name, gradient) for name, gradient in gradients.items())
            self.n_bytes += save_record(Gradient(tensors, path.stem), path, metadata)
        except UnsupportedInput as error:
            self._give_up(f"recording ended before step {step}: {error}")
            return
        self.files.append(path)

    def _give_up(self, problem: str) -> None:
        """Recording ends, loudly, and the training that it listens to goes on."""
        self.problem = problem
        warnings.warn(problem, RuntimeWarning, stacklevel=4)

    def _metadata(
        self, optimizer: torch.optim.Optimizer, step: int, gradients: dict[str, torch.Tensor], missing: list[str]
    ) -> dict[str, str]:
        import torch

        # GradScaler leaves the scale on optimizers that unscale inside their step; all others have done it already.
        scale = getattr(optimizer, "grad_scale", None)
        return {
            "recorded": "gradient",
            "step": str(step),
            "module": type(self._module).__name__,
            "optimizer": type(optimizer).__name__,
            "torch": torch.__version__,
            "loss_scale": repr(1.0 if scale is None else float(scale)),
            "include": "" if self._include is None else self._include.pattern,
            "n_none": str(len(missing)),
            "none": json.dumps(missing[:N_NAMES_LISTED], ensure_ascii=False),
            "n_sparse": str(sum(g.layout != torch.strided for g in gradients.values())),
            "n_processes": str(_n_processes()),
        }


def _tensor(name: str, gradient: torch.Tensor) -> Tensor:
    import torch

    dense = gradient.detach()
    return tensor_from_array(name, dense if dense.layout == torch.strided else dense.to_dense())


def _file_bytes(name: str, gradient: torch.Tensor) -> int:
    """Bytes that a gradient takes in a file, at most."""
    return gradient.numel() * gradient.element_size() + len(json.dumps(name)) + HEADER_BYTES_A_TENSOR


def _step_of(path: Path) -> int:
    digits = re.match(r"step_(\d+)", path.name)
    return int(digits[1]) if digits else 0


def _rank() -> int:
    from torch import distributed

    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0


def _n_processes() -> int:
    from torch import distributed

    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1
