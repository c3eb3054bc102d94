"""The array API standard 2025.12: names and signatures, dtypes, promotion, special values, and
values beside NumPy, which follows the standard too. (The public suite: `make array-api`.)"""

import inspect
import itertools
import math
from inspect import Parameter
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import array_api as xp

HERE = Path(__file__).parent
INTEGERS = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
DTYPES = ("bool", *INTEGERS, *UNSIGNED, *FLOATS, *COMPLEX)


def entries():
    """Each name of the standard with its signature, or a name alone for a property."""
    text = (HERE / "names.txt").read_text().partition("\n")[2]
    for section in text.split("-- ")[1:]:
        for entry in " ".join(section.splitlines()[1:]).split("; "):
            name, bracket, arguments = entry.partition("(")
            yield name, f"({arguments}" if bracket else None


def signature(text):
    names = {"inf": math.inf}
    exec(f"def f{text}: ...", names)  # noqa: S102
    return inspect.signature(names["f"])


def thing(name):
    *path, last = name.split(".")
    home = weft.ones(1, 1) if path == ["array"] else getattr(xp, path[0]) if path else xp
    return getattr(home, last)


@pytest.mark.parametrize("name, text", [pytest.param(*e, id=e[0]) for e in entries()])
def test_every_name_is_there_with_the_standard_s_arguments(name, text):
    found = thing(name)
    try:
        ours = inspect.signature(found) if text else None
    except ValueError:  # the core's own, which has no other arguments than tensors
        return
    if text is None or isinstance(found, type(weft.abs)):  # of which Python 3.13 says (*args, **kw)
        return
    parameters = list(ours.parameters.values())
    expected = list(signature(text).parameters.values())
    expected = [p for p in expected if p.name != "self"]
    assert callable(found)
    for place, wanted in enumerate(expected):
        if wanted.kind is Parameter.POSITIONAL_ONLY:
            assert parameters[place].kind in (
                Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD,
            )  # fmt: skip
        elif wanted.kind is Parameter.VAR_POSITIONAL:
            assert parameters[place].kind is Parameter.VAR_POSITIONAL
        else:
            given = ours.parameters[wanted.name]
            assert given.kind in (wanted.kind, Parameter.POSITIONAL_OR_KEYWORD)
            if wanted.default not in (Parameter.empty, None):
                assert given.default == wanted.default


def test_the_list_is_the_standard_s():
    names = [name for name, _ in entries()]
    assert len(names) == len(set(names)) and len(names) == 215


def test_constants_and_version():
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(xp.nan) and xp.__array_api_version__ == "2025.12"


def test_the_namespace_of_a_tensor():
    x = weft.ones(2)
    assert x.__array_namespace__() is xp is x.__array_namespace__(api_version="2025.12")
    assert x.__array_namespace__(api_version="2021.12") is xp
    with pytest.raises(ValueError, match="2030.12"):
        x.__array_namespace__(api_version="2030.12")
    assert x.to_device("cpu") is x and x.to_device(x.device) is x
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)


# ---- dtypes


def common(a, b):
    """What NumPy promotes two dtypes to, or None where the standard has no common dtype."""
    kinds = [np.dtype(n).kind for n in (a, b)]
    if sorted(kinds) == ["i", "u"] and "uint64" in (a, b):
        return None
    return np.result_type(np.dtype(a), np.dtype(b)).name


SAME_KIND = [
    pair
    for kinds in ((*INTEGERS, *UNSIGNED), (*FLOATS, *COMPLEX), ("bool",))
    for pair in itertools.product(kinds, repeat=2)
]


@pytest.mark.parametrize("a, b", SAME_KIND)
def test_promotion_is_the_standard_s_table(a, b):
    kinds = getattr(xp, a), getattr(xp, b)
    if (name := common(a, b)) is None:
        with pytest.raises(TypeError, match="common"):
            xp.result_type(*kinds)
        assert not xp.can_cast(*kinds)
        return
    wanted = getattr(xp, name)
    assert xp.result_type(*kinds) is wanted
    assert xp.can_cast(*kinds) == (name == b)
    for shapes in itertools.product([(), (2,)], repeat=2):
        x, y = (xp.ones(shape, dtype=kind) for shape, kind in zip(shapes, kinds))
        assert xp.result_type(x, y) is wanted
        if a != "bool":
            assert xp.add(x, y).dtype is wanted and xp.equal(x, y).all()
        assert xp.where(xp.asarray(True), x, y).dtype is wanted
        assert xp.concat([x, y], axis=None).dtype is wanted


