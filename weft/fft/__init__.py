"""Discrete Fourier transforms: `weft.fft`, PyTorch's names.

The last dimension is transformed unless another is named. Integers count as the default dtype,
float32 gives complex64 and float64 complex128; gradients of any order.

`norm` says where the factor 1/n stands: `"backward"` (default) in the inverse transforms,
`"forward"` in the others, `"ortho"` its root in both.

>>> import weft
>>> weft.fft.rfft(weft.tensor([1., 2., 3., 4.]))
tensor([10.+0.j, -2.+2.j, -2.+0.j])
"""

from weft.base import checks as _checks
from weft.fft.helpers import fftfreq, fftshift, ifftshift, rfftfreq
from weft.fft.transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

_checks.install(__name__, "fft.", ("weft.",))
