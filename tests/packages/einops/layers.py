"""Rearranging, reducing, repeating, packing, einsum, and layers, with gradients."""

import torch
from einops import einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

torch.manual_seed(0)
x = torch.randn(2, 3, 8, 8, requires_grad=True)
patches = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
print(patches.shape, reduce(x, "b c (h 2) (w 2) -> b c h w", "max").shape)
print(repeat(torch.tensor([1, 2]), "n -> (n k)", k=2), parse_shape(x, "b c _ _"))
flat, shapes = pack([torch.zeros(2, 3), torch.ones(2, 4, 5)], "b *")
print(flat.shape, [part.shape for part in unpack(flat, shapes, "b *")])
print(f"{einsum(patches, patches, 'b i d, b j d -> b i j').sum().item():.3f}")
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 4, 3, padding=1), Reduce("b c (h 2) (w 2) -> b c h w", "mean"),
    Rearrange("b c h w -> b (h w) c"), EinMix("b n c -> b n d", weight_shape="c d", c=4, d=5),
)  # fmt: skip
net(x).square().sum().backward()
print(net, f"{x.grad.norm().item():.3f}")
try:
    rearrange(x, "b c h -> b (c h)")
except Exception as error:
    print(type(error).__name__)
