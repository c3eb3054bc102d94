"""Whose memory a result is, beside PyTorch: of calls of everything (right_calls.txt).

A result shares memory with an argument where PyTorch's does, and is that argument where PyTorch's
is. What was made under no_grad() may be written by what needs a gradient where PyTorch's may: a
view of an argument may not, a new value may, by whatever steps it was made.
"""

import collections
import re
import warnings
import zlib

import fuzz_calls
import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")

# op: why its result cannot be written
VIEWS = {
    "unsafe_chunk": "views here, of which PyTorch knows nothing",
    "unsafe_split": "as unsafe_chunk",
    "unsafe_split_with_sizes": "as unsafe_chunk",
    "stft": "a view of what was computed, in PyTorch's order of memory",
    "ormqr": "as stft",
    "cholesky_ex": "as stft",
}


def callee(text):
    return re.sub(r"^\w\([\d, ]*\)\.", "", text).split("(")[0].split(".")[-1]


def some_calls(each=2):
    """So many calls of each function and method."""
    seen = collections.Counter()
    for text in fuzz_calls.CALLS:
        name = text.split("(")[0] if text[0] in "tnF" else "." + callee(text)
        seen[name] += 1
        settings = re.match(r"t\.(set_|use_|seed|manual_seed)|.*nn\.Parameter", text)
        if seen[name] <= each and not settings:
            yield text


def tensors(x):
    if isinstance(x, (list, tuple)):
        return [t for each in x for t in tensors(each)]
    return [x] if hasattr(x, "untyped_storage") else []


def memory(x):
    return x.untyped_storage().data_ptr()


def run(t, text):
    """Of each result: the arguments it is, those whose memory it has, whether it may be written."""
    made = []

    def maker(kind):
        def make(*sizes):
            rng = np.random.default_rng(zlib.crc32(f"{kind}{sizes}{len(made)}".encode()))
            values = rng.uniform(-2, 2, sizes) if kind in "TDHCG" else rng.integers(0, 5, sizes)
            made.append(t.from_numpy(np.asarray(values).astype(fuzz_calls.DTYPES[kind])))
            return made[-1]

        return make

    names = {"t": t, "nn": t.nn, "F": t.nn.functional, "np": np}
    names.update({kind: maker(kind) for kind in fuzz_calls.DTYPES})
    t.manual_seed(7)
    with warnings.catch_warnings(), t.no_grad():
        warnings.simplefilter("ignore")
        try:
            out = tensors(eval(text, names))  # noqa: S307
        except Exception:  # noqa: BLE001
            return None
    shown = []
    for x in out:
        own = [k for k, m in enumerate(made) if m is x]
        shared = [k for k, m in enumerate(made) if m.numel() and memory(m) == memory(x)]
        writable = None
        if x.numel() and not x.requires_grad and (x.is_floating_point() or x.is_complex()):
            try:
                x.mul_(t.ones((), dtype=x.dtype, requires_grad=True))
                writable = True
            except RuntimeError:
                writable = False
        shown.append((own, shared, writable))
    return shown


def test_results_share_memory_as_pytorchs():
    """sum_to_size, diff and histogram handed an argument out; quantile, solve, grid_sample,
    max_unpool and others made of new memory a view that could not be written."""
    wrong = []
    for text in some_calls():
        ours, theirs = run(weft, text), run(torch, text)
        if ours is None or theirs is None:
            continue
        same = [x[:2] for x in ours] == [x[:2] for x in theirs]
        refused = any(
            a[2] is False and b[2] for a, b in zip(ours, theirs, strict=False)
        ) and not VIEWS.get(callee(text))
        if not same or refused:
            wrong.append((text, ours, theirs))
    assert not wrong, "\n".join(map(str, wrong))
