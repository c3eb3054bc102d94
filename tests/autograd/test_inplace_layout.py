"""In-place changes of layout, .data and out=: programs that print the same in weft and PyTorch."""

import re
import warnings

import numpy as np
import pytest

import weft

PROGRAMS = """
y = x * 2; y.t_(); show(y, y._version); y.sum().backward(); show(x.grad)
y = x * 2; v = y[0]; v.unsqueeze_(0); show(v, y, y._version)
y = x * 2; v = y[0]; y.t_(); v.mul_(2); show(v, y); y.sum().backward(); show(x.grad)
y = x * 2; z = y * y; y.t_(); z.sum().backward()
x[0].t_()
x.t_()
with torch.no_grad(): x.t_()
y = (x * 2).unsqueeze_(1); show(y); y.squeeze_(); show(y)
y = (x * 2).unsqueeze_(0); y.squeeze_(0); show(y); (y * w3).sum().backward(); show(x.grad)
y = (x * 2).view(1, 2, 3, 1); y.squeeze_((0, 3)); show(y)
y = x * 2; show(y.transpose_(0, 1), y.swapaxes_(0, 1), y.swapdims_(-1, 0), y.stride())
y = x * 2; y.as_strided_((2,), (2,), 1); show(y); y.sum().backward(); show(x.grad)
a.unsqueeze_(4)
a.transpose_(0, 5)
a.resize_(2, 2); show(a, a._version)
v = a[0]; a.resize_(3); show(a, v)
a.resize_(4, 4); show(a.shape, a.flatten()[:6])
a.resize_((0,)); show(a)
a.resize_(2.5)
a.resize_(-1)
a.resize_(2 ** 62, 4)
x.resize_(2)
a.resize_as_(v3); show(a.shape)
a.set_(v3); show(a); a.add_(1); show(v3)
a.set_(); show(a)
a.set_(torch.ones(2, dtype=torch.int64))
x.set_(v3)
d = a.data; a.add_(1); show(d._version, a._version); d.add_(1); show(d._version, a._version, a)
d = a.data; d[0].mul_(3); show(d._version, a._version, a.data._version, a.detach()._version, a)
y = x * 2; z = y * y; y.data.add_(1); z.sum().backward(); show(x.grad)
d = a.data; d.copy_(a.flip(0)); show(a)
a.data = v3; show(a)
with torch.no_grad(): v = a[0]
v.mul_(w3)
with torch.no_grad(): v = a[0]
v[:2].mul_(w3[:2])
with torch.no_grad(): v = a[0]
v.mul_(2); show(a)
with torch.no_grad(): v = a[0]
v = v.detach(); v.mul_(w3); show(v)
with torch.no_grad(): v = a[0].requires_grad_()
show(v * 2)
o = torch.empty(0); r = torch.add(v3, 1, out=o); show(o, r is o, o._version)
o = torch.ones(2); r = torch.add(v3, 1, out=o); show(o, r is o)
o = torch.ones(2, 3)[:, ::2]; torch.add(torch.ones(2, 2), 1, out=o); show(o, o.stride())
o = torch.ones(3, dtype=torch.float64); torch.add(v3, 1, out=o); show(o)
o = torch.ones(3, dtype=torch.int64); torch.add(v3, 1, out=o)
o = torch.ones(1).expand(3); torch.add(v3, 1, out=o)
o = (torch.empty(0), torch.empty(0, dtype=torch.int64)); torch.max(a, 0, out=o); show(*o)
o = torch.empty(0); torch.max(a, 0, out=o)
o = torch.empty(0); torch.matmul(a, v3, out=o); show(o)
o = torch.empty(0); a.sum(0, out=o)
torch.add(x, 1, out=torch.empty(0))
torch.sum(x, 0, out=torch.empty(0))
with torch.no_grad(): show(torch.sum(x, 0, out=torch.empty(0)))
torch.add(v3, 1, out=x)
v = a[0]; torch.add(v3, 1, out=v); show(a)
torch.add(a, a.flip(0), out=a); show(a)
""".strip().splitlines()


def joined(lines):
    """A `with` line and the line after it are one program."""
    lines = iter(lines)
    for line in lines:
        yield line + "\n" + next(lines) if line.startswith("with") and "= a[0]" in line else line


def run(lib, program):
    shown = []
    names = {
        "torch": lib,
        "x": lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True),
        "a": lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        "v3": lib.tensor([0.5, 1.5, 2.5]),
        "w3": lib.tensor([2.0, 3.0, 4.0], requires_grad=True),
        "show": lambda *things: shown.extend(map(repr, things)),
    }
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            exec(program, names)
        except Exception as error:
            shown.append(type(error).__name__)
    return shown, [w.category for w in warned if "resized" in str(w.message)]


@pytest.mark.parametrize("program", list(joined(PROGRAMS)))
def test_programs_do_what_they_do_in_pytorch(torch, program):
    assert run(weft, program) == run(torch, program)


EDGES = """
torch.autograd.grad(e(z), e(y), grad_outputs=torch.tensor(1.))
torch.autograd.grad(e(z), x)
torch.autograd.grad(z, e(x))
torch.autograd.grad((e(z), y.sum()), [e(x), y])
torch.autograd.backward(e(z), torch.tensor(1.), inputs=(e(x),)) or x.grad
torch.autograd.backward(e(z), torch.tensor(1.), inputs=e(x)) or x.grad
z.backward(inputs=e(x)) or x.grad
torch.autograd.backward(e(z)) or x.grad
torch.autograd.grad(e(y), e(x), torch.ones(3))
torch.autograd.grad(e(y), e(x))
torch.autograd.grad(e(y.unbind()[1]), x)
""".strip().splitlines()


@pytest.mark.parametrize("text", EDGES)
def test_gradient_edges_stand_for_tensors(torch, text):
    def result(lib):
        x = lib.ones(2, requires_grad=True)
        y = x * 2
        z = (y * 3).sum()
        names = {"torch": lib, "e": lib.autograd.graph.get_gradient_edge, "x": x, "y": y, "z": z}
        try:
            return repr(eval(text, names))
        except Exception as error:
            return type(error).__name__

    assert result(weft) == result(torch)


def test_an_optimizer_does_not_write_read_only_memory():
    array = np.ones(3, "float32")
    array.flags.writeable = False
    for make in (weft.optim.SGD, weft.optim.Adam, weft.optim.AdamW):
        free = weft.ones(3, requires_grad=True)
        fixed = weft.from_numpy(array).requires_grad_()
        for t in (free, fixed):
            t.grad = weft.ones(3)
        with pytest.raises(RuntimeError, match=re.escape("[optimizer] expected")):
            make([free, fixed], lr=0.1).step()
        assert free.tolist() == [1.0] * 3 and array.tolist() == [1.0] * 3


def test_variable_is_the_tensor(torch):
    for lib in (weft, torch):
        x = lib.ones(2)
        v = lib.autograd.Variable(x, requires_grad=True)
        assert v.requires_grad and v.is_leaf and isinstance(v, lib.autograd.Variable)
        assert v.data_ptr() == x.data_ptr()
        assert lib.autograd.Variable().shape == (0,)
        with pytest.raises(TypeError, match="has to be a tensor"):
            lib.autograd.Variable([1.0])
        with pytest.warns(UserWarning, match="volatile was removed"):  # older programs say it
            assert not lib.autograd.Variable(x, volatile=True).requires_grad
            with pytest.raises(ValueError, match="can't be volatile and require_grad"):
                lib.autograd.Variable(x, requires_grad=True, volatile=True)
