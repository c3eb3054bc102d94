"""Backends of the user's: what they are given, and that what they return runs."""

import os

import pytest
import stretch_models as models
from test_stretches import CHANGES, SHAPES, Gradient, bits, given, outcome, state

import weft
from weft import fx, nn
from weft.compiler import BackendCompilerFailed

pytestmark = pytest.mark.skipif(
    os.environ.get("WEFT_COMPILE") == "0", reason="nothing is compiled with WEFT_COMPILE=0"
)


class Backend:
    """Keeps the graphs that it is given, and runs them as they are."""

    def __init__(self, make=lambda gm: gm.forward):
        self.make, self.graphs, self.inputs = make, [], []

    def __call__(self, gm, inputs, **more):
        gm.graph.lint()
        self.graphs.append(gm)
        self.inputs.append(inputs)
        self.more = more
        return self.make(gm)


@pytest.mark.parametrize("function", models.FUNCTIONS)
@pytest.mark.parametrize("grad", [False, True])
def test_graphs_compute_what_functions_do(function, grad):
    compiled = weft.compile(function, backend=Backend())
    for k, shape in enumerate(SHAPES):
        expected = outcome(function, given(shape, grad, k, strided=k == 5))
        found = outcome(compiled, given(shape, grad, k, strided=k == 5))
        if isinstance(expected[0], type) and issubclass(expected[0], Exception):
            assert found[:1] == expected[:1]  # the line is that of the graph
        else:
            assert found == expected, k


@pytest.mark.parametrize("make", models.MODULES)
@pytest.mark.parametrize("change", ["nothing", "mode", "a weight replaced", "a flag", "a method"])
def test_modules(make, change):
    weft.manual_seed(1)
    eager = make()
    weft.manual_seed(1)
    other = make()
    compiled = weft.compile(other, backend=Backend())
    for t, shape in enumerate(SHAPES):
        for module in (eager, other):
            CHANGES[change](module, t)
        with weft.set_grad_enabled(t % 5 != 4):
            expected = outcome(eager, given(shape, False, t)[:1])
            assert outcome(compiled, given(shape, False, t)[:1]) == expected, t
        assert state(other) == state(eager), t
        for module in (eager, other):
            module.zero_grad()


def halves(x, y):
    a = weft.sin(x) * y
    if a.sum() > 1e9:
        a = -a
    print("seen")
    return a.relu() + 1


def test_a_graph_for_each_part(capsys):
    backend = Backend()
    compiled = weft.compile(halves, backend=backend)
    x, y = weft.randn(3), weft.randn(3)
    expected = halves(x, y)
    for _ in range(3):
        assert bits(compiled(x, y)) == bits(expected)
    assert capsys.readouterr().out == "seen\n" * 4
    assert len(backend.graphs) == 2
    first = [n.target for n in backend.graphs[0].graph.nodes if n.op == "call_function"]
    assert first[0] is weft.sin
    assert [tuple(t.shape) for t in backend.inputs[0]] == [(3,), (3,)]
    assert isinstance(backend.graphs[0], fx.GraphModule)
    compiled(weft.randn(4), weft.randn(4))
    assert len(backend.graphs) == 4
    compiled(x, y)
    assert len(backend.graphs) == 4


def test_what_it_returns_is_called():
    calls = []

    def doubled(gm):
        def run(*args):
            calls.append(len(args))
            return [t * 2 for t in gm(*args)]

        return run

    compiled = weft.compile(lambda x: weft.tanh(x) + 1, backend=Backend(doubled))
    x = weft.randn(3)
    for _ in range(3):
        assert bits(compiled(x)) == bits((weft.tanh(x) + 1) * 2)
    assert calls == [1, 1, 1]
    # another compiled function of the same code has its own
    other = weft.compile(compiled.callee)
    for _ in range(4):
        assert bits(other(x)) == bits(weft.tanh(x) + 1)
    assert bits(compiled(x)) == bits((weft.tanh(x) + 1) * 2)


def test_passes_over_the_graph():
    def to_silu(gm, inputs):
        fx.replace_pattern(gm, lambda x: x * weft.sigmoid(x), lambda x: nn.functional.silu(x))
        assert "silu" in gm.code
        return gm

    def swish(x):
        return x * weft.sigmoid(x)

    x = weft.randn(5, requires_grad=True)
    compiled = weft.compile(swish, backend=to_silu)
    assert weft.allclose(compiled(x), swish(x))
    compiled(x).sum().backward()
    found = Gradient(x.grad)
    x.grad = None
    swish(x).sum().backward()
    assert weft.allclose(found.value, x.grad)


def test_arguments_of_backends():
    backend = Backend()
    weft.compile(lambda x: x + 1, backend=backend, options={"level": 3})(weft.ones(1))
    assert backend.more == {"options": {"level": 3}}
    weft.compile(lambda x: x + 1, backend=backend, mode="mine")(weft.ones(1))
    assert backend.more == {"mode": "mine"}
    model = nn.Linear(2, 2)
    model.compile(backend=backend)
    model(weft.ones(1, 2))
    assert len(backend.graphs) == 3


def fails(gm, inputs):
    raise KeyError("no")


FAULTS = {
    "it raises": (fails, BackendCompilerFailed, "backend='fails' raised:\nKeyError: 'no'"),
    "no callable": (lambda gm, inputs: 3, BackendCompilerFailed, "TypeError: .* got int"),
    "other results": (lambda gm, inputs: lambda *a: [], RuntimeError, "0 results in place of 1"),
    "another layout": (lambda gm, inputs: lambda *a: [a[0][:1]], RuntimeError, ".1. in place"),
    "no tensors": (lambda gm, inputs: lambda *a: [1], RuntimeError, "got int"),
    "no backend": (3, TypeError, "a name or a function"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name):
    backend, kind, words = FAULTS[name]
    with pytest.raises(kind, match=words):
        weft.compile(lambda x: x + 1, backend=backend)(weft.ones(3))
