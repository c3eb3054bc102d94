"""`weft.masked` beside PyTorch's, over functions, masks, dims and dtypes."""

import itertools
import math

import pytest

import weft
from weft import masked

X = [[3.0, -1.0, 2.0, 4.0], [0.0, 5.0, -2.0, 1.0], [7.0, 6.0, 1.0, -3.0]]
MASKS = {
    "none": None,
    "some": [[True, False, True, True], [False, False, False, False], [True, True, False, True]],
    "a row": [True, False, False, True],
    "a column": [[True], [False], [True]],
    "a number": True,
    "of ints": [[1, 0, 2, 1], [0, 0, 1, 0], [1, 1, 0, 1]],
}
DTYPES = "float32 float64 float16 bfloat16 int64 int32 uint8 complex64 bool".split()
OVER_DIMS = ["sum", "prod", "mean", "amax", "amin", "logsumexp", "var", "std"]
DIMS = [None, (), 0, 1, -1, (0, 1), [1, 0], (-2,)]
ALONG = ["cumsum", "cumprod", "softmax", "log_softmax", "softmin"]
ORDERS = [2.0, 1, 0, 3, -1, math.inf, -math.inf]


def both(torch, name, mask, kind, call, **more):
    """What weft's and PyTorch's function give, or the types of what they raise."""
    found = []
    for lib in (weft, torch):
        x = lib.tensor(X).to(getattr(lib, kind))
        shown = None if mask is None else lib.tensor(mask)
        words = {k: getattr(lib, v) if k == "dtype" else v for k, v in more.items()}
        try:
            found.append(call(getattr(lib.masked, name), x, mask=shown, **words))
        except Exception as error:  # noqa: BLE001
            found.append(type(error))
    return found


def check(torch, name, mask, kind, call, **more):
    mine, theirs = both(torch, name, mask, kind, call, **more)
    if isinstance(theirs, type):  # weft's NotImplementedErrors and RuntimeErrors are others
        assert issubclass(mine, theirs) or issubclass(theirs, mine), (mine, theirs)
        return
    assert not isinstance(mine, type), mine
    assert (str(mine.dtype), tuple(mine.shape)) == (str(theirs.dtype), tuple(theirs.shape))
    narrow = {"float16": 4e-3, "bfloat16": 3e-2}.get(str(theirs.dtype).removeprefix("torch."), 1e-5)
    wide = torch.complex128 if theirs.is_complex() else torch.float64
    expected = torch.tensor(mine.tolist(), dtype=wide).reshape(theirs.shape)
    torch.testing.assert_close(
        expected, theirs.to(wide), rtol=narrow, atol=narrow, equal_nan=True
    )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", OVER_DIMS)
def test_reductions_are_pytorchs(torch, name, mask, dtype):
    for dim, keepdim in itertools.product(DIMS, (False, True)):
        check(torch, name, MASKS[mask], dtype, lambda f, x, d=dim, **k: f(x, d, **k),
              keepdim=keepdim)  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", [*OVER_DIMS, *ALONG, "argmax", "argmin", "median"])
def test_a_dtype_is_that_of_the_result(torch, name, mask):
    for given, wanted in (("int64", "float32"), ("float32", "float64"), ("float16", "float32")):
        check(torch, name, MASKS[mask], given, lambda f, x, **k: f(x, 1, **k), dtype=wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_are_pytorchs(torch, name, mask, dtype):
    for dim, keepdim in itertools.product([None, 0, 1, -1], (False, True)):
        check(torch, name, MASKS[mask], dtype, lambda f, x, d=dim, **k: f(x, d, **k),
              keepdim=keepdim)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ALONG)
def test_functions_along_a_dim_are_pytorchs(torch, name, mask, dtype):
    for dim in (0, 1, -1, (1,), None):
        check(torch, name, MASKS[mask], dtype, lambda f, x, d=dim, **k: f(x, d, **k))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "uint8"])
def test_medians_are_pytorchs(torch, mask, dtype):
    for dim, keepdim in itertools.product((0, 1, -1, None, (1, 0)), (False, True)):
        check(torch, "median", MASKS[mask], dtype, lambda f, x, d=dim, **k: f(x, d, **k),
              keepdim=keepdim)  # fmt: skip
    nan = [[math.nan, 1.0, 2.0, math.nan]]
    mine, theirs = (lib.masked.median(lib.tensor(nan), 1) for lib in (weft, torch))
    assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("order", ORDERS)
