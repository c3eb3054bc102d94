"""Calls of linear algebra and of Fourier transforms that `bench/calls.py` measures."""

from call_family import Family, lines

SPECTRA = Family(
    "fft",
    "m, n = s; x = randn(m, n); c = torch.complex(x, randn(m, n)); w = torch.hann_window(n // 4)\n"
    "h = torch.fft.rfft(x); v = randn(m * n)\n"
    "sv = torch.stft(v, n // 4, window=w, return_complex=True)\n"
    "o = randn(m, 3 * n // 4); p = randn(m, n - 3); d = c.to(torch.complex128)",
    ((4, 16), (64, 1024)),
    lines("""
        torch.fft.fft(x)
        torch.fft.fft(c)
        torch.fft.fft(d)
        torch.fft.ifft(c)
        torch.fft.rfft(x)
        torch.fft.irfft(h)
        torch.fft.fft(o)
        torch.fft.rfft(p)
        torch.fft.fft(c, dim=0)
        torch.fft.rfft(v)
        torch.fft.fft2(x)
        torch.fft.fft2(c)
        torch.fft.ifft2(c)
        torch.fft.rfft2(x)
        torch.fft.fftn(c)
        torch.fft.fftshift(x)
        torch.stft(v, n // 4, window=w, return_complex=True)
        torch.istft(sv, n // 4, window=w)
        torch.hann_window(n)
    """),
    lines("""
        torch.fft.rfft(x).abs()
        torch.fft.fft2(x).abs()
        torch.stft(v, n // 4, window=w, return_complex=True).abs()
    """),
)

# Of a square matrix, or of each of many.
SQUARE = lines("""
    torch.linalg.inv(p)
    torch.linalg.solve(p, b)
    torch.linalg.det(p / n)
    torch.linalg.slogdet(p)
    torch.linalg.cholesky(p)
    torch.linalg.eigvalsh(p)
    torch.linalg.eigh(p)[0]
    torch.linalg.eigvals(a).abs().sum()
    torch.linalg.lu_factor(p)[0]
""")

LINALG = Family(
    "linalg",
    "n = s[0]; a = randn(n, n); p = a @ a.mT + n * torch.eye(n); b = randn(n, 3)\n"
    "t = randn(4 * n, n); e = randn(8, n, n) + n * torch.eye(n); l = torch.linalg.cholesky(p)",
    ((8,), (64,), (128,), (512,)),
    SQUARE
    + lines("""
        torch.linalg.qr(t)
        torch.linalg.svdvals(t)
        torch.linalg.svd(t, full_matrices=False)[1]
        torch.linalg.lstsq(t, t[:, :2])[0]
        torch.linalg.solve_triangular(l, b, upper=False)
        torch.linalg.pinv(t)
        torch.linalg.matrix_exp(a / n)
        torch.linalg.inv(e)
        torch.cholesky_solve(b, l)
    """),
    lines("""
        torch.linalg.inv(p)
        torch.linalg.solve(p, b)
        torch.linalg.cholesky(p)
    """),
)

BATCHES = Family(
    "linalg, batches of",
    "k, n = s; a = randn(k, n, n); p = a @ a.mT + n * torch.eye(n); b = randn(k, n, 3)",
    ((1000, 3), (64, 32)),
    SQUARE
    + lines("""
        torch.linalg.qr(p)
        torch.linalg.svdvals(a)
        torch.linalg.svd(a)[1]
        torch.linalg.solve_triangular(p, b, upper=True)
        torch.linalg.lu_solve(*torch.linalg.lu_factor(p), b)
    """),
)

FAMILIES = SPECTRA, LINALG, BATCHES
