"""Tensors without elements go through the operations like any other."""

import torch
from torch import nn

e = torch.empty(0)
print(e, e.shape, e.sum(), e.prod(), e.numel(), e.tolist())
print(
    torch.zeros(0, 3), torch.zeros(3, 0), torch.zeros(0, dtype=torch.int64), torch.zeros(2, 0) > 0
)
print(torch.zeros(0, 3, dtype=torch.float64), torch.tensor([]), torch.tensor([[]]).shape)
print(torch.zeros(0, 3).sum(dim=0), torch.zeros(0, 3).sum(dim=1), torch.zeros(2, 0).mean())
print(torch.zeros(0, 3) @ torch.zeros(3, 2), torch.zeros(2, 0) @ torch.zeros(0, 2))
print(torch.cat([e, torch.ones(2), e]), torch.ones(3)[3:], torch.ones(3)[torch.ones(3) > 2])
print(e.all(), e.bool().any(), e + 1, e * torch.ones(1), torch.ones(2, 3)[:0])
x = torch.zeros(0, 4, requires_grad=True)
y = nn.Linear(4, 2)(x)
print(y)
(y.sum() + x.exp().sum()).backward()
print(x.grad)
for f in (torch.max, torch.argmax, torch.min):
    try:
        f(e)
    except Exception as error:
        print(f.__name__, type(error).__name__)
print([list(row) for row in torch.zeros(2, 0)], list(torch.zeros(0, 2)), bool(e.numel()))
print(
    torch.arange(0),
    torch.arange(3, 3),
    torch.zeros(0).view(0, 5),
    torch.zeros(0).reshape(2, 0).shape,
)
