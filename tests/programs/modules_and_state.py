"""Modules print their structure; parameters and buffers have names, and states move."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )
        self.gain = nn.Parameter(torch.ones(1))
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x):
        self.steps += 1
        return x + self.gain * self.mlp(self.norm(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4, padding_idx=0)
        self.blocks = nn.ModuleList(Block(4) for _ in range(2))
        self.cells = nn.ModuleDict({"gru": nn.GRUCell(4, 3), "lstm": nn.LSTMCell(4, 3)})
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(4, 5, bias=False)

    def extra_repr(self):
        return "toy"

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.drop(x))


torch.manual_seed(7)
model = Model()
print(model)
for name, parameter in model.named_parameters():
    print(name, parameter.shape, parameter.requires_grad)
for name, buffer in model.named_buffers():
    print(name, buffer)
print([name for name, _ in model.named_children()])
print([name for name, _ in model.blocks[0].named_modules()])
print(model.embed.weight)
print(model.blocks[0].norm.weight, model.blocks[0].norm.bias)

model.eval()
print(model.training, model.drop.training)
out = model(torch.tensor([[1, 2, 0], [4, 0, 3]]))
print(out)
print(model.blocks[0].steps)

state = model.state_dict()
print(list(state))
print(state["blocks.1.steps"], state["embed.weight"])
torch.manual_seed(3)
other = Model().eval()
print(other.load_state_dict(state))
print(torch.equal(other(torch.tensor([1])), model(torch.tensor([1]))))
partial = {name: value for name, value in state.items() if not name.startswith("cells")}
missing = other.load_state_dict(partial, strict=False)
print(len(missing.missing_keys), missing.unexpected_keys)
try:
    other.load_state_dict(partial)
except RuntimeError as error:
    print(type(error).__name__)
print(nn.Sequential(nn.Linear(2, 3), nn.Tanh()).state_dict())

for parameter in model.head.parameters():
    parameter.requires_grad_(False)
print(sum(p.numel() for p in model.parameters() if p.requires_grad))
print(model.double().head.weight.dtype, model.blocks[0].steps.dtype)
print(model.head.weight)
