"""The gate through which tensors change: versions, lines, and what is refused, as in PyTorch."""

import re
import warnings
from pathlib import Path

import pytest

import weft

SRC = Path(__file__).resolve().parents[2] / "src"

# One kind of write a line; `x` is [2, 3], `y` another tensor.
WRITES = """
x.add_(1)
x += 1
x.mul_(1)
x.copy_(y)
x.zero_()
x.fill_(2)
x.normal_()
x.clamp_(0)
x[0] = 1
x[0] = y[1]
x[:, 0] = 2
x[i] = 1.
x[x > 2] = 0
x[0].add_(1)
x.view(-1).add_(1)
x.detach().add_(1)
x.data.add_(1)
x.index_add_(0, i, y[:1])
x.masked_scatter_(x > 1, y)
x.addmm_(T.ones(2, 2), y)
x.fill_diagonal_(1.)
T.nn.init.zeros_(x)
T.nn.functional.relu_(x)
T.add(y, 1, out=x)
T.add(y[0], 1, out=x)
T.add(T.ones(4, 4), 1, out=x)
T.sort(y, out=(x, T.empty(2, 3, dtype=T.int64)))
x.t_()
x.t_().t_()
x.transpose_(0, 1)
x.swapaxes_(0, 0)
x.swapdims_(0, 1)
x.unsqueeze_(0)
x.squeeze_()
x.squeeze_(0).unsqueeze_(0)
x.as_strided_((2,), (1,))
x.resize_(3, 2)
x.resize_(2, 3)
x.resize_(4, 4)
x.resize_(0)
x.resize_as_(T.ones(6))
x.set_(y)
x.set_()
x.add_(1); x.set_(y); y.add_(1)
x.data = y
x.add_(1); x.data = y
y.add_(1); y.add_(1); x.data = y
x.data = y; y.add_(1)
x.data = y; x.add_(1)
x.data = x.data
x.requires_grad_()
T.autograd.graph.increment_version(x)
v = x[0]; v.t_() if v.dim() > 1 else v.unsqueeze_(0)
o = T.optim.SGD([x.requires_grad_()], 0.1); x.grad = T.ones(2, 3); o.step()
o = T.optim.Adam([x.requires_grad_()], 0.1); x.grad = T.ones(2, 3); o.step(); o.step()
""".strip().splitlines()


