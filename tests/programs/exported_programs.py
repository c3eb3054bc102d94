"""Modules are exported with free and fixed sizes, looked at, saved, loaded and run."""

import io
import warnings

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

if torch.__name__ == "weft":
    while_loop = torch.while_loop
else:  # PyTorch keeps it elsewhere
    from torch._higher_order_ops.while_loop import while_loop

warnings.simplefilter("ignore")
torch.manual_seed(0)


class Mod(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 3)
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x, y):
        return nn.functional.relu(self.lin(x + y), inplace=True) + self.shift


def refused(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return "nothing"


args = torch.randn(2, 8), torch.randn(2, 8)
mod = Mod()
exported = export(mod, args)
print(type(exported).__name__, isinstance(exported, ExportedProgram))
print(torch.allclose(exported.module()(*args), mod(*args)))
print(list(exported.state_dict), [n for n, _ in exported.named_parameters()])
print([n for n, _ in exported.named_buffers()], len(list(exported.parameters())))
print(len(exported.example_inputs[0]), exported.example_inputs[1])
print(refused(exported, *args))
print(refused(exported.module(), torch.randn(3, 8), torch.randn(3, 8)))
print(refused(export, lambda x: x, args))

batch = Dim("batch")
dynamic = export(mod, args, dynamic_shapes={"x": {0: batch}, "y": {0: batch}})
for rows in (2, 5, 9):
    x = torch.randn(rows, 8), torch.randn(rows, 8)
    print(torch.allclose(dynamic.module()(*x), mod(*x)))
print(refused(dynamic.module(), torch.randn(3, 8), torch.randn(4, 8)))
print(refused(dynamic.module(), torch.randn(3, 7), torch.randn(3, 7)))
print(len(dynamic.range_constraints))

small = Dim("small", min=2, max=4)
bounded = export(mod, args, dynamic_shapes=({0: small}, {0: small}))
print(bounded.module()(torch.randn(4, 8), torch.randn(4, 8)).shape)
print(refused(bounded.module(), torch.randn(5, 8), torch.randn(5, 8)))
print(small.__name__, small.min, small.max)

for spec in (Dim.DYNAMIC, Dim.AUTO):
    auto = export(mod, args, dynamic_shapes=((spec, None), (spec, Dim.STATIC)))
    print(auto.module()(torch.randn(6, 8), torch.randn(6, 8)).shape)
dx, dy = torch.export.dims("dx", "dy")


class Outer(nn.Module):
    def forward(self, x, y):
        return x[:, None] * y


outer = export(Outer(), (torch.ones(3), torch.ones(4)), dynamic_shapes={"x": {0: dx}, "y": {0: dy}})
print(outer.module()(torch.ones(5), torch.ones(7)).shape)


class Halves(nn.Module):
    def forward(self, x, y):
        return x + y[::2]


half = Dim("half", min=2, max=100)
derived = export(
    Halves(), (torch.ones(4), torch.ones(8)), dynamic_shapes={"x": {0: half}, "y": {0: 2 * half}}
)
print(derived.module()(torch.ones(5), torch.ones(10)).shape)
print(refused(derived.module(), torch.ones(5), torch.ones(11)))


class Nested(nn.Module):
    def forward(self, pair, table, *, scale=1.0):
        a, b = pair
        return {"sum": (a + b) * scale, "c": table["c"] * 2}


inputs = ((torch.ones(3, 2), torch.ones(3, 2)), {"c": torch.ones(3)})
nested = export(
    Nested(), inputs, kwargs={"scale": 2.0},
    dynamic_shapes={
        "pair": ({0: batch}, {0: batch}), "table": {"c": {0: batch}}, "scale": None,
    },
)  # fmt: skip
more = ((torch.ones(4, 2), torch.ones(4, 2)), {"c": torch.ones(4)})
out = nested.module()(*more, scale=2.0)
print(out["sum"].shape, out["c"].tolist())


class Chooses(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        def yes(x):
            return self.lin(x).sin()

        def no(x):
            return x.cos() + 1

        return torch.cond(x.sum() > 0, yes, no, (x,))


chooses = Chooses()
program = export(chooses, (torch.ones(2, 3),), dynamic_shapes={"x": {0: Dim("n")}})
for x in (torch.ones(4, 3), -torch.ones(4, 3)):
    print(torch.allclose(program.module()(x), chooses(x)))


class Doubles(nn.Module):
    def forward(self, n, x):
        def small(n, x):
            return n < 5

        def body(n, x):
            return n + 1, x * 2

        return while_loop(small, body, (n, x))


loop = export(Doubles(), (torch.tensor(0), torch.ones(2)))
print(loop.module()(torch.tensor(2), torch.ones(2)))


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls


counts = export(Counts(), (torch.ones(1),))
run = counts.module()
print(run(torch.ones(1)), run(torch.ones(1)), counts.state_dict["calls"])

file = io.BytesIO()
torch.export.save(dynamic, file, extra_files={"notes.txt": "free rows"})
file.seek(0)
found = {"notes.txt": ""}
loaded = torch.export.load(file, extra_files=found)
x = torch.randn(7, 8), torch.randn(7, 8)
print(found, torch.allclose(loaded.module()(*x), mod(*x)))
print(refused(loaded.module(), torch.randn(3, 8), torch.randn(4, 8)))
print(list(loaded.state_dict))
print(torch.allclose(exported.run_decompositions().module()(*args), mod(*args)))
again = torch.export.unflatten(exported)
print(torch.allclose(again(*args), mod(*args)), again.lin.weight.shape)
signature = exported.graph_signature
print(signature.user_inputs, list(signature.parameters), list(signature.buffers))
print(signature.inputs_to_parameters, signature.inputs_to_buffers)
print(list(exported.constants))


class Checked(nn.Module):
    def forward(self, x, n):
        size = n.item()
        torch._check(size >= 0)
        torch._check(size <= x.shape[0], lambda: "too many")
        return x[:size] if False else torch.ones(size).sum() + x.sum()


checked = export(Checked(), (torch.ones(3), torch.tensor(2)))
print(checked.module()(torch.ones(3), torch.tensor(3)))
