"""jit.trace: what was written down computes what the function does, or raises."""

import copy
import pickle
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, flat, ours
from test_stretches import Gradient, bits

import weft
from weft import nn
from weft.fx.recording import Recording
from weft.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import zoo  # noqa: E402


class Pair(NamedTuple):
    first: weft.Tensor
    second: weft.Tensor


class Square(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0] * 3  # to be told from the true one


outside = weft.arange(3.0) + 1


def writes(x, y):
    z = x + 1
    z[0] = 2.0
    z[:, 1] += y[:, 1]
    z.mul_(3).relu_()
    return z


def writes_at_places(x, y):
    """The call in place has its arguments by name: it was written down in the op's own order."""
    z, w = x + 1, y.double()
    z[weft.tensor([True, False])] = 3.0
    z[weft.tensor([0, 1])] *= y
    z[:, weft.tensor([2, 0])] = y[:, :2]
    w[weft.tensor([1])] = x[0]
    return z, w


def writes_elsewhere(x, y):
    with weft.no_grad():
        weft.add(x, y, out=(z := weft.empty(0)))
        z.zero_().add_(x)
    return z * y


def writes_to_input(x, y):
    with weft.no_grad():
        x.add_(1)
    return x * y


def no_grad_inside(x, y):
    with weft.no_grad():
        scale = x.abs().max()
        with weft.enable_grad():
            z = x * y
    return z / (scale + 1), z.detach() + x, x.detach().view(-1)[1:]


def gradient_inside(x, y):
    x = x.detach().requires_grad_()
    (g,) = weft.autograd.grad((x * x * y).sum(), x, create_graph=True)
    return g * 2


def views(x, y):
    a, b = (x + y).chunk(2, 0)
    return weft.cat([b, a]).T, x[None, 1:, :2], x[weft.tensor([0, 1])], x.transpose(0, 1).flatten()


FUNCTIONS = {
    "pointwise": lambda x, y: weft.tanh(x * 2 + y) - 1 / (y * y + 1),
    "several": lambda x, y: (x @ y.T, Pair(x.sum(), y.max(0).values), (x, (y + 1,))),
    "writes": writes,
    "writes to an input": writes_to_input,
    "writes elsewhere": writes_elsewhere,
    "writes at places": writes_at_places,
    "no_grad inside": no_grad_inside,
    "a gradient inside": gradient_inside,
    "views": views,
    "dropout": lambda x, y: F.dropout(x, 0.5) * weft.rand(3) + weft.randn_like(y),
    "a function of ones own": lambda x, y: Square.apply(x) * y,
    "from elsewhere": lambda x, y: x * outside + weft.tensor([1.0, 2.0, 3.0]),
    "of a library": lambda x, y: weft.linalg.svdvals(x) + weft.special.erfcx(y[:2, 0]).sum(),
    "a loop": lambda x, y: sum([weft.sin(x * k) for k in range(4)], y),
    "losses": lambda x, y: F.cross_entropy(x, y.argmax(1)) + F.mse_loss(x, y),
    "norms": lambda x, y: F.layer_norm(x, (3,)) + F.softmax(y, -1) + F.gelu(x),
    "einsum": lambda x, y: weft.einsum("ij,ij->i", x, y).unsqueeze(1).expand(2, 3) + x,
}


def given(seed, grad):
    weft.manual_seed(seed)
    x, y = weft.randn(2, 3), weft.randn(2, 3)
    if not grad:
        return x, y
    return x.requires_grad_(), y.requires_grad_()


def outcome(function, inputs):
    weft.manual_seed(5)
    result = function(*inputs)
    parts = flat(result)
    described = [(bits(t), t.shape, t.stride(), t.requires_grad) for t in parts]
    tracked = [t for t in parts if t.grad_fn is not None]
    if tracked:
        weft.autograd.backward([t.square().sum() for t in tracked])
    changed = [bits(t) for t in inputs]
    return type(result), described, changed, weft.get_rng_state().tolist(), [
        Gradient(t.grad) for t in inputs
    ]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("grad", [False, True])
