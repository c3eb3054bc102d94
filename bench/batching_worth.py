"""Fits the coefficients of Note [Worth] in src/deferred/worth.h, and shows where they decide wrong.

Small programs and the models of dynamic_batching run one by one and batched, without gradients,
with them but no backward pass, and with one, for several numbers of examples. The difference of the
two times is fitted by non-negative least squares, relative to the shorter time, outliers pressed
down (Huber).
"""

import argparse
import time

import harness
import numpy
from batching import MODELS
from batching.small_programs import DIM, SmallPrograms, step
from scipy.optimize import nnls

import weft

# Counts that count again if a backward pass follows, and those that save time.
AGAIN = ("recorded", "recorded_batches", "recorded_weights")
GAINS = (
    "weights", "recorded", "recorded_weights", "backward_recorded", "backward_recorded_weights",
)  # fmt: skip
WAYS = "none", "forward", "backward"  # what gradients are for


def programs(sizes):
    """(name, function, examples, parameters, way)."""
    weft.manual_seed(harness.SEED)
    small = SmallPrograms(weft)
    parameters = small.parameters()
    for name, fn in small.all().items():
        for n in sizes:
            xs = [weft.randn(DIM) for _ in range(n)]
            yield from ((name, fn, xs, parameters, way) for way in WAYS)
    for case in MODELS:
        model = case.make(weft)
        for n in (size for size in sizes if size <= 32):
            xs = case.examples(weft, harness.SEED, n)

            def fn(example, case=case, model=model):
                return case.one(model, example)

            for way in WAYS if case.trains else WAYS[:1]:
                yield case.name, fn, xs, list(model.parameters()), way


def measure(fn, xs, parameters, way, budget):
    """Seconds one by one, seconds batched, and the counts of a batched run."""
    batched = weft.autobatch(fn, adaptive=False)
    runs = lambda: [fn(x) for x in xs], lambda: batched(xs)
    grad, backward = way != "none", way == "backward"
    ways = [step(weft, run, parameters, grad, backward) for run in runs]
    best = [float("inf")] * 2
    end = time.perf_counter() + budget
    rounds = 0
    while time.perf_counter() < end or rounds < 4:  # in turn: the machine's mood is the same
        for k, go in enumerate(ways):
            best[k] = min(best[k], harness.timed(go, 1))
        rounds += 1
    before = weft._C._tally()
    ways[1]()
    after = weft._C._tally()
    counts = {key: after[key] - before[key] for key in after}
    return *best, counts | {f"backward_{key}": backward * counts[key] for key in AGAIN}


def fit(rows):
    """Nanoseconds for each count."""
    names = list(rows[0][-1])
    signs = numpy.array([1 if name in GAINS else -1 for name in names])
    counts = numpy.array([list(row[-1].values()) for row in rows], float) * signs
    scale = counts.max(0, where=counts > 0, initial=1) + (-counts).max(0, initial=1)
    gain = numpy.array([1e9 * (row[3] - row[4]) for row in rows])
    weight = 1 / numpy.array([1e9 * min(row[3], row[4]) for row in rows])
    pressed = weight
    for _ in range(30):
        found, _ = nnls(counts / scale * pressed[:, None], gain * pressed)
        off = numpy.abs((counts / scale @ found - gain) * weight)
        pressed = weight * numpy.sqrt(numpy.minimum(1, 0.3 / numpy.maximum(off, 1e-9)))
    return dict(zip(names, found / scale * signs))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=0.15, help="seconds for each program")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1, 3, 8, 32, 100])
    options = parser.parse_args()
    weft.set_num_threads(1)
    rows = []
    for name, fn, xs, parameters, way in programs(options.sizes):
        plain, batched, counts = measure(fn, xs, parameters, way, options.budget)
        rows.append((name, len(xs), way, plain, batched, counts))
    found = fit(rows)
    print("coefficients in ns:", {name: float(f"{value:.2g}") for name, value in found.items()})
    print("decided wrong by more than a tenth (as the source has it):")
    for name, n, way, plain, batched, counts in rows:
        saved = sum(weft._C._saved_by(counts)[: 2 if way == "backward" else 1])
        ratio = batched / plain
        if (saved > 0) != (ratio < 1) and not 1 / 1.1 < ratio < 1.1:
            how = f"{n} examples, gradients for {way}"
            print(f"  {name}, {how}: batched takes {ratio:.2f}, saves {saved / 1e3:.0f} us")


if __name__ == "__main__":
    main()
