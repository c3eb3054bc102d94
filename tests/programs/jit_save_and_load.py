"""Functions and Modules are scripted and traced, saved, loaded and frozen."""

import io
import os
import tempfile
import warnings
from typing import NamedTuple

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)


class DecisionGate(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        else:
            return -x


class Cell(nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.gate = gate
        self.linear = nn.Linear(4, 4)

    def forward(self, x, h):
        new_h = torch.tanh(self.gate(self.linear(x)) + h)
        return new_h, new_h


class Loop(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, xs):
        h, y = torch.zeros(3, 4), torch.zeros(3, 4)
        for i in range(xs.size(0)):
            y, h = self.cell(xs[i], h)
        return y, h


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.loop = torch.jit.script(Loop(Cell(DecisionGate())))

    def forward(self, xs):
        y, h = self.loop(xs)
        return torch.relu(y)


x, h = torch.rand(3, 4), torch.rand(3, 4)
cell = Cell(DecisionGate())
traced = torch.jit.trace(cell, (x, h))
print(torch.equal(traced(x, h)[0], cell(x, h)[0]), type(traced).__name__)
scripted = torch.jit.script(cell)
print(scripted(x - 2, h)[0])
print(scripted.original_name, isinstance(scripted, torch.jit.ScriptModule))
print(scripted)
print(traced)

xs = torch.rand(5, 3, 4)
wrapped = torch.jit.trace(Wrapped(), (xs,))
print(wrapped(xs).shape, wrapped(torch.rand(7, 3, 4)).shape)

folder = tempfile.mkdtemp()
path = os.path.join(folder, "wrapped.pt")
wrapped.save(path)
loaded = torch.jit.load(path)
print(torch.equal(loaded(xs), wrapped(xs)))
print(loaded)
print([name for name, _ in loaded.named_parameters()])
print([name for name, _ in loaded.named_modules()])
print(loaded.training, loaded.eval().training, loaded.loop.cell.training)


@torch.jit.script
def steps(x, n: int):
    for i in range(n):
        if bool(x.sum() < 10):
            x = x * 2
        else:
            x = x - i
    return x


print(steps(torch.ones(2), 4), type(steps).__name__, steps.name)
buffer = io.BytesIO()
torch.jit.save(steps, buffer)
buffer.seek(0)
print(torch.jit.load(buffer)(torch.ones(2), 4))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.norm = nn.BatchNorm2d(2)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(2 * 4 * 4, 3)
        self.register_buffer("scale", torch.tensor(2.0))
        self.times = 3

    def forward(self, x):
        x = self.drop(torch.relu(self.norm(self.conv(x))))
        return self.fc(x.flatten(1)) * self.scale

    @torch.jit.export
    def encode(self, x):
        return self.conv(x)

    @torch.jit.ignore
    def shown(self, x):
        return str(x)

    @torch.jit.unused
    def later(self, x):
        return x


net = Net()
net(torch.rand(2, 1, 6, 6))
module = torch.jit.script(net)
extra = {"notes.txt": "made today"}
torch.jit.save(module, os.path.join(folder, "net.pt"), _extra_files=extra)
found = {"notes.txt": ""}
again = torch.jit.load(os.path.join(folder, "net.pt"), map_location="cpu", _extra_files=found)
print(found)
again.eval()
image = torch.rand(2, 1, 6, 6)
print(torch.allclose(again(image), net.eval()(image)))
print(again.encode(image).shape, again.scale, sorted(again.state_dict()))
print(again.fc.weight.shape, again.conv.weight.requires_grad)

frozen = torch.jit.freeze(torch.jit.script(net.eval()))
print(torch.allclose(frozen(image), net(image), atol=1e-6))
try:
    torch.jit.freeze(torch.jit.script(Net()))
except RuntimeError as error:
    print(str(error).split(".")[0])
fast = torch.jit.optimize_for_inference(torch.jit.script(net.eval()))
print(torch.allclose(fast(image), net(image), atol=1e-6))


class Two(nn.Module):
    def forward(self, x):
        return x * 2

    def third(self, x):
        return x / 3


both = torch.jit.trace_module(Two(), {"forward": image, "third": image})
print(both.third(image).shape, both(image).shape)

again.train()
optimizer = torch.optim.SGD(again.parameters(), lr=0.1)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = again(image).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item() > 0)
print(losses)
again.load_state_dict(net.state_dict())
print(torch.allclose(again.eval()(image), net(image)))

future = torch.jit.fork(steps, torch.ones(2), 2)
print(torch.jit.wait(future))


class Typed(nn.Module):
    words: dict[str, int]

    def __init__(self):
        super().__init__()
        self.words = torch.jit.Attribute({"a": 1}, dict[str, int])
        self.rows = torch.jit.annotate(list[int], [])

    def forward(self, x: torch.Tensor, name: str = "a") -> torch.Tensor:
        return x + self.words[name]


typed = torch.jit.script(Typed())
print(typed(torch.zeros(2)), typed(torch.zeros(2), "a"))
print(torch.jit.is_scripting(), torch.jit.is_tracing())
try:
    torch.jit.load(os.path.join(folder, "nothing.pt"))
except ValueError as error:
    print("does not exist" in str(error))


class Old(torch.jit.ScriptModule):
    __constants__ = ["times"]

    def __init__(self):
        super().__init__()
        self.times = 2
        self.weight = nn.Parameter(torch.ones(2, 2))

    @torch.jit.script_method
    def forward(self, x):
        for _ in range(self.times):
            x = self.weight.mv(x)
        return x


old = Old()
old.save(os.path.join(folder, "old.pt"))
print(old(torch.ones(2)), torch.jit.load(os.path.join(folder, "old.pt"))(torch.ones(2)))
copy = io.BytesIO(old.save_to_buffer())
print(torch.jit.load(copy)(torch.ones(2)))


class Pair(NamedTuple):
    first: torch.Tensor
    second: int


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        self.table = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})

    def forward(self, xs: list[torch.Tensor], ys: torch.Tensor | None = None) -> Pair:
        out = []
        for i, layer in enumerate(self.layers):
            out.append(layer(xs[i % len(xs)]))
        for _, act in self.table.items():
            out.append(act(out[0]))
        if ys is not None:
            out.append(ys)
        total: dict[str, torch.Tensor] = {"sum": torch.stack(out).sum(0)}
        assert len(out) > 3, f"too few: {len(out)}"
        return Pair(total["sum"], len(out))


pairs = torch.jit.script(Pairs())
given = [torch.ones(2), torch.zeros(2)]
file = io.BytesIO()
torch.jit.save(pairs, file)
file.seek(0)
back = torch.jit.load(file)
print(back(given).second, back(given, torch.ones(2)).second)
print(torch.equal(back(given).first, pairs(given).first))
print(isinstance(back.code, str), isinstance(str(back.graph), str))