@pytest.mark.parametrize("name", DTYPES)
def test_a_number_counts_by_its_kind(name):
    x = xp.ones((), dtype=getattr(xp, name))
    if name != "bool":
        assert xp.multiply(x, 2).dtype is x.dtype is xp.multiply(2, x).dtype
    assert xp.where(xp.asarray(True), x, True).dtype is x.dtype
    if name in (*FLOATS, *COMPLEX):
        assert xp.pow(x, 0.5).dtype is x.dtype
        assert xp.add(x, 1j).dtype is x.dtype.to_complex()
    with pytest.raises(TypeError, match="at least one array"):
        xp.add(1, 2.0)
    with pytest.raises(TypeError, match="str"):
        xp.add(x, "a")


def test_kinds():
    info = xp.__array_namespace_info__()
    kinds = {
        "bool": ("bool",), "signed integer": INTEGERS, "unsigned integer": UNSIGNED,
        "integral": INTEGERS + UNSIGNED, "real floating": FLOATS, "complex floating": COMPLEX,
        "numeric": DTYPES[1:],
    }  # fmt: skip
    for kind, names in kinds.items():
        assert tuple(info.dtypes(kind=kind)) == names
        for name in DTYPES:
            assert xp.isdtype(getattr(xp, name), kind) == (name in names)
    assert tuple(info.dtypes()) == DTYPES
    assert info.dtypes(kind=("bool", "real floating")).keys() == {"bool", *FLOATS}
    assert xp.isdtype(xp.int8, ("bool", xp.int8)) and not xp.isdtype(xp.int8, xp.int16)
    for call in (lambda: xp.isdtype(xp.int8, "int"), lambda: info.dtypes(kind="int")):
        with pytest.raises(ValueError, match="'int'"):
            call()
    with pytest.raises(TypeError):
        xp.isdtype(xp.int8, int)


def test_defaults_and_capabilities():
    info = xp.__array_namespace_info__()
    assert info.default_dtypes() == {
        "real floating": xp.float32, "complex floating": xp.complex64, "integral": xp.int64,
        "indexing": xp.int64,
    }  # fmt: skip
    assert info.devices() == (info.default_device(),) == (weft.device("cpu"),)
    deepest = info.capabilities()["max dimensions"]
    assert xp.ones((1,) * deepest).ndim == deepest
    with pytest.raises(RuntimeError):
        xp.ones((1,) * (deepest + 1))


@pytest.mark.parametrize("name", DTYPES[1:])
def test_limits(name):
    kind = getattr(xp, name)
    for given in (kind, xp.ones(1, dtype=kind)):
        if name in INTEGERS + UNSIGNED:
            ours, theirs = xp.iinfo(given), np.iinfo(name)
            assert (ours.bits, ours.min, ours.max) == (theirs.bits, theirs.min, theirs.max)
            assert ours.dtype is kind
        else:
            ours, theirs = xp.finfo(given), np.finfo(name)
            assert ours.dtype is kind.to_real() and type(ours.eps) is float
            for field in ("bits", "eps", "max", "min", "smallest_normal"):
                assert getattr(ours, field) == getattr(theirs, field)


