"""safetensors: exchange with the package of that name, and files that break the rules."""

import json
import os
import struct

import pytest

import weft
from weft.safetensors import SafetensorError, load, load_file, safe_open, save, save_file

NUMPY = {
    "bool": "?", "uint8": "u1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
    "uint16": "u2", "uint32": "u4", "uint64": "u8", "float16": "f2", "float32": "f4",
    "float64": "f8", "complex64": "c8",
}  # fmt: skip
DTYPES = [n for n in NUMPY if isinstance(getattr(weft, n, None), weft.dtype)]


@pytest.fixture(scope="module")
def reference():
    return pytest.importorskip("safetensors.numpy")


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 1)])
def test_both_ways(reference, name, shape):
    import numpy as np

    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(NUMPY[name])
    ours = load(reference.save({"x": array, "y": np.zeros(3, "f4")}, {"a": "é"}))
    assert str(ours["x"].dtype) == f"torch.{name}" and tuple(ours["x"].shape) == shape
    assert ours["x"].tolist() == array.tolist()
    theirs = reference.load(save(ours, {"b": "c"}))
    assert theirs["x"].dtype == array.dtype and theirs["x"].shape == shape
    assert theirs["x"].tolist() == array.tolist() and theirs["y"].tolist() == [0, 0, 0]


def test_all_dtypes_in_one_file(reference):
    tensors = {n: weft.tensor([0, 1, 1]).to(getattr(weft, n)) for n in DTYPES}
    assert {k: v.tolist() for k, v in reference.load(save(tensors)).items()} == {
        k: v.tolist() for k, v in tensors.items()
    }


def test_slices(reference, tmp_path):
    from safetensors import safe_open as their_open

    path = tmp_path / "a.safetensors"
    save_file({"b": weft.arange(24.0).reshape(4, 6), "a": weft.tensor([1])}, path, {"k": "v"})
    with safe_open(path, "pt") as ours, their_open(path, "np") as theirs:
        assert ours.keys() == list(theirs.keys())
        assert ours.offset_keys() == list(theirs.offset_keys())
        assert ours.metadata() == theirs.metadata() == {"k": "v"}
        for index in (0, slice(1, 3), (slice(None), 2), (slice(0, 4, 1), slice(2, 5)), ...):
            assert ours.get_slice("b")[index].tolist() == theirs.get_slice("b")[index].tolist()
        assert ours.get_slice("b").get_shape() == theirs.get_slice("b").get_shape()
        assert ours.get_slice("b").get_dtype() == theirs.get_slice("b").get_dtype()
        kept = ours.get_tensor("b")
        with pytest.raises(SafetensorError):
            ours.get_tensor("c")
    os.unlink(path)
    kept.fill_(1)
    with pytest.raises(SafetensorError, match="closed"):
        ours.get_tensor("b")
    with pytest.raises(SafetensorError, match="framework"):
        safe_open(path, "tf")


def test_what_cannot_be_written(tmp_path):
    base = weft.arange(6.0)
    path = tmp_path / "a.safetensors"
    for error, tensors in [
        (ValueError, {"a": base.reshape(2, 3).t()}),
        (ValueError, {"a": 3}),
        (ValueError, {3: base}),
        (ValueError, [base]),
        (ValueError, {"__metadata__": base}),
        (RuntimeError, {"a": base, "b": base[3:]}),
    ]:
        with pytest.raises(error, match=r"\[safetensors\] expected"):
            save_file(tensors, path)
    with pytest.raises(ValueError, match="metadata"):
        save_file({"a": base}, path, {"a": 1})
    assert os.listdir(tmp_path) == []
    save_file({"a": base[:3], "b": base[3:]}, path)  # apart in one storage
    assert load_file(path)["b"].tolist() == [3, 4, 5]


