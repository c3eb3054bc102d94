"""DataLoader with worker processes: the same batches, shared memory, errors, and no leftovers."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import weft
from weft.utils import data
from weft.utils.data import DataLoader, get_worker_info
from weft.utils.data.worker import numpy_seed

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Items(data.Dataset):
    """`function(i)` for i below n."""

    def __init__(self, n, function):
        self.n, self.function = n, function

    def __getitem__(self, i):
        return self.function(i)

    def __len__(self):
        return self.n


def children():
    return {p.pid for p in multiprocessing.active_children()}


@pytest.fixture(autouse=True)
def no_leftovers():
    before = children()
    yield
    gc.collect()  # an exception that was caught keeps the frames it passed, and those the pass
    assert children() == before


def draws(m):
    return lambda i: (i, m.rand(2).tolist(), random.random(), np.random.rand())


def structure(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    return [structure(v) for v in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize(
    "kwargs",
    [
        {"batch_size": 4, "shuffle": True},
        {"batch_size": 4, "shuffle": True, "prefetch_factor": 5, "drop_last": True},
        {"batch_size": 3, "shuffle": True, "persistent_workers": True},
        {"batch_size": None},
        {"batch_sampler": [[1, 2], [3], [4, 5, 6]]},
    ],
)
@pytest.mark.parametrize("workers", [1, 3])
def test_batches_and_seeds_as_torch(torch, workers, kwargs):
    import torch.utils.data as theirs

    found = []
    for m, d in ((weft, data), (torch, theirs)):
        m.manual_seed(13)
        loader = d.DataLoader(Items(11, draws(m)), num_workers=workers, **kwargs)
        found.append([[structure(b) for b in loader] for _ in range(2)] + [m.rand(1).item()])
        del loader
    assert found[0] == found[1]


def test_the_seed_of_numpy_as_torch(torch):
    from torch.utils.data._utils.worker import _generate_state

    for base in (0, 1, 2**31, 2**63 - 1):
        for worker in (0, 3):
            assert numpy_seed(base, worker).tolist() == _generate_state(base, worker)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_ways_to_start(method):
    rows = data.TensorDataset(weft.arange(20), weft.arange(40.0).reshape(20, 2))
    loader = DataLoader(rows, 6, num_workers=2, multiprocessing_context=method)
    got = list(loader)
    assert weft.cat([b[0] for b in got]).tolist() == list(range(20))
    assert weft.cat([b[1] for b in got]).tolist() == rows.tensors[1].tolist()


def test_iterable_datasets_by_share():
    class Shares(data.IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            return iter(range(info.id, 11, info.num_workers))

    for persistent in (False, True):
        loader = DataLoader(Shares(), 2, num_workers=3, persistent_workers=persistent)
        for _ in range(2):
            assert sorted(sum((b.tolist() for b in loader), [])) == list(range(11))
        del loader


def test_iterable_datasets_in_the_order_of_torch(torch):
    import torch.utils.data as theirs

    orders = []
    for d in (data, theirs):

        class Uneven(d.IterableDataset):
            def __iter__(self, d=d):
                k = d.get_worker_info().id
                return iter(range(100 * k, 100 * k + (1, 7, 3)[k]))

        orders.append([b.tolist() for b in d.DataLoader(Uneven(), 2, num_workers=3)])
    assert sorted(orders[0]) == sorted(orders[1])


def test_what_a_worker_knows():
    assert get_worker_info() is None
    weft.manual_seed(1)
    seen = list(
        DataLoader(
            Items(2, lambda i: tuple(get_worker_info())[:3] + (len(get_worker_info().dataset),)),
            batch_size=None, num_workers=2, generator=weft.Generator().manual_seed(5),
        )
    )  # fmt: skip
    assert [(s[0], s[1], s[3]) for s in seen] == [(0, 2, 2), (1, 2, 2)]
    assert seen[1][2] == seen[0][2] + 1


def test_init_functions():
    def mark(worker_id):
        os.environ["WEFT_TEST_WORKER"] = f"w{worker_id}"

    seen = DataLoader(Items(4, lambda i: os.environ["WEFT_TEST_WORKER"]), batch_size=None,
                      num_workers=2, worker_init_fn=mark)  # fmt: skip
    assert list(seen) == ["w0", "w1", "w0", "w1"]


VALUES = {
    "nothing": lambda: None,
    "tensor": lambda: weft.arange(6.0).reshape(2, 3),
    "0-d": lambda: weft.tensor(2.5),
    "empty": lambda: weft.zeros(0, 3),
    "bool": lambda: weft.tensor([True, False]),
    "large": lambda: weft.arange(100_000),
    "transposed": lambda: weft.arange(6.0).reshape(2, 3).t(),
    "large transposed": lambda: weft.arange(60_000.0).reshape(2, 3, -1).permute(2, 0, 1),
    "part": lambda: weft.arange(100_000)[3:10:2],
    "expanded": lambda: weft.ones(1, 3).expand(4, 3),
    "leaf": lambda: weft.ones(2, requires_grad=True),
    "parameter": lambda: weft.nn.Parameter(weft.ones(3)),
    "array": lambda: np.arange(10),
    "large array": lambda: np.arange(30_000.0).reshape(100, 300),
    "many": lambda: [weft.full((50,), k) for k in range(300)],
    "text": lambda: "x" * 100_000,
    "mixed": lambda: {"a": [weft.ones(3), (1, "b")], "c": weft.zeros(5000)},
}


def identity(value):
    return value


@pytest.mark.parametrize("name", VALUES)
def test_values_arrive_as_they_left(name):
    def same(a, b):
        assert type(a) is type(b)
        if isinstance(a, weft.Tensor):
            assert a.dtype is b.dtype and a.shape == b.shape
            assert a.requires_grad == b.requires_grad and a.tolist() == b.tolist()
            if 0 not in a.stride():
                order = sorted(range(a.dim()), key=lambda d: a.stride(d))
                assert order == sorted(range(b.dim()), key=lambda d: b.stride(d))
        elif isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.tolist() == b.tolist()
        elif isinstance(a, dict):
            assert list(a) == list(b) and all(same(a[k], b[k]) for k in a)
        elif isinstance(a, (list, tuple)):
            assert len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
        else:
            assert a == b
        return True

    loader = DataLoader(Items(2, lambda i: VALUES[name]()), batch_size=None, num_workers=1,
                        collate_fn=identity)  # fmt: skip
    for got in loader:
        assert same(VALUES[name](), got)


def test_batches_may_be_written_and_kept():
    kept = list(DataLoader(Items(6, lambda i: weft.full((5000,), i)), 2, num_workers=2))
    for batch in kept:
        batch.add_(1)
    assert [b[:, 0].tolist() for b in kept] == [[1, 2], [3, 4], [5, 6]]


def test_large_indices_and_large_batches_never_block():
    order = [list(range(30_000)) for _ in range(12)]
    loader = DataLoader(range(30_000), batch_sampler=order, num_workers=1, prefetch_factor=12)
    assert [len(b) for b in loader] == [30_000] * 12
    small = DataLoader(range(4000), batch_size=1, num_workers=1, prefetch_factor=3000)
    assert sum(len(b) for b in small) == 4000


def test_no_descriptor_stays_open():
    def run():
        kept = list(DataLoader(Items(8, lambda i: weft.ones(10_000)), 2, num_workers=2))
        for _ in DataLoader(Items(8, lambda i: weft.ones(10_000)), 2, num_workers=2):
            break
        del kept

    run()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run()
    assert len(os.listdir("/proc/self/fd")) == before


# ---- errors


class Odd(Exception):
    """Takes two arguments, and so cannot be made from a text."""

    def __init__(self, a, b):
        super().__init__(a, b)


RAISES = {
    ValueError: lambda: ValueError("not this one"),
    KeyError: lambda: KeyError("not this one"),
    RuntimeError: lambda: Odd("not this one", 2),
}


@pytest.mark.parametrize("kind", RAISES)
def test_errors_come_with_the_workers_traceback(kind):
    def fail_at_two(i):
        if i == 2:
            raise RAISES[kind]()
        return i

    passing = iter(DataLoader(Items(4, fail_at_two), batch_size=None, num_workers=2))
    assert [next(passing), next(passing)] == [0, 1]
    with pytest.raises(kind, match="in DataLoader worker process 0") as caught:
        next(passing)
    text = str(caught.value)
    assert "not this one" in text and "fail_at_two" in text and "Traceback" in text
    assert list(passing) == [3]  # the others still come


def test_classes_of_errors_that_only_the_worker_knows():
    class Local(Exception):
        pass

    def fail(i):
        raise Local("here")

    with pytest.raises(RuntimeError, match="Caught Local in DataLoader worker process 0"):
        list(DataLoader(Items(1, fail), num_workers=1))


def test_values_that_cannot_be_sent():
    with pytest.raises(Exception, match="Caught .* in DataLoader worker process 0"):
        list(DataLoader(Items(1, lambda i: lambda: i), batch_size=None, num_workers=1))
    with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
        list(DataLoader(Items(1, lambda i: weft.ones(1, requires_grad=True) * 2), batch_size=None,
                        num_workers=1))  # fmt: skip


def test_errors_of_init_functions_and_iterators():
    def fail(worker_id):
        raise ValueError("no start")

    with pytest.raises(ValueError, match="no start"):
        list(DataLoader(range(3), num_workers=2, worker_init_fn=fail))

    class Broken(data.IterableDataset):
        def __iter__(self):
            raise ValueError("no iterator")

    with pytest.raises(ValueError, match="no iterator"):
        list(DataLoader(Broken(), num_workers=1))


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_a_worker_that_dies(how):
    def die(i):
        if i == 1:
            os.kill(os.getpid(), signal.SIGKILL) if how == "kill" else os._exit(3)
        return i

    passing = iter(DataLoader(Items(4, die), batch_size=None, num_workers=2))
    assert next(passing) == 0
    pattern = {
        "kill": r"pid \d+\) is killed by signal: Killed",
        "exit": "unexpectedly with exit code 3",
    }
    with pytest.raises(RuntimeError, match=pattern[how]):
        list(passing)


def test_a_timeout():
    loader = DataLoader(Items(1, lambda i: time.sleep(60)), num_workers=1, timeout=0.2)
    passing = iter(loader)
    with pytest.raises(RuntimeError, match="timed out after 0.2 seconds"):
        next(passing)
    for worker in passing._workers:
        worker.process.kill()  # not to wait until it has slept


# ---- passes


def test_persistent_workers_stay():
    loader = DataLoader(Items(6, lambda i: os.getpid()), 1, num_workers=2, persistent_workers=True)
    first = {int(b) for b in loader}
    next(iter(loader))  # a pass that is given up
    assert {int(b) for b in loader} == first and len(first) == 2
    assert children() >= first
    del loader


def test_a_pass_given_up_ends_its_workers():
    for i, _ in enumerate(DataLoader(range(1000), num_workers=2)):
        if i == 3:
            break
    with pytest.raises(ZeroDivisionError):
        for _ in DataLoader(range(1000), num_workers=2):
            raise ZeroDivisionError


def test_out_of_order():
    others_came = multiprocessing.get_context("fork").Event()

    def first_waits(i):
        if i == 0:
            others_came.wait(60)
        return i

    got = []
    for i in DataLoader(Items(12, first_waits), batch_size=None, num_workers=2, in_order=False):
        got.append(i)
        others_came.set()  # not by a worker: under load both had come before the first was taken
    assert sorted(got) == list(range(12)) and got[0] == 1


def test_several_loaders_and_threads():
    found = {}

    def run(k):
        found[k] = [int(b) for b in DataLoader(range(k, k + 20), batch_size=None, num_workers=2)]

    threads = [threading.Thread(target=run, args=(k,)) for k in (0, 100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {k: list(range(k, k + 20)) for k in (0, 100)}
    pairs = zip(DataLoader(range(5), num_workers=1), DataLoader(range(5), num_workers=1))
    assert all(int(a) == int(b) for a, b in pairs)


def test_processes_forked_in_the_middle_do_no_harm():
    passing = iter(DataLoader(range(50), batch_size=None, num_workers=2))
    next(passing)
    child = os.fork()
    if child == 0:
        del passing  # the copy must not hang up on the workers
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list(passing)) == 49


# ---- whole programs


PROGRAM = """
    import multiprocessing, os, signal, sys, time
    import weft
    from weft.utils.data import DataLoader, Dataset

    class Slow(Dataset):
        def __getitem__(self, i):
            time.sleep(0.01)
            return weft.ones(5000) * i
        def __len__(self):
            return 100_000

    def main():
        for i, batch in enumerate(DataLoader(Slow(), 2, num_workers=2)):
            if i == 2:
                print(*[p.pid for p in multiprocessing.active_children()], flush=True)
            if i >= 2:
                {action}

    main()
"""
ENDINGS = {
    "interrupt from outside": ("pass", signal.SIGINT),
    "Ctrl-C": ("pass", signal.SIGINT),
    "killed": ("pass", signal.SIGKILL),
    "terminated": ("pass", signal.SIGTERM),
    "exception": ("raise ValueError", None),
    "exit": ("sys.exit(0)", None),
    "hard exit": ("os._exit(0)", None),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_process_is_left_behind(ending, tmp_path):
    action, number = ENDINGS[ending]
    group = ending == "Ctrl-C"  # a terminal sends it to all processes of the program
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM).replace("{action}", action))
    program = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    pids = [int(p) for p in program.stdout.readline().split()]
    assert len(pids) == 2
    if number is not None:
        (os.killpg if group else os.kill)(program.pid, number)
    _, errors = program.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while alive := [p for p in pids if os.path.exists(f"/proc/{p}") and not is_zombie(p)]:
        assert time.monotonic() < deadline, f"left behind: {alive}"
        time.sleep(0.02)
    if number == signal.SIGINT:
        assert errors.count("KeyboardInterrupt") == 1, errors


def is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
