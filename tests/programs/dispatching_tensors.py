"""Classes of tensors that carry their calls out: a log of operators, and quantized weights."""

import copy
import pickle

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only, tree_unflatten

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


class Two(torch.Tensor):
    "Two tensors that are computed with side by side"

    @staticmethod
    def __new__(cls, a, b, outer_size=None, outer_stride=None):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            a.size(),
            strides=a.stride(),
            storage_offset=a.storage_offset(),
            device=a.device,
            layout=a.layout,
            requires_grad=a.requires_grad,
            dtype=a.dtype,
        )

    def __init__(self, a, b, outer_size=None, outer_stride=None):
        self.a, self.b = a, b

    def __repr__(self):
        return f"Two({self.a}, {self.b})"

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, outer_size, outer_stride):
        return Two(inner["a"], inner["b"], outer_size, outer_stride)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        given = args, kwargs or {}
        (args_a, words_a), (args_b, words_b) = (
            tree_map_only(Two, lambda x, name=name: getattr(x, name), given) for name in "ab"
        )
        made, form = tree_flatten(func(*args_a, **words_a))
        beside = tree_leaves(func(*args_b, **words_b))
        both = [
            cls(x, y) if isinstance(x, torch.Tensor) else x
            for x, y in zip(made, beside, strict=True)
        ]
        out = tree_unflatten(both, form)
        return return_and_correct_aliasing(func, args, kwargs or {}, out)


def two(*values):
    return Two(torch.tensor(values), torch.tensor(values) * 10)


def refuses(run):
    try:
        run()
    except Exception as error:
        return type(error).__name__
    return "nothing"


x = two(1.0, 3.0, 2.0)
print(x.add_(1), x.chunk(3), x.split([1, 2]), [*x.sort()], torch.where(x > 3, x, x * 0))
print(x.nonzero(), x[x > 2], x[x.a > 2], x[[0, 2]], [*x], x.data, x.unbind())
x[0] = 7.0
x[1:2] = 0.0
print(x, x.view(3, 1).mul_(2), x, x.to(torch.float64), x.clone(), torch.zeros_like(x))
print(torch.add(x, 1, out=two(0.0, 0.0, 0.0)), torch.zeros(3).copy_(x), torch.zeros(3).add_(x))
print(x.softmax(0), torch.einsum("i,j->ij", x, x), torch.equal(x, x), x.sum().item())
print(refuses(x.tolist), x.is_meta, x.device, x.storage_offset())
print(copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x)))
for repeat in range(2):
    p = two(1.0, 2.0, 3.0).requires_grad_()
    for _ in range(2):
        (p * p).sum().backward() if repeat else p.sum().backward()
    print(p.grad, type(p.grad).__name__)
(g,) = torch.autograd.grad((p**3).sum(), p, create_graph=True)
print(g.detach(), *torch.autograd.grad(g.sum(), p))
for make in (
    lambda ps: torch.optim.SGD(ps, 0.1),
    lambda ps: torch.optim.SGD(ps, 0.1, momentum=0.9),
    lambda ps: torch.optim.AdamW(ps, 0.1),
):
    p = torch.nn.Parameter(two(1.0, 2.0, 3.0))
    steps = make([p])
    for _ in range(2):
        steps.zero_grad()
        (p * p).sum().backward()
        steps.step()
    print(isinstance(p, Two), isinstance(p, torch.nn.Parameter), p.detach())
m = torch.nn.Linear(3, 2)
m.weight = torch.nn.Parameter(Two(torch.ones(2, 3), torch.full((2, 3), 2.0)))
m.bias = torch.nn.Parameter(torch.zeros(2))
m(torch.ones(1, 3)).sum().backward()
print(m.weight.grad, m.state_dict()["weight"], type(m.state_dict()["weight"]).__name__)
twin = copy.deepcopy(m)
again = pickle.loads(pickle.dumps(m))
print(isinstance(twin.weight, torch.nn.Parameter), twin.weight.b, again.weight.a)
print(isinstance(again.weight, torch.nn.Parameter), isinstance(again.weight, Two))
m.load_state_dict({"weight": Two(torch.zeros(2, 3), torch.ones(2, 3)), "bias": torch.zeros(2)})
print(m.weight.detach())
with torch.no_grad():
    print((p * 2).requires_grad)


class Bare(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"no {func}")


def bare(*args, **kwargs):
    return torch.Tensor._make_wrapper_subclass(Bare, *args, **kwargs)


on_meta = bare((2, 3), device="meta", dtype=torch.bfloat16)
print(on_meta.device, on_meta.is_meta, on_meta.is_cpu, on_meta.dtype)
laid_out = bare((2, 3), strides=(1, 2), storage_offset=5)
print(laid_out.stride(), laid_out.storage_offset(), laid_out.device)
print(bare((1, 2, 3, 4), memory_format=torch.channels_last).stride())
print(refuses(lambda: laid_out + 1), refuses(lambda: bare((2, 3), storage_offset=5)))
print(refuses(lambda: bare((2, 3), strides=(1,))))
print(refuses(lambda: torch.Tensor._make_wrapper_subclass(torch.nn.Parameter, (2,))))
