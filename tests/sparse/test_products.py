"""Products of sparse and dense matrices: the kernel beside the formula in index ops."""

import pytest

import weft


def matrix(rows, cols, count, dtype=weft.float64, seed=0):
    """An uncoalesced matrix: places repeat and are in no order."""
    weft.manual_seed(seed)
    places = weft.stack([weft.randint(rows, (count,)), weft.randint(cols, (count,))])
    values = weft.randn(count, dtype=weft.float64).to(dtype)
    return weft.sparse_coo_tensor(places, values, (rows, cols))


def by_index_ops(x, dense):
    rows, cols = x._indices()
    out = weft.zeros(x.shape[0], dense.shape[1], dtype=dense.dtype)
    return out.index_add(0, rows, x._values().unsqueeze(1) * dense.index_select(0, cols))


SIZES = [(3, 4, 5, 2), (1, 1, 3, 1), (7, 5, 40, 129), (4, 3, 0, 6), (5, 5, 9, 0)]


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize(("rows", "cols", "count", "width"), SIZES)
def test_the_kernel_is_the_formula(rows, cols, count, width, dtype):
    x = matrix(rows, cols, count, dtype)
    dense = weft.randn(cols, width, dtype=weft.float64).to(dtype)
    close = 1e-5 if dtype is weft.float32 else 1e-13
    want = by_index_ops(x, dense)
    for got in (x @ dense, x.coalesce() @ dense, x.to_sparse_csr() @ dense):
        assert got.dtype is dtype and weft.allclose(got, want, atol=close)
    assert weft.allclose((dense.t() @ x.t()).t(), want, atol=close)


@pytest.mark.parametrize("dtype", [weft.float16, weft.bfloat16, weft.int64, weft.complex64])
def test_other_dtypes(dtype):
    x = (matrix(3, 4, 6) * 3).to(weft.int64).to(dtype)
    dense = (weft.arange(8).view(4, 2) - 3).to(dtype)
    assert weft.equal((x @ dense).to(weft.complex128), (x.to_dense() @ dense).to(weft.complex128))


def test_gradients_to_second_order():
    rows, cols = matrix(4, 3, 6)._indices()
    values, dense = weft.randn(6, dtype=weft.float64), weft.randn(3, 2, dtype=weft.float64)

    def f(values, dense):
        x = weft.sparse_coo_tensor(weft.stack([rows, cols]), values, (4, 3))
        return weft.sparse.mm(x, dense)

    leaves = values.requires_grad_(), dense.requires_grad_()
    assert weft.autograd.gradcheck(f, leaves) and weft.autograd.gradgradcheck(f, leaves)


def test_the_same_bits_on_any_number_of_threads():
    x, dense = matrix(50, 60, 900, weft.float32), weft.randn(60, 300)
    before = weft.get_num_threads()
    found = []
    for threads in (1, 2, 3):
        weft.set_num_threads(threads)
        found.append((x @ dense, weft.sparse.sampled_addmm(
            x.to_sparse_csr(), weft.ones(50, 7), weft.ones(7, 60))))  # fmt: skip
    weft.set_num_threads(before)
    for product, sampled in found[1:]:
        assert weft.equal(product, found[0][0])
        assert weft.equal(sampled.values(), found[0][1].values())


def test_places_that_were_written_outside_are_refused():
    x = matrix(3, 4, 5)
    x._indices()[0, 2] = 3
    with pytest.raises(IndexError):
        x @ weft.ones(4, 2, dtype=weft.float64)
    x._indices()[0, 2] = -1
    with pytest.raises(IndexError):
        x @ weft.ones(4, 2, dtype=weft.float64)
