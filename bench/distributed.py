"""Two ranks beside one, weft over MPI and PyTorch's DistributedDataParallel over gloo.

Each library has a launch of two ranks of one thread. Within it rounds alternate: some steps of rank
0 alone, the other waiting, some of both without a word between them, and some of both in one world,
each with its own batch; so what else the machine does meets them all. Trees are dealt to the ranks
by BalancedBatchSampler, in both libraries. `speed-up` is the examples per second of two ranks over
those of one, `apart` the same of ranks that exchange nothing: what two cores that share caches,
memory and power have to give. `work` is the processor's time of a step of two ranks over that of
one, which a busy machine changes less; what one rank with the wrapper costs is under `at one rank`,
as the same quotient. The last lines are an all-reduce by its size. With fewer idle cores than ranks
no speed-up is to be seen.

`costs`, `memory` and `balance` are tables of their own: distributed_costs.py, balance.py.
"""

import argparse
import functools
import json
import os
import random
import statistics
import subprocess
import sys
import time

import balance
import cnn
import gpt
import tree_lstm

from weft.distributed import BalancedBatchSampler

ROUNDS, STEPS = 15, 3
TREES = f"Tree-LSTM, {balance.BATCH} trees a rank"
SIZES = (1, 1 << 10, 1 << 16, 1 << 20, 1 << 22)  # of an all-reduce, in float32s


def programs(torch):
    """{row: what makes (module, what computes its loss by what is called, optimizer)}"""
    F = torch.nn.functional
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()

    def language():
        model = gpt.model_of(torch, gpt.BATCH, gpt.LENGTH)
        tokens = torch.randint(0, gpt.WORDS, (gpt.BATCH, gpt.LENGTH))
        targets = torch.randint(0, gpt.WORDS, (gpt.BATCH * gpt.LENGTH,))

        def loss(called):
            out = called(tokens).reshape(gpt.BATCH * gpt.LENGTH, gpt.WORDS)
            return F.cross_entropy(out, targets)

        return model, loss, torch.optim.AdamW(model.parameters(), lr=1e-3)

    def images():
        model = cnn.model_of(torch)
        batch, targets = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        return model, lambda called: F.cross_entropy(called(batch), targets), optimizer

    def trees():
        rng = random.Random(rank)
        batch = [tree_lstm.random_tree(rng, leaves) for leaves in leaves_of(rank, ranks)]
        labels = [torch.tensor([rng.randrange(tree_lstm.CLASSES)]) for _ in batch]
        model = Losses(tree_lstm.model_of(torch))
        return (
            model, lambda called: called(batch, labels),
            torch.optim.SGD(model.parameters(), lr=0.01),
        )  # fmt: skip

    class Losses(torch.nn.Module):
        """The mean over trees: batched by weft, one by one in PyTorch."""

        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, batch, labels):
            def one(tree, label):
                return F.cross_entropy(self.model(tree), label)

            of_all = getattr(torch, "autobatch", lambda one: functools.partial(map, one))(one)
            return torch.stack(list(of_all(batch, labels))).mean()

    return {
        "GPT, 12 x 64 tokens a rank": language, "CNN, 64 images a rank": images,
        TREES: trees,
    }  # fmt: skip


def leaves_of(rank, ranks):
    """The sizes of a rank's trees, of which each rank has as much: a step ends with its slowest."""
    rng = random.Random(1000)
    drawn = [rng.randint(10, 40) for _ in range(ranks * balance.BATCH)]
    sampler = BalancedBatchSampler(drawn, drawn, balance.BATCH, ranks, rank, drop_last=True)
    return [drawn[i] for i in next(sampler.shares())[rank]]


def step_of(made, wrap):
    module, loss, optimizer = made
    called = wrap(module)

    def step():
        optimizer.zero_grad()
        loss(called).backward()
        optimizer.step()

    return step


def seconds(step, count):
    """Of a step: on the clock, and of this process' work."""
    start = time.perf_counter(), time.process_time()
    for _ in range(count):
        step()
    return (time.perf_counter() - start[0]) / count, (time.process_time() - start[1]) / count


def medians(times):
    return [statistics.median(column) for column in zip(*times)]


