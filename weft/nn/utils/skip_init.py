"""A module whose parameters someone else sets."""

from __future__ import annotations

from typing import Any

from weft.nn.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """`module_cls(*args, **kwargs)` without drawing random numbers: what its parameters hold is
    left open. It is made on the meta device, so the class has to take `device=`.

    Raises:
        RuntimeError: no module's class.

    >>> weft.nn.utils.skip_init(weft.nn.Linear, 3, 2).weight.shape
    torch.Size([2, 3])
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    place = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=place)
