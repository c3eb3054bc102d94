"""`weft.compile`: what it takes, what it gives, and that what it gives behaves as its function."""

import copy
import functools
import gc
import inspect
import os
import pickle
import re
import subprocess
import sys
import threading
import weakref

import pytest

import weft
from weft import nn
from weft.compiler import Unsupported


def scaled(x, factor=2.0, *, shift=0.0):
    """Scales and shifts."""
    return x * factor + shift


@weft.compile
def decorated(x):
    return x + 1


@weft.compile(fullgraph=True, mode="max-autotune")
def decorated_with_arguments(x):
    return x + 2


def counted(x):
    yield x


def uses_a_generator(x):
    total = x * 0
    for part in counted(x):
        total = total + part
    return total


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, x, *, double=False):
        out = self.last(self.first(x).relu())
        return out * 2 if double else out


class Counter:
    def __init__(self):
        self.count = 0

    @weft.compile
    def add(self, n):
        self.count += n
        return self.count

    @staticmethod
    @weft.compile
    def twice(x):
        return x * 2

    @classmethod
    @weft.compile
    def named(cls):
        return cls.__name__

    def __call__(self, x):
        return x + self.count


x = weft.arange(3.0)


def same(a, b):
    return weft.equal(a, b)


def compiles_here():
    on = weft._C._enable_programs(True)
    weft._C._enable_programs(on)
    return on


def ran(compiled, *names):
    """Whether calls came to these programs, if there are any here."""
    return not compiles_here() or names == tuple(
        f.name for f in weft.compiler.explain(compiled).compiled
    )


# ---- what can be compiled


def test_functions_and_decorators():
    assert same(weft.compile(scaled)(x, 3.0, shift=1.0), scaled(x, 3.0, shift=1.0))
    assert same(decorated(x), x + 1)
    assert same(decorated_with_arguments(x), x + 2)
    assert same(weft.compile(lambda t: t - 1)(x), x - 1)
    assert ran(decorated, "decorated")


def test_methods_of_all_kinds():
    counter = Counter()
    assert [counter.add(2), counter.add(n=3), Counter.add(counter, 1)] == [2, 5, 6]
    assert same(Counter.twice(x), x * 2) and same(counter.twice(x), x * 2)
    assert Counter.named() == "Counter"
    bound = weft.compile(Counter().__call__)
    assert same(bound(x), x)


def test_callables_and_partials():
    call = weft.compile(counter := Counter())
    counter.count = 5
    assert same(call(x), x + 5)
    assert ran(call, "Counter.__call__")
    part = weft.compile(functools.partial(scaled, factor=4.0))
    assert same(part(x, shift=1.0), x * 4 + 1)
    assert ran(part, "scaled")
    assert weft.compile(len)([1, 2]) == 2


def test_what_is_compiled_twice_is_compiled_once():
    again = weft.compile(decorated)
    assert again is not decorated and again.callee is decorated.callee
    net = weft.compile(weft.compile(Net()))
    assert list(net.state_dict())[0] == "_orig_mod.first.weight"


def test_classes_get_compiled_calls():
    @weft.compile
    class Scale(nn.Module):
        def forward(self, x):
            return x * 3

    assert isinstance(Scale, type) and same(Scale()(x), x * 3)
    assert ran(Scale.forward, Scale.forward.__qualname__)


# ---- arguments


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (dict(backend="nope"), RuntimeError, "Invalid backend: 'nope'"),
        (dict(backend=3), TypeError, "expected backend a name or a function"),
        (dict(mode="nope"), RuntimeError, "Unrecognized mode=nope, should be one of: default"),
        (dict(mode="default", options={}), RuntimeError, "Either mode or options"),
        (dict(options={"nope": True}), RuntimeError, "Unexpected optimization option nope"),
        (dict(options={"max_autotune": 3}), RuntimeError, "got int should be bool"),
        (dict(options=3), TypeError, "expected options a dict, got int"),
        (dict(fullgraph=1), TypeError, "expected fullgraph a bool, got int"),
        (dict(dynamic="yes"), TypeError, "expected dynamic a bool or None, got str"),
        (dict(unknown=1), TypeError, "unexpected keyword argument 'unknown'"),
    ],
)
def test_bad_arguments(arguments, kind, message):
    for make in (lambda: weft.compile(scaled, **arguments), lambda: Net().compile(**arguments)):
        with pytest.raises(kind, match=message):
            make()
    assert issubclass(weft._dynamo.exc.InvalidBackend, weft._dynamo.exc.TorchDynamoException)


