"""Models in the idiom of public code, with free sizes: ONNX Runtime and the loaded Module as eager.

Sizes are far from those of the example: halves and thirds of them are other sizes too.
"""

from typing import Any

import numpy as np
import pytest
from public_models import CASES

import weft
from weft import nn

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def tensors(v: Any) -> list[weft.Tensor]:
    if isinstance(v, dict):
        v = list(v.values())
    if isinstance(v, (tuple, list)):
        return [t for part in v for t in tensors(part)]
    if isinstance(v, (bool, int, float)):
        return [weft.tensor(v)]
    return [v] if isinstance(v, weft.Tensor) else []


def check(name: str, found: Any, expected: Any) -> None:
    for a, b in zip(tensors(found), tensors(expected), strict=True):
        assert a.shape == b.shape, name
        np.testing.assert_allclose(
            a.detach().numpy(), b.detach().numpy(), 1e-4, 1e-4, equal_nan=True
        )


@pytest.mark.parametrize("name", CASES)
def test_public_models_run_elsewhere_and_come_back(name: str) -> None:
    weft.manual_seed(0)
    model, args, more, free = CASES[name]()
    if isinstance(model, nn.Module):
        model.eval()
    by_name = free is not None and any("_" in n and n.startswith("batch_") for n in free)
    words = {"dynamic_axes" if by_name else "dynamic_shapes": free}
    made = weft.onnx.export(model, args, **words)
    loaded = weft.onnx.load(made)
    with weft.no_grad():
        for call in [args, *more]:
            expected = model(*call)
            check(name, made(*call), expected)
            given = [t for a in call if isinstance(a, (weft.Tensor, dict)) for t in tensors(a)]
            check(name, loaded(*given), expected)


def by_halves(x):
    pooled = nn.functional.max_pool2d(x, 2)
    wide = pooled.repeat_interleave(2, 2).repeat_interleave(2, 3)
    return wide, x[:, :, : x.shape[2] // 2].mean(2), x[..., ::3].sum(-1)


def made_of_values(x, n):
    k = int(n.max())
    rows = x.repeat_interleave(n, 0)
    return weft.zeros(k) + 1, weft.arange(n[0].item()), rows.mean(0), rows.shape[0] * weft.ones(1)


def of_each_turn(x):
    out, k = weft.zeros(x.shape[0], 3), 1
    for i in range(x.shape[0]):
        out[i] = x[: i + 1].mean(0) + x[: i + 1].shape[0] + x[i:].sum(0) / len(x[i:])
    while k < x.shape[0] and x[:k].sum() < 3:
        k += 1
    return out, x[:k].mean(0), weft.arange(k), weft.zeros(k // 2)


def of_two_sizes(x, n):
    y = x.reshape(n[0].item(), n[1].item())
    return y.mean(1), y.shape[0] * weft.ones(2), weft.zeros(y.shape[1])


def of_what_there_is(x, n):
    k = int(n.max())
    y, z = x[:, :k], x.narrow(1, 0, k)
    return y.mean(1), y.shape[1] * weft.ones(1), z.mean(1), z.shape[1] * weft.ones(1), weft.ones(k)


def of_its_own_rows(x):
    y = x[:, : x.shape[0]]
    return y.mean(1), y.shape[1] * weft.ones(1)


def beside_one_that_has_to_be(x, n):
    k = int(n.max())
    mask = weft.arange(k) < n[:, None]
    return x * mask, weft.zeros(k) + 1, mask.shape[1] * weft.ones(1), weft.cat([weft.ones(k)] * 2)


def last_of(x, n):
    k = int(n.max())
    rows = weft.zeros(k)
    return x[:, k - 1], rows + 1, rows.mean(), rows.shape[0] * weft.ones(1)


def what_is_left(x, n):
    y = x.reshape(int(n.max()), -1)
    return y.mean(1), y.shape[1] * weft.ones(1)


def heads(x):
    b, t, _ = x.shape
    return x.view(b, t, 2, 2).transpose(1, 2).contiguous().view(b, -1, 4)


R, GRID = weft.ones, weft.arange(8.0).reshape(2, 4)


def I(*values):  # noqa: E743
    return weft.tensor(values)


SIZES: list[tuple[Any, Any, Any, Any]] = [
    # halves of 8 and 9 are alike, and were fixed at 4
    (by_halves, (weft.randn(1, 1, 8, 8),), [(weft.randn(2, 1, 13, 10),)], {"x": {2: "h", 3: "w"}}),
    # sizes that values tell were those of the example
    (
        made_of_values, (weft.randn(2, 3), weft.tensor([3, 4])),
        [(weft.randn(2, 3), weft.tensor([5, 2])), (weft.randn(2, 3), weft.tensor([1, 0]))], None,
    ),
    (of_each_turn, (R(4, 3) / 9,), [(R(7, 3) / 9,), (R(5, 3) * 9,)], {"x": {0: "n"}}),
    (
        of_two_sizes, (R(4, 3), weft.tensor([4, 3])),
        [(weft.randn(4, 3), weft.tensor([2, 6]))], None,
    ),
    # numbers that are as large as what they cut, or have to be a size of it, were sizes for good
    (of_what_there_is, (GRID, I(4, 2)), [(GRID, I(1, 2)), (GRID, I(3, 2))], None),
    (of_its_own_rows, (R(4, 4),), [(R(2, 4),), (R(7, 4),)], {"x": {0: "n"}}),
    (beside_one_that_has_to_be, (GRID, I(4, 2)), [(GRID, I(1, 4)), (GRID, I(1, 1))], None),
    (last_of, (GRID, I(4, 2)), [(GRID, I(1, 2)), (GRID, I(3, 2))], None),
    (what_is_left, (GRID, I(4, 2)), [(GRID, I(1, 2)), (GRID, I(1, 1))], None),
    # contiguous() left the strides, so that view() was refused
    (heads, (weft.randn(2, 3, 4),), [(weft.randn(3, 8, 4),)], {"x": {0: "b", 1: "t"}}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "args", "more", "free"), SIZES)
def test_no_size_is_fixed_without_a_word(model: Any, args: Any, more: Any, free: Any) -> None:
    free = free and {n: {0: "n", **d} if model is by_halves else d for n, d in free.items()}
    made = weft.onnx.export(model, args, dynamic_shapes=free)
    for call in [args, *more]:
        check(model.__name__, made(*call), model(*call))


def test_a_number_that_has_to_be_a_size_has_one_example() -> None:
    """Two unlike examples of it do not run: then there is one."""

    def f(x, n):
        return x * (weft.arange(int(n.max())) < n[:, None])

    made = weft.onnx.export(f, (weft.ones(2, 4), weft.tensor([4, 2])))
    assert made(weft.ones(2, 4), weft.tensor([1, 4]))[0].sum() == 5


def test_modules_that_were_traced_or_scripted_are_exported():
    """A traced one was said to be no Module; a class's own `__call__` was passed over."""

    class Doubled(weft.nn.Linear):
        def __call__(self, x):
            return super().__call__(x) * 2

    x, layer, own = weft.ones(2, 3), weft.nn.Linear(3, 2), Doubled(3, 2)
    for model in (weft.jit.trace(layer, x), weft.jit.script(layer)):
        made = weft.onnx.export(model, (x,))
        assert [t.name for t in made.model_proto.graph.initializer] == ["weight", "bias"]
        weft.testing.assert_close(made(x)[0], layer(x).detach())
    for model in (own, weft.jit.trace(own, x)):
        weft.testing.assert_close(weft.onnx.export(model, (x,))(x)[0], own(x).detach())
