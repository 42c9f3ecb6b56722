"""Several recorded steps ↔ one gradient, whose tensors' names say the step."""

from __future__ import annotations

from collections.abc import Sequence

from lmgc_core.errors import InvalidSetting
from lmgc_core.gradient import Gradient, Tensor, TensorSpec
from lmgc_core.training.train import Recorded


def merge_recorded(recorded: Sequence[Recorded]) -> tuple[Gradient, dict[str, str]]:
    """The tensors of all recorded steps in one gradient, with what they have in common as metadata.

    One step keeps its names; of several, each name begins with its step ("step60/f.4.weight").

    Raises:
        InvalidSetting: when nothing was recorded.
    """
    if not recorded:
        raise InvalidSetting("nothing was recorded; record at a step from 1 to the last")
    if len(recorded) == 1:
        return recorded[0].gradient, dict(recorded[0].metadata)
    tensors = tuple(
        Tensor(TensorSpec(f"step{r.step}/{t.name}", t.dtype, t.shape), t.words) for r in recorded for t in r.gradient
    )
    common = set.intersection(*(set(r.metadata.items()) for r in recorded))
    steps = ",".join(str(r.step) for r in recorded)
    return Gradient(tensors, recorded[0].gradient.name), {**dict(sorted(common)), "step": steps}
