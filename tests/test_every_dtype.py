"""The laws of the table in every dtype, beside PyTorch: value, result dtype, shape, exception type.

The samples of a record are run with their T in each dtype. One test per op collects what differs.
Where PyTorch has no kernel for a dtype (NotImplementedError) weft may compute; where it refuses for
another reason, weft refuses by an error that `except` catches alike. What differs on purpose is in
DIFFERS.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_samples import NO_PEER, RECORDS, Inputs, needs_peer, ours

import weft

INTEGERS = "uint8 int8 int16 int32 int64"
UNSIGNED = "uint16 uint32 uint64"
COMPLEX = "complex64 complex128"
FLOAT8 = "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
DTYPES = f"""bool {INTEGERS} {UNSIGNED} float16 bfloat16 float32 float64 {COMPLEX} complex32
    {FLOAT8}""".split()
# Of the result's dtype, relative to its largest element: PyTorch rounds halves between the steps of
# some ops, weft at the end.
TOLERANCE = {
    "float16": 4e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "complex64": 2e-5, "float64": 1e-11,
    "complex128": 1e-11, "complex32": 8e-3,
}  # fmt: skip

# op: the dtypes, and why they differ
DIFFERS = {
    "clamp_min": ("uint8", "-1 is below every uint8; PyTorch takes it as 255"),
    "clamp_max": ("uint8", "-1 is below every uint8; PyTorch takes it as 255"),
    "linalg_matrix_exp": ("float16 bfloat16", "PyTorch rounds every power to the half"),
    "normal.mean": (f"{COMPLEX} complex32", "complex means have normal(0, std) added by hand"),
    "cummax": (f"{COMPLEX} complex32", "a 0-d tensor is refused as others are"),
    "cummin": (f"{COMPLEX} complex32", "a 0-d tensor is refused as others are"),
    "kthvalue": (f"bool {COMPLEX} complex32", "a 0-d tensor is refused as others are"),
    "cumsum_": ("bool", "the sum of bools is an int64 tensor, which cannot be written to them"),
    "cumprod_": ("bool", "the product of bools is an int64 tensor, as the sum"),
    "adaptive_avg_pool1d": (f"{INTEGERS} {UNSIGNED} {COMPLEX}", "size 1 is no case of its own"),
    "dropout": (UNSIGNED, "no number but a floating one is dropped: RuntimeError as for all ints"),
    "feature_dropout": (UNSIGNED, "as dropout"),
    "alpha_dropout": (UNSIGNED, "as dropout"),
    "l1_loss": (UNSIGNED, "the difference is computed, then it has no mean: RuntimeError"),
    "sum.dim": (FLOAT8, "PyTorch sums over several dimensions, not over one"),
    "index_put": (FLOAT8, "what is added is computed"),
    "constant_pad_nd": ("float8_e8m0fnu", "the least number stands for 0, as fill_ has it"),
    "pad": ("float8_e8m0fnu", "as constant_pad_nd"),
    "adaptive_avg_pool2d": (COMPLEX, "size 1 is no case of its own"),
    "adaptive_avg_pool3d": (COMPLEX, "size 1 is no case of its own"),
}


class Typed(Inputs):
    """T as numbers that every dtype holds; unsigned ones lose their sign."""

    def T(self, *sizes: int, lo: float = -2, hi: float = 2) -> Any:
        kind = getattr(weft, self.dtype)
        values = self.rng.uniform(lo, hi, sizes)
        if kind.is_complex:
            values = values + 1j * self.rng.uniform(lo, hi, sizes)
        elif kind is weft.bool:
            values = values > (lo + hi) / 2
        elif not kind.is_floating_point:
            values = np.trunc(values * 3).astype("int64")
            if self.dtype == "uint64":
                values = values.astype("uint64")  # what is negative becomes huge
            elif not kind.is_signed:
                values = np.abs(values)
        t = self._tensor(values, self.dtype)
        if self.grad:
            self.leaves.append(t.requires_grad_())
        return t


Outcome = tuple[list[Any], Exception | None]


def outcome(lib: Any, f: Callable[..., Any], sample: str, dtype: str, **how: bool) -> Outcome:
    """What the call gives, or the error that it raises."""
    try:
        return Typed(lib, dtype, sample, **how).run(f, sample), None
    except Exception as error:  # noqa: BLE001
        return [], error


def builtin(error: Exception) -> type:
    """The type of the error, as far as both libraries have it."""
    return next(t for t in type(error).__mro__ if t.__module__ == "builtins")


def unlike(got: Any, expected: Any, dtype: str, values: bool = True) -> str | None:
    """What tells two results apart."""
    if not hasattr(expected, "dtype"):
        return None if got == expected or got != got else f"{got} for {expected}"
    if tuple(got.shape) != tuple(expected.shape):
        return f"shape {tuple(got.shape)} for {tuple(expected.shape)}"
    if str(got.dtype) != str(expected.dtype):
        return f"{got.dtype} for {expected.dtype}"
    result = str(expected.dtype).removeprefix("torch.")
    limit = TOLERANCE.get(result, 0) and max(TOLERANCE[result], TOLERANCE.get(dtype, 0))
    a = np.asarray(got.detach().tolist())
    b = np.asarray(expected.detach().resolve_conj().clone().tolist())
    finite = np.abs(b[np.isfinite(b)])
    limit *= max(1, finite.max()) if finite.size else 1
    if values and not np.allclose(a, b, 0, limit, equal_nan=True):
        return f"values {a.reshape(-1)[:4]} for {b.reshape(-1)[:4]}"
    return None


def difference(got: Outcome, expected: Outcome, dtype: str, values: bool = True) -> str | None:
    """What tells two outcomes apart, or None; see the top of the file."""
    (mine, error), (theirs, refused) = got, expected
    if refused is not None:
        if error is None:
            no_kernel = isinstance(refused, NotImplementedError)
            return None if no_kernel else f"no {builtin(refused).__name__}: {refused}"
        if not isinstance(error, builtin(refused)):
            return f"{type(error).__name__} for {builtin(refused).__name__}: {error}"
        return None if str(error).startswith("[") else f"not of the grammar: {error}"
    if error is not None:
        empty = all(hasattr(t, "numel") and t.numel() == 0 for t in theirs)
        return None if empty else f"{type(error).__name__}: {error}"  # no kernel sees empty tensors
    found = (unlike(a, b, dtype, values) for a, b in zip(mine, theirs, strict=False))
    return next(filter(None, found), None)


def cases(name: str, form: str = "") -> Iterator[tuple[str, str]]:
    """The samples of an op in the dtypes that its tensors can have; "_": in place."""
    skipped = [d for n in (name, name + form) for d in DIFFERS.get(n, ("", ""))[0].split()]
    if "_polynomial_" in name:
        skipped.append("uint64")  # computed in float64, which overflows later
    for sample in RECORDS[name]["samples"]:
        for dtype in DTYPES if "T(" in sample else ["float32"]:
            # PyTorch asks no kernel for empty tensors and the 0-d ones: only weft refuses float8
            unasked = dtype in FLOAT8 and ("T(0" in sample or "T()" in sample)
            if dtype not in skipped and not unasked:
                yield sample, dtype


def public(record: dict[str, Any]) -> Callable[..., Any]:
    """The function that users call: a library's op stands behind one with checks of its own."""
    if "call" not in record:
        return ours(record)
    found: Any = weft
    for part in record["public_name"].split("."):
        found = getattr(found, part, None)
    return found or record["call"]


