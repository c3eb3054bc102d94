"""A module that PyTorch spreads over devices: with the CPU alone, the module itself."""

from __future__ import annotations

from typing import Any

from weft.base.device import expect_cpu
from weft.nn.module import Module


class DataParallel(Module):
    """Calls `module`; there are no devices to share the batch among.

    The state's names begin with `module.`, as in PyTorch, so that checkpoints fit.

    Args:
        module: what is called.
        device_ids, output_device, dim: for accelerators; without one PyTorch does not read them.

    >>> net = weft.nn.DataParallel(weft.nn.Linear(2, 1))
    >>> sorted(net.state_dict())
    ['module.bias', 'module.weight']
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module returns."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """`module(*inputs)`: there are no devices to share the batch among.

    Shapes are those of the module.

    >>> weft.nn.parallel.data_parallel(weft.nn.ReLU(), weft.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    for device in [*(device_ids or ()), output_device]:
        expect_cpu(device)
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
