"""What a tensor is, beside PyTorch: layout, promotion, indexing, conversions, copies."""

import copy
import gc
import itertools
import operator
import pickle
import random

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")

DTYPES = ["bool", "int64", "float32", "float64"]


def pair(values, dtype):
    return tuple(lib.tensor(values, dtype=getattr(lib, dtype)) for lib in (weft, torch))


def same(a, b):
    """Whether a weft tensor and a PyTorch tensor agree in everything that shows."""
    return (
        tuple(a.shape) == tuple(b.shape)
        and str(a.dtype) == str(b.dtype)
        and np.array_equal(a.numpy(), b.numpy(), equal_nan=True)
    )


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


# ---- promotion

OPERANDS = [
    *((d, shape) for d in DTYPES for shape in ("1-d", "0-d")),
    ("bool", "number"),
    ("int64", "number"),
    ("float64", "number"),
]


def operand(lib, dtype, kind):
    if kind == "number":
        return {"bool": True, "int64": 2, "float64": 1.5}[dtype]
    values = [1, 0, 1] if kind == "1-d" else 1
    return lib.tensor(values, dtype=getattr(lib, dtype))


@pytest.mark.parametrize(
    "op", ["add", "mul", "truediv", "floordiv", "pow", "eq", "lt", "sub", "mod"]
)
def test_promotion(op):
    apply = getattr(operator, op)
    for left, right in itertools.product(OPERANDS, OPERANDS):
        if left[1] == right[1] == "number" or (op == "pow" and left[0] == right[0] == "bool"):
            continue  # PyTorch refuses bool ** bool, except for the literal True
        outcomes = []
        for lib in (weft, torch):
            try:
                outcomes.append(apply(operand(lib, *left), operand(lib, *right)))
            except RuntimeError as error:
                outcomes.append(type(error))
        got, expected = outcomes
        if isinstance(expected, type):
            assert got in (expected, RuntimeError), (left, right)
        else:
            assert same(got, expected), (left, right, got, expected)


@pytest.mark.parametrize("op", ["iadd", "imul", "itruediv", "ipow", "isub"])
def test_promotion_in_place(op):
    apply = getattr(operator, op)
    for left, right in itertools.product(OPERANDS, OPERANDS):
        if left[1] == "number" or (left[1] == "0-d" and right[1] == "1-d"):
            continue
        if op == "ipow" and left[0] == right[0] == "bool":
            continue
        outcomes = []
        for lib in (weft, torch):
            target = operand(lib, *left)
            try:
                result = apply(target, operand(lib, *right))
                assert result is target
                outcomes.append(result)
            except RuntimeError as error:
                outcomes.append(type(error))
        got, expected = outcomes
        if isinstance(expected, type):
            assert isinstance(got, type), (left, right, got)
        else:
            assert not isinstance(got, type) and same(got, expected), (left, right, got, expected)


def test_promote_types_and_can_cast():
    for a, b in itertools.product(DTYPES, DTYPES):
        ours = weft.promote_types(getattr(weft, a), getattr(weft, b))
        assert str(ours) == str(torch.promote_types(getattr(torch, a), getattr(torch, b)))
        assert weft.can_cast(getattr(weft, a), getattr(weft, b)) == torch.can_cast(
            getattr(torch, a), getattr(torch, b)
        )
    for left, right in itertools.product(OPERANDS, OPERANDS):
        ours = weft.result_type(operand(weft, *left), operand(weft, *right))
        theirs = torch.result_type(operand(torch, *left), operand(torch, *right))
        assert str(ours) == str(theirs), (left, right)


# ---- indexing


def random_item(rng, size):
    kind = rng.randrange(10)
    if kind < 3:
        return rng.randrange(-size - 1, size + 1)
    if kind < 6:
        bound = [None, *range(-size - 2, size + 3)]
        step = rng.choice([None, 1, 1, 2, 3, -1, 0] if rng.random() < 0.3 else [None, 1, 2])
        return slice(rng.choice(bound), rng.choice(bound), step)
    if kind == 6:
        return None
    if kind == 7:
        return [rng.randrange(-size, size) for _ in range(rng.choice([1, 2, 2]))]
    if kind == 8:
        return ("mask", tuple(rng.random() < 0.5 for _ in range(size)))
    return ("index", tuple(rng.randrange(-size, size) for _ in range(2)), rng.random() < 0.5)


def random_key(rng, shape):
    items = [random_item(rng, size) for size in shape[: rng.randrange(1, len(shape) + 1)]]
    if rng.random() < 0.3:
        items.insert(rng.randrange(len(items) + 1), Ellipsis)
    if rng.random() < 0.1:
        items.append(0)
    return items[0] if len(items) == 1 and rng.random() < 0.5 else tuple(items)


