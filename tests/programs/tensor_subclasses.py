"""Classes that answer calls: what PyTorch's notes on extending show, and what packages do."""

import functools

import torch
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function

HANDLED = {}


def implements(torch_function):
    def decorator(func):
        functools.update_wrapper(func, torch_function)
        HANDLED[torch_function] = func
        return func

    return decorator


class ScalarTensor:
    """A diagonal matrix of one value: no Tensor at all."""

    def __init__(self, N, value):
        self._N, self._value = N, value

    def __repr__(self):
        return f"ScalarTensor(N={self._N}, value={self._value})"

    def tensor(self):
        return self._value * torch.eye(self._N)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in HANDLED or not all(issubclass(t, (torch.Tensor, cls)) for t in types):
            return NotImplemented
        return HANDLED[func](*args, **(kwargs or {}))


@implements(torch.mean)
def mean(input):
    return float(input._value) / input._N


def ensure_tensor(data):
    return data.tensor() if isinstance(data, ScalarTensor) else torch.as_tensor(data)


@implements(torch.add)
def add(input, other):
    if input._N == other._N:
        return ScalarTensor(input._N, input._value + other._value)
    raise ValueError("Shape mismatch!")


@implements(torch.nn.functional.mse_loss)
def mse_loss(input, target, **kwargs):
    print("mse_loss of", type(input).__name__)
    return (ensure_tensor(input) - ensure_tensor(target)).square().mean()


@implements(torch.Tensor.add)
def tensor_add(input, other):
    return ensure_tensor(input) + ensure_tensor(other)


d = ScalarTensor(5, 2)
print(torch.mean(d), torch.add(d, d), torch.nn.functional.mse_loss(d, torch.eye(5)))
print((torch.ones(5, 5) + d).sum())
for wrong in (lambda: torch.mul(d, 3), lambda: torch.cat([torch.ones(1), d])):
    try:
        wrong()
    except TypeError as error:
        print("NotImplemented" in str(error), "ScalarTensor" in str(error))


class LoggingTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is not torch.Tensor.__repr__:
            print(f"func: {func.__name__}, args: {args!r:.60}")
        return super().__torch_function__(func, types, args, kwargs or {})


class Deep(LoggingTensor):
    pass


t = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).as_subclass(LoggingTensor)
e = t.as_subclass(Deep)
for value in (
    t + 1, 2 - t, t @ t, t[0], -t, t > 2, t.sum(0), t.T, t.shape, t.max(1).values, t.mean(),
    torch.softmax(t, 0), torch.nn.functional.relu(t), torch.stack([t, t]), t.split(1)[0],
    e * t, t * e, torch.ones(2) * e, t.clone().add_(1), torch.zeros_like(t), t.tolist(),
):  # fmt: skip
    print(type(value).__name__, value)


class Metadata:
    def __init__(self, data, metadata=None):
        self._t, self._metadata = torch.as_tensor(data), metadata

    def __repr__(self):
        return f"Metadata:\n{self._metadata}\n\ndata:\n{self._t}"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        metadatas = tuple(a._metadata for a in args if hasattr(a, "_metadata"))
        args = [getattr(a, "_t", a) for a in args]
        return Metadata(func(*args, **(kwargs or {})), metadata=metadatas[0])


m = Metadata([[1, 2], [3, 4]], metadata={"owner": "Ministry of Silly Walks"})
print(torch.add(torch.tensor([[1, 2], [1, 2]]), m))
print(torch.mul(torch.tensor([[1, 2], [1, 2]]), m))
print(torch.nn.functional.relu(m))


class Plain(torch.Tensor):
    extra = "kept"


p = torch.ones(3, requires_grad=True)
q = p.as_subclass(Plain)
loss = (q * 2).exp().sum()
print(type(loss).__name__, loss.extra, loss.requires_grad)
loss.backward()
print(p.grad, type(q.detach()).__name__, type(q.data).__name__, type(Plain([1.0, 2.0])).__name__)
print(type(torch.nn.Parameter(torch.ones(2)) + q[:2]).__name__)
print(type(torch.nn.Parameter(torch.ones(2)) * 2).__name__, [type(r).__name__ for r in q])


class Disabled(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


print(type(torch.ones(2).as_subclass(Disabled) + 1).__name__)
with torch._C.DisableTorchFunctionSubclass():
    print(type(q + 1).__name__)


class Counter(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Double(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.add else result


x = torch.ones(2)
with Counter() as outer:
    y = torch.nn.functional.gelu(x) + x
    with Double(), Counter() as inner:
        z = torch.add(x, x)
        w = x.mul(3).sum()
    torch.zeros(3)
print(outer.names, inner.names, z, w)


def public(a, b=2):
    if has_torch_function((a,)):
        return handle_torch_function(public, (a,), a, b=b)
    return a * b


class Answers:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, [t.__name__ for t in types], kwargs


print(public(Answers(), b=3), public(2), torch.overrides.is_tensor_like(Answers()))


class Low:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls.__name__


class High(Low):
    pass


print(torch.cat([Low(), High()]), torch.where(x > 0, Low(), High()), torch.add(x, Low()))
torch.Tensor.twice = lambda self: self * 2
torch.Tensor.label = property(lambda self: f"{self.dim()}-d")
print(x.twice(), x.label, torch.nn.Parameter(x).label)
del torch.Tensor.twice
print(hasattr(x, "twice"))