def report(found: list[str]) -> None:
    assert not found, "\n".join(found[:20])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


NAMES = [n for n, r in RECORDS.items() if r["samples"]]


@pytest.mark.parametrize("name", NAMES)
def test_every_dtype_gives_what_pytorch_gives(torch: Any, name: str) -> None:
    theirs, mine, found = needs_peer(torch, name), public(RECORDS[name]), []
    for sample, dtype in cases(name):
        expected = outcome(torch, theirs, sample, dtype)
        if expected[1] is not None and name.startswith("_"):
            continue  # the functions that use it have checked
        got = outcome(weft, mine, sample, dtype)
        what = difference(got, expected, dtype, "empty" not in name)
        if what:
            found.append(f"{sample} of {dtype}: {what}")
    report(found)


@pytest.mark.parametrize("name", [n for n in NAMES if not RECORDS[n]["random"]])
def test_strided_is_contiguous_in_every_dtype(name: str) -> None:
    if any(word in name for word in ("empty", "view", "as_strided", "_one_of_several")):
        pytest.skip("uninitialised values, or the layout is the op's subject")
    f, found = ours(RECORDS[name]), []
    for sample, dtype in cases(name):
        if "as_strided" in sample:
            continue
        plain, spread = (outcome(weft, f, sample, dtype, strided=s) for s in (False, True))
        if spread[1] and "contiguous" in str(spread[1]) and name.startswith("_"):
            continue  # its users see to that
        if type(plain[1]) is not type(spread[1]):
            found.append(f"{sample} of {dtype}: {plain[1]!r} and {spread[1]!r}")
        for a, b in zip(spread[0], plain[0], strict=True):
            x, y = (np.asarray(t.tolist() if hasattr(t, "tolist") else t) for t in (a, b))
            limit = TOLERANCE.get(dtype, 1e-5)
            if not np.allclose(x, y, limit, limit, equal_nan=True):
                found.append(f"{sample} of {dtype}: {x.reshape(-1)[:4]} and {y.reshape(-1)[:4]}")
    report(found)


