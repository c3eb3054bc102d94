"""Large operands of float16 and bfloat16, whose loops convert in registers or strip by strip."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

HALVES = ["float16", "bfloat16"]
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "scaled": lambda x, y: weft.add(x, y, alpha=0.3),
    "addcmul": lambda x, y: weft.addcmul(x, y, x, value=0.7),
    "addcdiv": lambda x, y: weft.addcdiv(x, x, y),
    "maximum": weft.maximum,
    "lerp": lambda x, y: weft.lerp(x, y, 0.3),
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "abs": weft.abs,
    "relu": weft.relu,
    "exp": weft.exp,
    "number": lambda x: x + 0.1,
    "times": lambda x: 3 * x,
}


def patterns(dtype: str, step: int = 1, n: int = 1 << 16) -> Any:
    """Every half, in the order of `step` (which is odd), from the first one on."""
    bits = (np.arange(n, dtype=np.uint32) * step & 0xFFFF).astype(np.uint16)
    return weft.from_numpy(bits.view(np.int16)).view(getattr(weft, dtype))


def bits_of(x: Any) -> Any:
    """NaNs have many."""
    bits = x.contiguous().view(weft.int16).numpy().view(np.uint16)
    return np.where(weft.isnan(x).numpy(), 0x7E00, bits)


def expect_the_plain_way(f: Callable[..., Any], *operands: Any) -> None:
    """Of f over halves the bits that f over floats has, rounded."""
    got = f(*operands)
    plain = f(*(x.float() for x in operands)).to(got.dtype)
    assert got.shape == plain.shape
    np.testing.assert_array_equal(bits_of(got), bits_of(plain))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_halves_give_the_bits_of_floats(dtype: str, name: str) -> None:
    f: Callable[..., Any] = (UNARY | BINARY)[name]
    count = 1 if name in UNARY else 2
    every = [patterns(dtype, step) for step in (1, 40503)][:count]
    expect_the_plain_way(f, *every)
    for n in (1024, 1025, 4095):  # what is left behind whole vectors and strips
        expect_the_plain_way(f, *(x[3 : 3 + n] for x in every))
    square = [x.reshape(256, 256) for x in every]
    expect_the_plain_way(f, *(x.t() for x in square))
    expect_the_plain_way(f, *(x[:, ::2] for x in square))
    expect_the_plain_way(f, *(x[:, :40] for x in square))
    expect_the_plain_way(f, *(x[:1].expand(256, 256) for x in square))
    if count == 2:
        x, y = square
        for other in (y[7], y[:, :1], y[3, 5], y.t(), y[:, :1].expand(256, 256)):
            expect_the_plain_way(f, x, other)
        for other in (y[7], y[:, :1]):
            expect_the_plain_way(f, other, x)


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_in_place_and_beside_other_dtypes(dtype: str) -> None:
    x, y = patterns(dtype), patterns(dtype, 40503)
    z, strided = x.clone(), x.clone().reshape(256, 256)
    assert z.add_(y) is z
    np.testing.assert_array_equal(bits_of(z), bits_of(x + y))
    strided[:, ::2].mul_(y.reshape(256, 256)[:, 1::2])
    np.testing.assert_array_equal(
        bits_of(strided[:, ::2]),
        bits_of(x.reshape(256, 256)[:, ::2] * y.reshape(256, 256)[:, 1::2]),
    )
    np.testing.assert_array_equal(bits_of(strided[:, 1::2]), bits_of(x.reshape(256, 256)[:, 1::2]))
    integers = weft.arange(1 << 16).remainder(7).to(weft.uint8)
    np.testing.assert_array_equal(bits_of(x * integers), bits_of(x * integers.to(x.dtype)))
    assert weft.equal(
        (x.nan_to_num() + y.float().nan_to_num()), x.nan_to_num().float() + y.float().nan_to_num()
    )
    assert weft.equal(x < y, x.float() < y.float())


@pytest.mark.parametrize("dtype", HALVES)
def test_floats_are_rounded_to_the_nearest_half(dtype: str) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 100_003, dtype=np.uint32)
    every = np.arange(1 << 16, dtype=np.uint32) << 16  # those of bfloat16, and the ties
    bits = np.concatenate([bits, every, every | 0x8000, every | 0x7FFF, every | 0x8001])
    x = bits.view(np.float32)
    if dtype == "float16":
        with np.errstate(over="ignore"):
            expected = x.astype(np.float16).view(np.uint16)
    else:
        expected = ((bits + (0x7FFF + (bits >> 16 & 1))) >> 16).astype(np.uint16)
    expected = np.where(np.isnan(x), 0x7E00, expected)
    twice = weft.from_numpy(x).repeat_interleave(2)
    for given in (weft.from_numpy(x), twice[::2]):
        half = given.to(getattr(weft, dtype))
        np.testing.assert_array_equal(bits_of(half), expected)


@pytest.mark.parametrize("level", ["avx2", "baseline"])
def test_lesser_processors_give_these_bits(level: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-k", "not lesser", "-p", "no:cacheprovider"]
    subprocess.run([*command, __file__], check=True, env={**os.environ, "WEFT_CPU": level})


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", [(256, 256), (40, 33, 70), (1, 5000), (3000, 2), (31, 32)])
def test_transposes_move_halves(dtype: str, shape: tuple[int, ...]) -> None:
    x = patterns(dtype, 40503, int(np.prod(shape))).reshape(shape)
    expected = np.swapaxes(x.view(weft.int16).numpy(), 0, -1)
    got = x.transpose(0, -1).contiguous()
    assert got.is_contiguous()
    np.testing.assert_array_equal(got.view(weft.int16).numpy(), expected)


SUMS: list[tuple[tuple[int, ...], Any]] = [
    ((65536,), 0), ((256, 256), 0), ((256, 256), 1), ((256, 256), (0, 1)), ((140_001,), 0),
    ((3, 1000, 7), 1), ((3, 1000, 2), 1), ((70, 33, 130), 1), ((70, 33, 130), (0, 2)),
    ((5000, 300), 0), ((1, 17), 0), ((0, 3), 0), ((3, 0), 0), ((), 0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("shape", "dim"), SUMS)
def test_sums_are_those_of_floats_rounded(dtype: str, shape: tuple[int, ...], dim: Any) -> None:
    kind = getattr(weft, dtype)
    weft.manual_seed(0)
    x = ((weft.rand(shape) + 0.5) / 16).to(kind)  # sums below the largest half
    rounding = {"float16": 1.01 * 2**-11, "bfloat16": 1.01 * 2**-8}[dtype]
    layouts = (
        [x, x.unsqueeze(-1).expand(*shape, 3)[..., 1], x.repeat_interleave(2, -1)[..., ::2]]
        if shape
        else [x]
    )
    for given in [*layouts, *([x.mT.contiguous().mT] if len(shape) > 1 else [])]:
        for name in ("sum", "mean"):
            exact = getattr(given.double(), name)(dim).numpy()
            got = getattr(given, name)(dim)
            assert got.dtype is kind
            np.testing.assert_allclose(got.float().numpy(), exact, rounding)
            wide = getattr(given, name)(dim, keepdim=True, dtype=weft.float32)
            assert wide.dtype is weft.float32
            np.testing.assert_allclose(wide.numpy().reshape(exact.shape), exact, 1e-6)
    for edge in (float("inf"), float("nan")):
        if x.numel():
            assert weft.equal((x * edge).sum().isnan(), (x.float() * edge).sum().isnan())


@pytest.mark.parametrize("dtype", HALVES)
def test_sums_in_other_dtypes(dtype: str) -> None:
    x = weft.arange(3000).remainder(5).to(getattr(weft, dtype))
    assert x.sum(dtype=weft.float64).item() == x.sum(dtype=weft.int64).item() == 6000
    assert x.double().sum(dtype=x.dtype).dtype is x.dtype
    assert weft.sum(x, 0, dtype=weft.bool).item() is True
    out = weft.empty((), dtype=x.dtype)
    total: Any = weft.sum  # its stub has no out=
    assert total(x, 0, out=out) is out and out.item() == x.double().sum().to(x.dtype).item()
