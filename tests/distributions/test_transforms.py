"""Transforms, constraints and their registries, beside PyTorch's."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pytest

import weft


def parts(t):
    a = t.tensor([[0.5, 1.5, 2.0], [0.75, 3.0, 0.25]], dtype=t.float64)
    b = t.tensor([[-0.5, 0.25, 1.0], [2.0, -1.5, 0.1]], dtype=t.float64)
    m = t.tensor([[1.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 1.5]], dtype=t.float64)
    return {"t": t, "D": t.distributions, "c": t.distributions.constraints, "a": a, "b": b, "S": m}


def said(f):
    """What a call gives, with tensors as shapes and numbers, or the type of its error."""
    try:
        found = f()
    except Exception as error:  # noqa: BLE001
        return type(error)
    if hasattr(found, "numpy"):
        flat = found.detach().numpy().reshape(-1)
        return list(found.shape), pytest.approx(flat, 1e-7, 1e-9, nan_ok=True)
    if isinstance(found, tuple):
        return str(tuple(found))
    return found if isinstance(found, (bool, int, str, type(None))) else str(found)


def agree(ours, theirs):
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(b, tuple) and isinstance(a, tuple):
            assert a[0] == b[0] and a[1].expected == b[1], k
        else:
            assert a == b, (k, a, b)


TRANSFORMS = {
    "D.ExpTransform()": "b", "D.SigmoidTransform()": "b", "D.TanhTransform()": "b",
    "D.SoftplusTransform()": "b", "D.PowerTransform(t.tensor(1.5).double())": "a",
    "D.AffineTransform(1.0, -2.0)": "b", "D.AffineTransform(b, a, event_dim=1)": "b",
    "D.StickBreakingTransform()": "b", "D.ReshapeTransform((3,), (1, 3))": "b",
    "D.ExpTransform().inv": "a", "D.IndependentTransform(D.ExpTransform(), 1)": "b",
    "D.AbsTransform()": "a", "D.SoftmaxTransform()": "b", "D.CorrCholeskyTransform()": "b",
    "D.LowerCholeskyTransform()": "S", "D.PositiveDefiniteTransform()": "S", "D.identity_transform":
    "b", "D.CatTransform([D.ExpTransform(), D.TanhTransform()], 1, [1, 2])": "b",
    "D.CatTransform([D.ExpTransform(), D.TanhTransform()], -1, [1, 2])": "b",
    "D.CatTransform([D.ExpTransform(), D.AffineTransform(a[1:], 2.0)])": "b",
    "D.CatTransform([D.AffineTransform(1.0, a[:1], 1), D.ExpTransform()], cache_size=1)": "b",
    "D.StackTransform([D.ExpTransform(), D.SigmoidTransform()])": "b",
    "D.StackTransform([D.ExpTransform(), D.identity_transform, D.TanhTransform()], -1)": "b",
    "D.CumulativeDistributionTransform(D.Normal(b, a))": "b",
    "D.CumulativeDistributionTransform(D.Laplace(b + 1, a)).inv.inv": "b",
    "D.IndependentTransform(D.AffineTransform(b, a), 2, cache_size=1)": "b",
    "D.StickBreakingTransform().inv": "a / a.sum(-1, True)", "D.TanhTransform().inv": "a / 4",
    "D.PowerTransform(a)": "a + 1", "D.ReshapeTransform((2, 3), (6,)).inv": "b.reshape(6)",
    "D.ComposeTransform([D.AffineTransform(0.5, 2.0), D.ExpTransform()])": "b",
    "D.ComposeTransform([D.ExpTransform(), D.StickBreakingTransform()])": "b",
}  # fmt: skip


LOOKS = ["t.bijective", "t.domain.event_dim", "t.codomain.event_dim", "t.event_dim", "repr(t)",
         "repr(t.inv)", "t.sign", "repr(t.domain)", "repr(t.codomain)", "t.domain.is_discrete",
         "t.inv.inv is t", "t == t.inv.inv", "t.inv == t", "t.with_cache(1)._cache_size",
         "t.forward_shape(x.shape)", "t.inverse_shape(t(x).shape)", "t.forward_shape(())",
         "t.inverse_shape(())", "t.domain.check(x)", "t.codomain.check(t(x))", "t(x)",
         "t.inv(t(x))", "t.log_abs_det_jacobian(x, t(x))", "t.inv.log_abs_det_jacobian(t(x), x)",
         "t.with_cache(1)(x)", "hash(t)"]  # fmt: skip


@pytest.mark.parametrize("code", TRANSFORMS)
def test_a_transform_is_pytorchs(torch, code):
    """Values, inverses, determinants, shapes, what it prints and equals; errors by their types."""

    def seen(space):
        names = parts(space)
        names["x"] = eval(TRANSFORMS[code], names)  # noqa: S307
        return [said(lambda text=text: eval(text, names | {"t": eval(code, names)}))  # noqa: S307
                for text in LOOKS]  # fmt: skip

    agree(seen(weft), seen(torch))


@pytest.mark.parametrize("code", TRANSFORMS)
def test_a_transform_inverts_and_pickles(code):
    names = parts(weft)
    t, x = eval(code, names), eval(TRANSFORMS[code], names)  # noqa: S307
    again = pickle.loads(pickle.dumps(t))
    weft.testing.assert_close(again(x), t(x))
    weft.testing.assert_close(t.inv.inv(x), t(x))
    if t.bijective:
        weft.testing.assert_close(t.inv(t(x)), x, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("code", [c for c in TRANSFORMS if "Corr" not in c])
def test_determinants_are_those_of_the_jacobian(code):
    """Of a bijective map whose events have as many numbers before as after."""
    names = parts(weft)
    t, x = eval(code, names), eval(TRANSFORMS[code], names)  # noqa: S307
    if not t.bijective:
        pytest.skip("has none")
    y = t(x)
    dims = said(lambda: t.domain.event_dim)
    if y.numel() == x.numel() and isinstance(dims, int):
        full = weft.autograd.functional.jacobian(t, x).reshape(x.numel(), x.numel())
        total = weft.linalg.slogdet(full).logabsdet
        assert float(total) == pytest.approx(float(t.log_abs_det_jacobian(x, y).sum()), abs=1e-6)


SAME = ["D.ExpTransform()", "D.AffineTransform(1.0, 2.0)", "D.AffineTransform(1.0, 2.5)",
        "D.AffineTransform(b, a)", "D.AffineTransform(b, a + 1)", "D.SigmoidTransform()",
        "D.PowerTransform(a)", "D.PowerTransform(2.0)", "D.ExpTransform().inv",
        "D.ComposeTransform([D.ExpTransform()])", "D.ComposeTransform([D.SigmoidTransform()])",
        "D.ReshapeTransform((2,), (2,))", "D.CorrCholeskyTransform()", "D.SoftmaxTransform()",
        "D.StickBreakingTransform()", "D.LowerCholeskyTransform()", "D.AbsTransform()",
        "D.IndependentTransform(D.ExpTransform(), 1)", "D.TanhTransform()"]  # fmt: skip


def test_equality_is_pytorchs(torch):
    grids = []
    for t in (weft, torch):
        made = [[eval(code, parts(t)) for code in SAME] for _ in range(2)]  # noqa: S307
        grids.append([[bool(x == y) for x in made[0]] for y in made[1]])
    assert grids[0] == grids[1]


def test_a_cached_transform_gives_back_its_input():
    t = weft.distributions.TanhTransform(cache_size=1)
    x = weft.tensor([20.0])
    assert t.inv(t(x)) is x and pickle.loads(pickle.dumps(t))._cached_x_y == (None, None)

    class Mine(weft.distributions.Transform):
        def __init__(self):
            super().__init__()

    with pytest.raises(NotImplementedError, match="with_cache is not implemented"):
        Mine().with_cache()


CONSTRAINTS = ["boolean", "one_hot", "nonnegative_integer", "positive_integer", "real",
               "integer_interval(-1, 2)", "real_vector", "positive", "nonnegative", "dependent",
               "greater_than(1.0)", "greater_than_eq(0.25)", "less_than(2.0)", "unit_interval",
               "interval(-1.0, 2.0)", "half_open_interval(-1.5, 2.0)", "simplex", "multinomial(3)",
               "lower_triangular", "lower_cholesky", "corr_cholesky", "square", "symmetric",
               "positive_semidefinite", "positive_definite", "independent(real, 2)",
               "independent(simplex, 1)", "cat([real, positive], 0, [1, 1])",
               "cat([positive, unit_interval], -1, [1, 2])", "stack([real, positive])",
               "stack([simplex, real_vector, simplex], -1)", "MixtureSameFamilyConstraint(real)",
               "MixtureSameFamilyConstraint(simplex)", "_IntegerLessThan(2)", "interval(0, 1)",
               "dependent(event_dim=1)", "dependent(is_discrete=True)",
               "independent(dependent(event_dim=1), 2)"]  # fmt: skip
VALUES = ["a", "b", "S", "a / a.sum(-1, True)", "t.eye(3)", "t.eye(3)[:2]", "S.tril()", "a.round()",
          "t.linalg.cholesky(S / S.diagonal().sqrt() / S.diagonal().sqrt()[:, None])", "-S",
          "a[0]", "a[0, 0]", "S.expand(2, 3, 3)", "t.zeros(2, 3)", "a * float('nan')"]  # fmt: skip


@pytest.mark.parametrize("code", CONSTRAINTS)
def test_a_constraint_is_pytorchs(torch, code):
    def seen(t):
        names = parts(t)
        c = eval(f"c.{code}" if "(" not in code else _spelled(code), names)  # noqa: S307
        out = [said(f) for f in (lambda: c.event_dim, lambda: c.is_discrete, lambda: repr(c))]
        out.append(said(lambda: t.distributions.constraints.is_dependent(c)))
        return out + [said(lambda v=v: c.check(eval(v, names))) for v in VALUES]  # noqa: S307

    ours, theirs = seen(weft), seen(torch)
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(a, tuple) and isinstance(b, tuple):
            assert a[0] == b[0] and a[1].expected.tolist() == b[1].expected.tolist(), k
        else:
            assert isinstance(a, type) == isinstance(b, type), (k, a, b)
            assert isinstance(a, type) or a == b, (k, a, b)


def _spelled(code):
    return re.sub(r"(?<![\w.])(?=[A-Za-z_]+)(?!True|event_dim|is_discrete)", "c.", code)


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("code", CONSTRAINTS)
def test_registries_are_pytorchs(torch, registry, code):
    """The same map, whose values satisfy the constraint."""

    def seen(t):
        names = parts(t)
        c = eval(_spelled(code), names)  # noqa: S307
        to = said(lambda: getattr(t.distributions, registry)(c))
        if isinstance(to, type):
            return [to]
        to = getattr(t.distributions, registry)(c)
        out = [repr(to), to.bijective]
        for v in ("b", "S", "b[0]"):
            x = names["b"] if v == "b" else eval(v, names)  # noqa: S307
            out += [said(lambda: to(x)), said(lambda: to.inv(to(x)))]  # noqa: B023
            if not isinstance(said(lambda: c.check(to(x))), type):  # noqa: B023
                assert bool(c.check(to(x)).all())
        return out

    ours, theirs = seen(weft), seen(torch)
    assert [isinstance(x, type) for x in ours] == [isinstance(x, type) for x in theirs]
    agree(*zip(*[p for p in zip(ours, theirs) if not isinstance(p[0], type)])
          or ((), ())) if not isinstance(ours[0], type) else None  # fmt: skip
    if isinstance(ours[0], type):
        assert ours == theirs


def test_registration():
    registry = weft.distributions.constraint_registry.ConstraintRegistry()
    positive = weft.distributions.constraints.positive
    made = registry.register(positive)(lambda c: weft.distributions.SoftplusTransform())
    assert repr(registry(positive)) == "SoftplusTransform()" == repr(made(positive))
    with pytest.raises(TypeError, match="Expected constraint to be either"):
        registry.register(5, made)


def test_a_property_that_depends():
    c = weft.distributions.constraints

    class Box(weft.distributions.Distribution):
        arg_constraints = {}

        @c.dependent_property(is_discrete=False, event_dim=1)
        def support(self):
            return c.independent(c.interval(0.0, self.top), 1)

    assert c.is_dependent(Box.support) and Box.support.event_dim == 1
    box = Box((), (2,))
    box.top = 3.0
    assert bool(box.support.check(weft.tensor([1.0, 2.0])))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        weft.distributions.Distribution()
        weft.distributions.Normal.sample_n(weft.distributions.Normal(0.0, 1.0), 3)
    assert ["arg_constraints" in str(w.message) for w in caught] == [True, False]
    assert caught[1].category is FutureWarning


@pytest.mark.parametrize("diag", [-3, -2, -1, 0, 1, 2])
def test_triangles(torch, diag):
    for t in (weft, torch):
        x = t.arange(32.0).reshape(2, 4, 4)
        u = t.distributions.utils
        vec = u.tril_matrix_to_vec(x, diag)
        np.testing.assert_array_equal(vec.numpy(), x.numpy()[:, *np.tril_indices(4, diag)])
        if diag <= 0:
            back = u.vec_to_tril_matrix(vec, diag)
            np.testing.assert_array_equal(back.numpy(), np.tril(x.numpy(), diag))
        with pytest.raises(ValueError, match="is outside"):
            u.tril_matrix_to_vec(x, 4)
        with pytest.raises(ValueError, match="cannot be expressed"):
            u.vec_to_tril_matrix(t.zeros(5))