@pytest.mark.parametrize("name", DTYPES[1:9])
@pytest.mark.parametrize("of", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_sums_of_integers_are_wide(name, of):
    x = xp.asarray([1, 2, 3], dtype=getattr(xp, name))
    wanted = xp.uint64 if name.startswith("u") else xp.int64
    out = getattr(xp, of)(x)
    assert out.dtype is wanted and out.tolist() == getattr(np, of)(np.array([1, 2, 3])).tolist()
    assert getattr(xp, of)(x, dtype=xp.float32).dtype is xp.float32
    assert getattr(xp, of)(xp.astype(x, xp.float32)).dtype is xp.float32


# ---- special values

SPECIAL = """\
floor_divide(inf, 2) inf; floor_divide(inf, -2) -inf; floor_divide(-inf, 2) -inf
floor_divide(-inf, -2) inf; floor_divide(2, -inf) -0; floor_divide(-2, inf) -0
floor_divide(2, inf) 0; floor_divide(-2, -inf) 0; floor_divide(inf, inf) nan
floor_divide(0, 0) nan; floor_divide(1, 0) inf; floor_divide(-1, 0) -inf
floor_divide(nan, 1) nan; floor_divide(-7, 2) -4; remainder(-0, 2) 0; remainder(0, -2) -0
remainder(-4, 2) 0; remainder(4, -2) -0; remainder(2, inf) 2; remainder(-2, inf) inf
remainder(2, -inf) -inf; remainder(inf, 2) nan; remainder(2, 0) nan; sign(nan) nan; sign(-0) 0
sign(-inf) -1; clip(nan, 0, 1) nan; clip(0, nan, 1) nan; clip(0, 0, nan) nan
maximum(nan, 1) nan; minimum(1, nan) nan; pow(nan, 0) 1; pow(1, nan) 1; pow(-inf, 3) -inf
pow(0, -1) inf; pow(-0, -1) -inf; hypot(inf, nan) inf; atan2(0, -0) 3.1415927
atan2(-0, -0) -3.1415927; atan2(-0, 0) -0; logaddexp(nan, 1) nan; copysign(1, -0) -1
copysign(-1, 0) 1; divide(1, -0) -inf; divide(0, 0) nan; exp(-inf) 0; expm1(-0) -0; log(0) -inf
log(-1) nan; log1p(-1) -inf; sqrt(-0) -0; sqrt(-1) nan; round(-0.5) -0; round(2.5) 2
floor(-0) -0; ceil(-0.5) -0; trunc(-0.5) -0; tanh(inf) 1; atanh(1) inf; acosh(0) nan
nextafter(0, nan) nan; signbit(-0) True; signbit(0) False; isfinite(nan) False; isinf(-inf) True"""


@pytest.mark.parametrize("kind", FLOATS)
def test_special_values(kind):
    wrong = []
    names = {"nan": math.nan, "inf": math.inf}
    for line in SPECIAL.replace("\n", "; ").split("; "):
        call, wanted = line.rsplit(" ", 1)
        name, _, rest = call.partition("(")
        operands = [float(eval(a, names)) if a != "-0" else -0.0  # noqa: S307
                    for a in rest[:-1].split(", ")]  # fmt: skip
        out = getattr(xp, name)(*(xp.asarray(o, dtype=getattr(xp, kind)) for o in operands))
        wanted = float({"True": "1", "False": "0"}.get(wanted, wanted))
        got = float(out)
        same = (
            math.isnan(got) and math.isnan(wanted)
            or math.isclose(got, wanted, rel_tol=1e-6)
            and math.copysign(1, got) == math.copysign(1, wanted)
        )  # fmt: skip
        if not same:
            wrong.append(f"{line}: {got}")
    assert not wrong, wrong


def test_complex_special_values():
    """expm1 was NaN wherever the exponential is infinite."""
    inf, nan = math.inf, math.nan
    table = [
        (complex(-0.0, 0), 0j), (complex(inf, 0), complex(inf, 0)), (complex(-inf, inf), -1 + 0j),
        (complex(-inf, nan), -1 + 0j), (complex(inf, nan), complex(inf, nan)),
        (complex(inf, inf), complex(inf, nan)), (complex(nan, 0), complex(nan, 0)),
        (complex(1, inf), complex(nan, nan)), (complex(inf, 2), complex(-inf, inf)),
    ]  # fmt: skip
    for given, wanted in table:
        for kind in COMPLEX:
            got = xp.expm1(xp.asarray(given, dtype=getattr(xp, kind))).item()
            assert str(got) == str(wanted), given
    x = xp.asarray([3 + 4j, 0j, complex(nan, 0)])
    assert str(xp.sign(x[:2]).tolist()) == "[(0.6000000238418579+0.800000011920929j), 0j]"
    assert xp.isnan(xp.sign(x))[2] and xp.round(xp.asarray([1.5 - 2.5j])).tolist() == [2 - 2j]


# ---- values beside NumPy

A, B = np.arange(24.0).reshape(2, 3, 4) % 7 - 2, np.array([[2.0, 1.0, 3.0, 1.0]])
I = np.array([[3, 1, 2], [1, 1, 0]])  # noqa: E741
CALLS = """\
all(A, axis=(0, 2)); any(A, axis=()); max(A, axis=(0, 1), keepdims=True); min(A)
mean(A, axis=1); sum(A, axis=()); sum(A, axis=(0, -1)); prod(A, axis=(0, 1)); prod(A, axis=())
prod(A, keepdims=True); var(A, axis=(0, 1), correction=1); var(A, axis=0, correction=0.5)
std(A); std(A, keepdims=True); cumulative_sum(A, axis=1)
cumulative_sum(A, axis=-1, include_initial=True)
cumulative_prod(A, axis=0, include_initial=True); argmax(A); argmax(A, axis=1, keepdims=True)
argmin(A, keepdims=True); count_nonzero(A, axis=(0, 2), keepdims=True); count_nonzero(A)
nonzero(I)[1]; searchsorted(sort(B[0, ...]), 2.0, side="right")
searchsorted(B[0, ...], B, sorter=argsort(B[0, ...])); take(A, I[1, ...], axis=1)
take(I[0, ...], asarray([-1, 0])); take_along_axis(A, argsort(A, axis=1), axis=1)
where(A > 0, A, B); sort(unique_values(I)); unique_counts(I).counts
unique_inverse(I).inverse_indices; unique_all(I).indices; unique_all(A).counts
isin(I, asarray([1, 9])); isin(I, 1, invert=True); sort(A, axis=1, descending=False)
argsort(I, axis=1, stable=True); diff(A, n=2); diff(A, axis=0, prepend=A[:1, ...])
concat([A, A], axis=None); concat([A, A], axis=1); stack([I, I], axis=-1); unstack(A, axis=1)[2]
expand_dims(A, axis=(0, -1)); expand_dims(A, axis=-2); squeeze(A[:1, ...], axis=0); flip(A)
flip(A, axis=(0, 2)); roll(A, 5); roll(A, 1, axis=(0, 2)); roll(A, (1, 2), axis=(0, 2))
tile(I, (2, 1, 2)); repeat(I, 2); repeat(I, asarray([2, 0, 1]), axis=1)
permute_dims(A, (2, 0, 1)); moveaxis(A, (0, 1), (-1, 0)); reshape(A, (4, -1))
reshape(A, (6, 4), copy=True); broadcast_to(B, (3, 4)); broadcast_arrays(A, B)[1]
matrix_transpose(A); matmul(A, matrix_transpose(A)); tensordot(A, A, axes=((0, 2), (0, 2)))
vecdot(A, B); tensordot(I, I, axes=1) if False else tensordot(I, matrix_transpose(I), axes=1)
tensordot(A, A, axes=3); vecdot(A, A, axis=-3); tril(A, k=1); triu(A, k=-1); eye(3, 4, k=1)
eye(2, k=-9); meshgrid(B[0, :3], B[0, ...])[0]; linspace(0.0, 1.0, 5, endpoint=False)
arange(1, 7, 2); arange(3, 1); arange(3, 1, -1); full((2,), 3.5); ones(3)
linalg.cross(A[..., :3], B[..., :3]); linalg.diagonal(A, offset=1); linalg.trace(A, offset=-1)
linalg.trace(I); linalg.outer(B[0, ...], I[0, ...]); linalg.matrix_norm(A, ord=1, keepdims=True)
linalg.matrix_norm(A, ord="nuc"); linalg.vector_norm(A, axis=(0, 1), ord=3)
linalg.vector_norm(A, keepdims=True); linalg.vector_norm(A, ord=math.inf, axis=1)
linalg.matrix_rank(A); linalg.matrix_rank(A, rtol=0.2); linalg.pinv(A); linalg.svdvals(A)
linalg.slogdet(S).logabsdet; linalg.solve(S, B[0, :3]); linalg.solve(S, A[..., :3])
linalg.inv(S); linalg.cholesky(S, upper=True); linalg.eigvalsh(S); fft.fft(A, axis=1, n=4)
fft.rfft(A, norm="ortho"); fft.irfft(A, n=5); fft.fftn(A, axes=(0, 2))
fft.irfftn(A, axes=(0, 1)); fft.fftfreq(5, d=0.5); fft.rfftfreq(4); fft.fftshift(A, axes=1)
fft.ifftshift(A); clip(A, 0.0, 2.0); clip(A, max=B); clip(I, -300, 2)
result_type(A, B) == A.dtype; astype(I, float64); abs(A); hypot(A, B); bitwise_left_shift(I, 2)
bitwise_xor(I, I); floor_divide(A, B); remainder(A, B); pow(B, A); logical_xor(A > 0, B > 1)
nextafter(A, B); atan2(A, B); copysign(A, -B); equal(A, 1); divide(A, 2)"""


def numpy_names():
    """NumPy's names with those of the standard that it lacks or has elsewhere."""
    names = {n: getattr(np, n) for n in dir(np) if not n.startswith("_")} | {"math": math}
    names["tensordot"] = lambda a, b, axes=2: np.tensordot(a, b, axes)
    names["sort"] = lambda x, axis=-1, descending=False: np.sort(x, axis=axis)
    return names


@pytest.mark.parametrize("call", CALLS.replace("\n", "; ").split("; "))
def test_values_are_numpy_s(call):
    S = np.eye(3) * 3 + 0.5
    theirs = eval(call, numpy_names() | {"A": A, "B": B, "I": I, "S": S})  # noqa: S307
    names = {n: getattr(xp, n) for n in dir(xp)} | {"math": math}
    given = {n: weft.from_numpy(a.copy()) for n, a in (("A", A), ("B", B), ("I", I), ("S", S))}
    weft.set_default_dtype(weft.float64)
    try:
        ours = eval(call, names | given)  # noqa: S307
    finally:
        weft.set_default_dtype(weft.float32)
    if not isinstance(theirs, (np.ndarray, np.generic)):
        assert ours == theirs
        return
    assert tuple(ours.shape) == theirs.shape and str(ours.dtype) == f"torch.{theirs.dtype}"
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6, atol=1e-9)


