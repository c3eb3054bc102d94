"""Fourier transforms beside PyTorch's: values, gradients to second order, kinds of errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

COMPLEX_TO_COMPLEX = [
    f"t.fft.{name}({args})"
    for name in ("fft", "ifft")
    for args in (
        "C(4)", "M(5)", "C(2, 5), n=3", "C(2, 3), n=7, dim=0", "M(2, 6), norm='ortho'",
        "C(2, 3), dim=0, norm='forward'", "C(2, 4).T", "M(4).float()",
    )
]  # fmt: skip
REAL_TO_HALF = [
    f"t.fft.{name}({args})"
    for name in ("rfft", "ihfft")
    for args in (
        "M(4)", "M(5)", "M(2, 5), n=3", "M(2, 3), n=6, dim=0", "M(2, 6), norm='ortho'",
        "M(2, 3), dim=0, norm='forward'", "M(1)", "M(4).float()",
    )
]  # fmt: skip
HALF_TO_REAL = [
    f"t.fft.{name}({args})"
    for name in ("irfft", "hfft")
    for args in (
        "C(4)", "M(5)", "C(2, 5), n=3", "C(2, 5), n=9", "C(2, 3), n=7, dim=0", "C(3), n=8",
        "C(2, 6), norm='ortho'", "C(2, 3), dim=0, norm='forward'",
        "C(4).to(t.complex64)", "C(3), n=1",
    )
]  # fmt: skip
SEVERAL = [
    f"t.fft.{name}({args})"
    for name in ("fftn", "ifftn", "irfftn", "hfftn", "rfftn", "ihfftn")
    for args in (
        "M(2, 3, 4)", "M(2, 3, 4), dim=(0, 2)", "M(3, 4), s=(2, 6)", "M(2, 3, 4), s=(5,)",
        "M(3, 4), s=(-1, 3)", "M(3, 4), norm='ortho'", "M(3, 4), norm='forward'",
        "M(2, 3, 4), s=(3, 2), dim=(2, 0)",
    )
]  # fmt: skip
SEVERAL += [
    f"t.fft.{name}2({args})"
    for name in ("fft", "ifft", "irfft", "hfft", "rfft", "ihfft")
    for args in ("M(2, 3, 4)", "M(3, 4), s=(2, 5)", "M(2, 3, 4), dim=(0, 1), norm='ortho'")
]
SEVERAL += ["t.fft.fftn(C(2, 3), dim=())", "t.fft.fftn(M(2, 3), dim=())", "t.fft.ifftn(M(2, 3))",
            "t.fft.fftn(C(2, 3, 2))", "t.fft.irfftn(C(2, 3, 2))",
            "t.fft.hfftn(C(2, 3))"]  # fmt: skip
SHORT_TIME = """
t.stft(M(20), 8, return_complex=True); t.stft(C(20), 8); t.stft(M(2, 20), 7, return_complex=True)
t.stft(M(20), 8, 3, return_complex=True); t.stft(M(20), 8, 2, 5, P(5), return_complex=True)
t.stft(M(20), 8, window=P(8), return_complex=False)
t.stft(M(20), 8, center=False, normalized=True, return_complex=True)
t.stft(M(20), 8, pad_mode='constant', return_complex=True, onesided=False)
t.stft(M(20), 8, 2, 4, P(4), center=False, align_to_window=True, return_complex=True)
t.stft(M(20), 8, window=C(8)); M(20).stft(6, return_complex=True)
t.istft(C(5, 6), 8); t.istft(C(2, 5, 6), 8, 3); t.istft(C(5, 6), 8, 2, 6, P(6))
t.istft(C(5, 6), 8, normalized=True, length=9); t.istft(C(5, 6), 8, length=30, window=P(8))
t.istft(C(5, 6), 8, center=False, window=P(8)); t.istft(C(8, 4), 8, onesided=False)
t.istft(C(8, 4), 8, return_complex=True); t.istft(C(7, 4), 7, window=P(7)); C(5, 6).istft(8)
"""
CASES = [*COMPLEX_TO_COMPLEX, *REAL_TO_HALF, *HALF_TO_REAL, *SEVERAL]
CASES += [c.strip() for c in SHORT_TIME.replace("\n", ";").split(";") if c.strip()]


@pytest.mark.parametrize("text", CASES)
def test_values_are_those_of_torch(beside, text):
    single = "float()" in text or "complex64" in text
    beside.values(text, *((1e-5, 1e-5) if single else (1e-10, 1e-11)))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("text", [c for c in CASES if "float()" not in c and "complex64" not in c])
def test_gradients_are_those_of_torch(beside, text, order):
    beside.gradients(text, order)
    if order == 2:  # a linear function has no second derivative: take one of its square
        squared = f"(lambda y: y * y.abs())({text})"
        beside.gradients(squared, 2, 1e-6, 1e-7)


HELPERS = """
t.fft.fftfreq(5); t.fft.fftfreq(6, 0.5); t.fft.rfftfreq(5); t.fft.rfftfreq(6, d=2.0)
t.fft.fftfreq(4, dtype=t.float64); t.fft.rfftfreq(4, requires_grad=True); t.fft.fftshift(M(5))
t.fft.fftshift(M(4, 5)); t.fft.ifftshift(M(4, 5)); t.fft.fftshift(M(4, 5), 1)
t.fft.ifftshift(M(4, 5), (0,)); t.fft.ifftshift(M(5), dim=-1); t.fft.fft(t.arange(4))
t.fft.rfft(t.ones(3, dtype=t.bool)); t.fft.fft(M(4), out=t.empty(4, dtype=t.complex128))
t.fft.irfftn(C(2, 3), out=t.empty(2, 4, dtype=t.float64)); t.fft.fftfreq(4, out=t.empty(4))
"""


@pytest.mark.parametrize(
    "text", [c.strip() for c in HELPERS.replace("\n", ";").split(";") if c.strip()]
)
def test_helpers_are_those_of_torch(beside, text):
    beside.values(text, 1e-6, 1e-6)


ERRORS = """
t.fft.fft(M(4), n=0); t.fft.fft(M(4), n=-2); t.fft.fft(M(4), norm='other'); t.fft.fft(M(4), dim=1)
t.fft.fft(M()); t.fft.rfft(C(4)); t.fft.ihfft(C(4)); t.fft.rfftn(C(4)); t.fft.irfft(C(1))
t.fft.irfft(C(4), n=0); t.fft.fftn(M(4), dim=(0, 0)); t.fft.fftn(M(4), s=(1, 2))
t.fft.fftn(M(2, 4), s=(2,), dim=(0, 1)); t.fft.fftn(M(2, 4), s=(0, 2)); t.fft.rfftn(M(2), dim=())
t.fft.irfftn(C(2), dim=()); t.fft.fft2(M(4)); t.fft.fft(M(2, 0)); t.fft.fft(M(4).bfloat16())
t.fft.fftfreq(4, dtype=t.int64); t.stft(M(20), 8); t.stft(M(20), 0, return_complex=True)
t.stft(M(20), 8, align_to_window=True, return_complex=True); t.stft(M(1, 1, 20), 8, return_complex=True)
t.stft(M(20), 8, 0, return_complex=True); t.stft(M(20), 8, win_length=9, return_complex=True)
t.stft(M(20), 8, window=M(3), return_complex=True); t.stft(M(3), 8, return_complex=True)
t.stft(M(6), 8, center=False, return_complex=True); t.stft(C(20), 8, onesided=True)
t.stft(M(20), 8, pad_mode='other', return_complex=True); t.istft(M(5, 6), 8); t.istft(C(4, 6), 8)
t.istft(C(5, 0), 8); t.istft(C(5, 6), 8, return_complex=True); t.istft(C(5, 6), 8, 9)
t.istft(C(5, 6), 8, window=C(8)); t.istft(C(8, 6), 8, onesided=True)
t.istft(C(5, 3), 8, window=t.zeros(8)); t.stft(M(20).long(), 8, return_complex=True)
"""  # noqa: E501


@pytest.mark.parametrize(
    "text", [c.strip() for c in ERRORS.replace("\n", ";").split(";") if c.strip()]
)
def test_errors_are_of_torchs_kind(beside, text):
    beside.error(text)


@pytest.mark.parametrize("n", [7, 8])
def test_inverses(n):
    x = weft.randn(3, n, dtype=weft.float64)
    z = weft.fft.ifft(weft.fft.fft(x))
    np.testing.assert_allclose(z.real.numpy(), x.numpy(), 1e-12, 1e-12)
    np.testing.assert_allclose(z.imag.numpy(), 0, 0, 1e-12)
    np.testing.assert_allclose(weft.fft.irfft(weft.fft.rfft(x), n).numpy(), x.numpy(), 0, 1e-12)
    np.testing.assert_allclose(weft.fft.hfft(weft.fft.ihfft(x), n).numpy(), x.numpy(), 0, 1e-12)
    window = weft.hann_window(4, dtype=weft.float64)
    y = weft.istft(weft.stft(x, 4, 1, window=window, return_complex=True), 4, 1, window=window)
    np.testing.assert_allclose(y.numpy(), x[:, : y.shape[1]].numpy(), 0, 1e-12)


def test_nothing_is_transformed_to_nothing():
    """PyTorch's MKL refuses empty batches."""
    for f, size in ((weft.fft.fft, 4), (weft.fft.rfft, 3), (weft.fft.irfft, 6)):
        x = weft.zeros(0, 4, requires_grad=True)
        y = f(x)
        assert y.shape == (0, size)
        assert weft.autograd.grad(y.abs().sum(), x)[0].shape == x.shape


