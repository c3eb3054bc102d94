"""`mp.spawn` of ranks: what they share, what they are, and how they end."""

import pytest
from launched import SOON, launch, needs_mpi, script

pytestmark = needs_mpi
__all__ = ["script"]

SPAWN = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP

def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)

def demo(rank, world_size, fails):
    setup(rank, world_size)
    net = DDP(torch.nn.Linear(1, 1, bias=False))
    net(torch.full((1, 1), float(rank))).sum().backward()
    print("gradient", net.module.weight.grad.item(), flush=True)
    if fails and rank == 1:
        raise ValueError("mine")
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    fails = "fails" in sys.argv
    try:
        if "later" in sys.argv:
            context = mp.spawn(demo, args=(2, fails), nprocs=2, join=False)
            while not context.join(0.1):
                pass
        else:
            mp.spawn(demo, args=(2, fails), nprocs=2, join=True)
    except mp.ProcessRaisedException as error:
        print("process", error.error_index, str(error).splitlines()[-1])
        sys.exit(4)
    print("done")
"""


@pytest.mark.parametrize("how", ["now", "later"])
def test_spawned_ranks_are_one_launch(script, how):
    done = launch(script(SPAWN), how, ranks=None, command=("run",))
    assert sorted(done.stdout.splitlines()) == ["done", "gradient 0.5", "gradient 0.5"]
    failed = launch(script(SPAWN), "fails", how, ranks=None, command=("run",), check=False)
    assert failed.returncode == 4
    assert "process 1 ValueError: mine" in failed.stdout and "Traceback" not in failed.stderr


SPAWNED = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def demo(rank, world_size, how, t, q):
    dist.init_process_group("gloo", init_method="tcp://localhost:12356", rank=rank,
                            world_size=world_size)
    if rank == 1 and how == "exits":
        sys.exit(4)
    if rank == 1 and how == "leaves":
        os._exit(5)
    if rank == 1 and how == "is killed":
        os.kill(os.getpid(), 9)
    t[rank] = rank + 1
    q.put((rank, t[rank].item() * 10))
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    t, q = torch.zeros(2).share_memory_(), mp.get_context("spawn").SimpleQueue()
    try:
        mp.spawn(demo, args=(2, sys.argv[1], t, q), nprocs=2)
        print(t.tolist(), sorted([q.get(), q.get()]))
    except mp.ProcessExitedException as e:
        print(e.error_index, e.exit_code, e.signal_name, e)
"""
ENDED = {
    "exits": "1 4 None process 1 terminated with exit code 4",
    "leaves": "1 5 None process 1 terminated with exit code 5",
    "is killed": "1 -9 SIGKILL process 1 terminated with signal SIGKILL",
    "": "[1.0, 2.0] [(0, 10.0), (1, 20.0)]",  # arguments that processes share
}


@pytest.mark.parametrize("how", ENDED)
def test_how_spawned_ranks_end_and_what_they_share(script, how):
    done = launch(script(SPAWNED), how, ranks=None, command=("run",), timeout=SOON)
    assert done.stdout.splitlines() == [ENDED[how]]


def test_spawn_within_a_launch_runs_the_one_rank(script):
    done = launch(script(SPAWN), WEFT_AS_TORCH="1", PYTHONPATH=site())
    assert sorted(done.stdout.splitlines()) == sorted(
        f"[{r}] {line}" for r in (0, 1) for line in ("gradient 0.5", "done")
    )


def test_a_rank_that_has_run_is_joined_later_too(script):
    """A thread launched it again, in no processes: ZeroDivisionError, and an empty folder."""
    done = launch(script(SPAWN), "later", WEFT_AS_TORCH="1", PYTHONPATH=site())
    assert sorted(done.stdout.splitlines()) == sorted(
        f"[{r}] {line}" for r in (0, 1) for line in ("gradient 0.5", "done")
    )
    assert "ZeroDivisionError" not in done.stderr


def site():
    from weft.base import alias

    env = {}
    alias.to_children(env)
    return env["PYTHONPATH"]


def test_other_functions_are_spawned_as_ever(script):
    done = launch(script("""
import torch.multiprocessing as mp
def f(i, q):
    q.put(i)
if __name__ == "__main__":
    import torch.distributed
    q = mp.get_context("spawn").SimpleQueue()
    mp.spawn(f, (q,), nprocs=2)
    print(sorted([q.get(), q.get()]))
"""), ranks=None, command=("run",))  # fmt: skip
    assert done.stdout == "[0, 1]\n"
