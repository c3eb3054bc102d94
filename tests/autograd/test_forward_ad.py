"""`torch.autograd.forward_ad`: tangents as PyTorch's, of every way that a dual is used."""

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import forward_ad as fw

X, V = [0.3, -1.2, 2.0, 0.7], [1.0, -0.5, 0.25, 3.0]


def shown(value: Any) -> list[Any]:
    """The numbers in it, one after another."""
    if isinstance(value, (tuple, list)):
        return [n for v in value for n in shown(v)]
    return value.detach().reshape(-1).tolist() if hasattr(value, "detach") else [value]


def written(t: Any, f: Any, x: Any, v: Any) -> Any:
    dual = f.make_dual(x.clone(), v.clone())
    dual.mul_(3)
    dual.add_(x.sin())
    out = t.zeros(4)
    out[1:] = dual[:3]
    return f.unpack_dual(dual), f.unpack_dual(out).tangent


def parameters(t: Any, f: Any, x: Any, v: Any) -> Any:
    """The tutorial's way: parameters of a module are duals."""
    t.manual_seed(0)
    m = t.nn.Linear(4, 3)
    names = dict(m.named_parameters())
    for name, p in names.items():
        delattr(m, name)
        setattr(m, name, f.make_dual(p, t.randn_like(p)))
    primal, tangent = f.unpack_dual(m(x))
    again = f.unpack_dual(primal).tangent
    return primal, tangent, again, t.autograd.grad(primal.sum(), list(names.values()))


def reverse_over_forward(t: Any, f: Any, x: Any, v: Any) -> Any:
    x = x.clone().requires_grad_()
    primal, tangent = f.unpack_dual((f.make_dual(x, v) ** 3).sum())
    (first,) = t.autograd.grad(primal, x, retain_graph=True)
    (second,) = t.autograd.grad(tangent, x)
    return first, second


def without_grad(t: Any, f: Any, x: Any, v: Any) -> Any:
    out = f.unpack_dual(f.make_dual(x, v).exp())
    return out, out.tangent.requires_grad


CASES = {
    "the dual itself": lambda t, f, x, v: f.unpack_dual(f.make_dual(x, v)),
    "computed": lambda t, f, x, v: f.unpack_dual(f.make_dual(x, v).sin() * x),
    "two duals": lambda t, f, x, v: f.unpack_dual(f.make_dual(x, v) * f.make_dual(v, x)),
    "no dual": lambda t, f, x, v: (f.make_dual(x, v).sum(), f.unpack_dual(x * 2)),
    "views": lambda t, f, x, v: f.unpack_dual(f.make_dual(x, v).view(2, 2).t()[0]),
    "complex": lambda t, f, x, v: f.unpack_dual(
        t.view_as_real(f.make_dual(t.complex(x, v), t.complex(v, x)) ** 2)
    ),
    "written": written,
    "parameters": parameters,
    "reverse over forward": reverse_over_forward,
}


def run(lib: Any, case: Any) -> Any:
    f = lib.autograd.forward_ad
    with f.dual_level():
        return shown(case(lib, f, lib.tensor(X), lib.tensor(V)))


def same(a: list[Any], b: list[Any]) -> None:
    assert [x is None for x in a] == [x is None for x in b]
    np.testing.assert_allclose(*([x for x in c if x is not None] for c in (a, b)), 1e-5, 1e-6)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_tangents_are_pytorchs(case: Any) -> None:
    torch = pytest.importorskip("torch")
    same(run(weft, case), run(torch, case))


def test_outside_of_a_scope_that_records_nothing() -> None:
    torch = pytest.importorskip("torch")
    with weft.no_grad(), torch.no_grad():
        ours, theirs = run(weft, without_grad), run(torch, without_grad)
    same(ours, theirs)
    assert ours[-1] is theirs[-1] is False
    assert weft.is_grad_enabled()


def test_a_level_ends() -> None:
    with fw.dual_level():
        out = fw.make_dual(weft.ones(1), weft.ones(1)) * 2
        assert fw.unpack_dual(out).tangent is not None
    assert fw.unpack_dual(out).tangent is None

    @fw.dual_level()
    def inside() -> Any:
        return fw.unpack_dual(fw.make_dual(weft.ones(1), weft.ones(1)) * 2).tangent

    assert inside().item() == 2