# All radices, a factor of 13 beside one that is not, primes, and what goes in two steps.
LENGTHS = [*range(1, 32), 49, 77, 97, 169, 240, 243, 500, 512, 521, 1021, 1024, 3000]
LENGTHS += [8209, 16384, 20000]


@pytest.mark.parametrize("count", [1, 2, 5, 16, 33])
@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
def test_every_length_beside_any_number_of_others(count: int, dtype: Any) -> None:
    weft.manual_seed(0)
    bound = 2e-6 if dtype is weft.float32 else 1e-14
    for n in [n for n in LENGTHS if n * count < 40000]:
        x = weft.randn(2, n, count, dtype=dtype)[1]  # along columns, and of rows
        for real, dim in ((x, 0), (x.t().contiguous(), 1)):
            z = weft.complex(real, real.flip(0))
            exact = np.fft.fft(real.double().numpy(), axis=dim)
            kept = np.take(exact, range(n // 2 + 1), dim)
            for ours, numbers in (
                (weft.fft.fft(real, dim=dim), exact),
                (weft.fft.rfft(real, dim=dim), kept),
                (weft.fft.irfft(weft.tensor(kept).to(z.dtype), n, dim), real.numpy()),
                (weft.fft.fft(z, dim=dim), np.fft.fft(z.to(weft.complex128).numpy(), axis=dim)),
                (weft.fft.ifft(z, dim=dim), np.fft.ifft(z.to(weft.complex128).numpy(), axis=dim)),
            ):
                size = np.abs(numbers).max()
                np.testing.assert_allclose(ours.numpy(), numbers, 0, bound * size, err_msg=str(n))


def test_a_batch_of_examples_is_transformed_at_once():
    @weft.autobatch
    def spectra(x: weft.Tensor) -> weft.Tensor:
        return weft.fft.fft2(x).abs() + weft.fft.irfft(weft.fft.rfft(x), 6)

    examples = [weft.randn(4, 6) for _ in range(8)]
    with weft.record() as g:
        found = spectra(examples)
    assert len(g.find("_fft_r2c")) == 1
    for x, y in zip(examples, found):
        alone = weft.fft.fft2(x).abs() + weft.fft.irfft(weft.fft.rfft(x), 6)
        np.testing.assert_allclose(y.numpy(), alone.numpy(), 1e-5, 1e-5)


def test_nodes_are_named_as_torchs(torch):
    for lib in (weft, torch):
        x = lib.ones(4, requires_grad=True)
        names = [lib.fft.fft(x).grad_fn.name(), lib.fft.fft(x + 0j).grad_fn.name(),
                 lib.fft.rfft(x).grad_fn.name(), lib.fft.irfft(x).grad_fn.name()]  # fmt: skip
        assert names == ["FftR2CBackward0", "FftC2CBackward0", "FftR2CBackward0", "FftC2RBackward0"]
