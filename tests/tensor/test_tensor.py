"""What a tensor is, beside PyTorch: layout, promotion, indexing, conversions, copies."""

import copy
import gc
import operator
import pickle

import numpy as np
import pytest
from pairs import DTYPES, same, torch

import weft

# ---- layout


def test_views_share_storage():
    base = weft.arange(12.0)
    matrix = base.view(3, 4)
    matrix[1, 2] = -1.0
    assert base[6].item() == -1.0
    matrix.t()[0, 0] = 9.0
    assert base[0].item() == 9.0
    base[::2].zero_()
    assert matrix.tolist() == [[0, 1, 0, 3], [0, 5, 0, 7], [0, 9, 0, 11]]
    row = matrix[1]
    assert (row.storage_offset(), row.data_ptr()) == (4, base.data_ptr() + 16)
    assert matrix.t().stride() == (1, 4)
    assert not matrix.t().is_contiguous()


def test_storage_outlives_its_first_tensor():
    row = weft.arange(6.0).view(2, 3)[1]
    gc.collect()
    weft.ones(6)
    assert row.tolist() == [3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    "layout",
    [
        "t",
        "t.t()",
        "t[:, 1:]",
        "t[::2]",
        "t[None]",
        "t.view(-1)",
        "t.unsqueeze(1)",
        "t[0].expand(4, 3)",
        "t.view(3, 1, 2)",
        "t.transpose(0, 1)[1:]",
        "t[:, :0]",
        "t.as_strided((2, 2), (1, 2), 1)",
        "t.diagonal()",
    ],
)
def test_layouts(layout):
    results = []
    for lib in (weft, torch):
        t = eval(layout, {"t": lib.arange(6.0).view(2, 3)})
        results.append(
            (tuple(t.shape), t.stride(), t.storage_offset(), t.is_contiguous(), t.tolist())
        )
    assert results[0] == results[1]


def test_scalars_and_empty_tensors():
    for lib in (weft, torch):
        zero_d, empty = lib.tensor(3.5), lib.empty(2, 0, 3)
        assert (zero_d.dim(), zero_d.numel(), tuple(zero_d.shape)) == (0, 1, ())
        assert zero_d.tolist() == 3.5
        assert (empty.numel(), empty.tolist(), tuple(empty.sum(1).shape)) == (0, [[], []], (2, 3))
        assert empty.sum().item() == 0.0
        assert tuple((empty + lib.ones(3)).shape) == (2, 0, 3)
        assert tuple(lib.cat([empty, empty], 1).shape) == (2, 0, 3)
        assert tuple((lib.ones(0, 3).t() @ lib.ones(0, 2)).shape) == (3, 2)
        assert lib.tensor([]).dtype == lib.float32
        assert tuple(lib.tensor([[], []]).shape) == (2, 0)


class Number(int):
    def __index__(self):
        return 7


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("values", [
    [1], [1, -2, 2**62], [0, True], [True], [2**63], [-(2**63) - 1], [1.5], [1.5, -0.0, 1e300],
    [1, 2.5], [2.5, 1], [1.5, True], [1.0, 2j], [Number(3), 1], [1, Number(3)], [1, np.int32(4)],
    [1, [2]], [1, "2"], [1.0, None], [1, weft.tensor(2)], [float("nan"), float("inf")], [],
], ids=str)  # fmt: skip
def test_a_list_of_plain_numbers_is_what_it_is_within_another(values, dtype):
    """Lists of Python's own ints or floats alone are read in one pass."""

    def outcome(make):
        try:
            t = make()
            return t.dtype, tuple(t.shape), str(t.tolist())
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            return type(error)

    before = weft.get_default_dtype()
    weft.set_default_dtype(getattr(weft, dtype))
    try:
        plain = outcome(lambda: weft.tensor(values))
        assert plain == outcome(lambda: weft.tensor(tuple(values)))
        assert plain == outcome(lambda: weft.tensor([values])[0])
    finally:
        weft.set_default_dtype(before)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3,), (2, 3)),
        ((2, 1), (1, 3)),
        ((), (2, 3)),
        ((1,), (0,)),
        ((4, 1, 3), (2, 1)),
        ((0, 3), (1, 3)),
    ],
)
def test_broadcasting(shapes):
    a, b = (np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in shapes)
    for op in (operator.add, operator.mul, operator.lt):
        got, expected = (op(lib.tensor(a), lib.tensor(b)) for lib in (weft, torch))
        assert same(got, expected)


# ---- copies


class Tagged(weft.Tensor):
    pass


