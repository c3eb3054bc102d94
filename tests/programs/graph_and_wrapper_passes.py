"""Shapes noted in a graph, modules wrapped for checkpoints, and errors that a process notes."""

import json
import os
import tempfile

import torch
from torch import fx, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
    offload_wrapper,
)
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.export.dynamic_shapes import Dim
from torch.functional import einsum
from torch.fx.passes.shape_prop import ShapeProp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x):
        parts = self.first(x).clamp(min=0).split(2, dim=1)
        return {"y": self.second(torch.cat(parts, 1)) * self.scale, "x": (x.t(), 3)}


traced = fx.symbolic_trace(Net())
result = ShapeProp(traced).propagate(torch.ones(5, 3))
print(result["y"].shape)
for node in traced.graph.nodes:
    kind = node.meta["type"].__name__.removeprefix("immutable_")
    print(node.name, kind, node.meta.get("tensor_meta"))
image = fx.symbolic_trace(nn.Conv2d(1, 2, 2))
ShapeProp(image).propagate(torch.ones(1, 1, 4, 4).to(memory_format=torch.channels_last))
print([n.meta["tensor_meta"].memory_format for n in image.graph.nodes if n.op == "placeholder"])
try:
    ShapeProp(traced).propagate(torch.ones(5, 4))
except RuntimeError as error:
    print(str(error)[:40], type(error.__cause__).__name__)


class Scaled(nn.Module):
    calls = 0

    def __init__(self, size):
        super().__init__()
        self.inner, self.kept = nn.Linear(size, size), "kept"

    def forward(self, x, *, by=1.0):
        Scaled.calls += 1
        return self.inner(x).tanh() * by


for how in CheckpointImpl:
    torch.manual_seed(0)
    module = Scaled(2)
    wrapped = checkpoint_wrapper(module, how)
    x = torch.ones(1, 2, requires_grad=True)
    Scaled.calls = 0
    wrapped(x, by=2.0).sum().backward()
    first = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x, by=2.0).sum().backward()
    print(how, Scaled.calls, wrapped.kept, isinstance(wrapped, CheckpointWrapper))
    print([torch.equal(a, p.grad) for a, p in zip(first, module.parameters(), strict=True)])
print(list(wrapped.state_dict()), [n for n, _ in wrapped.named_parameters()])
wrapped.load_state_dict(Scaled(2).state_dict())
Scaled(2).load_state_dict(wrapped.state_dict())
net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
apply_activation_checkpointing(net, check_fn=lambda m: isinstance(m, nn.Linear))
print(net, list(net.state_dict()), net[1][0].weight.shape)
net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
apply_activation_checkpointing(net, auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}))
print(net, net[1][1])
away = offload_wrapper(nn.Linear(2, 2))
away(torch.ones(1, 2)).sum().backward()
print(away, away.weight.grad)
chosen = checkpoint_wrapper(nn.Linear(1, 1), checkpoint_fn=lambda f, x, k: f(x) * k, k=0)
print(chosen(torch.ones(1)))

with tempfile.TemporaryDirectory() as folder:
    path = os.environ["TORCHELASTIC_ERROR_FILE"] = os.path.join(folder, "error.json")

    @record
    def main(x):
        """The main."""
        return 1 / x

    print(main(2), main.__name__, main.__doc__, os.path.exists(path))
    try:
        main(0)
    except ZeroDivisionError as error:
        told = json.load(open(path))["message"]
        print(error, told["message"], sorted(told["extraInfo"]))
        print("return 1 / x" in told["extraInfo"]["py_callstack"])
print(einsum("ij->j", torch.ones(2, 3)), Dim("n").__name__)
