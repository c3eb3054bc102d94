"""What `weft.load` takes, refuses, and never does."""

import collections
import io
import os
import pickle
import struct
import sys
import zipfile

import pytest

import weft
from weft.serialization import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    safe_globals,
)

LOADED = weft.arange(4.0)


def saved(obj):
    file = io.BytesIO()
    weft.save(obj, file)
    file.seek(0)
    return file


def archive(pickled, *more, **records):
    """An archive around a pickle; `more`: (name, bytes) pairs, doubled names too."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("archive/data.pkl", pickled)
        for name, data in [*records.items(), *more]:
            out.writestr(f"archive/{name}", data)
    file.seek(0)
    return file


@pytest.fixture
def path(tmp_path):
    weft.save({"a": LOADED, "b": LOADED[1:]}, tmp_path / "a.pt")
    return tmp_path / "a.pt"


# ---- sources


def test_paths_and_files(path):
    for source in (path, str(path), open(path, "rb"), io.BytesIO(path.read_bytes())):
        assert weft.load(source)["b"].tolist() == [1, 2, 3]


def test_a_file_without_readinto(path):
    class Plain:
        def __init__(self):
            file = open(path, "rb")
            self.read, self.seek, self.tell = file.read, file.seek, file.tell
            self.seekable = lambda: True

    assert weft.load(Plain())["a"].tolist() == [0, 1, 2, 3]


def test_a_file_that_cannot_seek(path):
    read, write = os.pipe()
    os.close(write)
    with os.fdopen(read, "rb") as pipe, pytest.raises(io.UnsupportedOperation, match="BytesIO"):
        weft.load(pipe)


def test_mapped_files(path):
    ours = weft.load(path, mmap=True)
    ours["a"].fill_(9)  # a private copy: the file stays
    assert ours["b"].tolist() == [9, 9, 9]
    assert weft.load(path)["a"].tolist() == [0, 1, 2, 3]
    os.unlink(path)
    assert ours["a"].tolist() == [9] * 4


def test_mapping_needs_a_path_and_an_archive(torch, path, tmp_path):
    with pytest.raises(ValueError, match="must be a file path"):
        weft.load(io.BytesIO(path.read_bytes()), mmap=True)
    torch.save(torch.ones(2), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        weft.load(tmp_path / "old.pt", mmap=True)


def test_safetensors_by_name(tmp_path):
    weft.safetensors.save_file({"a": LOADED}, tmp_path / "a.safetensors")
    for where in (None, "cpu", b"cpu", weft.device("cpu")):
        loaded = weft.load(tmp_path / "a.safetensors", map_location=where)
        assert loaded["a"].tolist() == [0, 1, 2, 3]
    for where in ("cuda", {}, lambda s, at: s):
        with pytest.raises(RuntimeError):
            weft.load(tmp_path / "a.safetensors", map_location=where)


def test_an_empty_file(torch):
    for t in (torch, weft):
        for weights_only in (False, True):
            with pytest.raises(EOFError):
                t.load(io.BytesIO(), weights_only=weights_only)


def test_a_pickle_module_needs_trust(torch):
    for t in (torch, weft):
        file = io.BytesIO()
        t.save([t.ones(2)], file)
        with pytest.raises(RuntimeError, match="Can not safely load weights when explicit"):
            t.load(file, pickle_module=pickle, weights_only=True)
        for weights_only in (None, False):
            file.seek(0)
            loaded = t.load(file, pickle_module=pickle, weights_only=weights_only)
            assert loaded[0].tolist() == [1, 1]


def test_the_default_order_of_bytes():
    from weft.serialization import LoadEndianness, set_default_load_endianness

    with zipfile.ZipFile(saved(weft.tensor([1], dtype=weft.int32))) as source:
        pickled = source.read("archive/data.pkl")
    values = {}
    for order in (None, *LoadEndianness):
        file = archive(pickled, ("data/0", b"\0\0\0\2"))  # it does not tell its order
        set_default_load_endianness(order)
        try:
            values[order] = weft.load(file).item()
        finally:
            set_default_load_endianness(None)
    little, big = 2 << 24, 2
    native = little if sys.byteorder == "little" else big
    assert list(values.values()) == [little, native, little, big]
    with pytest.raises(TypeError, match="Invalid argument type"):
        set_default_load_endianness("big")


# ---- map_location


@pytest.mark.parametrize(
    "where", [None, "cpu", b"cpu", weft.device("cpu"), {"cpu": "cpu"}, {}, lambda s, at: s,
              lambda s, at: None, lambda s, at: s.cpu()]
)  # fmt: skip
def test_locations(path, where):
    assert weft.load(path, map_location=where)["b"].tolist() == [1, 2, 3]


def test_locations_of_other_devices():
    moved = saved(LOADED).getvalue()
    with zipfile.ZipFile(io.BytesIO(moved)) as source:
        pickled = source.read("archive/data.pkl").replace(b"\x03\0\0\0cpu", b"\x06\0\0\0cuda:0")
        data = source.read("archive/data/0")
    file = archive(pickled, ("data/0", data))
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA"):
        weft.load(file)
    seen = []
    for where in ("cpu", {"cuda:0": "cpu"}, lambda s, at: seen.append((s.numel(), at)) or s):
        file.seek(0)
        assert weft.load(file, map_location=where).tolist() == [0, 1, 2, 3]
    assert seen == [(4, "cuda:0")]
    for where in ("cuda", {"cuda:0": "cuda:1"}):
        file.seek(0)
        with pytest.raises(RuntimeError):
            weft.load(file, map_location=where)
    for where in (3, lambda s, at: "cpu"):
        file.seek(0)
        with pytest.raises(TypeError, match="map_location"):
            weft.load(file, map_location=where)


# ---- the allow-list


class Point:
    """A class that files may use once it is allowed."""

    def __init__(self, x=0):
        self.x = x

    def __eq__(self, other):
        return type(other) is Point and other.x == self.x


class Net(weft.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.BatchNorm1d(2))
        self.last = weft.nn.functional.glu

    def forward(self, x):
        return self.last(self.layers(x))


@pytest.mark.parametrize("make", [Net, lambda: weft.nn.Linear(3, 2), lambda: weft.nn.GRU(3, 2)])
def test_whole_modules(make):
    """A saved module could not be loaded at all, not even one of weft's own."""
    module = make()
    file = saved({"model": module, "points": [Point(3)]})
    with pytest.raises(pickle.UnpicklingError):
        weft.load(file)
    file.seek(0)
    out = weft.load(file, weights_only=False)
    assert out["points"] == [Point(3)]
    x = weft.ones(4, 3)
    assert str(out["model"]) == str(module)
    assert str(out["model"].eval()(x)) == str(module.eval()(x))


