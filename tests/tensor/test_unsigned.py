"""uint16, uint32 and uint64 beside PyTorch: what it computes in them, what it refuses, files."""

import copy
import io
import pickle

import numpy as np
import pytest

import weft
from weft import safetensors

torch = pytest.importorskip("torch")
DTYPES = ("uint16", "uint32", "uint64")
BITS = {"uint16": 16, "uint32": 32, "uint64": 64}

# T the library, d a dtype, x its values with the largest and the one above the signed ones among
# them, y small ones. What both refuse is refused by an error of one type; where PyTorch has no
# kernel weft may compute.
CALLS = """\
x; x.tolist(); x[1].item(); x.numpy(); T.from_numpy(x.numpy()); x.t().clone(); x.float()
x.double(); x.half(); x.bfloat16(); x.long(); x.int(); x.byte(); x.bool(); x.to(T.complex128)
T.tensor([1.5, 300., 7e4]).to(d); T.tensor([-1, 2**40]).to(d); T.tensor([-1.5]).to(d)
T.tensor([True]).to(d); T.tensor([2 + 1j]).to(d); T.tensor([3.], dtype=T.bfloat16).to(d); x == x
x != y; x == 1; x == 1.5; x == y.float(); T.equal(x, x); T.isclose(x, y); T.allclose(x, x); x * y
x * 3; x * 0.5; x * True; x / y; x.sqrt(); x.exp(); x & y; x | 3; x ^ x; x.sum(); x.sum(0)
x.sum(dtype=T.float64); x.mean(dtype=T.float64); x.prod(); x.cumsum(0); x.any(); x.all()
x.signbit(); x.sort(); x.argsort(); x.sort(descending=True); x.unique(); T.isfinite(x); x.isnan()
x.logsumexp(0); T.cat([x, y]); T.stack([x, y], 1); T.where(x == y, x, y); T.cat([x, y.float()])
x[T.tensor([1, 0])]; x[T.tensor([True, False])]; x.flip(0); x.roll(1); x.repeat(2); x.expand(2, 2)
x.index_select(0, T.tensor([1])); x.repeat_interleave(2); T.nn.functional.pad(x, (1, 1))
x.view(T.uint8); y.diag(); x.split(1); x.fill_(3); x.clone().zero_(); x.clone().fill_(-1)
x.clone().copy_(T.ones(2)); T.zeros(2).copy_(x); x.new_zeros(2); T.zeros(2, dtype=d)
T.ones(2, dtype=d); T.full((2,), 7, dtype=d); T.full((2,), -1, dtype=d); x.type(); T.zeros_like(x)
T.full_like(x, 2); T.tensor([1, 2], dtype=d); T.tensor(True, dtype=d); T.iinfo(d)
T.tensor(np.array([1, 2], str(d)[6:])); T.tensor([1, 2], dtype=d).view(T.int8); d.is_signed
d.itemsize; T.tensor([2**63], dtype=d); T.tensor([2**70], dtype=d); T.tensor([-2**40], dtype=d)
T.tensor(1.5, dtype=d); T.frombuffer(bytearray(range(8)), dtype=d); x.type(T.int32)
T.ones(2).type(x.type()); x.is_floating_point(); T.promote_types(d, T.float16)
T.promote_types(d, d); T.promote_types(d, T.int8); T.promote_types(T.bool, d); T.result_type(x, 1)
T.result_type(x, 1.5); T.result_type(x, T.tensor([1])); T.can_cast(d, T.int8); x + y.long()
x == y.int(); x * y.bool(); T.cat([x, y.int()]); y.int().mul_(y); T.where(x == y, x, y.long())
T.ones(9)[y]; T.zeros(2, dtype=d).uniform_(); x.mean(); x.std(); x.requires_grad_()
d.to_complex(); x.clone().fill_(-2**40); T.full((2,), 1e30, dtype=d); x.__setitem__(0, 5) or x
x == 2**70; T.randint(0, 2**20, (2,), dtype=d); list(x); float(y[0]); y[1].__index__(); bool(y[0])
x.data_ptr() == 0; T.from_dlpack(x); copy.deepcopy(x); x.untyped_storage().nbytes(); x.is_signed()
T.meshgrid(x, y, indexing="ij")[0]"""


