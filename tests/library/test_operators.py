"""`torch.library` and `torch.ops`: programs that define operators find what PyTorch has."""

import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest

import weft
from weft import Tensor
from weft._library.operators import KEYS


def define(t, space):
    """The operators of a table, in the library `t`, in a namespace."""
    from collections.abc import Sequence

    T = t.Tensor  # noqa: N806

    def scale(x: T, by: float = 2.0, *, plus: int = 0) -> T:
        return t.from_numpy(np.asarray(x.numpy() * by + plus))

    def split(x: T, n: int) -> tuple[T, T]:
        return x[:n].clone(), x[n:].clone()

    def each(xs: Sequence[T], by: float | None = None) -> list[T]:
        return [x * (3.0 if by is None else by) for x in xs]

    def add_into(x: T, y: T) -> None:
        x += y

    def count(x: T) -> int:
        return int(x.numel())

    def same(x: T) -> T:
        return x

    ops = t.library.custom_op
    made = {
        f.__name__: ops(f"{space}::{f.__name__}", f, mutates_args=w)
        for f, w in (
            (scale, ()), (split, ()), (each, ()), (add_into, {"x"}), (count, ()), (same, ()),
        )
    }  # fmt: skip

    def keep(ctx, inputs, keyword_only_inputs, output):
        ctx.by = inputs[1]

    made["scale"].register_autograd(lambda ctx, g: (g * ctx.by, None), setup_context=keep)
    made["each"].register_autograd(
        lambda ctx, gs: ([None if g is None else g * 3 for g in gs], None),
        setup_context=lambda ctx, inputs, output: None,
    )
    for schema in (
        "lone(Tensor x) -> Tensor", "inner(Tensor x, int n=2) -> Tensor",
        "bare(Tensor x) -> Tensor", "two(Tensor x) -> Tensor",
        "two.more(Tensor x, Tensor y) -> Tensor",
    ):  # fmt: skip
        t.library.define(f"{space}::{schema.partition('(')[0]}", schema[schema.index("(") :])
    t.library.impl(f"{space}::inner", "default", lambda x, n=2: x**n)
    t.library.impl(f"{space}::lone", "cuda", lambda x: x)
    t.library.impl(f"{space}::two", "cpu", lambda x: x + 1)
    t.library.impl(f"{space}::two.more", "cpu", lambda x, y: x + y)
    return made


CALLS = """
str(o.scale) + repr(o.scale) + str(o.scale.default) + repr(o.scale.default)
o.scale.default.name() + o.scale.default.__name__ + o.scale.default.namespace + o.two.more.name()
str(o.scale.default._schema)
str(o.each.default._schema)
str(o.add_into.default._schema)
str(o.split.default._schema)
o.two.overloads()
[(a.name, str(a.type), a.kwarg_only, a.default_value) for a in o.scale.default._schema.arguments]
o.two.more._schema.overload_name + o.two.more._schema.name
o.add_into.default._schema.is_mutable
o.scale(x)
o.scale(x, 3)
o.scale(x, by=3, plus=1)
o.scale(x=x)
o.split(x, 1)
o.each([x, x], 2.0)
o.each((x,))
o.count(x)
o.add_into(x.clone(), x)
o.two(x)
o.two(x, x)
o.two.more(x, x)
o.inner(x)
o.inner(x, 3)
o.inner(w)
o.scale(w).requires_grad
o.add_into(w, x)
t.autograd.grad(o.scale(w, 5.0).sum(), w)
t.autograd.grad(sum(a.sum() for a in o.each([w, w * 2], 3.0)), w)
t.autograd.grad(o.split(w, 1)[0].sum(), w)
t.autograd.grad(o.inner(w, 3).sum(), w)
t.vmap(lambda v: o.scale(v))(x.view(3, 1))
t.vmap(lambda v: o.split(v, 1), out_dims=1)(x.view(1, 3))
o.scale()
o.scale("x")
o.scale(x, "x")
o.scale(x, 1.0, 2)
o.scale(x, q=2)
o.scale(x, x=x)
o.scale(3)
o.each(x)
o.same(x)
o.lone(x)
o.bare(x)
o.nothing
o.scale.nothing
t.ops.no_space.nothing
t.ops.torchvision.nms
t.ops.aten.nothing
t.ops.load_library("/no/such.so")
t.ops.loaded_libraries
made["add_into"].register_autograd(lambda ctx, g: g)
t.library.register_autograd(o.add_into.default, lambda ctx, g: g)
t.library.Library("no_space", "NO")
t.library.Library("prim", "DEF")
t.library.define("no_namespace", "(Tensor x) -> Tensor")
t.library.define("s::wrong", "Tensor x")
t.library.define("s::wrong", "(Tensr x) -> Tensor")
t.library.register_fake("s::there_is_none", lambda x: x)
t.library.get_ctx()
t.library.opcheck(o.inner.default, (x,), test_utils="no_test")
t.library.custom_op("no_namespace", lambda x: x, mutates_args=())
""".strip().splitlines()

