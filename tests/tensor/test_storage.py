"""Storages: bytes of tensors, of files and new ones, their parts, beside PyTorch's."""

import copy
import os

import pytest

import weft

ASKED = """
s[4:8].tolist(); s[2:5].nbytes(); s[2:5].data_ptr() - s.data_ptr(); s[-3:-1].tolist(); s[5:2].nbytes()
s[:].data_ptr() == s.data_ptr(); s[-1]; s[4]; s.filename; s.is_sparse; t.is_storage(s[1:2]); s[3:4][0:1].tolist()
t.asarray(s[4:8], dtype=t.int32); t.asarray(s[4:8], dtype=t.uint8); t.asarray(s[4:8]); t.asarray(s)
t.as_tensor(s); t.asarray(x.float().storage()); t.asarray(s[4:8], dtype=t.int32, copy=True)
t.empty(0, dtype=t.int32).set_(s[4:8]); t.empty(0, dtype=t.int32).set_(s[4:8]).untyped_storage().nbytes()
t.UntypedStorage(4).nbytes(); t.UntypedStorage([1, 2, 255]).tolist(); t.UntypedStorage().nbytes()
t.UntypedStorage(s).tolist(); t.UntypedStorage(3, device='cpu').device; bytes(s[0:2]); s.byte().tolist()
t.TypedStorage([1, 2], dtype=t.float32).tolist(); t.TypedStorage(3, dtype=t.int16).nbytes()
t.TypedStorage(wrap_storage=s, dtype=t.int16).tolist()
x.storage().float().tolist(); len(x.storage())
isinstance(x.storage(), t.UntypedStorage); x.storage().untyped() == s; s.to(device='cpu') == s
t.UntypedStorage.from_file(f, False, 8).tolist()
t.UntypedStorage.from_file(f, nbytes=16)[8:12].tolist()
t.UntypedStorage.from_file(f).nbytes(); t.UntypedStorage.from_file(f, False, 8).filename
t.UntypedStorage.from_file(f, True, 8).filename == f
t.asarray(t.UntypedStorage.from_file(f, False, 16)[4:12], dtype=t.int32)
t.ones(2, device='meta').untyped_storage().data_ptr(); t.UntypedStorage(4, device='meta').nbytes(); t.UntypedStorage(4, device='meta').device
t.TypedStorage(2, dtype=t.int64, device='meta')
"""  # noqa: E501
WRONG = """
s[::2]; x.storage()[1:2]; s[20]; s['a']; t.UntypedStorage(2.5); t.UntypedStorage(x)
t.UntypedStorage.from_file(f, False, 100); t.UntypedStorage.from_file(f + 'x', False, 4)
t.UntypedStorage(4, device='meta').to(device='cpu')
t.TypedStorage(wrap_storage=s); t.frombuffer(s, dtype=t.uint8)
t.asarray(x.storage(), dtype=t.int64)
"""


def listed(text):
    return [c.strip() for c in text.replace("\n", ";").split(";") if c.strip()]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("storage") / "bytes"
    path.write_bytes(bytes(range(16)))
    return str(path)


def asked(t, text, file):
    x = t.arange(4, dtype=t.int32)
    return eval(text, {"t": t, "x": x, "s": x.untyped_storage(), "f": file})  # noqa: S307


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", listed(ASKED))
def test_the_answers_are_pytorchs(torch, text, file):
    assert repr(asked(weft, text, file)) == repr(asked(torch, text, file))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", listed(WRONG))
def test_errors_are_of_pytorchs_types(torch, text, file):
    kinds = []
    for t in (torch, weft):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            asked(t, text, file)
        kinds.append(type(caught.value))
    assert issubclass(kinds[1], kinds[0]), kinds


def test_a_slice_is_the_same_memory_and_a_storage_of_its_own():
    x = weft.arange(4, dtype=weft.int32)
    part = weft.asarray(x.untyped_storage()[4:12], dtype=weft.int32)
    part[0] = 9
    assert x.tolist() == [0, 9, 2, 3]
    # packages take tensors whose storages are equal for views of one another
    assert part.untyped_storage().data_ptr() == part.data_ptr()
    assert part.untyped_storage().nbytes() == 8
    del x
    assert part.tolist() == [9, 2]


def test_what_is_written_to_a_mapped_file(file):
    with open(file, "rb") as opened:
        before = opened.read()
    own = weft.UntypedStorage.from_file(file, False, 8)
    own[0] = 77
    with open(file, "rb") as opened:
        assert opened.read() == before  # stays in memory
    shared = weft.UntypedStorage.from_file(file, shared=True, nbytes=8)
    shared.fill_(5)
    with open(file, "rb") as opened:
        assert opened.read() == b"\5" * 8 + before[8:]
    shared.copy_(weft.UntypedStorage(list(before[:8])))
    more = file + "2"
    assert weft.UntypedStorage.from_file(more, shared=True, nbytes=32).tolist() == [0] * 32
    assert os.path.getsize(more) == 32


def test_copies_are_apart_and_keep_what_is_shared():
    s = weft.arange(3).untyped_storage()
    one, other = copy.deepcopy([s, s[:]])
    assert one == other and one != s and one.tolist() == s.tolist()
    assert copy.copy(s) != s


def test_set_wants_a_storage_of_its_dtype():
    """The bytes of floats were taken for ints."""
    x = weft.empty(0, dtype=weft.int32)
    with pytest.raises(RuntimeError, match="expected a storage of torch.int32"):
        x.set_(weft.arange(6.0).storage())
    assert x.set_(weft.arange(3, dtype=weft.int32).storage()).tolist() == [0, 1, 2]


