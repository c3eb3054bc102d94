"""Tensors of every dtype in Python, beside PyTorch: what is printed, converted, stored, refused.

`x` is a tensor of the dtype `d`, `t` the library. A text agrees if both libraries give the same
text, or errors of one type.
"""

import copy
import io
import pickle
import warnings

import numpy as np
import pytest

import weft

INTEGERS = "uint8 int8 int16 int32 int64"
FLOATS = "float16 bfloat16 float32 float64"
COMPLEX = "complex64 complex128"
DTYPES = f"bool {INTEGERS} {FLOATS} {COMPLEX}".split()

TEXTS = """
repr(x), str(x), x.tolist(), x[0].item(), x[0], x[:0], t.stack([x, x]), f"{x[0]}"
t.zeros(2, 2, dtype=d), t.ones(0, 3, dtype=d), t.full((2,), 1, dtype=d), t.eye(2, dtype=d)
t.arange(5, dtype=d)
t.linspace(0, 4, 5, dtype=d)
t.manual_seed(0) and t.randn(40, dtype=d)
t.manual_seed(0) and t.rand(20, dtype=d)
t.manual_seed(0) and t.randperm(2, dtype=d)
t.manual_seed(0) and t.randint(0, 2, (20,), dtype=d)
x.numpy().dtype, x.numpy()
np.asarray(x).dtype, np.array(x).sum()
np.from_dlpack(x)
t.from_numpy(np.array([1, 0, 1], name)), t.tensor(np.array([1, 0, 1], name))
t.tensor(np.array([1, 0, 1], name)[0]), t.as_tensor([np.array(1, name)])
pickle.loads(pickle.dumps(x)), copy.deepcopy(x), pickle.loads(pickle.dumps(d))
pickle.loads(pickle.dumps(t.stack([x, x]).T)).stride()
t.load(saved(t, {"x": x, "y": [x.reshape(1, 3).T]}))
d, d.itemsize, d.is_signed, d.is_floating_point, d.is_complex, d.to_real()
d.to_complex()
t.iinfo(d).min, t.iinfo(d).max, t.iinfo(d).bits
t.finfo(d).min, t.finfo(d).eps, t.finfo(d).tiny, t.finfo(d).bits, t.finfo(d).resolution
x.type(), x.element_size(), x.nbytes
x.view(t.uint8), x.view(t.int8)
t.stack([x, x, x, x], 1).view(t.complex128)
t.stack([x, x, x, x], 1)[:, 1:3].view(t.int16)
int(x[0]), bool(x[0]), complex(x[0])
float(x[0]), [1, 2][x[1]]
t.arange(3.0)[x]
t.arange(3.0).index_select(0, x), t.arange(3.0).take(x.long()), t.arange(3.0).gather(0, x)
t.arange(3.0).scatter(0, x, 5.0)
t.arange(3.0).masked_fill(x, 9)
t.where(x, 1.0, 0.0)
t.arange(3.0).repeat_interleave(x)
t.bincount(x)
t.nn.functional.embedding(x, t.eye(3))
t.nn.functional.one_hot(x)
t.nn.functional.nll_loss(t.eye(3), x), t.nn.functional.cross_entropy(t.eye(3), x)
t.nn.Parameter(x)
x.requires_grad_()
t.nn.Linear(1, 1).to(d).weight.dtype
t.set_default_dtype(d)
x ** True, x ** 2, x + 1, 2 - x, x / 2, 3 * x
x // 2, x % 2
x << 1
x & True, x ^ x
~x
-x
x.fill_(2j)
x.add_(1.5)
x.mul_(2j)
x.div_(2)
x.pow_(2)
x @ x, t.outer(x, x)
t.std(x), t.mean(x), t.var(x)
t.unique(x), t.sum(x), t.prod(x), t.cumsum(x, 0)
t.allclose(x, x), t.equal(x, x), t.isnan(x), t.isfinite(x)
t.sort(x).values, t.argmax(x), t.max(x)
t.clamp(x, 0, 1)
t.topk(x, 2).values
t.median(x)
""".strip().split("\n")

# A number that may not fit: PyTorch looks before it writes.
NUMBERS = [300, -1, -300, 70000, 2**31, 2**40, 1e30, float("inf"), float("nan"), -1.5, 2j]
WRITES = """
x.fill_(v)
x.__setitem__(0, v) or x
x.masked_fill(x == 1, v)
x.index_fill(0, t.tensor([1]), v)
t.full((2,), v, dtype=d)
t.full_like(x, v)
x.scatter(0, t.tensor([1]), v)
t.tensor(v, dtype=d)
t.tensor([v], dtype=d)
t.nn.functional.pad(x, (1, 1), value=v)
t.where(x == 1, x, v)
""".strip().split("\n")