#: PyTorch's sentences that the message has to have too, where the types agree.
SENTENCES = [
    "takes 2 positional argument(s) but 3 was/were given", "Unknown keyword argument 'q'",
    "specified both as positional and keyword argument", "is missing value for argument 'x'",
    "Expected a value of type 'Tensor' for argument 'x' but instead found type 'str'",
    "(1) must not also be an input", "Please use register_autograd to add one",
    "has no attribute 'nothing'", "has no overload name 'nothing'", "Could not load this library",
    "Cannot register autograd formula for non-functional operator", "Unsupported kind: NO",
    "from the 'CPU' backend", "is a reserved namespace", "unknown type specifier",
]  # fmt: skip


@pytest.fixture(scope="module")
def both(torch):
    return {t.__name__: (t, define(t, "table")) for t in (weft, torch)}


def answer(t, made, line):
    names = {"t": t, "o": t.ops.table, "made": made, "x": t.tensor([1.0, 2.0, 3.0])}
    names["w"] = t.tensor([1.0, 2.0, 3.0], requires_grad=True) * 1
    try:
        return eval(line, names), None
    except Exception as error:
        return None, error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", CALLS)
def test_a_call_answers_as_pytorchs(both, line):
    mine, error = answer(*both["weft"], line)
    theirs, expected = answer(*both["torch"], line)
    assert type(error).__name__ == type(expected).__name__, (error, expected)
    if expected is None:
        assert repr(mine) == repr(theirs) or "grad_fn" in repr(theirs)
    for sentence in SENTENCES:
        if sentence in str(expected):
            assert sentence in str(error)


SIGNATURES = """
(x: Tensor) -> Tensor
(x: Tensor, n: int, f: float = 0.5, b: bool = True, s: str = "a") -> Tensor
(x: Optional[Tensor] = None, *, d: torch.dtype = None, v: Optional[int] = 3) -> List[Tensor]
(xs: Sequence[Tensor], ns: List[int], fs: Sequence[float], k: list[bool]) -> tuple[Tensor, Tensor]
(xs: List[Optional[Tensor]], n: Union[int, float, bool] = 1) -> None
(d: Optional[torch.device] = None, *, x: Tensor) -> None
(x: "Tensor", n: int | None = None) -> int
(x) -> Tensor
(x: Tensor)
(x: object) -> Tensor
(x: Tensor) -> object
(*x: Tensor) -> Tensor
(x: Tensor, /) -> Tensor
(x: Tuple[int, int]) -> Tensor
(x: dict) -> Tensor
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("written", [(), ("x",), "unknown", ("nobody",)], ids=str)
@pytest.mark.parametrize("signature", SIGNATURES)
def test_schemas_of_annotations_are_pytorchs(torch, signature, written):
    def schema(t):
        import typing

        names = {**vars(typing), "torch": t, "Tensor": t.Tensor}
        exec(f"def f{signature}: ...", names)
        try:
            return t.library.infer_schema(names["f"], mutates_args=written)
        except Exception as error:
            return type(error)

    assert schema(weft) == schema(torch)


@pytest.fixture
def sine():
    @weft.library.custom_op("tests::sine", mutates_args=())
    def sine(x: Tensor, k: float = 1.0) -> Tensor:
        return weft.from_numpy(np.asarray(np.sin(x.numpy()) * k))

    def keep(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]

    sine.register_autograd(
        lambda ctx, g: (g * ctx.saved_tensors[0].cos() * ctx.k, None), setup_context=keep
    )
    sine.register_fake(lambda x, k=1.0: weft.empty_like(x))
    return sine


def program(op):
    def f(v):
        y = op(v * 2)
        if y.sum() > 0:
            y = y + 1
        return op(y, 3.0).sum()

    return f


def plain(v, k=1.0):
    return v.sin() * k


WAYS = {
    "as it is": lambda f, rows: [f(r) for r in rows],
    "compiled": lambda f, rows: [weft.compile(f)(r) for r in rows],
    "autobatch": lambda f, rows: weft.autobatch(f)(list(rows)),
    "vmap": lambda f, rows: weft.func.vmap(f)(rows).unbind(0),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_operator_works_as_any_op(sine, way):
    """Values and gradients are those of the same program over weft's own ops."""
    weft.manual_seed(0)
    x = weft.randn(5, 3, dtype=weft.float64, requires_grad=True)
    results = weft.stack(list(WAYS[way](program(sine), x)))
    expected = weft.stack([program(plain)(r) for r in x])
    weft.testing.assert_close(results, expected)
    (mine,), (theirs,) = (weft.autograd.grad(r.sum(), x) for r in (results, expected))
    weft.testing.assert_close(mine, theirs)