def as_key(lib, key):
    def item(i):
        if not isinstance(i, tuple):
            return i
        if i[0] == "mask":
            return lib.tensor(i[1])
        values = lib.tensor(i[1])
        return values[:, None] if i[2] else values

    return tuple(map(item, key)) if isinstance(key, tuple) and not tagged(key) else item(key)


def tagged(key):
    return bool(key) and isinstance(key[0], str)


def read(lib, values, key):
    return lib.tensor(values)[as_key(lib, key)]


def attempt(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return error


@pytest.mark.parametrize("seed", range(12))
def test_indexing_at_random(seed):
    rng = random.Random(seed)
    for _ in range(60):
        shape = tuple(rng.randrange(1, 5) for _ in range(rng.randrange(1, 5)))
        values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        key = random_key(rng, shape)
        got, expected = (
            attempt(lambda: lib.tensor(values)[as_key(lib, key)]) for lib in (weft, torch)
        )
        if isinstance(expected, Exception):
            assert type(got) is type(expected), (shape, key, got, expected)
            continue
        assert not isinstance(got, Exception), (shape, key, got)
        assert same(got, expected), (shape, key)

        target = tuple(expected.shape)
        choices = [2.5, np.zeros(target[1:], np.float32) - 1, np.ones((1, *target), np.float32)]
        value = rng.choice(
            [*choices, -np.arange(np.prod(target), dtype=np.float32).reshape(target)]
        )
        written = []
        for lib in (weft, torch):
            t = lib.tensor(values)
            new = value if isinstance(value, float) else lib.tensor(value)
            error = attempt(operator.setitem, t, as_key(lib, key), new)
            written.append((type(error) if error else None, t))
        (ours, a), (theirs, b) = written
        assert ours == theirs, (shape, key, np.shape(value), ours, theirs)
        if not repeats(key):
            assert same(a, b), (shape, key)


def repeats(key):
    """Whether a key of tensors may write one element twice, in no defined order."""
    items = key if isinstance(key, tuple) and not tagged(key) else (key,)
    return any(isinstance(i, list) or (isinstance(i, tuple) and i[0] == "index") for i in items)


def test_assignment_converts_and_broadcasts():
    for lib in (weft, torch):
        t = lib.zeros(2, 3, dtype=lib.int64)
        t[0] = 2.9
        t[1, 1:] = lib.tensor([4.7, -4.7])
        assert t.tolist() == [[2, 2, 2], [0, 4, -4]]
        t[t > 2] = 0
        t[..., 0] = True
        assert t.tolist() == [[1, 2, 2], [1, 0, -4]]
        t[:, [0, 2]] = lib.tensor([[7], [8]])
        assert t.tolist() == [[7, 2, 7], [8, 0, 8]]
        t[[True, False]] = -1
        assert t[0].tolist() == [-1, -1, -1]
        t[0, 1] += 5
        assert t[0, 1].item() == 4


@pytest.mark.parametrize(
    "program",
    [
        "t.add_(1)",
        "t.mul_(t)",
        "t.t().sub_(t.t() * 2)",
        "t[0].div_(4)",
        "t.pow_(2)",
        "t.neg_()",
        "t.exp_()",
        "t.clamp_(2, 4)",
        "t.fill_(3)",
        "t.zero_()",
        "t.copy_(t[0].clone())",
        "t[:, 1:].copy_(t[:, :-1].clone())",
        "t.masked_fill_(t > 2, -1)",
        "t.relu_()",
        "t.addcmul_(t, t, value=0.5)",
        "t.lerp_(t * 2, 0.25)",
        "t.index_fill_(1, torch.tensor([0, 2]), 9)",
        "t.index_add_(0, torch.tensor([1, 1]), t.clone())",
        "t.scatter_(1, torch.tensor([[0], [2]]), 5.)",
        "t.sigmoid_()",
    ],
)
def test_in_place(program):
    states = []
    for lib in (weft, torch):
        t = lib.arange(6.0).view(2, 3)
        alias, version = t.view(-1), t._version
        result = eval(program, {"t": t, "torch": lib})
        assert t._version > version
        assert result.data_ptr() >= t.data_ptr()
        states.append((t, alias))
    (a, aa), (b, bb) = states
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(aa.numpy(), a.numpy().reshape(-1))


# ---- conversion


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_without_copying(dtype):
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    t = weft.from_numpy(array)
    assert str(t.dtype) == f"torch.{dtype}"
    assert t.data_ptr() == array.ctypes.data
    for back in (t.numpy(), np.asarray(t), np.asarray(memoryview(t)), np.from_dlpack(t)):
        assert back.ctypes.data == array.ctypes.data
        assert back.dtype == array.dtype
        assert back.shape == (2, 3)
    assert torch.from_numpy(t.numpy()).data_ptr() == t.data_ptr()
    assert weft.as_tensor(array).data_ptr() == t.data_ptr()
    assert weft.tensor(array).data_ptr() != t.data_ptr()
    array[0, 0] = 1
    assert t[0, 0].item() == 1
    strided = weft.from_numpy(array.T[1:])
    assert strided.stride() == (1, 3)
    assert strided.tolist() == array.T[1:].tolist()
    assert t.t().numpy().strides == array.T.strides


def test_memory_stays_as_long_as_anyone_looks():
    t = weft.arange(6.0)
    array, view = t.numpy(), memoryview(t)
    lent = np.from_dlpack(t)
    t.data = weft.zeros(2)
    del t
    gc.collect()
    weft.ones(6)
    assert array.tolist() == view.tolist() == lent.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    source = np.arange(4.0)
    t = weft.from_dlpack(source)
    del source
    gc.collect()
    np.ones(4)
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_dlpack():
    t = weft.arange(6.0).view(2, 3).t()
    assert t.__dlpack_device__() == (1, 0)
    theirs = torch.from_dlpack(t)
    assert (theirs.data_ptr(), theirs.stride()) == (t.data_ptr(), t.stride())
    ours = weft.from_dlpack(theirs)
    assert (ours.data_ptr(), ours.stride()) == (t.data_ptr(), t.stride())
    capsule = weft.utils.dlpack.to_dlpack(t)
    assert weft.utils.dlpack.from_dlpack(capsule).data_ptr() == t.data_ptr()
    with pytest.raises(RuntimeError, match="once"):
        weft.from_dlpack(capsule)
    for dtype in DTYPES:
        mine = weft.ones(2, 2).to(getattr(weft, dtype))
        assert same(weft.from_dlpack(torch.from_dlpack(mine)), torch.from_dlpack(mine))
    assert tuple(weft.from_dlpack(torch.empty(0, 3)).shape) == (0, 3)
    assert weft.from_dlpack(torch.tensor(2.5)).item() == 2.5
    with pytest.raises(RuntimeError, match="a dtype that weft has"):
        weft.from_dlpack(torch.ones(2, dtype=torch.uint16))
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    shared = weft.from_dlpack(frozen)
    with pytest.raises(RuntimeError, match="read-only"):
        shared.add_(1)
    assert not np.from_dlpack(shared).flags.writeable


def test_unused_capsules_give_their_memory_back():
    base = weft._C._memory_stats()["current"]
    for version in (None, (1, 0)):
        capsule = weft.ones(1000).__dlpack__(max_version=version)
        assert weft._C._memory_stats()["current"] > base
        del capsule
        assert weft._C._memory_stats()["current"] == base
    taken = weft.from_dlpack(weft.ones(1000).__dlpack__())
    assert weft._C._memory_stats()["current"] > base
    del taken
    assert weft._C._memory_stats()["current"] == base


@pytest.mark.parametrize(
    "data",
    [
        3,
        2.5,
        True,
        [1, 2],
        [1, 2.5],
        [True, False],
        [True, 2],
        [[1.0, 2.0], [3.0, 4.0]],
        (1, (2)),
        range(4),
        [],
        [[]],
        np.float64(1.5),
        np.float32(1.5),
        np.int64(3),
        np.bool_(True),
        [np.float32(1.5), 2],
        np.arange(3),
        [np.arange(2), np.arange(2)],
        float("nan"),
        [float("inf"), -1],
        2**62,
    ],
)
def test_tensor_from_python(data):
    got, expected = weft.tensor(data), torch.tensor(data)
    assert same(got, expected), (got, expected)
    assert np.array_equal(got.tolist(), expected.tolist(), equal_nan=True)
    assert same(weft.tensor(data, dtype=weft.float64), torch.tensor(data, dtype=torch.float64))


def test_python_numbers():
    for lib in (weft, torch):
        assert lib.tensor([[2.5]]).item() == 2.5
        assert type(lib.tensor(True).item()) is bool
        assert type(lib.tensor(3).item()) is int
        assert (float(lib.tensor(2)), int(lib.tensor(2.7)), bool(lib.tensor([0.0]))) == (
            2.0,
            2,
            False,
        )
        assert [10, 20, 30][lib.tensor(1)] == 20
        assert list(range(lib.tensor(3))) == [0, 1, 2]
        assert operator.index(lib.tensor([2])) == 2
        assert 2.0 in lib.tensor([1.0, 2.0])
        assert 5 not in lib.tensor([1.0, 2.0])
        assert [r.tolist() for r in lib.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
        assert [type(r) for r in lib.tensor([1.0])] == [lib.Tensor]
        assert len(lib.ones(3, 2)) == 3
        first, second = lib.tensor([1.0, 2.0])
        assert (first.item(), second.item()) == (1.0, 2.0)
        assert f"{lib.tensor(3.14159):.2f} {lib.tensor(7):>3d}" == "3.14   7"
        assert f"{lib.tensor([1.5])}" == "tensor([1.5000])"
        assert round(float(lib.tensor(2.5)), 1) == 2.5


def test_new_like_this():
    for lib in (weft, torch):
        t = lib.ones(2, dtype=lib.float64)
        assert t.new_zeros(2, 3).dtype == t.new_tensor([1, 2]).dtype == lib.float64
        assert t.new_full((2,), 3).tolist() == [3.0, 3.0]
        assert t.new_ones((2,), dtype=lib.int64).dtype == lib.int64
        assert tuple(t.new_empty((2, 5)).shape) == (2, 5)


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


# ---- functions made of operators

EQUATIONS = [
    ("bij,bjk->bik", "AB"),
    ("bij,bjk", "AB"),
    ("ii", "M"),
    ("ii->i", "M"),
    ("ij->ji", "M"),
    ("i,j->ij", "VW"),
    ("i,i->", "VV"),
    ("...ij,...jk->...ik", "AB"),
    ("bij->", "A"),
    ("bij,j->bi", "AW"),
    ("i,ij,j->", "VMV"),
    ("...j->...", "A"),
    ("bij,bkj->ik", "AA"),
    ("...,...", "MM"),
    ("ij, kl -> ijkl", "MM"),
]
CALLS = [
    "t.trace(M)",
    "t.inner(A, W)",
    "t.baddbmm(t.ones(2, 3, 5), A, B, beta=0.5, alpha=2)",
    "t.addbmm(t.ones(3, 5), A, B)",
    "t.addmv(V, M, V)",
    "t.addr(M, V, V)",
    "t.aminmax(M, dim=1)",
    "t.logaddexp(M, M * 1000)",
    "t.logaddexp(t.tensor([-t.inf, t.inf]), t.tensor([-t.inf, 0.]))",
    "t.dist(M, V)",
    "t.diff(A, 2, 1)",
    "t.kron(M, V)",
    "t.tensor_split(W, 3)",
    "t.tensor_split(W, (1, 3, 2, -1, 9))",
    "t.bincount(t.tensor([0, 2, 2]), minlength=5)",
    "t.bincount(t.tensor([0, 2, 2]), t.tensor([1., 2., 4.]))",
    "t.unique(t.tensor([[3, 1], [3, 2]]), return_inverse=True, return_counts=True)",
    "t.unique(t.tensor([]), return_counts=True)",
]


def operands(lib):
    draw = np.random.default_rng(0).normal
    shapes = {"A": (2, 3, 4), "B": (2, 4, 5), "M": (3, 3), "V": 3, "W": 4}
    return {k: lib.tensor(draw(size=s).astype(np.float32)) for k, s in shapes.items()}


@pytest.mark.parametrize(("equation", "names"), EQUATIONS)
def test_einsum(equation, names):
    results = []
    for lib in (weft, torch):
        leaves = operands(lib)
        tensors = [leaves[n].requires_grad_() for n in names]
        out = lib.einsum(equation, *tensors)
        (out * out).sum().backward()
        results.append([out.detach().numpy(), *(t.grad.numpy() for t in tensors)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "call", [("ij,jk", "M"), ("ij", "A"), ("ij->ik", "M"), ("ij,jk->ik", "MW"), ("ij,jk->ik", "MA")]
)
def test_einsum_refuses(call):
    equation, names = call
    leaves = operands(weft)
    with pytest.raises(RuntimeError, match=r"\[einsum\] expected .+, got"):
        weft.einsum(equation, *(leaves[n] for n in names))


@pytest.mark.parametrize("program", CALLS)
def test_composites(program):
    ours, theirs = (eval(program, {"t": lib, **operands(lib)}) for lib in (weft, torch))
    ours, theirs = (r if isinstance(r, tuple) else (r,) for r in (ours, theirs))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        assert str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)
