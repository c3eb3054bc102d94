# ruff: noqa: F401  the calls use what is imported
"""Tensors in the hands of Python's own functions, its library, NumPy, pandas and Matplotlib, beside
PyTorch: the same results, or errors of the same type."""

import bisect
import collections
import copy
import ctypes
import decimal
import fractions
import functools
import heapq
import io
import itertools
import json
import math
import operator
import pickle
import random
import re
import statistics
import struct
import warnings

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")

# T the library; x floats, i integers, b bools, m a matrix, s and n numbers without dimensions, c a
# complex number, e empty, r one that requires grad. One call a line.
PYTHON = """\
len(x); len(m); len(s); len(e); list(x); list(m); list(s); tuple(i); [*i]; dict(zip("abc", i))
set(i.tolist()); reversed(x); list(reversed(m)); iter(s); next(iter(m)); enumerate(x).__next__()
dict(enumerate(i)); [a + b for a, b in zip(x, i)]; 2 in i; 9 in i; s in x; T.tensor(2.) in x
"a" in x; None in x; [1, 2, 3] in m; i[1] in [5, 1]; i.tolist().index(n - 6); x.__contains__(1.)
bool(s); bool(x); bool(e); bool(m[0, 0]); bool(T.ones(1, 1)); not s; s and 3; x or 3
x if s else 0; int(s); int(n); int(x); int(c); int(T.tensor([4.7])); int(T.tensor(True))
int(T.tensor(math.nan)); int(T.tensor(math.inf)); float(s); float(n); float(c); float(m)
float(T.tensor([[2]])); float(b[0]); complex(s); complex(n); complex(c); complex(x)
complex(T.tensor([1j])); hash(x) == hash(x); hash(x) == id(x); {x: 1}[x]; len({x, x, i})
x == x.clone() and 1; operator.index(n); operator.index(s); operator.index(i)
operator.index(b[0]); range(n)[2]; [1, 2, 3][i[1]]; [1, 2, 3][s]; "abc"[i[2]]; "ab" * i[2]
[0] * n; n * [0]; (1,) * i[1]; hex(n); bin(n); oct(n); chr(i[0] + 62); round(s); round(n)
round(x); round(s, ndigits=1); round(s, 1); round(T.tensor(2.567), 2); math.trunc(s)
math.floor(s); math.ceil(s); math.trunc(x); divmod(n, 2); divmod(x, 2); divmod(7, n)
divmod(n, s); abs(c); abs(-x); -b; +x; +b; ~i; ~x; ~b; pow(n, 2); pow(n, 2, 3); pow(2, n)
2 ** x; sum(x); sum(m); sum(s); sum(e); sum(i, 10); min(x); max(x); max(m)
max(x, key=lambda v: -v); min(x, 0); min(s, 3); max(s, n); min(i, default=0); sorted(x)
sorted(i, reverse=True); sorted(m); sorted(x, key=lambda v: -float(v)); any(b); all(b); any(m)
all(x); list(map(float, x)); list(filter(None, x)); list(zip(m, m)); type(x).__name__
isinstance(x, T.Tensor); callable(x); repr(s); str(x); ascii(i); f"{x}"; f"{s}"; f"{s:.2f}"
f"{s:8.3e}"; f"{n:5d}"; f"{n:05}"; f"{n:x}"; f"{n:.1f}"; f"{b[0]}"; f"{b[0]:>5}"; f"{c}"
f"{c:.1f}"; f"{x:.2f}"; f"{x[0]:+.1f}"; f"{s!r:>20}"; f"{T.tensor([1.5]):.2f}"; f"{m:>3}"
format(s); format(s, ".1%"); format(x, ""); "%d" % n; "%d" % s; "%.2f" % s; "%s" % s; "%x" % n
"%x" % s; "%d %d" % tuple(i[:2]); "%f" % x; "{:.3f}".format(s); "{0[1]:.1f}".format(x)
"{:>6}".format(n); "%s" % x; "".join(str(v) for v in i); print(x, file=io.StringIO())
x.__class__.__name__; x.__len__(); x.__bool__(); s.__float__(); n.__index__(); n.__int__()
n.__format__("d"); dir(x)[0]; vars(x); x.attribute; setattr(x, "attribute", 3) or x.attribute
hasattr(x, "nothing"); del x[0]; x[0] = 5; x[0] = "a"; x["a"]; x[1.0]; x[s]; x[n]; x[None].shape
x[...]; x[::2]; x[::-1]; x[True].shape; x[i[1]:]; x[:s]; x[slice(n - 6, None)]; x[[0, 2]]
x[(0, 2)]; m[0, i[1]]; x[b]; x + "a"; "a" + x; x + None; x + [1, 2, 3]; [1, 2, 3] + x
x + (1, 2, 3); x @ 3; x << 1; i << 1; 1 << i; i & 1; 1 & i; x & 1; x % 2; 7 % i; x // 2; 7 // i
x < "a"; x == "a"; x != "a"; x == None; x != None; x == [3., 1., 2.]; s < 3 < n; 1 < x; x is x
x.real; s.imag; c.imag; x.T; s.T"""

