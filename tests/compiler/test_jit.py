"""`weft.jit`: functions and Modules that compile whole."""

import copy
import inspect
import os
import pickle

import pytest

import weft
from weft import nn
from weft.compiler import Unsupported

needs_programs = pytest.mark.skipif(
    os.environ.get("WEFT_COMPILE") == "0", reason="nothing is compiled with WEFT_COMPILE=0"
)
x = weft.arange(3.0)


@weft.jit.script
def clipped(x, limit: float = 1.0):
    if x.sum() > limit:
        return x.clamp(max=limit)
    return x


def numbers(x):
    yield x


def helper(x):
    return sum(numbers(x))


def uses_helper(x):
    return helper(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.scale(self.layer(x))

    def scale(self, x):
        return x * 2

    @weft.jit.export
    def twice(self, x):
        return self.forward(x) + self.forward(x)

    @weft.jit.ignore
    def shown(self, x):
        return [*numbers(x)]


class Bad(nn.Module):
    def forward(self, x):
        class Local:
            pass

        return x


def test_functions():
    assert isinstance(clipped, weft.jit.ScriptFunction) and clipped.name == "clipped"
    assert clipped(x).tolist() == [0, 1, 1] and clipped(x, limit=9.0) is x
    assert weft.jit.script(clipped) is clipped
    assert clipped.code.startswith("@weft.jit.script\ndef clipped(x")
    compile(clipped.code, "code", "exec")
    first = clipped.callee.__code__.co_firstlineno
    assert 'compare ">"' in clipped.graph and f"line {first + 2}" in clipped.graph
    assert pickle.loads(pickle.dumps(clipped)) is clipped
    assert inspect.signature(clipped).parameters["limit"].default == 1.0


def test_modules():
    net = Net()
    scripted, batch = weft.jit.script(net), weft.randn(4, 3)
    assert isinstance(scripted, weft.jit.ScriptModule) and isinstance(scripted, nn.Module)
    assert weft.equal(scripted(batch), net(batch))
    assert weft.equal(scripted.twice(batch), net.twice(batch))
    assert weft.equal(scripted.shown(batch)[0], batch)
    assert list(scripted.state_dict()) == list(net.state_dict())
    assert scripted.layer is net.layer and scripted.original_name == "Net"
    assert "def forward(self, x):" in scripted.code and "method" in scripted.graph
    scripted.eval()
    assert not net.training and not scripted.training and not net.layer.training
    other = weft.jit.script(Net())
    other.load_state_dict(scripted.state_dict())
    assert weft.equal(other(batch), net(batch))
    for again in (pickle.loads(pickle.dumps(scripted)), copy.deepcopy(scripted)):
        assert weft.equal(again(batch), net(batch)) and again.layer is not net.layer
    assert weft.jit.script(scripted) is scripted and weft.jit.script(Net) is Net
    assert weft.jit.freeze(scripted) is scripted
    with pytest.raises(RuntimeError, match="modules in eval mode"):
        weft.jit.freeze(weft.jit.script(Net()))
    sequence = weft.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    assert sequence(batch).shape == (4, 3)


def test_script_raises_at_the_line():
    with pytest.raises(Unsupported) as caught:
        weft.jit.script(uses_helper)
    lines, first = inspect.getsourcelines(numbers)
    assert caught.value.function == "numbers"
    assert first <= caught.value.line < first + len(lines)
    with pytest.raises(Unsupported, match="class") as caught:
        weft.jit.script(nn.Sequential(Bad()))
    assert caught.value.line == inspect.getsourcelines(Bad.forward)[1] + 1
    with pytest.raises(TypeError, match="expected a function or a Module, got int"):
        weft.jit.script(3)


@needs_programs
def test_what_only_a_call_comes_to_raises_in_the_call():
    scripted = weft.jit.script(lambda f, x: f(x))
    with pytest.raises(Unsupported, match="numbers"):
        scripted(numbers, x)
    assert scripted(weft.jit.ignore(helper), x) is not None
    del helper._torchscript_modifier


def test_marks_and_questions():
    assert not weft.jit.is_scripting() and not weft.jit.is_tracing()
    assert weft.jit.annotate(int, 3) == 3 and weft.jit.Attribute(4, int) == 4
    assert weft.jit.script_if_tracing(numbers).__wrapped__ is numbers
    assert weft.jit.wait(weft.jit.fork(numbers, x)) is not None