def test_gradients_of_any_order(sine):
    x = weft.randn(4, dtype=weft.float64, requires_grad=True)
    assert weft.autograd.gradcheck(sine, (x,)) and weft.autograd.gradgradcheck(sine, (x,))
    inner = weft.func.grad(lambda v: sine(v, 3.0).sum())
    weft.testing.assert_close(weft.func.vmap(inner)(x.view(2, 2)), 3 * x.cos().view(2, 2))


def test_a_rule_answers_for_all_examples(sine):
    seen = []

    @sine.register_vmap
    def rule(info, in_dims, x, k=1.0):
        seen.append((info.batch_size, in_dims, tuple(x.shape)))
        return sine(x, k), 0

    x = weft.randn(5, 3)
    weft.testing.assert_close(weft.func.vmap(sine, in_dims=(1,))(x), x.T.sin())
    assert seen == [(3, (0, None), (3, 5))]


def test_what_a_traced_program_has_of_it(sine):
    x = weft.randn(3)
    traced = weft.jit.trace(lambda v: sine(v) + 1, (x,))
    assert "sine" in str(traced.graph) and weft.equal(traced(x * 2), sine(x * 2) + 1)
    module = weft.fx.symbolic_trace(lambda v: weft.ops.tests.sine(v) + 1)
    assert "torch.ops.tests.sine(v)" in module.code and weft.equal(module(x), sine(x) + 1)
    with weft.record() as graph:
        sine(x)
    assert [e.name for e in graph.find("tests::sine")] == ["tests::sine"]
    with pytest.raises(RuntimeError, match=r"test_operators.py:\d+: a call of sine"):
        weft.jit.save(weft.jit.script(_calls_sine), io.BytesIO())


def _calls_sine(v):
    return weft.ops.tests.sine(v) + 1


def test_an_operator_is_one_object(sine):
    op = weft.ops.tests.sine.default
    assert op is weft.ops.tests.sine.default and op is sine._opoverload
    assert copy.deepcopy(op) is op and pickle.loads(pickle.dumps(op)) is op
    packet = weft.ops.tests.sine
    assert pickle.loads(pickle.dumps(packet)) is packet and {op: 1}[op] == 1