def test_norms_are_pytorchs(torch, order, mask):
    for dtype in ("float32", "float64", "complex64", "int64"):
        if order == -math.inf and dtype in ("complex64", "int64"):
            continue  # PyTorch has an AssertionError there
        for dim, keepdim in itertools.product(DIMS, (False, True)):
            check(torch, "norm", MASKS[mask], dtype,
                  lambda f, x, d=dim, **k: f(x, order, d, **k), keepdim=keepdim)  # fmt: skip
        for dim, eps in itertools.product((0, -1), (1e-12, 10.0)):
            check(torch, "normalize", MASKS[mask], dtype,
                  lambda f, x, d=dim, **k: f(x, order, d, **k), eps=eps)  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["var", "std"])
def test_variances(torch, name, mask):
    for dtype in ("float32", "float64", "int64", "complex64"):
        for dim, words in itertools.product(
            (None, 0, (1,)),
            ({"unbiased": False}, {"unbiased": True}, {"correction": 2}, {"correction": 0.5},
             {"correction": 1, "unbiased": True}),
        ):  # fmt: skip
            check(torch, name, MASKS[mask], dtype, lambda f, x, d=dim, **k: f(x, d, **k), **words)


def test_logaddexp(torch):
    for a, b in itertools.product(("none", "some", "a row"), repeat=2):
        found = []
        for lib in (weft, torch):
            x = lib.tensor(X)
            masks = [None if MASKS[m] is None else lib.tensor(MASKS[m]) for m in (a, b)]
            y = lib.masked.logaddexp(x, -x, input_mask=masks[0], other_mask=masks[1])
            found.append(y.tolist())
        torch.testing.assert_close(*map(torch.tensor, found))


@pytest.mark.parametrize("call", [
    lambda f, m: f(weft.ones(2, 3), 0, mask=weft.ones(1, 2, 3, dtype=weft.bool)),
    lambda f, m: f(weft.ones(2, 3), 0, mask=weft.ones(4, dtype=weft.bool)),
    lambda f, m: f(weft.ones(2, 3), 2),
    lambda f, m: f(weft.ones(2, 3), (0, -2)),
])  # fmt: skip
def test_what_does_not_fit_raises_pytorchs_errors(torch, call):
    import types

    told = []
    for lib in (weft, torch):
        lent = types.FunctionType(call.__code__, {"weft": lib})
        with pytest.raises((IndexError, RuntimeError)) as error:
            lent(lib.masked.sum, None)
        told.append((type(error.value), str(error.value)))
    assert told[0][0] is told[1][0]
    assert told[1][1] in told[0][1] or "expand" in told[0][1]


def test_sizes_of_none_and_no_dims(torch):
    for name in ("sum", "prod", "mean", "logsumexp", "var"):
        for shape, dim in (((0, 3), 0), ((0, 3), 1), ((), None), ((), 0), ((2, 0), None)):
            found = [
                getattr(lib.masked, name)(
                    lib.full(shape, 2.0), dim, mask=lib.ones(shape, dtype=lib.bool)
                )
                for lib in (weft, torch)
            ]
            mine, theirs = found
            assert tuple(mine.shape) == tuple(theirs.shape)
            torch.testing.assert_close(
                torch.tensor(mine.tolist()).reshape(theirs.shape), theirs, equal_nan=True
            )


@pytest.mark.parametrize("name", [*OVER_DIMS, "softmax", "log_softmax", "softmin", "cumsum",
                                  "cumprod", "norm", "normalize"])  # fmt: skip
def test_gradients(name):
    x = weft.tensor([[3.0, -1.0, 2.0], [0.5, 5.0, -2.0]], dtype=weft.float64, requires_grad=True)
    mask = weft.tensor([[True, False, True], [True, True, True]])
    more = (2.0,) if name.startswith("norm") else ()

    def shown(t):
        out = getattr(masked, name)(t, *more, 1, mask=mask)
        return out.masked_fill(~mask, 0) if out.shape == t.shape else out  # -inf has no difference

    assert weft.autograd.gradcheck(shown, (x,))
    shown(x).sum().backward()
    assert x.grad[0, 1] == 0


def test_examples_of_a_batch_merge():
    x, mask = weft.randn(5, 4), weft.rand(5, 4) > 0.3
    out = weft.func.vmap(lambda a, m: masked.softmax(a, 0, mask=m))(x, mask)
    weft.testing.assert_close(out, masked.softmax(x, 1, mask=mask), equal_nan=True)


def test_sparse_operands_are_refused():
    with pytest.raises(TypeError, match="expected dense tensors"):
        masked.sum(weft.eye(2).to_sparse(), 1)
    with pytest.raises(TypeError, match="mask"):
        masked.sum(weft.eye(2), 1, mask=weft.eye(2).to_sparse())
