"""Hooks on tensors, nodes and modules, in the order in which they run."""

import torch
from torch import nn

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x * x
y.retain_grad()
y.register_hook(lambda grad: print("at y:", grad))
doubling = y.register_hook(lambda grad: grad * 2)
y.register_hook(lambda grad: print("at y after doubling:", grad))
x.register_hook(lambda grad: print("at x:", grad))
z = y.sum()
z.backward(retain_graph=True)
print(x.grad, y.grad, z.grad_fn.__class__.__name__)
doubling.remove()
x.grad = None
z.backward()
print(x.grad, y.grad)
print(x.is_leaf, y.is_leaf, y.retains_grad)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2, bias=False)
        self.outer = nn.Linear(2, 1, bias=False)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


def before(module, inputs):
    print("before", type(module).__name__, inputs[0].shape)


def after(module, inputs, output):
    print("after", type(module).__name__, output.detach())


def halve(module, inputs, output):
    return output / 2


def backward(module, grad_input, grad_output):
    print("backward", type(module).__name__, grad_output[0])


net = Two()
with torch.no_grad():
    net.inner.weight.copy_(torch.tensor([[0.5, -1.0], [1.5, 0.25]]))
    net.outer.weight.fill_(2.0)
for module in net.modules():
    module.register_forward_pre_hook(before)
    module.register_forward_hook(after)
    module.register_full_backward_hook(backward)
handle = net.outer.register_forward_hook(halve)
inputs = torch.tensor([[1.0, 0.5]], requires_grad=True)
net(inputs).sum().backward()
print(inputs.grad, net.inner.weight.grad)
handle.remove()
print(f"{net(inputs).item():.4f}")
