"""`run`: several workers that train, and do so again from the last checkpoint when one is lost."""

from __future__ import annotations

import pickle
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from weft.distributed.constants import default_pg_timeout
from weft.distributed.folders import SHARED, remove_left
from weft.distributed.ray import saved
from weft.distributed.ray.attempt import Lost, Raised, attempt
from weft.distributed.ray.needed import connected, dump, need
from weft.distributed.ray.placing import Machine, bundles, machines_of, place
from weft.distributed.ray.progress import Progress, RunRelay

__all__ = ["FailureConfig", "Result", "run"]

#: How often workers may be lost in a row without a new checkpoint.
_WITHOUT_PROGRESS = 3


@dataclass(frozen=True)
class FailureConfig:
    """How often a run starts again.

    Args:
        max_failures: after so many failures, lost workers and exceptions alike, it gives up; -1:
            never. None: a worker or a machine that is lost has it start again, unless that
            happened three times without a new checkpoint, and an exception ends it.

    Raises:
        ValueError: less than -1, or no number.

    >>> weft.distributed.ray.FailureConfig(max_failures=2)
    FailureConfig(max_failures=2)
    """

    max_failures: int | None = None

    def __post_init__(self) -> None:
        n = self.max_failures
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < -1):
            raise ValueError(f"[FailureConfig] expected max_failures of -1 or more, got {n!r}")

    def allows(self, failures: int, without_progress: int, is_lost: bool) -> bool:
        """Whether it starts again."""
        if self.max_failures is None:
            return is_lost and without_progress < _WITHOUT_PROGRESS
        return self.max_failures == -1 or failures <= self.max_failures


@dataclass
class Result:
    """What a run came to.

    Args:
        metrics: the last that rank 0 reported; None without a report.
        history: those of all reports, each with its number as `report`.
        path: the folder of the checkpoints; None without one.
        failures: how often it was started again.

    >>> history = [{"loss": 0.5, "report": 1}, {"loss": 0.25, "report": 2}]
    >>> result = weft.distributed.ray.Result({"loss": 0.25}, history, None, 0)
    >>> result.metrics, result.get_checkpoint()
    ({'loss': 0.25}, None)
    """

    metrics: dict[str, Any] | None
    history: list[dict[str, Any]]
    path: str | None
    failures: int
    _workers: int = 1
    _folder: Any = field(default=None, repr=False)  # one that ends with the result

    def get_checkpoint(self, rank: int = 0) -> Any:
        """The last state that a worker reported; None without one."""
        number = saved.newest(self.path) if self.path else 0
        return saved.read(self.path, number, rank, self._workers) if number and self.path else None


def run(
    train_fn: Callable[..., Any],
    workers: int = 1,
    config: Any = None,
    checkpoint: str | None = None,
    *,
    failure_config: FailureConfig | None = None,
    cpus_per_worker: int = 1,
    resources_per_worker: Mapping[str, float] | None = None,
    placement_strategy: str = "PACK",
    placement_timeout: float = 600,
    timeout: timedelta = default_pg_timeout,
    progress: bool = True,
    total: int | None = None,
) -> Result:
    """Trains with several workers, which Ray places; again from the last checkpoint after a loss.

    Each worker is a process whose `weft.distributed` is initialized: it calls `train_fn(config)`,
    with `report` and `get_checkpoint`. What it ends with has the bits of a run that nobody
    disturbed, if what `train_fn` goes on from is all that it depends on.

    Args:
        train_fn: what a worker does; it is given `config`, if it takes an argument.
        workers: how many.
        config: anything that can be pickled.
        checkpoint: a folder that all machines see; a run goes on from the newest checkpoint there.
            Without one, workers on this machine write to a temporary one.
        failure_config: how often it starts again.
        cpus_per_worker: cores, and threads of a large kernel.
        resources_per_worker: others of Ray's, as `{"GPU": 1}`.
        placement_strategy: Ray's: "PACK", "SPREAD", "STRICT_PACK" or "STRICT_SPREAD".
        placement_timeout: seconds that Ray may take to find place for all.
        timeout: of the exchanges.
        progress: show a bar.
        total: of reports, for the bar.

    Raises:
        RuntimeError: no Ray or Open MPI, or no place.
        TypeError: what is no function, or cannot be pickled.
        ValueError: no worker, or a strategy that Ray does not have.
        ProcessRaisedException: a worker raised; its traceback is the message.
        ProcessExitedException: workers were lost too often.

    >>> from weft.distributed import ray
    >>> def train(config):
    ...     total = weft.tensor(config["each"])
    ...     weft.distributed.all_reduce(total)
    ...     ray.report({"total": total})
    >>> ray.run(train, workers=2, config={"each": 3}, progress=False).metrics
    {'total': 6}
    """
    _check(train_fn, workers, cpus_per_worker, placement_strategy)
    need("ray.run")
    call = dump("ray.run", (train_fn, config))
    wanted = bundles(workers, cpus_per_worker, resources_per_worker)
    failure_config = failure_config or FailureConfig()
    with connected("ray.run") as ray:
        bar = Progress(workers, total, progress)
        of_run = _Run(ray, call, timeout, cpus_per_worker, checkpoint, bar)
        try:
            failures = of_run.to_the_end(
                failure_config,
                lambda: place(ray, wanted, placement_strategy, placement_timeout),
                workers, lambda: None,
            )  # fmt: skip
        finally:
            bar.close()
            for where in (None, SHARED):  # of actors that were killed on this machine
                remove_left(f"weft-ray-{of_run.name}-", where)
    return of_run.result(workers, failures)


