"""Exceptions inside forward: their types, and what is left behind when they are caught."""

import torch
from torch import nn


def attempt(label, f):
    try:
        print(label, f())
    except Exception as error:
        print(label, type(error).__name__)


class Forgiving(nn.Module):
    """Takes the first layer that fits its input."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 2), nn.Linear(3, 2)])

    def forward(self, x):
        for layer in self.layers:
            try:
                return layer(x)
            except RuntimeError:
                print("does not fit:", tuple(layer.weight.shape), tuple(x.shape))
        raise ValueError("nothing fits")


torch.manual_seed(5)
net = Forgiving()
out = net(torch.ones(1, 3))
print(out)
out.sum().backward()
print(net.layers[0].weight.grad, net.layers[1].weight.grad)
attempt("too wide:", lambda: net(torch.ones(1, 7)))

a, b = torch.zeros(2, 3), torch.zeros(4, 3)
x = torch.ones(3, requires_grad=True)
attempt("add:", lambda: a + b)
attempt("matmul:", lambda: a @ b)
attempt("matmul of dtypes:", lambda: a @ torch.zeros(3, 2, dtype=torch.float64))
attempt("view:", lambda: a.view(4, 2))
attempt("cat:", lambda: torch.cat([a, torch.zeros(2, 4)]))
attempt("stack:", lambda: torch.stack([a, b]))
attempt("index:", lambda: a[5])
attempt("too many indices:", lambda: a[0, 0, 0])
attempt("dim:", lambda: a.sum(dim=3))
attempt("item of many:", lambda: a.item())
attempt("truth of many:", lambda: bool(a))
attempt("backward of many:", lambda: (x * 2).backward())
attempt("backward of a constant:", lambda: a.sum().backward())
attempt("grad of an integer:", lambda: torch.tensor([1, 2], requires_grad=True))
attempt("numpy of a leaf:", lambda: x.numpy())
attempt("in-place on a leaf:", lambda: x.mul_(2))
attempt("in-place wider:", lambda: torch.zeros(2).add_(torch.zeros(3, 2)))
attempt("in-place narrower:", lambda: torch.tensor([1, 2]).mul_(0.5))
attempt("missing attribute:", lambda: net.absent)
attempt("embedding:", lambda: nn.Embedding(3, 2)(torch.tensor([3])))
attempt("string:", lambda: torch.tensor("text"))
attempt("ragged:", lambda: torch.tensor([[1.0], [1.0, 2.0]]))

y = (x * 2).exp()
loss = y.sum()
loss.backward()
attempt("backward twice:", loss.backward)
y = x.exp()
y.mul_(2)
attempt("changed in place:", lambda: y.sum().backward())
print(x.grad)
