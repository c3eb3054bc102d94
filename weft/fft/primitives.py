"""The three transforms that the others are made of, over SciPy's or NumPy's FFT.

Their gradients are each other: PyTorch's convention makes the gradient of y = F x the conjugate
transpose of F times the gradient of y.
"""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft._library_ops import Gradients, layout_of, library_op, like_first

NONE, ROOT, BY_N = 0, 1, 2  #: the factor of a transform over n numbers: 1, 1/√n, 1/n
_FORWARD = {NONE: "backward", ROOT: "ortho", BY_N: "forward"}
_INVERSE = {NONE: "forward", ROOT: "ortho", BY_N: "backward"}


def _engine() -> Any:
    """SciPy's transforms, several times faster for many short ones; NumPy's where it is absent."""
    try:
        from scipy import fft
    except ImportError:
        from numpy import fft
    return fft


def _complex(array: Any, like: Any) -> Any:
    """As the complex dtype of `like`'s precision: NumPy before 2.0 knew double alone."""
    return array.astype("complex64" if like.dtype.name in ("float32", "complex64") else
                        "complex128", copy=False)  # fmt: skip


def _gradient_c2c(g: Gradients) -> Any:
    o = g.options
    return c2c(g.grads[0], dim=o["dim"], normalization=o["normalization"], forward=not o["forward"])


@library_op(
    "_fft_c2c(Tensor self, int[] dim, int normalization, bool forward) -> Tensor",
    gradient=_gradient_c2c,
    saves=[],
    node="FftC2CBackward0",
    samples=[
        "f(torch.complex(T(4), T(4)), dim=[0], normalization=0, forward=True)",
        "f(torch.complex(T(2, 5), T(2, 5)), dim=[0, 1], normalization=1, forward=False)",
        "f(torch.complex(T(3), T(3)), dim=[0], normalization=2, forward=False)",
    ],
    layout=like_first,
)
def c2c(a: Any, dim: Any = (), normalization: int = NONE, forward: bool = True) -> Any:
    """Complex numbers to complex numbers along `dim`.

    >>> weft.fft.fft(weft.tensor([1 + 0j, 1j]))
    tensor([1.+1.j, 1.-1.j])
    """
    if 0 in a.shape:
        return a
    run = _engine().fftn if forward else _engine().ifftn
    return _complex(run(a, axes=dim, norm=(_FORWARD if forward else _INVERSE)[normalization]), a)


def _gradient_r2c(g: Gradients) -> Any:
    (x,), grad, o = g.inputs, g.grads[0], g.options
    last = o["dim"][-1]
    if o["onesided"]:
        grad = _padded(grad, last, x.shape[last])
    return c2c(grad, dim=o["dim"], normalization=o["normalization"], forward=False).real


def _padded(x: Tensor, dim: int, size: int) -> Tensor:
    """x with zeros behind, up to `size` along `dim`."""
    more = size - x.shape[dim]
    pad = [0, 0] * (x.dim() - 1 - dim % x.dim()) + [0, more]
    return weft.nn.functional.pad(x, pad) if more else x


def _layout_r2c(a: Tensor, dim: Any, onesided: bool, **options: Any) -> Any:
    sizes = list(a.shape)
    if onesided:
        sizes[dim[-1]] = sizes[dim[-1]] // 2 + 1
    return layout_of((sizes, a.dtype.to_complex()))


@library_op(
    "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    gradient=_gradient_r2c,
    saves=[],
    node="FftR2CBackward0",
    samples=[
        "f(T(4), dim=[0], normalization=0, onesided=True)",
        "f(T(2, 5), dim=[0, 1], normalization=1, onesided=True)",
        "f(T(3, 4), dim=[0], normalization=2, onesided=False)",
    ],
    layout=_layout_r2c,
)
def r2c(a: Any, dim: Any = (), normalization: int = NONE, onesided: bool = True) -> Any:
    """Real numbers to complex ones along `dim`; `onesided`: only the first half of the last.

    >>> weft.fft.rfft(weft.ones(4))
    tensor([4.+0.j, 0.+0.j, 0.+0.j])
    """
    if 0 in a.shape:
        shape = list(a.shape)
        shape[dim[-1]] = shape[dim[-1]] // 2 + 1 if onesided else shape[dim[-1]]
        return _complex(_zeros(shape), a)
    run = _engine().rfftn if onesided else _engine().fftn
    return _complex(run(a, axes=dim, norm=_FORWARD[normalization]), a)


def _zeros(shape: Any) -> Any:
    import numpy as np

    return np.zeros(shape, "complex128")


def _gradient_c2r(g: Gradients) -> Any:
    (x,), grad, o = g.inputs, g.grads[0], g.options
    last = o["dim"][-1]
    out = r2c(grad, dim=o["dim"], normalization=o["normalization"], onesided=True)
    # all but the first number, and the middle one of an even size, stand for two of the output
    twice = grad.shape[last] - x.shape[last]
    factor = weft.ones(x.shape[last], dtype=grad.dtype, device=grad.device)
    factor[1 : 1 + twice] = 2
    return out * factor.reshape([-1] + [1] * (x.dim() - 1 - last % x.dim()))


def _layout_c2r(a: Tensor, dim: Any, last_dim_size: int, **options: Any) -> Any:
    sizes = list(a.shape)
    sizes[dim[-1]] = last_dim_size
    return layout_of((sizes, a.dtype.to_real()))


@library_op(
    "_fft_c2r(Tensor self, int[] dim, int normalization, int last_dim_size) -> Tensor",
    gradient=_gradient_c2r,
    saves=[],
    node="FftC2RBackward0",
    samples=[
        "f(torch.complex(T(3), T(3)), dim=[0], normalization=0, last_dim_size=4)",
        "f(torch.complex(T(2, 3), T(2, 3)), dim=[0, 1], normalization=1, last_dim_size=5)",
        "f(torch.complex(T(3, 2), T(3, 2)), dim=[0], normalization=2, last_dim_size=4)",
    ],
    layout=_layout_c2r,
)
def c2r(a: Any, dim: Any = (), normalization: int = NONE, last_dim_size: int = 1) -> Any:
    """The first halves of conjugate symmetric numbers to `last_dim_size` real ones: the inverse.

    >>> weft.fft.irfft(weft.tensor([4 + 0j, 0, 0]))
    tensor([1., 1., 1., 1.])
    """
    sizes = [a.shape[d] for d in dim[:-1]] + [last_dim_size]
    kind = "float32" if a.dtype.name == "complex64" else "float64"
    if 0 in a.shape:
        shape = list(a.shape)
        shape[dim[-1]] = last_dim_size
        return _zeros(shape).real.astype(kind)
    out = _engine().irfftn(a, sizes, axes=dim, norm=_INVERSE[normalization])
    return out.astype(kind, copy=False)