def leaf():
    t = weft.arange(6.0).view(2, 3).t().requires_grad_()
    t.note = ["kept"]
    return t


def test_copy_shares_memory():
    t = leaf()
    c = copy.copy(t)
    assert c is not t
    assert (c.data_ptr(), c.stride(), c.requires_grad, c.note) == (
        t.data_ptr(),
        (1, 3),
        True,
        t.note,
    )
    assert type(copy.copy(Tagged([1.0]))) is Tagged


def test_deepcopy():
    t = leaf()
    t.grad = weft.ones(3, 2)
    c = copy.deepcopy(t)
    assert c.data_ptr() != t.data_ptr()
    assert (c.tolist(), c.stride(), c.requires_grad, c.is_leaf) == (t.tolist(), (1, 3), True, True)
    assert c.note == ["kept"]
    assert c.note is not t.note
    assert c.grad.tolist() == t.grad.tolist()
    assert c.grad.data_ptr() != t.grad.data_ptr()
    assert type(copy.deepcopy(Tagged([1.0]))) is Tagged
    p = weft.nn.Parameter(weft.ones(2), requires_grad=False)
    assert type(copy.deepcopy(p)) is weft.nn.Parameter
    assert not copy.deepcopy(p).requires_grad
    base = weft.arange(4.0)
    a, b, again = copy.deepcopy([base, base[1:], base])
    assert a is again
    a[1] = 7.0
    assert b[0].item() == 7.0
    assert base[1].item() == 1.0
    with pytest.raises(RuntimeError, match="explicitly by the user"):
        copy.deepcopy(t * 2)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    def there_and_back(x):
        return pickle.loads(pickle.dumps(x, protocol))

    t = there_and_back(leaf())
    assert (t.tolist(), t.stride(), t.requires_grad, t.note) == (
        leaf().tolist(),
        (1, 3),
        True,
        ["kept"],
    )
    for dtype in DTYPES:
        kind = getattr(weft, dtype)
        assert there_and_back(kind) is kind
        for shape in ((), (0, 2), (2, 3)):
            t = weft.ones(shape).to(kind)
            assert there_and_back(t).dtype is kind
            assert there_and_back(t).tolist() == t.tolist()
    assert there_and_back(weft.ones(1).expand(3)).tolist() == [1.0, 1.0, 1.0]
    size = there_and_back(weft.Size([2, 3]))
    assert type(size) is weft.Size
    assert size == (2, 3)
    assert type(there_and_back(Tagged([1.0]))) is Tagged
    p = there_and_back(weft.nn.Parameter(weft.ones(2)))
    assert type(p) is weft.nn.Parameter
    assert p.requires_grad
    assert there_and_back(weft.device("cpu")) == weft.device("cpu")
    assert there_and_back(leaf() * 2).requires_grad


def test_as_subclass(torch):
    """The name was missing. Results of ops on such a tensor are of its class."""
    for t in (weft, torch):

        class Named(t.Tensor):
            label = "x"

        x = t.ones(2, requires_grad=True)
        y = (x * 2).as_subclass(Named)
        assert type(y) is Named and y.label == "x" and isinstance(y, t.Tensor)
        assert y.requires_grad and not y.is_leaf and y._base is not None
        (y * 3).sum().backward()
        assert x.grad.tolist() == [6, 6]
        z = t.zeros(2)
        z.as_subclass(Named)[0] = 1
        assert z.tolist() == [1, 0]
        assert type(z.as_subclass(t.Tensor)) is t.Tensor
        with pytest.raises(TypeError):
            z.as_subclass(int)
        with pytest.raises(TypeError):
            z.as_subclass(3)
        assert type(y + 1) is type(y[0]) is Named


@pytest.mark.parametrize("how", ["the last reference goes", "the collector comes"])
def test_slots_stay_while_the_graph_holds_a_tensor(how):
    """They were gone when backward came to it: its class was all that was left."""

    class Noted(weft.Tensor):
        __slots__ = ["note", "ring"]

    class Times(weft.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(b)
            return a * b.as_subclass(weft.Tensor)

        @staticmethod
        def backward(ctx, grad):
            (b,) = ctx.saved_tensors
            found.append(b.note)
            return grad * b.as_subclass(weft.Tensor), None

    found = []
    x, b = weft.ones(3, requires_grad=True), weft.ones(3).as_subclass(Noted)
    b.note = "kept"
    if how == "the collector comes":
        b.ring = [b]
    y = Times.apply(x, b)
    del b
    for _ in range(3):
        gc.collect()
        y.sum().backward(retain_graph=True)
    assert found == ["kept"] * 3
