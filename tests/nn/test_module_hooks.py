"""Hooks round forward and backward, of one module and of all, side by side with PyTorch's."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref
from collections import namedtuple

import pytest

import weft
from weft import nn

# --- forward hooks ------------------------------------------------------------------------------


class Log(list):
    def hook(self, name, result=None):
        def run(module, *args):
            self.append((name, [plain(a) for a in args]))
            return result(args) if callable(result) else result

        return run


def plain(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, tuple | list):
        return tuple(plain(v) for v in value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def scale(t):
    class Scale(t.nn.Module):
        def forward(self, x, factor=2):
            return x * factor

    return Scale()


FORWARD = {
    "pre": lambda t, m, log: m.register_forward_pre_hook(log.hook("pre")),
    "pre value": lambda t, m, log: m.register_forward_pre_hook(log.hook("pre", t.ones(1) * 3)),
    "pre tuple": lambda t, m, log: m.register_forward_pre_hook(log.hook("pre", (t.ones(1), 5))),
    "pre kwargs": lambda t, m, log: m.register_forward_pre_hook(
        log.hook("pre", lambda a: ((a[0][0] + 1,), {"factor": 7})), with_kwargs=True
    ),
    "pre kwargs none": lambda t, m, log: m.register_forward_pre_hook(
        log.hook("pre"), with_kwargs=True
    ),
    "pre kwargs wrong": lambda t, m, log: m.register_forward_pre_hook(
        log.hook("pre", 3), with_kwargs=True
    ),
    "post": lambda t, m, log: m.register_forward_hook(log.hook("post")),
    "post value": lambda t, m, log: m.register_forward_hook(log.hook("post", t.zeros(1))),
    "post kwargs": lambda t, m, log: m.register_forward_hook(log.hook("post"), with_kwargs=True),
    "order": lambda t, m, log: (
        m.register_forward_pre_hook(log.hook("pre 1")),
        m.register_forward_pre_hook(log.hook("pre 2"), prepend=True),
        m.register_forward_hook(log.hook("post 1", lambda a: a[1] + 1)),
        m.register_forward_hook(log.hook("post 2"), prepend=True),
        m.register_forward_hook(log.hook("post 3"), always_call=True),
    ),
    "global": lambda t, m, log: (
        m.register_forward_pre_hook(log.hook("own pre")),
        m.register_forward_hook(log.hook("own post")),
        t.nn.modules.module.register_module_forward_pre_hook(log.hook("pre")),
        t.nn.modules.module.register_module_forward_hook(log.hook("post", lambda a: a[1] + 1)),
    ),
    "global kwargs": lambda t, m, log: t.nn.modules.module.register_module_forward_hook(
        log.hook("post"), with_kwargs=True
    ),
}


@pytest.fixture
def torch_names(monkeypatch):
    """PyTorch keeps the functions for all modules one level deeper."""
    monkeypatch.setattr(nn, "modules", type("modules", (), {"module": nn}), raising=False)


@pytest.mark.parametrize("name", FORWARD)
def test_forward_hooks(agree, torch_names, name):
    def snippet(t):
        log = Log()
        m = scale(t)
        handles = FORWARD[name](t, m, log)
        handles = handles if isinstance(handles, tuple) else (handles,)
        try:
            log.append(m(t.ones(1)).tolist())
            log.append(m(t.ones(1), factor=3).tolist())
        finally:
            for handle in handles:
                handle.remove()
        log.append(m(t.ones(1)).tolist())
        return log

    agree(snippet)


def test_hooks_that_are_always_called(agree, torch_names):
    def snippet(t):
        log = Log()
        m = scale(t)
        m.register_forward_hook(log.hook("no"))
        m.register_forward_hook(log.hook("yes"), always_call=True)
        m.register_forward_hook(log.hook("kwargs"), always_call=True, with_kwargs=True)
        m.register_forward_hook(lambda *args: 1 / 0, always_call=True)
        register = t.nn.modules.module.register_module_forward_hook
        with (
            register(log.hook("global"), always_call=True),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            try:
                m("text", factor=None)
            except TypeError as error:
                log.append(str(error))
        return log, [str(w.message) for w in caught]

    agree(snippet)


def test_a_hook_that_raises_is_not_called_again():
    calls = []

    def fail(module, args, output):
        calls.append(1)
        raise KeyError("mine")

    m = nn.Identity()
    m.register_forward_hook(fail, always_call=True)
    with pytest.raises(KeyError, match="mine"):
        m(1)
    assert calls == [1]


def test_calls_without_hooks_are_free():
    m = nn.Identity()
    assert m._hooked is False and "_forward_hooks" not in m.__dict__
    handle = nn.register_module_forward_hook(lambda *args: None)
    assert m._hooked
    handle.remove()
    assert m._hooked is False
    # Looking at a table makes it, and what is put into it by hand is called.
    assert m._forward_hooks == {}
    m._forward_hooks[0] = lambda module, args, output: output + 1
    assert m(1) == 2
    m._forward_hooks.clear()
    assert m(1) == 1


def test_hooks_survive_copies_and_pickles():
    m = nn.Sequential(nn.Identity())
    m[0].register_forward_hook(plus_one)
    for twin in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert twin(1) == 2
    handle = m[0].register_forward_hook(plus_one)
    m2, handle2 = copy.deepcopy((m, handle))
    handle2.remove()
    assert (m(1), m2(1)) == (3, 2)


def plus_one(module, args, output):
    return output + 1


def test_a_handle_does_not_keep_the_module():
    m = nn.Identity()
    handle = m.register_forward_hook(plus_one)
    reference = weakref.ref(m)
    del m
    gc.collect()
    assert reference() is None
    handle.remove()


def test_modules_without_hooks_are_freed_without_the_collector():
    gc.disable()
    try:
        m = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
        reference = weakref.ref(m[0])
        del m
        assert reference() is None
    finally:
        gc.enable()


# --- backward hooks -----------------------------------------------------------------------------

Pair = namedtuple("Pair", ["first", "second"])


def two(t):
    class Two(t.nn.Module):
        def forward(self, a, b, other=None):
            return a * 2, a * 3

    return Two()


BACKWARD = {
    "look": lambda m, log: m.register_full_backward_hook(log.hook("full")),
    "pre": lambda m, log: (
        m.register_full_backward_hook(log.hook("full")),
        m.register_full_backward_pre_hook(log.hook("pre")),
    ),
    "replace": lambda m, log: m.register_full_backward_hook(
        log.hook("full", lambda a: (a[0][0] * 10, *a[0][1:]))
    ),
    "replace before": lambda m, log: (
        m.register_full_backward_pre_hook(
            log.hook("pre", lambda a: tuple(g if g is None else g * 2 for g in a[0]))
        ),
        m.register_full_backward_hook(log.hook("full")),
    ),
    "too few": lambda m, log: m.register_full_backward_hook(log.hook("full", lambda a: a[0][:1])),
    "order": lambda m, log: (
        m.register_full_backward_hook(log.hook("1")),
        m.register_full_backward_hook(log.hook("2"), prepend=True),
        m.register_full_backward_pre_hook(log.hook("pre 1")),
        m.register_full_backward_pre_hook(log.hook("pre 2"), prepend=True),
    ),
}


@pytest.mark.parametrize("used", ["both", "first", "second"])
@pytest.mark.parametrize("name", BACKWARD)
def test_backward_hooks(agree, name, used):
    def snippet(t):
        log = Log()
        m = two(t)
        BACKWARD[name](m, log)
        a, b = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
        x, y = m(a, b, t.ones(1))
        {"both": x + y, "first": x, "second": y}[used].sum().backward()
        return log, a.grad

    agree(snippet)


def test_backward_hooks_of_all_modules(agree, torch_names, fixed):
    def snippet(t):
        log = Log()
        register = t.nn.modules.module
        m = t.nn.Sequential(t.nn.Linear(1, 1), t.nn.Tanh())
        fixed(m, t)
        with (
            register.register_module_full_backward_hook(log.hook("full")),
            register.register_module_full_backward_pre_hook(log.hook("pre")),
        ):
            x = t.ones(1, 1, requires_grad=True)
            m(x).sum().backward()
        return log, x.grad

    agree(snippet)


def test_backward_hook_without_gradients_of_inputs(agree, fixed):
    def snippet(t):
        log = Log()
        m = fixed(t.nn.Linear(2, 1), t)
        m.register_full_backward_hook(log.hook("full"))
        m(t.ones(1, 2)).sum().backward()
        with t.no_grad():
            m(t.ones(1, 2))
        return log, m.weight.grad

    agree(snippet)


def test_a_hook_cannot_make_gradients_nobody_wants(agree):
    def snippet(t):
        m = t.nn.Linear(2, 1)
        m.register_full_backward_hook(lambda m, gi, go: (t.ones(1, 2),))
        m(t.ones(1, 2)).sum().backward()

    agree(snippet)


def test_backward_hooks_see_a_second_backward(agree):
    def snippet(t):
        log = Log()
        m = t.nn.Tanh()
        m.register_full_backward_hook(log.hook("full"))
        x = t.zeros(1, requires_grad=True)
        y = m(x)
        y.backward(retain_graph=True)
        y.backward()
        return log, x.grad

    agree(snippet)


def test_an_input_used_behind_the_module(agree):
    def snippet(t):
        m = scale(t)
        m.register_full_backward_hook(lambda *args: None)
        seen = []
        m.register_forward_hook(lambda mod, args, out: seen.append(args[0]))
        m(t.ones(1, requires_grad=True))
        seen[0].sum().backward()

    agree(snippet)


def test_named_tuples_pass_through():
    m = nn.Identity()
    m.forward = lambda pair: Pair(pair.first * 2, "text")
    m.register_full_backward_hook(lambda *args: None)
    out = nn.Identity.__call__(m, Pair(weft.ones(1), 1))
    assert out.second == "text"
    m.forward = lambda x: Pair(x * 2, "text")
    x = weft.ones(1, requires_grad=True)
    out = m(x)
    assert type(out) is Pair and out.second == "text"
    out.first.backward()
    assert x.grad.tolist() == [2.0]


def test_outputs_without_tensors_are_reported(agree):
    def snippet(t):
        class Dict(t.nn.Module):
            def forward(self, x):
                return {"out": x}

        m = Dict()
        m.register_full_backward_hook(lambda *args: None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            m(t.ones(1, requires_grad=True))
        return [str(w.message) for w in caught]

    agree(snippet)


def test_registration_hooks(torch_names):
    log = []

    def note(kind, replacement=None):
        def hook(module, name, value):
            log.append((kind, name))
            return replacement

        return hook

    other = nn.Parameter(weft.ones(1))
    with (
        nn.register_module_parameter_registration_hook(note("parameter", other)),
        nn.register_module_buffer_registration_hook(note("buffer")),
        nn.register_module_module_registration_hook(note("module")),
    ):
        m = nn.Module()
        m.p = nn.Parameter(weft.zeros(1))
        m.register_buffer("b", weft.zeros(1))
        m.b = weft.ones(1)
        m.c = nn.ReLU()
    m.q = nn.Parameter(weft.zeros(1))
    assert log == [("parameter", "p"), ("buffer", "b"), ("buffer", "b"), ("module", "c")]
    assert m.p is other
