"""`search`: a function that trains, tried with the values of a space by Ray Tune."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import weft
from weft.distributed.constants import default_pg_timeout
from weft.distributed.ray.needed import connected, dump
from weft.distributed.ray.placing import bundles
from weft.distributed.ray.progress import Progress
from weft.distributed.ray.running import FailureConfig, _check, _Run
from weft.distributed.ray.session import within
from weft.distributed.ray.worker import call
from weft.distributed.stores import HashStore
from weft.distributed.world import destroy_process_group, init_process_group

__all__ = ["search"]

_FILE = "state.pt"


def search(
    train_fn: Callable[..., Any],
    space: Mapping[str, Any],
    workers: int = 1,
    *,
    metric: str | None = None,
    mode: str | None = None,
    num_samples: int = 1,
    failure_config: FailureConfig | None = None,
    cpus_per_worker: int = 1,
    resources_per_worker: Mapping[str, float] | None = None,
    tune_config: Any = None,
    run_config: Any = None,
) -> Any:
    """Trains once for each of the configs that a space has, by Ray Tune.

    Args:
        train_fn: as `run` has it; what it reports is Tune's, so schedulers may end it early. A
            trial of one worker goes on from its last checkpoint, if Tune starts it again.
        space: configs, with `ray.tune.grid_search([...])`, `ray.tune.choice([...])`,
            `ray.tune.loguniform(...)` and others in the place of values.
        workers: of each trial; several are placed as `run` places them.
        metric, mode: what is best: a name that is reported, "min" or "max".
        num_samples: how often the space is drawn from.
        failure_config: how often a trial starts again.
        cpus_per_worker, resources_per_worker: as of `run`.
        tune_config: a `ray.tune.TuneConfig`, in place of `metric`, `mode` and `num_samples`.
        run_config: a `ray.tune.RunConfig`: where results lie, when trials end.

    Returns: Ray's `ResultGrid`: `get_best_result()` has `config`, `metrics` and `checkpoint`.

    Raises:
        RuntimeError: no Ray.
        TypeError: what is no function, or cannot be pickled.
        ValueError: no worker; both `tune_config` and what it says.

    >>> import contextlib, io, tempfile
    >>> from ray import tune
    >>> from weft.distributed import ray
    >>> def train(config):
    ...     ray.report({"loss": (config["lr"] - 0.1) ** 2})
    >>> space = {"lr": tune.grid_search([0.01, 0.1])}
    >>> where = tune.RunConfig(storage_path=tempfile.mkdtemp())
    >>> with contextlib.redirect_stdout(io.StringIO()):  # Tune's tables
    ...     found = ray.search(train, space, metric="loss", mode="min", run_config=where)
    >>> found.get_best_result().config
    {'lr': 0.1}
    """
    _check(train_fn, workers, cpus_per_worker, "PACK")
    if tune_config is not None and (metric or mode or num_samples != 1):
        raise ValueError(
            "[ray.search] expected metric, mode and num_samples in tune_config, got them beside it"
        )
    with connected("ray.search"):
        from ray import tune

        fn = dump("ray.search", train_fn)
        name = getattr(train_fn, "__name__", type(train_fn).__name__)
        max_failures = (failure_config or FailureConfig()).max_failures
        run_config = run_config or tune.RunConfig(
            failure_config=tune.FailureConfig(max_failures=max_failures or 0)
        )
        of_trial = bundles(workers, cpus_per_worker, resources_per_worker)
        if workers > 1:
            of_trial.insert(0, {})  # of the trial itself: Ray leaves it out of the group
        trainable = tune.with_resources(
            _trainable(fn, name, workers, cpus_per_worker), tune.PlacementGroupFactory(of_trial)
        )
        tune_config = tune_config or tune.TuneConfig(
            metric=metric, mode=mode, num_samples=num_samples
        )
        tuner = tune.Tuner(
            trainable, param_space=dict(space), tune_config=tune_config, run_config=run_config
        )
        return tuner.fit()


def _trainable(fn: bytes, name: str, workers: int, cpus: int) -> Callable[[dict[str, Any]], None]:
    """What Tune calls in the process of a trial."""

    def trial(config: dict[str, Any]) -> None:
        import pickle

        train_fn = pickle.loads(fn)
        if workers == 1:
            weft.set_num_threads(cpus)
            _alone(train_fn, config)
        else:
            _together(train_fn, config, workers, cpus)

    trial.__name__ = name
    return trial


def _alone(train_fn: Callable[..., Any], config: dict[str, Any]) -> None:
    """The one worker is this process."""
    init_process_group("gloo", rank=0, world_size=1, store=HashStore())
    try:
        with within(_TrialSession()):
            call(train_fn, config)
    finally:
        destroy_process_group()


def _together(
    train_fn: Callable[..., Any], config: dict[str, Any], workers: int, cpus: int
) -> None:
    """The workers are in the bundles of the trial's placement group."""
    import ray
    from ray import tune

    told = 0
    bar = Progress(workers, None, False)
    folder = os.path.join(tune.get_context().get_trial_dir(), "weft")
    what = dump("ray.search", (train_fn, config))
    of_run = _Run(ray, what, default_pg_timeout, cpus, folder, bar)

    def tell() -> None:
        nonlocal told
        for one in bar.history:
            if one["report"] > told:
                told = one["report"]
                tune.report({k: v for k, v in one.items() if k != "report"})

    group = ray.util.get_current_placement_group()
    of_run.to_the_end(FailureConfig(), lambda: nullcontext(group), workers, tell)
    tell()


class _TrialSession:
    """The session of a trial of one worker."""

    def report(self, metrics: dict[str, Any], checkpoint: Any) -> None:
        """See `report`."""
        from ray import tune

        if checkpoint is None:
            tune.report(metrics)
            return
        with tempfile.TemporaryDirectory() as folder:
            weft.save(checkpoint, os.path.join(folder, _FILE))
            tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))

    def get_checkpoint(self) -> Any:
        """See `get_checkpoint`."""
        from ray import tune

        found = tune.get_checkpoint()
        if found is None:
            return None
        with found.as_directory() as folder:
            return weft.load(os.path.join(folder, _FILE))
