"""Older names of `weft.amp` for the CPU."""

from __future__ import annotations

from weft import _C, amp
from weft.amp.autocast_mode import older

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """`weft.amp.autocast("cpu", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: _C.dtype = _C.bfloat16, cache_enabled: bool = True
    ) -> None:
        if type(self) is autocast:
            older("cpu", "autocast", "'cpu', args...")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`weft.amp.GradScaler("cpu", ...)`."""

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        older("cpu", "GradScaler", "'cpu', args...")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
