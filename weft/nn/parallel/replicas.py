"""A module on several devices, and modules called each with inputs of its own."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from weft.base.device import expect_cpu
from weft.nn.module import Module

__all__ = ["parallel_apply", "replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A copy of the module for each device, with the module's own parameters and buffers.

    Args:
        network: whose submodules are copied too.
        devices: of which each has to be the CPU.
        detach: whether the copies' parameters require no gradients.

    Raises: AssertionError or RuntimeError for another device.

    >>> layer = weft.nn.Linear(2, 1)
    >>> first, second = weft.nn.parallel.replicate(layer, ["cpu", "cpu"])
    >>> first is not second, first.weight is layer.weight
    (True, True)
    """
    for device in devices:
        expect_cpu(device)
    kept = {id(t): t.detach() if detach else t for t in network.parameters()}
    kept |= {id(t): t for t in network.buffers()}
    return [copy.deepcopy(network, dict(kept)) for _ in devices]


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """What each module makes of its inputs, a tuple of arguments or one argument, in their order.

    Raises: AssertionError for lists of unlike lengths; AssertionError or RuntimeError for a device
    that is not the CPU.

    >>> weft.nn.parallel.parallel_apply([weft.neg, weft.exp], [weft.ones(1), (weft.zeros(1),)])
    [tensor([-1.]), tensor([1.])]
    """
    words = kwargs_tup if kwargs_tup is not None else [{}] * len(modules)
    for given in (inputs, words, devices if devices is not None else modules):
        if len(given) != len(modules):
            raise AssertionError(
                f"[parallel_apply] expected as many as modules, {len(modules)}, got {len(given)}: "
                f"The number of modules {len(modules)} is not equal to the number of inputs "
                f"{len(inputs)}"
            )
    for device in devices or ():
        expect_cpu(device)
    return [
        module(*(given if isinstance(given, (list, tuple)) else (given,)), **named)
        for module, given, named in zip(modules, inputs, words)
    ]
