"""A model without memory: made on meta, asked for its shapes, then given values."""

import torch
from torch import nn

with torch.device("meta"):
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 2))
    x = torch.randn(5, 4)
print(net[0].weight)
print([(name, tuple(p.shape), p.device) for name, p in net.named_parameters()])
y = net(x)
print(y.shape, y.dtype, y.device, y.requires_grad)
y.sum().backward()
print(net[0].weight.grad, net[3].bias.grad)
print(sum(p.numel() for p in net.parameters()), x.is_meta, x[1:].storage_offset())

for attempt in (lambda: x.cpu(), lambda: x.sum().item(), lambda: x.tolist(), lambda: bool(x[0, 0])):
    try:
        attempt()
    except (RuntimeError, NotImplementedError) as error:
        print(type(error).__name__)

torch.manual_seed(3)
source = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 2))
net.load_state_dict(source.state_dict(), assign=True)
print(net(torch.ones(3, 4)).detach())
big = torch.empty(1 << 20, 1 << 20, device="meta")
print(big.nbytes, (big @ big[:, :3]).shape, (big + big.t())[7].sum())
print(torch.zeros_like(big[:2, :2], device="cpu"), torch.empty_like(torch.ones(2), device="meta"))
other = nn.Linear(2, 2, device="meta").to_empty(device="cpu")
with torch.no_grad():
    for p in other.parameters():
        p.fill_(0.5)
print(other(torch.ones(1, 2)))