LIBRARY = """\
math.sqrt(s); math.exp(n); math.isnan(s); math.sqrt(x); math.sqrt(c); math.gcd(n, 14)
math.gcd(s, 2); math.factorial(n); math.factorial(s); math.comb(n, i[2]); math.fsum(x)
math.prod(i); math.dist(x, i); math.hypot(*x); math.isclose(s, 2.5); math.copysign(1, -s)
math.log(n, 2); math.frexp(s); math.ldexp(s, 2); math.ldexp(s, i[1]); math.isqrt(n)
math.perm(n, 2); math.lcm(n, 3); math.nextafter(s, 3); math.sumprod(x, i); statistics.mean(x)
statistics.fmean(x); statistics.median(i); statistics.mode(i); statistics.stdev(x)
statistics.mean(x.tolist()); statistics.median_low(x); statistics.fmean(i)
statistics.pvariance(i); random.seed(3) or random.choice(x)
random.seed(3) or random.sample(x.tolist(), 2); random.sample(x, 2)
random.seed(3) or random.choices(i, k=2); random.seed(3) or random.choices("abc", weights=x)
random.seed(3) or random.shuffle([*x]); random.seed(3) or random.randrange(n)
random.uniform(s, s); random.seed(3) or random.randint(1, n)
random.seed(3) or random.gauss(s, 0.1); bisect.bisect(x.sort().values, 1.5)
bisect.bisect_left(i.sort().values, 2); bisect.insort([1., 3.], s); bisect.bisect([1, 2, 9], n)
heapq.nlargest(2, x); heapq.nsmallest(2, i); heapq.heapify([*x]); list(itertools.accumulate(x))
list(itertools.accumulate(i, operator.mul)); list(itertools.chain(x, i))
list(itertools.product(i, repeat=2))[4]; list(itertools.islice(m, 1))
list(itertools.pairwise(i)); list(itertools.repeat(s, 2)); list(itertools.compress("abc", b))
list(itertools.islice(x, n - 5)); list(itertools.groupby(i.tolist())).__len__()
functools.reduce(operator.add, x); collections.Counter(i.tolist()); len(collections.Counter(i))
collections.deque(i, 2); collections.deque(x, n).maxlen; operator.itemgetter(1)(x)
operator.attrgetter("shape")(m); operator.add(x, 1); operator.length_hint(x)
operator.countOf(i, 2); operator.contains(i, 2); operator.truth(s); operator.matmul(m, x)
operator.concat(x, x); operator.indexOf(i, 2); copy.copy(x)
copy.copy(x).data_ptr() == x.data_ptr(); copy.deepcopy(x); copy.deepcopy(r).requires_grad
copy.deepcopy(r * 2); copy.deepcopy([x, x])[0] is x; copy.copy(m.T).stride()
copy.deepcopy({"a": s}); pickle.loads(pickle.dumps(x)); pickle.loads(pickle.dumps(m.T)).stride()
pickle.loads(pickle.dumps([x, x])).__len__(); pickle.loads(pickle.dumps(r)).requires_grad
pickle.loads(pickle.dumps(T.float32)); pickle.loads(pickle.dumps(x.shape)); json.dumps(x)
json.dumps(s); json.dumps(n); json.dumps({"a": s.item()}); json.dumps(x.tolist())
json.dumps({n: 1}); json.dumps(x.shape); json.dumps(x.dtype)
json.dumps([i], default=lambda v: v.tolist()); struct.pack("f", s); struct.pack("i", n)
struct.pack("i", s); struct.pack("3f", *x); struct.pack("f", x); struct.pack("?", b[0])
struct.unpack("f", struct.pack("f", s)); bytes(i); bytes(n); bytearray(i); bytes(x)
list(bytes(i.to(T.uint8))); memoryview(x).format; memoryview(x).tolist(); memoryview(r).shape
ctypes.c_float.from_address(x.data_ptr()).value; ctypes.c_float(s).value; ctypes.c_int(n).value
ctypes.c_int(s).value; (ctypes.c_float * 3)(*x)[1]
ctypes.c_void_p(x.data_ptr()).value == x.data_ptr(); decimal.Decimal(n); decimal.Decimal(s)
fractions.Fraction(n); fractions.Fraction(s); int.from_bytes(i.to(T.uint8), "big")
isinstance(x, collections.abc.Sequence); isinstance(x, collections.abc.Iterable)
isinstance(x, collections.abc.Sized); isinstance(x, collections.abc.Hashable)
isinstance(x, collections.abc.Container); isinstance(n, int)
isinstance(s, collections.abc.Callable); re.sub("a", str(n), "a"); "abc".center(n)
"a,b".split(",", n); [9, 8, 7].pop(i[1]); [9, 8, 7].insert(i[1], 3); [9, 8, 7].index(i[2] + 5)
[*x].index(1.); [*i].count(2); [1, 2] == i[1:]; (1, 2) < i[:2]; {1: 2}.get(i[1])
{1: 2}.get(int(i[1])); slice(n).indices(3); [9, 8, 7][:i[2]]; "abc"[:n]; range(i[1], n, i[2])
sum(range(n)); list(range(s)); divmod(17, n); int("11", n); round(2.567, i[1])
round(2.567, n - 5); complex(s, n); isinstance(s + 0, T.Tensor); float.hex(float(s))
s.__round__(); x.__reversed__()"""

