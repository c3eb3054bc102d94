"""A Module trained by several processes: by one, the module itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from weft.base.device import expect_cpu
from weft.nn.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Calls `module`; there are no other processes to share gradients with.

    The state's names begin with `module.`, as in PyTorch, so that checkpoints fit. How gradients
    would be exchanged (`bucket_cap_mb`, `find_unused_parameters`, …) has no meaning for one
    process.

    Args:
        module: what is called; it has parameters that require gradients.
        device_ids, output_device: have to be empty or the CPU.

    Raises:
        ValueError: no process group; see `weft.distributed.init_process_group`.
        RuntimeError: no parameter requires a gradient.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        from weft.distributed.world import get_world_size

        super().__init__()
        get_world_size(process_group)
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        for device in [*(device_ids or ()), output_device]:
            expect_cpu(device)
        self.module = module
        self.device_ids = device_ids or None
        self.dim = dim
        self.process_group = process_group
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module returns."""
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A scope in which gradients are not exchanged: of one process, none are."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """A scope for processes with unlike numbers of batches: there is one."""
        yield

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """RuntimeError: no gradients are exchanged that `hook` could see."""
        raise RuntimeError(
            "[register_comm_hook] expected several processes, got one. Hint: it exchanges no "
            "gradients"
        )
