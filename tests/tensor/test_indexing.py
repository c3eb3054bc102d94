"""Reading and writing by index, and writes in place, beside PyTorch."""

import operator
import random

import numpy as np
import pytest
from pairs import same, torch

import weft


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


LISTS = [
    "[a, b]", "[a]", "[0, 1]", "[[0, 1], [1, 2]]", "[[0, 1]]", "[a, [1, 2]]", "[slice(0, 2), 1]",
    "[None, a]", "[..., a]", "[a, 0]", "[True, False, True]", "[]", "[[0] * 3] * 40",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("key", LISTS)
def test_lists_are_keys_of_several_subscripts_where_pytorch_says_so(torch, key):
    """x[[a, b]] gathered whole rows; a list with a tensor, a list, a slice or ... is a tuple."""
    found = []
    for lib in (weft, torch):
        x = lib.arange(12.0).view(3, 4)
        where = eval(key, {"a": lib.tensor([0, 1]), "b": lib.tensor([2, 3])})
        taken = x[where]
        x[where] = -1.0
        found.append((taken.tolist(), x.tolist()))
    assert found[0] == found[1]


def test_a_list_that_is_a_tuple_warns():
    with pytest.warns(UserWarning, match=r"use x\[tuple\(seq\)\] instead of x\[seq\]"):
        weft.zeros(2, 2)[[weft.tensor([0]), weft.tensor([1])]]


@pytest.mark.parametrize("part", ["'a':", ":'a'", "::'a'", ":1.5", "(1, 2):", "::1.0"])
def test_a_slice_of_what_is_no_index_is_told_in_pythons_words(part):
    """The error was that of an index, `'str' object cannot be interpreted as an integer`."""
    told = []
    for lib in (weft, torch):
        with pytest.raises(TypeError) as error:
            eval(f"x[{part}]", {"x": lib.ones(3)})
        told.append(str(error.value))
    assert told[0] == told[1]


def mask_patterns():
    """Masks whose words of eight are full, empty and mixed, in any order, and their ends."""
    rng = random.Random(3)
    for size in (0, 1, 7, 8, 9, 16, 33, 64, 2100):
        yield [True] * size
        yield [False] * size
        yield [rng.random() < 0.5 for _ in range(size)]
        shares = [rng.choice([0, 0.5, 1]) for _ in range(size // 8 + 1)]
        yield [rng.random() < shares[k // 8] for k in range(size)]


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "float64", "complex128"])
def test_what_a_mask_takes_is_what_a_loop_takes(dtype):
    for mask in mask_patterns():
        x = weft.arange(len(mask)).to(getattr(weft, dtype))
        where = weft.tensor(mask, dtype=weft.bool)
        assert x[where].tolist() == [v for v, m in zip(x.tolist(), mask) if m]
        assert x.masked_select(where).tolist() == [v for v, m in zip(x.tolist(), mask) if m]
        assert where.nonzero().tolist() == [[k] for k, m in enumerate(mask) if m]


def test_coordinates_of_what_is_not_zero_lie_as_in_pytorch(torch):
    for shape in ((), (0,), (5,), (3, 4), (2, 0, 3), (2, 3, 1), (2, 3, 40)):
        for zeros in (False, True):
            found = []
            for lib in (weft, torch):
                x = lib.arange(float(np.prod(shape))).view(shape) % 3 * (not zeros)
                at = x.nonzero()
                found.append((at.shape, at.stride(), at.tolist()))
            assert found[0] == found[1]


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "complex128"])
def test_one_value_at_many_places_is_the_value_at_each(torch, dtype, strided):
    """A number is written as it is, not spread first; along any dimension, of any layout."""
    found = []
    for lib in (weft, torch):
        kind = getattr(lib, dtype)
        whole = lib.zeros(6, 8, 10, dtype=kind)
        x = whole[::2, :, ::2].transpose(0, 1) if strided else whole[:3]
        at = lib.tensor([0, 2, -1, 0, 1])[::2]
        x[:, at] = 1
        x[at, :, at] = lib.ones((1, 1, 1), dtype=kind)
        x[lib.tensor([1]), at[:, None], at] = lib.ones(1, dtype=kind)
        x.index_fill_(2, at.abs(), 1)
        found.append(whole.tolist())
        found.append(x.index_fill(1, at.abs(), 0).tolist())
    assert found[:2] == found[2:]


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("rows", [1, 31, 33, 5000])
def test_columns_beside_each_other_are_the_columns(dtype, rows):
    kind = getattr(weft, dtype)
    columns = [weft.arange(rows).to(kind) + k for k in range(3)]
    wanted = [list(row) for row in zip(*(column.tolist() for column in columns))]
    assert weft.stack(columns, -1).tolist() == wanted
    assert weft.cat([column[:, None] for column in columns], 1).tolist() == wanted
    pair = weft.stack(columns[:2], 1)
    assert weft.cat([columns[2][:, None], pair], 1).tolist() == [[r[2], *r[:2]] for r in wanted]