NUMPY = """\
np.asarray(x); np.array(m); np.asarray(x, dtype=np.float64); np.array(x, copy=True)
np.asarray(r); np.asarray(s); np.asarray(b); np.asarray(c); np.asarray(m.T); np.array([x, x])
np.array([s, s]); np.array([s, n]); np.asarray(x).base is not None; np.sum(x); np.mean(x)
np.mean(m, axis=0); np.max(x); np.std(x); np.var(i.double()); np.argmax(x); np.sort(x)
np.argsort(x); np.cumsum(x); np.cumsum(x, 0); np.prod(x); np.prod(x, 0); np.any(b); np.all(b)
np.all(b, 0); np.median(x); np.percentile(x, 50); np.quantile(x, .5); np.sqrt(x); np.exp(s)
np.sin(m); np.abs(-x); np.isnan(x); np.log1p(x); np.floor(x); np.sign(x); np.add(x, 1)
np.add(x, x); np.add(np.ones(3), x); np.multiply(x, np.float32(2)); np.maximum(x, 2)
np.dot(x, x); np.dot(m, x); np.matmul(m, x); np.concatenate([x, i]); np.stack([x, x])
np.vstack([x, x]); np.hstack([x, x]); np.where(b, x, 0); np.clip(x, 1, 2); np.unique(i)
np.allclose(x, x); np.array_equal(x, x); np.isclose(x, 3.); np.linalg.norm(x)
np.linalg.inv(np.eye(2)) @ m.numpy(); np.linalg.det(T.eye(2)); np.outer(x, x)
np.reshape(m, (3, 2)); np.reshape(x, -1); np.transpose(m); np.squeeze(x[None]); np.ravel(m)
np.expand_dims(x, 0); np.shape(m); np.ndim(m); np.zeros_like(x); np.ones_like(i)
np.full_like(x, 2); np.copy(x); np.diff(x); np.histogram(x, 2); np.bincount(i)
np.digitize(x, [1.5]); np.interp(1.5, [1., 2.], x[:2]); np.tile(x, 2); np.repeat(x, 2)
np.flip(x); np.roll(x, 1); np.take(x, [0, 2]); np.take(np.arange(9), i); np.arange(9)[i]
np.arange(n); np.zeros(n); np.zeros((i[1], n)); np.zeros(3)[n - 6]; np.ones(3) * x
x * np.ones(3); np.float32(2) * x; x * np.float32(2); x + np.ones(3, np.float32)
np.float64(2) + s; s + np.float64(2); x == np.array([3., 1., 2.]); np.array([3., 1., 2.]) == x
x @ np.ones(3, np.float32); x += np.ones(3, np.float32); x[np.array([0, 2])]
x[np.array([True, False, True])]; x[np.int64(1)]; x[np.array(1)]; T.tensor(np.ones(2))
x.__array__().dtype.name; x.__array__(np.float64).dtype.name; np.linspace(0, s, 3)
np.random.RandomState(0).permutation(i); np.random.RandomState(0).choice(i, 2)
np.testing.assert_allclose(x, x); np.testing.assert_allclose(x, x + 1)
np.testing.assert_array_equal(i, i); np.testing.assert_array_equal(i, i + 1)
np.testing.assert_almost_equal(s, 2.5); np.testing.assert_equal(n, 7)
np.savetxt(io.StringIO(), m); np.save(io.BytesIO(), x); np.array2string(np.asarray(x))
np.isscalar(s); np.iterable(x); np.result_type(np.float32, 1); np.can_cast(x, float)
np.ascontiguousarray(m.T); np.einsum("ij,j", m, x); np.vectorize(lambda v: v + 1)(i)
np.apply_along_axis(sum, 0, m); np.meshgrid(x, i)[0]; np.fft.fft(x)
np.polyfit(x, x, 1).round(3); np.polyval(x, 2.); np.trace(T.eye(2)); np.diag(x); np.tril(m)
np.cov(m); np.corrcoef(m); np.nansum(x); np.nanmax(x); np.count_nonzero(b); np.nonzero(b)
np.searchsorted(x.sort().values, 2); np.cross(x, x); np.kron(x, x); np.array_split(x, 2)
np.pad(x, 1); np.insert(x, 0, 1.); np.append(x, 1.); np.delete(x, 0); np.isin(i, [1])
np.round(x, 1); np.around(s, 1); np.amax(m, 1); np.min(m, 1); np.ptp(x); np.rint(x)
np.logaddexp(x, x); np.add.reduce(x); np.add.accumulate(x); np.multiply.outer(x, x)
np.add(x, 1, out=np.zeros(3, np.float32)); np.frombuffer(x, np.float32); np.from_dlpack(x)
np.broadcast_to(x, (2, 3)); np.ma.array(x).sum(); np.matrix(m).shape"""


