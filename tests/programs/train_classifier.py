"""LayerNorm and cross entropy, trained by SGD and by Adam from one seed."""

import torch
import torch.nn.functional as F
from torch import nn, optim


def make_model():
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Linear(4, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3)
    )


torch.manual_seed(42)
x = torch.randn(48, 4)
labels = (x[:, 0] > 0).long() + (x[:, 1] * x[:, 2] > 0).long()
print(labels)

optimizers = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "adamw": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1),
}
for name, make_optimizer in optimizers.items():
    model = make_model()
    optimizer = make_optimizer(model.parameters())
    for epoch in range(8):
        total = 0.0
        for start in range(0, len(x), 16):
            logits = model(x[start : start + 16])
            loss = F.cross_entropy(logits, labels[start : start + 16])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch in (0, 3, 7):
            print(name, epoch, f"{total / 3:.3f}")
    with torch.no_grad():
        predicted = model(x).argmax(dim=1)
    print(name, (predicted == labels).float().mean())

model = make_model()
logits = model(x[:3])
print(logits)
print(F.softmax(logits, dim=-1))
loss = nn.CrossEntropyLoss()(logits, labels[:3])
print(loss)
print(F.nll_loss(F.log_softmax(logits, dim=1), labels[:3], reduction="none"))
print(F.mse_loss(torch.ones(3), torch.zeros(3)), F.l1_loss(torch.ones(2), -torch.ones(2)))
