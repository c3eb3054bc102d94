"""GoogLeNet (Szegedy et al. 2014), with batch normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import weft
from weft import Tensor, nn
from weft.nn import functional as nnf
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import begin_norm

__all__ = ["GoogLeNet", "GoogLeNetOutputs", "GoogLeNet_Weights", "googlenet"]

_Layer = Callable[..., nn.Module]

#: Channels before, and of the branches: 1x1; before and after 3x3, twice; after the pool.
_INCEPTIONS = {
    "3a": (192, 64, 96, 128, 16, 32, 32), "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64), "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64), "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128), "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}  # fmt: skip


class GoogLeNetOutputs(NamedTuple):
    """What comes out while training: the result, and those of the two heads on the way.

    >>> from weft.vision.models import GoogLeNet
    >>> with weft.device("meta"):
    ...     model = GoogLeNet(10, init_weights=False)
    >>> [tuple(out.shape) for out in model(weft.empty(2, 3, 224, 224, device="meta"))]
    [(2, 10), (2, 10), (2, 10)]
    """

    logits: Tensor
    aux_logits2: Tensor | None
    aux_logits1: Tensor | None


class BasicConv2d(nn.Module):
    """A convolution, a norm and an activation."""

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return nnf.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    """Four branches side by side: 1x1, 3x3 twice, and a pool.

    The paper's third branch is 5x5; torchvision's weights are for 3x3.
    """

    def __init__(
        self,
        in_channels: int,
        ch1x1: int,
        ch3x3red: int,
        ch3x3: int,
        ch5x5red: int,
        ch5x5: int,
        pool_proj: int,
        conv_block: _Layer | None = None,
    ) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1 = conv(in_channels, ch1x1, kernel_size=1)
        self.branch2 = nn.Sequential(
            conv(in_channels, ch3x3red, kernel_size=1),
            conv(ch3x3red, ch3x3, kernel_size=3, padding=1),
        )
        self.branch3 = nn.Sequential(
            conv(in_channels, ch5x5red, kernel_size=1),
            conv(ch5x5red, ch5x5, kernel_size=3, padding=1),
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=True),
            conv(in_channels, pool_proj, kernel_size=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        branches = (self.branch1, self.branch2, self.branch3, self.branch4)
        return weft.cat([branch(x) for branch in branches], 1)


class InceptionAux(nn.Module):
    """A head on the way: a convolution of 4 by 4 pixels and two linear layers."""

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        conv_block: _Layer | None = None,
        dropout: float = 0.7,
    ) -> None:
        super().__init__()
        self.conv = (conv_block or BasicConv2d)(in_channels, 128, kernel_size=1)
        self.fc1 = nn.Linear(2048, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = weft.flatten(self.conv(nnf.adaptive_avg_pool2d(x, (4, 4))), 1)
        return self.fc2(self.dropout(nnf.relu(self.fc1(x), inplace=True)))


class GoogLeNet(nn.Module):
    """Inceptions over images [N, 3, H, W], with pools between them, then one linear layer.

    Args:
        num_classes: numbers that come out.
        aux_logits: whether there are heads on the way; then training gives `GoogLeNetOutputs`.
        transform_input: whether images are normalized by ImageNet's mean and deviation, and are
            to be by 0.5, as the weights are for.
        init_weights: whether first weights are the paper's, or those of the layers.
        blocks: the classes of convolutions, inceptions and heads.

    Raises: ValueError for other than three blocks.

    >>> from weft.vision.models import GoogLeNet
    >>> with weft.device("meta"):
    ...     model = GoogLeNet(10, init_weights=False).eval()
    >>> model(weft.empty(1, 3, 64, 64, device="meta")).shape
    torch.Size([1, 10])
    """

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        blocks: Sequence[_Layer] | None = None,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ) -> None:
        super().__init__()
        blocks = [BasicConv2d, Inception, InceptionAux] if blocks is None else blocks
        if len(blocks) != 3:
            raise ValueError(
                f"[GoogLeNet] expected three blocks, got {len(blocks)}: "
                f"blocks length should be 3 instead of {len(blocks)}"
            )
        conv, inception, head = blocks
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.conv1 = conv(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = conv(64, 64, kernel_size=1)
        self.conv3 = conv(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        for name, channels in _INCEPTIONS.items():
            self.add_module(f"inception{name}", inception(*channels))
            if name in ("3b", "4e"):
                pool = nn.MaxPool2d(3 if name == "3b" else 2, stride=2, ceil_mode=True)
                self.add_module(f"maxpool{name[0]}", pool)
        self.aux1 = head(512, num_classes, dropout=dropout_aux) if aux_logits else None
        self.aux2 = head(528, num_classes, dropout=dropout_aux) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(1024, num_classes)
        for m in self.modules() if init_weights is not False else ():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(m.weight, mean=0.0, std=0.01, a=-2, b=2)
            begin_norm(m)

    def _shifted(self, x: Tensor) -> Tensor:
        """Normalized by mean and deviation 0.5, from ImageNet's."""
        how: dict[str, Any] = {"dtype": x.dtype, "device": x.device}
        mean = weft.tensor([0.485, 0.456, 0.406], **how).view(3, 1, 1)
        deviation = weft.tensor([0.229, 0.224, 0.225], **how).view(3, 1, 1)
        return x * (deviation / 0.5) + (mean - 0.5) / 0.5

    def forward(self, x: Tensor) -> Any:
        x = self._shifted(x) if self.transform_input else x
        x = self.maxpool2(self.conv3(self.conv2(self.maxpool1(self.conv1(x)))))
        x = self.maxpool3(self.inception3b(self.inception3a(x)))
        heads = self.training and self.aux_logits
        x = self.inception4a(x)
        first = self.aux1(x) if heads and self.aux1 is not None else None
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        second = self.aux2(x) if heads and self.aux2 is not None else None
        x = self.inception5b(self.inception5a(self.maxpool4(self.inception4e(x))))
        x = self.fc(self.dropout(weft.flatten(self.avgpool(x), 1)))
        return GoogLeNetOutputs(x, second, first) if heads else x


def _loaded(state: Any, aux_logits: bool = False, **how: Any) -> GoogLeNet:
    """The model with weights, which are of all heads and for images of another mean."""
    how = {"transform_input": True, **how, "init_weights": False}
    model = GoogLeNet(aux_logits=True, **how)
    model.load_state_dict(state)
    if not aux_logits:
        model.aux_logits, model.aux1, model.aux2 = False, None, None
    return model


GoogLeNet_Weights = weights_enum(
    "GoogLeNet_Weights", __name__, 6624904, 15, files={"V1": "googlenet-1378be20"}
)
googlenet = builder("googlenet", GoogLeNet_Weights, GoogLeNet, "GoogLeNet", _loaded)