def test_a_module_of_pytorchs_is_told_apart():
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save(torch.nn.Linear(2, 1), file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="state_dict"):
        weft.load(file, weights_only=False)


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_of_pytorchs_load_by_the_pickle_machinery_too(zipped):
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    values = {"a": torch.ones(2), "p": torch.nn.Parameter(torch.ones(1)), "s": torch.Size([1])}
    torch.save(values, file, _use_new_zipfile_serialization=zipped)
    for weights_only in (True, False):
        file.seek(0)
        assert str(weft.load(file, weights_only=weights_only)) == str(values)


def test_classes_have_to_be_allowed():
    file = saved([Point(3), collections.defaultdict(list, {"a": [1]})])
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals.*Point"):
        weft.load(file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Weights only.*weights_only=False"):
        weft.load(file, weights_only=True)
    with safe_globals([Point, collections.defaultdict, list]):
        file.seek(0)
        assert weft.load(file) == [Point(3), {"a": [1]}]
    assert get_safe_globals() == []
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        weft.load(file)


def test_the_allow_list():
    add_safe_globals([Point, (Point, "elsewhere.Place")])
    assert get_safe_globals() == [Point, Point]
    try:
        made = b"\x80\x02celsewhere\nPlace\n)\x81}X\x01\0\0\0xK\x05sb."
        assert weft.load(archive(made)) == Point(5)
    finally:
        clear_safe_globals()
    assert get_safe_globals() == []
    for bad in ([3], [(Point, 3)]):
        with pytest.raises(TypeError):
            add_safe_globals(bad)
    with pytest.raises(ValueError):
        add_safe_globals([(Point,)])


def test_names_that_would_be_refused():
    assert get_unsafe_globals_in_checkpoint(saved(LOADED)) == []
    names = get_unsafe_globals_in_checkpoint(saved([Point(1)]))
    assert names == [f"{Point.__module__}.Point"]


def test_a_module_comes_back_where_its_classes_are_allowed():
    model = weft.nn.Linear(2, 1)
    file = saved(model)
    with pytest.raises(pickle.UnpicklingError, match="weft.nn.linear.Linear"):
        weft.load(file)
    file.seek(0)
    with safe_globals([weft.nn.Linear]):
        again = weft.load(file)
    assert again.weight.tolist() == model.weight.tolist()


# ---- attacks


ATTACKS = {
    "os.system": b"\x80\x02cos\nsystem\nX\x02\0\0\0id\x85R.",
    "posix.system": b"\x80\x02cposix\nsystem\nX\x02\0\0\0id\x85R.",
    "eval": b"\x80\x02c__builtin__\neval\nX\x03\0\0\x001+1\x85R.",
    "getattr": b"\x80\x02cbuiltins\ngetattr\nctorch\nSize\nX\x03\0\0\0mro\x86R.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.",
    "inst": b"\x80\x02(S'id'\nios\nsystem\n.",
    "obj": b"\x80\x02(cos\nsystem\nS'id'\no.",
    "extension": b"\x80\x02\x82\x01.",
    "newobj_ex": b"\x80\x04cbuiltins\nset\n)}\x92.",
    "attribute path": b"\x80\x02ctorch\nTensor.__init__\n)R.",
    "call a tensor class": b"\x80\x02ctorch\nTensor\n)R.",
    "call an int": b"\x80\x02K\x01)R.",
    "build on a class": b"\x80\x02ccollections\nOrderedDict\n}X\x01\0\0\0xK\x01sb.",
    "build on a dict": b"\x80\x02}}b.",
    "build dunder": b"\x80\x02ccollections\nOrderedDict\n)R}X\x09\0\0\0__class__K\x01sb.",
    "bytearray of a size": b"\x80\x02c__builtin__\nbytearray\n\x8a\x06\0\0\0\0\0\x01\x85R.",
    "set item on a list": b"\x80\x02]K\x01K\x01s.",
    "append on a set": b"\x80\x04\x8fK\x01a.",
    "long": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "negative long": b"\x80\x02\x8b\xff\xff\xff\xff.",
    "text": b"\x80\x02X\xff\xff\xff\xffab.",
    "text 8": b"\x80\x04\x8d" + b"\xff" * 8 + b".",
    "bytes 8": b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7fab.",
    "memo": b"\x80\x02h\x05.",
    "put nothing": b"\x80\x02q\x05.",
    "no mark": b"\x80\x02t.",
    "tuple of nothing": b"\x80\x02\x87.",
    "nothing": b"",
    "no stop": b"\x80\x02K\x01",
    "only stop": b"\x80\x02.",
    "marks": b"\x80\x02" + b"(" * 1_000_000 + b".",
    "deep key": b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.",
    "wide key": b"\x80\x02})" + b"2\x86" * 60 + b"K\x01s.",
    "key that doubles": b"\x80\x02}" + b")" + b"q\x00h\x00\x86" * 60 + b"K\x01s.",
    "deep set": b"\x80\x02c__builtin__\nset\n])" + b"\x85" * 200_000 + b"a\x85R.",
    "unhashable": b"\x80\x02}]K\x01s.",
    "persistent id": b"\x80\x02K\x01Q.",
    "protocol": b"\x80\x09K\x01.",
    "storage of a module": b"\x80\x02(X\x06\0\0\0modulectorch\nFloatStorage\nX\x01\0\0\x000NNtQ.",
}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("weights_only", [None, True])
def test_attacks(name, weights_only):
    with pytest.raises(pickle.UnpicklingError):
        weft.load(archive(ATTACKS[name]), weights_only=weights_only)


def tensor_pickle(count=4, offset=0, size=(4,), stride=(1,), key="0", kind="FloatStorage"):
    """A pickle of one tensor with these parts."""

    def ints(values):
        return b"(" + b"".join(number(v) for v in values) + b"t"

    def number(v):
        raw = v.to_bytes(17, "little", signed=True)
        return b"\x8a" + bytes([len(raw)]) + raw

    def text(v):
        return b"X" + struct.pack("<I", len(v)) + v.encode()

    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\n"
        + kind.encode() + b"\n" + text(key) + text("cpu") + number(count) + b"tQ"
        + number(offset) + ints(size) + ints(stride) + b"\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


def test_the_pickle_of_a_tensor_loads():
    assert weft.load(archive(tensor_pickle(), ("data/0", bytes(16)))).tolist() == [0] * 4


@pytest.mark.parametrize(
    "parts",
    [
        {"count": 5}, {"count": 3}, {"count": -1}, {"count": 2**62}, {"count": 2**63},
        {"offset": 1}, {"offset": -1}, {"offset": 2**62}, {"offset": 2**63}, {"offset": 2**70},
        {"size": (5,)}, {"size": (-1,)}, {"size": (2**63,)}, {"size": (2**62,), "stride": (4,)},
        {"size": (2**40, 2**40), "stride": (0, 0)}, {"size": (2, 2)}, {"size": (1,) * 65},
        {"size": (1,) * 65, "stride": (1,) * 65}, {"stride": (2,)}, {"stride": (-1,)},
        {"stride": (2**62,)}, {"key": "1"}, {"key": "../0"}, {"kind": "LongStorage"},
        {"kind": "NoStorage"}, {"kind": "QInt8Storage"},
    ],
)  # fmt: skip
def test_layouts_outside_the_storage(parts):
    with pytest.raises(pickle.UnpicklingError):
        weft.load(archive(tensor_pickle(**parts), ("data/0", bytes(16))))


# ---- damaged archives


def test_doubled_records():
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="twice"):
        weft.load(archive(tensor_pickle(), ("data/0", bytes(16)), ("data/0", bytes(16))))


