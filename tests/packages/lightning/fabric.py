"""Fabric: a plain loop with setup, backward, clipping, precision, saving and loading."""

import lightning as L
import torch
from lightning.fabric.loggers import CSVLogger

fabric = L.Fabric(accelerator="cpu", devices=1, loggers=CSVLogger("out"))
fabric.launch()
fabric.seed_everything(1)
with fabric.init_module():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model, optimizer = fabric.setup(model, optimizer)
x = torch.randn(64, 4)
y = x.sum(1, keepdim=True)
loader = fabric.setup_dataloaders(
    torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 16, shuffle=True)
)
for epoch in range(4):
    for k, (inputs, targets) in enumerate(loader):
        with fabric.no_backward_sync(model, enabled=k % 2 == 0):
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            fabric.backward(loss)
        if k % 2:
            norm = fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
    fabric.log("loss", loss, epoch)
    fabric.print(f"{loss:.4f} {norm:.4f}")
state = {"model": model, "optimizer": optimizer, "epoch": 4}
fabric.save("out/state.ckpt", state)
before = [p.detach().clone() for p in model.parameters()]
with torch.no_grad():
    for p in model.parameters():
        p.add_(1)
state["epoch"] = 0
rest = fabric.load("out/state.ckpt", state)
print(rest, state["epoch"], all(torch.equal(a, b) for a, b in zip(before, model.parameters())))
print(fabric.device, fabric.world_size, fabric.global_rank, fabric.is_global_zero)
print(fabric.all_gather(torch.ones(2)).tolist(), fabric.all_reduce(torch.ones(2)).tolist())
print(fabric.to_device({"a": torch.ones(1)})["a"].device, fabric.broadcast("word"))

half = L.Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
small = half.setup_module(torch.nn.Linear(3, 2))
print(small(torch.ones(1, 3)).dtype, small.weight.dtype)
with half.autocast():
    print(torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype)
true = L.Fabric(accelerator="cpu", devices=1, precision="bf16-true")
print(true.setup_module(torch.nn.Linear(3, 2)).weight.dtype)
