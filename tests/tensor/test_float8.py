"""The float8 dtypes and complex32 beside PyTorch: every number there and back, what moves them,
what computes in them and what refuses, files."""

import copy
import io
import itertools
import pickle

import numpy as np
import pytest

import weft
from weft import safetensors

torch = pytest.importorskip("torch")
FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
OTHERS = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex32 complex64 complex128"
).split()
DTYPES = (*FLOAT8, "complex32")
pytestmark = pytest.mark.filterwarnings("ignore:Casting complex", "ignore:ComplexHalf")


def bits(lib, t):
    """The bytes of a tensor; those of a NaN say no more than that it is one."""
    if t.is_complex():
        t = lib.view_as_real(t)
    raw = t.contiguous().view(getattr(lib, f"int{8 * t.itemsize}"))
    return [None if n else b for n, b in
            zip(t.isnan().flatten().tolist(), raw.flatten().tolist(), strict=True)]  # fmt: skip


def numbers():
    """float32: all halves, what lies around and between numbers of 8 bits, the ends of range."""
    halves = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16).float()
    codes = [torch.arange(256).to(torch.uint8).view(getattr(torch, n)).float() for n in FLOAT8]
    known = torch.cat(codes).nan_to_num(0, 1e38, -1e38).unique()
    between = (known[1:] + known[:-1]) / 2
    around = torch.cat([known, between])
    inf = torch.tensor(float("inf"))
    near = torch.cat([around, around.nextafter(inf), around.nextafter(-inf)])
    ends = [0.0, -0.0, 2.0**-149, -(2.0**-149), 3.4028235e38, -3.4028235e38, float("inf"),
            float("-inf"), float("nan"), 1e9, -1e9]  # fmt: skip
    drawn = torch.randint(-(2**31), 2**31, (20000,), generator=torch.Generator().manual_seed(1))
    return torch.cat([halves, near, torch.tensor(ends), drawn.to(torch.int32).view(torch.float32)])


@pytest.mark.parametrize("name", FLOAT8)
def test_every_code_converts_as_pytorchs(name):
    codes = weft.arange(256).to(weft.uint8).view(getattr(weft, name))
    theirs = torch.arange(256).to(torch.uint8).view(getattr(torch, name))
    finite = theirs.float().isfinite()
    for other in (*OTHERS, *FLOAT8):
        ours, expected = codes.to(getattr(weft, other)), theirs.to(getattr(torch, other))
        if expected.is_floating_point() or expected.is_complex():
            assert bits(weft, ours) == bits(torch, expected), other
            continue
        ours, expected = ours.tolist(), expected.tolist()
        fits = finite & (theirs.float().abs() < 2**7) & (theirs.float() > -1)
        for i, (got, want) in enumerate(zip(ours, expected, strict=True)):
            assert got == want or not fits[i], (other, i)  # others are undefined in C++
    assert codes.tolist()[:100] == theirs.tolist()[:100]
    assert [codes[i].item() for i in range(100)] == codes.tolist()[:100]


@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16", "complex64"])
def test_numbers_round_as_pytorchs(name, source):
    theirs = numbers().to(getattr(torch, source))
    ours = weft.from_dlpack(theirs)
    for t in (slice(None), slice(0, 5), slice(None, None, 3)):  # vector loops, short ones, strides
        got = ours[t].to(getattr(weft, name))
        assert bits(weft, got) == bits(torch, theirs[t].to(getattr(torch, name)))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("source", OTHERS)
def test_every_dtype_converts_there(name, source):
    values = torch.tensor([0, 1, 2, 3, 5, 7, 17, 100, 127]).to(getattr(torch, source))
    ours = weft.tensor(values.tolist()).to(getattr(weft, source)).to(getattr(weft, name))
    assert bits(weft, ours) == bits(torch, values.to(getattr(torch, name)))


def test_complex32_rounds_its_parts():
    theirs = torch.complex(numbers(), numbers().flip(0))
    ours = weft.complex(weft.from_dlpack(numbers()), weft.from_dlpack(numbers().flip(0)))
    for source in ("complex64", "complex128"):
        x, y = ours.to(getattr(weft, source)), theirs.to(getattr(torch, source))
        assert bits(weft, x.to(weft.complex32)) == bits(torch, y.to(torch.complex32))
        assert bits(weft, x.chalf().to(x.dtype)) == bits(torch, y.chalf().to(y.dtype))


