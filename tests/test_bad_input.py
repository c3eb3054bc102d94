"""Wrong calls: PyTorch's exception, a message as `[op] expected …, got …`, nothing changed.

Each program sees `torch` (weft or PyTorch), a few tensors, and `np`. It must raise.
"""

import re

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")

GRAMMAR = re.compile(r"^\[[\w.~]+\] expected .+[,\n]\s*got\s.+", re.S)

PROGRAMS = """
# shapes that do not fit
a + b
a * b
torch.add(a, b)
a.add_(b)
a += b
c += a
a @ a
a.mm(c)
torch.mm(a, a)
a.bmm(a)
a.view(5)
a.view(-1, -1)
a.view(4, -1)
a.t().view(6)
a.reshape(7)
a.reshape(-1, 4)
a.expand(3, 3)
a.expand(3)
torch.cat([a, b])
torch.cat([])
torch.stack([a, b])
torch.stack([])
torch.where(mask, a, b)
torch.nn.functional.linear(a, b)
torch.nn.functional.mse_loss(a, b)
torch.nn.functional.cross_entropy(a, torch.tensor([0, 1, 2]))
torch.nn.functional.cross_entropy(a, torch.tensor([0, 5]))
torch.nn.functional.embedding(torch.tensor([7]), a)
torch.nn.functional.embedding(torch.tensor([-1]), a)
torch.nn.functional.layer_norm(a, (4,))
torch.nn.Linear(4, 2)(a)
torch.broadcast_shapes((2, 3), (4,))
torch.broadcast_tensors(a, b)
a.permute(0)
a.permute(0, 0)
torch.zeros(3).t().t().view(2, 2)
torch.ones(2, 3, 4).t()
a.split([1, 4])
a.copy_(b)
a.masked_fill(torch.ones(5, dtype=torch.bool), 0.)
a.index_select(0, torch.tensor([[0]]))
a.gather(0, torch.tensor([0]))
torch.dot(v, a)
torch.dot(v, torch.ones(4))
a.unflatten(1, (2, 2))
# dimensions and indices out of range
a.sum(2)
a.sum(-3)
a.mean(5)
a.softmax(2)
a.size(2)
a.transpose(0, 2)
a.squeeze(4)
a.unsqueeze(4)
a.unsqueeze(-4)
a.unbind(2)
a.select(0, 2)
a.select(0, -3)
a.select(2, 0)
a.narrow(0, 1, 5)
a.narrow(0, 0, -1)
a.chunk(0)
a[2]
a[-3]
a[0, 3]
a[0, 0, 0]
a[::-1]
a[::0]
a[[5]]
a[torch.tensor([2])]
a[torch.tensor([-3])]
a[torch.tensor([0.5])]
a[0.5]
a['x']
a[torch.ones(3, dtype=torch.bool)]
a[torch.ones(2, 2, dtype=torch.bool)]
a[[0, 1], [0, 1, 2]]
a[0][0][0]
a[2] = 1.
a[0, 3] = 1.
a[[5]] = 1.
a[0] = torch.ones(4)
a[mask] = torch.ones(2)
a[2 ** 64]
a[0.5] = 1.
torch.tensor(1.)[0]
a.sum(0, 1, 2, 3)
torch.cat([a, a], dim=2)
torch.stack([a, a], dim=3)
a.gather(1, torch.tensor([[5], [0]]))
a.index_select(0, torch.tensor([9]))
a.scatter(1, torch.tensor([[5], [0]]), 1.)
a.topk(4)
a.sum((0, 0))
a.flatten(1, 0)
a.sum(2 ** 64)
a.diagonal(0, 1, 1)
a.max(2)
a.argmax(2)
a.cumsum(2)
a.flip(2)
a.movedim(0, 3)
# dtypes
i.mean()
i.softmax(0)
i.requires_grad_()
torch.tensor([1], requires_grad=True)
mask - mask
-mask
~a
a & a
a.add_(b, alpha='x')
i.add_(1.5)
i += 0.5
i /= 2
mask += 1
i.mul_(a)
a @ i
a.mm(torch.ones(3, 2, dtype=torch.float64))
torch.nn.functional.embedding(v, a)
torch.nn.functional.cross_entropy(i, i)
a.to('float')
torch.zeros(2, dtype='float32')
torch.zeros(2, dtype=3)
torch.where(a, a, a)
a.masked_fill(i, 0.)
a.index_select(0, v)
torch.randint(5, 5, (2,))
torch.arange(0, 5, 0)
torch.arange(5, 0, 1)
torch.arange(0, float('nan'))
torch.arange(0, float('inf'))
torch.arange('x')
torch.linspace(0, 1, -1)
torch.eye(-1)
torch.set_default_dtype(torch.int64)
torch.finfo(torch.int64)
torch.iinfo(torch.float32)
# the graph
g.backward()
(g * 2).backward()
(g * 2).sum().backward(torch.ones(2))
y = (g * g).sum(); y.backward(); y.backward()
y = (g.exp() * 2).sum(); y.backward(); y.backward()
a.sum().backward()
(g * 2).backward(torch.ones(5))
(g * 2).backward(3.0)
g.add_(1)
g += 1
g[0] = 1.
g.zero_()
g.copy_(v)
g.view(3).add_(1)
g.data = 3
g.grad = 3
g.grad = torch.ones(7)
g.grad = torch.ones(3, dtype=torch.int64)
g.requires_grad = 1
(g * 2).requires_grad = False
y = g.exp(); y.add_(1); y.sum().backward()
torch.autograd.grad(g.sum(), a)
torch.autograd.grad(g.sum(), torch.ones(2, requires_grad=True))
torch.autograd.grad(g, g)
g.numpy()
a.register_hook(lambda x: x)
(g * 2).retain_grad().x
g.unbind()[0].add_(1)
# sizes
torch.empty(2 ** 62)
torch.empty(2 ** 63)
torch.empty(2 ** 64)
torch.zeros(10 ** 13)
torch.zeros(2 ** 32, 2 ** 32)
torch.ones(2 ** 21, 2 ** 21, 2 ** 21)
torch.full((10 ** 14,), 1.)
torch.rand(10 ** 14)
torch.empty(-1)
torch.zeros(2, -3)
torch.zeros(float('nan'))
torch.zeros(2.5)
torch.zeros('3')
torch.zeros((2, 'x'))
torch.zeros(None)
torch.arange(10 ** 15)
torch.eye(2 ** 40)
torch.ones(1).expand(2 ** 45) + 1
torch.ones(1).expand(2 ** 62).contiguous()
torch.ones(1).repeat(2 ** 62)
torch.ones(1).repeat(-1)
torch.ones(1).expand(-2)
a.as_strided((100,), (1,))
a.as_strided((2,), (-1,))
a.as_strided((2,), (1, 1))
a.as_strided((2 ** 62,), (2 ** 62,))
torch.randperm(-1)
# lists
torch.tensor([[1, 2], [3]])
torch.tensor([[1], 2])
torch.tensor([1, [2]])
torch.tensor([[1, 2], [[3], [4]]])
torch.tensor('abc')
torch.tensor(['a'])
torch.tensor(None)
torch.tensor([None])
torch.tensor({'a': 1})
torch.tensor(object())
torch.tensor([2 ** 64])
torch.tensor(2 ** 63)
torch.tensor()
torch.tensor([1], dtype='x')
torch.tensor([1], foo=2)
torch.as_tensor([[1], [2, 3]])
torch.tensor(np.array(['a', 'b']))
torch.from_numpy(3)
torch.from_numpy([1, 2])
torch.from_numpy(np.array(['a']))
torch.from_numpy(np.ones(3)[::-1])
torch.from_dlpack(3)
g.__dlpack__()
# arguments
a.sum(foo=1)
a.add()
a.add(1, 2, 3)
torch.add(a)
torch.add()
torch.matmul(a)
torch.relu(3)
torch.exp('x')
torch.exp([1, 2])
torch.cat(3)
torch.cat([1, 2])
torch.stack([a, 3])
a.view('x')
a.transpose(0)
a.softmax()
a + 'x'
a + None
a + [1]
'x' + a
a @ 3
a < 'x'
a.item()
float(a)
int(a)
bool(a)
bool(torch.empty(0))
if a: pass
len(torch.tensor(1.))
iter(torch.tensor(1.))
range(a)
[1, 2][torch.tensor(0.5)]
format(a, '.2f')
a.foo
a.shape = (3, 2)
del a[0]
a.sum('x')
a.clamp()
torch.clamp(a)
a.uniform_(2, 1)
a.normal_(0, -1)
torch.nn.functional.dropout(a, 1.5)
torch.nn.functional.dropout(a, -0.5)
torch.nn.Dropout(2)
a.bernoulli_(2.)
torch.multinomial(torch.tensor([-1., 2.]), 1)
torch.multinomial(v, 9)
torch.empty(0).max()
torch.empty(0).argmax()
torch.empty(0, 3).max(0)
a.max(1, 2, 3, 4)
a.to('cuda:0')
a.cuda()
torch.device('nowhere')
torch.set_num_threads(0)
torch.set_num_threads('x')
hash(a) + a.nothing
a.tolist(3)
a.numel(1)
torch.manual_seed('x')
a.type('torch.FooTensor')
# more than 64 bits
a.view(2 ** 64)
a.sum(-2 ** 70)
a.transpose(0, 2 ** 64)
a.select(0, 2 ** 64)
i.add_(2 ** 64)
i + 2 ** 64
torch.full((2,), 2 ** 64, dtype=torch.int64)
torch.arange(2 ** 64)
torch.zeros(2, 2 ** 64)
a[0, 2 ** 70]
a[2 ** 70] = 1.
torch.add(a, a, out='x')
torch.add(a, a, out=i)
a.as_strided((-1,), (1,))
a.as_strided((2,), (1,), -1)
# keys, values and arguments of odd types
a[{0}]
a[{}]
a[object()]
a[np]
a['a':]
a[np.array([0, 5])]
a[0] = None
a[0] = object()
i[0] = float('nan')
torch.zeros(range)
torch.zeros(x for x in (2, 3))
torch.zeros([[2]])
torch.zeros({2, 3})
torch.zeros(np.float64(2))
torch.zeros(2, dtyp=torch.float32)
torch.zeros(2, requires_grad=1)
torch.zeros(2, dtype=torch.int64, requires_grad=True)
torch.zeros(2, device=2.5)
torch.zeros(2, device='nowhere')
torch.zeros(2, device='cuda')
torch.zeros()
torch.rand()
torch.device('cpu:x')
torch.tensor([1.], requires_grad='x')
torch.tensor([1.], device='cuda')
torch.tensor(b'abc')
torch.tensor([1, torch.ones(2)])
torch.tensor([torch.ones(2), torch.ones(3)])
torch.tensor([10 ** 400], dtype=torch.float64)
torch.tensor([float('nan')], dtype=torch.int64)
x = []; x.append(x); torch.tensor(x)
x = []; x.append(x); torch.zeros(x)
torch.manual_seed(2 ** 64)
torch.manual_seed(-2 ** 63 - 1)
torch.rand(2, generator=3)
torch.einsum(3, a)
torch.einsum('i')
torch.equal(a, 3)
torch.allclose(a, 3)
torch.broadcast_shapes((-2,))
torch.meshgrid(a)
torch.diff(torch.tensor(1.))
torch.autograd.grad([], [])
a.requires_grad_('x')
a.index_put_([torch.tensor([5])], torch.tensor(1.))
a.index_put_([torch.tensor([0.5])], torch.tensor(1.))
a.index_put_(torch.tensor([0]), torch.tensor(1.))
a.index_put_([None, torch.tensor([0])], torch.tensor(1.))
a.index_put_([torch.tensor([True])], torch.tensor(1.))
# memory that cannot be written
torch.ones(1).expand(3).add_(1)
torch.ones(1).expand(3).mul_(v)
torch.ones(1).expand(3).copy_(v)
e = torch.ones(1).expand(3); e += 1
torch.ones(1).expand(3).zero_().add_(1)
""".strip().splitlines()

