"""What autobatch chooses, beside the plain loop and the batch: a table of times and ratios.

The models of dynamic_batching, those of batching/many_programs and batching/small_programs, forward
only and as a training step, for several numbers of examples. "chosen" is what a function does after
its first 20 runs; "cost" is the time of that over the time of the better way. Times are of the CPU,
the best of rounds in turn; what seems to be chosen wrongly is measured again.

With `--fit` the coefficients of Note [Worth] (src/deferred/worth.h) are found anew: those at which
the programs lose least time by wrong choices.
"""

import argparse
import json
import time

import harness
import numpy
from batching import MODELS
from batching.many_programs import PROGRAMS
from batching.small_programs import DIM, SmallPrograms, step

import weft

RUNS = 20  # after which the choice is taken to be made
LIMIT = 1.1


def functions(only):
    """(name, function of an example, examples by number, parameters, whether it trains)."""
    for name, make in PROGRAMS.items():
        if only in name:
            weft.manual_seed(harness.SEED)
            net, fn, example = make(weft)
            yield name, fn, lambda n, f=example: [f(k) for k in range(n)], net.parameters(), True
    weft.manual_seed(harness.SEED)
    small = SmallPrograms(weft)
    for name, fn in small.all().items():
        if only in name:
            yield name, fn, lambda n: [weft.randn(DIM) for _ in range(n)], small.parameters(), True
    for case in MODELS:
        if only in case.name:
            weft.manual_seed(harness.SEED)
            model = case.make(weft)

            def one(example, case=case, model=model):
                return case.one(model, example)

            def examples(n, case=case):
                return case.examples(weft, harness.SEED, n)

            yield case.name, one, examples, model.parameters(), case.trains


def programs(sizes, only):
    """(name, number of examples, function, examples, parameters, whether to train)."""
    for name, fn, examples, parameters, trains in functions(only):
        for n in sizes:
            xs = examples(n)
            for train in (False, True)[: 1 + trains]:
                yield name, n, fn, xs, list(parameters), train


def best_times(ways, budget):
    """Seconds of each, the best of rounds in turn: the machine's mood is the same for all."""
    best, end, rounds = [float("inf")] * len(ways), time.perf_counter() + budget, 0
    while time.perf_counter() < end or rounds < 3:
        for k, go in enumerate(ways):
            start = time.process_time()
            go()
            best[k] = min(best[k], time.process_time() - start)
        rounds += 1
    return best


def counts_of(go):
    before = weft._C._tally()
    go()
    after = weft._C._tally()
    return {key: after[key] - before[key] for key in after}


def measure(fn, xs, parameters, train, budget, again):
    """Seconds of the loop, seconds batched, which one autobatch takes, counts of a batched run."""
    batched, adaptive = weft.autobatch(fn, adaptive=False), weft.autobatch(fn)
    loop, batch, chosen = (
        step(weft, run, parameters, train, train)
        for run in (lambda: [fn(x) for x in xs], lambda: batched(xs), lambda: adaptive(xs))
    )
    for _ in range(RUNS):
        chosen()
    takes_batch = counts_of(lambda: (chosen(), chosen()))["calls"] > 0
    best = best_times([loop, batch], budget)
    while again and best[takes_batch] > LIMIT * min(best):
        best = [min(pair) for pair in zip(best, best_times([loop, batch], 2 * budget))]
        again -= 1
    return *best, takes_batch, counts_of(batch)


NAMES = ("calls", "runs", "examples", "fibers", "waits", "nodes", "merged", "weights")


def counts_in_order(counts, train):
    """By NAMES; what is spared in backward counts in training, weights at the price of forward."""
    forward = [counts[name] for name in NAMES[:5]]
    back = [train * counts[name] for name in NAMES[5:7]]
    return [*forward, *back, counts["weights"] + train * counts["weights_back"]]


def fit(rows):
    """Coefficients by NAMES: from those of the source by steps of ever less, each if fewer programs
    lose less time. Only ratios matter: that of `calls` stays."""

    def unit(name):
        return sum(weft._C._saved_by({**dict.fromkeys(weft._C._tally(), 0), name: 1}))

    found = numpy.array([unit(name) for name in NAMES])
    counts = numpy.array([counts_in_order(row[-1], row[2]) for row in rows], float)
    times = numpy.array([row[3:5] for row in rows])

    def lost(coefficients):
        taken = numpy.where(counts @ coefficients >= 0, times[:, 1], times[:, 0])
        cost = taken / times.min(1) - 1
        return numpy.maximum(cost - 0.02, 0).sum() + (cost > LIMIT - 1).sum() / 10

    print(f"lost as the source has it {lost(found):.2f}", end=", ")
    for size in (1.5, 1.25, 1.1, 1.05, 1.02) * 2:
        for k in range(1, len(found)):
            tries = [found * numpy.where(numpy.arange(len(found)) == k, by, 1)
                     for by in (1, size, 1 / size)]  # fmt: skip
            found = min(tries, key=lost)
    print(f"fitted {lost(found):.2f}:")
    return dict(zip(NAMES, found))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=0.15, help="seconds for each row")
    parser.add_argument("--again", type=int, default=2, help="how often to doubt a wrong choice")
    parser.add_argument("--sizes", type=int, nargs="*", default=[8, 32, 128, 512])
    parser.add_argument("--only", default="", help="programs with this in their names")
    parser.add_argument("--json", metavar="FILE", help="writes times and counts there")
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    weft.set_num_threads(1)
    rows, costs, names = [], [], set()
    print(f"{'program':<29}{'n':>4} {'':<8}{'loop ms':>9}{'batched':>9}{'chosen':>8}{'cost':>6}")
    for name, n, fn, xs, parameters, train in programs(options.sizes, options.only):
        loop, batch, takes_batch, counts = measure(
            fn, xs, parameters, train, options.budget, options.again
        )
        rows.append((name, n, train, loop, batch, takes_batch, counts))
        names.add(name)
        costs.append((batch if takes_batch else loop) / min(loop, batch))
        print(f"{name:<29}{n:>4} {'trains' if train else 'forward':<8}{1e3 * loop:>9.3f}"
              f"{1e3 * batch:>9.3f}{'batch' if takes_batch else 'loop':>8}{costs[-1]:>6.2f}"
              f"{'  <-' if costs[-1] > LIMIT else ''}", flush=True)  # fmt: skip
    over = sum(cost > LIMIT for cost in costs)
    print(f"{len(names)} programs, {len(costs)} rows: cost {numpy.mean(costs):.3f} in the mean, "
          f"{max(costs):.2f} at worst; {over} over {LIMIT:.2f}")  # fmt: skip
    if options.fit:
        for name, value in fit(rows).items():
            print(f"  {name:<12}{value:>10.3g}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file)


if __name__ == "__main__":
    main()