def test_compressed_records():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("archive/data.pkl", tensor_pickle(2**20, size=(2**20,)))
        out.writestr("archive/data/0", bytes(2**22))
    file.seek(0)
    with pytest.raises(RuntimeError, match="not compressed"):
        weft.load(file)


def test_a_changed_byte_is_found(path):
    raw = bytearray(path.read_bytes())
    at = raw.index(struct.pack("<f", 3.0))
    raw[at] ^= 1
    with pytest.raises(RuntimeError, match="damaged"):
        weft.load(io.BytesIO(raw))


def test_a_record_that_claims_more_than_the_file():
    raw = bytearray(archive(tensor_pickle(), ("data/0", bytes(16))).getvalue())
    at = raw.rindex(b"PK\x01\x02")
    raw[at + 20 : at + 28] = struct.pack("<II", 2**31, 2**31)
    with pytest.raises(RuntimeError, match="inside"):
        weft.load(io.BytesIO(raw))


def test_a_record_inside_another():
    raw = bytearray(archive(tensor_pickle(), ("data/0", bytes(16))).getvalue())
    at = raw.rindex(b"PK\x01\x02")
    raw[at + 42 : at + 46] = struct.pack("<I", 0)
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        weft.load(io.BytesIO(raw))


@pytest.mark.parametrize(
    "raw", [b"PK\x03\x04", b"abc", b"hello", b"L119", b"\x80", b"\x80\x02K\x01.", b"\x7fELF"]
)
def test_other_files(raw):
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        weft.load(io.BytesIO(raw))


def test_unknown_versions_and_orders():
    for record in ({"version": b"99"}, {"version": b"x"}):
        with pytest.raises(RuntimeError, match="version"):
            weft.load(archive(b"\x80\x02N.", **record))
    with pytest.raises(ValueError, match="Unknown endianness"):
        weft.load(archive(b"\x80\x02N.", byteorder=b"middle"))


def test_arguments(path):
    with pytest.raises(RuntimeError, match="pickle_module"):
        weft.load(path, pickle_module=collections)
    with pytest.raises(TypeError):
        weft.load(path, fix_imports=True)
    with pytest.raises(FileNotFoundError):
        weft.load(path.with_name("none.pt"))
