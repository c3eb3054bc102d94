"""What scripts read of an exported program: graph, signature, bounds; branches and loops."""

import io
import warnings

import torch
from torch import nn
from torch.export import Dim, export
from torch.export.graph_signature import InputKind, OutputKind

warnings.simplefilter("ignore")
torch.manual_seed(0)


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 3)
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x, y):
        return torch.nn.functional.relu(self.lin(x + y) + self.shift), x.sum()


mod = Module()
exported = export(mod, (torch.randn(4, 6), torch.randn(4, 6)))
signature = exported.graph_signature
print(signature.parameters, signature.buffers, signature.user_inputs, len(signature.user_outputs))
print(signature.inputs_to_parameters, signature.inputs_to_buffers)
for spec in signature.input_specs:
    print(spec.kind.name, spec.arg.name, spec.target, spec.kind == InputKind.PARAMETER)
print([(spec.kind == OutputKind.USER_OUTPUT, spec.target) for spec in signature.output_specs])
for node in exported.graph.nodes:
    if node.op == "placeholder":
        print(node.name, tuple(node.meta["val"].shape), node.meta["val"].dtype)
calls = [node for node in exported.graph.nodes if node.op == "call_function"]
print(any("relu" in str(node.target) for node in calls), list(exported.graph.nodes)[-1].op)
x, y = torch.randn(4, 6), torch.randn(4, 6)
given = [mod.lin.weight, mod.lin.bias, mod.shift, x, y]
out = torch.fx.Interpreter(exported.graph_module).run(*given)
print(type(out).__name__, torch.allclose(out[0], mod(x, y)[0]))


class Branches(nn.Module):
    def forward(self, x, y):
        def sines(x, y):
            return torch.sin(y)

        def cosines(x, y):
            return torch.cos(y)

        return torch.cond(x.sum() > 0, sines, cosines, [x, y])


module = export(Branches(), (torch.randn(3), torch.randn(3))).module()
for x in (torch.ones(3), -torch.ones(3)):
    print(module(x, torch.ones(3)))


class Counts(nn.Module):
    def forward(self, n, x):
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(lambda n, x: n.sum() > 0, lambda n, x: (n - 1, x + x), (n, x))


print(export(Counts(), (torch.tensor(3), torch.ones(2))).module()(torch.tensor(5), torch.ones(2)))


class Sizes(nn.Module):
    def forward(self, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k < 10)
        return torch.zeros(k).sum() + k


print(export(Sizes(), (torch.tensor(3),)).module()(torch.tensor(4)))
rows = Dim("rows", min=2, max=9)
free = export(mod, (x := torch.randn(4, 6), x), dynamic_shapes={"x": {0: rows}, "y": {0: rows}})
file = io.BytesIO()
torch.export.save(free, file, extra_files={"note.txt": "free"})
file.seek(0)
extra = {"note.txt": ""}
loaded = torch.export.load(file, extra_files=extra)
print(extra, loaded.module()(torch.ones(7, 6), torch.ones(7, 6))[0].shape)
print([node.op for node in loaded.graph.nodes][:5], sorted(loaded.state_dict))
