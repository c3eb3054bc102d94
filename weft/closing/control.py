"""PyTorch's functions for branches and loops in programs; Python's own statements do the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["_check", "cond", "while_loop"]


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`, as `torch.cond`.

    Args:
        pred: a bool, or a tensor of one element.
        true_fn, false_fn: functions of the operands; only the one that is taken runs.
        operands: a tuple or list.

    >>> import weft
    >>> x = weft.tensor([1.0, -3.0])
    >>> weft.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, (x,))
    tensor([-1.,  3.])
    """
    if pred:
        return true_fn(*operands)
    return false_fn(*operands)


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: tuple[Any, ...] | list[Any],
    additional_inputs: tuple[Any, ...] | list[Any] = (),
) -> tuple[Any, ...]:
    """Applies `body_fn` to what it gave the last time while `cond_fn` of that holds.

    Args:
        cond_fn: a function of the inputs; a bool or a tensor of one element.
        body_fn: a function of the same, which gives a tuple of as many values as are carried.
        carried_inputs: what the first turn gets.
        additional_inputs: what each turn gets besides.

    Raises:
        ValueError: `body_fn` gave another number of values.

    >>> import weft
    >>> def grows(x, n):
    ...     return x * 2, n + 1
    >>> weft.while_loop(lambda x, n: x.sum() < 9, grows, (weft.ones(2), 0))
    (tensor([8., 8.]), 3)
    """
    carried = tuple(carried_inputs)
    while cond_fn(*carried, *additional_inputs):
        given = body_fn(*carried, *additional_inputs)
        new = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if len(new) != len(carried):
            raise ValueError(
                f"[while_loop] expected {len(carried)} values of body_fn, got {len(new)}"
            )
        carried = new
    return carried


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raises a RuntimeError with what `message()` gives, unless `cond` holds, as `torch._check`.

    >>> import weft
    >>> weft._check(weft.ones(2).sum() > 1)
    """
    if not cond:
        text = "Expected cond to be True, but got False. (Could this error message be improved? "
        text += "If so, please report an enhancement request to PyTorch.)"
        raise RuntimeError(text if message is None else str(message()))
