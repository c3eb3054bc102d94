"""PyTorch's eighteen transforms, made of the three in `primitives`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import weft
from weft import _C, Tensor
from weft.base.forms import write_out
from weft.fft.primitives import BY_N, NONE, ROOT, _padded, c2c, c2r, r2c


def _norm(who: str, norm: str | None, forward: bool) -> int:
    if norm is None or norm == "backward":
        return NONE if forward else BY_N
    if norm == "forward":
        return BY_N if forward else NONE
    if norm != "ortho":
        raise RuntimeError(
            f"[{who}] expected norm 'backward', 'ortho' or 'forward', got {norm!r} (Invalid "
            f'normalization mode: "{norm}")'
        )
    return ROOT


def _numbers(who: str, input: Tensor, complex: bool | None) -> Tensor:
    """`input` as floats or complex numbers; `complex`: as the latter, or (False) none of them."""
    if not isinstance(input, Tensor):
        raise TypeError(f"[{who}] expected a tensor, got {type(input).__name__}")
    kind = input.dtype
    if kind.is_complex:
        if complex is False:
            raise RuntimeError(
                f"[{who}] expected a real tensor, got {kind} ({who.partition('.')[2]} expects a "
                "real input tensor)"
            )
        return input
    if kind.is_floating_point and kind not in (weft.float32, weft.float64):
        if _C.is_autocast_cpu_enabled():  # before the plan, which is made for a dtype
            return _numbers(who, input.float(), complex)
        raise RuntimeError(
            f"[{who}] expected float32, float64 or complex numbers, got {kind} (Unsupported dtype "
            f"{kind}) Hint: convert with .float() first"
        )
    real = input if kind.is_floating_point else input.to(weft.get_default_dtype())
    return real.to(real.dtype.to_complex()) if complex else real


def _wrapped(who: str, input: Tensor, dim: int) -> int:
    rank = input.dim()
    if not -rank <= dim < rank:
        told = (
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got "
            f"{dim})"
            if rank
            else f"Dimension specified as {dim} but tensor has no dimensions"
        )
        raise IndexError(f"[{who}] expected a dim that the tensor has, got {dim} ({told})")
    return dim % rank


def _counted(who: str, n: int) -> int:
    if n < 1:
        raise RuntimeError(
            f"[{who}] expected at least 1 number, got {n} (Invalid number of data points ({n}) "
            "specified)"
        )
    return n


def _resized(input: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Cut or padded with zeros to `sizes` along `dims`, if there are any."""
    shape = input.shape
    for d, n in zip(dims, sizes):
        if n != shape[d]:
            input = input.narrow(d, 0, n) if n < shape[d] else _padded(input, d, n)
    return input


Ints = int | Sequence[int] | None


#: What is transformed: dims, and their sizes in the longer of the two domains; none: as they are.
_Plan = tuple[list[int], Sequence[int]]


def _one(who: str, input: Tensor, n: int | None, dim: int, half: bool = False) -> _Plan:
    d = _wrapped(who, input, dim)
    whole = 2 * (input.shape[d] - 1) if half else input.shape[d]
    return [d], [_counted(who, whole if n is None else n)]


def _many(who: str, input: Tensor, s: Any, dim: Any, half: bool = False) -> _Plan:
    s = s if s is None or isinstance(s, (list, tuple)) else [index(s)]
    dim = dim if dim is None or isinstance(dim, (list, tuple)) else [index(dim)]
    rank = input.dim()
    if s is not None and dim is not None and len(s) != len(dim):
        raise RuntimeError(
            f"[{who}] expected as many sizes as dims, got {len(s)} and {len(dim)} (When dim and "
            "shape were both given, they must have the same length)"
        )
    if s is not None and dim is None and len(s) > rank:
        raise RuntimeError(
            f"[{who}] expected at most {rank} sizes, got {len(s)} (Got shape with {len(s)} values "
            f"but input tensor only has {rank} dimensions.)"
        )
    if dim is None:
        dim = range(rank - (rank if s is None else len(s)), rank)
    dims = [d % rank if -rank <= d < rank else _wrapped(who, input, d) for d in dim]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"[{who}] expected each dim once, got {dims} (FFT dims must be unique)")
    if s is None and not half and input.numel():
        return dims, ()
    shape = input.shape
    whole = [shape[d] for d in dims]
    sizes = [-1] * len(dims) if s is None else list(s)
    if half and whole:
        whole[-1] = 2 * (whole[-1] - 1)
    return dims, [_counted(who, w if n == -1 else n) for n, w in zip(sizes, whole)]


