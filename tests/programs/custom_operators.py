"""Operators made of Python functions, in the idiom of PyTorch's tutorial."""

import numpy as np
import torch
from torch import Tensor


@torch.library.custom_op("shop::crop", mutates_args=())
def crop(pic: Tensor, box: list[int]) -> Tensor:
    array = pic.numpy()
    x0, y0, x1, y1 = box
    return torch.from_numpy(array[:, y0:y1, x0:x1].copy())


@crop.register_fake
def _(pic, box):
    x0, y0, x1, y1 = box
    return pic.new_empty(pic.shape[0], y1 - y0, x1 - x0)


def setup_context(ctx, inputs, output):
    pic, ctx.box = inputs
    ctx.shape = pic.shape


def backward(ctx, grad):
    x0, y0, x1, y1 = ctx.box
    whole = grad.new_zeros(ctx.shape)
    whole[:, y0:y1, x0:x1] = grad
    return whole, None


crop.register_autograd(backward, setup_context=setup_context)


@torch.library.custom_op("shop::sin_into", mutates_args={"output"}, device_types="cpu")
def sin_into(input: Tensor, output: Tensor) -> None:
    np.sin(input.numpy(), out=output.numpy())


lib = torch.library.Library("shop2", "DEF")
lib.define("mix(Tensor a, Tensor b, float weight=0.5) -> Tensor")


@torch.library.impl(lib, "mix", "CompositeImplicitAutograd")
def mix(a, b, weight=0.5):
    return a * weight + b * (1 - weight)


def tell(what, call):
    try:
        print(what, call())
    except Exception as error:
        print(what, type(error).__name__)


if __name__ == "__main__":
    pic = torch.arange(24.0).view(2, 3, 4).requires_grad_()
    part = crop(pic, [1, 0, 3, 2])
    print(part.tolist(), part.requires_grad)
    (part * part).sum().backward()
    print(pic.grad.tolist())
    print(torch.ops.shop.crop, repr(torch.ops.shop.crop.default))
    print(torch.ops.shop.crop.default._schema)
    print(torch.ops.shop.crop(pic, [0, 0, 1, 1]).tolist())
    out = torch.zeros(3)
    before = out._version
    sin_into(torch.tensor([0.0, 1.0, 2.0]), out)
    print([round(v, 5) for v in out.tolist()], out._version > before)
    a = torch.ones(2, requires_grad=True)
    mixed = torch.ops.shop2.mix(a, torch.zeros(2), weight=0.25)
    mixed.sum().backward()
    print(mixed.tolist(), a.grad.tolist(), torch.ops.shop2.mix.default._schema)
    print(torch.vmap(lambda p: crop(p, [0, 0, 2, 1]))(torch.ones(3, 1, 2, 2)).shape)
    sample = torch.randn(1, 3, 3, dtype=torch.float64, requires_grad=True)
    print(torch.library.opcheck(crop, (sample, [0, 0, 2, 2])))
    print(torch.autograd.gradcheck(lambda p: crop(p, [0, 0, 2, 2]), (sample,)))
    far = torch.empty(1, 4, 4, device="meta")
    print(torch.ops.shop.crop(far, [0, 0, 2, 3]).shape)
    tell("no argument", lambda: crop())
    tell("a word", lambda: crop("a", [1]))
    tell("no operator", lambda: torch.ops.shop.nothing)
    tell("a second gradient", lambda: sin_into.register_autograd(backward))
    add = torch.ops.aten.add.Tensor
    print(add, add is torch.ops.aten.add.Tensor, add(torch.ones(2), 1).tolist())
    print({torch.ops.aten.mm.default: "a product"}[torch.ops.aten.mm.default])
