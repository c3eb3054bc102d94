"""What is said of names that are not there."""

import importlib
import pickle
import pkgutil
import subprocess
import sys

import pytest

import weft
from weft.base.alias import is_house


@pytest.mark.parametrize("module, name, said", [
    ("", "qqq", "docs/names.md"), ("", "rnad", "'rand'"), ("", "FloatTensr", "'FloatTensor'"),
    ("nn", "Conv2D", "'Conv2d'"), ("nn", "Lienar", "'Linear'"), ("", "compil", "'compile'"),
    ("nn.functional", "soft_max", "'softmax'"), ("jit", "trase", "'trace'"),
    ("cuda", "is_avaliable", "'is_available'"), ("utils.data", "Dataloader", "'DataLoader'"),
])  # fmt: skip
def test_a_missing_name_names_the_nearest(module, name, said):
    space = weft
    for part in filter(None, module.split(".")):
        space = getattr(space, part)
    with pytest.raises(AttributeError, match=f"module .* has no attribute '{name}'.*Hint: ") as e:
        getattr(space, name)
    assert said in str(e.value)
    assert not hasattr(space, name)


def public_modules():
    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        if not is_house(module.name) and "._" not in module.name:
            yield module.name


#: Modules of whatever names: what is asked of them is made.
ANY_NAME = {"weft.classes", "weft.ops"}


@pytest.mark.parametrize("name", list(public_modules()))
def test_every_public_module_names_the_nearest(name):
    """Those that load late, as torch.distributed, said only that there is no such attribute."""
    module = importlib.import_module(name)
    if name in ANY_NAME:
        assert module.no_such_name is not None
        return
    public = sorted(n for n in dir(module) if not n.startswith("_"))
    for near in public[:1]:
        with pytest.raises(AttributeError, match="Hint: did you mean"):
            getattr(module, near + "q")
    with pytest.raises(AttributeError, match=f"module '{name}' has no .* 'no_such_name'. Hint: "):
        module.no_such_name  # noqa: B018
    assert not hasattr(module, "no_such_name")


def test_modules_that_load_late_are_complete_in_each_way_of_importing():
    code = (
        "{first}; import {0}.distributed, {0}.export; from {0} import fx\n"
        "for module in ({0}.distributed, {0}.export, fx):\n"
        "    try: module.no_such_name\n"
        "    except AttributeError as e: assert 'Hint: ' in str(e), e\n"
        "print({0}.fx.__name__)"
    )
    for first, name in (("import weft", "weft"), ("import weft; weft.install_as_torch()", "torch")):
        text = code.format(name, first=first)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        assert done.stdout == f"{name}.fx\n", done.stderr


def test_marks_for_a_compiler_leave_functions_as_they_are():
    assert not weft.jit.is_scripting() and not weft.jit.is_tracing()

    @weft.jit.unused
    def f(x):
        return x

    @weft.jit.ignore(drop=True)
    def g(x):
        return x

    assert f(1) == g(1) == 1


def test_types_of_tensors():
    """isinstance with FloatTensor raised TypeError, and type() refused it."""
    x = weft.FloatTensor([1, 2])
    assert isinstance(x, weft.FloatTensor) and not isinstance(x, weft.LongTensor)
    assert isinstance(weft.nn.Parameter(x), weft.FloatTensor)
    assert x.type(weft.LongTensor).dtype is weft.int64
    assert repr(weft.DoubleTensor) == "<class 'torch.DoubleTensor'>"


def test_composites_in_place_keep_what_the_graph_saved():
    """scatter_reduce_ wrote over the values that its gradient reads."""
    y = weft.tensor([1.0, 3.0, 2.0], requires_grad=True)
    out = weft.zeros(2).scatter_reduce_(0, weft.tensor([0, 1, 1]), y * 2, "amax")
    out.sum().backward()
    assert y.grad.tolist() == [2, 2, 0]


def test_einsum_takes_lists_of_subscripts():
    a, b = weft.randn(2, 3), weft.randn(3, 4)
    weft.testing.assert_close(weft.einsum(a, [0, 1], b, [1, 2], [2, 0]), (a @ b).T)
    weft.testing.assert_close(weft.einsum(a, [..., 1], [1, ...]), a.T)
    with pytest.raises(ValueError):
        weft.einsum(a, [0, 60])
    with pytest.raises(RuntimeError):
        weft.einsum("ii", a)
    with pytest.raises(RuntimeError):
        weft.einsum("i$", a)
    with pytest.raises(RuntimeError):
        weft.einsum("ij->ii", a)


def test_asking_whether_a_name_is_there_looks_for_no_other(monkeypatch):
    """hasattr compared the name with all others, milliseconds for a question of programs."""
    import difflib

    def searched(*args):
        raise AssertionError("a name was looked for")

    monkeypatch.setattr(difflib, "get_close_matches", searched)
    assert not hasattr(weft, "no_such_name") and not hasattr(weft.nn.functional, "no_such_name")
    with pytest.raises(AttributeError) as e:
        weft.no_such_name  # noqa: B018
    with pytest.raises(AssertionError, match="looked for"):
        str(e.value)


def test_the_error_is_an_attribute_error_in_copies_too():
    try:
        weft.rnad  # noqa: B018
    except AttributeError as e:
        assert repr(type(e)) == "<class 'AttributeError'>"
        again = pickle.loads(pickle.dumps(e))
        assert type(again) is AttributeError and str(again) == str(e)
        assert e.args == (str(e),) and repr(e) == repr(again)


@pytest.mark.parametrize("home", ["", "nn", "nn.functional", "utils", "utils.data", "linalg",
                                  "optim", "autograd", "distributions", "amp", "fft"])  # fmt: skip
def test_dir_lists_public_names_only(home):
    space = weft
    for part in filter(None, home.split(".")):
        space = getattr(space, part)
    names = {n for n in dir(space) if not n.startswith("__")}
    assert not names & {"annotations", "Any", "ModuleType", "Callable", "weft", "base"}
    assert not any(n.startswith("_") for n in names)
    assert set(getattr(space, "__all__", ())) <= names
    assert all(hasattr(space, n) for n in names)
