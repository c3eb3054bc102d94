"""Parameters of tensors of a program's own classes are of those classes; and names of classes."""

import pickle

import torch
from torch import nn


class Plain(torch.Tensor):
    pass


class Told(torch.Tensor):
    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        assert all(t in (cls, torch.Tensor) for t in types), types
        return super().__torch_function__(func, types, args, kwargs or {})


class Named(torch.Tensor):
    def __repr__(self):
        return f"Named of {tuple(self.shape)}"


for cls in (Plain, Told, Named):
    p = nn.Parameter(torch.ones(2).as_subclass(cls))
    print(type(p).__name__, isinstance(p, nn.Parameter), isinstance(p, cls), p.requires_grad, p)
    module = nn.Module()
    module.weight = p
    module.register_parameter("fixed", nn.Parameter(p.detach(), requires_grad=False))
    print([(n, type(q).__name__, q.requires_grad) for n, q in module.named_parameters()])
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    y = (module.weight * 3 + module.fixed).sum()
    y.backward()
    optimizer.step()
    print(type(y).__name__, type(p.grad).__name__, p.tolist(), type(p.data).__name__)
    print(type(nn.Parameter(p)).__name__, type(p.detach()).__name__, p.is_leaf, p.grad.tolist())
    buffer = nn.Buffer(torch.ones(1))
    print(isinstance(buffer, nn.Buffer), isinstance(p, nn.Buffer))
    module.load_state_dict({"weight": torch.zeros(2), "fixed": torch.ones(2)})
    print(type(module.weight).__name__, module.weight.tolist(), module)
    again = pickle.loads(pickle.dumps(torch.zeros(2).as_subclass(cls)))
    print(type(again).__name__, again.tolist())
print("mul" in Told.calls, nn.Parameter(torch.ones(1)), type(nn.Parameter(torch.ones(1))).__name__)

print(repr(torch.set_grad_enabled(False)), torch.is_grad_enabled())
print(torch.set_grad_enabled(True))
print(nn.Linear.__constants__ + ["own"], nn.Conv2d.__constants__[:2], nn.Softmax.__constants__)
scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
print(type(scripted).__name__, isinstance(scripted, torch.jit.RecursiveScriptModule))
print(len(scripted), scripted[0].weight.shape, len(list(scripted)), bool(scripted))