# T the library, d a dtype, x and y its numbers. Where PyTorch has no kernel weft may compute, but
# for what REFUSED says.
CALLS = """\
x; y; x[0]; x.tolist(); x[1].item(); x.t().clone(); x.view(T.uint8)
x.expand(2, 2, 2).contiguous(); x == x; x != y; T.equal(y, y); x.isnan(); x.any(); x.all()
x.abs(); x * x; y * y; x == 1; T.cat([x, y]); T.stack([x, y], 1); T.where(x == y, x, y)
x[T.tensor([1, 0])]; x[x == x]; x.roll(1); x.repeat(2, 1); x.index_select(0, T.tensor([1]))
x.repeat_interleave(2); x.diag(); x.split(1); x.chunk(2); x.unfold(0, 2, 1); x.clone().fill_(2)
x.clone().zero_(); x.reshape(-1); x.clone().copy_(T.arange(4).view(2, 2)); T.zeros(2).copy_(y)
x.new_zeros(2); x.new_tensor([1.5]); T.zeros(2, dtype=d); T.ones(2, dtype=d)
T.full((2,), 1.5, dtype=d); T.full_like(x, 2); T.tensor([1., 2.], dtype=d)
T.tensor([1, True], dtype=d); T.as_tensor([1, 2], dtype=d); T.tensor([1e9], dtype=d)
T.tensor([-1.], dtype=d); T.tensor(float('nan'), dtype=d); x.type(); T.finfo(d); d.itemsize
d.is_signed; d.is_floating_point; d.is_complex; d.to_real(); d.to_complex(); d; x.element_size()
x.numel(); x.is_floating_point(); x.is_complex(); T.result_type(x, 1.0)
T.result_type(x, T.ones(())); T.can_cast(d, T.float32); T.can_cast(d, T.int8); x.numpy()
T.frombuffer(bytearray(range(8)), dtype=d); x.requires_grad_(); T.nn.Parameter(y); bool(y[0])
int(y[0]); float(y[0]); f'{y[0]:.2f}'; x + T.ones(2); T.ones(2) * y; T.ones(2).add_(y)
x.__setitem__(0, 1.) or x; x.__setitem__(slice(0, 1), y) or x; x.masked_select(x == x)
T.nn.functional.embedding(T.tensor([0]), x); y.sum(dtype=T.float32); y.mean(dtype=T.float32)
y.sum(dtype=T.int64); y.cumsum(0, dtype=T.float32); y.softmax(0, dtype=T.float32)
y.prod(dtype=T.float64); copy.deepcopy(x); x.untyped_storage().nbytes(); x.storage().tolist()
T.zeros_like(x); x.float(); T.ones(3, requires_grad=True).to(d).float().sum().backward(); y.real
y.conj(); x.is_contiguous(); T.nn.functional.linear(x, x); x @ x
y.clone().index_put_((T.tensor([0]),), y[1:].clone()); x.data_ptr() == 0
T.testing.assert_close(y, y); T.testing.assert_close(x, x.t().contiguous())
T.set_default_dtype(d); T.promote_types(d, d); T.ones(2).type(d); x.type_as(T.ones(1))
T.view_as_real(y); y.imag; y.half(); T.complex(T.ones(2).half(), T.ones(2).half())
T.view_as_complex(T.ones(2, 2).half()); y.neg(); T.empty(2, 0, dtype=d); T.eye(2, dtype=d)
x.is_nonzero(); y[0].is_nonzero(); T.is_nonzero(y[0]); y.view(2, 1); x.flatten()
x.movedim(0, 1); x[None]; x[..., 0]; x.squeeze(); x.narrow(0, 0, 1)"""
REFUSED = """\
x + x; x - 1; x / x; -x; x < x; x.sum(); x.exp(); x.sort(); x.argmax(); x.max(); x.clamp(0, 1)
x.relu(); x.round(); x.mean(); x.cumsum(0); x.prod(); x.softmax(0); x.sqrt(); x ** 2; x // 2
x % 2; x[None].bmm(x[None]); x.clone().uniform_(); x.clone().normal_(); x.clone().random_()
x.clone().bernoulli_(); T.rand(2, dtype=d); T.randn(2, dtype=d); x.clone().add_(1)
T.maximum(x, x); x.sign(); x.nan_to_num(); x.scatter_add(0, T.zeros(2, 2).long(), x)
x.index_add(0, T.tensor([0]), x[:1]); x.unique(); y.dot(y); x.logical_not(); x.trace()"""


