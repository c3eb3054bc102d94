"""`__torch_function__`: which calls ask, with which function, and what becomes of the results.

What programs see of it is in programs/tensor_subclasses.py.
"""

import functools
import threading
import warnings

import pytest

import weft
from weft import _C, overrides


def resolved(home, name):
    """`torch.nn.functional.relu` of weft or PyTorch, or None where it has none."""
    try:
        return functools.reduce(getattr, name.split(".")[1:], home)
    except AttributeError:
        return None


def names_in(torch):
    """The names of the functions and members of Tensor that PyTorch lets classes override."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        listed = torch.overrides.get_overridable_functions()
        found = {torch.overrides.resolve_name(f) for fs in listed.values() for f in fs}
    return sorted({n.removesuffix(".__get__").removesuffix(".__set__") for n in found if n})


#: What asks nobody: it takes no tensors here.
PLAIN = {
    "torch.autocast", "torch.detach", "torch.sym_float", "torch.sym_ite",
    "torch.sym_max",
    "torch.sym_min", "torch.sym_not", "torch.sym_sqrt", "torch.sym_sum", "torch.triangular_solve",
}  # fmt: skip


def test_what_pytorch_lets_classes_override_asks_here(torch):
    asking = (
        type(weft.add), type(weft.Tensor.add), type(weft.nn.functional.dropout),
        type(weft.Tensor.item), type(weft.Tensor.shape), type(weft.Tensor.__add__),
    )  # fmt: skip
    known = {name: resolved(weft, name) for name in names_in(torch)}
    offered = {name: f for name, f in known.items() if f is not None}
    assert len(offered) > 1000
    assert {n for n, f in offered.items() if not isinstance(f, asking)} - PLAIN == set()


class Told(weft.Tensor):
    """Notes the functions it is asked for."""

    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Told.calls.append(overrides.resolve_name(func))
        return super().__torch_function__(func, types, args, kwargs)


def told_by(t):
    class Told(t.Tensor):
        calls: list = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            Told.calls.append(t.overrides.resolve_name(func))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Told


CALLS = [
    "x + 1", "1 + x", "x - 1", "x * x", "x @ x", "-x", "abs(x)", "x > 1", "1 > x", "x == 1",
    "x != x", "x & x", "x[0]", "x.T", "x.mT", "x.shape", "x.ndim", "x.dtype", "x.device", "x.grad",
    "x.data", "x.is_leaf", "x.requires_grad", "x.size()", "x.dim()", "x.tolist()", "x.sum().item()",
    "bool(x.sum())", "x.detach()", "x.clone()", "x.unbind()", "x.max(0)", "x.to(t.int32)",
    "x.reshape(-1)", "t.add(x, 1)", "t.cat([x, x])", "t.stack((x, x))", "t.where(x > 0, x, x)",
    "t.zeros_like(x)", "x.new_zeros(3)", "t.softmax(x.double(), 0)", "t.einsum('ij->i', x)",
    "t.nn.functional.softmax(x.double(), 0)", "t.rsub(x, 1)", "t.linalg.det(x.double())",
    "t.nn.functional.linear(x, x)",
    "t.fft.fft(x.double()).real", "t.special.erf(x.double())", "t.ones(2, 2) * x", "x.split(1)",
    "t.nn.Linear(2, 2).double()(x.double())", "t.autograd.grad((w * x).sum(), w)",
    "t.special.bessel_j0(x.double())", "x.cpu()", "repr(x)", "len(x)",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", CALLS)
def test_a_class_is_asked_for_the_functions_that_pytorch_asks_for(torch, text):
    seen = []
    for t in (weft, torch):
        cls = told_by(t)
        x = t.tensor([[1, 2], [3, 4]]).as_subclass(cls)
        cls.calls.clear()
        kind = eval(text, {"t": t, "x": x, "w": t.ones(2, 2, requires_grad=True)})
        seen.append(([name and name.split(".")[-1] for name in cls.calls], type(kind).__name__))
    ours, theirs = seen
    assert ours == theirs


def test_subclasses_answer_first_and_not_implemented_hands_on():
    class Low:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return cls.__name__, [t.__name__ for t in types]

    class High(Low):
        pass

    class Declines(Low):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    assert weft.cat([Low(), High()]) == ("High", ["High", "Low"])
    assert weft.add(Low(), High()) == ("High", ["High", "Low"])
    assert weft.add(Declines(), Low()) == ("Low", ["Declines", "Low"])
    assert weft.nn.functional.gelu(Low()) == ("Low", ["Low"])
    assert (weft.ones(1) + Low())[0] == (weft.ones(1) == Low())[0] == "Low"
    for call in (
        lambda: weft.add(Declines(), 1),
        lambda: weft.ones(2) @ Declines(),
        lambda: weft.nn.functional.relu(Declines()),
    ):
        with pytest.raises(TypeError, match="no implementation found for 'torch"):
            call()


def test_what_has_no_such_method_is_refused_as_before():
    with pytest.raises(TypeError, match="must be Tensor, not object"):
        weft.relu(object())
    with pytest.raises(TypeError, match="unsupported operand"):
        weft.ones(2) + object()


def test_subclasses_keep_their_class_in_graphs_threads_and_batches():
    x = weft.ones(3, requires_grad=True)
    y = x.as_subclass(Told)
    loss = (y * y).sum()
    assert type(loss) is Told
    loss.backward()
    assert type(x.grad) is weft.Tensor and x.grad.tolist() == [2, 2, 2]

    def f(a):
        b = a.as_subclass(Told) * 2
        return b if b.sum() > 3 else b - 1

    examples = [weft.full((2,), float(k)) for k in range(6)]
    batched = weft.autobatch(f)(examples)
    assert [type(b) for b in batched] == [Told] * 6
    assert [b.tolist() for b in batched] == [f(a).tolist() for a in examples]

    compiled = weft.compile(lambda a, n: [a * k + a for k in range(n)])
    for _ in range(6):
        assert [type(r) for r in compiled(y, 3)] == [Told] * 3
        assert [type(r) for r in compiled(x, 3)] == [weft.Tensor] * 3

    kinds = []
    with weft._C.DisableTorchFunctionSubclass():
        thread = threading.Thread(target=lambda: kinds.append(type(y + 1)))
        thread.start()
        thread.join()
        assert type(y + 1) is weft.Tensor
    assert kinds == [Told] and type(y + 1) is Told


class Names(overrides.TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_modes_hear_what_the_block_calls_also_of_compiled_functions():
    step = weft.compile(lambda a: (a * 2).relu().sum())
    x = weft.ones(4)
    for _ in range(6):
        step(x)
    with Names() as mode:
        step(x)
    assert mode.names == ["mul", "relu", "sum"]
    heard = len(mode.names)
    step(x)
    assert len(mode.names) == heard and not _C._mode() & 1024


def test_a_mode_ends_with_its_block_whatever_happens_in_it():
    class Fails(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise ValueError(func.__name__)

    with pytest.raises(ValueError, match="ones"), Names() as outer, Fails():
        weft.ones(2)
    assert outer.names == [] and (weft.ones(2) + 1).tolist() == [2, 2]
    with Names() as mode:
        with weft._C.DisableTorchFunction():
            weft.ones(2)
        assert mode.names == [] and overrides._get_current_function_mode() is mode
        weft.ones(2).shape  # noqa: B018
    assert mode.names == ["ones", "__get__"]
    assert overrides._get_current_function_mode() is None


def test_names_and_lists(torch):
    for name in ("torch.add", "torch.Tensor.add", "torch.nn.functional.relu", "torch.linalg.det"):
        f = resolved(weft, name)
        assert (
            overrides.resolve_name(f) == name == torch.overrides.resolve_name(resolved(torch, name))
        )
        assert overrides.is_tensor_method_or_property(f) == ("Tensor" in name)
    assert overrides.resolve_name(print) is None
    assert overrides.resolve_name(weft.Tensor.grad.__set__) == "torch.Tensor.grad.__set__"
    listed = overrides.get_overridable_functions()
    assert weft.add in listed[weft] and weft.Tensor.add in listed[weft.Tensor]
    assert weft.Tensor.as_subclass in overrides.get_ignored_functions()
    assert weft.add not in overrides.get_ignored_functions()


def test_tensor_takes_attributes_of_the_programs(torch):
    """It refused: cannot set attribute of immutable type 'torch.Tensor'."""
    x, p = weft.ones(2), weft.nn.Parameter(weft.ones(2))
    weft.Tensor.twice = lambda self: self * 2
    try:
        assert x.twice().tolist() == p.twice().tolist() == [2, 2]
    finally:
        del weft.Tensor.twice
    assert not hasattr(x, "twice")
    before = weft.Tensor.__add__
    try:
        weft.Tensor.__add__ = lambda self, other: "mine"
        assert x + 1 == p + 1 == "mine"
    finally:
        weft.Tensor.__add__ = before
    assert (x + 1).tolist() == (p + 1).tolist() == [2, 2]


def test_what_is_asked_of_any_object_asks_no_class(torch):
    """`is_tensor` of an object whose class answers few functions raised that it is not one."""

    class Answers:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError(func)

    for lib in (weft, torch):
        assert not lib.is_tensor(Answers()) and not lib.is_storage(Answers())
        assert lib.typename(Answers()).endswith("Answers")
