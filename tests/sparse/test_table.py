"""Every function that takes sparse tensors gives what PyTorch's does, over a domain of tensors.

An expression is evaluated by both libraries: values, dtype, layout, number of elements, whether
they are coalesced, and gradients of operands that are leaves. Where PyTorch has no
kernel, the same expression over dense operands is the oracle.
"""

import itertools

import pytest

import weft

torch = pytest.importorskip("torch")

COO = {
    "plain": ([[0, 1, 2], [2, 0, 1]], [1.0, -2.0, 3.0], (3, 3)),
    "repeated": ([[0, 2, 0, 2], [1, 2, 1, 0]], [1.0, 2.0, 3.0, -4.0], (3, 3)),
    "unsorted": ([[2, 0], [1, 1]], [0.5, 1.5], (3, 3)),
    "one": ([[1], [1]], [4.0], (3, 3)),
    "empty": ([[], []], [], (3, 3)),
}
HYBRID = {
    "hybrid": ([[0, 2]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], (3, 3)),
    "hybrid repeated": ([[2, 2]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], (3, 3)),
}
DOMAIN = COO | HYBRID


def made(lib, name, dtype="float64"):
    indices, values, size = DOMAIN[name]
    values = lib.tensor(values, dtype=getattr(lib, dtype))
    indices = lib.tensor(indices, dtype=lib.int64)
    return lib.sparse_coo_tensor(indices, values, size, is_coalesced=name in ("plain", "one"))


def dense(lib, rows=3, cols=3):
    return lib.arange(float(rows * cols), dtype=lib.float64).reshape(rows, cols) * 0.5 - 1


def rounded(t):
    return [round(v, 9) for v in t.double().reshape(-1).tolist()]


def described(t):
    if not hasattr(t, "layout"):
        return t
    whole = t.to_dense()
    out = [tuple(t.shape), str(t.dtype), str(t.layout), rounded(whole.detach())]
    if str(t.layout) != "torch.strided":
        out += [t.sparse_dim(), t.dense_dim(), t._nnz()]
    if str(t.layout) == "torch.sparse_coo":
        out += [t.is_coalesced(), t._indices().tolist()]
    return out


SAME = [
    "x", "x.coalesce()", "x.to_dense()", "x * 2", "2 * x", "x / 4", "-x", "x.clone()", "x.detach()",
    "x.float()", "x.to(lib.float32)", "x + x", "x - x.coalesce()", "x.coalesce() + x.coalesce()",
    "x * x", "d + x", "d - x", "d.add(x, alpha=3)", "x.add(x, alpha=2)", "x * d", "x.sum()",
    "lib.sparse.sum(x)", "lib.sparse.sum(x, dim=0)", "lib.sparse.sum(x, dim=(0, 1))",
    "x.abs()", "x.sin()", "x.abs().sqrt()", "x.relu()", "x.sign()", "x.floor()", "x.pow(2)",
    "x ** 3", "x.unsqueeze(0)", "lib.cat([x, x])", "lib.cat([x, x], 1)",
    "lib.stack([x, x])", "lib.zeros_like(x)", "x.index_select(0, i).coalesce()", "x.select(0, 2)",
    "x[1]", "x.to_sparse()", "x.norm()", "x.coalesce().values()", "x.coalesce().indices()",
    "x._values()", "x.sparse_dim()", "x.dense_dim()", "x.is_sparse", "x.dim()", "x.numel()",
    "x.mul(lib.tensor(3.0, dtype=lib.float64))", "x.bool()", "d.sparse_mask(x.coalesce())",
    "x.permute(0, 1)",
]  # fmt: skip
MATRICES = [
    "x @ d", "lib.mm(x, d)", "lib.sparse.mm(x, d)", "x @ v", "x.mv(v)", "lib.sparse.addmm(d, x, d)",
    "lib.addmm(d, x, d, beta=2, alpha=3)", "lib.sparse.mm(x, x)", "x @ x", "x.t()", "x.T",
    "x.transpose(0, 1)", "x.to_sparse_csr()", "x.to_sparse_csr().crow_indices()",
    "x.to_sparse_csr().to_dense()", "x.to_sparse_csr() @ d", "x.to_sparse_csr() @ v",
    "lib.sparse.softmax(x, 0)", "lib.sparse.log_softmax(x, 1)", "lib.hspmm(x, d).to_dense()",
    "lib.sparse.sum(x, dim=1)", "lib.spmm(x, d)", "x.index_select(1, i).coalesce()",
    "x.to_sparse_csr().to_sparse()", "x.to_sparse_csr() * 2", "x.select(1, 0)",
    "x.to_sparse_csc()", "x.to_sparse_csc().ccol_indices()", "x.to_sparse_csc().row_indices()",
    "x.to_sparse_csc().values()", "x.to_sparse_csc().to_dense()", "x.to_sparse_csc() @ d",
    "x.to_sparse_csc().to_sparse().coalesce()", "x.to_sparse_csc().to_sparse_csr()",
    "x.to_sparse_csc().t()", "x.to_sparse_csc().abs().values()",
    "x.to_sparse_csr().to_sparse_csc().values()", "x.to_sparse_csr().t()",
    "x.to_sparse_csr().t().values()", "d @ x.to_sparse_csc()", "x.to_sparse_csc() @ v",
    "x.to_sparse_csc().clone()", "x.to_sparse_csc().neg()", "x.to_sparse_csc().sin()",
    "x.to_sparse_csc().sum()", "x.to_sparse_csc().float()", "lib.zeros_like(x.to_sparse_csc())",
]  # fmt: skip
CALLS = [(e, n) for e in SAME for n in DOMAIN] + [(e, n) for e in MATRICES for n in COO]


