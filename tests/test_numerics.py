"""Numerics at the edges of every dtype: values and gradients beside PyTorch's.

The pointwise ops of the table run over NaN, infinities, zeros of both signs, the smallest and the
largest normal and subnormal numbers, and the neighbours of poles and branch points, in floating,
integer and complex dtypes; what works along a dimension runs over rows of such numbers. An element
is right if it is PyTorch's, or PyTorch's in float64 for the same numbers, rounded once (weft rounds
halves at the end, PyTorch between the steps of some ops), or that of EXACT, by mpmath. What is none
of these stands in DIFFERS, with the reason.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_samples import NO_PEER, RECORDS, flat, ours, peer

import weft

FLOATING = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
COMPLEX = ["complex64", "complex128"]
# Of the number itself. PyTorch's own fits of special functions are this far from mpmath.
TOLERANCE = {
    "float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "float64": 1e-10, "complex64": 2e-5,
    "complex128": 1e-10,
}  # fmt: skip

CROSS = "F.cross_entropy(x, x.new_zeros(x.shape[0]).long(), reduction='none')"
LOGITS = "F.binary_cross_entropy_with_logits(x, x.flip(1), reduction='none')"
# "what name" or "what name dtype" with what = value, gradient; and why it differs
DIFFERS = {
    "value special_zeta": "NaN gives NaN; PyTorch has a pole there",
    "value addcdiv": "value * (a / b), where PyTorch rounds value * a first",
    "value fmod": "exact; PyTorch divides, which overflows",
    "value remainder": "exact; PyTorch divides, which overflows",
    "value logaddexp2": "2^-1 + 2^-1 is exactly 1",
    "value isclose": "the bound is exact; PyTorch rounds it to a half, and wraps it in integers",
    "value pow complex64": "0 to the power of 0 is 1, as of real numbers; PyTorch has NaN",
    "value pow complex128": "as complex64",
    "gradient pow complex64": "as the value",
    "gradient pow complex128": "as the value",
    "gradient pow float64": "2 g x overflows later than 2 x g",
    "gradient square float64": "as pow",
    "gradient special_entr float64": "-log x - 1 has no digits at 1 / e, in PyTorch as well",
    "gradient special_erfcx": "2 x y - 2 / sqrt(pi) has few digits far out, in PyTorch as well",
    "value tanhshrink bfloat16": "x - tanh x has few digits at 0, in PyTorch none",
    "value clamp_min uint8": "-1 is below every uint8; PyTorch takes it as 255",
    "value clamp_max uint8": "-1 is below every uint8; PyTorch takes it as 255",
    "gradient asin complex64": "on the branch cut a zero's sign decides, which PyTorch loses too",
    "gradient asin complex128": "as complex64",
    "gradient acos complex64": "as asin",
    "gradient acos complex128": "as asin",
    "gradient acosh complex64": "as asin",
    "gradient acosh complex128": "as asin",
    "gradient t.var(x, 1)": "of equal numbers it is what rounding their mean left",
    "gradient t.var_mean(x, 1)[0]": "as t.var",
    "gradient t.norm(x, 2, 1)": "x / norm also where PyTorch's squares vanish",
    "gradient t.norm(x, 3, 1)": "as t.norm(x, 2, 1)",
    "gradient t.norm(x[:, :1], 3, 1)": "of one number it is its sign; PyTorch has NaN far out",
    "gradient t.renorm(x[:, :1], 2, 0, 1.0)": "NaN stays NaN, where PyTorch takes it as small",
    "gradient t.cumprod(x, 1)": "products of the others; PyTorch divides by x",
    "gradient t.logcumsumexp(x, 1) float32": "exponents of large numbers have few digits",
    "gradient t.nanmean(x, 1)": "a row of NaN has no mean and no gradient",
    "gradient t.nanmedian(x, 1).values": "of a row of NaN the first; PyTorch's place is open",
    "gradient t.sort(x, 1).values": "equal numbers keep their order; PyTorch's place is open",
    "gradient F.glu(x.repeat(1, 2), 1)": "g a overflows where PyTorch multiplies it last",
    f"value {LOGITS}": "no infinity is taken from another, where PyTorch's logsigmoid is one",
    f"gradient {LOGITS} float16": "those of x and of its flip nearly cancel, and both are rounded",
    f"gradient {LOGITS} bfloat16": "as float16",
    f"value {CROSS}": "infinite beside an infinite score, where PyTorch has NaN",
    f"gradient {CROSS}": "as the value",
}

# Integers may not be divided by 0, and PyTorch crashes when it divides the lowest by -1.
DIVIDES = ["floor_divide", "remainder", "fmod", "div", "div.Mode", "true_divide"]


def _density(m: Any, x: Any) -> Any:
    return m.exp(-x * x / 2) / m.sqrt(2 * m.pi)


def _ndtr(m: Any, x: Any) -> Any:
    return m.erfc(-x / m.sqrt(2)) / 2


def _logistic(m: Any, x: Any) -> Any:
    return 1 / (1 + m.exp(-x))


def _gelu_tanh(m: Any, x: Any) -> Any:
    return x * _logistic(m, m.sqrt(8 / m.pi) * (x + m.mpf("0.044715") * x**3))


def _gelu_tanh_slope(m: Any, x: Any) -> Any:
    cube, scale = m.mpf("0.044715"), m.sqrt(8 / m.pi)
    v = scale * (x + cube * x**3)
    return _logistic(m, v) * (1 + x * _logistic(m, -v) * scale * (1 + 3 * cube * x * x))


def _tanh_softplus(m: Any, x: Any) -> Any:
    n = m.exp(x) * (m.exp(x) + 2)
    return n / (n + 2)


def _digamma(m: Any, x: Any) -> Any:
    return m.digamma(x) if x > 0 else m.digamma(1 - x) - m.pi * m.cot(m.pi * x)


def _trigamma(m: Any, x: Any) -> Any:
    if x <= 0 and x == m.floor(x):
        return m.inf
    return m.psi(1, x) if x > 0 else (m.pi / m.sin(m.pi * x)) ** 2 - m.psi(1, 1 - x)


# op: value and derivative of m (mpmath) and x
EXACT: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "log10": (lambda m, x: m.log10(x), lambda m, x: 1 / (x * m.log(10))),
    "softsign": (lambda m, x: x / (1 + abs(x)), lambda m, x: (1 + abs(x)) ** -2),
    "tanhshrink": (lambda m, x: x - m.tanh(x), lambda m, x: m.tanh(x) ** 2),
    "hardsigmoid": (
        lambda m, x: min(max(x + 3, 0), 6) / 6,
        lambda m, x: m.mpf(1) / 6 if abs(x) < 3 else m.mpf(0),
    ),
    "silu": (
        lambda m, x: x * _logistic(m, x),
        lambda m, x: _logistic(m, x) * (1 + x * _logistic(m, -x)),
    ),
    "mish": (
        lambda m, x: x * _tanh_softplus(m, x),
        lambda m, x: _tanh_softplus(m, x) + x * _logistic(m, x) * (1 - _tanh_softplus(m, x) ** 2),
    ),
    "gelu": (
        lambda m, x: x * _ndtr(m, x),
        lambda m, x: _ndtr(m, x) + x * _density(m, x),
    ),
    "gelu tanh": (_gelu_tanh, _gelu_tanh_slope),
    "lgamma": (lambda m, x: m.loggamma(x).real, _digamma),
    "digamma": (_digamma, _trigamma),
    "special_erfcx": (
        lambda m, x: m.exp(x * x) * m.erfc(x),
        lambda m, x: 2 * x * m.exp(x * x) * m.erfc(x) - 2 / m.sqrt(m.pi),
    ),
    "special_ndtr": (_ndtr, _density),
    "special_log_ndtr": (
        lambda m, x: m.log(_ndtr(m, x)),
        lambda m, x: _density(m, x) / _ndtr(m, x) if x > -(10**20) else -x,
    ),
}


def exact(name: str, sample: str, what: str, x: float) -> float:
    """By mpmath, with a number far out in place of an infinity; NaN for NaN."""
    import mpmath

    name = f"{name} tanh" if "approximate='tanh'" in sample else name
    if name not in EXACT or x != x:
        return math.nan
    mpmath.mp.dps = 700  # x * x of the largest float64 to the last digit
    try:
        if math.isfinite(x):
            return float(EXACT[name][what == "gradient"](mpmath, mpmath.mpf(x)))
        far = mpmath.mpf(10) ** 30 * (1 if x > 0 else -1)
        y = float(EXACT[name][what == "gradient"](mpmath, far))
        return math.copysign(math.inf if abs(y) > 1 else 0, y) if abs(y) != 1 else y
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        return math.inf  # a pole


@functools.cache
def edges(dtype: str, count: int) -> list[Any]:
    """The first `count` of the dtype's edges, the plainest first."""
    if dtype in INTEGERS:
        info = weft.iinfo(getattr(weft, dtype))
        given = [0, 1, 2, -1, info.max, info.min, 3, 7, -2, info.max - 1, info.min + 1, 100, -100]
        return [n for n in dict.fromkeys(given) if info.min <= n <= info.max][:count]
    if dtype in COMPLEX:
        parts = edges("float32" if dtype == "complex64" else "float64", 60)
        parts = [x for x in parts if 1e-3 <= abs(x) <= 20 or x == 0]
        return [complex(a, b) for a, b in itertools.product(parts, repeat=2)][::7][:count]
    info = weft.finfo(getattr(weft, dtype))
    eps, tiny = info.eps, info.tiny
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0]
    sizes = [tiny, tiny * eps, info.max, info.max / 2, eps, 2.0, 0.5, 0.7]
    sizes += [tiny * (1 - eps), 2 * tiny, tiny * eps * 2, eps / 4, eps * eps, eps**0.5]
    sizes += [1e-3, 1e-8, 1e-20, 1e-24, 1e-30, 1e-300, 10.0, 20.0, 88.0, 100.0, 709.0, 1e4, 1e10]
    sizes += [3.0, 6.0, math.pi, math.pi / 2, 30.0, 1e38, 1e300]
    for pole in (1.0, 2.0, 3.0, 0.5, 6.0, math.pi / 2, math.pi, 1 / math.e):
        sizes += [pole * (1 + eps), pole * (1 - eps), pole + 1e-3]
    numbers = special + [sign * size for size in sizes for sign in (1, -1)]
    held = weft.tensor(numbers, dtype=weft.float64).to(getattr(weft, dtype)).tolist()
    return list({repr(x): x for x in held}.values())[:count]