# ---- what the standard says of errors, copies and sets


def test_copies_are_as_asked():
    x = xp.asarray([1.0, 2.0])
    assert xp.asarray(x) is x and xp.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert xp.astype(x, x.dtype, copy=False) is x
    assert xp.astype(x, x.dtype).data_ptr() != x.data_ptr()
    assert xp.reshape(x, (2, 1), copy=False).data_ptr() == x.data_ptr()
    assert xp.reshape(x, (2, 1), copy=True).data_ptr() != x.data_ptr()
    assert xp.sum(x, axis=()).data_ptr() != x.data_ptr() and xp.tile(x, (1,)) is not x
    array = np.ones(2)
    assert xp.asarray(array, copy=False).data_ptr() == array.ctypes.data
    array.flags.writeable = False  # SciPy writes into what asarray gives
    assert xp.asarray(array).data_ptr() != array.ctypes.data
    assert xp.from_dlpack(x, copy=True).data_ptr() != x.data_ptr() == xp.from_dlpack(x).data_ptr()
    refused = (
        lambda: xp.asarray(x, dtype=xp.float64, copy=False), lambda: xp.asarray([1], copy=False),
        lambda: xp.asarray(array, dtype=xp.int64, copy=False),
        lambda: xp.reshape(xp.ones((2, 3)).T, (6,), copy=False),
    )  # fmt: skip
    for call in refused:
        with pytest.raises(ValueError, match="copy=False"):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: xp.squeeze(x, axis=0), lambda x: xp.expand_dims(x, axis=(0, 0)),
        lambda x: xp.broadcast_shapes((2,), (3,)), lambda x: xp.nonzero(xp.asarray(1)),
        lambda x: xp.take(x, xp.asarray([0])), lambda x: xp.cumulative_sum(x),
        lambda x: xp.cumulative_sum(xp.asarray(1)), lambda x: xp.matrix_transpose(x[0]),
        lambda x: xp.meshgrid(x[0], indexing="a"), lambda x: xp.vecdot(x, x[:, :1]),
    ],
)  # fmt: skip
def test_values_that_the_standard_refuses(call):
    with pytest.raises(ValueError, match=r"\[\w+\] expected"):
        call(xp.ones((2, 3)))


