"""Ways for workers that Ray places to exchange: Ray's own collectives and MPI.

Usage: python bench/ray_transport.py [--workers 2] [--times 50]

Ray's collectives run on the CPU by PyTorch's gloo, so PyTorch has to be installed for them. Prints
the median of an all_reduce of float32, and how long workers take from the call to the first of it.
"""

from __future__ import annotations

import argparse
import statistics
import time

import ray as theirs

import weft
import weft.distributed as dist
from weft.distributed import ray

SIZES = (1024, 262144, 2621440)  # 4 kB, 1 MB, 10 MB


def median(times: int, call) -> float:
    """Milliseconds of a call."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        taken.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(taken)


def by_mpi(config):
    """What a worker of `ray.run` does."""
    began = time.time()
    told = {"start": began - config["called"]}
    for size in SIZES:
        x = weft.zeros(size)
        dist.barrier()
        told[str(size)] = median(config["times"], lambda x=x: dist.all_reduce(x))
    ray.report(told)


@theirs.remote(num_cpus=1)
class ByRay:
    """A worker of Ray's collectives."""

    def measure(self, rank: int, workers: int, config: dict) -> dict:
        """The same."""
        import torch
        from ray.util import collective

        torch.set_num_threads(1)
        collective.init_collective_group(workers, rank, backend="gloo", group_name="all")
        told = {"start": time.time() - config["called"]}
        for size in SIZES:
            x = torch.zeros(size)
            collective.barrier("all")
            told[str(size)] = median(config["times"], lambda x=x: collective.allreduce(x, "all"))
        return told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", type=int, default=50)
    args = parser.parse_args()
    theirs.init(address="local", num_cpus=args.workers, include_dashboard=False,
                object_store_memory=100 << 20, log_to_driver=False)  # fmt: skip
    config = {"times": args.times, "called": time.time()}
    found = {"MPI": ray.run(by_mpi, args.workers, config, progress=False).metrics}
    config["called"] = time.time()
    workers = [ByRay.remote() for _ in range(args.workers)]
    asked = [w.measure.remote(i, args.workers, config) for i, w in enumerate(workers)]
    found["Ray's"] = theirs.get(asked)[0]
    print(f"{'':8}{'start, s':>10}" + "".join(f"{4 * s // 1024:>9} kB" for s in SIZES))
    for name, told in found.items():
        times = "".join(f"{told[str(size)]:9.3f} ms" for size in SIZES)
        print(f"{name:8}{told['start']:10.1f}{times}")


if __name__ == "__main__":
    main()