class Edges:
    """The T of a sample: every number beside every other, an axis for each tensor."""

    def __init__(self, lib: Any, dtype: str, tensors: int, wide: bool) -> None:
        self.lib, self.dtype, self.tensors, self.wide = lib, dtype, tensors, wide
        self.made: list[Any] = []
        self.divisors = False

    def T(self, *_sizes: int, lo: float = -2, hi: float = 2) -> Any:
        values = edges(self.dtype, {1: 120, 2: 44, 3: 14}[self.tensors])
        if self.divisors and self.dtype in INTEGERS:
            values = [v for v in values if v not in (0, -1)]
        shape = [len(values)] + [1] * (self.tensors - len(self.made) - 1)
        dtype = self.lib.float64 if self.wide else getattr(self.lib, self.dtype)
        t = self.lib.tensor(values, dtype=dtype).reshape(shape)
        self.made.append(t.requires_grad_() if self.dtype not in INTEGERS else t)
        return t


class Outcome:
    """The results of a call, the gradients of an uneven sum of them, or its error."""

    def __init__(self, lib: Any, f: Callable[..., Any], sample: str, inputs: Edges) -> None:
        self.values: list[Any] = []
        self.gradients: list[Any] = []
        self.error: Exception | None = None
        names = {"f": f, "T": inputs.T, "weft": lib, "torch": lib, "t": lib}
        try:
            self.values = flat(eval(sample, names))  # noqa: S307
            wanted = [t for t in self.values if getattr(t, "requires_grad", False)]
            if wanted:
                seeds = [uneven(lib, t) for t in wanted]
                self.gradients = list(
                    lib.autograd.grad(wanted, inputs.made, seeds, allow_unused=True)
                )
        except Exception as error:  # noqa: BLE001
            self.error = error


