"""What each rank of a run runs, in `weft.distributed.rank`."""

from __future__ import annotations

import inspect
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

from weft.distributed.barriers import barrier
from weft.distributed.ray.node import JOB, die_with_daemon
from weft.distributed.ray.session import RankSession, within
from weft.distributed.world import destroy_process_group, init_process_group

__all__ = ["call", "train"]


def call(train_fn: Callable[..., Any], config: Any) -> None:
    """Calls it with the config, or without where it takes nothing."""
    try:
        inspect.signature(train_fn).bind(config)
        args = [config]
    except TypeError:
        args = []
    except ValueError:  # it does not tell
        args = [config]
    train_fn(*args)


def train() -> None:
    """Does what the run sent."""
    die_with_daemon()
    with open(os.environ[JOB], "rb") as file:
        job = pickle.load(file)
    sys.path += [path for path in job["path"] if path not in sys.path]
    train_fn, config = pickle.loads(job["call"])
    init_process_group("mpi", timeout=job["timeout"])
    with within(RankSession(job["folder"])):
        call(train_fn, config)
    barrier()
    destroy_process_group()
