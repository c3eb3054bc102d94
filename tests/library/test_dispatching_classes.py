"""Classes with `__torch_dispatch__` in functions of weft's own: compiled and batched ones take such
tensors by the eager way. What PyTorch has too is in programs/dispatching_tensors.py."""

import io
from typing import Any

import pytest

import weft
from weft.utils._pytree import tree_map


class Doubled(weft.Tensor):
    """A tensor and a count of the operators that it went through."""

    @staticmethod
    def __new__(cls, of: weft.Tensor, count: int = 0) -> Any:
        made = weft.Tensor._make_wrapper_subclass(cls, of.shape, dtype=of.dtype)
        made.of, made.count = of, count
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        count = max(a.count for a in args if isinstance(a, cls)) + 1
        args = tree_map(lambda a: a.of if isinstance(a, Doubled) else a, args)
        return cls(func(*args, **(kwargs or {})), count)


def test_compiled_functions_take_them_by_the_eager_way():
    f = weft.compile(lambda v, w: (v * 2 + w).tanh())
    plain = weft.tensor([1.0, -1.0])
    for _ in range(4):
        assert weft.equal(f(plain, plain), (plain * 3).tanh())
        made = f(Doubled(plain), plain)
        assert made.count == 3 and weft.equal(made.of, (plain * 3).tanh())


def test_batched_functions_take_them_by_the_eager_way():
    f = weft.autobatch(lambda v, w: (v @ w).tanh().sum())
    w = weft.full((2, 2), 0.5)
    x = weft.tensor([1.0, 2.0])
    one, two, three = f([x, Doubled(x), x * 2], [w, w, w])
    assert weft.equal(one, (x @ w).tanh().sum()) and weft.equal(three, (x * 2 @ w).tanh().sum())
    assert two.count == (Doubled(x) @ w).tanh().sum().count and weft.equal(two.of, one)


def test_they_are_saved_with_what_they_are_made_of():
    file = io.BytesIO()
    weft.save({"x": Doubled(weft.ones(2), 4)}, file)
    file.seek(0)
    x = weft.load(file, weights_only=False)["x"]
    assert type(x) is Doubled and x.count == 4 and weft.equal(x.of, weft.ones(2))


@pytest.mark.parametrize(
    "given",
    [
        {"layout": weft.sparse_coo},
        {"dispatch_sizes_strides_policy": "sizes"},
        {"dispatch_device": True},
        {"dispatch_layout": True},
        {"device": "cuda"},
    ],
)
def test_what_a_wrapper_cannot_be_is_refused(given):
    with pytest.raises(NotImplementedError, match="Hint"):
        weft.Tensor._make_wrapper_subclass(Doubled, (2,), **given)


def test_gradients_by_rows_join_those_of_a_class():
    w = weft.ones(3, 2, requires_grad=True)
    (w[1].sum() + (w * Doubled(weft.full((3, 2), 2.0))).sum()).backward()
    assert weft.equal(w.grad.of, weft.tensor([[2.0, 2.0], [3.0, 3.0], [2.0, 2.0]]))
