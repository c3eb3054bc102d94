"""First values of layers, which models have in common."""

from __future__ import annotations

from weft import Tensor, nn

__all__ = ["begin_linear", "begin_norm", "constant"]


def constant(value: float, *parameters: Tensor | None) -> None:
    """Fills the parameters that a layer has."""
    for parameter in parameters:
        if parameter is not None:
            nn.init.constant_(parameter, value)


def begin_norm(m: nn.Module) -> None:
    """A norm that changes nothing but mean and variance."""
    if isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
        constant(1.0, m.weight)
        constant(0.0, m.bias)


def begin_linear(m: nn.Module) -> None:
    """Small normal weights, and no bias."""
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, 0, 0.01)
        constant(0.0, m.bias)
