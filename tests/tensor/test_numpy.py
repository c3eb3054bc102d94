"""What NumPy's scalars and arrays become, beside PyTorch."""

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")

# Lists of NumPy's scalars and arrays lost their dtype: float64 became float32, int32 int64.
MADE = """T.tensor([np.float64(1), 2])
T.tensor([np.float64(1), 1.5])
T.tensor([np.float32(1), 1.5])
T.tensor([np.float16(1)])
T.tensor([np.int32(1)])
T.tensor([np.int32(1), 2])
T.tensor([np.uint8(3)])
T.tensor([np.bool_(True)])
T.tensor([np.complex64(1)])
T.tensor([1j, np.float64(1)])
T.tensor([[np.float64(2)], [1]])
T.tensor([np.array([1, 2], dtype=np.int32)] * 2)
T.tensor([np.zeros(2, np.float32), np.zeros(2)])
T.tensor([np.zeros((2, 0))])
T.tensor([T.tensor(1.0, dtype=T.float64)])
T.tensor([T.tensor(1, dtype=T.int8), T.tensor(1, dtype=T.int8)])
T.as_tensor([np.float64(1)])
T.tensor([True, 2])
T.tensor([[], []])
T.tensor(np.array([1, 65535], np.uint16), dtype=T.int32)
T.tensor(np.array([1, 2**64 - 1], np.uint64), dtype=T.int64)
T.tensor(np.array([1, 2**64 - 1], np.uint64), dtype=T.float64)
T.as_tensor(np.array([3], np.uint32), dtype=T.int64)
T.tensor([1, 2]) == np.array([1, 3])
np.array([1, 3]) == T.tensor([1, 2])
np.float64(1) == T.tensor([1, 2])
T.tensor([1, 2]) + np.array([1, 3])""".splitlines()


@pytest.mark.parametrize("call", MADE)
@pytest.mark.filterwarnings("ignore:Creating a tensor:UserWarning", "ignore:.*__array_wrap__")
def test_numpy_s_values_keep_their_dtype(call):
    ours, theirs = (eval(call, {"T": t, "np": np}) for t in (weft, torch))  # noqa: S307
    assert str(ours) == str(theirs) and str(ours.dtype) == str(theirs.dtype)


def test_comparison_with_an_array_is_elementwise_in_both_orders():
    """Both were Python's comparison of identities: False. (PyTorch's != is that still.)"""
    x, a = weft.tensor([1, 2]), np.array([1, 3])
    assert (x != a).tolist() == (a != x).tolist() == [False, True]
    with pytest.raises(RuntimeError):
        _ = x == np.array([1, 2, 3])
    with pytest.raises(TypeError):
        _ = x < a


def test_numpy_s_scalars_become_tensors_that_may_be_written():
    """They shared the scalar's memory, and writing raised: the memory is read-only."""
    scalar = np.float64(2)
    for made in (weft.as_tensor(scalar), weft.asarray(scalar), weft.array_api.asarray(scalar)):
        assert made.mul_(3).item() == 6 and scalar == 2


def test_an_array_of_a_dtype_that_weft_has_not_needs_one():
    with pytest.raises(TypeError, match="astype"):
        weft.tensor(np.array([1], np.longdouble))