@pytest.mark.parametrize("thing", [3, "f", object()])
def test_what_cannot_be_called_cannot_be_compiled(thing):
    with pytest.raises(TypeError, match="expected a function, a method or a Module, got"):
        weft.compile(thing)


def test_disable_gives_back_what_it_is_given():
    net = Net()
    assert weft.compile(scaled, disable=True) is scaled
    assert weft.compile(net, disable=True) is net
    net.compile(disable=True)
    assert net._compiled_call_impl is None


def test_known_arguments_are_taken():
    for arguments in (
        dict(mode="reduce-overhead"), dict(dynamic=True), dict(dynamic=False), dict(backend="weft"),
        dict(options={"max_autotune": True, "triton.cudagraphs": False}), dict(fullgraph=True),
    ):  # fmt: skip
        assert same(weft.compile(scaled, **arguments)(x), scaled(x))
    eager = weft.compile(scaled, backend="eager")
    assert same(eager(x), scaled(x)) and ran(eager)
    model = nn.Linear(3, 3)
    model.compile(backend="eager")
    for eager in (model, weft.compile(nn.Linear(3, 3), backend="eager")):
        eager(weft.ones(1, 3))
        assert not weft.compiler.explain(eager).functions


@pytest.mark.parametrize(
    "arguments", [((), {}), ((x, 1, 2), {}), ((x,), {"nope": 1}), ((x,), {"x": x})]
)
def test_wrong_arguments_of_calls_are_the_functions_own_error(arguments):
    args, kwargs = arguments
    with pytest.raises(TypeError) as expected:
        scaled(*args, **kwargs)
    with pytest.raises(TypeError) as ours:
        weft.compile(scaled)(*args, **kwargs)
    assert str(ours.value) == str(expected.value)


# ---- fullgraph


needs_programs = pytest.mark.skipif(
    os.environ.get("WEFT_COMPILE") == "0", reason="nothing is compiled with WEFT_COMPILE=0"
)


def through(x):
    return uses_a_generator(x) + 1


@needs_programs
def test_fullgraph_raises_at_the_line():
    strict = weft.compile(through, fullgraph=True)
    with pytest.raises(Unsupported) as caught:
        strict(x)
    error = caught.value
    assert error.function == "counted" and error.file == __file__
    lines, first = inspect.getsourcelines(counted)
    assert first <= error.line < first + len(lines)
    assert f"{__file__}:{error.line}: " in str(error) and "Hint: " in str(error)
    entries = []
    trace = error.__traceback__
    while trace:
        entries.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert entries[-2:] == ["through", "uses_a_generator"]
    assert same(through(x), weft.compile(through)(x))


@needs_programs
def test_fullgraph_leaves_out_what_is_left_by_choice():
    def shaped(x):
        return functools.reduce(lambda a, b: a + b, [nn.functional.relu(x), x])

    assert same(weft.compile(shaped, fullgraph=True)(x), shaped(x))


@needs_programs
def test_fullgraph_of_a_function_that_a_compiled_one_calls():
    inner = weft.compile(through, fullgraph=True)
    with pytest.raises(Unsupported):
        weft.compile(lambda x: inner(x))(x)


# ---- Modules