def values(lib):
    """The operands of the tables."""
    return {
        "T": lib, "x": lib.tensor([3.0, 1.0, 2.0]), "i": lib.tensor([3, 1, 2]),
        "b": lib.tensor([True, False, True]), "m": lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        "s": lib.tensor(2.5), "n": lib.tensor(7), "c": lib.tensor(1 + 2j), "e": lib.tensor([]),
        "r": lib.tensor([1.0, 2.0], requires_grad=True),
    }  # fmt: skip


def outcome(lib, call, more=None):
    """What a call gives, or the type of its error, as text that names no library."""
    names = globals() | values(lib) | (more or {})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = eval(call, names)  # noqa: S307
            except SyntaxError:
                exec(call, names)  # noqa: S102
                result = names["x"]
    except Exception as error:  # noqa: BLE001
        return next(t for t in type(error).__mro__ if t.__module__ == "builtins").__name__
    return f"{type(result).__name__} {told(result)}"


def told(result):
    if isinstance(result, (list, tuple)) and not hasattr(result, "_fields"):
        return f"[{', '.join(told(r) for r in result)}]"
    if isinstance(result, (weft.Tensor, torch.Tensor)):
        return f"{result!r} {result.dtype}".replace("weft.", "torch.")
    text = repr(result)
    return re.sub(r" at 0x[0-9a-f]+", "", text).replace("weft.", "torch.")


def differences(table, known, more=None):
    """Lines about the calls whose outcomes differ, but for those whose reasons are known."""
    found = {}
    for call in table.replace("\n", "; ").split("; "):
        ours, theirs = outcome(weft, call, more), outcome(torch, call, more)
        if ours != theirs:
            found[call] = f"{call}: {ours}, PyTorch: {theirs}"
    return [line for call, line in found.items() if call not in known], set(known) - set(found)


