"""Cost as a program grows, weft beside PyTorch: per op of a graph, per tree of a batch, of an
optimizer's step over many tensors, of a step with a large embedding. Flat or falling is good.
"""

import argparse
import dataclasses
import statistics
from collections.abc import Callable

import dynamic_batching
import harness
import small_ops
from batching import MODELS

DIM, LOOKED_UP = 16, 256


@dataclasses.dataclass(frozen=True)
class Curve:
    """`make(lib, size)` gives a step without arguments; its time is `per_size` or whole."""

    name: str
    axis: str
    sizes: tuple[int, ...]
    make: Callable
    per_size: bool = False


def trees(lib, examples):
    """A training step: by autobatch, where the library has it, else by hand."""
    case = next(c for c in MODELS if c.name == "Tree-LSTM")
    way = "autobatch" if hasattr(lib, "autobatch") else "by_hand"
    return dynamic_batching.step(lib, case, way, examples)


def optimizer(lib, tensors, parameters=1_000_000):
    """Adam over as many tensors, which together hold a million parameters."""
    own = [lib.nn.Parameter(lib.randn(parameters // tensors)) for _ in range(tensors)]
    for p in own:
        p.grad = lib.randn(p.shape)
    optimizer = lib.optim.Adam(own, fused=True)

    def step():
        optimizer.step()
        return own[0]

    return step


def embedding(lib, rows):
    """A training step that looks up a few rows, with sparse gradients."""
    table = lib.nn.Embedding(rows, DIM, sparse=True)
    optimizer = lib.optim.SGD(table.parameters(), lr=0.1)
    places = lib.randint(0, rows, (LOOKED_UP,))

    def step():
        optimizer.zero_grad()
        loss = table(places).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


CURVES = [
    Curve("a chain of y * b, forward + backward, per op", "nodes of the graph",
          (10**3, 10**4, 10**5, 10**6), small_ops.chain, per_size=True),
    Curve("Tree-LSTM d=128, per tree: autobatch; torch by hand", "trees of a step",
          (1, 4, 16, 64, 256, 1024, 4096), trees, per_size=True),
    Curve("Adam over 10⁶ parameters, fused, per step", "tensors they lie in",
          (1, 10, 100, 1000, 10_000), optimizer),
    Curve("embedding of 16 numbers, 256 looked up, sparse gradients, SGD, per step",
          "rows of the table", (10**3, 10**4, 10**5, 10**6, 10**7), embedding),
]  # fmt: skip


def measured(curve, libs):
    """For each size a dict: seconds by library."""
    for size in curve.sizes:
        steps = []
        for lib in libs.values():
            lib.manual_seed(harness.SEED)
            steps.append(curve.make(lib, size))
        harness.agree([step() for step in steps])
        per = size if curve.per_size else 1
        samples = harness.alternate(steps, spent=1.0)
        yield dict(zip(libs, (statistics.median(s) / per for s in samples)))


def draw(results, path):
    """One panel for each curve, both axes by powers of ten."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    for panel, (curve, points) in zip(panels.flat, results):
        for name, color in (("weft", "#1f6f8b"), ("torch", "#d1603d")):
            heights = [point[name] * 1e6 for point in points if name in point]
            if heights:
                panel.loglog(curve.sizes, heights, "o-", color=color, label=name)
        panel.set(title=curve.name, xlabel=curve.axis, ylabel="µs")
        panel.title.set_fontsize(9)
        low, high = panel.get_ylim()
        panel.set_ylim(low / 2, high * 2)  # what is flat looks flat
        panel.grid(alpha=0.3)
        panel.legend()
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="curves whose name contains it")
    parser.add_argument("--picture", metavar="FILE", help="draw the curves, by matplotlib")
    args = parser.parse_args()
    harness.pin()
    libs, results = harness.load(["weft", "torch"]), []
    for curve in (c for c in CURVES if args.only in c.name):
        print(f"\n{curve.name}\n{curve.axis:>24} {'weft':>10} {'torch':>10} {'ratio':>8}")
        points = []
        for size, point in zip(curve.sizes, measured(curve, libs)):
            points.append(point)
            cells = [harness.shown(point.get(name), "s") for name in ("weft", "torch")]
            ratio = f"{point['torch'] / point['weft']:.2f}x" if "torch" in point else "-"
            print(f"{size:>24,} {cells[0]:>10} {cells[1]:>10} {ratio:>8}", flush=True)
        results.append((curve, points))
    if args.picture:
        draw(results, args.picture)


if __name__ == "__main__":
    main()
