"""A flush runs calls of all examples, whoever wanted a value: what holds for that one alone
(autocast, hooks of saved tensors, an error on its way) does not hold for the calls of others."""

from typing import Any

import pytest

import weft
from weft.nn import functional as F


def batched(f: Any, *columns: Any) -> Any:
    return weft.autobatch(f, adaptive=False)(*columns)


def loop(f: Any, *columns: Any) -> Any:
    return [f(*example) for example in zip(*columns, strict=True)]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("around", [False, True])
def test_autocast_is_that_of_the_call(around: bool, inside: bool) -> None:
    """Calls kept outside of autocast were cast by a flush within, and the other way round."""
    weft.manual_seed(0)
    layer = weft.nn.Linear(4, 4)
    xs = [weft.randn(n, 4) for n in (1, 2, 3, 2)]

    def f(x: weft.Tensor) -> Any:
        h = layer(x)
        with weft.autocast("cpu", enabled=inside):
            y = F.linear(h.float(), layer.weight)
        return y.sum(), y.dtype

    with weft.autocast("cpu", enabled=around):
        expected, results = loop(f, xs), batched(f, xs)
    for (value, dtype), (other, its) in zip(expected, results, strict=True):
        assert dtype == its == (weft.bfloat16 if inside else weft.float32)
        assert value.dtype == other.dtype
        weft.testing.assert_close(value, other, rtol=2e-2, atol=2e-2)


def test_a_value_read_within_autocast_casts_no_call_before() -> None:
    weight, xs = weft.randn(4, 4), [weft.randn(1, 4) for _ in range(4)]
    with weft.deferred():
        results = [x @ weight for x in xs]
        with weft.autocast("cpu"):
            results[0].sum().item()
    for x, result in zip(xs, results, strict=True):
        assert result.dtype == weft.float32
        weft.testing.assert_close(result, x @ weight)


def test_hooks_of_saved_tensors_see_what_is_saved_in_their_scope() -> None:
    """A write that waited for the others' calls gave their values to the writer's hooks."""
    packed: list[weft.Tensor] = []

    def pack(t: weft.Tensor) -> weft.Tensor:
        packed.append(t)
        return t

    weight, shared = weft.ones(3, requires_grad=True), weft.ones(3)
    xs = [weft.full((3,), float(k)) for k in range(5)]

    def f(x: weft.Tensor, k: int) -> weft.Tensor:
        a = x * weight
        a.sum().item()
        b = a * a * shared
        if k == 2:
            with weft.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
                shared.add_(1)
        return b.sum()

    expected = [v.item() for v in loop(f, xs, range(5))]
    assert not packed
    shared.fill_(1.0)
    assert [v.item() for v in batched(f, xs, range(5))] == expected
    assert not packed


def test_a_list_that_another_example_empties() -> None:
    """Its items were read from the memory that the list had had."""
    shared: list[weft.Tensor] = []

    def f(x: weft.Tensor, k: int) -> weft.Tensor:
        if k == 0:
            shared.extend([x * float(n + 1) for n in range(64)])
            with weft.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                return weft.cat(shared).sum()
        shared.clear()
        return x.sum()

    assert [v.item() for v in batched(f, [weft.ones(4)] * 3, range(3))] == [8320, 4, 4]


def test_the_example_at_fault_is_the_one_that_is_named() -> None:
    """The calls of a batch that failed ran again one by one under the error that it had left."""

    class Scaled(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor, scale: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x, scale)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: weft.Tensor) -> Any:
            return 2 * ctx.saved_tensors[0] * grad, None

    weight = weft.ones(3, requires_grad=True)
    with weft.inference_mode():
        refused = weft.ones(3)
    scales = [weft.ones(3), weft.ones(3), refused, weft.ones(3)]
    with pytest.raises(RuntimeError, match="inference tensor") as caught:
        batched(lambda x, s: Scaled.apply(x * weight, s).sum(), [weft.ones(3)] * 4, scales)
    assert "in example 2 of 4" in caught.value.__notes__