def _check(train_fn: Any, workers: Any, cpus: Any, strategy: str) -> None:
    if not callable(train_fn):
        raise TypeError(f"[ray.run] expected a function, got {type(train_fn).__name__}")
    for name, number in (("workers", workers), ("cpus_per_worker", cpus)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"[ray.run] expected {name} to be 1 or more, got {number!r}")
    known = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
    if strategy not in known:
        raise ValueError(f"[ray.run] expected a strategy of {known}, got {strategy!r}")


class _Run:
    """The attempts of a run."""

    def __init__(
        self, ray: Any, call: bytes, timeout: timedelta, threads: int, folder: str | None,
        bar: Progress,
    ) -> None:  # fmt: skip
        self._ray, self._call, self._timeout, self._threads = ray, call, timeout, threads
        self._bar = bar
        self.name = uuid.uuid4().hex[:8]
        self._own = tempfile.TemporaryDirectory(prefix="weft-checkpoint-") if not folder else None
        self._folder = folder or (self._own.name if self._own else None)

    def to_the_end(
        self, config: FailureConfig, places: Callable[[], Any], workers: int,
        meanwhile: Callable[[], None],
    ) -> int:  # fmt: skip
        """Starts workers until they come to their end; how often they had not.

        Args:
            config: how often it may.
            places: makes a scope with a placement group.
            workers: how many it has place for.
            meanwhile: is called now and then.
        """
        failures = without_progress = 0
        while True:
            saved_before = self._bar.saved
            try:
                with places() as group:
                    machines = machines_of(self._ray, group, self.name)
                    self._attempt(machines, workers, meanwhile)
                return failures
            except (Lost, Raised) as error:
                failure = error
            failures += 1
            without_progress = without_progress + 1 if self._bar.saved == saved_before else 0
            if not config.allows(failures, without_progress, isinstance(failure, Lost)):
                raise _told(failure) from None
            where = f"report {self._bar.saved}" if self._bar.saved else "the beginning"
            self._bar.say(f"{failure.text}: all start again from {where}")
            if isinstance(failure, Raised) and failure.trace:
                self._bar.say(failure.trace)

    def _attempt(
        self, machines: list[Machine], workers: int, meanwhile: Callable[[], None]
    ) -> None:
        job = {"call": self._call, "path": sys.path, "timeout": self._timeout}
        job["folder"] = self._folder if self._own is None or self._is_here(machines) else None
        relay = RunRelay(workers, self._bar)
        attempt(self._ray, machines, pickle.dumps(job), self._threads, relay, meanwhile)

    def _is_here(self, machines: list[Machine]) -> bool:
        """Whether all of the machines are this one."""
        return {machine.address for machine in machines} == {self._ray.util.get_node_ip_address()}

    def result(self, workers: int, failures: int) -> Result:
        """What it came to."""
        history = self._bar.history
        last = {k: v for k, v in history[-1].items() if k != "report"} if history else None
        return Result(last, history, self._folder, failures, workers, self._own)


def _told(failure: Lost | Raised) -> Exception:
    from weft.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

    if isinstance(failure, Lost):
        rank, number, name = failure.by or (-1, 1, None)
        return ProcessExitedException(f"[ray.run] {failure.text}", rank, -1, -number, name)
    if failure.trace is None:
        text = f"[ray.run] {failure.text}"
        return ProcessExitedException(text, failure.rank, -1, failure.status)
    text = f"\n\n-- Process {failure.rank} terminated with the following error:\n{failure.trace}"
    return ProcessRaisedException(text, failure.rank, -1)
