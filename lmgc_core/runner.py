"""Where segments are worked on: a list of tasks → their results, in this process or on a cluster.

Segments are independent, so this is the only seam between one machine and many. A runner calls the same function
on the same tasks wherever it is; what it gives is the same up to the order in which segments are done, and every
step says which segment it belongs to. Law: each task's results are given once, whatever is lost on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from lmgc_core.errors import Cancelled

ShouldStop = Callable[[], bool]


class HasIndex(Protocol):
    """A task: what one segment needs beside the model."""

    @property
    def index(self) -> int: ...


Task = TypeVar("Task", bound=HasIndex)
Found = TypeVar("Found")
Work = Callable[[Any, Task, ShouldStop | None], Iterable[Found]]
"""(model, task, should_stop) → results. A module's own function, so that another process can name it."""


@dataclass(frozen=True, slots=True)
class Step(Generic[Found]):
    """Some results of one task.

    Attributes:
        index: the task's.
        found: results in the order of their making.
        finished: whether the task has given all of them.
    """

    index: int
    found: tuple[Found, ...]
    finished: bool


class Runner(Protocol):
    """Maps tasks to results."""

    def __call__(
        self, work: Work[Task, Found], tasks: Iterable[Task], should_stop: ShouldStop | None = None
    ) -> Iterator[Step[Found]]:
        """The steps of all tasks, those of one task in order.

        Raises:
            Cancelled: when asked to stop; steps given before stay valid.
            LmgcError: what the work raised.
        """


class LocalRunner:
    """Tasks one after the other in this process, each result handed on as soon as it is there."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(
        self, work: Work[Task, Found], tasks: Iterable[Task], should_stop: ShouldStop | None = None
    ) -> Iterator[Step[Found]]:
        for task in tasks:
            if should_stop is not None and should_stop():
                raise Cancelled("stopped; the windows that are done are kept")
            for found in work(self._model, task, should_stop):
                yield Step(task.index, (found,), False)
            yield Step(task.index, (), True)
