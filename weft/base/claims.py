"""Checks that programs of PyTorch's own style make: the kin of `_check`, and `_assert_async`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft._C import Tensor

__all__ = [
    "_assert_async", "_check_index", "_check_is_size", "_check_not_implemented",
    "_check_tensor_all", "_check_tensor_all_with", "_check_type", "_check_value", "_check_with",
]  # fmt: skip

Message = Callable[[], str] | None


def _text(message: Message) -> str:
    if message is None:
        return "Expected cond to be True, but got False."
    if not callable(message):
        raise TypeError("message must be a callable")
    return str(message())


def _check_with(error_type: type[Exception], cond: bool, message: Message) -> None:
    """Raises `error_type` with `message()` where `cond` is False; TypeError for no bool."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise error_type(_text(message))


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:  # noqa: A002
    """RuntimeError for a negative size, or one above `max`."""
    _check_with(RuntimeError, i >= 0, message)
    if max is not None:
        _check_with(RuntimeError, i <= max, message)


def _check_index(cond: bool, message: Message = None) -> None:
    """IndexError where `cond` is False."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Message = None) -> None:
    """ValueError where `cond` is False."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Message = None) -> None:
    """TypeError where `cond` is False."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Message = None) -> None:
    """NotImplementedError where `cond` is False."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Tensor, message: Message = None
) -> None:
    """Raises `error_type` where an element of the bool tensor `cond` is False."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if str(cond.dtype) != "torch.bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Tensor, message: Message = None) -> None:
    """RuntimeError where an element of the bool tensor `cond` is False."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(tensor: Tensor, assert_msg: Any = None) -> None:
    """RuntimeError unless the one value of `tensor` is nonzero. On the CPU it is known at once."""
    if tensor.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with "
            f"{'no values' if not tensor.numel() else 'more than one value'} is ambiguous"
        )
    if not bool(tensor.item()):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")
