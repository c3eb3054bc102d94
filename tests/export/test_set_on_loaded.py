"""What is set on a program that was loaded or exported: the next run has it, as PyTorch's, or it
raises (Note [What is set on a loaded Module] in weft/jit/tables.py).

All of it was stored and shown, and the program ran as before.
"""

import copy
import io
import pickle

import pytest

import weft

torch = pytest.importorskip("torch")


def made_of(lib):
    """A Module of a library with what can be set."""

    class Child(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(2))
            self.register_buffer("shift", lib.zeros(2))

        def forward(self, x):
            return x * self.weight + self.shift

    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = lib.nn.Parameter(lib.ones(2))
            self.child = Child()
            self.k = 2
            self.unread = 7
            self.register_buffer("buf", lib.zeros(2))
            self.register_buffer("none", None)
            self.register_buffer("count", lib.zeros(()))

        def forward(self, x):
            self.count = self.count + 1
            rows = lib.ones(self.w.shape[0], dtype=self.w.dtype)
            return self.child(x * self.w) * self.k + self.buf.to(self.w.dtype) + rows.sum()

    return Net()


def loaded(lib):
    file = io.BytesIO()
    lib.jit.save(lib.jit.script(made_of(lib)), file)
    file.seek(0)
    return lib.jit.load(file)


def exported(lib):
    return lib.export.export(made_of(lib), (lib.ones(2),)).module()


def threes(lib, size=2, **kwargs):
    return lib.full((size,), 3.0, **kwargs)


def given(name, value, path=""):
    def change(lib, p):
        setattr(p.get_submodule(path) if lib is weft else getattr(p, path, p), name, value(lib))

    return change


def parameter(lib):
    return lib.nn.Parameter(threes(lib))


def assigned(lib, p):
    p.load_state_dict({k: v + 1 for k, v in p.state_dict().items()}, assign=True)


def applied(lib, p):
    def change(module):
        if hasattr(module, "weight"):
            module.weight = parameter(lib)

    p.apply(change)


def forgotten(lib, p):
    p._parameters["w"] = parameter(lib)
    p._buffers["buf"] = threes(lib)


# What the next run has. In PyTorch too, but for what its exporter lays down.
TAKEN = {
    "a parameter": given("w", parameter),
    "a tensor for a parameter": given("w", threes),
    "a parameter of another size": given("w", lambda lib: lib.nn.Parameter(threes(lib, 1))),
    "a parameter in a child": given("weight", parameter, "child"),
    "a buffer": given("buf", threes),
    "a parameter for a buffer": given("buf", parameter),
    "a buffer in a child": given("shift", threes, "child"),
    "a buffer that the program writes": given("count", lambda lib: lib.ones(())),
    "register_buffer": lambda lib, p: p.register_buffer("buf", threes(lib)),
    "register_parameter": lambda lib, p: p.register_parameter("w", parameter(lib)),
    "load_state_dict(assign=True)": assigned,
    "apply": applied,
    "the tables": forgotten,
    "data of another dtype": lambda lib, p: setattr(p.w, "data", threes(lib, dtype=lib.float64)),
    "double": lambda lib, p: p.double(),
    "a child's double": lambda lib, p: p.child.double(),
    "a name that the program never looked up": given("unread", lambda lib: 8),
    "a new name": given("other", lambda lib: 8),
    "forward": lambda lib, p: setattr(p, "forward", lambda x: x * 5),
}


# Modules with their source refuse these, and exported ones look at the dtypes of arguments.
OF_SCRIPTS = {"a tensor for a parameter", "a parameter for a buffer", "double"}


@pytest.mark.parametrize("runs", [0, 3], ids=["not run", "run before"])
@pytest.mark.parametrize("name", TAKEN)
def test_the_next_run_has_what_was_set(name, runs):
    results = []
    for lib in (torch, weft):
        p = loaded(lib)
        for _ in range(runs):  # a plan is made
            p(lib.ones(2))
        TAKEN[name](lib, p)
        results.append([p(lib.ones(2)) for _ in range(3)])
        results[-1].append(p.count)
    for theirs, ours in zip(*results):
        assert (ours.tolist(), str(ours.dtype)) == (theirs.tolist(), str(theirs.dtype))


@pytest.mark.parametrize("name", [name for name in TAKEN if name not in OF_SCRIPTS])
def test_the_next_run_of_an_exported_module_has_what_was_set(name):
    p, net = exported(weft), made_of(weft)
    for one in (p, net):
        TAKEN[name](weft, one)
    assert p(weft.ones(2)).tolist() == net(weft.ones(2)).tolist()