def test_optimized_modules():
    net = Net()
    fast = weft.compile(net)
    batch = weft.randn(5, 3)
    assert isinstance(fast, nn.Module) and isinstance(fast, weft._dynamo.OptimizedModule)
    assert fast._orig_mod is net and fast.first is net.first
    assert same(fast(batch), net(batch)) and same(fast(batch, double=True), net(batch) * 2)
    assert repr(fast).startswith("OptimizedModule(\n  (_orig_mod): Net(")
    fast.extra = 3
    assert net.extra == 3
    del fast.extra
    assert not hasattr(net, "extra") and not hasattr(fast, "extra")
    assert [p is q for p, q in zip(fast.parameters(), net.parameters())] == [True] * 4
    fast.eval()
    assert not net.training and not fast.training
    net.train()
    assert fast.training and "first" in dir(fast)
    fast(batch).sum().backward()
    assert net.first.weight.grad is not None


def test_containers_stay_containers():
    fast = weft.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    assert len(fast) == 2 and isinstance(fast[1], nn.ReLU) and len(list(fast)) == 2
    assert weft.compile(Net())


def test_hooks_of_both_run():
    net, log = Net(), []
    fast = weft.compile(net)
    net.register_forward_hook(lambda *_: log.append("inner"))
    fast.register_forward_hook(lambda *_: log.append("outer"))
    net.first.register_forward_pre_hook(lambda *_: log.append("first"))
    fast(weft.ones(1, 3))
    assert log == ["first", "inner", "outer"]
    fast.compile()
    fast(weft.ones(1, 3))
    assert log == ["first", "inner", "outer"] * 2


def holder(layer):
    out = nn.Module()
    out.layer = layer
    return out


def test_state_dicts_of_either_form_load():
    net = Net()
    plain, prefixed = net.state_dict(), weft.compile(net).state_dict()
    assert list(prefixed) == ["_orig_mod." + key for key in plain]
    for state in (plain, prefixed):
        for other in (Net(), weft.compile(Net())):
            assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
            assert same(other.first.weight, net.first.weight)
    inner = holder(weft.compile(Net()))
    inner.load_state_dict(holder(net).state_dict())
    assert same(inner.layer.first.weight, net.first.weight)
    other = holder(Net())
    other.load_state_dict(inner.state_dict())
    assert same(other.layer.first.weight, net.first.weight)
    with pytest.raises(RuntimeError, match='Missing key.*"_orig_mod.first.weight"'):
        weft.compile(Net()).load_state_dict({})
    with pytest.raises(RuntimeError, match='Unexpected key.*"_orig_mod.nope"'):
        weft.compile(Net()).load_state_dict({**plain, "nope": x})


def test_modules_compiled_in_place():
    net, batch = Net(), weft.randn(2, 3)
    expected = net(batch)
    state = list(net.state_dict())
    assert net.compile() is None
    assert same(net(batch), expected) and same(net(batch, double=True), expected * 2)
    assert list(net.state_dict()) == state and type(net) is Net
    assert ran(net, "Net.forward", "Linear.forward")
    log = []
    handle = net.register_forward_hook(lambda *_: log.append(1))
    assert same(net(batch), expected) and log == [1]
    handle.remove()
    with weft.compiler.set_stance("force_eager"):
        assert same(net(batch), expected)
    with weft.record():
        assert same(net(batch), expected)
    copied = pickle.loads(pickle.dumps(net))
    assert copied._compiled_call_impl is None and same(copied(batch), expected)
    assert copy.deepcopy(net)._compiled_call_impl is None
    assert same(holder(net).layer(batch), expected)
    with pytest.raises(TypeError, match=r"Net.forward\(\) missing 1 required positional argument"):
        net()


class Louder(Net):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs) + 100


def test_in_place_with_a_call_of_its_own():
    net, batch = Louder(), weft.randn(2, 3)
    expected = net(batch)
    net.compile()
    assert same(net(batch), expected)


def test_errors_name_the_module_once():
    def told(net):
        with pytest.raises(RuntimeError) as caught:
            net(weft.ones(2, 5))
        return str(caught.value), [*getattr(caught.value, "__notes__", [])]

    net = Net()
    expected = told(net)
    net.compile()
    assert told(net) == expected


