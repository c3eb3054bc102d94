"""Forward mode: tensors with a derivative in one direction, and what is computed of them.

Within `dual_level`, `make_dual(x, v)` is x with the direction v; of what is computed of it
`unpack_dual` gives the derivative in that direction. Duals are inputs of the graph, which the level
has recorded in any case: a derivative is computed when it is asked for, by two passes that go back
(weft/autograd/_transposed.py), and programs without a level pay nothing. So duals require grad, and
within a `no_grad` inside of the level nothing gets a tangent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from weft import _C
from weft._C import Tensor
from weft.autograd._transposed import (
    TRANSPOSING,
    depends,
    found_gradients,
    own,
    transposed,
)
from weft.autograd.function import Function
from weft.base.modes import inference_mode

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "unpack_dual",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


class _Level:
    """A level that is entered: its duals, and what recording was around it."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.tangents: list[Tensor] = []
        self.records = _C.is_grad_enabled()
        self.scope = inference_mode(False)


_LEVEL: ContextVar[_Level | None] = ContextVar("level of forward mode", default=None)


class UnpackedDualTensor(NamedTuple):
    """A value and its derivative in the direction that forward mode goes in.

    >>> from weft.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     forward_ad.unpack_dual(forward_ad.make_dual(weft.ones(1), weft.ones(1))).tangent
    tensor([1.])
    """

    primal: Tensor
    tangent: Tensor | None


class _Dual(Function):
    """`primal`, whose graph also reaches `marker`, the level's own input."""

    @staticmethod
    def forward(ctx: Any, primal: Tensor, marker: Tensor) -> Tensor:
        return primal.detach()  # a view of it could not be written

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0], grads[0]


class _Primal(Function):
    """A value whose graph no direction comes along."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None if TRANSPOSING.get() else grads[0]


def _entered(level: int | None, who: str) -> _Level | None:
    """The level that is entered, or None."""
    if level is not None and level > 0:
        raise RuntimeError(
            f"[{who}] expected level 0, got {level} (Nested forward mode AD is not supported at "
            "the moment)"
        )
    return None if level is not None and level < 0 else _LEVEL.get()


def enter_dual_level() -> int:
    """Enters a level and gives its number, 0. Raises RuntimeError within another.

    >>> from weft.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> forward_ad.exit_dual_level()
    >>> level
    0
    """
    if _LEVEL.get() is not None:
        raise RuntimeError(
            "[enter_dual_level] expected no level to be entered, got one (Nested forward mode AD "
            "is not supported at the moment). Hint: func.jvp nests"
        )
    level = _Level()
    level.scope.__enter__()
    _LEVEL.set(level)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves the level. Raises RuntimeError without one, or for another.

    >>> from weft.autograd import forward_ad
    >>> _ = forward_ad.enter_dual_level()
    >>> forward_ad.exit_dual_level()
    """
    entered = _LEVEL.get()
    if entered is None or level not in (None, 0):
        raise RuntimeError(
            f"[exit_dual_level] expected the level that was entered last, got {level} (Trying to "
            "exit a forward AD level that was not the last one that was created. This is not "
            "supported.)"
        )
    _LEVEL.set(None)
    entered.scope.__exit__(None, None, None)


class dual_level:
    """The scope in which duals are made and unpacked; a context manager and a decorator.

    >>> x, v = weft.tensor([1., 2.]), weft.tensor([1., 10.])
    >>> with dual_level():
    ...     dual = make_dual(x, v)
    ...     unpack_dual(dual * dual).tangent
    tensor([ 2., 40.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with dual_level():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of `tensor` with the direction `tangent`.

    The tangent has the tensor's shape and dtype.

    Args:
        tensor: of a floating or complex dtype.
        tangent: of the same shape and dtype.

    Raises:
        RuntimeError: no level is entered, or the shapes differ.
        ValueError: another dtype.

    >>> from weft.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     forward_ad.unpack_dual(3 * forward_ad.make_dual(weft.ones(1), weft.ones(1))).tangent
    tensor([3.])
    """
    entered = _entered(level, "make_dual")
    if entered is None:
        raise RuntimeError(
            "[make_dual] expected a level to be entered, got none (Trying to create a dual Tensor "
            "for forward AD but no level exists, make sure to enter_dual_level() first.)"
        )
    for what, t in (("primal", tensor), ("tangent", tangent)):
        if not (t.is_floating_point() or t.is_complex()):
            raise ValueError(
                f"[make_dual] expected a {what} of a floating dtype, got {t.dtype} (Expected "
                f"{what} to be floating point or complex, but got: {t.dtype})"
            )
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            f"[make_dual] expected a tangent of shape {list(tensor.shape)}, got "
            f"{list(tangent.shape)} (Trying to set a forward gradient that has a different size "
            f"than that of the original Tensor, this is not supported. Tensor is of size "
            f"{list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}.)"
        )
    if tensor.dtype != tangent.dtype:
        raise RuntimeError(
            f"[make_dual] expected a tangent of {tensor.dtype}, got {tangent.dtype} (Expected "
            "primal and tangent to have the same dtype)"
        )
    marker = own(tensor.detach(), "make_dual")
    entered.inputs.append(marker)
    entered.tangents.append(tangent)
    dual: Tensor = _Dual.apply(tensor, marker)
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A value and its derivative in the direction of the level's duals.

    The derivative is None outside of a level, and of what does not depend on a dual. Both are in
    the graph around.

    Both of the tensor's shape; the tangent is None if there is none.

    >>> weft.autograd.forward_ad.unpack_dual(weft.ones(1)).tangent
    """
    entered = _entered(level, "unpack_dual")
    if entered is None or not tensor.requires_grad or not entered.inputs:
        return UnpackedDualTensor(tensor, None)
    inputs = entered.inputs
    seeds, products = transposed([tensor], inputs)
    kept = [k for k, product in enumerate(products) if product is not None]
    if not kept:
        return UnpackedDualTensor(tensor, None)
    directions = [entered.tangents[k] for k in kept]
    reached = [t for t in products if t is not None]
    track = depends([tensor], inputs) or any(t.requires_grad for t in directions)
    track = track and entered.records
    (found,) = found_gradients(reached, seeds, directions, track)
    primal = _Primal.apply(tensor) if track else tensor.detach()
    return UnpackedDualTensor(primal, found)
