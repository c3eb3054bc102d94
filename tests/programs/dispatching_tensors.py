"""Classes of tensors that carry their calls out: a log of operators, and quantized weights."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten


class LoggingTensor(torch.Tensor):
    elem: torch.Tensor
    __slots__ = ["elem"]
    log = []

    @staticmethod
    def __new__(cls, elem, *args, **kwargs):
        r = torch.Tensor._make_wrapper_subclass(
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            layout=elem.layout,
            device=elem.device,
            requires_grad=kwargs.get("requires_grad", False),
        )
        r.elem = elem.detach() if r.requires_grad else elem
        return r

    def __repr__(self):
        return f"LoggingTensor({self.elem})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(e):
            return e.elem if isinstance(e, cls) else e

        def wrap(e):
            return cls(e) if isinstance(e, torch.Tensor) else e

        rs = tree_map(wrap, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))
        LoggingTensor.log.append(str(func))
        return rs


def seen():
    out = [n for n in LoggingTensor.log if "detach" not in n]
    LoggingTensor.log.clear()
    return out


x = LoggingTensor(torch.tensor([1.0, 2.0, 3.0]), requires_grad=True)
y = x * 2 + 1
print(y, type(y).__name__, y.requires_grad, y.device, y.is_leaf, seen())
z = (y.exp() * torch.ones(3)).sum()
print(z, seen())
z.backward()
print(x.grad, type(x.grad).__name__)
seen()
(x.sigmoid().sum()).backward()
print(x.grad)
seen()
print(x.sum().item(), bool((x > 0).all()))
seen()
w = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
o = (x.view(1, 3) @ w).tanh()
print(o, seen())
o.sum().backward()
print(w.grad, type(w.grad).__name__)
seen()
print(x[1:], x.view(3, 1).shape, torch.cat([x, x]), seen())
a = LoggingTensor(torch.zeros(3))
a.add_(2)
print(a, seen())
b = x.detach()
print(type(b).__name__, b.requires_grad)
lin = torch.nn.Linear(3, 2)
torch.manual_seed(0)
for p in lin.parameters():
    torch.nn.init.constant_(p, 0.5)
out = lin(x.detach().view(1, 3))
print(out, seen())
out.sum().backward()
print(lin.weight.grad)
seen()


class Q(torch.Tensor):
    "int8 weights with a scale"

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype)

    def __init__(self, data, scale):
        self.data_, self.scale = data, scale

    def dequant(self):
        return self.data_.to(self.scale.dtype) * self.scale

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is aten.detach.default:
            return cls(args[0].data_, args[0].scale)
        if func is aten.t.default:
            return cls(args[0].data_.t(), args[0].scale)
        if func in (aten.mm.default, aten.addmm.default):
            print("quantized", func)
        args = [a.dequant() if isinstance(a, cls) else a for a in args]
        return func(*args, **kwargs)


m = torch.nn.Linear(4, 2)
w = torch.arange(8.0).view(2, 4) - 4
q = Q(w.to(torch.int8), torch.tensor(0.5))
m.weight = torch.nn.Parameter(q, requires_grad=False)
with torch.no_grad():
    m.bias.fill_(1.0)
print(
    isinstance(m.weight, Q),
    isinstance(m.weight, torch.nn.Parameter),
    m.weight.shape,
    m.weight.dtype,
    len(list(m.parameters())),
)
print(m(torch.ones(3, 4)).detach())


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print("mode", func, [t.__name__ for t in types])
        return func(*args, **(kwargs or {}))


with Mode():
    print(LoggingTensor(torch.ones(2)) + 1)
print(seen())
