"""What every bench script shares: alternating measurement of weft and its peer, and the table.

Both run the same program, in one process, on one pinned core with one thread (or on all cores with
the threads that the row says), turn and turn about, so that a drift of the machine meets both. A
row shows medians. The ratio is the peer's time over
weft's; absolute times differ between machines, the ratio much less.
"""

import argparse
import contextlib
import dataclasses
import gc
import importlib
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable

ROUND = 0.03  # seconds that one timed round lasts at least
SPENT = 2.0  # seconds spent on each of the two in a row, about
ROUNDS = (7, 41)  # fewest and most rounds
SEED = 0


@dataclasses.dataclass(frozen=True)
class Row:
    """A program timed for both libraries.

    `make(lib)` prepares it with `lib` standing for torch and returns a step without arguments.
    A step is `per` operations; a tensor it returns must agree between the libraries.
    `ratio` is the target: peer's time over weft's, at least.
    """

    name: str
    make: Callable
    ratio: float | None = None
    per: int = 1
    threads: int = 1


@dataclasses.dataclass(frozen=True)
class Fact:
    """A quantity found otherwise: `value(name)` for "weft" or the peer's name, in `unit`.

    It may return None where it has no meaning. `limit` is the target: weft's value, at most; or
    `at_most_peer`: no more than the peer's.
    """

    name: str
    value: Callable
    unit: str
    limit: float | None = None
    at_most_peer: bool = False


@dataclasses.dataclass(frozen=True)
class Ways:
    """A program of weft's run in several ways, beside peers that run another way than torch.

    `make()` gives a step for each way by name, the one that counts first; None for a peer that is
    not there. `limit` is the target in seconds; `below` has targets beside others, as the time of
    the first over theirs. All runs within `scope()`.
    """

    name: str
    make: Callable
    scope: Callable = contextlib.nullcontext
    limit: float | None = None
    below: dict[str, float] = dataclasses.field(default_factory=dict)