def after(lib, line):
    names = {
        "T": lib,
        "x": lib.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        "y": lib.tensor([[5.0, 4.0, 3.0], [2.0, 1.0, 0.0]]),
        "i": lib.tensor([0]),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(line, names)
    return {name: names[name]._version for name in ("x", "y", "v") if name in names}


@pytest.mark.parametrize("line", WRITES)
def test_versions_are_pytorchs(torch, line):
    assert after(weft, line) == after(torch, line)


SAVED_THEN = [
    w for w in WRITES
    if "optim" not in w and "data" not in w and "x.resize_(2, 3)" not in w and "detach" not in w
    and "normal" not in w and "requires_grad" not in w and not w.startswith("v = x[0]; x.")
]  # fmt: skip


@pytest.mark.parametrize("line", SAVED_THEN)
def test_backward_names_the_line_of_every_write(line):
    names = {"T": weft, "y": weft.ones(2, 3), "i": weft.tensor([0])}
    text = (
        "x = T.arange(6.).reshape(2, 3).clone()\nw = T.ones(2, 3, requires_grad=True)\n"
        f"z = x * w\n{line}\nz.sum().backward()"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as raised:
            exec(compile(text, "program.py", "exec"), names)
    assert re.search(
        r"saved at program\.py:3\b.*overwritten at program\.py:4\b", str(raised.value), re.S
    )


def test_resize_to_its_own_shape_keeps_the_layout(torch):
    for lib in (weft, torch):
        x = lib.arange(6.0).reshape(2, 3).t()
        assert x.resize_(3, 2).tolist() == [[0, 3], [1, 4], [2, 5]] and x.stride() == (1, 3)


# x, y [3, 3]; i int64 [3, 3]; k [0, 1, 2]; m bool.
OVERLAPS = (
    """
x.add_(x)|x.add_(x.t())|x.mul_(x.t())|x.copy_(x.t())|x.copy_(x)|x[1:].copy_(x[:-1])
x[1:].add_(x[:-1])|x.add_(x[0])|x.add_(x[:, :1])|x.add_(x[0, 0])|x[0].add_(x[0, 0])
x.lerp_(x.t(), .5)
x.scatter_(0, i, x)|x.scatter_(0, i, x.clone())|x.scatter_add_(0, i, x)|x.scatter_(0, i, x[:2])
x[0:2].scatter_(0, i[:1], x[2:])|x.scatter_(0, i, x.t())|x[0:2].scatter_(0, i[:2], x[1:])
i.scatter_(0, i, 1)|i.scatter_(0, i.t(), 1)|i.scatter_add_(0, i, i)|i.index_fill_(0, i[0], 1)
T.gather(x, 0, i, out=x)|T.take(x, i, out=x)
T.index_select(x, 0, k, out=x)
x.index_add_(0, k, x)|x.index_copy_(0, k, x)|x.index_fill_(0, k, x[0, 0])|x.index_add_(0, k, y)
x.index_put_((k,), x)|x.index_put_((k,), x[0])|x[k] = x|x[k] = y|i[i[0]] = 1
i.index_put_((i,), i[0])
x.put_(i.view(-1), x.view(-1))|i.put_(i, i)|x.put_(i.view(-1), y.view(-1))
x.masked_fill_(x > 0, x[0, 0])|x.masked_scatter_(x > 0, x)|x.fill_(x[0, 0])|m.masked_fill_(m, False)
m.masked_fill_(m.t(), False)|m[m] = False|x.addmm_(x, x)|x.addcmul_(x, x)|x.addcmul_(x.t(), y)
T.add(x, y, out=x)|T.add(x.t(), y, out=x)|T.add(x[1:], 1, out=x[:-1])|T.mm(x, y, out=x)
T.exp(x, out=x)|T.exp(x.t(), out=x)|T.cat([x[:1], x[1:]], out=x)|T.stack([x[0], x[1], x[2]], out=x)
T.where(x > 0, x, y, out=x)|T.where(x.t() > 0, x.t(), y, out=x)|T.cumsum(x, 0, out=x)|x.cumsum_(0)
T.sort(x, out=(x, i))|T.tril(x, out=x)|x.t().tril_()|x.clamp_(x.t())|x.pow_(x.t())|x.eq_(x.t())
x.bernoulli_(.5)|x.t().copy_(x)|x[:, 0].copy_(x[0])|x[0].copy_(x[:, 0])|x[0].copy_(x[1])|x[0] = x[1]
""".strip()
    .replace("\n", "|")
    .split("|")
)


@pytest.mark.parametrize("line", OVERLAPS)
def test_operands_over_the_written_memory_are_refused_as_in_pytorch(torch, line):
    def outcome(lib):
        names = {
            "T": lib, "x": lib.arange(9.0).reshape(3, 3) / 9, "y": lib.ones(3, 3),
            "i": lib.zeros(3, 3, dtype=lib.int64), "k": lib.tensor([0, 1, 2]),
            "m": lib.ones(3, 3, dtype=lib.bool),
        }  # fmt: skip
        lib.manual_seed(0)
        before = [names[n].tolist() for n in "xyikm"]
        try:
            exec(line, names)
        except RuntimeError as error:
            return "single memory location" in str(error), before == [
                names[n].tolist() for n in "xyikm"
            ]
        return None

    assert outcome(weft) == outcome(torch)


INFERENCE = """
x.add_(1)
x.t_()
x.unsqueeze_(0)
x.resize_(3, 2)
x.resize_(2, 3)
x.set_(y)
x.data = y
x[0] = 1
x.copy_(y)
x[0].add_(1)
x.detach().add_(1)
x.data.add_(1)
x.detach_()
x.requires_grad_()
x.clone().add_(1)
y.add_(x)
x._version
y._version
T.add(y, 1, out=x)
T.sort(y, out=(x, T.empty(2, 3, dtype=T.int64)))
with T.no_grad(): x.add_(1)
with T.inference_mode(): x.add_(1)
with T.inference_mode(): x.t_()
with T.inference_mode(): y.add_(1)
w * x
w + x
x * x
with T.no_grad(): w * x
T.nn.functional.linear(x, w)
(w * 1).add_(x)
(w * 1).mul_(x)
(w * y).sum().backward()
x.add_(w)
w.data.add_(x)
T.nn.functional.mse_loss(w, x)
T.stack([w, x])
T.nn.Parameter(x)
x.exp()
""".strip().splitlines()


@pytest.mark.parametrize("line", INFERENCE)
def test_inference_tensors_are_refused_as_in_pytorch(torch, line):
    def outcome(lib):
        with lib.inference_mode():
            x = lib.ones(2, 3)
        names = {"T": lib, "x": x, "y": lib.ones(2, 3), "w": lib.ones(2, 3, requires_grad=True)}
        try:
            exec(line, names)
        except RuntimeError as error:
            known = ("Inplace update to inference tensor", "cannot be saved for backward",
                     "do not track version counter")  # fmt: skip
            return [text for text in known if text in str(error)]
        return None

    assert outcome(weft) == outcome(torch)


def sources(*, but=()):
    files = [*SRC.rglob("*.h"), *SRC.rglob("*.cpp")]
    return {
        str(f.relative_to(SRC)): f.read_text() for f in files if str(f.relative_to(SRC)) not in but
    }


# What only the gate may do, and the members that give a fresh tensor its memory and layout.
GATE = (
    (r"torage[\w().>-]*(\.|->)version_\b", ("ops/write.h", "ops/write.cpp")),
    (r"\bfriend class [\w:]*Write\b", ("tensor/storage.h", "tensor/tensor.h")),
    (r"(?<!\bwrite)(\.|->)become\(", ("ops/write.cpp",)),
    (r"\bimpl_?(\(\))?->(dims|ndim|numel|dtype|storage|data)(\[[^]]*\])?\s*(=[^=]|\+\+|\+=)",
     ("tensor/tensor.h", "tensor/tensor.cpp", "ops/write.cpp")),
)  # fmt: skip


def gate_faults(files):
    """(file, text) of every line that changes a tensor which exists past the gate."""
    return [
        (name, found.group())
        for pattern, allowed in GATE
        for name, text in files.items()
        if name not in allowed
        for found in re.finditer(pattern, text)
    ]


def test_only_the_gate_changes_tensors_that_exist():
    files = sources()
    assert len(files) > 100 and "ops/write.h" in files
    assert gate_faults(files) == []


@pytest.mark.parametrize(
    "line",
    [
        "t.storage()->version_++;", "++t.storage()->version_;", "from.storage()->version_ = 3;",
        "t.become(view);", "out->become(from);", "t.impl()->dims[0] = 3;", "t.impl()->storage = s;",
        "impl->numel = 0;", "friend class Write;",
    ],
)  # fmt: skip
def test_a_change_past_the_gate_is_found(line):
    assert len(gate_faults({"python/some.cpp": f"void f() {{ {line} }}"})) == 1