def in_place(name: str) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, name + "_")(*args, **kwargs)

    return call


@pytest.mark.parametrize("name", [n for n in NAMES if RECORDS[n]["inplace"]])
def test_in_place_is_pytorchs_in_every_dtype(torch: Any, name: str) -> None:
    form, found = RECORDS[name]["public_name"], []
    if not hasattr(torch.Tensor, form + "_"):
        pytest.skip("no such method in PyTorch")
    for sample, dtype in cases(name, "_"):
        if not sample.startswith(("f(T", "f(I", "f(B")):
            continue
        got, expected = (outcome(lib, in_place(form), sample, dtype) for lib in (weft, torch))
        what = difference(got, expected, dtype)
        if what:
            found.append(f"{sample} of {dtype}: {what}")
    report(found)


def gradients(lib: Any, f: Callable[..., Any], sample: str, dtype: str) -> list[Any]:
    """Of a random sum of the results."""
    inputs = Typed(lib, dtype, sample, grad=True)
    rng, total = np.random.default_rng(1), None
    for t in inputs.run(f, sample):
        shape = getattr(t, "shape", ())
        seed = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        if getattr(t, "requires_grad", False):
            weight = lib.tensor(seed.tolist(), dtype=lib.complex128).reshape(t.shape)
            part = (t * weight if t.is_complex() else t.double() * weight.real).sum()
            part = part.real if part.is_complex() else part
            total = part if total is None else total + part
    if total is None or not inputs.leaves:
        return []
    return list(lib.autograd.grad(total, inputs.leaves, allow_unused=True))


DIFFERENTIABLE = [n for n in NAMES if RECORDS[n]["differentiable"] or RECORDS[n]["composite"]]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_of_halves_and_complex_numbers_are_pytorchs(torch: Any, name: str) -> None:
    theirs, mine, found = needs_peer(torch, name), public(RECORDS[name]), []
    for sample, dtype in cases(name):
        if dtype not in ("float16", "bfloat16", "complex128"):
            continue
        try:
            expected = gradients(torch, theirs, sample, dtype)
        except (RuntimeError, TypeError, ValueError):
            continue  # PyTorch cannot
        try:
            got = gradients(weft, mine, sample, dtype)
        except Exception as error:  # noqa: BLE001
            if any(t.numel() for t in outcome(torch, theirs, sample, dtype)[0]):
                found.append(f"{sample} of {dtype}: {type(error).__name__}: {error}")
            continue
        for a, b in zip(got, expected, strict=False):
            if a is None or b is None:
                rest = b if a is None else a
                if rest is not None and bool((rest != 0).any()):
                    found.append(f"{sample} of {dtype}: {a} for {b}")
            elif what := unlike(a, b, dtype):
                found.append(f"{sample} of {dtype}: {what}")
    report(found)


def test_this_file_can_fail(torch: Any) -> None:
    one, zero = ([weft.ones(2)], None), ([torch.zeros(2)], None)
    assert difference(one, zero, "float32") and not difference(one, zero, "float32", values=False)
    assert difference(one, ([torch.ones(2).double()], None), "float32")
    assert difference(one, ([], RuntimeError("refused")), "float32")
    assert difference(([], ValueError("[f] wrong")), ([], RuntimeError("refused")), "float32")
    with pytest.raises(AssertionError):
        report(["one"])


