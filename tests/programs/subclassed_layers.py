"""Layers made from PyTorch's own base classes and their attributes, as public models make them."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.utils import _pair


class StandardisedConv(_ConvNd):
    """A convolution whose kernels have mean 0 and variance 1, padded by reflection."""

    def __init__(self, channels, out, kernel, padding=0, groups=1):
        super().__init__(
            channels, out, _pair(kernel), _pair(1), _pair(padding), _pair(1), False, _pair(0),
            groups, True, "reflect",
        )  # fmt: skip

    def forward(self, x):
        var, mean = torch.var_mean(self.weight, (1, 2, 3), keepdim=True)
        x = F.pad(x, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        weight = (self.weight - mean) / (var + 1e-5).sqrt()
        return F.conv2d(x, weight, self.bias, self.stride, 0, self.dilation, self.groups)


class ScaledConv(nn.Conv2d):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.scale = nn.Parameter(torch.full((self.out_channels, 1, 1, 1), 0.5))

    def forward(self, x):
        return self._conv_forward(x, self.weight * self.scale, self.bias)


class DroppedLSTM(nn.LSTM):
    """Whole weights are scaled before a pass; the regulariser goes through all of them."""

    def penalty(self):
        return sum(w.pow(2).sum() for w in self._flat_weights)


torch.manual_seed(0)
layer = StandardisedConv(4, 6, 3, padding=(1, 2), groups=2)
print(layer, layer.transposed, layer.output_padding)
x = torch.randn(2, 4, 5, 6)
out = layer(x)
out.pow(2).mean().backward()
print(tuple(out.shape), f"{out.sum():.4f} {layer.weight.grad.norm():.5f}")
scaled = ScaledConv(4, 2, kernel_size=3, padding="same", padding_mode="circular", bias=False)
print(scaled, f"{scaled(x).sum():.4f}")
lstm = DroppedLSTM(3, 4, num_layers=2, bidirectional=True)
print(lstm._flat_weights_names[:5], len(lstm._flat_weights), f"{lstm.penalty():.4f}")
lstm.penalty().backward()
print(f"{lstm.weight_hh_l1_reverse.grad.norm():.5f}")