def outcome(lib, name, call):
    d = getattr(lib, name)
    x = lib.from_numpy(np.array([2 ** (BITS[name] - 1), 2 ** BITS[name] - 1], name))
    y = lib.from_numpy(np.array([3, 2], name))
    lib.manual_seed(3)
    try:
        result = eval(call, {"T": lib, "d": d, "x": x, "y": y, "np": np, "copy": copy})  # noqa: S307
    except Exception as error:  # noqa: BLE001
        return next(t for t in type(error).__mro__ if t.__module__ == "builtins")
    return result


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_what_pytorch_does_with_them(name):
    found = []
    for call in CALLS.replace("\n", "; ").split("; "):
        got, expected = (outcome(lib, name, call) for lib in (weft, torch))
        if expected is NotImplementedError and not isinstance(got, type):
            continue  # weft computes
        if str(got) != str(expected) and not _close(got, expected):
            found.append(f"{call}: {got} for {expected}")
    assert not found, "\n".join(found)


def _close(got, expected):
    if not hasattr(expected, "is_floating_point") or not hasattr(got, "dtype"):
        return False
    same = str(got.dtype) == str(expected.dtype) and expected.is_floating_point()
    return same and np.allclose(got.tolist(), expected.tolist(), 1e-6)


@pytest.mark.parametrize("name", DTYPES)
def test_what_weft_computes_besides(name):
    """Where PyTorch has no kernel: sums wrap, and the order is that of unsigned numbers."""
    top = 2 ** BITS[name] - 1
    x = weft.tensor([1, top, top // 2 + 1], dtype=getattr(weft, name))
    assert (x + 1).tolist() == [2, 0, top // 2 + 2] and (x - x).tolist() == [0] * 3
    assert (-x).tolist() == [top, 1, top // 2 + 1] and (~x).tolist() == [top - 1, 0, top // 2]
    assert (x > 2).tolist() == (x >= top // 2).tolist() == [False, True, True]
    assert x.max().item() == x.amax().item() == top and x.argmin().item() == 0
    assert x.median().item() == top // 2 + 1 and x.topk(2).indices.tolist() == [1, 2]
    assert weft.maximum(x, x.flip(0)).tolist() == [top // 2 + 1, top, top // 2 + 1]
    assert x.square().tolist() == [v * v % (top + 1) for v in x.tolist()]
    assert weft.zeros(2**18, dtype=x.dtype).add(top).lt(top).any().item() is False


def test_uint64_takes_every_number_that_it_holds():
    x = weft.zeros(2, dtype=weft.uint64).fill_(2**64 - 1)
    assert x.tolist() == [2**64 - 1] * 2 and int(x[0]) == 2**64 - 1 and f"{x[0].item()}"
    assert (x == 2**64 - 1).all() and (x * 2**63).tolist() == [2**63] * 2 and (x > 2**63).all()
    assert weft.tensor([1e19, 2.0**63, -1.0], dtype=weft.float64).to(weft.uint64).tolist() == [
        10**19, 2**63, 2**64 - 1
    ]  # fmt: skip


def test_uint64_is_refused_where_int64_computes_other_numbers():
    x = weft.tensor([1, 2**64 - 1], dtype=weft.uint64)
    calls = (lambda: x // 2, lambda: x % 2, lambda: x >> 1, lambda: x @ x, lambda: x.clamp(0, 3))
    for call in calls:
        with pytest.raises(NotImplementedError, match="uint64.*not implemented for 'UInt64'"):
            call()
    with pytest.raises(NotImplementedError):
        weft.lcm(x, x)


@pytest.mark.parametrize("name", DTYPES)
def test_files(name):
    x = weft.tensor([[1, 2], [3, 2 ** BITS[name] - 1]], dtype=getattr(weft, name))
    for written, read in ((weft, torch), (torch, weft), (weft, weft)):
        file = io.BytesIO()
        written.save({"x": torch.from_numpy(x.numpy()) if written is torch else x}, file)
        file.seek(0)
        back = read.load(file)["x"]
        assert back.tolist() == x.tolist() and str(back.dtype) == str(x.dtype)
    back = pickle.loads(pickle.dumps(x))
    assert back.tolist() == x.tolist() and back.dtype == x.dtype
    back = safetensors.load(safetensors.save({"x": x}))["x"]
    assert back.tolist() == x.tolist() and back.dtype == x.dtype


@pytest.mark.parametrize("name", DTYPES)
def test_memory_is_shared_with_numpy_and_through_dlpack(name):
    array = np.array([1, 2], name)
    x = weft.from_numpy(array)
    array[0] = 7
    assert x.tolist() == [7, 2] and np.asarray(x).dtype == name and x.numpy().dtype == name
    theirs = torch.from_dlpack(x)
    theirs[1] = 9
    assert array.tolist() == [7, 9] and weft.from_dlpack(theirs).data_ptr() == x.data_ptr()
