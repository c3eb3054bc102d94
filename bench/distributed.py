"""Two ranks beside one, weft over MPI and PyTorch's DistributedDataParallel over gloo.

Each library has a launch of two ranks of one thread. Within it rounds alternate: some steps of rank
0 alone, the other waiting, and some of both, each with its own batch; so what else the machine does
meets both. `speed-up` is the examples per second of two ranks over those of one, `work` the
processor's time of a step of two ranks over that of one, which a busy machine changes less; what
one rank with the wrapper costs is under `at one rank`, as the same quotient. The last lines are an
all-reduce by its size. With fewer idle cores than ranks no speed-up is to be seen.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import cnn
import gpt

ROUNDS, STEPS = 7, 3
SIZES = (1, 1 << 10, 1 << 16, 1 << 20, 1 << 22)  # of an all-reduce, in float32s


def programs(torch):
    """{row: what makes (module, batch, loss of the module's output, optimizer)}"""
    F = torch.nn.functional

    def language():
        model = gpt.model_of(torch, gpt.BATCH, gpt.LENGTH)
        tokens = torch.randint(0, gpt.WORDS, (gpt.BATCH, gpt.LENGTH))
        targets = torch.randint(0, gpt.WORDS, (gpt.BATCH * gpt.LENGTH,))
        return (
            model, tokens,
            lambda out: F.cross_entropy(out.reshape(gpt.BATCH * gpt.LENGTH, gpt.WORDS), targets),
            torch.optim.AdamW(model.parameters(), lr=1e-3),
        )  # fmt: skip

    def images():
        model = cnn.model_of(torch)
        targets = torch.randint(0, 10, (64,))
        return (
            model, torch.randn(64, 1, 28, 28), lambda out: F.cross_entropy(out, targets),
            torch.optim.SGD(model.parameters(), lr=0.01),
        )  # fmt: skip

    return {"GPT, 12 x 64 tokens a rank": language, "CNN, 64 images a rank": images}


def step_of(torch, made, wrap):
    module, batch, loss, optimizer = made
    called = wrap(module)

    def step():
        optimizer.zero_grad()
        loss(called(batch)).backward()
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
        alone = step_of(torch, make(), lambda module: module)
        both = step_of(torch, make(), torch.nn.parallel.DistributedDataParallel)
        alone(), both()
        times = [[], []]
        for _ in range(ROUNDS):
            if is_first:
                times[0].append(seconds(alone, STEPS))
            dist.barrier()
            times[1].append(seconds(both, STEPS))
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


def alone(torch):
    """Runs in one process: what the wrapper costs it."""
    dist = torch.distributed
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    found = {}
    for name, make in programs(torch).items():
        steps = [
            step_of(torch, make(), wrap)
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


def run(lib, what):
    """The numbers of a launch."""
    here = [os.path.abspath(__file__), what, lib]
    start = [sys.executable]
    if what == "ranks":
        start += ["-m", "weft", "launch", "--no-ranks", "-n", "2"] if lib == "weft" else [
            "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"
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
    print(f"{'':34}{'library':>8}{'one rank':>12}{'two ranks':>12}{'speed-up':>10}{'work':>7}"
          f"{'at one rank':>13}")  # fmt: skip
    for name in both[libs[0]]:
        for lib in libs:
            times = both[lib][name]
            if len(times) == 1:
                print(f"{name:34}{lib:>8}{'':12}{times[0][0] * 1e3:>9.3f} ms")
                continue
            (first, work), (second, more) = times
            cost = one[lib][name][1][1] / one[lib][name][0][1]
            print(f"{name:34}{lib:>8}{first * 1e3:>9.2f} ms{second * 1e3:>9.2f} ms"
                  f"{2 * first / second:>9.2f}x{more / work:>6.2f}x{cost:>12.3f}x")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=["table", "ranks", "alone"], default="table")
    parser.add_argument("lib", nargs="?", default="")
    args = parser.parse_args()
    if args.what == "table":
        table([args.lib] if args.lib else ["weft", "torch"])
    else:
        torch = __import__(args.lib)
        __import__(f"{args.lib}.distributed")
        {"ranks": ranks, "alone": alone}[args.what](torch)


if __name__ == "__main__":
    main()