def outcome(lib, name, call):
    d = getattr(lib, name)
    x = lib.tensor([[1.5, -2.0], [0.0, 96.0]]).to(d)
    y = lib.tensor([1.0, 2.0]).to(d)
    names = {"T": lib, "d": d, "x": x, "y": y, "copy": copy}
    try:
        return eval(call, names)  # noqa: S307
    except Exception as error:  # noqa: BLE001
        return next(t for t in type(error).__mro__ if t.__module__ == "builtins")


def listed(text):
    return [call.strip() for call in text.replace("\n", "; ").split("; ")]


def same_values(got, expected):
    """Whether two tensors of float8_e8m0fnu are equal: PyTorch prints the least as 0."""
    if isinstance(expected, tuple):
        return len(got) == len(expected) and all(map(same_values, got, expected))
    if not hasattr(got, "tolist") or not str(expected.dtype).endswith("e8m0fnu"):
        return False
    return str(got.dtype) == str(expected.dtype) and got.tolist() == expected.tolist()


@pytest.mark.parametrize("name", DTYPES)
def test_what_pytorch_does_with_them(name):
    found = []
    for call in listed(CALLS):
        got, expected = (outcome(lib, name, call) for lib in (weft, torch))
        if expected is NotImplementedError and not isinstance(got, type):
            continue  # weft computes
        if str(got) != str(expected) and not same_values(got, expected):
            found.append(f"{call}: {got} for {expected}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("call", listed(REFUSED))
def test_ops_that_compute_refuse_float8(name, call):
    assert outcome(torch, name, call) is NotImplementedError
    d = getattr(weft, name)
    x, y = weft.zeros(2, 2, dtype=d), weft.zeros(2, dtype=d)
    scalar = f"Float8{name.removeprefix('float8')}"
    with pytest.raises(NotImplementedError, match=f"not implemented for '{scalar}'"):
        eval(call, {"T": weft, "d": d, "x": x, "y": y})  # noqa: S307


def test_promotion():
    for a, b in itertools.product(DTYPES, (*OTHERS, *FLOAT8)):
        for pair in ((a, b), (b, a)):
            found = []
            for lib in (weft, torch):
                try:
                    kinds = [getattr(lib, name) for name in pair]
                    found.append(str(lib.promote_types(*kinds)))
                except RuntimeError as error:
                    found.append(str(error)[str(error).index("Promotion for") :].split(")")[0])
            assert found[0] == found[1]


@pytest.mark.parametrize("name", DTYPES)
def test_files(name):
    x = weft.tensor([[1, 2], [3, 64]], dtype=getattr(weft, name))
    theirs = torch.tensor([[1, 2], [3, 64]], dtype=getattr(torch, name))
    for written, read in ((weft, torch), (torch, weft), (weft, weft)):
        file = io.BytesIO()
        written.save({"x": theirs if written is torch else x}, file)
        file.seek(0)
        back = read.load(file)["x"]
        assert back.tolist() == x.tolist() and str(back.dtype) == str(x.dtype)
    back = pickle.loads(pickle.dumps(x))
    assert back.tolist() == x.tolist() and back.dtype == x.dtype


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_safetensors(name, tmp_path):
    x = weft.tensor([[1, 2], [3, 64]], dtype=getattr(weft, name))
    bytes_of = safetensors.save({"x": x})
    back = safetensors.load(bytes_of)["x"]
    assert back.tolist() == x.tolist() and back.dtype == x.dtype
    if name == "float8_e8m0fnu":
        return  # not a name of the package's yet
    theirs = pytest.importorskip("safetensors.torch").load(bytes_of)["x"]
    assert theirs.tolist() == x.tolist() and str(theirs.dtype) == str(x.dtype)
    back = safetensors.load(pytest.importorskip("safetensors.torch").save({"x": theirs}))["x"]
    assert back.tolist() == x.tolist() and back.dtype == x.dtype


@pytest.mark.parametrize("name", ["float8_e4m3fnuz", "float8_e5m2fnuz", "complex32"])
def test_safetensors_refuses_what_it_has_no_name_for(name):
    with pytest.raises(ValueError, match=f"dtype of the format, got torch.{name}"):
        safetensors.save({"x": weft.zeros(2, dtype=getattr(weft, name))})


@pytest.mark.parametrize("name", DTYPES)
def test_dlpack(name):
    x = weft.tensor([1, 2], dtype=getattr(weft, name))
    theirs = torch.from_dlpack(x)
    assert str(theirs.dtype) == str(x.dtype) and theirs.tolist() == x.tolist()
    assert weft.from_dlpack(theirs).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("expected", [[1.0, 4.0], [float("nan"), 2.0]])
@pytest.mark.parametrize("options", [{}, {"rtol": 1.0, "atol": 1.0}, {"equal_nan": True}])
def test_assert_close_compares_bit_by_bit(name, expected, options):
    told = []
    for lib in (weft, torch):
        a, e = (lib.tensor(v).to(getattr(lib, name)) for v in ([float("nan"), 2.0], expected))
        try:
            told.append(lib.testing.assert_close(a, e, **options))
        except AssertionError as error:
            told.append(str(error))
    assert told[0] == told[1]


def test_gradients_pass_conversions():
    x = weft.tensor([0.3, 1.7], requires_grad=True)
    (x.to(weft.float8_e5m2).float() * weft.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 3.0]
    z = weft.tensor([1 + 2j], requires_grad=True)
    z.chalf().to(weft.complex64).abs().sum().backward()
    assert np.allclose(z.grad.tolist(), [(1 + 2j) / 5**0.5], 1e-3)


def test_complex32_computes_through_complex64():
    x = weft.tensor([1 + 2j, 3 - 1j]).to(weft.complex32)
    assert (x * x).tolist() == [-3 + 4j, 8 - 6j] and (x / x).tolist() == [1, 1]
    assert x.sum().item() == 4 + 1j and x.sum().dtype is weft.complex32
    assert x.abs().dtype is weft.float16 and x.conj().tolist() == [1 - 2j, 3 + 1j]
    assert x.real.dtype is weft.float16
    assert x.index_add(0, weft.tensor([0]), x[1:]).tolist() == [4 + 1j, 3 - 1j]
    weft.manual_seed(0)
    drawn = weft.rand(1000, dtype=weft.complex32)
    assert 0.4 < drawn.real.float().mean() < 0.6 and 0.4 < drawn.imag.float().mean() < 0.6
    assert (weft.ones(2).half() * 1j).dtype is weft.complex32


def test_programs_and_compiled_functions_carry_float8():
    def f(x):
        return x.to(weft.float8_e4m3fn).to(weft.float32) * 2

    x = weft.tensor([0.3, 500.0])
    assert weft.compile(f)(x).tolist() == f(x).tolist() == [0.625, 896.0]


@pytest.mark.parametrize("name", DTYPES)
def test_onnx_refuses_them_by_name(name, tmp_path):
    pytest.importorskip("onnx")

    class Weighted(weft.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = weft.nn.Buffer(weft.ones(2).to(getattr(weft, name)))

        def forward(self, x):
            return x * self.w.to(weft.float32)

    with pytest.raises(weft.onnx.OnnxExporterError, match=f"a tensor of torch.{name}"):
        weft.onnx.export(Weighted(), (weft.ones(2),), tmp_path / "w.onnx")


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_saved_programs_hold_float8(name, tmp_path):
    class Weighted(weft.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = weft.nn.Buffer(weft.tensor([1.0, 4.0]).to(getattr(weft, name)))

        def forward(self, x):
            return (x * self.w.float()).to(weft.float8_e5m2).float()

    x = weft.tensor([0.3, 2.0])
    weft.export.save(weft.export.export(Weighted(), (x,)), tmp_path / "p.weft")
    again = weft.export.load(tmp_path / "p.weft")
    assert again.module()(x).tolist() == Weighted()(x).tolist() == [0.3125, 8.0]
