"""Scopes in which products run in a narrow float. PyTorch's lists of ops for the CPU.

The core casts at its one door (src/autograd/autocast.cpp): matrix products, convolutions and
attention to the scope's dtype, losses and a few others to float32, and leaves the rest alone.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import weft
from weft import _C
from weft._C import Tensor, is_autocast_cache_enabled, is_autocast_cpu_enabled
from weft.base.modes import AUTOCAST as _ON
from weft.base.modes import AUTOCAST_HALF as _HALF
from weft.base.modes import _with_mode
from weft.base.warn import warn

__all__ = [
    "autocast",
    "autocast_decorator",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
]

_KNOWN = ("cpu", "cuda", "mps", "xpu", "mtia", "hpu", "xla", "maia")


def _device_of(name: Any, who: str) -> str:
    if not isinstance(name, str):
        raise ValueError(
            f"[{who}] expected device_type as a string, got {type(name).__name__} (Expected "
            f"`device_type` of type `str`, got: `{type(name)}`)"
        )
    if name not in _KNOWN:
        raise RuntimeError(
            f"[{who}] expected device_type 'cpu', got {name!r} (User specified an unsupported "
            "autocast device_type)"
        )
    return name


def older(device: str, name: str, arguments: str) -> None:
    """Warns that `torch.DEVICE.amp.NAME` is an older name of `torch.amp.NAME(arguments)`."""
    warn(
        f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}({arguments})` instead.",
        FutureWarning,
    )


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` works there: on the CPU.

    >>> weft.amp.is_autocast_available("cpu"), weft.amp.is_autocast_available("cuda")
    (True, False)
    """
    return _device_of(device_type, "is_autocast_available") == "cpu"


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether the code runs in an `autocast` scope of that device (PyTorch's default: cuda).

    >>> with weft.autocast("cpu"):
    ...     weft.is_autocast_enabled("cpu")
    True
    """
    return _device_of(device_type, "is_autocast_enabled") == "cpu" and is_autocast_cpu_enabled()


def get_autocast_dtype(device_type: str) -> _C.dtype:
    """The dtype of products in a scope: bfloat16 unless the scope says float16.

    >>> weft.get_autocast_dtype("cpu")
    torch.bfloat16
    """
    if _device_of(device_type, "get_autocast_dtype") != "cpu":
        return _C.float16
    return _C.float16 if _C._mode() & _HALF else _C.bfloat16


def get_autocast_cpu_dtype() -> _C.dtype:
    """`get_autocast_dtype("cpu")`.

    >>> weft.get_autocast_cpu_dtype()
    torch.bfloat16
    """
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> _C.dtype:
    """`get_autocast_dtype("cuda")`.

    >>> weft.get_autocast_gpu_dtype()
    torch.float16
    """
    return get_autocast_dtype("cuda")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Whether the code that follows runs as in an `autocast` scope of the CPU.

    >>> weft.set_autocast_cpu_enabled(False)
    >>> weft.is_autocast_cpu_enabled()
    False
    """
    _C._set_mode((_C._mode() & ~_ON) | (_ON if enabled else 0))


def set_autocast_cpu_dtype(dtype: _C.dtype) -> None:
    """What products run in where autocast is on for the CPU: bfloat16 or float16.

    Raises: RuntimeError for another dtype.

    >>> weft.set_autocast_cpu_dtype(weft.bfloat16)
    >>> weft.get_autocast_cpu_dtype()
    torch.bfloat16
    """
    if dtype not in (_C.bfloat16, _C.float16):
        raise RuntimeError(
            f"[set_autocast_cpu_dtype] expected bfloat16 or float16, got {dtype}: Currently, "
            "AutocastCPU only support Bfloat16 or Float16 as the autocast_cpu_dtype"
        )
    _C._set_mode((_C._mode() & ~_HALF) | (_HALF if dtype == _C.float16 else 0))


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether scopes keep the narrow copies of weights.

    >>> weft.set_autocast_cache_enabled(True)
    >>> weft.is_autocast_cache_enabled()
    True
    """
    _C._keep_casts(bool(enabled))


def clear_autocast_cache() -> None:
    """Drops the narrow copies of weights that the scope keeps.

    >>> weft.clear_autocast_cache()
    """
    _C._forget_casts()


class autocast:
    """A scope, or a decorator, in which products run in `dtype`: bfloat16 (the default) or float16.

    Weights stay as they are: each is cast where it is used, once in a scope, and its gradient
    arrives in the weight's own dtype. Backward passes run outside of the scope.

    Args:
        device_type: "cpu"; for a device that is not there the scope warns and does nothing.
        dtype: what products run in; another one than the two warns and the scope does nothing.
        enabled: False switches an outer scope off.
        cache_enabled: keep the narrow copies of weights until the outermost scope ends.

    Raises: ValueError or RuntimeError for a device_type that is no name of a device.

    >>> with weft.autocast("cpu", dtype=weft.bfloat16):
    ...     (weft.ones(2, 2) @ weft.ones(2, 2)).dtype
    torch.bfloat16
    """

    def __init__(
        self,
        device_type: str,
        dtype: _C.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = _device_of(device_type, "autocast")
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        keeps = is_autocast_cache_enabled()
        self._cache_enabled = keeps if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled)
        self._before: list[tuple[int, bool]] = []
        if self._enabled and self.device != "cpu":
            warn(
                "CUDA is not available or torch_xla is imported. Disabling autocast."
                if self.device == "cuda"
                else f"User provided device_type of {self.device!r}, but {self.device.upper()} is "
                "not available. Disabling"
            )
            self._enabled = False
        elif self._enabled and self.fast_dtype not in (_C.bfloat16, _C.float16):
            warn(
                f"In CPU autocast, but the target dtype {self.fast_dtype} is not supported. "
                "Disabling autocast.\nCPU Autocast only supports dtype of torch.bfloat16, "
                "torch.float16 currently."
            )
            self._enabled = False

    def __enter__(self) -> autocast:
        mode = _C._mode()
        self._before.append((mode & (_ON | _HALF), is_autocast_cache_enabled()))
        if self.device == "cpu":
            half = _HALF if self.fast_dtype == _C.float16 else 0
            bits = _ON | half if self._enabled else 0
            _C._set_mode((mode & ~(_ON | _HALF)) | bits)
            set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, *exc: object) -> None:
        bits, cache = self._before.pop()
        _C._set_mode((_C._mode() & ~(_ON | _HALF)) | bits)
        set_autocast_cache_enabled(cache)
        if not bits:
            _C._forget_casts()

    def _again(self) -> autocast:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return autocast(self.device, self.fast_dtype, self._enabled, self._cache_enabled)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return _with_mode(self._again, func)


def autocast_decorator(autocast_instance: autocast, func: Callable[..., Any]) -> Any:
    """`func` run inside of such a scope."""
    return autocast_instance(func)


def _cast(value: Any, device_type: str, dtype: _C.dtype) -> Any:
    """Float tensors in a structure as `dtype`, but for float64."""
    if isinstance(value, Tensor):
        fits = value.is_floating_point() and value.dtype != _C.float64
        return value.to(dtype) if fits and value.device.type == device_type else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, dict):
        return {
            _cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        items = [_cast(v, device_type, dtype) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: _C.dtype | None = None,
) -> Any:
    """Decorates `forward` of an `autograd.Function`: how it meets autocast.

    `cast_inputs`: float tensors come as that dtype, and forward runs without autocast; None: it
    runs in the scope of the caller, and so does a backward under `custom_bwd`.

    >>> class Double(weft.autograd.Function):
    ...     @staticmethod
    ...     @weft.amp.custom_fwd(device_type="cpu", cast_inputs=weft.float32)
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     @weft.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return 2 * grad
    >>> with weft.autocast("cpu"):
    ...     Double.apply(weft.ones(1))
    tensor([2.])
    """
    _device_of(device_type, "custom_fwd")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def run(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = get_autocast_dtype(device_type)
        inside = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = inside and cast_inputs is None
        if cast_inputs is None or not inside:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            args = _cast(args, device_type, cast_inputs)
            return fwd(*args, **_cast(kwargs, device_type, cast_inputs))

    return run


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorates `backward` of an `autograd.Function`: it runs in the scope that forward ran in.

    >>> class Double(weft.autograd.Function):
    ...     @staticmethod
    ...     @weft.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     @weft.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return 2 * grad
    >>> x = weft.ones(1, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor([2.])
    """
    _device_of(device_type, "custom_bwd")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def run(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with weft.autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(*args, **kwargs)

    return run
