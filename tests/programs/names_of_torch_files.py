"""What programs take from PyTorch's files by names that are no public ones."""

import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import grad, init
from torch.nn.modules import module as module_file
from torch.nn.modules import pooling
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.modules.transformer import _get_activation_fn, _get_clones
from torch.nn.modules.utils import _list_with_default, _reverse_repeat_tuple
from torch.nn.utils.memory_format import convert_conv2d_weight_memory_format

torch.manual_seed(0)
for n in (1, 2, 3):
    convolution, sizes = getattr(F, f"conv{n}d"), (6, 5, 4)[:n]
    for how in ({}, {"stride": 2, "padding": 1}, {"groups": 2, "dilation": 2, "padding": (2,) * n}):
        x = torch.randn(2, 4, *sizes, dtype=torch.double, requires_grad=True)
        w = torch.randn(6, 4 // how.get("groups", 1), *(2,) * n, dtype=torch.double)
        w.requires_grad_()
        y = convolution(x, w, **how)
        start = torch.linspace(0, 1, y.numel(), dtype=torch.double).reshape(y.shape)
        of_x, of_w = torch.autograd.grad(y, (x, w), start)
        a = getattr(grad, f"conv{n}d_input")(x.shape, w, start, **how)
        b = getattr(grad, f"conv{n}d_weight")(x, w.shape, start, **how)
        print(n, torch.allclose(a, of_x), torch.allclose(b, of_w), a.shape, b.requires_grad)

tables = ("forward_pre_hooks", "forward_hooks", "backward_pre_hooks", "backward_hooks")
registers = ("forward_pre_hook", "forward_hook", "full_backward_pre_hook", "full_backward_hook")
for table, register in zip(tables, registers, strict=True):
    kept = getattr(module_file, f"_global_{table}")
    handle = getattr(module_file, f"register_module_{register}")(lambda *args: None)
    print(table, len(kept), end=" ")
    handle.remove()
    print(len(kept))
print(repr(module_file._addindent("a\nb\n\nc", 3)))


class Smallest(pooling._MaxPoolNd):
    def forward(self, x):
        return -F.max_pool1d(-x, self.kernel_size, self.stride, self.padding)


print(Smallest(2), Smallest(2)(torch.arange(6.0)[None]))
for layer, base in (
    (nn.MaxPool2d, "_MaxPoolNd"), (nn.AvgPool3d, "_AvgPoolNd"), (nn.LPPool2d, "_LPPoolNd"),
    (nn.AdaptiveAvgPool2d, "_AdaptiveAvgPoolNd"), (nn.AdaptiveMaxPool2d, "_AdaptiveAvgPoolNd"),
    (nn.AdaptiveMaxPool2d, "_AdaptiveMaxPoolNd"), (nn.MaxUnpool2d, "_MaxUnpoolNd"),
):  # fmt: skip
    print(base, issubclass(layer, getattr(pooling, base)))
print(_reverse_repeat_tuple((1, 2, 3), 2), _list_with_default([None, 3], [1, 7, 8]))
clones = _get_clones(nn.Linear(1, 2), 3)
print(clones, clones[0].weight is clones[1].weight, torch.equal(clones[0].bias, clones[2].bias))
print(_get_activation_fn("relu")(torch.tensor(-1.0)), NonDynamicallyQuantizableLinear(2, 3))
print(isinstance(nn.MultiheadAttention(4, 2).out_proj, NonDynamicallyQuantizableLinear))

q, k, v = torch.randn(3, 2, 4), torch.randn(5, 2, 4), torch.randn(5, 2, 4)
w, b = torch.randn(12, 4), torch.randn(12)
for given in ((q, q, q), (q, k, k), (q, k, v)):
    parts = F._in_projection_packed(*given, w, b)
    print([(tuple(t.shape), round(t.sum().item(), 3)) for t in parts], type(parts).__name__)
print([round(t.sum().item(), 3) for t in F._in_projection(q, k, v, *w.chunk(3), b[:4])])
hidden = torch.tensor([[True, False]])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(F._canonical_mask(hidden, "a", torch.float32, "b", torch.float32), len(caught))
    print(F._canonical_mask(None, "a", None, "b", torch.float32), F._none_or_dtype(hidden))
try:
    F._canonical_mask(torch.tensor([1]), "attn_mask", None, "", torch.float32)
except AssertionError as error:
    print("only bool and floating types of attn_mask are supported" in str(error))

p = nn.Parameter(torch.empty(40))
init._no_grad_trunc_normal_(p, 0.0, 1.0, -0.5, 2.0)
print(bool((p >= -0.5).all()), bool((p <= 2).all()), p.is_leaf)
print(init._no_grad_fill_(p, 2.0).sum(), init._no_grad_zero_(p).sum())
net = nn.Sequential(nn.Conv2d(8, 4, 3), nn.Linear(2, 2))
net = convert_conv2d_weight_memory_format(net, torch.channels_last)
print(net[0].weight.stride(), net[1].weight.stride(), type(net[0].weight).__name__)
