"""squeeze_ and its like: a tensor becomes a view of itself, in the graph as well."""

from __future__ import annotations

from typing import Any

import pytest

import weft


@pytest.mark.parametrize(
    ("name", "args"),
    [("unsqueeze_", (0,)), ("squeeze_", ()), ("transpose_", (0, 1)), ("swapaxes_", (0, 1)),
     ("as_strided_", ((2, 2), (1, 1)))],
)  # fmt: skip
def test_layout_and_gradient(torch: Any, name: str, args: Any) -> None:
    def run(lib: Any) -> Any:
        x = lib.ones(3, 1, 2, requires_grad=True)
        y = x * 2
        assert getattr(y, name)(*args) is y
        assert y._version == 1
        weights = lib.arange(float(y.numel())).reshape(y.shape)
        (y.mul_(3) * weights).sum().backward()
        return tuple(y.shape), y.stride(), x.grad.tolist()

    assert run(weft) == run(torch)


def test_a_view_that_changes_still_writes_its_base() -> None:
    x = weft.ones(3, requires_grad=True)
    base = x * 1
    part = base[1:]
    part.unsqueeze_(1).mul_(5)
    base.sum().backward()
    assert x.grad.tolist() == [1, 5, 5]


def test_a_leaf_in_the_graph_is_refused_and_unchanged() -> None:
    x = weft.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.unsqueeze_(0)
    y = x * 2
    with pytest.raises(IndexError):
        y.unsqueeze_(5)
    assert y.shape == (3,)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    with weft.no_grad():
        x.unsqueeze_(0)
    assert x.shape == (1, 3)
    assert x.is_leaf
