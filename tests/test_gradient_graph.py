"""The graph of gradients, op by op: what gradients depend on, and which edges a node has.

A gradient may be constant in an input, piece by piece, and depend on it all the same: a penalty on
gradients has nothing else to go back to.
"""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from op_samples import CASES, RECORDS, Inputs, ours, peer

import weft


class Some(Inputs):
    """Of the tensors that want a gradient only one, if `only` is not None."""

    only: int | None = None

    def T(self, *sizes: int, lo: float = -2, hi: float = 2) -> Any:
        t = super().T(*sizes, lo=lo, hi=hi)
        if self.only is not None and len(self.leaves) - 1 != self.only:
            t.requires_grad_(False)
        return t


def dependence(
    lib: Any, f: Callable[..., Any], sample: str, weighted: bool, only: int | None
) -> list[Any] | None:
    """Of each gradient: "constant", or which inputs (and the gradient given) it depends on."""
    inputs = Some(lib, "float64", sample, grad=True)
    inputs.only = only
    results = [y for y in inputs.run(f, sample) if getattr(y, "requires_grad", False)]
    if not results:
        return None
    y = results[0]
    given = lib.full_like(y, 0.7).requires_grad_(weighted)
    leaves = [t for t in inputs.leaves if t.requires_grad]
    found = lib.autograd.grad([y], leaves, [given], create_graph=True, allow_unused=True)
    if weighted:
        leaves.append(given)
    out: list[Any] = []
    for g in found:
        if g is None or not g.requires_grad:
            out.append(None if g is None else "constant")
            continue
        second = lib.autograd.grad(g.sum(), leaves, retain_graph=True, allow_unused=True)
        out.append([s is not None for s in second])
    return out


def edges(lib: Any, f: Callable[..., Any], sample: str) -> Any:
    """The node of the first result: its name, and of each edge whether it leads to a leaf."""
    inputs = Inputs(lib, "float64", sample, grad=True)
    results = [y for y in inputs.run(f, sample) if getattr(y, "requires_grad", False)]
    if not results or results[0].grad_fn is None:
        return None
    node = results[0].grad_fn
    nexts = [None if n is None else type(n).__name__ for n, _ in node.next_functions]
    return type(node).__name__, [name and name == "AccumulateGrad" for name in nexts]


def told(what: Callable[[], Any]) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return what()
    except (RuntimeError, IndexError) as error:
        return type(error).__name__


def listed(names: dict[str, str]) -> set[str]:
    return {name for text in names.values() for name in text.split()}


def cases(torch: Any) -> list[tuple[str, str, Callable[..., Any], Callable[..., Any]]]:
    out = []
    for name, sample in CASES:
        record = RECORDS[name]
        public = any(record[k] for k in ("function", "method", "inplace")) or "call" in record
        if (record["differentiable"] or record["composite"]) and public:
            f = peer(torch, record)
            if f is not None:
                out.append((name, sample, f, ours(record)))
    return out


FAILS = "bernoulli.p embedding gru_cell hardsigmoid pixel_shuffle scatter"
OTHER_DEPENDENCE = {
    "PyTorch has no second gradient, or fails": FAILS,
    "the second gradient of PyTorch's normalisations forgets a bias, or has it anyway": """
        batch_norm group_norm layer_norm native_layer_norm""",
    "of no elements PyTorch hands back the input": "cummax cummin",
}


def test_gradients_depend_on_what_pytorchs_depend_on(torch: Any) -> None:
    seen: set[str] = set()
    differ: dict[str, list[Any]] = {}
    for name, sample, theirs, mine in cases(torch):
        inputs = Inputs(weft, "float64", sample, grad=True)
        told(lambda: inputs.run(mine, sample))  # noqa: B023
        count = len(inputs.leaves)
        for only in [None, *(range(count) if count > 1 else ())]:
            for weighted in (False, True):
                expected, got = (
                    told(lambda: dependence(lib, f, sample, weighted, only))  # noqa: B023
                    for lib, f in ((torch, theirs), (weft, mine))
                )
                seen.add(name)
                if expected != got:
                    differ.setdefault(name, []).append((sample, weighted, only, expected, got))
    assert len(seen) > 200
    known = listed(OTHER_DEPENDENCE)
    assert not {name: found for name, found in differ.items() if name not in known}
    assert not known - differ.keys()  # these agree now


OTHER_EDGES = {
    "PyTorch has no second gradient, or fails": "bernoulli.p gru_cell",
    "one op here, several there": """
        adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d cross_entropy linear matmul max_pool1d
        nll_loss softsign""",
    "several ops here, one there": "diag",
}


def test_nodes_have_pytorchs_edges(torch: Any) -> None:
    differ: dict[str, list[Any]] = {}
    for name, sample, theirs, mine in cases(torch):
        expected = told(lambda: edges(torch, theirs, sample))  # noqa: B023
        got = told(lambda: edges(weft, mine, sample))  # noqa: B023
        if expected != got:
            differ.setdefault(name, []).append((sample, expected, got))
    known = listed(OTHER_EDGES)
    assert not {name: found for name, found in differ.items() if name not in known}
    assert not known - differ.keys()


@pytest.mark.parametrize("lib", ["torch", "weft"])
def test_a_penalty_on_the_gradient_of_a_pool(request: Any, lib: str) -> None:
    t = weft if lib == "weft" else request.getfixturevalue("torch")
    x = t.arange(8.0).reshape(1, 2, 4).requires_grad_()
    w = t.ones(2, 2, 1, requires_grad=True)
    pooled = t.nn.functional.avg_pool1d(x, 2)
    (g,) = t.autograd.grad(pooled.sum(), x, create_graph=True)
    ((g.norm() - 1) ** 2).backward()
    assert x.grad.tolist() == [[[0.0] * 4] * 2]
    (g,) = t.autograd.grad(t.nn.functional.conv1d(x.detach(), w).sum(), w, create_graph=True)
    g.norm().backward()  # depends on nothing
    assert w.grad is None


@pytest.mark.parametrize("sign", ["+", "*"])
def test_the_tensor_comes_before_a_number(torch: Any, sign: str) -> None:
    """`2 * x` is `x.__rmul__(2)`: programs go down a graph by `next_functions[0]`."""
    for lib in (weft, torch):
        x = lib.ones(2, requires_grad=True).sin()
        node = (2 * x if sign == "*" else 2 + x).grad_fn
        names = [None if n is None else n.name() for n, _ in node.next_functions]
        assert names == ["SinBackward0", None]
