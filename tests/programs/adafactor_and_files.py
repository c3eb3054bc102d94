"""A classifier trained by Adafactor from a file of raw numbers, kept in PyTorch's older format."""

import os
import tempfile

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
folder = tempfile.mkdtemp()
raw = os.path.join(folder, "features.bin")
torch.from_file(raw, shared=True, size=640).copy_(torch.randn(640))
x = torch.from_file(raw, size=640).view(64, 10)
y = (x.sum(1) > 0).long()

net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adafactor(net.parameters(), lr=0.05, weight_decay=0.01)
print(opt)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 8)
for epoch in range(4):
    for a, b in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    sched.step()
    print(epoch, f"{loss.item():.3f}", f"{sched.get_last_lr()[0]:.4f}")

checkpoint = {"model": net.state_dict(), "opt": opt.state_dict(), "epoch": 4}
for name, options in [
    ("zip.pt", {}),
    ("old.pt", {"_use_new_zipfile_serialization": False}),
    ("protocol.pt", {"pickle_protocol": 4}),
]:
    path = os.path.join(folder, name)
    torch.save(checkpoint, path, **options)
    loaded = torch.load(path, map_location="cpu", weights_only=name != "protocol.pt")
    print(name, loaded["epoch"], sorted(loaded["opt"]["state"][0]))
    twin = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
    print(twin.load_state_dict(loaded["model"]), torch.equal(twin(x), net(x)))

with torch.serialization.skip_data():
    torch.save(checkpoint["model"], os.path.join(folder, "empty.pt"))
print({k: v.abs().sum().item() for k, v in torch.load(os.path.join(folder, "empty.pt")).items()})

for what in ("empty", "missing"):
    path = os.path.join(folder, what, "a.pt")
    try:
        if what == "empty":
            open(os.path.join(folder, what), "wb").close()
            torch.load(os.path.join(folder, what))
        else:
            torch.save({}, path)
    except (EOFError, RuntimeError) as error:
        print(what, type(error).__name__)

storage = torch.FloatStorage([1, 2, 3])
print(storage.type(), storage.tolist(), isinstance(storage, torch.FloatStorage))
print(hash(x) == id(x))