def file_of(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


GOOD = file_of({"a": entry()}, bytes(8))
BAD = {
    "nothing": b"",
    "short length": b"\x01\0\0",
    "length beyond the file": file_of({"a": entry()}, bytes(8), 2**40),
    "length beyond 64 bits": b"\xff" * 16,
    "no object": file_of(b"[1]"),
    "space first": file_of(b" {}"),
    "no JSON": file_of(b"{'a'}"),
    "two objects": file_of(b"{}{}"),
    "no text": file_of(b'{"\xff": 1}'),
    "deep": file_of(b'{"a":' * 100_000),
    "long number": file_of(b'{"a":' + b"1" * 5000 + b"}"),
    "nan": file_of(b'{"a": NaN}'),
    "name twice": file_of(b'{"a": %b, "a": %b}' % ((json.dumps(entry()).encode(),) * 2), bytes(8)),
    "key twice": file_of(
        b'{"a": {"dtype": "F32", "dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}', bytes(8)
    ),
    "unknown key": file_of({"a": entry(more=1)}, bytes(8)),
    "no entry": file_of({"a": 3}),
    "missing key": file_of({"a": {"dtype": "F32"}}),
    "unknown dtype": file_of({"a": entry("F33")}, bytes(8)),
    "dtype a list": file_of({"a": entry(["F32"])}, bytes(8)),
    "negative size": file_of({"a": entry(shape=(-2, -1))}, bytes(8)),
    "bool size": file_of({"a": entry(shape=(2, True))}, bytes(8)),
    "float size": file_of({"a": entry(shape=(2.0,))}, bytes(8)),
    "size of 2**64": file_of({"a": entry(shape=(2**64, 0), offsets=(0, 0))}),
    "too many dims": file_of({"a": entry(shape=(1,) * 65 + (2,))}, bytes(8)),
    "size and offsets": file_of({"a": entry(shape=(3,))}, bytes(8)),
    "overflowing size": file_of({"a": entry(shape=(2**62, 2**62), offsets=(0, 0))}),
    "offsets reversed": file_of({"a": entry(offsets=(8, 0))}, bytes(8)),
    "three offsets": file_of({"a": entry(offsets=(0, 8, 8))}, bytes(8)),
    "offset beyond": file_of({"a": entry(offsets=(8, 16))}, bytes(8)),
    "hole first": file_of({"a": entry(offsets=(4, 12))}, bytes(12)),
    "hole between": file_of({"a": entry(), "b": entry(offsets=(12, 20))}, bytes(20)),
    "overlap": file_of({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)),
    "bytes left": file_of({"a": entry()}, bytes(9)),
    "bytes missing": file_of({"a": entry()}, bytes(7)),
    "metadata of numbers": file_of({"__metadata__": {"a": 1}}),
    "metadata a list": file_of({"__metadata__": []}),
}


def test_the_good_file_loads():
    assert load(GOOD)["a"].tolist() == [0, 0]


@pytest.mark.parametrize("name", BAD)
def test_files_that_break_the_rules(name, tmp_path):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(BAD[name])
    for read in (lambda: load(BAD[name]), lambda: load_file(path)):
        with pytest.raises(SafetensorError, match=r"\[safetensors\] expected"):
            read()
    with pytest.raises(SafetensorError):
        safe_open(path).get_tensor("a")


def test_a_byte_that_is_no_bool_becomes_one(tmp_path):
    """Code that reads a bool trusts that memory holds 0 or 1 there; a file may hold anything."""
    data = bytearray(weft.safetensors.save({"mask": weft.tensor([True, False, True])}))
    data[-3] = 112
    path = tmp_path / "mask.safetensors"
    path.write_bytes(data)
    with weft.safetensors.safe_open(path, "pt") as file:
        found = [weft.safetensors.load(bytes(data))["mask"], file.get_tensor("mask")]
    for mask in found:
        assert memoryview(mask).cast("B").tolist() == [1, 0, 1]


def test_a_file_that_is_loaded_is_its_tensors_memory(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"a": weft.arange(4.0), "b": weft.arange(3)}, path)
    before = path.read_bytes()
    one, two = load_file(path), load_file(path)
    with open("/proc/self/maps") as maps:
        assert sum(line.rstrip().endswith(str(path)) for line in maps) == 2
    one["a"].fill_(7)  # its own page
    assert path.read_bytes() == before and two["a"].tolist() == [0, 1, 2, 3]
    save_file(one, path)  # another file takes its place
    assert one["a"].tolist() == [7] * 4 and one["b"].tolist() == [0, 1, 2]
    assert two["a"].tolist() == [0, 1, 2, 3] and load_file(path)["a"].tolist() == [7] * 4
    os.unlink(path)
    kept = two.pop("b")
    del one, two
    assert kept.tolist() == [0, 1, 2]
    del kept
    with open("/proc/self/maps") as maps:
        assert str(path) not in maps.read()
    with pytest.raises(FileNotFoundError):
        load_file(path)


def test_tensors_begin_with_a_line_of_the_cache():
    """Those that fill whole lines; products read the weights of a mapped program where they lie."""
    shapes = {"a": (5,), "b": (3, 16), "c": (1,), "d": (64,), "e": (7, 33), "f": (8, 8)}
    tensors = {name: weft.ones(*shape) for name, shape in shapes.items()}
    tensors["g"] = weft.ones(16, dtype=weft.float64)
    tensors["h"] = weft.ones(3, dtype=weft.int16)
    for words in ({}, {"by": "weft"}, {"text": "x" * 61}):
        data = save(tensors, words)
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        begins = {n: 8 + size + e["data_offsets"][0] for n, e in header.items() if n in tensors}
        assert all(begins[name] % 64 == 0 for name in "bdfg")
        assert all(begins[name] % t.itemsize == 0 for name, t in tensors.items())
