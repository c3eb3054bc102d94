"""weft.fx: what is traced, changed, written and run; names and text as PyTorch's."""

import copy
import math
import operator
import pickle
import types

import pytest

import weft
from weft import fx, nn
from weft.nn import functional as F

try:
    import torch
    import torch.fx
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is the peer")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
        self.scale = nn.Parameter(weft.full((2,), 2.0))
        self.register_buffer("shift", weft.ones(2))

    def forward(self, x, bias=0.5):
        h = self.rest(self.first(x) + bias)
        return {"y": h * self.scale + self.shift, "n": x.shape[0]}


FUNCTIONS = {
    "operators": lambda t: lambda x: -((x + 1) ** 2) / (3 - x) + (x < 2) * 2.0 - 1 // x,
    "attributes": lambda t: lambda x: x.T.shape[-1] + x.ndim,
    "methods": lambda t: lambda x: x.view(-1, 3).sum(0, keepdim=True).relu_(),
    "functions": lambda t: lambda x: t.cat([t.relu(x), x], dim=1).chunk(2, 1)[0],
    "items": lambda t: lambda x: x[1:, None, :2] + x[0, ...],
    "unpacked": lambda t: unpacked,
    "star": lambda t: lambda *a, **k: a[0] + k["z"],
    "results": lambda t: lambda x: ({"a": x, "b": [x, (x,)]}, slice(1, None), 3.5, None),
    "augmented": lambda t: augmented,
    "numbers of math": lambda t: lambda x: math.sqrt(x) + 1,
    "keyword names": lambda t: lambda x: x.sum() + x.max(dim=0).values,
    "dtypes": lambda t: lambda x: x.to(t.float64) * t.ones(2, dtype=t.float64),
}


def unpacked(x):
    a, b = x.chunk(2, 0)
    (c, d), e = a.unbind(1), b
    return c + d - e


def augmented(x, y=2, *, z=None):
    x += y
    x = x * x
    return x


def clean(code):
    return [line.rstrip() for line in code.strip().splitlines() if not line.startswith("torch.fx")]


@needs_torch
@pytest.mark.parametrize("name", FUNCTIONS)
def test_code_and_graph_are_pytorchs(name):
    if name in ("star", "numbers of math"):
        pytest.skip("PyTorch writes other names")
    ours = fx.symbolic_trace(FUNCTIONS[name](weft))
    theirs = torch.fx.symbolic_trace(FUNCTIONS[name](torch))
    assert clean(ours.code) == clean(theirs.code)
    shown = str(ours.graph).replace("torch.float64", "dtype")
    assert shown == str(theirs.graph).replace("torch.float64", "dtype")


RUN = {
    "operators": (3, 3), "methods": (2, 3), "functions": (2, 2), "items": (4, 2),
    "unpacked": (4, 2), "augmented": (2,), "keyword names": (3, 3), "dtypes": (2, 2),
    "attributes": (2, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", RUN)
def test_what_is_traced_computes_the_same(name):
    function = FUNCTIONS[name](weft)
    traced = fx.symbolic_trace(function)
    for seed in range(2):
        weft.manual_seed(seed)
        x = weft.randn(*RUN[name])
        expected, found = function(x.clone()), traced(x.clone())
        assert fx.Interpreter(traced).run(x.clone()) == found if isinstance(found, int) else True
        assert repr(expected) == repr(found)
    again = pickle.loads(pickle.dumps(fx.Graph.__deepcopy__(traced.graph, {})))
    assert str(again) == str(traced.graph)


def test_a_module():
    model = Net()
    traced = fx.symbolic_trace(model)
    x = weft.randn(5, 3)
    assert weft.equal(traced(x)["y"], model(x)["y"])
    assert traced(x)["n"] == 5
    assert weft.equal(traced(x, bias=1.0)["y"], model(x, 1.0)["y"])
    assert dict(traced.named_parameters()).keys() == dict(model.named_parameters()).keys()
    assert traced.state_dict().keys() == model.state_dict().keys()
    ops = [(n.op, str(n.target)) for n in traced.graph.nodes if n.op.startswith("call_mod")]
    assert ops == [("call_module", t) for t in ("first", "rest.0", "rest.1")]
    assert isinstance(traced.rest, nn.Module) and traced.scale is model.scale
    traced(x)["y"].sum().backward()
    assert model.first.weight.grad is not None
    assert "Net()" in str(traced) or "Net(" in str(traced)
    assert weft.equal(weft.compile(traced)(x)["y"], model(x)["y"])


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy,
                                   lambda m: pickle.loads(pickle.dumps(m))])  # fmt: skip
