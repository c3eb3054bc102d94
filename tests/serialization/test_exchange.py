"""Files go from weft to torch and back: values, layout, sharing, classes, attributes."""

import io
import os
from collections import Counter, OrderedDict

import pytest

import weft

DTYPES = [
    name
    for name in (
        "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
        "complex64 complex128"
    ).split()
    if isinstance(getattr(weft, name, None), weft.dtype)
]


def to_torch(obj, torch):
    file = io.BytesIO()
    weft.save(obj, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def to_weft(obj, torch, **kwargs):
    file = io.BytesIO()
    torch.save(obj, file, **kwargs)
    file.seek(0)
    return weft.load(file)


def same(ours, theirs):
    """Whether a tensor of weft and one of torch agree in all that a file keeps."""
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert ours.stride() == theirs.stride()
    assert ours._storage_info()[2] == theirs.storage_offset()
    assert ours._storage_info()[1] == theirs.untyped_storage().nbytes()
    assert ours.requires_grad == theirs.requires_grad
    assert ours.tolist() == theirs.tolist()
    return True


LAYOUTS = {
    "plain": lambda m: m.arange(6.0).reshape(2, 3),
    "0-d": lambda m: m.tensor(2.5),
    "empty": lambda m: m.zeros(0, 3),
    "transposed": lambda m: m.arange(6.0).reshape(2, 3).t(),
    "offset": lambda m: m.arange(9.0)[4:],
    "steps": lambda m: m.arange(9.0)[1::3],
    "expanded": lambda m: m.arange(3.0).reshape(3, 1).expand(3, 4),
    "five": lambda m: m.arange(32.0).reshape(2, 2, 2, 2, 2).permute(4, 0, 3, 1, 2),
    "grad": lambda m: m.arange(3.0).requires_grad_(),
    "inner": lambda m: m.arange(3.0).requires_grad_() * 2,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("legacy", [False, True])
def test_layouts_from_torch(torch, layout, legacy):
    theirs = LAYOUTS[layout](torch)
    assert same(to_weft(theirs, torch, _use_new_zipfile_serialization=not legacy), theirs)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_to_torch(torch, layout):
    ours = LAYOUTS[layout](weft)
    assert same(ours, to_torch(ours, torch))


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_both_ways(torch, name):
    theirs = torch.tensor([0, 1, 1, 0, 3]).to(getattr(torch, name))
    ours = to_weft(theirs, torch)
    assert same(ours, theirs)
    back = to_torch(ours, torch)
    assert back.dtype is theirs.dtype and torch.equal(back, theirs)


def test_views_keep_their_memory_in_common(torch):
    base = torch.arange(10.0)
    theirs = {"base": base, "part": base[2:5], "again": base, "other": base.clone()}
    ours = to_weft(theirs, torch)
    assert ours["base"] is ours["again"]
    ours["part"].fill_(-1)
    assert ours["base"].tolist() == [0, 1, -1, -1, -1, 5, 6, 7, 8, 9]
    assert ours["other"].tolist() == list(range(10))
    back = to_torch(ours, torch)
    back["part"].fill_(7)
    assert back["base"].tolist() == [0, 1, 7, 7, 7, 5, 6, 7, 8, 9]


def test_a_storage_is_written_once(tmp_path):
    base = weft.zeros(100_000)
    weft.save([base[:10], base[10:], base], tmp_path / "a.pt")
    assert 400_000 < os.path.getsize(tmp_path / "a.pt") < 410_000


PLAIN = {
    "scalars": [1, -1, 2**31, -(2**40), 2**100, -(2**100), 0.5, float("inf"), True, False, None],
    "text": ["", "a", "é€😀", "x" * 300, "\udc80", "c\nos\nsystem\n"],
    "bytes": [b"\x00\xff" * 200, bytearray(b"ab"), bytearray()],
    "complex": 1 - 2j,
    "containers": {"a": [1, (2, (3,)), {4, 5}], (1, "b"): {}, None: [], 2.5: ((), [[]])},
    "ordered": OrderedDict([("b", 1), ("a", OrderedDict())]),
    "counter": Counter("abca"),
    "long": list(range(3000)),
    "keys": {i: str(i) for i in range(3000)},
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_objects_both_ways(torch, name):
    value = PLAIN[name]
    for there in (to_torch(value, torch), to_weft(value, torch)):
        assert there == value and type(there) is type(value)


def test_empty_bytes_which_torch_does_not_load():
    file = io.BytesIO()
    weft.save([b"", frozenset([1])], file)
    file.seek(0)
    assert weft.load(file) == [b"", frozenset([1])]


def test_objects_that_hold_themselves():
    loop = [1]
    loop.append(loop)
    file = io.BytesIO()
    weft.save(loop, file)
    file.seek(0)
    back = weft.load(file)
    assert back[0] == 1 and back[1] is back


def test_size_dtype_device_layout(torch):
    ours = [weft.Size([2, 3]), weft.float32, weft.bool, weft.device("cpu"), weft.strided]
    theirs = [torch.Size([2, 3]), torch.float32, torch.bool, torch.device("cpu"), torch.strided]
    assert to_torch(ours, torch) == theirs
    assert to_weft(theirs, torch) == ours
    assert type(to_weft(theirs, torch)[0]) is weft.Size


def test_parameters_buffers_and_attributes(torch):
    for make, other, send in ((weft, torch, to_torch), (torch, weft, to_weft)):
        parameter = make.nn.Parameter(make.ones(2), requires_grad=False)
        parameter.note = {"a": [1]}
        tensor = make.zeros(2)
        tensor.note = "b"
        buffer = make.nn.Buffer(make.ones(1), persistent=False)
        got = send([parameter, tensor, buffer, make.nn.Parameter(make.ones(1))], torch)
        assert type(got[0]) is other.nn.Parameter and not got[0].requires_grad
        assert got[0].note == {"a": [1]} and got[1].note == "b"
        assert isinstance(got[2], other.nn.Buffer) and got[2].persistent is False
        assert type(got[3]) is other.nn.Parameter and got[3].requires_grad


def test_state_dicts_with_metadata(torch):
    def model(m):
        return m.nn.Sequential(m.nn.Linear(3, 4), m.nn.Tanh(), m.nn.Linear(4, 2))

    theirs, ours = model(torch), model(weft)
    state = to_weft(theirs.state_dict(), torch)
    assert type(state) is OrderedDict
    assert state._metadata == theirs.state_dict()._metadata
    ours.load_state_dict(state)
    x = [[0.5, -1.0, 2.0]]
    assert ours(weft.tensor(x)).tolist()[0] == pytest.approx(
        theirs(torch.tensor(x)).tolist()[0], rel=1e-5
    )
    other = model(torch)
    sent = to_torch(ours.state_dict(), torch)
    assert sent._metadata == ours.state_dict()._metadata
    other.load_state_dict(sent)
    assert torch.equal(other[0].weight, theirs[0].weight)


OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {"amsgrad": True},
    "AdamW": {"weight_decay": 0.1},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_goes_on_in_the_other_library(torch, name):
    def run(m, steps, values=None, state=None):
        p = m.nn.Parameter(m.tensor([1.0, -2.0, 3.0] if values is None else values))
        optimizer = getattr(m.optim, name)([p], lr=0.1, **OPTIMIZERS[name])
        if state is not None:
            optimizer.load_state_dict(state)
        for _ in range(steps):
            optimizer.zero_grad()
            (p * p * p).sum().backward()
            optimizer.step()
        return p.tolist(), optimizer.state_dict()

    whole, _ = run(torch, 6)
    values, state = run(torch, 3)
    assert run(weft, 3, values, to_weft(state, torch))[0] == pytest.approx(whole, rel=1e-5)
    values, state = run(weft, 3)
    assert run(torch, 3, values, to_torch(state, torch))[0] == pytest.approx(whole, rel=1e-5)


def test_big_endian_files(torch):
    file = io.BytesIO()
    weft.save({"a": weft.arange(3.0), "b": weft.tensor([1, 2])}, file)
    little = file.getvalue()
    import zipfile

    with zipfile.ZipFile(io.BytesIO(little)) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    records["archive/byteorder"] = b"big"
    records["archive/data/0"] = b"".join(
        records["archive/data/0"][i : i + 4][::-1] for i in range(0, 12, 4)
    )
    records["archive/data/1"] = b"".join(
        records["archive/data/1"][i : i + 8][::-1] for i in range(0, 16, 8)
    )
    big = io.BytesIO()
    with zipfile.ZipFile(big, "w") as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    for load in (weft.load, torch.load):
        big.seek(0)
        loaded = load(big)
        assert loaded["a"].tolist() == [0, 1, 2] and loaded["b"].tolist() == [1, 2]


def test_two_dtypes_over_one_memory_are_refused():
    from weft import _C

    bits = weft.ones(4)
    ints = _C._over(bits, weft.int64, 0, (2,), (1,))
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        weft.save([bits, ints], io.BytesIO())


def test_tensors_are_aligned_in_the_file(torch, tmp_path):
    path = tmp_path / "a.pt"
    weft.save([weft.ones(n) for n in (1, 3, 100, 0, 7)], path)
    mapped = torch.load(path, mmap=True)
    assert [t.data_ptr() % 64 for t in mapped if t.numel()] == [0] * 4
