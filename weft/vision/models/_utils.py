"""What models have in common: first values of layers, numbers of channels, results in between."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from weft import Tensor, nn

__all__ = ["IntermediateLayerGetter", "begin_conv", "begin_linear", "begin_norm", "constant"]


class IntermediateLayerGetter(nn.ModuleDict):
    """The layers of a model up to the last that is asked for; a call gives their results.

    The model's own layers run one after the other, in the order that it has them in.

    Args:
        return_layers: the names of layers, and those of their results.

    Raises: ValueError for a layer that the model has not.

    >>> from weft.vision import models
    >>> from weft.vision.models._utils import IntermediateLayerGetter
    >>> body = IntermediateLayerGetter(models.resnet18(), {"layer1": "near", "layer3": "far"})
    >>> [(name, x.shape[1]) for name, x in body(weft.rand(1, 3, 32, 32)).items()]
    [('near', 64), ('far', 256)]
    """

    _version = 2

    def __init__(self, model: nn.Module, return_layers: Mapping[str, str]) -> None:
        wanted = {str(name) for name in return_layers}
        children = list(model.named_children())
        if not wanted <= {name for name, _ in children}:
            raise ValueError(
                f"[IntermediateLayerGetter] expected layers of {[name for name, _ in children]}, "
                f"got {sorted(wanted)}: return_layers are not present in model"
            )
        last = max((i for i, (name, _) in enumerate(children) if name in wanted), default=0)
        super().__init__(OrderedDict(children[: last + 1]))
        self.return_layers = return_layers

    def forward(self, x: Any) -> Any:
        found = OrderedDict()
        for name, layer in self.items():
            x = layer(x)
            if name in self.return_layers:
                found[self.return_layers[name]] = x
        return found


def _make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """The multiple of the divisor that is nearest, and not less than nine tenths of the value."""
    found = max(min_value or divisor, int(v + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * v else found


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


def begin_conv(m: nn.Module) -> None:
    """Normal weights by the number of outputs (He et al. 2015), and no bias."""
    if isinstance(m, nn.Conv2d):
        nn.init.kaiming_normal_(m.weight, mode="fan_out")
        constant(0.0, m.bias)
