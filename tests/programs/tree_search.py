"""A search that scores its candidates with a network, and learns from the path that it took."""

import heapq

import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 5)
        self.score = nn.Linear(5, 3)
        self.register_parameter("start", nn.Parameter(torch.zeros(1, 5)))

    def forward(self, prefix):
        hidden = self.start
        for symbol in prefix:
            one_hot = torch.zeros(1, 3)
            one_hot[0, symbol] = 1.0
            hidden = self.cell(one_hot, hidden)
        return torch.log_softmax(self.score(hidden), dim=-1)[0]


def search(model, length):
    """Best first; the queue holds numbers, the graph holds the reasons."""
    queue, order, visited = [(0.0, 0, (), torch.zeros(()))], 0, 0
    while queue:
        cost, _, prefix, total = heapq.heappop(queue)
        visited += 1
        if len(prefix) == length:
            return prefix, total, visited
        scores = model(prefix)
        for symbol in range(3):
            order += 1
            heapq.heappush(
                queue,
                (cost - scores[symbol].item(), order, (*prefix, symbol), total + scores[symbol]),
            )
    raise AssertionError("the queue holds a full path before it is empty")


torch.manual_seed(21)
model = Scorer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
target = (2, 0, 1)
for step in range(20):
    found, total, visited = search(model, len(target))
    wanted = sum(model(target[:i])[symbol] for i, symbol in enumerate(target))
    loss = torch.relu(total - wanted + 1)
    print(step, found, visited, f"{loss.item():.3f}")
    if found == target:
        break
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(found == target, {name: p.grad is not None for name, p in model.named_parameters()})
