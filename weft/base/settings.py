"""Process-wide settings that programs written for PyTorch make, where weft has one way or more."""

from __future__ import annotations

import os
import warnings
from typing import Any

import weft
from weft import _C
from weft.base.device import device, expect_cpu, is_meta, make_new_on, new_on_meta

__all__ = [
    "are_deterministic_algorithms_enabled", "get_default_device", "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_default_device", "set_default_tensor_type", "set_deterministic_debug_mode",
    "set_float32_matmul_precision", "set_num_interop_threads", "set_printoptions",
    "use_deterministic_algorithms",
]  # fmt: skip


class _State:
    """What was asked for."""

    precision = "highest"
    deterministic = 0
    interop_threads: int | None = None


_state = _State()


def set_float32_matmul_precision(precision: str) -> None:
    """How exact products of float32 have to be at least: 'highest', 'high' or 'medium'.

    weft's are of full precision, which satisfies each. Another name changes nothing, and warns.

    >>> weft.set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            "[set_float32_matmul_precision] expected 'highest', 'high' or 'medium', got "
            f"{precision!r}: nothing changes",
            stacklevel=2,
        )
        return
    _state.precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given last; at first 'highest'.

    >>> weft.get_float32_matmul_precision()
    'highest'
    """
    return _state.precision


def set_num_interop_threads(threads: int) -> None:
    """How many threads may run operators that do not depend on each other: one does here.

    A program may say so once; `get_num_interop_threads` tells it. `set_num_threads` is for the
    threads within an operator.

    Raises: RuntimeError the second time, or for less than 1.

    >>> weft.set_num_interop_threads(0)
    Traceback (most recent call last):
    RuntimeError: ...
    """
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise TypeError(
            "[set_num_interop_threads] set_num_interop_threads expects an int, but got "
            f"{type(threads).__name__}"
        )
    if threads < 1:
        raise RuntimeError(f"[set_num_interop_threads] expects a positive integer, got {threads}")
    if _state.interop_threads is not None:
        raise RuntimeError(
            f"[set_num_interop_threads] expected one call, got another, of {threads}: cannot set "
            "number of interop threads after parallel work has started or "
            "set_num_interop_threads called"
        )
    _state.interop_threads = threads


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was given, else the number of processors.

    >>> weft.get_num_interop_threads() >= 1
    True
    """
    return _state.interop_threads or os.cpu_count() or 1


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for algorithms that give the same bits in every run: weft's all do.

    >>> weft.use_deterministic_algorithms(False)
    """
    _state.deterministic = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was asked for.

    >>> weft.use_deterministic_algorithms(False)
    >>> weft.are_deterministic_algorithms_enabled()
    False
    """
    return _state.deterministic > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it was asked for with `warn_only`.

    >>> weft.use_deterministic_algorithms(False)
    >>> weft.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _state.deterministic == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by number or name: 0 'default', 1 'warn', 2 'error'.

    >>> weft.set_deterministic_debug_mode("default")
    >>> weft.get_deterministic_debug_mode()
    0
    """
    modes = {"default": 0, "warn": 1, "error": 2}
    mode = modes.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(
            f"[set_deterministic_debug_mode] expected 0, 1, 2 or their names, got {debug_mode!r}"
        )
    _state.deterministic = mode


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2; see `set_deterministic_debug_mode`.

    >>> weft.set_deterministic_debug_mode(0)
    >>> weft.get_deterministic_debug_mode()
    0
    """
    return _state.deterministic


def set_default_device(device: Any) -> None:
    """Where new tensors of this thread lie: the CPU, or `meta`; None for the CPU.

    >>> weft.set_default_device("meta")
    >>> weft.zeros(2)
    tensor(..., device='meta', size=(2,))
    >>> weft.set_default_device(None)
    """
    make_new_on(device is not None and is_meta(device))


def get_default_device() -> device:
    """Where new tensors lie.

    >>> weft.get_default_device()
    device(type='cpu')
    """
    return device("meta" if new_on_meta() else "cpu")


def set_default_tensor_type(t: Any) -> None:
    """The dtype of new floating tensors, by the name or the maker of a type.

    >>> weft.set_default_tensor_type("torch.FloatTensor")
    """
    name = t if isinstance(t, str) else f"torch.{getattr(t, '__name__', t)}"
    kinds = {"torch.FloatTensor": weft.float32, "torch.DoubleTensor": weft.float64,
             "torch.HalfTensor": weft.float16, "torch.BFloat16Tensor": weft.bfloat16}  # fmt: skip
    if name.startswith("torch.cuda."):
        expect_cpu("cuda")
    if name not in kinds:
        raise TypeError(
            f"[set_default_tensor_type] expected one of {', '.join(kinds)}, got {t!r} (only "
            "floating-point types are supported as the default type)"
        )
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    weft.set_default_dtype(kinds[name])


_PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, 2**63 - 1, 3, 80)}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
    *,
    summary: bool | None = None,
) -> None:
    """How tensors print: digits, when to summarise, elements at the edges, line width, exponents.

    `profile`: 'default', 'short' or 'full'. `sci_mode=None` chooses by the values. With
    `summary=True` each tensor of two elements or more also tells how many of them are nan or
    infinite, and of the others the range, the mean and the standard deviation (of complex ones
    those of their magnitudes; of bools how many are true), which reads all of them; None leaves it
    as it is.

    >>> weft.set_printoptions(summary=True)
    >>> weft.tensor([1., 3., float("nan"), 8.])
    tensor([1., 3., nan, 8.], nan=1, range=[1, 8], mean=4, std=3.606)
    >>> weft.set_printoptions(summary=False)
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"[set_printoptions] expected default, short or full, got {profile!r}")
        _C._print_options(*_PROFILES[profile], None, None)
    limit = None if threshold is None else int(min(threshold, 2**63 - 1))
    _C._print_options(
        precision, limit, edgeitems, linewidth, -1 if sci_mode is None else int(sci_mode), summary
    )