def test_levels_do_not_nest() -> None:
    with fw.dual_level(), pytest.raises(RuntimeError, match="Nested forward mode AD"):
        fw.enter_dual_level()
    with pytest.raises(RuntimeError, match="not the last one"):
        fw.exit_dual_level()


MISUSE = {
    "without a level": (RuntimeError, lambda t, f: f.make_dual(t.ones(1), t.ones(1))),
    "whole numbers": (ValueError, lambda t, f: level(f, t.arange(2), t.ones(2))),
    "a whole tangent": (ValueError, lambda t, f: level(f, t.ones(2), t.arange(2))),
    "another shape": (RuntimeError, lambda t, f: level(f, t.ones(2), t.ones(3))),
    "exit without a level": (RuntimeError, lambda t, f: f.exit_dual_level(level=3)),
}


def level(f: Any, x: Any, v: Any) -> None:
    with f.dual_level():
        f.make_dual(x, v)


@pytest.mark.parametrize(("error", "call"), MISUSE.values(), ids=MISUSE)
def test_misuse_raises_what_pytorch_raises(error: Any, call: Any) -> None:
    libs = [weft, pytest.importorskip("torch")]
    for lib in libs:
        with pytest.raises(error):
            call(lib, lib.autograd.forward_ad)


def functions(lib: Any) -> Any:
    """A Function with a jvp that is not its backward's, and one without a backward."""

    class Tripled(lib.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, unused: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x, x * 2)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * g, None

        @staticmethod
        def jvp(ctx: Any, v: Any, unused: Any) -> Any:
            x, double = ctx.saved_tensors
            assert unused is None
            return 3 * double * v + x * 0

    class Pair(lib.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(a: Any, b: Any) -> Any:
            return a * b, a + b

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx: Any, v: Any, w: Any) -> Any:
            a, b = ctx.saved_tensors
            zero = lib.zeros(())
            v, w = (zero if t is None else t for t in (v, w))
            return v * b + w * a, v + w

    return Tripled, Pair


def uses(t: Any, f: Any, x: Any, v: Any) -> Any:
    tripled, pair = functions(t)
    x = x.clone().requires_grad_()
    out = f.unpack_dual(tripled.apply(f.make_dual(x, v), 3))
    (g,) = t.autograd.grad(out.primal.sum(), x, retain_graph=True)
    both = pair.apply(f.make_dual(x.detach(), v), f.make_dual(v, x.detach()))
    one = pair.apply(f.make_dual(x.detach(), v), v)
    return out, g, *(f.unpack_dual(o) for o in (*both, *one))


def test_a_function_says_itself_what_it_does_in_a_direction() -> None:
    torch = pytest.importorskip("torch")
    same(run(weft, uses), run(torch, uses))


@pytest.mark.parametrize("name", ["one", "several", "tuples", "hessian"])
def test_jacobians_by_columns(name: str) -> None:
    torch = pytest.importorskip("torch")

    def case(t: Any) -> Any:
        functional, x, v = t.autograd.functional, t.tensor(X), t.tensor(V)
        how = {"vectorize": True, "strategy": "forward-mode"}
        if name == "hessian":
            return functional.hessian(
                lambda a: (a**3).sum(), x, vectorize=True, outer_jacobian_strategy="forward-mode"
            )
        if name == "one":
            return functional.jacobian(lambda a: a.sin().outer(a), x.view(2, 2)[0], **how)
        if name == "several":
            return functional.jacobian(lambda a, b: (a * b.sum()).view(2, 2), (x, v), **how)
        return functional.jacobian(lambda a: (a * 2, a.sum(), t.ones(2)), x, **how)

    ours, theirs = (case(lib) for lib in (weft, torch))
    same(shown(ours), shown(theirs))


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (NotImplementedError, {}),
        (NotImplementedError, {"vectorize": True, "create_graph": True}),
        (RuntimeError, {"vectorize": True, "strict": True}),
    ],
)
def test_what_forward_mode_refuses(error: Any, how: Any) -> None:
    for lib in (weft, pytest.importorskip("torch")):
        with pytest.raises(error):
            lib.autograd.functional.jacobian(
                lambda a: a, lib.ones(2), strategy="forward-mode", **how
            )
