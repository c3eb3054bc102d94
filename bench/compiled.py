"""`weft.compile` beside weft as it is, and beside the compilers of others.

The column "compiled" has the time and its ratio to eager. Whole steps are compiled; what of a step
stays Python's (`backward`, the optimizer) is in both. With WEFT_BENCH_PEERS=1, which
`make bench PEERS=1` sets, PyTorch, `torch.compile`, JAX and onnxruntime run the same programs
(compiled_peers.py); torch.compile takes minutes for its. "-": not asked for, not installed, or not
done: recursion and unlike lengths, which torch.compile compiles for each tree and length.
"""

import contextlib
import functools
import statistics
import subprocess
import sys

import compiled_peers as peers
import dynamic_batching
import gpt
import gru_cells
import harness
import mlp
import tree_lstm
from batching import MODELS

import weft

try:
    import torch
except ModuleNotFoundError:
    torch = None
torch = torch if peers.ASKED else None


def chain(elements, torch):
    x = torch.randn(elements)

    def step():
        y = torch.tanh(torch.sigmoid(x) * 2 - 1 + x)
        return y * torch.sigmoid(x + 0.5) - x

    return step


def gelu(elements, torch):
    x = torch.randn(elements)

    def step():
        inner = 0.7978845608 * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + torch.tanh(inner))

    return step


def perceptron(torch):
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
    )
    return model, torch.randn(1, 8)


def gru_forward(torch):
    cell, x = torch.nn.GRUCell(64, 64), torch.randn(30, 1, 64)

    def step():
        h = torch.zeros(1, 64)
        for t in range(x.shape[0]):
            h = cell(x[t], h)
        return h

    return step


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

    return {"compiled": step_of(True), "eager": step_of(False)}


def pair(lib, make):
    """A step compiled and as it is; `make(lib)` gives one, or a Module and its input."""
    lib.manual_seed(harness.SEED)
    made = make(lib)
    if not isinstance(made, tuple):
        return lib.compile(made), made
    model, x = made
    fast = lib.compile(model)
    return (lambda: fast(x)), (lambda: model(x))


@contextlib.contextmanager
def grad_mode(on):
    """For weft and, where it is a peer, PyTorch."""
    with weft.set_grad_enabled(on), torch.set_grad_enabled(on) if torch else weft.enable_grad():
        yield


def row(name, make, grad, limit=None, compiles=True, jax=None, onnx=None, below=None):
    """`make(lib)` as `pair` takes it; `compiles`: torch.compile is done with it in minutes."""

    def ways():
        found = dict(zip(("compiled", "eager"), pair(weft, make)))
        if torch:
            fast, plain = pair(torch, make)
            found |= {"torch": plain, "torch.compile": fast if compiles else None}
        return found | {"jax": jax and jax(), "onnxruntime": onnx and onnx()}

    return harness.Ways(name, ways, lambda: grad_mode(grad), limit, below or {})


def tree_row(name, batched, whole, limit=None):
    return harness.Ways(name, lambda: trees(batched, whole), limit=limit)


def gpt_forward(batch, length):
    return lambda lib: gpt.forward(lib, batch, length)


# ---- warm-up

FIRST = """
import statistics, time, weft
from weft import nn
def make(hidden):
    return nn.Sequential(nn.Linear(8, hidden), nn.Tanh(), nn.Linear(hidden, 2))
def first(call, x):
    start = time.perf_counter()
    call(x)
    return time.perf_counter() - start
x = weft.randn(1, 8)
with weft.no_grad():
    plain = first(make(32), x)
    print(first(weft.compile(make(32)), x) - plain)
    def other(x):
        total = x * 2
        for k in range(3):
            total = total + x.tanh() * k
        return total
    print(first(weft.compile(other), x) - first(other, x))
    fast, slow = weft.compile(make(64)), make(64)
    for n in range(1, 6):
        fast(weft.randn(n, 8)), fast(weft.randn(n, 8)), slow(weft.randn(n, 8))
    times = {fast: [], slow: []}
    for n in range(10, 70):  # who comes first takes memory of sizes that nobody had
        y = weft.randn(n, 8)
        for call in (fast, slow) if n % 2 else (slow, fast):
            times[call].append(first(call, y))
    print(statistics.median(times[fast]) / statistics.median(times[slow]))
"""


@functools.cache
def warm_up():
    """Medians over processes: a first call beyond eager's, a later one, one with a new shape."""
    runs = [
        subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
        for _ in range(5)
    ]
    return [statistics.median(v) for v in zip(*[map(float, run.stdout.split()) for run in runs])]


def warm_up_of(k):
    return lambda name: warm_up()[k] if name == "weft" else None


ROWS = [
    row("8 pointwise ops, 4 M", functools.partial(chain, 4_000_000), False, 5.3e-3,
        jax=lambda: peers.chain(4_000_000), below={"jax": 0.95, "torch.compile": 0.5}),
    row("GELU's formula, 4 M", functools.partial(gelu, 4_000_000), False, 3.5e-3,
        jax=lambda: peers.gelu(4_000_000)),
    row("MLP 8-64-64-2, one sample", perceptron, False, 0.6e-6, jax=peers.perceptron,
        onnx=peers.perceptron_onnx, below={"onnxruntime": 0.1}),
    row("MLP 64-128-10, batch 32, step with Adam", mlp.adam_step, True, 17e-6,
        jax=peers.perceptron_step),
    row("GPT forward, 12 x 64 tokens", gpt_forward(12, 64), False, 14.3e-3,
        onnx=lambda: peers.gpt_onnx(12, 64), below={"onnxruntime": 1}),
    row("GPT forward, 1 x 16 tokens", gpt_forward(1, 16), False, 330e-6,
        onnx=lambda: peers.gpt_onnx(1, 16), below={"onnxruntime": 1}),
    row("GPT step with AdamW, 12 x 64 tokens", gpt.training_step, True, 42e-3,
        below={"torch.compile": 0.7}),
    row("Tree-LSTM d=128, step, plain", tree_lstm.training_step, True, 21e-3, compiles=False),
    tree_row("32 trees, Tree-LSTM d=128, step; cell", False, False),
    tree_row("the same; all of it", False, True),
    tree_row("the same, autobatch; cell", True, False, 13e-3),
    tree_row("the same, autobatch; all of it", True, True),
    row("GRU cell d=128, step, unlike lengths", gru_cells.training_step, True, 3.5e-3,
        compiles=False),
    row("GRU cell d=64, 30 steps, forward", gru_forward, False, 1.2e-3, compiles=False),
    harness.Fact("compiled: the first call of a process, beyond eager", warm_up_of(0), "s",
                 limit=40e-3),
    harness.Fact("compiled: the first call of a function later", warm_up_of(1), "s", limit=10e-3),
    harness.Fact("compiled: a call with a new shape, over eager", warm_up_of(2), "x", limit=1.2),
]  # fmt: skip

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
