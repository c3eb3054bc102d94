"""A module that adds layers to itself while it trains, and tells its optimizer."""

import torch
from torch import nn


class Growing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList([nn.Linear(2, width)])
        self.head = nn.Linear(width, 1)

    def grow(self, optimizer):
        layer = nn.Linear(self.width, self.width)
        self.layers.append(layer)
        optimizer.add_param_group({"params": list(layer.parameters()), "lr": 0.02})

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x).squeeze(-1)


torch.manual_seed(0)
x = torch.randn(32, 2)
target = x[:, 0] * x[:, 1]
model = Growing(8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
print(model)
for step in range(30):
    if step in (10, 20):
        model.grow(optimizer)
        print(f"step {step}: {len(model.layers)} layers, {len(optimizer.param_groups)} groups")
    optimizer.zero_grad()
    loss = ((model(x) - target) ** 2).mean()
    loss.backward()
    optimizer.step()
    if step % 5 == 0 or step == 29:
        print(step, f"{loss.item():.3f}")
print(model)
for name, parameter in model.named_parameters():
    print(name, tuple(parameter.shape), parameter.grad.shape)
print([group["lr"] for group in optimizer.param_groups])
print(sum(p.numel() for p in model.parameters()))