def test_what_differs_is_of_the_table() -> None:
    for name, (dtypes, _) in DIFFERS.items():
        assert (
            name.removesuffix("_") in RECORDS
            and name not in NO_PEER
            and set(dtypes.split()) <= set(DTYPES)
        )
    assert len(DIFFERS) <= 20


def refused(kind: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (RuntimeError, TypeError, OverflowError) as error:
        return f"{kind} {type(error).__name__.replace('NotImplementedError', 'RuntimeError')}"


@pytest.mark.parametrize("dtype", DTYPES[:12])
def test_what_is_compared_is_of_one_dtype(dtype: str, torch: Any) -> None:
    """uint8 255 == -1 and float16 inf == 1e6 were False: the number became of no narrow dtype."""
    whole = "int" in dtype
    numbers: list[Any] = [0, 1, 44, 127] if whole else [0.0, 0.1, 3.0, float("inf"), float("nan")]
    if dtype[0] == "u":
        numbers += [255]
    elif dtype == "bool":
        numbers = [False, True]
    else:
        numbers += [-1]
    others = [-1, 255, 300, 2**31, 2**40, -129, 0.1, 1.5, 1e6, 1e39, -1e300, float("nan"), True]
    tensors = [(-1, "int64"), (300, "int64"), (300, "int16"), (0.1, "float64"), (1e6, "float32")]
    for name in "eq ne lt le gt ge".split():
        told = []
        for lib in (weft, torch):
            x = lib.tensor(numbers, dtype=getattr(lib, dtype))
            right: list[Any] = [*others]
            right += [lib.tensor(v, dtype=getattr(lib, kind)) for v, kind in tensors]
            told.append([refused(name, lambda: getattr(x, name)(y).tolist()) for y in right])  # noqa: B023
        wrong = [pair for pair in zip(*told, strict=True) if pair[0] != pair[1]]
        if dtype in UNSIGNED.split():  # PyTorch orders none of them
            wrong = [pair for pair in wrong if not isinstance(pair[1], str)]
        assert not wrong, (name, wrong)


MADE = [
    "t.linspace(0, 1, 7, {})", "t.logspace(0, 1, 7, {})", "t.arange(0, 7, 1.75, {})",
    "t.arange(3, {})", "t.full((2,), 0.1, {})", "t.full((2,), 1, {})", "t.zeros(2, {})",
    "t.ones(2, {})", "t.eye(2, {})", "t.range(0, 6, 1.5, {})", "t.full((2,), 2**64 - 1, {})",
    "t.full((2,), 2**63, {})", "t.full_like(t.ones(2, {}), 2**64 - 1)", "t.full((2,), -1, {})",
    "t.ones(1, {}).new_full((2,), 2**64 - 1)", "t.full_like(t.ones(2), 2**63, {})",
]  # fmt: skip


@pytest.mark.parametrize("call", MADE)
def test_what_is_made_of_numbers(call: str, torch: Any) -> None:
    """linspace into a float64 tensor was computed in float32; full refused 2**64 - 1 in uint64."""
    outs = ["out=t.empty(0, dtype=t.{})"] * ("_like" not in call and "new" not in call)
    mixed = ["dtype=t.float32, out=t.empty(0, dtype=t.{})"] * len(outs)
    for way in ["dtype=t.{}", *outs, *mixed]:
        for dtype in "uint64 int64 int32 float64 float32 float16 complex64".split():
            text = call.format(way.format(dtype))
            told = []
            for lib in (weft, torch):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    made = refused("", lambda: eval(text, {"t": lib}))  # noqa: B023, S307
                told.append(made if isinstance(made, str) else (str(made.dtype), made.tolist()))
            if "float16" in text or "complex" in text or ".float32)" in text:
                told = [x if isinstance(x, str) else x[0] for x in told]  # the values elsewhere
            elif told[1] == " RuntimeError" and "float32, out=" not in text:
                continue  # ops that PyTorch has not for a dtype, and what they compute
            assert told[0] == told[1], text
