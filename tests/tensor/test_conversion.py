"""Tensors from Python's values, NumPy's and DLPack's, and back, beside PyTorch."""

import gc
import operator
import re

import numpy as np
import pytest
from pairs import DTYPES, same, torch

import weft


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
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    shared = weft.from_dlpack(frozen)
    with pytest.raises(RuntimeError, match="read-only"):
        shared.add_(1)
    assert not np.from_dlpack(shared).flags.writeable


@pytest.mark.parametrize("kind", ["U3", "O", "datetime64[s]", "longdouble", "V4"])
@pytest.mark.parametrize("name", ["from_numpy", "tensor", "as_tensor", "asarray"])
def test_arrays_without_a_dtype(torch, name, kind):
    """NumPy has no buffer format for dates or dtypes of ml_dtypes: it raised ValueError."""
    array = np.zeros(3, kind)
    with pytest.raises(TypeError) as theirs:
        getattr(torch, name)(array)
    with pytest.raises(TypeError, match=re.escape(str(theirs.value).rstrip("."))):
        getattr(weft, name)(array)


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