# call: why the outcome is another
BUFFER = "a tensor has the buffer protocol here: its memory can be read without NumPy"
KNOWN = {
    "bytes(i)": BUFFER, "bytearray(i)": BUFFER, "bytes(x)": BUFFER, "memoryview(x).format": BUFFER,
    "memoryview(x).tolist()": BUFFER, "memoryview(r).shape": BUFFER,
    "np.frombuffer(x, np.float32)": BUFFER,
    "T.tensor(pd.Series([1., 2.]))": "a Series gives Python's numbers, which are float32",
    "np.isnan(x)": "a mask is bool; PyTorch makes it uint8, which as a mask it deprecates",
}  # fmt: skip


@pytest.mark.parametrize("table", [PYTHON, LIBRARY, NUMPY], ids=["python", "library", "numpy"])
def test_calls_give_what_pytorch_gives(table):
    found, unknown = differences(table, KNOWN)
    calls = table.replace("\n", "; ").split("; ")
    assert not found, "\n".join(found)
    assert not unknown & set(calls), "these agree now"
    assert len(calls) > 120 and all(call.strip() for call in calls)


def test_a_buffer_of_what_requires_grad_is_refused():
    with pytest.raises(BufferError, match="requires grad"):
        memoryview(weft.ones(2, requires_grad=True))
    assert memoryview(weft.arange(3)).tolist() == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # PyTorch's
def test_matplotlib_draws_tensors():
    figures = pytest.importorskip("matplotlib.figure")
    drawn = []
    for lib in (weft, torch):
        v = values(lib)
        axes = figures.Figure().subplots(1, 3)
        line = axes[0].plot(v["x"], v["x"] * 2)[0]
        more = axes[0].plot(v["i"])[0]
        dots = axes[0].scatter(v["x"], v["i"], c=v["x"])
        bars = axes[1].bar(v["i"], v["x"])
        steps = axes[1].hist(v["x"], bins=2)[0]
        image = axes[2].imshow(v["m"])
        axes[2].set_xlim(0, v["s"])
        line.figure.canvas.draw()
        drawn.append([
            line.get_xydata().tolist(), more.get_xydata().tolist(), dots.get_offsets().tolist(),
            [(bar.get_x(), bar.get_height()) for bar in bars], steps.tolist(),
            np.asarray(image.get_array()).tolist(), [float(e) for e in axes[2].get_xlim()],
        ])  # fmt: skip
    assert drawn[0] == drawn[1]
    with pytest.raises(RuntimeError, match="requires grad"):
        axes[0].plot(weft.ones(2, requires_grad=True))


PANDAS = """\
pd.Series(x); pd.Series(i, index=list("abc")); pd.DataFrame(m)
pd.DataFrame(m, columns=["a", "b", "c"]); pd.DataFrame({"x": x, "i": i})
pd.DataFrame({"x": x.numpy()}).mean(); pd.Index(i); pd.Series([1, 2, 3]) + i; pd.Series(x).sum()
pd.DataFrame(m).values; T.tensor(pd.Series([1., 2.])); T.tensor(pd.DataFrame(m.numpy()).values)
T.from_numpy(pd.Series([1., 2.]).to_numpy().copy()); pd.Series([9, 8, 7])[i[1].item()]
pd.Series([9, 8, 7]).iloc[i[2].item()]; pd.Series([1., 2., 3.]) * s.item()
pd.DataFrame({"a": [s.item()]}); pd.concat([pd.Series(x), pd.Series(i)]); pd.isna(x)
pd.cut(x, 2).codes; pd.unique(i.numpy()); pd.factorize(i.numpy())[0]; pd.to_numeric(x)"""


def test_pandas_takes_tensors():
    pd = pytest.importorskip("pandas")
    found, unknown = differences(PANDAS, KNOWN, {"pd": pd})
    assert not found, "\n".join(found)
    assert not unknown & set(PANDAS.replace("\n", "; ").split("; ")), "these agree now"


@pytest.mark.parametrize("kind", [">f4", ">i8", ">c8"])
def test_arrays_of_another_order_of_bytes(torch, kind):
    for t in (torch, weft):
        for make in (t.from_numpy, t.tensor, t.as_tensor, t.asarray):
            with pytest.raises(ValueError, match="byte order different from the native byte order"):
                make(np.ones(2, kind))
    assert weft.from_numpy(np.ones(2, ">u1")).tolist() == [1, 1]  # a byte has no order
