"""Gradients that have become too long, made shorter in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft
from weft import _C, Tensor
from weft.base import checks as _checks
from weft.base.warn import warn

Tensors = Tensor | Iterable[Tensor]

vector_norm = _C.ops.linalg_vector_norm


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients by one factor so that their norm together is at most `max_norm`.

    Gradients of any shapes; the norm is 0-d.

    Args:
        parameters: one tensor or several; those without a gradient do not count.
        max_norm: the greatest norm allowed.
        norm_type: the order of the norm; `inf` is the greatest magnitude.
        error_if_nonfinite: whether a norm of nan or inf is an error.
        foreach: a hint for speed in PyTorch, without meaning here.

    Returns:
        The norm before.

    Raises:
        RuntimeError: the norm is not finite and `error_if_nonfinite`.

    >>> import weft
    >>> p = weft.nn.Parameter(weft.zeros(2))
    >>> p.grad = weft.tensor([3.0, 4.0])
    >>> weft.nn.utils.clip_grad_norm_([p], 1.0)
    tensor(5.)
    """
    grads = _grads(parameters)
    max_norm = float(max_norm)
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    _scale(grads, max_norm, total)
    return total


def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all tensors as if they were one vector; arguments as above.

    A 0-d tensor.

    >>> weft.nn.utils.get_total_norm([weft.tensor([3.0]), weft.tensor([4.0])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return weft.tensor(0.0)
    with weft.no_grad():
        # a class is asked here: of gradients in parts the norm is that of all processes
        norms = [weft.linalg.vector_norm(tensor, norm_type) for tensor in tensors]
        total = vector_norm(weft.stack(norms), norm_type)
    if error_if_nonfinite and not bool(weft.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients as `clip_grad_norm_` does when their norm is known already.

    Gradients of any shapes, the norm 0-d.

    >>> w = weft.nn.Parameter(weft.ones(2))
    >>> (3 * w).sum().backward()
    >>> weft.nn.utils.clip_grads_with_norm_(w, 1.0, weft.tensor(6.0))
    >>> w.grad
    tensor([0.5000, 0.5000])
    """
    _scale(_grads(parameters), float(max_norm), total_norm)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Cut every element of every gradient off at `±clip_value`.

    Args:
        parameters: one tensor or several; those without a gradient do not count.
        clip_value: the greatest magnitude allowed.
        foreach: a hint for speed in PyTorch, without meaning here.

    >>> w = weft.nn.Parameter(weft.ones(2))
    >>> (3 * w).sum().backward()
    >>> weft.nn.utils.clip_grad_value_(w, 1)
    >>> w.grad
    tensor([1., 1.])
    """
    clip_value = float(clip_value)
    with weft.no_grad():
        for grad in _grads(parameters):
            grad.clamp_(min=-clip_value, max=clip_value)


def clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor:
    """The older name of `clip_grad_norm_`.

    Gradients of any shapes; the norm is 0-d.

    >>> w = weft.nn.Parameter(weft.ones(1))
    >>> (3 * w).sum().backward()
    >>> weft.nn.utils.clip_grad_norm(w, 1)
    tensor(3.)
    """
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
    )
    return clip_grad_norm_(*args, **kwargs)


def _grads(parameters: Tensors) -> list[Tensor]:
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [grad for parameter in parameters if (grad := parameter.grad) is not None]


def _scale(grads: list[Tensor], max_norm: float, total: Tensor) -> None:
    with weft.no_grad():
        # Never read as a number: that would force a batched computation to stop here.
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(factor)


_checks.install(__name__)