def test_functions(name, grad):
    function = FUNCTIONS[name]
    traced = weft.jit.trace(function, given(0, grad))
    for k in range(4):
        assert outcome(traced, given(k, grad)) == outcome(function, given(k, grad)), k
    compile(traced.code, "code", "exec")
    text = str(traced.graph)
    assert text.startswith("graph():") and "return" in text


@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_every_op_is_written_down(name, sample):
    """By the samples in the records: the graph makes the call again, to the bit."""
    f = ours(RECORDS[name])

    def recorded(*args, **kwargs):
        recording = Recording(None)
        state = weft.get_rng_state()
        try:
            result = recording.run(f, *args, **kwargs)
        except NotImplementedError as error:
            pytest.skip(str(error)[:40])
        module = recording.module("Sample")
        module.graph.lint()
        writes = any(str(n.target).endswith("_") for n in module.graph.nodes)
        if "empty" not in name and not writes:
            weft.set_rng_state(state)
            assert shown(module()) == shown(result)
        return result

    expected = Inputs(weft, "float32", sample).run(f, sample)
    found = Inputs(weft, "float32", sample).run(recorded, sample)
    assert "empty" in name or shown(found) == shown(expected)


def shown(value):
    return [bits(t) if isinstance(t, weft.Tensor) else t for t in flat(value)]