def test_modes_are_asked_about_operators(sine):
    asked = []

    class Mode(weft.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            asked.append(func)
            return func(*args, **(kwargs or {}))

    x, y = weft.ones(2), weft.ones(2, 2)
    with Mode():
        sine(x)
        weft.ops.aten.mm(y, y)
    assert asked[0] is weft.ops.tests.sine.default and weft.ops.aten.mm in asked


IN_A_PROCESS = """
import weft
weft.install_as_torch()
import torch
from torch import Tensor
from torch.ops import aten
import torch.utils.model_zoo, torch.nn.attention.flex_attention, torch.utils._python_dispatch

@torch.library.custom_op("m::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return x * 2

double.register_autograd(lambda ctx, g: g * 2)
x = torch.ones(2, requires_grad=True)
torch.vmap(double)(x).sum().backward()
print(x.grad.tolist(), aten.add(x, 1).tolist(), torch.ops.aten.mm.default, torch.utils.hooks)
"""


def test_operators_where_weft_is_torch():
    """Modules that are weft's alone were asked of a package that was torch's by name."""
    command = [sys.executable, "-c", IN_A_PROCESS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[2.0, 2.0] [2.0, 2.0] aten.mm.default <module")


# ---- opcheck


def wrong_fake(op):
    op.register_fake(lambda x, k=1.0: x.new_empty((*x.shape, 1)))


def wrong_dtype(op):
    op.register_fake(lambda x, k=1.0: weft.empty_like(x, dtype=weft.float32))


def no_fake(op):
    op._operator.fake = None


def wrong_gradient(op):
    op.register_autograd(lambda ctx, g: (g * 7, None))


def secret_write(op):
    op.register_kernel("cpu", lambda x, k=1.0: x.detach().add_(1) * 1)


WRONG = {
    wrong_fake: "test_faketensor", wrong_dtype: "test_faketensor", no_fake: "test_faketensor",
    wrong_gradient: "test_aot_dispatch_dynamic", secret_write: "test_schema",
}  # fmt: skip


def test_opcheck_finds_nothing_in_what_is_right(sine):
    x = weft.randn(3, dtype=weft.float64, requires_grad=True)
    found = weft.library.opcheck(sine, (x,), {"k": 2.0})
    assert len(found) == 4 and set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("fault", WRONG, ids=lambda f: f.__name__)
def test_opcheck_finds_a_fault(sine, fault):
    fault(sine)
    x = weft.randn(3, dtype=weft.float64, requires_grad=True)
    found = weft.library.opcheck(sine, (x,), raise_exception=False)
    assert isinstance(found[WRONG[fault]], Exception)
    with pytest.raises(Exception, match=WRONG[fault]):
        weft.library.opcheck(sine, (x,))


def test_sizes_that_depend_on_values():
    @weft.library.custom_op("tests::places", mutates_args=())
    def places(x: Tensor) -> Tensor:
        return x.nonzero()

    @places.register_fake
    def fake(x):
        return x.new_empty((weft.library.get_ctx().new_dynamic_size(), x.dim()), dtype=weft.int64)

    assert weft.library.opcheck(places, (weft.tensor([0.0, 1, 1]),))["test_faketensor"] == "SUCCESS"
    places.register_fake(lambda x: x.new_empty((1, x.dim()), dtype=weft.int64))
    with pytest.raises(Exception, match="fake"):
        weft.library.opcheck(places, (weft.tensor([0.0, 1, 1]),), test_utils="test_faketensor")


# ---- Library


def test_kernels_by_dispatch_key():
    lib = weft.library.Library("keyed", "DEF")
    lib.define("f(Tensor x) -> Tensor")
    for key in sorted(KEYS):
        lib.impl("f", lambda x, key=key: x * len(key), key, allow_override=True)
    x = weft.ones(2, requires_grad=True)
    assert weft.ops.keyed.f(x)[0].item() == len("AutogradCPU")
    with weft._C._AutoDispatchBelowAutograd():
        assert weft.ops.keyed.f(x)[0].item() == len("CPU")
    with pytest.raises(RuntimeError, match="dispatch key"):
        lib.impl("f", lambda x: x, "Nothing")
    lib._destroy()
    with pytest.raises(AttributeError):
        weft.ops.keyed.f  # noqa: B018


def test_writes_are_counted():
    @weft.library.custom_op("tests::fill", mutates_args={"x"})
    def fill(x: Tensor) -> None:
        x.numpy()[:] = 5

    x, w = weft.ones(2), weft.ones(2, requires_grad=True)
    y = (x * w).sum()
    fill(x)
    assert x.tolist() == [5, 5]
    with pytest.raises(RuntimeError, match="in-?place"):
        y.backward()


def test_writes_under_vmap_are_those_of_a_loop():
    @weft.library.custom_op("tests::into", mutates_args={"x"})
    def into(x: Tensor, y: Tensor) -> None:
        x.add_(y)

    def call(a, b):
        into(a, b)
        return b * a

    rows, once = weft.ones(3, 2), weft.zeros(2)
    assert weft.func.vmap(call)(weft.zeros(3, 2), rows).tolist() == rows.tolist()
    weft.func.vmap(call, in_dims=(None, 0))(once, rows)
    assert once.tolist() == [3, 3]  # as a loop would


def test_the_fake_of_a_custom_op_answers_on_meta():
    """Without values all memory seemed to be one, so that each result was an argument's."""

    @weft.library.custom_op("tests::halved", mutates_args=())
    def halved(x: Tensor) -> Tensor:
        return x / 2

    halved.register_fake(weft.empty_like)
    x = weft.ones(2, device="meta")
    assert halved(x).shape == (2,) and halved(x).is_meta
    halved.register_fake(lambda x: x[:])
    with pytest.raises(RuntimeError, match="memory of an argument"):
        halved(x)


REFUSED = {
    "torch_dispatch": lambda op: op.register_torch_dispatch(weft.Tensor, print),
    "triton_op": lambda op: weft.library.triton_op("a::b", print, mutates_args=()),
    "wrap_triton": lambda op: weft.library.wrap_triton(print),
    "tags": lambda op: weft.library.define("a::b", "(Tensor x) -> Tensor", tags=("x",)),
    "aten": lambda op: weft.library.register_kernel("aten::mm", "cpu", print),
    "fallback": lambda op: weft.library.Library("tests", "IMPL").fallback(print),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_says_so(sine, what):
    with pytest.raises((RuntimeError, NotImplementedError), match=r"\[\w+\] expected .*, got "):
        REFUSED[what](sine)