def ranks(torch):
    """Runs in each rank: the rows, then the all-reduces."""
    dist = torch.distributed
    torch.set_num_threads(1)
    dist.init_process_group("mpi" if torch.__name__ == "weft" else "gloo")
    is_first = dist.get_rank() == 0
    found = {}
    for name, make in programs(torch).items():
        alone = step_of(make(), lambda module: module)
        both = step_of(make(), torch.nn.parallel.DistributedDataParallel)
        alone(), both()
        times = [[], [], []]
        for _ in range(ROUNDS):
            if is_first:
                times[0].append(seconds(alone, STEPS))
            for step, kept in zip((alone, both), times[1:]):
                dist.barrier()
                kept.append(seconds(step, STEPS))
            dist.barrier()
        if is_first:
            found[name] = [medians(t) for t in times]
    for size in SIZES:
        x = torch.ones(size)
        times = []
        for _ in range(ROUNDS):
            dist.barrier()
            times.append(seconds(lambda: dist.all_reduce(x), STEPS))  # noqa: B023
        found[f"all-reduce of {4 * size} bytes"] = [medians(times)]
    if is_first:
        print("FOUND" + json.dumps(found), flush=True)
    dist.destroy_process_group()
    if torch.__name__ == "torch":
        os._exit(0)  # threads of its DDP, which lives on, abort the end of the interpreter at times


def alone(torch):
    """Runs in one process: what the wrapper costs it."""
    dist = torch.distributed
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    found = {}
    for name, make in programs(torch).items():
        steps = [
            step_of(make(), wrap)
            for wrap in (lambda module: module, torch.nn.parallel.DistributedDataParallel)
        ]
        times = [[], []]
        for step in steps:
            step()
        for _ in range(2 * ROUNDS):
            for step, kept in zip(steps, times):
                kept.append(seconds(step, STEPS))
        found[name] = [medians(t) for t in times]
    print("FOUND" + json.dumps(found))
    dist.destroy_process_group()


def run(lib, what, count=2):
    """The numbers of a launch."""
    here = [os.path.abspath(__file__), what, lib]
    start = [sys.executable]
    if what != "alone":
        start += ["-m", "weft", "launch", "--no-ranks", "-n", str(count)] if lib == "weft" else [
            "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}"
        ]  # fmt: skip
    done = subprocess.run(
        [*start, *here], capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return json.loads(done.stdout.partition("FOUND")[2].splitlines()[0])


def table(libs):
    both = {lib: run(lib, "ranks") for lib in libs}
    one = {lib: run(lib, "alone") for lib in libs}
    print(f"{'':34}{'library':>8}{'one rank':>12}{'two ranks':>12}{'speed-up':>10}{'apart':>7}"
          f"{'work':>7}{'at one rank':>13}")  # fmt: skip
    for name in both[libs[0]]:
        for lib in libs:
            times = both[lib][name]
            if len(times) == 1:
                print(f"{name:34}{lib:>8}{'':12}{times[0][0] * 1e3:>9.3f} ms")
                continue
            (first, work), (apart, _), (second, more) = times
            cost = one[lib][name][1][1] / one[lib][name][0][1]
            print(f"{name:34}{lib:>8}{first * 1e3:>9.2f} ms{second * 1e3:>9.2f} ms"
                  f"{2 * first / second:>9.2f}x{2 * first / apart:>6.2f}x"
                  f"{more / work:>6.2f}x{cost:>12.3f}x")  # fmt: skip


def main():
    import distributed_costs as costs

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    in_ranks = {
        "ranks": ranks, "alone": alone, "costs-of-a-rank": costs.in_rank,
        "counts-of-a-rank": costs.count_in_rank, "memory-of-a-rank": costs.memory_in_rank,
    }  # fmt: skip
    tables = {
        "table": table, "costs": costs.table, "memory": costs.memory, "balance": balance.table,
    }  # fmt: skip
    parser.add_argument("what", nargs="?", choices=[*tables, *in_ranks, "all"], default="all")
    parser.add_argument("lib", nargs="?", default="")
    args = parser.parse_args()
    if args.what in in_ranks:
        torch = __import__(args.lib)
        __import__(f"{args.lib}.distributed")
        in_ranks[args.what](torch)
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    libs = [args.lib] if args.lib else ["weft", "torch"]
    for name, show in tables.items():
        if args.what in (name, "all"):
            show(libs) if name == "table" else show()


if __name__ == "__main__":
    main()
