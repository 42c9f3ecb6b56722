"""An actor pool on a Ray cluster: one model an actor, tasks handed out as actors become free.

Lost actors (a killed process, a node that went away) cost the task they were at, which goes back to the front of the
queue, and are replaced as soon as the cluster has room. Actors that the cluster has no room for yet do not hold up
those that run, so nodes that join later are used too. Source: Ray 2.60, actors and `ray.wait`.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from lmgc_core.errors import Cancelled, LmgcError
from lmgc_core.runner import Found, Runner, ShouldStop, Step, Task, Work
from lmgc_core.settings import RunOptions
from lmgc_core.wording import counted

POLL_SECONDS = 0.2
MOST_TRIES = 4
OBJECT_STORE_BYTES = 200_000_000  # of a cluster started here: results are fetched as soon as they are there
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "180",  # a busy machine takes longer than Ray's own half a minute
    "RAY_worker_register_timeout_seconds": "180",
}
ACTOR_THREADS = 4
"""CPUs of an actor whose threads were not said: more gain little on models that fit a CPU."""


@dataclass(frozen=True, slots=True)
class ActorSize:
    """What one actor takes, and how many there may be."""

    cpus: int
    gpus: int
    most: int


class _Worker:
    """What lives in an actor's process."""

    def __init__(self) -> None:
        self.model: Any = None

    def load(self, make: Callable[[], Any]) -> None:
        self.model = make()

    def run(self, work: Callable[[Any, Any, None], Iterable[Any]], task: Any) -> tuple[Any, ...]:
        return tuple(work(self.model, task, None))


