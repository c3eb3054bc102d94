"""Names of PyTorch's core that packages ask `torch._C` for."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from weft import _C
from weft.base.modes import (
    MAP,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    _AutoDispatchBelowAutograd,
)

__all__ = ["install"]


def _log_api_usage_once(event: str) -> None:
    """Nothing is reported to anybody."""


def _get_default_device() -> str:
    """'cpu'."""
    return "cpu"


def _is_tracing() -> bool:
    """Whether calls are being written down by `weft.jit.trace`."""
    return "weft.jit.traced" in sys.modules and bool(sys.modules["weft.jit.traced"].is_tracing())


def _get_tracing_state() -> Any:
    """What writes the calls down; None where nothing does."""
    return _C._recording() if _is_tracing() else None


def _are_functorch_transforms_active() -> bool:
    """Whether a `weft.func.vmap` is at work."""
    return bool(_C._mode() & MAP)


def _is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor stands for a value of each example of `weft.func.vmap`."""
    return bool(_C._mode() & MAP) and _C._map_wholes((tensor,)) is not None


def _is_current_rpc_agent_set() -> bool:
    """False: there are no remote calls."""
    return False


def _parse_to(*args: Any, memory_format: Any = None, **kwargs: Any) -> tuple[Any, ...]:
    """The arguments of `Module.to`: device, dtype, non_blocking and memory_format, None where
    nothing is said."""
    from weft.nn.module_tensors import _parse_to

    return (*_parse_to(*args, **kwargs), memory_format)


def _jit_setting(*args: Any) -> bool:
    """A switch of PyTorch's script compiler, of which there is none; it was off."""
    return False


#: Those that programs set at their beginning.
_JIT_SETTINGS = (
    "_jit_override_can_fuse_on_cpu", "_jit_override_can_fuse_on_gpu", "_jit_set_autocast_mode",
    "_jit_set_nvfuser_enabled", "_jit_set_profiling_executor", "_jit_set_profiling_mode",
    "_jit_set_texpr_fuser_enabled",
)  # fmt: skip


def _infer_size(a: Any, b: Any) -> Any:
    """The shape that two shapes broadcast to."""
    return _C.Size(sys.modules["weft"].broadcast_shapes(a, b))


class Value:
    """A value of PyTorch's own graphs, to ask `isinstance` of: there is none."""


def _module(name: str, doc: str, names: dict[str, Any]) -> ModuleType:
    """A module below `_C`, which `import` finds."""
    made = ModuleType(f"weft._C.{name}", doc)
    vars(made).update(names)
    sys.modules[made.__name__] = made
    return made


class _Functions(ModuleType):
    """`torch._C._nn`: the functions of `nn.functional` that are operators."""

    def __getattr__(self, name: str) -> Any:
        home = sys.modules.get("weft.nn.functional")
        found = None if name.startswith("__") else getattr(home, name, None)
        if found is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return found


def install() -> None:
    """Gives the extension these names."""
    for value in (
        _log_api_usage_once, _get_default_device, _is_tracing, _get_tracing_state,
        _are_functorch_transforms_active, Value,
        DisableTorchFunction, DisableTorchFunctionSubclass, _AutoDispatchBelowAutograd,
    ):  # fmt: skip
        setattr(_C, value.__name__, value)
    _C._infer_size = _infer_size
    for name in _JIT_SETTINGS:
        setattr(_C, name, _jit_setting)
    _C._TensorBase = _C.TensorBase = _C.Tensor  # type: ignore[attr-defined]
    _C.device = sys.modules["weft.base.device"].device  # type: ignore[attr-defined]
    _C._LinAlgError = sys.modules["weft.linalg"].LinAlgError  # type: ignore[attr-defined]
    _C._VariableFunctions = sys.modules["weft"]  # type: ignore[attr-defined]
    functions = sys.modules["weft._C._nn"] = _Functions("weft._C._nn")
    functions._parse_to = _parse_to  # type: ignore[attr-defined]
    below = {
        "_nn": functions,
        "_distributed_rpc": _module(
            "_distributed_rpc", "Remote calls, of which there are none.",
            {"_is_current_rpc_agent_set": _is_current_rpc_agent_set},
        ),
        "_functorch": _module(
            "_functorch", "What `vmap` is asked.",
            {"is_batchedtensor": _is_batchedtensor},
        ),
    }  # fmt: skip
    for name, module in below.items():
        setattr(_C, name, module)
    _C._TensorMeta = type(_C.Tensor)  # type: ignore[attr-defined]
    _C._GLIBCXX_USE_CXX11_ABI = True  # type: ignore[attr-defined]
