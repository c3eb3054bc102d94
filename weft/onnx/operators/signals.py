"""Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import Tensor
from weft.onnx.operators.table import operator, single


@operator("DFT", numbers=["dft_length", "axis"])
def dft(
    input: Tensor, dft_length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0,
    version: int,
) -> Tensor:  # fmt: skip
    """A discrete Fourier transform; the last dimension has real and imaginary part, or one."""
    dim = (-2 if version >= 20 else 1) if axis is None else single(axis)
    dim = dim % input.dim()
    n = None if dft_length is None else single(dft_length)
    is_real = input.shape[-1] == 1
    if inverse and onesided:
        whole = weft.view_as_complex(input.contiguous())
        return weft.fft.irfft(whole, n, dim).unsqueeze(-1)
    x = input.select(-1, 0) if is_real else weft.view_as_complex(input.contiguous())
    if inverse:
        out = weft.fft.ifft(x, n, dim)
    elif onesided and is_real:
        out = weft.fft.rfft(x, n, dim)
    else:
        out = weft.fft.fft(x, n, dim)
        if onesided:
            out = out.narrow(dim, 0, out.shape[dim] // 2 + 1)
    return weft.view_as_real(out.resolve_conj()).to(input.dtype)


@operator("STFT", numbers=["frame_step", "frame_length"])
def stft(
    signal: Tensor, frame_step: Any, window: Tensor | None = None, frame_length: Any = None, *,
    onesided: int = 1,
) -> Tensor:  # fmt: skip
    """Fourier transforms of frames of a signal."""
    step = single(frame_step)
    length = window.shape[0] if frame_length is None else single(frame_length)  # type: ignore[union-attr]
    is_real = signal.dim() == 2 or signal.shape[-1] == 1
    x = signal.reshape(signal.shape[:2]) if is_real else weft.view_as_complex(signal.contiguous())
    count = (x.shape[1] - length) // step + 1
    places = weft.arange(count).unsqueeze(1) * step + weft.arange(length)
    frames = weft.index_select(x, 1, places.reshape([-1])).reshape([x.shape[0], count, length])
    if window is not None:
        frames = frames * window
    if onesided and is_real:
        out = weft.fft.rfft(frames)
    else:
        out = weft.fft.fft(frames)
        out = out.narrow(2, 0, length // 2 + 1) if onesided else out
    return weft.view_as_real(out)


@operator("MelWeightMatrix", numbers=[
    "num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz",
])  # fmt: skip
def mel_weight_matrix(
    num_mel_bins: Any, dft_length: Any, sample_rate: Any, lower_edge_hertz: Any,
    upper_edge_hertz: Any, *, output_datatype: weft.dtype = weft.float32,
) -> Tensor:  # fmt: skip
    """Triangles that sum a spectrum in bands of the mel scale."""
    bands, length, rate, low, high = (
        single(v)
        for v in (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
    )
    rows = length // 2 + 1
    mel = [2595 * math.log10(1 + f / 700) for f in (low, high)]
    step = (mel[1] - mel[0]) / (bands + 2)
    edges = [700 * (10 ** ((mel[0] + k * step) / 2595) - 1) for k in range(bands + 2)]
    bins = [int((length + 1) * f // rate) for f in edges]
    out = [[0.0] * bands for _ in range(rows)]
    for b in range(bands):
        left, middle, right = bins[b : b + 3]
        if left == middle:
            out[middle][b] = 1.0
        else:
            for k in range(left, middle + 1):
                out[k][b] = (k - left) / (middle - left)
        if right > middle:
            for k in range(middle, right):
                out[k][b] = (right - k) / (right - middle)
    return weft.tensor(out, dtype=output_datatype)
