"""Models over unlike structures: one by one, batched by hand, and by weft.autobatch.

A table of its own: all ways of a model in turn, so that every ratio comes from one run. `--size`
sets the number of examples. A step is zero_grad, forward and backward; "+ Adam" adds the update.
"""

import argparse
import json
import statistics

import harness
from batching import MODELS
from harness import alternate, shown

EXAMPLES = 32


def plain(lib, case, model):
    return lambda examples: [case.one(model, example) for example in examples]


def by_hand(lib, case, model):
    return lambda examples: case.by_hand(model, examples)


def autobatch(lib, case, model):
    return lib.autobatch(lambda example: case.one(model, example))


WAYS = {way.__name__: way for way in (plain, by_hand, autobatch)}


def step(lib, case, way, size=EXAMPLES, adam=False):
    """A training step, or for a model without one its answer, of `size` examples."""
    lib.manual_seed(harness.SEED)
    model, examples = case.make(lib), case.examples(lib, harness.SEED, size)
    run = WAYS[way](lib, case, model)
    if not case.trains:
        return lambda: lib.tensor([float(len(said)) for said in run(examples)])
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-4) if adam else None

    def train():
        model.zero_grad()
        losses = run(examples)
        loss = losses.sum() if isinstance(losses, lib.Tensor) else sum(losses)
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        return loss

    return train


def columns(libs):
    """(library, way) for each column."""
    pairs = [("torch", "plain"), ("torch", "by_hand"), ("weft", "plain"), ("weft", "by_hand")]
    pairs = [(name, way) for name, way in pairs if name in libs]
    return pairs + [("weft", "autobatch")] * hasattr(libs["weft"], "autobatch")


def measure(case, libs, size=EXAMPLES, adam=False):
    """Median seconds of every way, by (library, way)."""
    pairs = columns(libs)
    steps = [step(libs[name], case, way, size, adam) for name, way in pairs]
    first = [run() for run in steps]
    for value in first[1:]:
        harness.agree([first[0], value])
    samples = alternate(steps)
    return {pair: statistics.median(sample) for pair, sample in zip(pairs, samples)}


def against_torch(case, ratio=None, **options):
    """weft's best way beside PyTorch's plain loop."""

    def make(lib):
        best = "autobatch" if hasattr(lib, "autobatch") else "plain"
        return step(lib, case, best, **options)

    return harness.Row(f"{case.name}, {EXAMPLES} examples, autobatch", make, ratio=ratio)


def against_hand(case):
    """The model for one example, autobatched, beside the same batched by hand in PyTorch."""

    def make(lib):
        return step(lib, case, "autobatch" if hasattr(lib, "autobatch") else "by_hand")

    return harness.Row(f"{case.name}, autobatch; torch by hand", make, ratio=1)


ROWS = [against_torch(case, ratio={"Tree-LSTM": 16}.get(case.name)) for case in MODELS]
ROWS += map(against_hand, MODELS)

RATIOS = {
    "torch plain / autobatch": (("torch", "plain"), ("weft", "autobatch")),
    "torch by hand / autobatch": (("torch", "by_hand"), ("weft", "autobatch")),
    "plain / autobatch": (("weft", "plain"), ("weft", "autobatch")),
    "autobatch / by hand": (("weft", "autobatch"), ("weft", "by_hand")),
    "plain / by hand": (("weft", "plain"), ("weft", "by_hand")),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="TEXT", help="models whose name contains TEXT")
    parser.add_argument("--size", type=int, default=EXAMPLES, help="number of examples")
    parser.add_argument("--json", action="store_true", help="print JSON, seconds as numbers")
    args = parser.parse_args()
    harness.pin()
    libs = harness.load(["weft", "torch"])
    pairs = columns(libs)
    ratios = {n: r for n, r in RATIOS.items() if r[0] in pairs and r[1] in pairs}
    cases = [(case.name, case, False) for case in MODELS]
    cases.insert(1, ("Tree-LSTM + Adam", MODELS[0], True))
    if not args.json:
        heads = [f"{name} {way.replace('_', ' ')}" for name, way in pairs] + list(ratios)
        print(f"{f'{args.size} examples, one thread, medians':<36}", *(f"{h:>15}" for h in heads))
    results = {}
    for name, case, adam in cases:
        if args.only and args.only not in name:
            continue
        found = measure(case, libs, args.size, adam)
        results[name] = {" ".join(pair): seconds for pair, seconds in found.items()}
        if not args.json:
            cells = [shown(found[pair], "s") for pair in pairs]
            cells += [f"{found[a] / found[b]:.2f}x" for a, b in ratios.values()]
            print(f"{name:<36}", *(f"{cell:>15}" for cell in cells), flush=True)
    if args.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
