"""What `weft.autograd.profiler` has: a profile without a schedule, of one scope."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

from weft.profiler.averages import EventList, FunctionEvent, FunctionEventAvg
from weft.profiler.profiling import profile as whole_profile
from weft.profiler.profiling import record_function

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "emit_itt", "emit_nvtx", "profile",
    "record_function",
]  # fmt: skip


class profile:
    """A scope whose events are timed; `weft.profiler.profile` has more.

    Args:
        enabled: whether it does anything.
        use_cuda: False: there is no accelerator to look at.
        use_device: None or "cpu".
        record_shapes, profile_memory, with_stack, with_flops, with_modules: as for
            `weft.profiler.profile`.
        use_cpu: True.

    Raises:
        ValueError: `use_cuda=True`, another device, or `use_cpu=False`: nothing would be timed.

    >>> with weft.autograd.profiler.profile() as prof:
    ...     y = weft.ones(3).exp()
    >>> [(e.key, e.count) for e in prof.key_averages()]
    [('aten::ones', 1), ('aten::exp', 1)]
    """

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
        record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_modules: bool = False, use_cpu: bool = True,
    ) -> None:  # fmt: skip
        if use_cuda or use_device not in (None, "cpu"):
            raise ValueError(
                f"[profile] expected the CPU, got use_cuda={use_cuda}, use_device={use_device!r}"
            )
        if not use_cpu:
            raise ValueError("[profile] expected use_cpu=True, got False")
        self.enabled = enabled
        self._profile = whole_profile(
            record_shapes=record_shapes, with_flops=with_flops, profile_memory=profile_memory,
            with_stack=with_stack, with_modules=with_modules,
        )  # fmt: skip

    def __enter__(self) -> profile:
        if self.enabled:
            self._profile.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.enabled:
            self._profile.stop()

    @property
    def function_events(self) -> EventList:
        """Each event by itself."""
        return self._profile.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events."""
        return self.key_averages().self_cpu_time_total

    def key_averages(self, *args: Any, **keywords: Any) -> EventList:
        """Sums, as `weft.profiler.profile.key_averages` has them."""
        return self._profile.key_averages(*args, **keywords)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all."""
        return self._profile.events().total_average()

    def table(self, *args: Any, **keywords: Any) -> str:
        """Of each event by itself."""
        return self._profile.events().table(*args, **keywords)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """As `weft.profiler.profile.export_chrome_trace`."""
        self._profile.export_chrome_trace(path)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """As `weft.profiler.profile.export_stacks`."""
        self._profile.export_stacks(path, metric)

    def __str__(self) -> str:
        return str(self.key_averages())


class _Emit:
    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> Any:
        if self.enabled:
            raise RuntimeError(
                f"[{type(self).__name__}] expected an accelerator's tool, got none: weft runs on "
                "the CPU. Hint: weft.profiler.profile"
            )
        return self

    def __exit__(self, *error: Any) -> None:
        return None


class emit_nvtx(_Emit):
    """Marks for NVIDIA's tools, which need a GPU: entering it raises RuntimeError, unless
    `enabled=False`."""


class emit_itt(_Emit):
    """Marks for Intel's tools, which are not linked: entering it raises RuntimeError, unless
    `enabled=False`."""