def test_copies(again):
    traced = fx.symbolic_trace(Net())
    made, x = again(traced), weft.randn(2, 3)
    assert type(made).__name__ == "Net"
    assert made.code == traced.code
    assert weft.equal(made(x)["y"], traced(x)["y"])
    node = made.graph.find_nodes(op="call_function", target=operator.add)[0]
    node.target = operator.sub
    made.recompile()
    assert "first - bias" in made.code
    assert "first + bias" in traced.code


def test_nodes_are_changed():
    traced = fx.symbolic_trace(lambda x: weft.relu(x) + weft.relu(x * 2))
    for node in traced.graph.nodes:
        if node.target is weft.relu:
            with traced.graph.inserting_after(node):
                made = traced.graph.call_function(F.silu, node.args)
            node.replace_all_uses_with(made)
            traced.graph.erase_node(node)
    traced.graph.lint()
    traced.recompile()
    x = weft.randn(4)
    assert weft.equal(traced(x), F.silu(x) + F.silu(x * 2))
    assert [n.op for n in traced.graph.nodes].count("call_function") == 4
    with pytest.raises(RuntimeError, match="still had 2 users"):
        traced.graph.erase_node(traced.graph.find_nodes(op="placeholder")[0])


def test_dead_code_goes_and_effects_stay():
    def f(x):
        x * 3
        x.add_(1)
        weft.rand(2)
        return x

    traced = fx.symbolic_trace(f)
    assert traced.graph.eliminate_dead_code()
    assert [n.target for n in traced.graph.nodes if n.op.startswith("call")] == ["add_"]
    assert not traced.graph.eliminate_dead_code()


def test_dead_code_leaves_modes_and_what_draws():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(weft.set_grad_enabled, (False,))
    graph.call_function(weft.poisson, (x,))
    graph.call_function(weft._C.ops.dropout, (x, 0.5, True))
    graph.output(x)
    assert not graph.eliminate_dead_code()


def test_names_of_arguments_that_python_has_as_words():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_method("uniform_", (x,), {"to": 4, "from": 3}))
    made = fx.GraphModule(weft.nn.Module(), graph)
    assert "x.uniform_(to = 4, **{'from': 3})" in made.code
    assert made(weft.zeros(8)).min() >= 3


def test_lint():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(weft.relu, (x,))
    z = graph.call_function(weft.tanh, (y,))
    graph.output(z)
    graph.lint()
    y.prepend(z)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()
    with pytest.raises(RuntimeError, match="nonexistent attribute"):
        traced = fx.symbolic_trace(Net())
        traced.graph.find_nodes(op="call_module")[0].target = "nothing"
        traced.graph.lint()
    with pytest.raises(RuntimeError, match="of another"):
        fx.Graph().call_function(weft.relu, (x,))
    with pytest.raises(ValueError, match="callable"):
        graph.create_node("call_function", "relu")


