"""Laws over the table: every op, by the samples in its record (tests/op_samples.py).

PyTorch's function of the same name is the oracle where there is one; gradients are checked by
differences too, so that the two libraries cannot be wrong alike. The laws in every dtype are in
tests/test_every_dtype.py.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, needs_peer, ours, peer

import weft
from weft import _C


def same(a: Any, b: Any, rtol: float, atol: float) -> None:
    if not hasattr(b, "shape"):
        assert a == b
        return
    assert tuple(a.shape) == tuple(b.shape)
    assert str(a.dtype) == str(b.dtype)
    np.testing.assert_allclose(
        np.array(a.detach().tolist()), np.array(b.detach().tolist()), rtol, atol, equal_nan=True
    )


# Nodes that PyTorch names otherwise, and why.
OTHER_NODES = {
    ("matmul", "f(T(2, 3), T(5, 3, 2))"),  # PyTorch multiplies the transposes and copies
    ("bernoulli.p", "f(T(3, 4), 0.3)"),  # PyTorch has no gradient for it; ours is zero
}


@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_nodes_are_named_as_pytorchs(torch: Any, name: str, sample: str) -> None:
    record = RECORDS[name]
    if not (record["differentiable"] or record["composite"]):
        pytest.skip("not differentiable")
    if not (record["function"] or record["method"] or record["inplace"] or "call" in record):
        pytest.skip("internal: named for the op that uses it")
    f = needs_peer(torch, name)

    def nodes(lib: Any, f: Callable[..., Any]) -> list[str | None]:
        found = []
        for t in Inputs(lib, "float64", sample, grad=True).run(f, sample):
            node = getattr(t, "grad_fn", None)
            found.append(type(node).__name__ if node is not None else None)
            assert node is None or f"grad_fn=<{found[-1]}>" in repr(t)
        return found

    expected, got = nodes(torch, f), nodes(weft, ours(RECORDS[name]))
    assert (got[: len(expected)] == expected) == ((name, sample) not in OTHER_NODES), got


OPERATORS = """2 - x; 2 / x; 2 * x; 2 + x; 2 ** x; x - 2; x / 2; x // 2 + x; x % 2; x ** 2; -x
abs(x); x @ x.T; x[0] @ x.T; x.T; x.mT; x.mH; x.H; x[0]; x[:, 1:]; x[..., None]; x[[0, 1]]
x ** 2.5; x[x > 0]; x.sum(0); x.unbind()[1]; x.view(-1)[2]; x.T.reshape(-1); x.expand(3, 2, 3)
torch.var_mean(x)[0]; torch.std_mean(x, 0)[1]; torch.where(x > 0, x, 0); x.nonzero(as_tuple=True)
torch.nn.functional.cross_entropy(x, torch.softmax(x.detach(), 1)); torch.einsum('ij->ji', x)
torch.nn.functional.cross_entropy(x, torch.tensor([0, 1])); torch.stack([x, x]); x.std(0)
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("text", [t.strip() for t in OPERATORS if t.strip()])
def test_operators_print_as_pytorchs(torch: Any, text: str) -> None:
    def shown(lib: Any) -> str:
        x = lib.tensor([[0.5, -1.5, 2.5], [1.25, 0.75, -0.25]], requires_grad=True)
        return repr(eval(text, {"x": x, "torch": lib}))

    assert shown(weft) == shown(torch)


def test_samples_cover_the_table() -> None:
    without = [
        n
        for n, r in RECORDS.items()
        if not r["samples"] and (r["function"] or r["method"]) and not n.startswith("_")
    ]
    assert len(without) <= 0.1 * len(RECORDS), without
    assert all(r["doc"] for r in RECORDS.values())


def test_peers_cover_the_table(torch: Any) -> None:
    public = [n for n, r in RECORDS.items() if r["function"] or r["method"]]
    assert sum(peer(torch, RECORDS[n]) is not None for n in public) >= 0.97 * len(public)


