"""Traces hold scripted Modules, and scripts traced ones, as tutorials mix them; files of both."""

import io
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(191009)


class DecisionGate(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        else:
            return -x


class Cell(nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.gate = gate
        self.linear = nn.Linear(4, 4)

    def forward(self, x, h):
        new_h = torch.tanh(self.gate(self.linear(x)) + h)
        return new_h, new_h


x, h = torch.rand(3, 4), torch.rand(3, 4)
scripted_gate = torch.jit.script(DecisionGate())


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.jit.trace(Cell(scripted_gate), (x, h))

    def forward(self, xs):
        h, y = torch.zeros(3, 4), torch.zeros(3, 4)
        for i in range(xs.size(0)):
            y, h = self.cell(xs[i], h)
        return y, h


class Wrap(nn.Module):
    def __init__(self):
        super().__init__()
        self.loop = torch.jit.script(Loop())

    def forward(self, xs):
        y, h = self.loop(xs)
        return torch.relu(y)


traced = torch.jit.trace(Wrap(), (torch.rand(10, 3, 4),))
file = io.BytesIO()
torch.jit.save(traced, file)
file.seek(0)
loaded = torch.jit.load(file)
for n in (10, 3):  # the loop has as many turns as there are rows
    xs = torch.randn(n, 3, 4)
    print(torch.allclose(loaded(xs), traced(xs)), [round(v, 4) for v in traced(xs)[0].tolist()])


@torch.jit.script
def positive(x):
    if x.sum() > 0:
        return x * 2
    return -x


doubled = torch.jit.trace(lambda x: positive(x) + 1, (torch.ones(2),))
print(doubled(torch.ones(2)), doubled(-torch.ones(2)))