def branch(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def item(x):
    return x * x.max().item()


def rows(x):
    return x + weft.tensor(x.tolist()).sum()


def numpy_read(x):
    return x * float(x.detach().numpy().sum())


def index_read(x):
    return x[int(x.argmax())]


def sizes(x):
    return x[x > 0] * 2


READS = {
    "branch": (branch, "branch", 2), "item": (item, "item", 2),
    "tolist": (rows, "rows", 2), "numpy": (numpy_read, "numpy_read", 2),
    "int": (index_read, "index_read", 2), "sizes": (sizes, "sizes", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_another_value_read_raises(name):
    """The trace of PyTorch computes something else without a word."""
    function, _, _ = READS[name]
    x = weft.tensor([1.0, -0.25, 3.0])
    traced = weft.jit.trace(function, x)
    assert weft.equal(traced(x), function(x))
    line = function.__code__.co_firstlineno + 1
    with pytest.raises(RuntimeError, match=rf"traced run .*test_jit_trace.py:{line}"):
        traced(weft.tensor([-5.0, 1.0, -2.0]))
    traced.graph.eliminate_dead_code()
    module = weft.fx.GraphModule(traced.graph.owning_module, traced.graph)
    with pytest.raises(RuntimeError, match="traced run"):
        module(weft.tensor([-5.0, 1.0, -2.0]))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rest = nn.Linear(3, 4), nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.scale = nn.Parameter(weft.ones(4))

    def forward(self, x, shift=None):
        h = self.rest(self.first(x).relu()) * self.scale
        return h if shift is None else h + shift

    def twice(self, x):
        return self(x) * 2


def test_a_module():
    weft.manual_seed(0)
    model, x = Net(), weft.randn(5, 3)
    other = copy.deepcopy(model)
    traced = weft.jit.trace(model, x)
    assert isinstance(traced, weft.jit.ScriptModule)
    assert isinstance(traced, weft.jit.TopLevelTracedModule)
    assert traced.original_name == "Net"
    assert [*traced.state_dict()] == [*model.state_dict()]
    assert traced.first.weight is model.first.weight
    # the runs that traced and checked it changed nothing
    assert all(weft.equal(a, b) for a, b in zip(model.buffers(), other.buffers(), strict=True))
    for training in (True, False, True):
        (traced.train if training else traced.eval)()
        other.train(training)
        assert traced.training is model.training is training
        for seed in range(3):
            weft.manual_seed(seed)
            found = traced(x)
            weft.manual_seed(seed)
            expected = other(x)
            assert bits(found) == bits(expected)
            found.sum().backward()
            expected.sum().backward()
    for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
        assert Gradient(p.grad) == Gradient(q.grad), name
    assert all(weft.equal(a, b) for a, b in zip(model.buffers(), other.buffers(), strict=True))
    assert "torch.linear(x, first_weight, first_bias)" in traced.code


def test_other_layouts_are_traced_anew():
    model = Net().eval()
    traced = weft.jit.trace(model, weft.randn(5, 3))
    for shape in ((2, 3), (5, 3), (1, 3)):
        x = weft.randn(*shape)
        assert bits(traced(x)) == bits(model(x))
        assert bits(traced(x, shift=weft.ones(4))) == bits(model(x, weft.ones(4)))
    double = weft.jit.trace(lambda x: x * x.shape[0], weft.ones(2))
    assert double(weft.ones(3)).tolist() == [3, 3, 3]
    assert double(weft.ones(2, dtype=weft.float64)).dtype == weft.float64
    model.first = nn.Linear(3, 4)
    model.scale = nn.Parameter(weft.full((4,), 3.0))
    x = weft.randn(2, 3)
    assert bits(traced(x)) == bits(model(x))
    model.rest, model.first = nn.Sequential(), nn.Linear(3, 6)
    model.scale = nn.Parameter(weft.full((6,), 3.0))


def test_methods_of_a_module():
    model = Net().eval()
    x = weft.randn(5, 3)
    traced = weft.jit.trace_module(model, {"forward": x, "twice": (x,)})
    assert bits(traced.twice(x)) == bits(model.twice(x))
    assert bits(traced(x)) == bits(model(x))
    by_name = weft.jit.trace(model, example_kwarg_inputs={"shift": weft.ones(4), "x": x})
    assert bits(by_name(x=x, shift=weft.ones(4))) == bits(model(x, weft.ones(4)))
    with pytest.raises(AttributeError, match="expected a dictionary"):
        weft.jit.trace_module(model, [x])
    with pytest.raises(AttributeError, match="expected a Module"):
        weft.jit.trace_module(writes, {"forward": x})


def test_containers_as_inputs_and_results():
    def f(pair, table):
        return {"a": pair[0] + table["k"][0], "b": [pair[1]]}

    x = weft.ones(2)
    inputs = ((x, x * 2), {"k": [x * 3]})
    with pytest.raises(RuntimeError, match="Encountering a dict at the output"):
        weft.jit.trace(f, inputs)
    traced = weft.jit.trace(f, inputs, strict=False)
    found = traced((x * 5, x), {"k": [x]})
    assert found["a"].tolist() == [6, 6]
    assert found["b"][0].tolist() == [1, 1]


def hooked(x):
    y = x * 2
    y.register_hook(lambda g: g * 2)
    return y


def steps(x, how):
    p = nn.Parameter(x.clone())
    p.grad = x
    sgd = weft.optim.SGD([p], lr=0.5, momentum=0.5, foreach=False if how == "plain" else None)
    sgd.step()
    return p + 0


REFUSED = {
    "a list": (lambda: weft.jit.trace(lambda x: [x], weft.ones(1)), RuntimeError, "a list at"),
    "a number": (lambda: weft.jit.trace(lambda x: 3, weft.ones(1)), RuntimeError, "Only tensors"),
    "an input": (lambda: weft.jit.trace(lambda x, n: x, (weft.ones(1), 3)), RuntimeError,
                 "Type 'int' cannot be traced"),
    "no inputs": (lambda: weft.jit.trace(lambda x: x), RuntimeError, "neither"),
    "both": (lambda: weft.jit.trace(lambda x: x, weft.ones(1), example_kwarg_inputs={}),
             RuntimeError, "both"),
    "a hook": (lambda: weft.jit.trace(hooked, weft.ones(1)), NotImplementedError, "register_hook"),
    "an optimizer": (lambda: weft.jit.trace(lambda x: steps(x, "sgd"), weft.ones(1)),
                     NotImplementedError, "step"),
    "a state": (lambda: weft.jit.trace(lambda x: steps(x, "plain"), weft.ones(1)),
                NotImplementedError, "step"),
    "no function": (lambda: weft.jit.trace(3, weft.ones(1)), TypeError, "expected a function"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        call()
    assert not weft.jit.is_tracing()
    assert weft._C._mode() & 256 == 0


weight = nn.Parameter(weft.tensor([2.0, -1.0, 0.5]))
own = weft.Generator().manual_seed(3)


def gradients(x):
    loss = (x * weight).exp().sum()
    weight.grad = None
    loss.backward()
    return weight.grad * 2


def gathers_gradients(x):
    (x * weight).sum().backward()
    (x * weight * weight).sum().backward(retain_graph=True)
    return weight.grad + 1


def gradients_of_results(x):
    y = x * weight
    y.retain_grad()
    weft.autograd.backward([y.sum(), (y * y).sum()])
    return y.grad


def sets_gradients(x):
    weight.grad = x * 3
    weight.grad.add_(1)
    return weight.grad * weight


def sets_memory(x):
    y = x * 2
    y.data = x + 1
    return y * 2


def steps_without_state(x):
    weight.grad = x
    weft.optim.SGD([weight], lr=0.5, foreach=False).step()
    return weight * 1


def draws(x):
    return x + weft.rand(3, generator=own) + weft.empty(3).normal_(generator=own)


def draws_of_its_own(x):
    generator = weft.Generator().manual_seed(5)
    again = generator.clone_state()
    return x * weft.rand(3, generator=generator) + weft.rand(3, generator=again)


def seeds(x):
    weft.manual_seed(7)
    y = x + weft.rand(3)
    with weft.random.fork_rng():
        y = y + weft.rand(3)
    return y + weft.rand(3)


BESIDE = (
    gradients, gathers_gradients, gradients_of_results, sets_gradients, sets_memory, draws,
    steps_without_state, draws_of_its_own, seeds,
)  # fmt: skip


def begin(k):
    weight.data = weft.tensor([2.0, -1.0, 0.5]) + k
    weight.grad = weft.ones(3) * k
    own.manual_seed(k)


@pytest.mark.parametrize("function", BESIDE)
def test_what_is_done_beside_calls_is_written_down(function):
    """It was not, and so the trace computed something else: gradients, generators, memory."""
    x = weft.tensor([1.0, -0.25, 3.0])
    begin(1)
    before = own.get_state()
    traced = weft.jit.trace(function, x, check_trace=function is not steps_without_state)
    assert weft.equal(weight.grad, weft.ones(3)) and weft.equal(own.get_state(), before)
    for k in range(3):
        ends = []
        for call in (function, traced):
            begin(k)
            ends.append((bits(call(x)), bits(weight.grad), bits(weight.detach()), own.get_state()))
        assert ends[0][:3] == ends[1][:3] and weft.equal(ends[0][3], ends[1][3])
    traced.graph.eliminate_dead_code()
    begin(k)
    module = weft.fx.GraphModule(traced.graph.owning_module, traced.graph)
    assert bits(module(x)) == ends[0][0]


def test_gradients_of_inputs():
    def f(x):
        (x * x).sum().backward()
        return x.grad * 2

    traced = weft.jit.trace(f, weft.ones(2, requires_grad=True))
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    assert traced(x).tolist() == [4, 8]
    assert traced(x).tolist() == [8, 16]


def test_a_second_run_is_compared():
    calls = []

    def counts(x):
        calls.append(1)
        return x * len(calls)

    with pytest.raises(weft.jit.TracingCheckError, match="result 0 of a second run"):
        weft.jit.trace(counts, weft.ones(1))
    assert weft.jit.trace(counts, weft.ones(1), check_trace=False)(weft.ones(1)).item() == 3
    with pytest.raises(RuntimeError, match="traced run"):
        weft.jit.trace(branch, weft.ones(1), check_inputs=[(weft.ones(1),), (-weft.ones(1),)])


def test_copies_and_pickles():
    model, x = Net().eval(), weft.randn(2, 3)
    traced = weft.jit.trace(model, x)
    for again in (copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
        made = again(traced)
        assert bits(made(x)) == bits(traced(x))
        assert made.first.weight is not model.first.weight
    function = weft.jit.trace(branch, weft.ones(2))
    assert pickle.loads(pickle.dumps(function))(weft.ones(3)).tolist() == [2, 2, 2]
    assert weft.jit.trace(function, weft.ones(1)) is function
    assert function.__name__ == "branch"


def test_hooks_of_the_module_are_written_down():
    """Those of modules in it were; its own were left out."""
    model, x = Net().eval(), weft.randn(2, 3)
    model.register_forward_pre_hook(lambda module, args: (args[0] * 3,))
    model.register_forward_hook(lambda module, args, result: result + 1)
    traced = weft.jit.trace(model, x)
    assert bits(traced(x)) == bits(model(x))
    assert bits(traced(x=x)) == bits(model(x))


def test_a_changed_graph_runs():
    traced = weft.jit.trace(lambda x: x.relu() + 1, weft.ones(2))
    x = weft.tensor([-1.0, 2.0])
    assert traced(x).tolist() == [1, 3]
    (node,) = traced.graph.find_nodes(op="call_function", target=weft.relu)
    node.target = weft.neg
    traced.graph.owning_module.recompile()
    assert traced(x).tolist() == [2, -1]


def test_inside_of_a_trace():
    seen = []

    def f(x):
        seen.append(weft.jit.is_tracing())
        return inner(x) + positive(x)

    inner = weft.jit.trace(lambda x: x * 2, weft.ones(2))

    @weft.jit.script_if_tracing
    def positive(x):
        return x if x.sum() > 0 else -x

    traced = weft.jit.trace(f, weft.ones(2))
    assert traced(weft.tensor([-1.0, -2.0])).tolist() == [-1, -2]
    assert seen == [True, False]
    assert positive(weft.tensor([-1.0])).item() == 1


def test_a_traced_model_goes_into_others():
    inner = weft.jit.trace(nn.Linear(3, 3), weft.ones(1, 3))
    model = nn.Sequential(inner, nn.ReLU())
    x = weft.randn(2, 3)
    assert bits(weft.compile(model)(x)) == bits(model(x))
    assert [n for n, _ in model.named_parameters()] == ["0.weight", "0.bias"]
    assert bits(weft.jit.trace(model, x)(x)) == bits(model(x))
    assert bits(weft.jit.freeze(inner.eval())(x)) == bits(inner(x))


TRACED = [c for c in zoo.CASES if c.name in (
    "char_gpt.py", "digits_cnn.py", "digits_vae.py", "growing_net.py", "many: mlp_wide",
    "many: self_attention", "many: multihead_attention", "many: transformer_layer",
    "many: text_cnn", "many: gru_layer", "many: lstm_layer", "many: larger_convolution",
    "many: plain_rnn", "many: set_transformer",
)]  # fmt: skip


@pytest.mark.parametrize("case", TRACED, ids=lambda c: c.name)
def test_models(case):
    if case.needs:
        pytest.importorskip(case.needs)
    weft.manual_seed(0)
    made = case.make(8)
    first = made.examples[0]
    traced = weft.jit.trace(made.loss, first)
    for example in made.examples[:2]:
        losses = []
        for loss in (made.loss, traced):
            weft.manual_seed(1)
            for p in made.parameters():
                p.grad = None
            losses.append(loss(*example))
            losses[-1].backward()
            losses.append([Gradient(p.grad) for p in made.parameters()])
        assert bits(losses[0]) == bits(losses[2])
        assert losses[1] == losses[3]


@pytest.mark.parametrize("name", ["pointwise", "norms", "losses", "views", "several"])
def test_pytorch_computes_the_same(name):
    torch = pytest.importorskip("torch")
    x, y = given(0, False)
    found = flat(weft.jit.trace(FUNCTIONS[name], (x, y))(x, y))
    space = {"weft": torch, "F": torch.nn.functional, "Pair": Pair}
    function = type(writes)(
        FUNCTIONS[name].__code__, {**globals(), **space}, "f", None, FUNCTIONS[name].__closure__
    )
    tx, ty = torch.tensor(x.tolist()), torch.tensor(y.tolist())
    expected = flat_of(torch, torch.jit.trace(function, (tx, ty))(tx, ty))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.tolist() == pytest.approx(b.tolist(), rel=1e-4, abs=1e-5) if a.ndim < 2 else True
        assert tuple(a.shape) == tuple(b.shape)


def flat_of(torch, value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in flat_of(torch, v)]