def saved(lib, data):
    file = io.BytesIO()
    lib.save(data, file)
    file.seek(0)
    return file


def shown(lib, text, name, **more):
    d = getattr(lib, name)
    x = lib.tensor([1, 0, 1], dtype=d)
    names = {"t": lib, "d": d, "x": x, "name": name, "np": np, "pickle": pickle, "copy": copy}
    before = lib.get_default_dtype()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return str(eval(text, {**names, "saved": saved, **more}))
    except Exception as error:  # noqa: BLE001
        return f"!{next(k.__name__ for k in type(error).__mro__ if k.__module__ == 'builtins')}"
    finally:
        lib.set_default_dtype(before)


def agree(got, expected):
    if got == "!NotImplementedError" and expected == "!RuntimeError":
        return True  # caught by whoever expects PyTorch's
    return got == expected


def differences(torch, cases):
    found = []
    for text, name, more in cases:
        got, expected = (shown(lib, text, name, **more) for lib in (weft, torch))
        if not agree(got, expected):
            found.append(f"{text} of {name} {more or ''}: {got}\n    for {expected}")
    return found


@pytest.mark.parametrize("text", TEXTS)
def test_every_dtype_is_pytorchs(torch, text):
    found = differences(torch, [(text, name, {}) for name in DTYPES])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", WRITES)
def test_numbers_that_do_not_fit_are_refused_as_by_pytorch(torch, text):
    found = differences(torch, [(text, n, {"v": v}) for n in DTYPES for v in NUMBERS])
    assert not found, "\n".join(found)


def values(name):
    inf, nan = float("inf"), float("nan")
    if "complex" in name:
        return [[0j, 1 + 2j], [1.5 - 2j, 1e5 + 1j], [complex(inf, 1), 1j], [complex(nan, -inf), 2],
                [1e-5 + 1j], [complex(-0.0, -0.0)], [1e10 + 1e-3j], [0.1 + 9j, 100]]  # fmt: skip
    return [[0.0, 1.5, -2.25], [1e4, 1.0], [6e4, 1e-3], [inf, 1.0, nan], [1e-5, 2.0], [nan],
            [0.1, 0.2, 100.3], [1e-8, 1.0], [3.0, 4.0, inf], [2.0, 3.0], [1e-40, 1e-30],
            [-0.0, 0.0], [65504.0, 6e-8]]  # fmt: skip


@pytest.mark.parametrize("name", f"{FLOATS} {COMPLEX}".split())
def test_small_big_and_infinite_numbers_print_as_pytorchs(torch, name):
    texts = ["t.tensor(v, dtype=d)", "t.tensor(v, dtype=d)[0]", "t.tensor(v, dtype=d).tolist()",
             "t.tensor([v, v], dtype=d, requires_grad=True)", "t.tensor(v, dtype=d)[0].item()",
             "f'{t.tensor(v, dtype=d)[0]}'", "t.tensor(v, dtype=d).bfloat16()"]  # fmt: skip
    found = differences(torch, [(s, name, {"v": v}) for s in texts for v in values(name)])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", DTYPES)
def test_operands_of_every_pair_of_dtypes_promote_as_pytorchs(torch, name):
    texts = [f"x {op} t.ones(3, dtype=t.{{e}})" for op in "+ * / // ** == < & | <<".split()]
    texts += ["x.copy_(t.ones(3, dtype=t.{e}))", "x.to(t.{e})", "t.cat([x, x.to(t.{e})])",
              "t.where(x == 1, x, t.ones(3, dtype=t.{e}))", "t.result_type(x, x[0].to(t.{e}))",
              "t.can_cast(d, t.{e})", "t.promote_types(d, t.{e})", "x.add_(2 * x[0].to(t.{e}))",
              "t.stack([x, x.to(t.{e})]).dtype"]  # fmt: skip
    found = differences(torch, [(s.format(e=e), name, {}) for s in texts for e in DTYPES])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", DTYPES)
def test_memory_is_shared_with_pytorch_by_dlpack(torch, name):
    mine, theirs = (lib.tensor([1, 0, 1], dtype=getattr(lib, name)) for lib in (weft, torch))
    there, here = torch.from_dlpack(mine), weft.from_dlpack(theirs)
    assert str(there) == str(here) == str(theirs)
    mine[1], theirs[1] = 1, 1
    assert str(there) == str(here) == str(theirs) == str(mine)


@pytest.mark.parametrize("name", DTYPES)
def test_files_are_read_by_either(torch, name):
    mine, theirs = (
        {"x": lib.tensor([[1, 0]], dtype=getattr(lib, name)).T} for lib in (weft, torch)
    )
    assert str(torch.load(saved(weft, mine))) == str(weft.load(saved(torch, theirs))) == str(theirs)
