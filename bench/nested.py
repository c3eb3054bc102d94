"""A transformer block over 16 sequences of unlike length: nested, and nested over padded.

Lengths run from 8 to 128 and are 40 on average, so that padded sequences are two thirds padding.
"""

import importlib
import statistics

import harness

LENGTHS = [8, 12, 128, 24, 16, 40, 20, 96, 32, 10, 64, 30, 28, 56, 44, 32]
SIZE, HEADS = 64, 4


def block(lib):
    """Attention and a feed-forward block over sequences `[..., length, SIZE]`."""
    lib.manual_seed(0)
    F = lib.nn.functional
    project, out = lib.nn.Linear(SIZE, 3 * SIZE), lib.nn.Linear(SIZE, SIZE)
    wide, narrow = lib.nn.Linear(SIZE, 4 * SIZE), lib.nn.Linear(4 * SIZE, SIZE)
    layers = [project, out, wide, narrow]

    def run(x, mask=None):
        heads = (
            t.contiguous().unflatten(-1, [HEADS, SIZE // HEADS]).transpose(1, 2)
            for t in project(x).chunk(3, dim=-1)
        )
        seen = F.scaled_dot_product_attention(*heads, attn_mask=mask)
        x = x + out(seen.transpose(1, 2).flatten(2, 3))
        return x + narrow(F.gelu(wide(x)))

    return run, [p for layer in layers for p in layer.parameters()]


def stepped(run, parameters):
    def step():
        for p in parameters:
            p.grad = None
        run().backward()

    return step


def sequences(lib):
    lib.manual_seed(1)
    return [lib.randn(n, SIZE) for n in LENGTHS]


def nested(lib):
    run, parameters = block(lib)
    x = lib.nested.nested_tensor(sequences(lib), layout=lib.jagged)
    return stepped(lambda: run(x).values().pow(2).sum(), parameters)


def padded(lib):
    run, parameters = block(lib)
    x = lib.nn.utils.rnn.pad_sequence(sequences(lib), batch_first=True)
    shown = lib.arange(x.shape[1]) < lib.tensor(LENGTHS).unsqueeze(1)
    mask = shown[:, None, None]
    return stepped(lambda: run(x, mask).pow(2)[shown].sum(), parameters)


def share(other):
    """The time of the nested way over that of another, in the library of that name."""

    def value(name):
        lib = importlib.import_module(name)
        times = harness.alternate([nested(lib), other(lib)])
        return statistics.median(times[0]) / statistics.median(times[1])

    return value


BLOCK = "transformer block, 16 unlike lengths, forward + backward"
ROWS = [
    harness.Row(BLOCK + ", nested", nested, 1.0),
    harness.Fact(BLOCK + ": nested over padded", share(padded), "x", limit=0.6),
]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
