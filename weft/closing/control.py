"""PyTorch's functions for branches and loops in programs; Python's own statements do the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "_assert", "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_type",
    "_check_value", "cond", "while_loop",
]  # fmt: skip


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


_Message = Callable[[], str] | None


def _text(message: _Message) -> str:
    """What an error of a check says."""
    if message is not None:
        return str(message())
    text = "Expected cond to be True, but got False. (Could this error message be improved? "
    return text + "If so, please report an enhancement request to PyTorch.)"


def _check(cond: Any, message: _Message = None) -> None:
    """Raises a RuntimeError with what `message()` gives, unless `cond` holds, as `torch._check`.

    >>> import weft
    >>> weft._check(weft.ones(2).sum() > 1)
    """
    if not cond:
        raise RuntimeError(_text(message))


def _check_index(cond: Any, message: _Message = None) -> None:
    """The same with an IndexError."""
    if not cond:
        raise IndexError(_text(message))


def _check_value(cond: Any, message: _Message = None) -> None:
    """The same with a ValueError."""
    if not cond:
        raise ValueError(_text(message))


def _check_type(cond: Any, message: _Message = None) -> None:
    """The same with a TypeError."""
    if not cond:
        raise TypeError(_text(message))


def _check_not_implemented(cond: Any, message: _Message = None) -> None:
    """The same with a NotImplementedError."""
    if not cond:
        raise NotImplementedError(_text(message))


def _check_is_size(i: Any, message: _Message = None, *, max: Any = None) -> None:
    """Raises a RuntimeError unless `i` is at least 0, and at most `max`.

    >>> import weft
    >>> weft._check_is_size(weft.tensor(3).item(), max=4)
    """
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _assert(condition: Any, message: Any) -> None:
    """Raises an AssertionError with a message unless a condition holds, as `torch._assert`.

    >>> import weft
    >>> weft._assert(weft.ones(2).sum() > 1, "it is small")
    """
    assert condition, message