LEGACY = (
    "DoubleStorage FloatStorage HalfStorage BFloat16Storage LongStorage IntStorage ShortStorage "
    "CharStorage ByteStorage BoolStorage ComplexDoubleStorage ComplexFloatStorage"
).split()


@pytest.mark.parametrize("name", LEGACY)
@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_classes_of_storages_by_dtype(torch, name, tmp_path):
    def told(t):
        cls = getattr(t, name)
        made = cls([1, 0])
        file = tmp_path / f"{t.__name__}.bin"
        mapped = cls.from_file(str(file), True, 3)
        return [
            str(made), type(made) is t.TypedStorage, isinstance(made, cls), len(cls()),
            cls(3).nbytes(), cls(wrap_storage=made.untyped()).tolist(), made.type(),
            made.pickle_storage_type(), str(mapped.dtype), mapped.tolist(), file.stat().st_size,
            [isinstance(made, getattr(t, other)) for other in LEGACY],
            isinstance(made.untyped(), cls), issubclass(cls, t.TypedStorage), cls.__name__,
        ]  # fmt: skip

    ours, theirs = told(weft), told(torch)
    ours[-2] = theirs[-2]  # ours stand beside TypedStorage
    assert ours == theirs
    for t in (torch, weft):
        for args in ([1], [2]), (2.5,), (None,):
            kind = RuntimeError if len(args) > 1 else TypeError
            with pytest.raises(kind, match="invalid combination of arguments"):
                getattr(t, name)(*args)


def test_the_order_of_bytes_is_turned(torch):
    for kind in ("int16", "float32", "complex64", "uint8"):
        swapped = []
        for t in (torch, weft):
            s = t.UntypedStorage(list(range(16)))
            s.byteswap(getattr(t, kind))
            swapped.append(s.tolist())
        assert swapped[0] == swapped[1], kind
    for t in (torch, weft):
        with pytest.raises(RuntimeError, match="the length of data is not a multiple of 2"):
            t.UntypedStorage([1, 2, 3]).byteswap(t.int16)
        assert t.UntypedStorage([1, 2]).new().nbytes() == 0
        assert t.UntypedStorage(1).type() == "torch.storage.UntypedStorage"


def test_a_tensor_over_a_file(torch, tmp_path):
    path = str(tmp_path / "a.bin")
    with pytest.raises(RuntimeError, match="unable to open file"):
        weft.from_file(path, size=2)
    written = weft.from_file(path, shared=True, size=4, dtype=weft.int32)
    written.copy_(weft.arange(4))
    for t in (torch, weft):
        assert t.from_file(path, size=3, dtype=t.int32).tolist() == [0, 1, 2]
        own = t.from_file(path, shared=False, size=1, dtype=t.int64)
        own.fill_(7)
        assert own.dtype is t.int64
        with pytest.raises(RuntimeError, match="is smaller than the required mapping size <20>"):
            t.from_file(path, size=5)
    assert written.tolist() == [0, 1, 2, 3]
    assert weft.from_file(path, size=2, requires_grad=True).requires_grad
    assert weft.from_file(path).shape == (0,)
    with pytest.raises(NotImplementedError, match="meta"):
        weft.from_file(path, size=1, device="meta")


def test_a_storage_is_emptied_and_brought_back_under_its_tensors(torch):
    told = []
    for t in (weft, torch):
        x = t.arange(100000.0)
        y, s = x[50000:], x.untyped_storage()
        s.resize_(8)
        sizes = [s.nbytes(), s.size(), tuple(x.shape), s.resizable()]
        s.resize_(400000)
        kept = x[:2].tolist()
        x.copy_(t.ones(100000))
        s.resize_(0)
        sizes += [s.nbytes(), s.data_ptr()]
        s.resize_(400000)
        y.fill_(3)
        told.append((sizes, kept, s.nbytes(), x[50000:].sum().item(), y.shape))
    assert told[0] == told[1]


def test_a_storage_grows_where_one_tensor_lies(torch):
    for t in (weft, torch):
        s = t.UntypedStorage([1, 2, 3])
        assert s.resize_(5000) is s and s.nbytes() == 5000 and s.tolist()[:3] == [1, 2, 3]
        typed = t.ones(3).storage()
        typed.resize_(2000)
        assert typed.size() == 2000 and typed.resizable()
        meta = t.ones(3, device="meta").untyped_storage()
        assert meta.resize_(100000).nbytes() == 100000 and meta.resize_(4).nbytes() == 4
    x = weft.ones(3)
    y = x[1:]
    with pytest.raises(RuntimeError, match="a size that its memory had before"):
        x.untyped_storage().resize_(5000)
    assert y.tolist() == [1, 1]


def test_what_resize_refuses(torch):
    import numpy as np

    for t in (weft, torch):
        lent = t.from_numpy(np.ones(3)).untyped_storage()
        assert not lent.resizable()
        with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
            lent.resize_(0)
        with pytest.raises(RuntimeError, match="resize_ expects an int"):
            t.ones(2).untyped_storage().resize_(2.5)
        with pytest.raises(RuntimeError):
            t.ones(2).untyped_storage().resize_(-1)


def test_memory_of_an_emptied_storage_is_not_counted():
    before = weft.memory.allocated()
    x = weft.zeros(1 << 20)
    x.untyped_storage().resize_(0)
    assert weft.memory.allocated() - before < 1 << 20