def uneven(lib: Any, t: Any) -> Any:
    """Weights, so that what sums to zero along a row is no noise; none is the mean of a row's."""
    return (lib.arange(t.numel()) % 4 * 0.5 + 0.5).reshape(t.shape).to(t.dtype)


def numbers(t: Any) -> np.ndarray:
    """Of either library, also of what PyTorch does not fill in (zeros, conjugates)."""
    t = t.detach().clone() if hasattr(t, "resolve_conj") else t.detach()
    if t.is_complex():
        return np.asarray(t.resolve_conj().tolist(), complex).reshape(t.shape)
    if t.dtype.is_floating_point:
        return t.double().numpy()
    return np.asarray(t.tolist()).reshape(t.shape)


def agree(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    """Where a is b: NaN and infinities exactly, the rest up to rounding."""
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if dtype not in TOLERANCE:
            return same
        info = weft.finfo(getattr(weft, dtype))
        size = np.maximum(np.abs(a), np.abs(b))
        size = np.maximum(size, 1) if dtype in COMPLEX else size
        # PyTorch flushes some of the smallest numbers
        least = info.tiny * info.eps * (4 if info.bits == 16 else 4096)
        near = np.abs(a - b) <= TOLERANCE[dtype] * size + least
        return same | (near & np.isfinite(a) & np.isfinite(b))


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    return weft.from_numpy(np.array(x)).to(getattr(weft, dtype)).double().numpy()


def wrong(
    got: Any, want: Any, wide: Any, at_edge: Callable[[int], float] | None
) -> list[tuple[Any, ...]]:
    """Places, weft's numbers and PyTorch's, where weft's are not right."""
    if got is None or want is None:
        rest = want if got is None else got
        return [] if rest is None or not numbers(rest).any() else [("none", got, want)]
    x, y = numbers(got), numbers(want)
    if x.shape != y.shape:
        return [("shape", x.shape, y.shape)]
    dtype = str(got.dtype).rpartition(".")[2]
    if dtype != str(want.dtype).rpartition(".")[2]:
        return [("dtype", got.dtype, want.dtype)]
    good = agree(x, y, dtype)
    if wide is not None and numbers(wide).shape == x.shape and dtype in FLOATING:
        good |= agree(x, rounded(numbers(wide), dtype), dtype)
    if at_edge is not None and x.ndim == 1 and dtype in FLOATING:
        for (i,) in np.argwhere(~good):
            exactly = rounded(np.array([at_edge(int(i))]), dtype)
            good[i] = agree(x[i : i + 1], exactly, dtype)[0]
    return [(*map(int, i), x[tuple(i)], y[tuple(i)]) for i in np.argwhere(~good)]


def differences(
    name: str, sample: str, dtype: str, outcome: Callable[[Any, bool], Outcome], torch: Any
) -> Iterator[str]:
    """What differs in one call, by `outcome(library, in float64)`."""
    want, got = outcome(torch, False), outcome(weft, False)
    if want.error is not None:
        return
    if got.error is not None:
        yield f"{sample} of {dtype}: {got.error!r}"
        return
    wide = outcome(torch, True) if dtype in FLOATING and dtype != "float64" else want
    for what in ("value", "gradient"):
        if {f"{what} {name}", f"{what} {name} {dtype}"} & DIFFERS.keys():
            continue
        ours, theirs, more = (getattr(o, f"{what}s") for o in (got, want, wide))
        if len(ours) != len(theirs):
            yield f"{sample} of {dtype}: {len(ours)} {what}s for {len(theirs)}"

        def at_edge(i: int, what: str = what) -> float:
            weight = (i % 4 * 0.5 + 0.5) if what == "gradient" else 1
            return exact(name, sample, what, edges(dtype, 120)[i]) * weight

        for k, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            third = more[k] if len(more) == len(theirs) else None
            if places := wrong(a, b, third, at_edge if name in RECORDS else None):
                yield f"{sample} of {dtype}: {what} {k}, {len(places)} places: {places[:5]}"


def calls(name: str) -> list[str]:
    """The samples of an op over T alone, but for those that differ by sizes only."""
    told = {re.sub(r"\bT\([^)]*\)", "T()", s): s for s in RECORDS[name]["samples"]}
    return [s for s in told.values() if "T(" in s and not re.search(r"\bB\(|\bI\(", s)]


NAMES = [
    n
    for n, r in RECORDS.items()
    if r["pointwise"] and not r["random"] and n not in NO_PEER and calls(n)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_pointwise(torch: Any, name: str) -> None:
    theirs = peer(torch, RECORDS[name])
    if theirs is None:
        pytest.skip("no function of this name and signature in PyTorch")
    functions = {torch: theirs, weft: ours(RECORDS[name])}
    found: list[str] = []
    for sample, dtype in itertools.product(calls(name), FLOATING + INTEGERS + COMPLEX):

        def outcome(lib: Any, wide: bool, sample: str = sample, dtype: str = dtype) -> Outcome:
            inputs = Edges(lib, dtype, len(re.findall(r"\bT\(", sample)), wide)
            inputs.divisors = name in DIVIDES
            return Outcome(lib, functions[lib], sample, inputs)

        found += differences(name, sample, dtype, outcome, torch)
    assert not found, "\n".join(found)


OPERATORS = """
x + n
x - n
n - x
x * n
x // n
x % n
t.fmod(x, n)
t.div(x, n, rounding_mode='trunc')
x ** n
x & n
x | n
x ^ n
x / n
""".strip().splitlines()


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("number", [-2, 2, 3, 127, -129, 255, 300, 2**31 - 1])
def test_integers_and_numbers(torch: Any, dtype: str, number: int) -> None:
    """255 % -2 of uint8 is 255 % 254: a number becomes of the tensor's dtype first."""
    values = [v for v in edges(dtype, 20) if v != -1]
    found = []
    for text in OPERATORS:
        if number % 256 == 0 and dtype.endswith("8"):
            continue
        made = []
        for lib in (weft, torch):
            x = lib.tensor(values, dtype=getattr(lib, dtype))
            try:
                made.append(numbers(eval(text, {"t": lib, "x": x, "n": number})))  # noqa: S307
            except RuntimeError:
                made.append(np.zeros(0))
        if made[0].shape != made[1].shape or not np.allclose(*made, rtol=1e-6, atol=0):
            found.append(f"{text}: {made[0]} for {made[1]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisors_and_multiples(torch: Any, dtype: str) -> None:
    least = weft.iinfo(getattr(weft, dtype)).min  # has no size, and PyTorch crashes dividing it
    values = [v for v in edges(dtype, 20) if v != least or v == 0]
    for name in ("gcd", "lcm"):
        made = []
        for lib in (weft, torch):
            x = lib.tensor(values, dtype=getattr(lib, dtype))
            made.append(numbers(getattr(lib, name)(x[:, None], x)))
        assert (made[0] == made[1]).all(), name


ROWS = """
t.sum(x, 1)
t.mean(x, 1)
t.var(x, 1)
t.std(x, 1)
t.std(x, 1, correction=0)
t.var_mean(x, 1)[0]
t.prod(x, 1)
t.amax(x, 1)
t.amin(x, 1)
t.max(x, 1).values
t.min(x, 1).values
t.argmax(x, 1)
t.argmin(x, 1)
t.logsumexp(x, 1)
t.softmax(x, 1)
t.log_softmax(x, 1)
t.norm(x, 2, 1)
t.norm(x, 1, 1)
t.norm(x, 3, 1)
t.norm(x, 0, 1)
t.norm(x, float('inf'), 1)
t.norm(x, -float('inf'), 1)
t.norm(x[:, :1], 2, 1)
t.norm(x[:, :1], 3, 1)
t.renorm(x[:, :1], 2, 0, 1.0)
t.cumsum(x, 1)
t.cumprod(x, 1)
t.logcumsumexp(x, 1)
t.cummax(x, 1).values
t.cummin(x, 1).values
t.nansum(x, 1)
t.nanmean(x, 1)
t.median(x, 1).values
t.nanmedian(x, 1).values
t.nanmedian(x)
t.nanmedian(x[:1])
t.aminmax(x, dim=1)
t.all(x, 1)
t.any(x, 1)
t.count_nonzero(x, 1)
t.sort(x, 1).values
t.topk(x, 2, 1).values
t.diff(x, dim=1)
t.dist(x[5], x[6])
t.isclose(x, x.flip(1), equal_nan=True)
t.clamp(x, min=x.flip(1))
t.where(x > 0, x, x.flip(1))
t.bucketize(x, t.tensor([-1., 0., 1.]).to(x.dtype))
t.nan_to_num(x)
t.nan_to_num(x, posinf=3)
F.mse_loss(x, x.flip(1), reduction='none')
F.l1_loss(x, x.flip(1), reduction='none')
F.smooth_l1_loss(x, x.flip(1), reduction='none')
F.huber_loss(x, x.flip(1), reduction='none')
F.cross_entropy(x, x.new_zeros(x.shape[0]).long(), reduction='none')
F.binary_cross_entropy_with_logits(x, x.flip(1), reduction='none')
F.poisson_nll_loss(x, x.flip(1), reduction='none')
F.soft_margin_loss(x, x.flip(1), reduction='none')
F.glu(x.repeat(1, 2), 1)
""".strip().splitlines()


def rows(dtype: str, width: int) -> list[list[float]]:
    """All pairs of some edges; or rows of one edge."""
    if width == 2:
        return [list(pair) for pair in itertools.product(edges(dtype, 16), repeat=2)]
    return [[x] * width for x in edges(dtype, 60)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", ROWS)
def test_along_rows(torch: Any, text: str) -> None:
    found: list[str] = []
    for width, dtype in itertools.product((2, 40), FLOATING):

        def outcome(lib: Any, wide: bool, dtype: str = dtype, width: int = width) -> Outcome:
            class Rows(Edges):
                def T(self, *_sizes: int, lo: float = -2, hi: float = 2) -> Any:
                    x = lib.tensor(rows(dtype, width), dtype=getattr(lib, dtype))
                    self.made.append((x.double() if wide else x).requires_grad_())
                    return self.made[0]

            inputs = Rows(lib, dtype, 1, wide)

            def call(x: Any) -> Any:
                return eval(text, {"t": lib, "F": lib.nn.functional, "x": x})  # noqa: S307

            return Outcome(lib, call, "f(T())", inputs)

        found += differences(text, f"{text} width {width}", dtype, outcome, torch)
    assert not found, "\n".join(found)


def test_this_file_can_fail(torch: Any) -> None:
    one, other = weft.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan])
    assert wrong(one, other, None, None) == []
    assert wrong(one, torch.tensor([1.0, math.inf]), None, None)
    assert wrong(one, torch.tensor([1.001, math.nan]), None, None)
    assert wrong(one, torch.tensor([1.0]), None, None)
    assert wrong(one, other.double(), None, None)
    assert wrong(one, None, None, None)
    assert exact("gelu", "f(T())", "value", -math.inf) == 0
    assert exact("digamma", "f(T())", "gradient", -1.0) == math.inf


def test_what_differs_is_of_the_table() -> None:
    for told in DIFFERS:
        what, _, name = told.partition(" ")
        names = {name, name.rpartition(" ")[0]}
        assert what in ("value", "gradient") and names & (RECORDS.keys() | set(ROWS)), told
    assert len(DIFFERS) <= 45


@pytest.mark.parametrize("name", ["asin", "acos", "acosh", "log", "sqrt"])
def test_gradients_on_a_branch_cut_are_those_of_its_side(name: str) -> None:
    """They were those of one side for both: a sum with a real number loses the sign of a zero."""
    on = [complex(x, y) for x in (-2.0, 2.0, -0.5, 0.5) for y in (0.0, -0.0)]
    beside = [complex(z.real, math.copysign(1e-9, z.imag)) for z in on]
    slopes = []
    for points in (on, beside):
        z = weft.tensor(points, dtype=weft.complex128, requires_grad=True)
        getattr(weft, name)(z).real.sum().backward()
        slopes.append(z.grad)
    weft.testing.assert_close(slopes[0], slopes[1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("call", ["x.cumsum(d)", "x.cumprod(d)", "x.prod(d)"])
def test_gradients_of_scans_of_any_number_of_rows(torch, call, dtype):
    """Rows go in fours; those behind the last must not count twice."""
    for shape in ((7,), (1, 7), (3, 7), (4, 7), (5, 7), (9, 3), (5, 1), (2, 3, 5), (50, 40)):
        for dim in range(len(shape)):
            results = []
            for lib in (weft, torch):
                lib.manual_seed(0)
                x = lib.rand(shape, dtype=getattr(lib, dtype)) + 0.5
                x.requires_grad_()
                y = eval(call, {"x": x, "d": dim})
                results.append(lib.autograd.grad(y, x, y.detach())[0].numpy())
            np.testing.assert_allclose(*results, rtol=2e-4, err_msg=f"{shape}, {dim}")


@pytest.mark.parametrize("k", [0, 1, 4, 5, 9, 130])
@pytest.mark.parametrize("n", [1, 3, 129, 600])
def test_products_of_integers_in_pieces_wrap_as_pytorchs(torch, n, k):
    """Pieces of 8 rows by 512 columns, four rows at a time."""
    torch.manual_seed(0)
    a, b = torch.randint(-(2**62), 2**62, (5, k)), torch.randint(-(2**62), 2**62, (k, n))
    c = torch.randint(-9, 9, (5, n))
    for call in ("a @ b", "t.addmm(c, a, b, beta=3, alpha=-2)", "b.t() @ a.t()"):
        theirs = eval(call, {"t": torch, "a": a, "b": b, "c": c})
        given = {name: weft.tensor(x.numpy()) for name, x in (("a", a), ("b", b), ("c", c))}
        np.testing.assert_array_equal(eval(call, {"t": weft} | given).numpy(), theirs.numpy())