def hook(name):
    return lambda lib, p: getattr(p, name)(lambda *args: None)


HOOKS = [
    "register_forward_pre_hook", "register_forward_hook", "register_full_backward_hook",
    "register_full_backward_pre_hook", "register_backward_hook", "register_state_dict_pre_hook",
    "register_state_dict_post_hook", "register_load_state_dict_pre_hook",
    "register_load_state_dict_post_hook",
]  # fmt: skip
NO_MODULE = "Cannot re-assign modules in a ScriptModule with non-scripted module"
NO_NEW = "Can't add a new parameter after ScriptModule construction"
NO_CAST = "Could not cast attribute '{}' to type {}"
GONE = "cannot delete methods or parameters of a script module"
# What PyTorch refuses, by its sentence.
REFUSED = {
    "None for a parameter": (given("w", lambda lib: None), NO_CAST.format("w", "Tensor")),
    "None for a buffer": (given("buf", lambda lib: None), NO_CAST.format("buf", "Tensor")),
    "a number for a buffer": (given("buf", lambda lib: 3), NO_CAST.format("buf", "Tensor")),
    "a buffer for None": (given("none", threes), NO_CAST.format("none", "NoneType")),
    "another Module": (given("child", lambda lib: lib.nn.ReLU()), NO_MODULE),
    "another Module in the table": (
        lambda lib, p: p._modules.__setitem__("child", lib.nn.ReLU()), NO_MODULE),
    "add_module": (lambda lib, p: p.add_module("more", lib.nn.ReLU()), NO_MODULE),
    "a new Module": (given("more", lambda lib: lib.nn.ReLU()), NO_MODULE),
    "a new parameter": (given("more", parameter), NO_NEW),
    "a new buffer": (lambda lib, p: p.register_buffer("more", threes(lib)), NO_NEW),
    "a parameter deleted": (lambda lib, p: delattr(p, "w"), GONE),
    "a Module deleted": (lambda lib, p: delattr(p, "child"), GONE),
    "functional_call": (
        lambda lib, p: lib.func.functional_call(p, {"w": threes(lib)}, (lib.ones(2),)),
        "The stateless API can't be used with Jitted modules"),
    **{name: (hook(name), f"{name} is not supported on ScriptModules") for name in HOOKS},
    "a hook of a child": (
        lambda lib, p: p.child.register_forward_hook(print),
        "register_forward_hook is not supported on ScriptModules"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_reach_the_program_raises(name):
    change, sentence = REFUSED[name]
    for lib in (torch, weft):
        p = loaded(lib)
        with pytest.raises(RuntimeError) as caught:
            change(lib, p)
        assert sentence in str(caught.value)
        assert p(lib.ones(2)).tolist() == [4, 4]


@pytest.mark.parametrize("make", [loaded, exported])
@pytest.mark.parametrize(
    "change",
    [
        given("k", lambda lib: 3),
        lambda lib, p: delattr(p, "k"),
        given("forward", lambda lib: abs, "child"),
        lambda lib, p: p._parameters.pop("w"),
        lambda lib, p: p._parameters.clear(),
        lambda lib, p: p._parameters.popitem(),
        lambda lib, p: p._buffers.update(more=threes(lib)),
        lambda lib, p: p._buffers.setdefault("more", threes(lib)),
    ],
)
def test_what_the_program_was_saved_with_stays(make, change):
    """PyTorch's has `k` as an attribute; here it is part of the instructions."""
    p = make(weft)
    with pytest.raises(RuntimeError):
        change(weft, p)
    assert p(weft.ones(2)).tolist() == [4, 4]


def test_attributes_of_a_loaded_module_are_read():
    for lib in (torch, weft):
        p = loaded(lib)
        assert (p.k, hasattr(p, "other")) == (2, False)


def test_gradients_reach_a_parameter_that_was_set():
    p = loaded(weft)
    p.w, p.child.weight = parameter(weft), parameter(weft)
    p(weft.ones(2)).sum().backward()
    assert p.w.grad.tolist() == [6, 6] and p.child.weight.grad.tolist() == [6, 6]


@pytest.mark.parametrize("make", [loaded, exported])
def test_copies_have_what_was_set(make):
    p = make(weft)
    p.w, p.buf = parameter(weft), threes(weft)
    for other in (copy.deepcopy(p), copy.copy(p), pickle.loads(pickle.dumps(p))):
        assert other(weft.ones(2)).tolist() == p(weft.ones(2)).tolist() == [11, 11]
    if make is loaded:
        again = weft.jit.load(io.BytesIO(p.save_to_buffer()))
        assert again(weft.ones(2)).tolist() == [11, 11]
        with pytest.raises(TypeError, match="copy the root"):
            copy.deepcopy(p.child)


class Tied(weft.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = weft.nn.Linear(1, 1, bias=False), weft.nn.Linear(1, 1, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.a(x) + self.b(x)


def test_a_tensor_with_two_names_is_set_under_both():
    p = weft.jit.load(io.BytesIO(weft.jit.script(Tied()).save_to_buffer()))
    p.a.weight = weft.nn.Parameter(weft.ones(1, 1))
    with pytest.raises(RuntimeError, match="one tensor for 'a.weight' and 'b.weight'"):
        p(weft.ones(1))
    p.b.weight = p.a.weight
    assert p(weft.ones(1)).item() == 2


@pytest.mark.parametrize("lib", [torch, weft], ids=["PyTorch", "weft"])
def test_modules_of_an_export_are_new_ones(lib):
    """They were one program: what was set on one, the other had."""

    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.v = lib.nn.Parameter(lib.ones(1)), lib.nn.Parameter(lib.ones(1))
            self.register_buffer("n", lib.zeros(1))

        def forward(self, x):
            self.n.add_(1)
            return x * self.w + self.v + self.n

    made = lib.export.export(Net(), (lib.ones(1),))
    one, other = made.module(), made.module()
    one.w = lib.nn.Parameter(lib.full((1,), 7.0))
    with lib.no_grad():
        other.v.mul_(2)
    results = [module(lib.ones(1)).item() for module in (one, other, made.module())]
    assert results == [7 + 2 + 1, 1 + 2 + 2, 1 + 2 + 3]
    assert {name: t.item() for name, t in made.state_dict.items()} == {"w": 1, "v": 2, "n": 3}


@pytest.mark.parametrize("lib", [torch, weft], ids=["PyTorch", "weft"])
def test_an_example_that_cannot_run_is_refused_by_export(lib):
    """It was taken, and raised when the graph was read."""
    net = lib.nn.Sequential(lib.nn.Linear(3, 3), lib.nn.BatchNorm1d(3))
    with pytest.raises(RuntimeError, match="2.*4.*3"):
        lib.export.export(net, (lib.ones(2, 4),))
    made = lib.export.export(net, (lib.ones(2, 3),))
    assert net[1].num_batches_tracked.item() == made.state_dict["1.num_batches_tracked"].item() == 0


def test_two_parameters_become_one():
    net = Tied()
    net.b = weft.nn.Linear(1, 1, bias=False)
    p = weft.jit.load(io.BytesIO(weft.jit.script(net).save_to_buffer()))
    p.a.weight = p.b.weight = weft.nn.Parameter(weft.ones(1, 1))
    p(weft.ones(1)).backward()
    assert p.a.weight.grad.item() == 2
    assert copy.deepcopy(p)(weft.ones(1)).item() == 2


def test_hooks_of_all_modules_see_a_loaded_one():
    calls = []
    handle = weft.nn.modules.module.register_module_forward_hook(
        lambda module, args, out: calls.append(type(module).__name__)
    )
    with handle:
        loaded(weft)(weft.ones(2))
    assert calls == ["RecursiveScriptModule"]


@pytest.mark.parametrize("name", ["k", "unread", "other"])
def test_an_attribute_of_a_scripted_module_is_that_of_its_module(name):
    net = made_of(weft)
    scripted = weft.jit.script(net)
    before = scripted(weft.ones(2))
    setattr(scripted, name, 3)
    assert getattr(net, name) == 3
    assert scripted(weft.ones(2)).tolist() == (before + (name == "k")).tolist()
    delattr(scripted, name)
    assert not hasattr(net, name)


def test_a_compiled_module_calls_a_loaded_one():
    class Around(weft.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = loaded(weft)

        def forward(self, x):
            return self.inner(x) * 2

    net = Around()
    call = weft.compile(net)
    for _ in range(3):
        assert call(weft.ones(2)).tolist() == [8, 8]
    net.inner.w = parameter(weft)
    assert call(weft.ones(2)).tolist() == [16, 16]
