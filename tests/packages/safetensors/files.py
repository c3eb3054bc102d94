"""safetensors.torch: tensors, slices, whole models, shared tensors, metadata, errors."""

import os
import tempfile

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

folder = tempfile.mkdtemp()
path = os.path.join(folder, "x.safetensors")
torch.manual_seed(0)
tensors = {
    "plain": torch.randn(4, 6),
    "half": torch.randn(3).half(),
    "brain": torch.randn(2, 2).bfloat16(),
    "double": torch.randn(2, dtype=torch.float64),
    "whole": torch.arange(5),
    "small": torch.tensor([1, 2, 255], dtype=torch.uint8),
    "short": torch.tensor([-3], dtype=torch.int16),
    "truth": torch.tensor([True, False]),
    "number": torch.tensor(3.5),
    "empty": torch.empty(0, 3),
    "complex": torch.tensor([1 + 2j]),
}
save_file(tensors, path, metadata={"by": "weaver"})
again = load_file(path)
for name, x in tensors.items():
    y = again[name]
    print(name, y.dtype, tuple(y.shape), torch.equal(x, y))
print(sorted(load(save(tensors))) == sorted(tensors))
with safe_open(path, framework="pt", device="cpu") as file:
    print(file.metadata(), len(file.keys()))
    part = file.get_slice("plain")
    print(part.get_shape(), part.get_dtype())
    print(torch.equal(part[1:3], tensors["plain"][1:3]), part[:, 2:4].shape, part[-1].shape)
    print(torch.equal(file.get_tensor("double"), tensors["double"]))
again["plain"][0] = 7.0
print(load_file(path)["plain"][0, 0].item() == tensors["plain"][0, 0].item())


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(3, 3)
        self.b = torch.nn.Linear(3, 3)
        self.b.weight = self.a.weight


model = Tied()
save_model(model, path)
other = Tied()
print(load_model(other, path))
print(torch.equal(model.a.weight, other.b.weight), other.a.weight is other.b.weight)
print(sorted(load_file(path)))


def refused(what, *args):
    try:
        what(*args)
        print("fine")
    except (RuntimeError, ValueError, SafetensorError) as error:
        print(type(error).__name__, str(error).splitlines()[0][:70])


refused(save_file, model.state_dict(), path)
refused(save_file, {"t": torch.randn(3, 4).t()}, path)
refused(save_file, [torch.ones(1)], path)
refused(save_file, {"s": torch.eye(3).to_sparse()}, path)
big = torch.randn(10)
refused(save_file, {"a": big[:5], "b": big[5:]}, path)
refused(save_file, {"a": big[:6], "b": big[4:]}, path)
refused(load_model, torch.nn.Linear(2, 2), path)
print(load_file(path)["b.bias"].shape if "b.bias" in load_file(path) else sorted(load_file(path)))
with open(path, "wb") as file:
    file.write(b"not such a file")
refused(load_file, path)
