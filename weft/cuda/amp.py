"""Older names of `weft.amp` for a GPU. There is none: scopes and scalers warn and do nothing."""

from __future__ import annotations

from typing import Any

from weft import _C, amp
from weft.amp.autocast_mode import older

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """`weft.amp.autocast("cuda", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: _C.dtype = _C.float16, cache_enabled: bool = True
    ) -> None:
        if type(self) is autocast:
            older("cuda", "autocast", "'cuda', args...")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`weft.amp.GradScaler("cuda", ...)`."""

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        older("cuda", "GradScaler", "'cuda', args...")
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def custom_fwd(fwd: Any = None, *, cast_inputs: _C.dtype | None = None) -> Any:
    """`weft.amp.custom_fwd` for "cuda"."""
    older("cuda", "custom_fwd", "args..., device_type='cuda'")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`weft.amp.custom_bwd` for "cuda"."""
    older("cuda", "custom_bwd", "args..., device_type='cuda'")
    return amp.custom_bwd(bwd, device_type="cuda")
