"""Optimizers print their settings, and keep, give and take their state."""

import torch
from torch import nn, optim

torch.manual_seed(0)
model = nn.Linear(2, 1)
with torch.no_grad():
    model.weight.copy_(torch.tensor([[0.5, -0.25]]))
    model.bias.zero_()
x = torch.tensor([[1.0, 2.0], [3.0, -4.0]])


def step(optimizer):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


sgd = optim.SGD(
    [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5}], lr=0.04, momentum=0.5
)
print(sgd)
for _ in range(3):
    print(step(sgd), model.weight.data, model.bias.data)
state = sgd.state_dict()
print(state["state"])
print([(group["lr"], group["momentum"], group["params"]) for group in state["param_groups"]])
for group in sgd.param_groups:
    group["lr"] *= 0.1
print(step(sgd), [group["lr"] for group in sgd.param_groups])

again = optim.SGD([{"params": [model.weight]}, {"params": [model.bias]}], lr=1.0)
again.load_state_dict(state)
print(again.param_groups[1]["lr"], again.state[model.bias])

adam = optim.AdamW(model.parameters(), lr=1e-2)
print(adam)
print(step(adam))
print(sorted(adam.state_dict()["state"][0]), adam.state[model.weight]["step"])
print(adam.state[model.weight]["exp_avg"], adam.state[model.bias]["exp_avg_sq"])

schedule = optim.lr_scheduler.StepLR(adam, step_size=2, gamma=0.1)
rates = []
for _ in range(5):
    step(adam)
    schedule.step()
    rates.append(schedule.get_last_lr()[0])
print([f"{rate:.1e}" for rate in rates])

sgd.zero_grad()
print(model.weight.grad)
step(adam)
adam.zero_grad(set_to_none=False)
print(model.weight.grad)
try:
    optim.SGD(model.parameters(), lr=-1.0)
except ValueError as error:
    print(type(error).__name__)
try:
    optim.Adam([])
except ValueError as error:
    print(type(error).__name__)