# Where the type differs from PyTorch's, and why.
DIFFERENT: dict[str, tuple[type, str]] = {}


def world(lib):
    """The names a program sees, from the same values in either library."""
    return {
        "torch": lib,
        "np": np,
        "a": lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        "b": lib.ones(4, 2),
        "c": lib.ones(3),
        "v": lib.tensor([0.5, 1.5, 2.5]),
        "i": lib.tensor([1, 2, 3]),
        "mask": lib.tensor([[True, False, True], [False, True, True]]),
        "g": lib.tensor([1.0, 2.0, 3.0], requires_grad=True),
    }


def outcome(lib, program):
    names = world(lib)
    before = {k: t.tolist() for k, t in names.items() if isinstance(t, lib.Tensor)}
    layout = {k: (t.shape, t.stride(), t.dtype) for k, t in names.items() if k in before}
    try:
        exec(program, names)
        error = None
    except Exception as caught:
        error = caught
    changed = [k for k in before if names[k].tolist() != before[k]]
    changed += [
        k for k, v in layout.items() if (names[k].shape, names[k].stride(), names[k].dtype) != v
    ]
    return error, changed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", [p for p in PROGRAMS if not p.startswith("#")])
def test_wrong_calls(program):
    expected, _ = outcome(torch, program)
    got, changed = outcome(weft, program)
    assert expected is not None, "PyTorch accepts this: it does not belong here"
    assert got is not None, f"no error; PyTorch: {type(expected).__name__}: {expected}"
    assert changed == []
    kind = DIFFERENT.get(program, (type(expected),))[0]
    assert type(got) is kind, f"{got!r}; PyTorch: {expected!r}"
    assert GRAMMAR.match(str(got)) or worded_elsewhere(got, expected), str(got)


