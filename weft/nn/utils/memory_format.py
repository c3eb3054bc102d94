"""Weights of convolutions laid out anew: `weft.channels_last` and the like."""

from __future__ import annotations

from typing import Any, TypeVar

from weft.nn.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from weft.nn.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def _convert(module: M, kinds: tuple[type[Module], ...], memory_format: Any) -> M:
    for layer in module.modules():
        if isinstance(layer, kinds):
            weight: Any = layer.weight
            weight.data = weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lays out the weights of all `Conv2d` and `ConvTranspose2d` anew, in place; gives the module.

    Args:
        module: any module.
        memory_format: such as `weft.channels_last`.

    >>> layer = convert_conv2d_weight_memory_format(weft.nn.Conv2d(8, 4, 3), weft.channels_last)
    >>> layer.weight.is_contiguous(memory_format=weft.channels_last)
    True
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """The same of `Conv3d` and `ConvTranspose3d`, with `weft.channels_last_3d`.

    >>> kind = weft.channels_last_3d
    >>> layer = convert_conv3d_weight_memory_format(weft.nn.Conv3d(8, 4, 3), kind)
    >>> layer.weight.is_contiguous(memory_format=kind)
    True
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