def outcome(lib, expression, name):
    here = {"lib": lib, "x": made(lib, name), "d": dense(lib), "i": lib.tensor([2, 0, 2])}
    here["v"] = dense(lib)[1]
    found = described(eval(expression, here))
    # of uncoalesced operands PyTorch's results have some places more than once, or fewer times
    return found[:4] if expression in ("x * x", "x - x.coalesce()") else found


@pytest.mark.parametrize(("expression", "name"), CALLS)
def test_values_layout_and_places_are_pytorchs(expression, name):
    assert outcome(weft, expression, name) == outcome(torch, expression, name)


GRADED = [
    "x.to_dense()", "x * 2", "x + x", "d + x", "x * d", "lib.sparse.sum(x, dim=0)", "x.sum()",
    "-x / 4", "x.abs()", "x.sin()", "lib.cat([x, x])", "x.unsqueeze(0)",
    "x.clone()", "x.coalesce()", "x.detach() * 2 + x", "x.select(0, 0)", "x ** 2",
]  # fmt: skip
GRADED_MATRICES = [
    "x @ d", "lib.sparse.mm(x, d)", "lib.sparse.addmm(d, x, d)", "x.t() @ d", "x @ d @ d",
    "x @ d + x.t() @ d", "x @ d[0]",
    "x.to_sparse_csr() @ d", "lib.sparse.mm(x, x)", "d @ x", "x.to_sparse_csr().to_dense()",
    "x.to_sparse_csc() @ d", "x.to_sparse_csc().to_dense()", "d @ x.to_sparse_csc()",
    "(x.to_sparse_csc() * 2).t() @ d", "x.to_sparse_csr().to_sparse_csc().values().sum()",
    "x.to_sparse_csc() @ x.to_sparse_csc()", "x.to_sparse_csc() + x.to_sparse_csc()",
]  # fmt: skip
GRADED_CALLS = list(itertools.chain(
    ((e, n) for e in GRADED for n in DOMAIN), ((e, n) for e in GRADED_MATRICES for n in COO)
))  # fmt: skip


def weights(lib, t):
    return lib.arange(float(t.numel()), dtype=lib.float64).reshape(t.shape) + 1


@pytest.mark.parametrize(("expression", "name"), GRADED_CALLS)
def test_gradients_of_values_are_those_of_the_dense_expression(expression, name):
    """The oracle is PyTorch's dense tensor, seen at the places that there are."""
    x = made(weft, name).requires_grad_()
    d = dense(weft).requires_grad_()
    out = eval(expression, {"lib": weft, "x": x, "d": d})
    out = out if out.layout is weft.strided else out.to_dense()
    other = made(torch, name).to_dense().requires_grad_()
    e = dense(torch).requires_grad_()
    text = expression.replace("x.coalesce()", "x").replace("lib.sparse.", "lib.")
    text = text.replace(".to_sparse_csr()", "").replace(".to_sparse_csc()", "")
    text = text.replace(".values()", "")
    right = eval(text, {"lib": torch, "x": other.clone(), "d": e})
    if not out.requires_grad:
        assert not len(DOMAIN[name][1])
        return
    (out * weights(weft, out)).sum().backward()
    (right * weights(torch, right)).sum().backward()
    assert x.grad.is_sparse and x.grad.shape == x.shape
    mask = torch.zeros(3, 3, dtype=torch.bool)
    mask[tuple(torch.tensor(made(weft, name)._indices().tolist(), dtype=torch.int64))] = True
    kept = torch.where(mask, other.grad, 0.0)
    assert rounded(x.grad.to_dense()) == rounded(kept)
    if "d" in expression.replace("to_dense", "").replace("add", "").replace("dim", ""):
        if e.grad is not None:
            assert rounded(d.grad) == rounded(e.grad)


@pytest.mark.parametrize("name", ["plain", "one", "hybrid"])
@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_of_softmax_are_pytorchs(name, function, dim):
    found = []
    for lib in (weft, torch):
        x = made(lib, name).coalesce().detach().requires_grad_()
        out = getattr(lib.sparse, function)(x, dim).to_dense()
        (out * weights(lib, out)).sum().backward()
        found.append(rounded(x.grad.to_dense()))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "int32", "int64",
                                   "complex64"])  # fmt: skip
@pytest.mark.parametrize("expression", ["x + x", "x * 2", "x.coalesce()", "x.sum()", "x * x"])
def test_dtypes_are_pytorchs(expression, dtype):
    found = []
    for lib in (weft, torch):
        x = eval(expression, {"x": made(lib, "repeated", "float64").to(getattr(lib, dtype))})
        found.append((str(x.dtype), x.to_dense().to(lib.complex128).tolist()))
    assert found[0] == found[1]


def test_values_that_are_in_the_graph_get_gradients():
    for lib in (weft, torch):
        values = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        x = lib.sparse_coo_tensor([[0, 1, 0], [1, 1, 1]], values, (2, 2))
        (x.to_dense() * lib.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        assert values.grad.tolist() == [2.0, 4.0, 2.0]


def test_second_derivatives():
    values = weft.tensor([1.0, 2.0], dtype=weft.float64, requires_grad=True)

    def f(v):
        x = weft.sparse_coo_tensor([[0, 1], [1, 0]], v, (2, 2))
        return weft.sparse.mm(x * x, dense(weft, 2, 2)).sum()

    assert weft.autograd.gradcheck(f, values)
    assert weft.autograd.gradgradcheck(f, values)