def gradients(lib: Any, f: Callable[..., Any], sample: str, order: int) -> list[Any]:
    """Gradients of a random sum of the outputs; of order 2: of a random sum of those."""
    inputs = Inputs(lib, "float64", sample, grad=True)
    outs = inputs.run(f, sample)
    rng = np.random.default_rng(1)
    for _ in range(order):
        total = None
        for t in outs:
            seed = rng.standard_normal(getattr(t, "shape", ()))
            if t is None or not getattr(t, "requires_grad", False):
                continue
            weight = lib.tensor(seed.tolist(), dtype=lib.float64).reshape(t.shape)
            part = (t.double() * weight).sum()
            total = part if total is None else total + part
        if total is None:
            return []
        outs = lib.autograd.grad(total, inputs.leaves, create_graph=True, allow_unused=True)
    return list(outs)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_gradients_are_pytorchs(torch: Any, name: str, sample: str, order: int) -> None:
    if not (RECORDS[name]["differentiable"] or RECORDS[name]["composite"]):
        pytest.skip("not differentiable")
    if name in ("_standard_gamma", "_sample_dirichlet"):
        pytest.skip("PyTorch's gradient is right to 3e-3: tests/distributions has better")
    f = needs_peer(torch, name)
    try:
        expected = gradients(torch, f, sample, order)
    except (NotImplementedError, RuntimeError) as error:
        # its own gaps: no second order, scatter with a longer src, layer_norm without a weight
        known = (
            "derivative",
            "not implemented",
            "returned an invalid gradient",
            "undefined Tensor",
        )
        assert any(words in str(error) for words in known), error
        pytest.skip("PyTorch cannot differentiate this call; the differences check it")
    got = gradients(weft, ours(RECORDS[name]), sample, order)
    width = max(len(got), len(expected))
    got += [None] * (width - len(got))
    expected += [None] * (width - len(expected))
    for a, b in zip(got, expected, strict=True):
        zero_a = a is None or not a.numel() or float(a.detach().abs().max()) == 0
        zero_b = b is None or not b.numel() or float(b.detach().abs().max()) == 0
        if not (zero_a and zero_b):
            same(a, b, 1e-7, 1e-8)


@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_gradients_are_differences(name: str, sample: str) -> None:
    record = RECORDS[name]
    if record["random"] or not (record["differentiable"] or record["composite"]):
        pytest.skip("random, or not differentiable")
    analytic = gradients(weft, ours(record), sample, 1)
    inputs = Inputs(weft, "float64", sample, grad=True)
    outs = inputs.run(ours(record), sample)
    rng = np.random.default_rng(1)
    seeds = [rng.standard_normal(getattr(t, "shape", ())) for t in outs]

    def value(leaf: int, at: int, step: float) -> float:
        moved = Inputs(weft, "float64", sample, grad=True)
        plain = moved.T

        def shifted(*sizes: int, **bounds: float) -> Any:
            t = plain(*sizes, **bounds)
            if len(moved.leaves) - 1 == leaf:
                with weft.no_grad():
                    t.view(-1)[at] += step
            return t

        moved.T = shifted  # type: ignore[method-assign]
        return sum(
            float((np.array(t.tolist()).reshape(s.shape) * s).sum())
            for t, s in zip(moved.run(ours(record), sample), seeds, strict=True)
            if getattr(t, "requires_grad", False)
        )

    for leaf, found in enumerate(analytic):
        grad = np.array([] if found is None else found.tolist()).reshape(-1)
        for at in range(min(3, grad.size)):
            step = 1e-6
            numeric = (value(leaf, at, step) - value(leaf, at, -step)) / (2 * step)
            assert abs(numeric - grad[at]) <= 1e-4 * max(1, abs(numeric)), (leaf, at)


