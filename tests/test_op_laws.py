"""Laws of the op table beside values and gradients: draws, messages, out=, levels of the kernels.

Run as a program it stores the value of every sample, so that CPU levels can be compared, each in
a process of its own.
"""

import inspect
import os
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import weft

RECORDS = weft._library_ops.records()
DRAWS = {
    "rand": ["f(2, 3)", "f((40,), dtype=weft.float64)"],
    "randn": ["f(2, 3)", "f(40)", "f((40,), dtype=weft.float64)"],
    "randint": ["f(7, (40,))", "f(-3, 7, (2, 5))"],
    "randperm": ["f(10)", "f(0)"],
    "rand_like": ["f(T(2, 3))"],
    "randn_like": ["f(T(4, 5))"],
    "randint_like": ["f(T(2, 3), 9)", "f(I(2, 3), -2, 9)"],
    "normal": ["f(T(2, 3), T(2, 3, lo=0.5))", "f(T(2, 3), 0.5)", "f(1.0, 2.0, (4, 5))"],
    "uniform": ["T(2, 3).uniform_(-1, 4)"],
    "normal.fill": ["T(4, 5).normal_(1, 2)"],
    "random": ["I(6).random_()", "I(6).random_(9)", "I(6).random_(-3, 9)"],
    "exponential": ["T(6).exponential_(2.0)"],
    "cauchy": ["T(6).cauchy_(1.0, 2.0)"],
    "log_normal": ["T(6).log_normal_(1.0, 0.5)"],
    "geometric": ["T(6).geometric_(0.3)"],
    "bernoulli": ["f(T(4, 5, lo=0, hi=1))", "T(4, 5).bernoulli_(0.3)"],
    "dropout": ["f(T(4, 5), 0.4, True)", "f(T(4, 5), 0.4, False)", "f(T(2, 3), 1.0, True)"],
    "feature_dropout": ["f(T(3, 4, 2), 0.4, True)"],
    "alpha_dropout": ["f(T(4, 5), 0.4, True)"],
    "multinomial": ["f(T(6, lo=0.1, hi=1), 4)", "f(T(2, 6, lo=0.1, hi=1), 9, True)"],
}


def values(t):
    return np.asarray(t.detach().tolist(), str(t.dtype).split(".")[1])


def evaluate(text, function, lib, dtype="float32") -> list[Any]:
    rng = np.random.default_rng(20)

    def make(array):
        return lib.tensor(array.tolist(), dtype=getattr(lib, str(array.dtype))).reshape(array.shape)

    names = {
        "f": function,
        "weft": lib,
        "torch": lib,
        "T": lambda *s, lo=-2, hi=2: make(np.asarray(rng.uniform(lo, hi, s), dtype)),
        "I": lambda *s, high=5: make(np.asarray(rng.integers(0, high, s), "int64")),
        "B": lambda *s: make(np.asarray(rng.integers(0, 2, s) == 1)),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = eval(text, names)
    return list(out) if isinstance(out, (tuple, list)) else [out]


def op(record):
    name = record["public_name"]
    if "call" in record:
        return record["call"]
    if record["function"]:
        return getattr(weft, name)
    return getattr(weft.Tensor if record["method"] else weft._C.ops, name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_the_numbers_of_pytorch(name, dtype, torch):
    for text in DRAWS[name]:
        weft.manual_seed(7)
        torch.manual_seed(7)
        ours = evaluate(text, getattr(weft, name, None), weft, dtype)[0]
        theirs = evaluate(text, getattr(torch, name, None), torch, dtype)[0]
        assert str(ours.dtype) == str(theirs.dtype) and tuple(ours.shape) == tuple(theirs.shape)
        np.testing.assert_allclose(values(ours), values(theirs), 2e-6, 2e-6, err_msg=text)


@pytest.mark.parametrize("name", [n for n in DRAWS if "dropout" not in n])
def test_a_generator_is_drawn_from_and_no_other(name, torch):
    for text in DRAWS[name]:
        if "_like" in name:  # PyTorch's take none
            continue
        with_generator = (text[:-1] + ", generator=weft.g)").replace("(, ", "(")
        results = []
        for lib in (weft, torch):
            lib.g = lib.Generator().manual_seed(11)
            try:
                lib.manual_seed(7)
                results.append(evaluate(with_generator, getattr(lib, name, None), lib)[0])
                after = lib.rand(1).item()
                lib.manual_seed(7)
                assert lib.rand(1).item() == after
            finally:
                del lib.g
        np.testing.assert_allclose(values(results[0]), values(results[1]), 2e-6, 2e-6, err_msg=text)


def test_the_life_of_a_generator(torch):
    g, other = weft.Generator(), weft.Generator(device="cpu")
    assert g.initial_seed() == torch.Generator().initial_seed() == 67280421310721
    assert g.manual_seed(5) is g and g.initial_seed() == 5
    other.set_state(g.get_state())
    same = g.clone_state()
    first = weft.rand(3, generator=g).tolist()
    assert first == weft.rand(3, generator=other).tolist() == weft.rand(3, generator=same).tolist()
    assert g.device == weft.device("cpu")
    with pytest.raises(ValueError, match="64 bits"):
        g.manual_seed(2**64)
    with pytest.raises(RuntimeError, match="get_state"):
        g.set_state(weft.zeros(3, dtype=g.get_state().dtype))
    with pytest.raises(TypeError, match="argument 'generator' must be"):
        weft.rand(2, generator=3)
    with pytest.raises(TypeError, match="generator"):
        weft.dropout(weft.ones(2), 0.5, True, generator=g)


@pytest.mark.parametrize("record", [pytest.param(r, id=r["name"]) for r in RECORDS])
def test_wrong_calls_are_explained(record):
    if not record["function"]:
        return
    for arguments in ((), ("text",)):
        with pytest.raises(TypeError) as error:
            op(record)(*arguments)
        # Python words a missing argument of its functions
        if arguments or not inspect.isfunction(inspect.unwrap(op(record))):
            assert str(error.value).startswith("["), arguments


def store(path):
    """Writes the value of every sample, in float32, to `path`."""
    found = {"level": np.array(weft._C._cpu_level())}
    for record in RECORDS:
        for i, text in enumerate(record["samples"]):
            for k, out in enumerate(evaluate(text, op(record), weft)):
                found[f"{record['name']}/{i}/{k}"] = values(out)
    np.savez(path, **found)


def test_every_cpu_level_gives_the_same_values(tmp_path):
    stored = {}
    for level in ("baseline", "avx2"):
        path = str(tmp_path / f"{level}.npz")
        environment = {**os.environ, "WEFT_CPU": level}
        subprocess.run([sys.executable, __file__, path], check=True, env=environment)
        stored[level] = dict(np.load(path))
        assert str(stored[level].pop("level")) == level
    assert stored["avx2"].keys() == stored["baseline"].keys()
    for name, value in stored["avx2"].items():
        np.testing.assert_allclose(value, stored["baseline"][name], 1e-5, 1e-5, err_msg=name)


if __name__ == "__main__":
    store(sys.argv[1])