def _complex_to_complex(
    who: str, input: Tensor, plan: _Plan, norm: str | None, forward: bool, out: Any
) -> Tensor:
    dims, sizes = plan
    x = _resized(input, dims, sizes)
    mode = _norm(who, norm, forward)
    if not dims:
        result = x.clone()
    elif x.is_complex():
        result = c2c(x, dims, mode, forward)
    else:
        result = r2c(x, dims, mode, False)
        result = result if forward else result.conj()
    return result if out is None else write_out(who, out, result)


def _real_to_half(
    who: str, input: Tensor, plan: _Plan, norm: str | None, forward: bool, out: Any
) -> Tensor:
    dims, sizes = plan
    if not dims:
        raise RuntimeError(
            f"[{who}] expected at least one dim, got none ({who.partition('.')[2]} must transform "
            "at least one axis)"
        )
    x = _resized(input, dims, sizes)
    mode = _norm(who, norm, forward)
    if forward:
        result = r2c(x, dims, mode, True)
    else:
        result = r2c(x, dims[-1:], mode, True).conj()
        if dims[:-1]:
            result = c2c(result, dims[:-1], mode, False)
    return result if out is None else write_out(who, out, result)


def _half_to_real(
    who: str, input: Tensor, plan: _Plan, norm: str | None, forward: bool, out: Any
) -> Tensor:
    dims, sizes = plan
    if not dims:
        raise RuntimeError(
            f"[{who}] expected at least one dim, got none ({who.partition('.')[2]} must transform "
            "at least one axis)"
        )
    x = _resized(input, dims, [*sizes[:-1], sizes[-1] // 2 + 1])
    mode = _norm(who, norm, forward)
    if forward:
        if dims[:-1]:
            x = c2c(x, dims[:-1], mode, True)
        x, dims = x.conj(), dims[-1:]
    result = c2r(x, dims, mode, sizes[-1])
    return result if out is None else write_out(who, out, result)


def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """The transform of real or complex numbers: `X[k] = sum x[j] exp(-2πi jk / n)`.

    Args:
        input: any shape.
        n: cut or padded with zeros to it first; default: the size.
        dim: the dimension transformed.
        norm: see `weft.fft`.
        out: where the result is written.

    Raises:
        RuntimeError: n below 1, an unknown norm, float16 or bfloat16.
        IndexError: no such dim.

    >>> weft.fft.fft(weft.tensor([1., 2j]))
    tensor([1.+2.j, 1.-2.j])
    """
    x = _numbers("fft.fft", input, None)
    return _complex_to_complex("fft.fft", x, _one("fft.fft", x, n, dim), norm, True, out)


def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """The inverse of `fft`; the same arguments.

    Complex, of the input's shape but for `n`.

    >>> weft.fft.ifft(weft.tensor([3., -1.]))
    tensor([1.-0.j, 2.-0.j])
    """
    x = _numbers("fft.ifft", input, None)
    return _complex_to_complex("fft.ifft", x, _one("fft.ifft", x, n, dim), norm, False, out)


def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """The first n // 2 + 1 numbers of `fft` of real numbers; the others are their conjugates.

    [*, n, *] gives [*, n // 2 + 1, *], complex.

    >>> weft.fft.rfft(weft.tensor([1., 2., 3.])).shape
    torch.Size([2])
    """
    x = _numbers("fft.rfft", input, False)
    return _real_to_half("fft.rfft", x, _one("fft.rfft", x, n, dim), norm, True, out)


def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """The inverse of `rfft`: n real numbers, by default 2 (size - 1).

    >>> weft.fft.irfft(weft.fft.rfft(weft.tensor([1., 2., 3.])), n=3)
    tensor([1., 2., 3.])
    """
    x = _numbers("fft.irfft", input, True)
    return _half_to_real("fft.irfft", x, _one("fft.irfft", x, n, dim, True), norm, False, out)


def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """`fft` of numbers of which the second half are the conjugates of the first: n real numbers.

    [*, m, *] gives [*, n, *], n = 2 (m - 1) unless it is given.

    >>> weft.fft.hfft(weft.tensor([1., 2., 3.]))
    tensor([ 8., -2.,  0., -2.])
    """
    x = _numbers("fft.hfft", input, True)
    return _half_to_real("fft.hfft", x, _one("fft.hfft", x, n, dim, True), norm, True, out)


def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """The inverse of `hfft`: the first half, of real numbers.

    [*, n, *] gives [*, n // 2 + 1, *].

    >>> weft.fft.ihfft(weft.tensor([8., -2., 0., -2.]))
    tensor([1.-0.j, 2.-0.j, 3.-0.j])
    """
    x = _numbers("fft.ihfft", input, False)
    return _real_to_half("fft.ihfft", x, _one("fft.ihfft", x, n, dim), norm, False, out)


def fftn(
    input: Tensor, s: Ints = None, dim: Ints = None, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """`fft` along several dimensions.

    Args:
        input: any shape.
        s: the size of each, -1 for what it is; cut or padded with zeros to it first.
        dim: which; default: the last len(s), without s all.
        norm: see `weft.fft`.
        out: where the result is written.

    Raises:
        RuntimeError: a size below 1, a dim twice, other lengths of s and dim, an unknown norm.
        IndexError: no such dim.

    >>> weft.fft.fftn(weft.ones(2, 2))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    x = _numbers("fft.fftn", input, True)
    return _complex_to_complex("fft.fftn", x, _many("fft.fftn", x, s, dim), norm, True, out)


def ifftn(
    input: Tensor, s: Ints = None, dim: Ints = None, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """The inverse of `fftn`; the same arguments.

    Complex, of the input's shape but for `s`.

    >>> weft.fft.ifftn(weft.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    x = _numbers("fft.ifftn", input, True)
    return _complex_to_complex("fft.ifftn", x, _many("fft.ifftn", x, s, dim), norm, False, out)


def rfftn(
    input: Tensor, s: Ints = None, dim: Ints = None, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """`fftn` of real numbers: along the last of the dims only the first half, as `rfft`.

    Complex, of the input's shape but for the last of the dims, of size // 2 + 1.

    >>> weft.fft.rfftn(weft.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    x = _numbers("fft.rfftn", input, False)
    return _real_to_half("fft.rfftn", x, _many("fft.rfftn", x, s, dim), norm, True, out)


def irfftn(
    input: Tensor, s: Ints = None, dim: Ints = None, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """The inverse of `rfftn`; along the last of the dims 2 (size - 1) numbers unless s says.

    >>> weft.fft.irfftn(weft.ones(2, 2))
    tensor([[1., 0.],
            [0., 0.]])
    """
    x = _numbers("fft.irfftn", input, True)
    return _half_to_real("fft.irfftn", x, _many("fft.irfftn", x, s, dim, True), norm, False, out)


def hfftn(
    input: Tensor, s: Ints = None, dim: Ints = None, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """`fftn` of numbers that are conjugate symmetric along the last of the dims, as `hfft`.

    The last of the dims has 2 (size - 1) numbers unless `s` says; the result is real.

    >>> weft.fft.hfftn(weft.ones(2, 2))
    tensor([[4., 0.],
            [0., 0.]])
    """
    x = _numbers("fft.hfftn", input, True)
    return _half_to_real("fft.hfftn", x, _many("fft.hfftn", x, s, dim, True), norm, True, out)


def ihfftn(
    input: Tensor, s: Ints = None, dim: Ints = None, norm: str | None = None, *, out: Any = None
) -> Tensor:
    """The inverse of `hfftn`, of real numbers.

    The last of the dims has size // 2 + 1 numbers.

    >>> weft.fft.ihfftn(weft.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    x = _numbers("fft.ihfftn", input, False)
    return _real_to_half("fft.ihfftn", x, _many("fft.ihfftn", x, s, dim), norm, False, out)


def fft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Tensor:
    """`fftn` along the last two dimensions.

    >>> weft.fft.fft2(weft.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return fftn(input, s, dim, norm, out=out)


def ifft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Tensor:
    """`ifftn` along the last two dimensions.

    >>> weft.fft.ifft2(weft.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return ifftn(input, s, dim, norm, out=out)


def rfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Tensor:
    """`rfftn` along the last two dimensions.

    >>> weft.fft.rfft2(weft.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return rfftn(input, s, dim, norm, out=out)


def irfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Tensor:
    """`irfftn` along the last two dimensions.

    >>> weft.fft.irfft2(weft.ones(2, 2))
    tensor([[1., 0.],
            [0., 0.]])
    """
    return irfftn(input, s, dim, norm, out=out)


def hfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Tensor:
    """`hfftn` along the last two dimensions.

    >>> weft.fft.hfft2(weft.ones(2, 2))
    tensor([[4., 0.],
            [0., 0.]])
    """
    return hfftn(input, s, dim, norm, out=out)


def ihfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Tensor:
    """`ihfftn` along the last two dimensions.

    >>> weft.fft.ihfft2(weft.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return ihfftn(input, s, dim, norm, out=out)
