"""`weft.compile` beside weft as it is: one thread, minima of processor time, in turn.

    .venv/bin/python bench/compiled.py [--only TEXT]

The first column of times is eager, the second compiled; then their ratio, and the first three calls
of what is compiled (as it is, traced, by plan). Whole steps are compiled: what of a step stays
Python's (`backward`, the optimizer) is in both.
"""

import argparse
import time

import dynamic_batching
import gpt
import gru_cells
import mlp
import tree_lstm
from batching import MODELS

import weft
from weft import nn


def chain(elements):
    x = weft.randn(elements)

    def step():
        y = weft.tanh(weft.sigmoid(x) * 2 - 1 + x)
        return y * weft.sigmoid(x + 0.5) - x

    return step


def gelu(elements):
    x = weft.randn(elements)

    def step():
        inner = 0.7978845608 * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + weft.tanh(inner))

    return step


def perceptron():
    model = nn.Sequential(
        nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
    )
    x = weft.randn(1, 8)
    return model, x


def gru_forward():
    cell, x = nn.GRUCell(64, 64), weft.randn(30, 1, 64)

    def step():
        h = weft.zeros(1, 64)
        for t in range(x.shape[0]):
            h = cell(x[t], h)
        return h

    return step


def compiled_step(step):
    return step, weft.compile(step)


def compiled_model(model, x):
    fast = weft.compile(model)
    return (lambda: model(x)), (lambda: fast(x))


def trees(batched, whole):
    """The Tree-LSTM of bench/batching, its cell or all of it compiled, with autobatch or not."""

    def step_of(compiled):
        weft.manual_seed(0)
        case = MODELS[0]
        model, examples = case.make(weft), case.examples(weft, 0, dynamic_batching.EXAMPLES)

        def one(example):
            return case.one(model, example)

        if compiled and not whole:
            model.merge = weft.compile(model.merge)
        call = weft.compile(one) if compiled and whole else one
        run = weft.autobatch(call) if batched else lambda trees: [call(tree) for tree in trees]

        def step():
            model.zero_grad()
            loss = sum(run(examples))
            loss.backward()
            return loss

        return step

    return step_of(False), step_of(True)


ROWS = [
    ("8 pointwise ops, 4 M", False, lambda: compiled_step(chain(4_000_000))),
    ("GELU's formula, 4 M", False, lambda: compiled_step(gelu(4_000_000))),
    ("MLP 8-64-64-2, one sample", False, lambda: compiled_model(*perceptron())),
    ("MLP 64-128-10, batch 32, step with Adam", True,
     lambda: compiled_step(mlp.adam_step(weft))),
    ("GPT forward, 12 x 64 tokens", False, lambda: compiled_model(*gpt.forward(weft, 12, 64))),
    ("GPT forward, 1 x 16 tokens", False, lambda: compiled_model(*gpt.forward(weft, 1, 16))),
    ("GPT step", True, lambda: compiled_step(gpt.training_step(weft))),
    ("Tree-LSTM d=128, step", True, lambda: compiled_step(tree_lstm.training_step(weft))),
    ("32 trees, Tree-LSTM d=128, step; cell", True, lambda: trees(False, False)),
    ("the same; all of it", True, lambda: trees(False, True)),
    ("the same, autobatch; cell", True, lambda: trees(True, False)),
    ("the same, autobatch; all of it", True, lambda: trees(True, True)),
    ("GRU cell d=128, step, unlike lengths", True,
     lambda: compiled_step(gru_cells.training_step(weft))),
    ("GRU cell d=64, 30 steps, forward", False, lambda: compiled_step(gru_forward())),
]  # fmt: skip


def seconds(call, repeats):
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def first_calls(call):
    times = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def shown(value):
    return f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.2f} us"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="rows whose name has TEXT")
    only = parser.parse_args().only
    weft.set_num_threads(1)
    for name, grad, make in ROWS:
        if only not in name:
            continue
        with weft.set_grad_enabled(grad):
            weft.manual_seed(0)
            eager, compiled = make()
            eager()
            firsts = first_calls(compiled)
            repeats = max(1, int(0.05 / max(seconds(eager, 3), 1e-7)))
            best = [
                min(times)
                for times in zip(
                    *[(seconds(eager, repeats), seconds(compiled, repeats)) for _ in range(9)],
                    strict=True,
                )
            ]
        print(
            f"{name:42} {shown(best[0]):>10} {shown(best[1]):>10} {best[1] / best[0]:6.2f}"
            f"   first {', '.join(map(shown, firsts))}",
            flush=True,
        )


if __name__ == "__main__":
    main()
