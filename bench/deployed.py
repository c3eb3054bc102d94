"""Programs that left Python, `weft.jit.load` of what `weft.jit.save` wrote, beside the same ones
compiled in Python.

With WEFT_BENCH_PEERS=1, which `make bench PEERS=1` sets, onnxruntime runs the model that
`weft.onnx.export` writes; it has no recursion, so no trees. One thread.
"""

import importlib
import io
import os
import random
import tempfile

import compiled_peers as peers
import gpt
import harness
import tree_lstm

import weft


def loaded(model):
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(model), file)
    file.seek(0)
    return weft.jit.load(file)


@peers.peer("onnxruntime")
def exported(ort, model, args):
    """A step of the model as weft exports it."""
    importlib.import_module("onnx")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        weft.onnx.export(model, args, path, input_names=["x"])
        with open(path, "rb") as file:
            return peers.session(ort, file.read(), {"x": args[0].numpy()})


def gru(lib, d, length):
    class GRU(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = lib.nn.GRUCell(d, d)

        def forward(self, x):
            h = lib.zeros(1, x.shape[2])
            for t in range(x.shape[0]):
                h = self.cell(x[t], h)
            return h

    return GRU(), lib.randn(length, 1, d)


def trees(lib):
    """The Tree-LSTM of tree_lstm.py and 32 of its trees."""
    rng = random.Random(harness.SEED)
    shapes = [tree_lstm.random_tree(rng, rng.randint(10, 40)) for _ in range(32)]
    return tree_lstm.model_of(lib), shapes


def ways(make):
    """`make(lib)`: a Module and its input; of a list the items, one by one."""

    def found():
        weft.manual_seed(harness.SEED)
        model, x = make(weft)
        calls = {"loaded": loaded(model), "compiled": weft.compile(model), "eager": model}

        def step_of(call):
            if not isinstance(x, list):
                return lambda: call(x)
            return lambda: [call(one) for one in x][-1]

        steps = {way: step_of(call) for way, call in calls.items()}
        return steps | {"onnxruntime": None if isinstance(x, list) else exported(model, (x,))}

    return found


def row(name, make, limit=None, **below):
    return harness.Ways(name, ways(make), weft.no_grad, limit, {"compiled": 1.0, **below})


ROWS = [
    row("GPT forward, 1 x 16 tokens, loaded", lambda lib: gpt.forward(lib, 1, 16), onnxruntime=1),
    row("GPT forward, 12 x 64 tokens, loaded", lambda lib: gpt.forward(lib, 12, 64),
        onnxruntime=1),
    row("GRU cell d=64, 30 steps, loaded", lambda lib: gru(lib, 64, 30), onnxruntime=1),
    row("Tree-LSTM d=128, 32 trees, loaded", trees),
]  # fmt: skip

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