# ---- what compiled functions are


def test_names_signature_and_attributes():
    compiled = weft.compile(scaled)
    assert compiled.__name__ == "scaled" and compiled.__doc__ == "Scales and shifts."
    assert compiled.__module__ == __name__ and compiled.__wrapped__ is scaled
    assert inspect.signature(compiled) == inspect.signature(scaled)
    assert inspect.unwrap(compiled) is scaled and compiled.__defaults__ == (2.0,)
    scaled.mark = 1
    try:
        assert weft.compile(scaled).mark == 1
    finally:
        del scaled.mark
    assert repr(compiled).startswith("<compiled: <function scaled at")
    with pytest.raises(AttributeError):
        compiled.nope  # noqa: B018


def test_pickles_and_copies():
    for compiled in (weft.compile(scaled), decorated, weft.compile(Counter().__call__)):
        back = pickle.loads(pickle.dumps(compiled))
        assert type(back) is type(compiled) and same(back(x), compiled(x))
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    strict = pickle.loads(pickle.dumps(weft.compile(scaled, fullgraph=True)))
    assert strict._settings.fullgraph
    assert copy.deepcopy(decorated) is decorated
    net = weft.compile(Net())
    batch = weft.randn(2, 3)
    for back in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net), copy.copy(net)):
        assert type(back) is type(net) and same(back(batch), net(batch))
    assert copy.deepcopy(net)._orig_mod is not net._orig_mod


def test_weak_references_and_collection():
    compiled = weft.compile(lambda x: x)
    gone = weakref.ref(compiled)
    compiled.itself = compiled
    del compiled
    gc.collect()
    assert gone() is None
    net = Net()
    net.compile()
    net(weft.ones(1, 3))
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_threads():
    net, batch = weft.compile(Net()), weft.randn(4, 3)
    expected, wrong = net._orig_mod(batch), []

    def work():
        for _ in range(50):
            if not (same(net(batch), expected) and same(weft.compile(scaled)(x), x * 2)):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def sets_grad_mode(on):
    weft.set_grad_enabled(on)


def test_modes_that_a_call_sets_stay():
    try:
        weft.compile(sets_grad_mode)(False)
        assert not weft.is_grad_enabled()
    finally:
        weft.set_grad_enabled(True)


# ---- switches


def tells_how(log):
    return log.append(1)


@weft.compiler.disable
def disabled(net, x):
    return net(x)


@weft.compiler.disable(recursive=False)
def skipped(net, x):
    return net(x)


frame_at = vars(sys)["_getframe"]  # by a name that does not say that it looks at frames


@weft.jit.ignore
def caller():
    return frame_at(1).f_code.co_name


class Where(nn.Module):
    def forward(self, x):
        return caller() == "forward"  # a program has no frame


@needs_programs
def test_disable():
    where = Where()
    assert where(x)
    assert not weft.compile(lambda net, x: net(x))(where, x)
    assert weft.compile(lambda net, x: disabled(net, x))(where, x)
    assert not weft.compile(lambda net, x: skipped(net, x))(where, x)
    assert weft.compiler.disable(weft.compile(where))(x)
    assert weft.compiler.disable(where)(x)
    compiled = weft.compile(where)
    assert not compiled(x)
    with weft.compiler.set_stance("force_eager"):
        assert compiled(x)
        with weft.compiler.set_stance("default"):
            assert not compiled(x)
        assert compiled(x)
    assert not compiled(x)
    assert weft.compiler.set_stance("force_eager")(lambda: compiled(x))()
    weft.compiler.set_stance("force_eager")
    assert compiled(x)
    weft.compiler.reset()
    assert not compiled(x)
    with pytest.raises(RuntimeError, match="invalid torch.compile stance"):
        weft.compiler.set_stance("nope")


