"""What looks at the bits of numbers."""

from __future__ import annotations

import weft
from weft import Tensor
from weft.base.forms import forms

__all__ = ["hash_tensor"]


@forms()
def hash_tensor(
    input: Tensor,
    dim: int | tuple[int, ...] | list[int] = (),
    *,
    keepdim: bool = False,
    mode: int = 0,
) -> Tensor:
    """The elements' bits, as float64 or int64, combined by exclusive or along `dim`.

    Args:
        input: any shape, of real numbers.
        dim: the dimensions that are reduced; () is all.
        keepdim: whether they stay, with size 1.
        mode: 0, the only hash.

    Returns: a tensor of uint64.

    Raises: RuntimeError for another mode, NotImplementedError for complex numbers, IndexError for a
    `dim` without elements.

    >>> weft.hash_tensor(weft.tensor([5, 3]))
    tensor(6, dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"[hash_tensor] expected mode 0, got {mode}: Unknown hash_tensor mode")
    if input.is_complex():
        raise NotImplementedError(
            f'[hash_tensor] expected real numbers, got {input.dtype}: "hash_tensor" not implemented'
        )
    wide = weft.float64 if input.is_floating_point() else weft.int64
    bits = input.detach().to(wide).view(weft.int64)
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    reduced = [d % max(1, bits.dim()) for d in given] or list(range(bits.dim()))
    if not given and bits.numel() == 0:
        raise RuntimeError(
            "[hash_tensor] expected elements, or a dim, got none: hash_tensor: Expected reduction "
            "dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' "
            "argument."
        )
    for d in reduced if given else ():
        if bits.shape[d : d + 1] == (0,):
            raise IndexError(
                f"[hash_tensor] expected elements along dim {d}, got shape {list(bits.shape)}: "
                f"hash_tensor: Expected reduction dim {d} to have non-zero size."
            )
    for d in reduced:
        while bits.shape[d] > 1:
            half = bits.shape[d] // 2
            rest = bits.narrow(d, 2 * half, bits.shape[d] - 2 * half)
            both = bits.narrow(d, 0, half) ^ bits.narrow(d, half, half)
            bits = weft.cat((both, rest), d)
    if not keepdim and bits.dim():
        bits = bits.squeeze(tuple(reduced))
    return bits.view(weft.uint64)