def test_sets_tell_each_nan_apart():
    x = xp.asarray([[math.nan, 1.0], [math.nan, 1.0]])
    found = xp.unique_all(x)
    assert str(found.values.tolist()) == "[1.0, nan, nan]" and found.counts.tolist() == [2, 1, 1]
    assert found.indices.tolist() == [1, 0, 2]
    assert found.inverse_indices.tolist() == [[1, 0], [2, 0]]
    c = xp.asarray([1 + 1j, 1 - 1j, 1 + 1j, 0j])
    assert xp.unique_values(c).tolist() == [0j, 1 - 1j, 1 + 1j]
    assert xp.unique_counts(c).counts.tolist() == [1, 1, 2]
    assert not xp.isin(x, x)[0, 0]
    empty = xp.unique_all(xp.ones((0, 2)))
    assert [tuple(part.shape) for part in empty] == [(0,), (0,), (0, 2), (0,)]


def test_gradients_go_through():
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    out = xp.sum(xp.var(x, axis=()) + xp.take_along_axis(x, xp.asarray([[-1], [0]]), axis=1))
    out = out + xp.prod(xp.asarray(x, copy=True), axis=(0, 1)) + xp.mean(xp.clip(x, 2.5))
    out.backward()
    assert x.grad.tolist() == [[24.0, 14.0], [10.25, 6.25]]


def test_the_published_list_of_differences_has_reasons():
    """Every entry of the list stands under a comment."""
    lines = (HERE / "xfails.txt").read_text().splitlines()
    found = [line for line in lines if line and not line.startswith("#")]
    assert 0 < len(found) < 116 and lines[0].startswith("#")
    for before, line in itertools.pairwise(lines):
        assert not line.startswith("array_api_tests/") or before
