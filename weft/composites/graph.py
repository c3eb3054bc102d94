"""The graph from a tensor: backward, hooks, and whether it is recorded. PyTorch's semantics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import _C
from weft._C import Tensor
from weft.base.forms import expect, function_of, method

__all__ = ["detach", "detach_", "is_inference"]


@method
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Adds d(self)/d(leaf) to `.grad` of every leaf it was made from.

    `gradient`: of self's shape, needed unless self has one element. `retain_graph`: keep the graph
    for another pass (default: `create_graph`). `inputs`: only these get a gradient.

    >>> x = weft.tensor([1., 2.], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is not None:
        from weft.autograd._backward import as_tuple

        inputs = as_tuple(inputs)
        if not inputs:
            raise RuntimeError(
                "[backward] expected inputs to name at least one tensor, got an empty "
                "sequence (`inputs` argument to `backward()` cannot be empty.)"
            )
    _C._backward((self,), (gradient,), bool(keep), bool(create_graph), inputs, True, True)


@method
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Any:
    """`hook(grad)` runs when the gradient of self is known; what it returns replaces it.

    The gradient has self's shape and dtype, and so must what the hook returns. RuntimeError if
    self does not require grad.

    >>> x = weft.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda grad: 2 * grad)
    >>> x.sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    return _C._register_hook(self, hook)


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> Any:
    """`hook(self)` runs after self's `.grad` was updated; for leaves.

    The gradient has self's shape. RuntimeError for what is no leaf.

    >>> x = weft.ones(2, requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda x: print(x.grad))
    >>> x.sum().backward()
    tensor([1., 1.])
    """
    return _C._register_after_accumulate(self, hook)


@method
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Sets `requires_grad` and returns self.

    A tensor of any shape, floating or complex: RuntimeError for others.

    >>> weft.ones(2).requires_grad_()
    tensor([1., 1.], requires_grad=True)
    """
    if not isinstance(requires_grad, bool):
        raise TypeError(f"[requires_grad_] expected a bool, got {requires_grad.__class__.__name__}")
    self.requires_grad = requires_grad
    return self


@method
def is_inference(input: Tensor) -> bool:
    """Whether it was made in `inference_mode`.

    A tensor of any shape.

    >>> with weft.inference_mode():
    ...     weft.ones(2).is_inference()
    True
    """
    expect("is_inference", input, Tensor, "a Tensor")
    return input._inference


detach = function_of("detach")
detach_ = function_of("detach_")
