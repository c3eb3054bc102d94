"""Short-time Fourier transforms, made of `weft.fft`.

Griffin and Lim, "Signal estimation from modified short-time Fourier transform", 1984. PyTorch's
semantics.
"""

from __future__ import annotations

from typing import Any

import weft
from weft._C import Tensor
from weft.base.forms import method
from weft.base.warn import warn_once

__all__ = ["istft", "stft"]


def _window(who: str, n_fft: int, hop: int, length: int, window: Tensor | None) -> Tensor | None:
    """`window` (ones of `length` if None) in the middle of n_fft numbers; None for all ones."""
    if hop <= 0:
        raise RuntimeError(f"[{who}] expected hop_length > 0, got {hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(
            f"[{who}] expected 0 < win_length <= n_fft, got win_length={length} and n_fft={n_fft}"
        )
    if window is not None and tuple(window.shape) != (length,):
        raise RuntimeError(
            f"[{who}] expected a 1-D window of win_length={length}, got {tuple(window.shape)}"
        )
    if length == n_fft:
        return window
    left = (n_fft - length) // 2
    window = weft.ones(length) if window is None else window
    return weft.nn.functional.pad(window, (left, n_fft - length - left))


@method
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The Fourier transforms of overlapping frames of a signal: [..., frequencies, frames].

    Args:
        input: (length,) or (batch, length), real or complex.
        n_fft: numbers in a frame.
        hop_length: from frame to frame; default n_fft // 4.
        win_length: size of `window`, which stands in the middle of a frame; default n_fft.
        window: multiplied with every frame; default: ones.
        center: pad the signal by n_fft // 2 on both sides, so that frame t has t * hop_length in
            its middle.
        pad_mode: how; see `nn.functional.pad`.
        normalized: divide by the root of n_fft.
        onesided: only the n_fft // 2 + 1 first frequencies; default: yes, unless input or window
            is complex.
        return_complex: false gives real and imaginary parts as a last dimension of 2; has to be
            given for real inputs.
        align_to_window: without `center`, begin with the window's first number, not the frame's.

    Raises:
        RuntimeError: sizes that do not fit, integers, a missing return_complex.

    >>> weft.stft(weft.ones(8), 4, return_complex=True).shape
    torch.Size([3, 9])
    """
    if window is None:
        warn_once(
            "A window was not provided. A rectangular window will be applied,which is known to "
            "cause spectral leakage. Other windows such as torch.hann_window or "
            "torch.hamming_window are recommended to reduce spectral leakage.To suppress this "
            "warning and use a rectangular window, explicitly set "
            "`window=torch.ones(n_fft, device=<device>)`."
        )
    complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not complex:
            raise RuntimeError(
                "[stft] expected return_complex for a real input, got None (stft requires the "
                "return_complex parameter be given for real inputs)"
            )
        return_complex = True
    if not return_complex:
        warn_once(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will "
            "return complex tensors for all inputs, and return_complex=False will raise an error."
            "\nNote: you can still call torch.view_as_real on the complex output to recover the "
            "old return format."
        )
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(f"[stft] expected floating or complex numbers, got {input.dtype}")
    if input.dim() not in (1, 2):
        raise RuntimeError(f"[stft] expected a 1D or 2D tensor, got {input.dim()} dimensions")
    if center and align_to_window is not None:
        raise RuntimeError(
            "[stft] expected align_to_window without center, got both (stft align_to_window should "
            "only be set when center = false)"
        )
    if onesided and complex:
        raise RuntimeError(
            "[stft] expected real input and window, got complex ones (Cannot have onesided output "
            "if window or input is complex)"
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    x = input if input.dim() == 2 else input.unsqueeze(0)
    edge = n_fft // 2 if center else (n_fft - length) // 2 if align_to_window else 0
    if edge > 0:
        mode = pad_mode if center else "constant"
        x = weft.nn.functional.pad(x.unsqueeze(0), (edge, edge), mode).squeeze(0)
    if not 0 < n_fft <= x.shape[-1]:
        raise RuntimeError(f"[stft] expected 0 < n_fft <= {x.shape[-1]}, got n_fft={n_fft}")
    shape = _window("stft", n_fft, hop, length, window)
    frames = x.unfold(-1, n_fft, hop)
    frames = frames if shape is None else frames * shape
    transform = weft.fft.fft if complex or onesided is False else weft.fft.rfft
    out = transform(frames, norm="ortho" if normalized else "backward").transpose(-2, -1)
    out = out if input.dim() == 2 else out.squeeze(0)
    return out if return_complex else weft.view_as_real(out)


def _overlapped(frames: Tensor, hop: int, length: int) -> Tensor:
    """Frames (..., count, size), one every `hop`, summed into signals (..., length)."""
    if frames.is_complex():
        parts = _overlapped(weft.view_as_real(frames).movedim(-1, 0), hop, length)
        return weft.complex(*parts.unbind(0))
    batch, (count, size) = frames.shape[:-2], frames.shape[-2:]
    columns = frames.reshape(-1, count, size).mT
    out = weft.nn.functional.fold(columns, (1, length), (1, size), stride=(1, hop))
    return out.reshape(*batch, length)


def _expect_spectrum(input: Tensor, n_fft: int, onesided: bool, complex: bool, window: Any) -> None:
    if not input.is_complex():
        raise RuntimeError(
            f"[istft] expected complex numbers, got {input.dtype} (istft requires a complex-valued "
            "input tensor matching the output from stft with return_complex=True.)"
        )
    if input.dim() not in (2, 3) or input.numel() == 0:
        raise RuntimeError(
            f"[istft] expected 2 or 3 dimensions and some numbers, got {tuple(input.shape)} (input "
            "tensor cannot be empty.)"
        )
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if input.shape[-2] != wanted:
        raise RuntimeError(
            f"[istft] expected {wanted} frequencies for n_fft={n_fft} and onesided={onesided}, got "
            f"{input.shape[-2]}"
        )
    if complex and onesided:
        raise RuntimeError(
            "[istft] expected all frequencies of a complex signal, got the first half (Cannot have "
            "onesided output if window or input is complex)"
        )
    if window is not None and window.is_complex() and not complex:
        raise RuntimeError(
            "[istft] expected return_complex with a complex window, got False (Complex windows are "
            "incompatible with return_complex=False)"
        )


@method
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose `stft` is nearest to `input`: [..., length].

    Args:
        input: complex, (frequencies, frames) or a batch of them, as `stft` makes it.
        n_fft, hop_length, win_length, window, center, normalized: those of the `stft`.
        onesided: whether only the first frequencies are given; default: if there are not n_fft.
        length: of the signal; default: what the frames cover, with `center` without its edges.
        return_complex: of a complex signal.

    Raises:
        RuntimeError: sizes that do not fit, a number of the signal that no window covers.

    >>> x = weft.tensor([1., 2., 3., 4., 5., 6.])
    >>> weft.istft(weft.stft(x, 4, return_complex=True), 4)
    tensor([1., 2., 3., 4., 5., 6.])
    """
    if onesided is None:
        onesided = input.dim() < 2 or input.shape[-2] != n_fft
    _expect_spectrum(input, n_fft, onesided, return_complex, window)
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    if hop > size:
        raise RuntimeError(f"[istft] expected 0 < hop_length <= win_length, got {hop} and {size}")
    shape = _window("istft", n_fft, hop, size, window)
    shape = (
        weft.ones(n_fft, dtype=input.dtype.to_real(), device=input.device)
        if shape is None
        else shape
    )
    norm = "ortho" if normalized else "backward"
    spectra = input.transpose(-2, -1)
    if return_complex:
        frames = weft.fft.ifft(spectra, norm=norm)
    else:
        frames = weft.fft.irfft(spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)
    count = input.shape[-1]
    covered = n_fft + hop * (count - 1)
    signal = _overlapped(frames * shape, hop, covered)
    weight = _overlapped((shape * shape).expand(count, n_fft), hop, covered)
    start = n_fft // 2 if center else 0
    end = covered - start if length is None else start + length
    signal, weight = signal[..., start:end], weight[start:end]
    if not weight.numel() or bool((weight.abs() < 1e-11).any()):
        raise RuntimeError(
            "[istft] expected windows that cover the signal, got numbers that none covers (window "
            "overlap add min: 1) Hint: a smaller hop_length, or center=True"
        )
    signal = signal / weight
    if end > covered:
        import warnings

        warnings.warn("[istft] the frames are shorter than `length`: zeros follow", stacklevel=2)
        signal = weft.nn.functional.pad(signal, (0, end - covered))
    return signal
