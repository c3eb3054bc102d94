"""What optimizers outside of PyTorch import from `torch.optim.optimizer` beside the class."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, Union

import weft
from weft import Tensor

__all__: list[str] = []  # found in `optim.optimizer`

#: What an optimizer takes for parameters.
ParamsT: TypeAlias = Union[  # noqa: UP007
    Iterable[Tensor], Iterable[dict[str, Any]], Iterable[tuple[str, Tensor]]
]
StateDict: TypeAlias = dict[str, Any]

_params_doc = "params: tensors, pairs of names and tensors, or dicts of groups."
_foreach_doc = "foreach: whether lists of tensors are changed by one call."
_fused_doc = "fused: whether the step is one kernel."
_capturable_doc = "capturable: whether the step may be recorded as a CUDA graph."
_differentiable_doc = "differentiable: whether autograd goes through the step."
_maximize_doc = "maximize: whether to go up instead of down."


def _use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """Has a `step` run with gradients where the optimizer is differentiable, else without."""

    @functools.wraps(step)
    def stepped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with weft.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return stepped


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., Any] | None = None,
) -> Callable[[Any], Any]:
    """A decorator that changes nothing: steps run as they are."""
    return lambda function: function


def _default_to_fused_or_foreach(
    params: Any, differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Which of the two is the default: on the CPU none, as in PyTorch."""
    return False, False


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _to_scalar(x: Any) -> Any:
    """The tensor of no dims for one of one element; numbers as they are."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _get_scalar_dtype(is_fused: bool | None = None) -> weft.dtype:
    """The dtype of counts of steps."""
    if is_fused:
        return weft.float32
    return weft.float64 if weft.get_default_dtype() is weft.float64 else weft.float32


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Puts, in all the lists, real views in the places of complex tensors."""
    for i, param in enumerate(params):
        if param.is_complex():
            for row in (params, *state_and_grads):
                row[i] = weft.view_as_real(row[i])


#: By name, for `weft.optim.optimizer`.
NAMES: dict[str, Any] = {
    name: value
    for name, value in globals().items()
    if name.endswith("_doc") and name != "__doc__" or getattr(value, "__module__", None) == __name__
} | {"ParamsT": ParamsT, "StateDict": StateDict}