def pin():
    """Bind this process to one core, the last it may use: the first ones serve interrupts.

    Returns the cores it had."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    return cores


@contextlib.contextmanager
def threads(count, cores, libs):
    """The libraries on `count` threads, which may run on all `cores`."""
    if count == 1:
        yield
        return
    pinned = os.sched_getaffinity(0) if cores else None
    if cores:
        for task in os.listdir("/proc/self/task"):  # the libraries' own threads too
            os.sched_setaffinity(int(task), cores)
    for lib in libs.values():
        lib.set_num_threads(count)
    try:
        yield
    finally:
        for lib in libs.values():
            lib.set_num_threads(1)
        if cores:
            os.sched_setaffinity(0, pinned)


def timed(step, count, clock=time.perf_counter):
    """Seconds for one of `count` successive steps, the cyclic collector off as in timeit."""
    gc.disable()
    start = clock()
    for _ in range(count):
        step()
    seconds = clock() - start
    gc.enable()
    return seconds / count


def alternate(steps, least=ROUND, spent=SPENT, clock=time.perf_counter):
    """Times callables turn and turn about; returns one list of seconds per step for each.

    `least`: seconds that one timed round lasts at least; `spent`: on each callable, about; `clock`:
    by which.
    """
    counts, longest = [], 0.0
    for step in steps:
        step()
        once = timed(step, 1, clock)
        count = max(1, round(least / once))
        counts.append(max(1, round(least / timed(step, min(count, 100), clock))))
        longest = max(longest, once, least)
    gc.collect()
    rounds = min(max(ROUNDS[0], round(spent / longest)), ROUNDS[1])
    samples = [[] for _ in steps]
    for _ in range(rounds):
        for step, count, sample in zip(steps, counts, samples):
            sample.append(timed(step, count, clock))
    return samples


def agree(values):
    """Raises if the tensors that the first steps returned differ by more than rounding."""
    sizes = [value.detach().abs().mean().item() for value in values if value is not None]
    if sizes and abs(sizes[0] - sizes[-1]) > 1e-3 * abs(sizes[-1]):
        raise ValueError(f"[bench] expected equal results, got mean sizes {sizes}")


def run_row(row, libs, cores):
    steps = []
    with threads(row.threads, cores, libs):
        for lib in libs.values():
            lib.manual_seed(SEED)
            steps.append(row.make(lib))
        agree([step() for step in steps])
        medians = [statistics.median(sample) / row.per for sample in alternate(steps)]
    return dict(zip(libs, medians))


def ways_result(row):
    """The same of a row of several ways."""
    with row.scope():
        steps = {way: step for way, step in row.make().items() if step is not None}
        for step in steps.values():
            for _ in range(3):  # what compiles does so with the first calls
                step()
        samples = alternate(list(steps.values()))
    found = {way: statistics.median(s) for way, s in zip(steps, samples)}
    first = found[next(iter(found))]
    targets = {f"<= {shown(row.limit, 's')}": first <= row.limit} if row.limit else {}
    for way, most in row.below.items():
        if way in found:
            targets[f"<= {most:g} {way}"] = first <= most * found[way]
    return {
        "row": row.name, "unit": "s", "ways": found, "target": ", ".join(targets) or None,
        "met": all(targets.values()) if targets else None,
    }  # fmt: skip


def result(row, libs, cores):
    """A row's result as a JSON-able dict: times in seconds, or a fact's values in its unit."""
    if isinstance(row, Ways):
        return ways_result(row)
    if isinstance(row, Fact):
        values, unit = {name: row.value(name) for name in libs}, row.unit
    else:
        values, unit = run_row(row, libs, cores), "s"
    weft, peer = [*values.values(), None][:2]
    ratio = peer / weft if peer and weft else None
    target, met = None, None
    if isinstance(row, Fact) and row.limit is not None:
        target = f"<= {shown(row.limit, unit)}"
        met = None if weft is None else weft <= row.limit
    elif isinstance(row, Fact) and row.at_most_peer:
        target, met = ">= 1x", None if ratio is None else ratio >= 1
    elif isinstance(row, Row) and row.ratio is not None:
        target, met = f">= {row.ratio:g}x", None if ratio is None else ratio >= row.ratio
    return {
        "row": row.name, "unit": unit, "weft": weft, "peer": peer,
        "ratio": ratio, "target": target, "met": met,
    }  # fmt: skip


def shown(value, unit):
    """A value with its unit, seconds in the unit that reads best."""
    if value is None:
        return "-"
    if unit == "s":
        scale, unit = next(
            ((s, u) for s, u in ((1, "s"), (1e3, "ms"), (1e6, "µs")) if value * s >= 1), (1e9, "ns")
        )
        value *= scale
    return f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"


COLUMNS = "{:<66} {:>10} {:>10} {:>8}  {:<9} {}"


WAYS = ("loaded", "compiled", "eager", "torch", "torch.compile", "jax", "onnxruntime")
WAYS_COLUMNS = "{:<42}" + " {:>13}" * len(WAYS) + "  {} {}"


def print_ways(found, is_first):
    if is_first:
        print(
            "\n" + WAYS_COLUMNS.format("compiled and loaded: medians", *WAYS, "target", "").rstrip()
        )
    eager = found["ways"].get("eager")
    cells = []
    for way in WAYS:
        seconds = found["ways"].get(way)
        ours = way in ("loaded", "compiled") and seconds and eager
        ratio = f" {seconds / eager:.2f}" if ours else ""
        cells.append(shown(seconds, "s") + ratio)
    met = {None: "", True: "met", False: "short"}[found["met"]]
    print(WAYS_COLUMNS.format(found["row"], *cells, found["target"] or "", met), flush=True)


def print_result(found):
    ratio = f"{found['ratio']:.2f}x" if found["ratio"] else "-"
    met = {None: "", True: "met", False: "short"}[found["met"]]
    unit = found["unit"]
    cells = shown(found["weft"], unit), shown(found["peer"], unit), ratio, found["target"] or ""
    print(COLUMNS.format(found["row"], *cells, met), flush=True)


def load(names):
    """The libraries by name, on one thread; a peer that is not installed is left out."""
    libs = {}
    for name in names:
        try:
            lib = importlib.import_module(name.split(":")[0])
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            print("torch is not installed: no ratios (make env PARITY=1)", file=sys.stderr)
            continue
        lib.set_num_threads(1)
        libs[name] = lib
    return libs


def main(rows, description, page=None):
    """The command line of every script: runs `rows` and prints their table.

    `page(results, libs, only, busy)` is the text that `--page` writes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--only", metavar="RE", help="rows whose name has a match, as GRU or MLP|^GPT"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, seconds as numbers")
    if page:
        parser.add_argument(
            "--page", metavar="FILE", help="write docs/measured.md, or another FILE"
        )
    parser.add_argument(
        "--self-check", action="store_true", help="torch against itself: ratios must be about 1"
    )
    args = parser.parse_args()
    cores, busy = pin(), os.getloadavg()[0]
    libs = load(["torch", "torch:again"] if args.self_check else ["weft", "torch"])
    names = [*libs, "torch"][:2]
    if not args.json:
        title = "one thread unless said, medians"
        print(COLUMNS.format(title, *names, "ratio", "target", "").rstrip())
    results = []
    for row in rows:
        if args.only and not re.search(args.only, row.name):
            continue
        results.append(result(row, libs, cores))
        if not args.json and isinstance(row, Ways):
            print_ways(results[-1], not any("ways" in r for r in results[:-1]))
        elif not args.json:
            print_result(results[-1])
    if args.json:
        print(json.dumps(results, indent=2, ensure_ascii=False))
    if page and args.page:
        with open(args.page, "w", encoding="utf-8") as file:
            file.write(page(results, libs, args.only, busy))
