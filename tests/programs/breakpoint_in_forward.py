"""Printing and breakpoint() in the middle of a forward pass."""

import sys

import torch
from torch import nn


def report():
    frame = sys._getframe(1)
    print("stopped in", frame.f_code.co_name, "with", sorted(frame.f_locals))
    print("hidden is", frame.f_locals["hidden"])


sys.breakpointhook = report


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x):
        print("x is", x)
        hidden = self.first(x)
        print("before relu", hidden)
        hidden = torch.relu(hidden)
        if hidden.max() > 0:
            breakpoint()
        out = self.second(hidden)
        print("out", out, out.shape, out.dtype)
        return out


torch.manual_seed(4)
net = Net()
out = net(torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]]))
out.sum().backward()
print(net.first.weight.grad)
print(net.second.bias.grad)
