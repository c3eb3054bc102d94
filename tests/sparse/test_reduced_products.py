"""`sparse.mm` with `reduce`, and the operators of products, beside PyTorch's."""

import numpy as np
import pytest

import weft


def matrices(lib):
    """A CSR matrix with an empty row, and a dense one; both are leaves."""
    places = lib.tensor([0, 2, 2, 4]), lib.tensor([0, 1, 1, 2])
    a = lib.sparse_csr_tensor(*places, lib.tensor([1.0, -2.0, 3.0, 3.0]), (3, 3))
    dense = lib.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.5]])
    return a.requires_grad_(), dense.requires_grad_()


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin", "max", "min"])
def test_rows_are_reduced_as_in_pytorch(torch, reduce):
    found = []
    for lib in (weft, torch):
        a, dense = matrices(lib)
        out = lib.sparse.mm(a, dense, reduce)
        (out * lib.tensor([1.0, 2.0])).sum().backward()
        found.append([t.detach().numpy() for t in (out, a.grad.values(), dense.grad)])
    for mine, theirs in zip(*found):
        np.testing.assert_allclose(mine, theirs, 1e-6)


def test_operators_of_products(torch):
    for lib in (weft, torch):
        a, dense = (t.detach() for t in matrices(lib))
        aten = lib.ops.aten
        product, places = aten._sparse_mm_reduce_impl.default(a, dense, "amax")
        assert product.tolist() == [[1, 2], [0, 0], [15, 19.5]] and places.numel() == 0
        added = aten._sparse_addmm(lib.ones(3, 2), a.to_sparse_coo(), dense, beta=2)
        assert added.tolist() == [[-3, -4], [2, 2], [26, 33.5]]


def test_what_cannot_be_reduced_says_so(torch):
    for lib in (weft, torch):
        with pytest.raises(RuntimeError, match="reduce type of prod has not been enabled"):
            lib.sparse.mm(*matrices(lib), "prod")
    with pytest.raises(RuntimeError, match="expected a sparse and a dense matrix with reduce"):
        weft.sparse.mm(weft.ones(2, 2), weft.eye(2).to_sparse(), "mean")
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        weft.sparse.mm(matrices(weft)[0], weft.ones(2, 2), "mean")