REFUSED = {
    "a branch": (lambda x: x if x.sum() > 0 else -x, fx.TraceError, "control flow"),
    "a loop": (lambda x: [y for y in x], fx.TraceError, "cannot be iterated"),
    "a length": (lambda x: x.__len__(), RuntimeError, "'len' is not supported"),
    "an int": (lambda x: int(x), fx.TraceError, "values are not known"),
    "a range": (lambda x: list(range(x)), fx.TraceError, "values are not known"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_values_is_refused(name):
    function, kind, words = REFUSED[name]
    before = weft.relu, nn.Module.__call__, F.dropout
    with pytest.raises(kind, match=words):
        fx.symbolic_trace(function)
    assert (weft.relu, nn.Module.__call__, F.dropout) == before


fx.wrap("len")
fx.wrap("opaque")


def opaque(x, n):
    return x * n if x.sum() > 0 else x


def test_wrapped_functions_are_nodes():
    space = types.SimpleNamespace(**globals())
    traced = fx.symbolic_trace(lambda x: opaque(x, 2) + len(x))
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"] == [
        space.opaque, len, operator.add,
    ]  # fmt: skip
    assert traced(weft.ones(3)).tolist() == [5, 5, 5]
    assert opaque(weft.ones(1), 3).item() == 3


def test_wrapped_functions_are_a_modules():
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level"):
        fx.wrap("opaque")
    space = {"fx": fx}
    exec("@fx.wrap\ndef gone(x):\n    return x", space)
    del space["gone"]  # traces after this raised AttributeError: builtins has no 'gone'
    assert fx.symbolic_trace(lambda x: x + 1)(1) == 2
    assert "gone" not in space


class Shapes(fx.Interpreter):
    def run_node(self, n):
        value = super().run_node(n)
        n.meta["shape"] = getattr(value, "shape", None)
        return value


class Swapped(fx.Transformer):
    def call_function(self, target, args, kwargs):
        return super().call_function(weft.tanh if target is weft.relu else target, args, kwargs)

    def call_module(self, target, args, kwargs):
        return super().call_module(target, args, kwargs) * 2


def test_interpreters():
    traced = fx.symbolic_trace(Net())
    Shapes(traced).run(weft.ones(5, 3))
    shapes = {n.name: n.meta["shape"] for n in traced.graph.nodes}
    assert shapes["first"] == (5, 4)
    assert shapes["mul"] == (5, 2)
    model = nn.Sequential(nn.Linear(3, 3))
    plain = fx.symbolic_trace(model)
    doubled = Swapped(plain).transform()
    x = weft.ones(2, 3)
    assert weft.equal(doubled(x), model(x) * 2)
    relu = fx.symbolic_trace(lambda x: weft.relu(x) + 1)
    assert weft.equal(Swapped(relu).transform()(x), weft.tanh(x) + 1)


def test_patterns():
    traced = fx.symbolic_trace(lambda x, y: (x.sigmoid() * x) @ y + y.sigmoid() * y)
    found = fx.replace_pattern(traced, lambda a: a.sigmoid() * a, lambda a: F.silu(a))
    assert len(found) == 2
    x = weft.randn(3, 3)
    assert weft.allclose(traced(x, x), F.silu(x) @ x + F.silu(x))
    assert "sigmoid" not in traced.code
    used_outside = fx.symbolic_trace(lambda x: (x.sigmoid() * x, x.sigmoid()))
    assert (
        len(fx.replace_pattern(used_outside, lambda a: a.sigmoid() * a, lambda a: F.silu(a))) == 1
    )


class Mine(fx.Tracer):
    def is_leaf_module(self, m, name):
        return False


def test_a_tracer_of_ones_own():
    model = Net()
    graph = Mine().trace(model)
    assert not graph.find_nodes(op="call_module")
    assert len(graph.find_nodes(op="get_attr")) == 6
    x = weft.randn(2, 3)
    assert weft.equal(fx.GraphModule(model, graph)(x)["y"], model(x)["y"])


def test_concrete_arguments():
    def f(a, double):
        return a * 2 if double else a

    traced = fx.symbolic_trace(f, concrete_args={"double": False})
    assert traced(weft.ones(1)).item() == 1


def test_constants_and_batch_norm_folded():
    """What passes are written for: a BatchNorm in eval mode goes into the Linear before it."""
    weft.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
    model(weft.randn(8, 3))
    model.eval()
    traced = fx.symbolic_trace(model)
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and isinstance(modules[node.target], nn.BatchNorm1d):
            linear, norm = modules[node.args[0].target], modules[node.target]
            factor = norm.weight / (norm.running_var + norm.eps).sqrt()
            with weft.no_grad():
                linear.bias.copy_((linear.bias - norm.running_mean) * factor + norm.bias)
                linear.weight.mul_(factor[:, None])
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.recompile()
    traced.delete_all_unused_submodules()
    assert [n for n, _ in traced.named_modules() if n] == ["0", "2"]
    x = weft.randn(5, 3)
    before = weft.relu(model[1](model[0](x)))
    assert traced(x).shape == before.shape
    constant = fx.symbolic_trace(lambda x: x + weft.arange(3.0))
    assert constant._tensor_constant0.tolist() == [0, 1, 2]
    assert list(constant.state_dict()) == []


def test_tables_and_text(capsys):
    traced = fx.symbolic_trace(Net())
    traced.graph.print_tabular()
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert len(table) == len(traced.graph.nodes) + 2
    text = traced.print_readable(print_output=False)
    assert text.startswith("class Net(torch.nn.Module):\n    def forward(self, x, bias = 0.5):")


def test_the_code_of_a_graph_is_pytorchs(torch):
    """Its blank lines too: programs compare it, and put it into files."""

    def texts(t):
        class Net(t.nn.Module):
            def forward(self, x, y):
                return {"a": t.relu(x) + y, "b": [x.view(-1, 2)]}

        return [t.fx.symbolic_trace(Net()).code, t.fx.symbolic_trace(lambda x: x + 1).code]

    assert texts(weft) == texts(torch)
