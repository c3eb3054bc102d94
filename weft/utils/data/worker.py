"""The process that makes batches for a DataLoader."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import weft
from weft.utils.data.channel import BATCH, DATA, END, FAILURE, Channel, encode
from weft.utils.data.failure import Failure
from weft.utils.data.fetch import make_fetcher
from weft.utils.data.worker_info import WorkerInfo, set_worker_info

_CHECK_PARENT = 5.0  # seconds between looks whether the loader's process still lives


class Work(NamedTuple):
    """What a worker is to do."""

    dataset: Any
    iterable: bool
    batched: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    init_fn: Callable[[int], None] | None
    num_workers: int

    def fetcher(self) -> Any:
        """A fetcher at the beginning of the dataset."""
        return make_fetcher(
            self.iterable, self.dataset, self.batched, self.collate_fn, self.drop_last
        )


def numpy_seed(base_seed: int, worker_id: int) -> Any:
    """The state that PyTorch's workers seed NumPy with."""
    import numpy as np

    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words).generate_state(4)


def _seed(work: Work, worker_id: int) -> None:
    import random

    import numpy as np

    random.seed(work.base_seed + worker_id)
    weft.manual_seed(work.base_seed + worker_id)
    np.random.seed(numpy_seed(work.base_seed, worker_id))


def main(channel: Channel, others: list[Channel], work: Work, worker_id: int) -> None:
    """Answers messages until the loader hangs up. `others`: ends of the loader that fork copied."""
    for other in others:
        other.socket.close()
    try:
        weft.set_num_threads(1)
        _seed(work, worker_id)
        info = WorkerInfo(worker_id, work.num_workers, work.base_seed + worker_id, work.dataset)
        set_worker_info(info)
        _serve(channel, work, worker_id)
    except (KeyboardInterrupt, EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the loader's process raises, or is gone


def _serve(channel: Channel, work: Work, worker_id: int) -> None:
    where = f"in DataLoader worker process {worker_id}"
    failure, fetcher, ended = None, None, False
    try:
        if work.init_fn is not None:
            work.init_fn(worker_id)
        fetcher = work.fetcher()
    except Exception as error:
        failure = Failure(error, where)
    parent = os.getppid()
    while True:
        while not channel.waits(_CHECK_PARENT):
            if os.getppid() != parent:
                return
        epoch, number, kind, index = channel.receive()
        if kind != BATCH:
            ended = False
            try:
                fetcher = work.fetcher()
            except Exception as error:
                failure = Failure(error, where)
            continue
        if ended:
            continue
        message, ended = _answer(fetcher, failure, work, epoch, number, index, where)
        failure = None
        channel.send(message)


def _answer(
    fetcher: Any, failure: Any, work: Work, epoch: int, number: int, index: Any, where: str
) -> tuple[Any, bool]:
    """The message for one task, and whether the dataset has ended."""
    try:
        if failure is None:
            return encode(epoch, number, DATA, fetcher.fetch(index)), False
    except Exception as error:
        if isinstance(error, StopIteration) and work.iterable:
            return encode(epoch, number, END, None), True
        failure = Failure(error, where)
    return encode(epoch, number, FAILURE, failure), fetcher is None