def import_ray() -> Any:
    """The library.

    Raises:
        LmgcError: when it is not installed.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        return import_module("ray")
    except ImportError:
        raise LmgcError(
            'backend ray needs Ray, which is not installed; pip install "ray[data]", or choose backend local'
        ) from None


@contextmanager
def actor_pool(make: Callable[[RunOptions], Any], options: RunOptions) -> Iterator[Runner]:
    """A runner whose tasks go to actors; its actors end with the block, and a cluster that it started with them.

    Args:
        make: loads the model in each actor, with the threads that it has; can be pickled.
        options: address, threads (CPUs of an actor), device, most actors.

    Raises:
        LmgcError: when Ray is not installed, or the cluster cannot be reached.
    """
    ray = import_ray()
    joined = not ray.is_initialized()
    if joined:
        _connect(ray, options.address)
    try:
        pool = ActorPool(ray, make, options)
        try:
            yield pool
        finally:
            pool.close()
    finally:
        if joined:
            ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    package = Path(__file__).resolve().parent
    if address:  # the nodes need the requirements; the library itself travels with the run
        chosen: dict[str, Any] = {"runtime_env": {"py_modules": [str(package)]}}
    else:
        places = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH", "")]))
        chosen = {
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "runtime_env": {"env_vars": {"PYTHONPATH": places}},
        }
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **chosen)
    except Exception as error:  # Ray raises bare Exception, too
        where = f"Ray cluster at {address!r}" if address else "Ray on this machine"
        reason = " ".join(str(error).split())[:160]
        raise LmgcError(
            f"{where} cannot be used ({reason}); start one with ray start --head, or leave --address out"
        ) from None


def actor_size(nodes: Iterable[dict[str, Any]], options: RunOptions) -> ActorSize:
    """What an actor takes of a cluster with these nodes.

    A GPU and its share of the node's CPUs where the cluster has GPUs and the device is not "cpu", else CPUs alone.

    Raises:
        LmgcError: when no node has room for one actor.

    >>> nodes = [{"Alive": True, "Resources": {"CPU": 16.0}}, {"Alive": True, "Resources": {"CPU": 2.0}}]
    >>> actor_size(nodes, RunOptions()), actor_size(nodes, RunOptions(threads=8))
    (ActorSize(cpus=2, gpus=0, most=9), ActorSize(cpus=8, gpus=0, most=2))
    """
    alive = [node["Resources"] for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    on_gpus = options.device != "cpu" and any(r.get("GPU", 0) >= 1 for r in alive)
    usable = [r for r in alive if not on_gpus or r.get("GPU", 0) >= 1]
    if on_gpus:
        cpus = options.threads or max(1, min([ACTOR_THREADS, *(int(r["CPU"] // r["GPU"]) for r in usable)]))
        room = [int(min(r["GPU"], r["CPU"] // cpus)) for r in usable]
    else:
        cpus = options.threads or min([ACTOR_THREADS, *(int(r["CPU"]) for r in usable)])
        room = [int(r["CPU"] // cpus) for r in usable]
    if not sum(room):
        raise LmgcError(
            f"no node of the Ray cluster has the {counted(cpus, 'CPU')} that an actor takes; "
            "choose fewer --threads, or add nodes"
        )
    most = sum(room) if options.actors == "auto" else options.actors
    return ActorSize(cpus, int(on_gpus), most)


class ActorPool:
    """A `runner.Runner`; actors stay between calls."""

    def __init__(self, ray: Any, make: Callable[[RunOptions], Any], options: RunOptions) -> None:
        self._ray, self._options = ray, options
        self.size = size = actor_size(ray.nodes(), options)
        self._kind = ray.remote(_Worker).options(num_cpus=size.cpus, num_gpus=size.gpus, max_restarts=0)
        self._make = partial(make, replace(options, threads=size.cpus, backend="local", address=""))
        self._idle: list[Any] = []
        self._starting: dict[Any, Any] = {}  # actors that load their model, by what they will answer
        self._failed_starts = 0
        self._lost = ""  # what Ray said of the last actor that was lost

    def __call__(
        self, work: Work[Task, Found], tasks: Iterable[Task], should_stop: ShouldStop | None = None
    ) -> Iterator[Step[Found]]:
        source, waiting, tries = iter(tasks), deque[Task](), Counter[int]()
        busy: dict[Any, tuple[Any, Task]] = {}
        try:
            while True:
                if should_stop is not None and should_stop():
                    yield from self._done_already(busy)
                    raise Cancelled("stopped; the segments that are done are kept")
                while len(waiting) < self.size.most and (task := next(source, None)) is not None:
                    waiting.append(task)
                if not waiting and not busy:
                    return
                self._start(min(len(waiting), self.size.most - len(busy)) - len(self._idle) - len(self._starting))
                while waiting and self._idle:
                    actor, task = self._idle.pop(), waiting.popleft()
                    tries[task.index] += 1
                    busy[actor.run.remote(work, task)] = actor, task
                if not busy:
                    actor_size(self._ray.nodes(), self._options)  # raises where no actor will ever start
                pending = [*busy, *self._starting]
                ready, _ = self._ray.wait(pending, num_returns=len(pending), timeout=0)
                if not ready:
                    ready, _ = self._ray.wait(pending, num_returns=1, timeout=POLL_SECONDS)
                for reference in ready:
                    if reference in self._starting:
                        self._started(reference)
                        continue
                    actor, task = busy.pop(reference)
                    found = self._result(reference)
                    if found is not None:
                        self._idle.append(actor)
                        yield Step(task.index, found, True)
                        continue
                    if tries[task.index] >= MOST_TRIES:
                        raise LmgcError(
                            f"segment {task.index} was lost with its actor {MOST_TRIES} times ({self._lost}); look for "
                            "what ends them (memory, most often), and choose fewer --actors or a smaller model"
                        )
                    waiting.appendleft(task)
        finally:
            self._kill([actor for actor, _ in busy.values()])  # at work for nobody any more

    def close(self) -> None:
        """Ends all actors."""
        self._kill([*self._idle, *self._starting.values()])
        self._idle, self._starting = [], {}

    def _kill(self, actors: Iterable[Any]) -> None:
        for actor in actors:
            with suppress(Exception):  # lost ones, and a cluster that is gone
                self._ray.kill(actor)

    def _start(self, n_actors: int) -> None:
        for _ in range(n_actors):
            actor = self._kind.remote()
            self._starting[actor.load.remote(self._make)] = actor

    def _started(self, reference: Any) -> None:
        """Takes in an actor that has loaded its model."""
        actor = self._starting.pop(reference)
        if self._result(reference) is not None:
            self._failed_starts = 0
            self._idle.append(actor)
            return
        self._failed_starts += 1
        if self._failed_starts >= MOST_TRIES * self.size.most:
            raise LmgcError(
                f"actors end before they have loaded the model ({self._lost}); look at the nodes' memory, and choose "
                "fewer --actors"
            )

    def _result(self, reference: Any) -> Any:
        """What an actor gave; None when the actor was lost.

        Raises:
            LmgcError: what the work raised.
        """
        errors = self._ray.exceptions
        try:
            found = self._ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, LmgcError):
                raise error.cause from None
            raise
        except errors.RayError as error:
            self._lost = " ".join(str(error).split())[:200]
            return None
        return () if found is None else found

    def _done_already(self, busy: dict[Any, tuple[Any, Task]]) -> Iterator[Step[Any]]:
        ready, _ = self._ray.wait(list(busy), num_returns=len(busy), timeout=0) if busy else ([], [])
        for reference in ready:
            actor, task = busy.pop(reference)
            found = self._result(reference)
            if found is not None:
                self._idle.append(actor)
                yield Step(task.index, found, True)
