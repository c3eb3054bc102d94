"""How packages load large models: built on meta, parameter by parameter, then given values."""

from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def empty_weights(include_buffers=False):
    register_parameter, register_buffer = nn.Module.register_parameter, nn.Module.register_buffer
    makers = {name: getattr(torch, name) for name in ("empty", "zeros", "ones", "full")}

    def register_empty_parameter(module, name, param):
        register_parameter(module, name, param)
        if param is not None:
            cls = type(module._parameters[name])
            kwargs = module._parameters[name].__dict__
            kwargs["requires_grad"] = param.requires_grad
            moved = module._parameters[name].to(torch.device("meta"))
            module._parameters[name] = cls(moved, **kwargs)

    def register_empty_buffer(module, name, buffer, persistent=True):
        register_buffer(module, name, buffer, persistent=persistent)
        if buffer is not None:
            module._buffers[name] = module._buffers[name].to(torch.device("meta"))

    def on_meta(make):
        def made(*args, **kwargs):
            kwargs["device"] = torch.device("meta")
            return make(*args, **kwargs)

        return made

    try:
        nn.Module.register_parameter = register_empty_parameter
        if include_buffers:
            nn.Module.register_buffer = register_empty_buffer
            for name, make in makers.items():
                setattr(torch, name, on_meta(make))
        yield
    finally:
        nn.Module.register_parameter = register_parameter
        nn.Module.register_buffer = register_buffer
        for name, make in makers.items():
            setattr(torch, name, make)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width, bias=False)
        self.register_buffer("mask", torch.ones(width, width).tril())

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x)))) @ self.mask


class Net(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.table = nn.Embedding(11, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def place(module, name, value):
    """A value in place of a parameter without one."""
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    old = getattr(module, last)
    if last in module._buffers:
        module._buffers[last] = value
        return
    cls = type(module._parameters[last])
    module._parameters[last] = cls(value, requires_grad=old.requires_grad)


torch.manual_seed(0)
source = Net()
tokens = torch.tensor([[1, 2, 3], [4, 5, 10]])
for include_buffers in (False, True):
    with empty_weights(include_buffers):
        net = Net()
    devices = {name: t.device.type for name, t in net.state_dict().items()}
    print(sorted(set(devices.values())), devices["table.weight"], devices["blocks.0.mask"])
    print(all(p.is_meta and p.requires_grad and p.is_leaf for p in net.parameters()))
    for name, value in source.state_dict().items():
        place(net, name, value.clone())
    net.head.weight = net.table.weight
    print(torch.equal(net(tokens), source(tokens)), net.head.weight is net.table.weight)

with torch.device("meta"):
    net = Net()
    print(net.head.weight is net.table.weight, net.table.weight.device, net.blocks[0].mask.device)
    print(net(torch.zeros(2, 3, dtype=torch.long)).shape)
print(sum(p.numel() * p.element_size() for p in net.parameters()))
missing = net.load_state_dict(source.state_dict(), strict=False, assign=True)
print(missing.missing_keys, missing.unexpected_keys, net.head.weight.requires_grad)
print(torch.equal(net(tokens), source(tokens)))

torch.set_default_device("meta")
layer = nn.Linear(3, 4)
print(layer.weight.device == torch.device("meta"), torch.tensor([1.0]).device)
print(torch.get_default_device())
torch.set_default_device("cpu")
print(torch.zeros(1).device, layer.to_empty(device="cpu").weight.shape)

half = nn.Linear(3, 4, device="meta", dtype=torch.bfloat16)
print(half.weight.dtype, half.weight, half.to(torch.float64).bias.dtype)
param = nn.Parameter(torch.ones(2, 2))
moved = param.to("meta")
print(moved.is_meta, moved.requires_grad, moved.is_leaf, param.device.type)
print(type(param.data.to("meta")))
print(param.to("meta").device.type == "meta", nn.Parameter(moved.detach()).is_meta)
frozen = nn.Parameter(torch.empty(2, 2, device="meta"), requires_grad=False)
print(frozen, frozen.requires_grad, torch.empty_like(frozen, device="cpu").shape)