def worded_elsewhere(got, expected):
    """Whether Python or NumPy wrote the message, or it is PyTorch's own first sentence."""
    first = str(expected).split(".")[0].split("(")[0].strip()
    if first and str(got).replace("weft", "torch").startswith(first):
        return True
    python_words = ("unsupported operand", "can only concatenate", "not supported between",
                    "has no attribute", "must be str", "takes", "unexpected keyword", "missing",
                    "positional", "not writable", "unsupported format string",
                    "interpreted as an integer", "invalid keyword",
                    "invalid literal for int")  # fmt: skip
    return any(words in str(got) for words in python_words)


def test_read_only_memory_is_not_written():
    array = np.arange(3.0)
    array.flags.writeable = False
    t = weft.from_numpy(array)
    for write in (lambda: t.add_(1), lambda: t.zero_(), lambda: t[1:].mul_(2)):
        with pytest.raises(RuntimeError, match="read-only"):
            write()
    with pytest.raises(RuntimeError, match="read-only"):
        t[0] = 5.0
    with pytest.raises(RuntimeError, match="read-only"):
        weft.add(t, t, out=t)
    assert array.tolist() == [0.0, 1.0, 2.0]
    assert not t.numpy().flags.writeable
    assert (t + 1).tolist() == [1.0, 2.0, 3.0]


def test_the_buffer_of_a_tensor_in_the_graph_is_refused():
    with pytest.raises(BufferError, match="detach"):
        memoryview(weft.ones(2, requires_grad=True))


def test_a_failed_allocation_leaves_tensors_alone(balance):
    a = weft.arange(12.0).reshape(3, 4)
    size = balance()
    for make in (lambda: a + 1, lambda: a @ a.t(), lambda: a.sum(0), lambda: weft.cat([a, a])):
        weft._C._fail_allocation(1)
        try:
            with pytest.raises(RuntimeError, match=r"\[alloc\] expected"):
                make()
        finally:
            weft._C._fail_allocation(0)
    assert a.tolist() == np.arange(12.0).reshape(3, 4).tolist()
    assert balance() == size


@pytest.mark.parametrize("shape", [(), (2, 3), (0, 2)])
def test_an_internal_record_of_one_row_refuses_others(shape):
    """It read past the sizes of a tensor without dimensions. Programs and users do not reach it."""
    with pytest.raises(IndexError, match="_squeeze_row. expected one row"):
        weft._C.ops._squeeze_row(weft.ones(shape))
