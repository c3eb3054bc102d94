"""Dropout: which elements fall, in training and not, and a training with it."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
drop = nn.Dropout(0.5)
print(drop)
x = torch.ones(2, 6, requires_grad=True)
y = drop(x)
print(y)
y.sum().backward()
print(x.grad)
print((x.grad == y).all())
drop.eval()
print(drop(x) is x, drop(x))
print(F.dropout(torch.ones(8), p=0.25), F.dropout(torch.ones(3), p=0.9, training=False))
print(F.dropout(torch.ones(4), p=0.0), F.dropout(torch.ones(4), p=1.0))
print(torch.bernoulli(torch.full((8,), 0.5)))

torch.manual_seed(4)
model = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = torch.randn(20, 3)
target = data.sum(dim=1, keepdim=True)
for step in range(20):
    optimizer.zero_grad()
    loss = F.mse_loss(model(data), target)
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, f"{loss.item():.3f}")
model.eval()
with torch.no_grad():
    print(f"{F.mse_loss(model(data), target).item():.3f}")