def test_questions():
    assert weft.compile(lambda: weft.compiler.is_compiling())() is False
    assert not weft.compiler.is_dynamo_compiling() and not weft.compiler.is_exporting()
    assert "inductor" in weft.compiler.list_backends() == weft._dynamo.list_backends()
    assert weft.compiler.allow_in_graph(scaled) is scaled
    assert same(weft._dynamo.optimize("inductor", nopython=True)(scaled)(x), scaled(x))


# ---- explain


@needs_programs
def test_explain():
    compiled = weft.compile(through)
    assert "no call has come" in str(compiled.explain())
    compiled(x)
    compiled(x)
    told = compiled.explain()
    assert [f.name for f in told.compiled] == ["through", "uses_a_generator"]
    (outside,) = told.outside
    assert outside.name == "counted" and outside.file == __file__ and outside.outside
    before = outside.calls
    compiled(x)
    assert compiled.explain().outside[0].calls == before + 1
    assert f"counted ({__file__}:{outside.outside}): {outside.reason}" in str(told)
    assert "2 of 3 functions compiled" in str(told)
    net = weft.compile(Net())
    net(weft.ones(1, 3))
    assert [f.name for f in net.explain().compiled] == ["Net.forward", "Linear.forward"]
    assert {f.name for f in net.explain().left} <= {"linear", "relu"}
    with pytest.raises(TypeError, match="expected what weft.compile gave, got function"):
        weft.compiler.explain(through)
    assert len(weft._dynamo.explain(through)(x).functions) == 3


def reads_and_adds(x):
    total = x * 0
    for number in x.tolist():
        total = total + number
    return total * 2 + x


@needs_programs
def test_explain_says_why_no_plan_runs():
    alone = weft.compile(lambda x: x + 1)
    alone(x)
    assert str(alone.explain()).count("no plan yet") == 1
    alone(x)
    line = alone.__code__.co_firstlineno
    assert f"line {line}: no plan, nothing to gain" in str(alone.explain())
    compiled = weft.compile(reads_and_adds)
    for _ in range(4):
        compiled(x)
    first = reads_and_adds.__code__.co_firstlineno
    told = [line.strip() for line in str(compiled.explain()).splitlines()[3:]]
    assert f"line {first + 2}: no plan, a method of a tensor" in told
    assert told[-1].startswith(f"line {first + 4}: 2 calls, up to the end; ran")
    assert len(set(told)) == len(told)
    summing = weft.compile(lambda xs: sum(x.sum() for x in xs))
    summing([x])
    assert ": a generator expression. Hint: a list comprehension; called once" in str(
        summing.explain()
    )


def written(x):
    y = x * 2 + 1
    y[0].add_(1)
    return y


def kept(x):
    y = x * 2 + 1
    numbers[0] = y
    return y


def read(x):
    y = x * 2 + 1
    return y * 2 if y.sum() > 0 else y


def converted(x):
    y = x * 2 + 1
    return y.numpy()


def selected(x):
    y = x * 2 + 1
    return y.nonzero()


numbers = [None]
ENDS = {
    written: "a write", kept: "a write", read: "a value that is read",
    converted: "a value that is read", selected: "a layout that depends on values",
}  # fmt: skip


@needs_programs
@pytest.mark.parametrize("function", ENDS)
def test_explain_says_why_plans_end(function):
    compiled = weft.compile(function)
    for _ in range(3):
        compiled(x)
    first = function.__code__.co_firstlineno
    told = rf"line {first + 1}: \d calls, up to line {first + 2}: {ENDS[function]}; ran"
    assert re.search(told, str(compiled.explain())), compiled.explain()


# ---- off


@needs_programs
def test_all_of_it_agrees_with_programs_switched_off():
    tests = os.path.dirname(__file__)
    names = "api", "jit", "programs", "python", "stretches", "watchers"
    files = [f"{tests}/test_{name}.py" for name in names]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files],
        env={**os.environ, "WEFT_COMPILE": "0"}, capture_output=True, text=True,
        cwd=os.path.dirname(os.path.dirname(tests)),
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:]
