"""What the module of a device that this build has not answers, in PyTorch's words.

`weft.cuda`, `weft.xpu`, `weft.mps` and `weft.mtia` are tables: names that answer as on a machine
without the device, and names that cannot be answered, which raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.base.device import device as _device

__all__ = ["Guard", "StreamScope", "get_device_module", "raises", "raising_class"]


def raises(error: type[Exception], text: str, doc: str | None = None) -> Callable[..., Any]:
    """A function that raises `error(text)` whatever it is called with."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise error(text)

    refuse.__doc__ = doc or f"Raises {error.__name__}: {text}"
    return refuse


def raising_class(name: str, module: str, error: type[Exception], text: str, doc: str) -> type[Any]:
    """A class to annotate with and to ask `isinstance` of: making one raises."""

    def refuse(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        raise error(text)

    return type(name, (), {"__new__": refuse, "__module__": module, "__doc__": doc})


class Guard:
    """The scope of `weft.cuda.device(0)`: a negative number changes nothing, another raises.

    Args:
        device: a number, a name or a device of the scope's kind.

    Raises: ValueError for a device of another kind; RuntimeError on entering with a device.
    """

    kind = "cuda"
    error: type[Exception] = RuntimeError
    text = "PyTorch was compiled without CUDA support"

    def __init__(self, device: Any) -> None:
        if isinstance(device, str):
            device = _device(device)
        if isinstance(device, _device):
            if device.type != self.kind:
                raise ValueError(f"Expected a {self.kind} device, but got: {device}")
            device = -1 if device.index is None else device.index
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is None or self.idx >= 0:
            raise self.error(self.text)

    def __exit__(self, *exc_info: object) -> None:
        return None


class StreamScope:
    """The scope of `weft.cuda.stream(s)`: without a device there is no stream to change."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc_info: object) -> None:
        return None


def get_device_module(device: Any = None) -> Any:
    """The module of a kind of device, such as `weft.cuda`; that of the CPU for None.

    Raises: RuntimeError for a device that has no module.

    >>> weft.get_device_module("cpu").__name__
    'weft.cpu'
    """
    import importlib

    kind = "cpu" if device is None else _device(device).type
    if kind not in ("cpu", "cuda", "mps", "mtia", "xpu"):
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        )
    return importlib.import_module(f"weft.{kind}")