@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_inputs_stay_and_memory_returns(name: str, sample: str) -> None:
    record = RECORDS[name]

    def once() -> None:
        inputs = Inputs(weft, "float64", sample, grad=True)
        before = Inputs(weft, "float64", sample, grad=True)
        outs = inputs.run(ours(record), sample)
        before.run(lambda *a, **k: (None,) * 9, sample)
        for a, b in zip(inputs.made, before.made, strict=False):
            same(a, b, 0, 0)
        for t in outs:
            if getattr(t, "requires_grad", False) and t.is_floating_point():
                t.sum().backward(retain_graph=True)
                break
        for a, b in zip(inputs.made, before.made, strict=False):
            same(a, b, 0, 0)

    once()
    used = _C._memory_stats()["current"]
    once()
    assert _C._memory_stats()["current"] == used


@pytest.mark.parametrize(("name", "sample"), [c for c in CASES if RECORDS[c[0]]["inplace"]])
def test_in_place_is_the_function(name: str, sample: str) -> None:
    record = RECORDS[name]
    plain = Inputs(weft, "float64", sample).run(ours(record), sample)[0]
    seen: list[Any] = []

    def in_place(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            not isinstance(self, weft.Tensor)
            or self.shape != plain.shape
            or self.dtype != plain.dtype
        ):
            seen.append(None)
            return plain
        seen.append(self._version)
        out = getattr(self, record["public_name"] + "_")(*args, **kwargs)
        assert out is self
        assert self._version > seen[-1]
        return out

    got = Inputs(weft, "float64", sample).run(in_place, sample)[0]
    same(got, plain, 0, 0)


def with_out(lib: Any, f: Callable[..., Any], sample: str, make: Any) -> tuple[Any, Any, Any]:
    """The results of a call, what out= was given, and what the call then returned."""
    plain = Inputs(lib, "float64", sample).run(f, sample)
    given = [make(lib, t) for t in plain]
    out = given[0] if len(given) == 1 else tuple(given)

    def call(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs, out=out)

    return plain, given, Inputs(lib, "float64", sample).run(call, sample)


def takes_out(record: dict[str, Any]) -> bool:
    listed = record["schema"].endswith("Tensor[]")
    return record["function"] and not record["view"] and not listed


@pytest.mark.parametrize(
    ("name", "sample"), [c for c in CASES if takes_out(RECORDS[c[0]]) and "Tensor(" not in c[1]]
)
def test_out_is_the_function(torch: Any, name: str, sample: str) -> None:
    """Value and identity; a wrong shape is resized (the warning: tests/autograd), as in PyTorch."""
    f = getattr(weft, RECORDS[name]["public_name"])
    if isinstance(f, type(lambda: 0)):
        f = ours(RECORDS[name])
    makers = [
        lambda lib, t: lib.empty(0, dtype=t.dtype),
        lambda lib, t: lib.empty(t.shape, dtype=t.dtype),
        lambda lib, t: lib.empty((*t.shape, 2), dtype=t.dtype)[..., 0],
    ]
    for make in makers:
        plain, given, returned = with_out(weft, f, sample, make)
        for a, b, c in zip(plain, given, returned, strict=True):
            assert b is c
            assert b._version >= 1
            if "empty" not in name:
                same(b, a, 0, 0)
    floating = [t for t in plain if t.is_floating_point()]
    if floating and len(plain) == 1 and "T(" in sample and name not in ("copy",):
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            with_out(weft, f, sample, lambda lib, t: lib.empty(t.shape, dtype=lib.bool))


@pytest.mark.parametrize("name", [n for n, r in RECORDS.items() if r["function"]])
def test_wrong_calls_name_the_op(name: str) -> None:
    public = RECORDS[name]["public_name"]
    f = getattr(_C, public)
    with pytest.raises(TypeError, match=rf"^\[{public}\] expected arguments of"):
        f("not a tensor", no_such_argument=1)


def test_this_file_can_fail(torch: Any) -> None:
    with pytest.raises(AssertionError):
        same(weft.ones(2), torch.zeros(2), 1e-5, 1e-5)
    assert "CASES" in inspect.getsource(inspect.getmodule(test_gradients_are_pytorchs))  # type: ignore[arg-type]
    assert len(CASES) > 300
