"""`weft.save` replaces a file as one step, and says what it cannot write."""

import io
import os
import stat

import pytest

import weft
from weft._checkpoint import atomic


class Unwritable:
    """Pickling this fails, after other things were pickled."""

    def __reduce__(self):
        raise ArithmeticError("not me")


def test_a_failure_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.pt"
    weft.save([1], path)
    with pytest.raises(ArithmeticError):
        weft.save([weft.ones(3), Unwritable()], path)
    assert weft.load(path) == [1]
    assert os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failure_of_the_system_keeps_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "a.pt"
    weft.save([1], path)

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    if step == "write":
        monkeypatch.setattr("weft._checkpoint.archive.ArchiveWriter.write", fail)
    else:
        monkeypatch.setattr(atomic.os, step, fail)
    with pytest.raises(OSError, match="No space"):
        weft.save([weft.ones(3)], path)
    monkeypatch.undo()
    assert weft.load(path) == [1]
    assert os.listdir(tmp_path) == ["a.pt"]


def test_permissions_are_those_of_open(tmp_path):
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    path = tmp_path / "a.pt"
    weft.save([1], path)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    weft.save([2], path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "link.pt").symlink_to(tmp_path / "deep" / "a.pt")
    weft.save([3], tmp_path / "link.pt")
    assert (tmp_path / "link.pt").is_symlink()
    assert weft.load(tmp_path / "deep" / "a.pt") == [3]


def test_devices_are_written_directly():
    weft.save([weft.ones(3)], os.devnull)
    assert not os.path.isfile(os.devnull)


def test_a_file_that_cannot_seek(torch):
    class Pipe(io.RawIOBase):
        def __init__(self):
            self.got = bytearray()

        def writable(self):
            return True

        def write(self, data):
            self.got += data
            return len(data)

    pipe = Pipe()
    weft.save({"a": weft.arange(3.0)}, pipe)
    for load in (weft.load, torch.load):
        assert load(io.BytesIO(pipe.got))["a"].tolist() == [0, 1, 2]


def test_a_failed_save_leaves_no_whole_archive():
    file = io.BytesIO()
    with pytest.raises(ArithmeticError):
        weft.save(Unwritable(), file)
    assert file.getvalue() == b""


def test_what_is_loaded_can_overwrite_its_own_mapped_file(tmp_path):
    path = tmp_path / "a.pt"
    weft.save(weft.arange(1000.0), path)
    mapped = weft.load(path, mmap=True)
    weft.save(mapped * 2, path)
    assert mapped[999].item() == 999 and weft.load(path)[999].item() == 1998


def test_arguments(tmp_path):
    path = tmp_path / "a.pt"
    for wrong in ({"pickle_protocol": 0}, {"pickle_protocol": 6}, {"pickle_module": io}):
        with pytest.raises(ValueError, match=r"\[save\] expected"):
            weft.save([1], path, **wrong)
    with pytest.raises(AttributeError, match="'write' attribute"):
        weft.save([1], 3)
    with pytest.raises(RuntimeError, match="Parent directory .*none does not exist"):
        weft.save([1], tmp_path / "none" / "a.pt")


def mixed(t):
    x = t.arange(6.0).reshape(2, 3)
    texts = ["x" * 300, "q.Q", b"\x95" * 20, b"\x95\0\0\0\0\0\0\0\0" * 10_000]
    return {"x": x, "view": x.T[1:], "p": t.nn.Parameter(t.ones(2)), "t": texts, "d": t.float64}


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5, -1])
@pytest.mark.parametrize("zipped", [True, False])
def test_pickle_protocols_and_both_formats_are_read_by_torch(torch, protocol, zipped):
    options = {"pickle_protocol": protocol, "_use_new_zipfile_serialization": zipped}
    file = io.BytesIO()
    weft.save(mixed(weft), file, **options)
    for t in (torch, weft):
        file.seek(0)
        loaded = t.load(file, weights_only=False)
        assert loaded["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert loaded["view"].tolist() == [[1, 4], [2, 5]]
        assert loaded["view"].untyped_storage().data_ptr() == loaded["x"].data_ptr()
        assert isinstance(loaded["p"], t.nn.Parameter) and loaded["t"] == mixed(t)["t"]
        assert loaded["d"] is t.float64


def test_the_format_before_archives_is_torchs(torch):
    files = []
    for t in (torch, weft):
        file = io.BytesIO()
        t.save([t.ones(3), t.arange(4), t.tensor([True])], file,
               _use_new_zipfile_serialization=False)  # fmt: skip
        files.append(file.getvalue())
    theirs, ours = files
    assert ours[:160] == theirs[:160]  # the magic number, the version and the machine
    assert len(ours) <= len(theirs)
    file = io.BytesIO(theirs)
    assert [x.tolist() for x in weft.load(file)] == [[1, 1, 1], [0, 1, 2, 3], [True]]


def test_a_whole_module_in_the_format_before_archives():
    file = io.BytesIO()
    net = weft.nn.Sequential(weft.nn.Linear(2, 3), weft.nn.ReLU())
    weft.save(net, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    loaded = weft.load(file, weights_only=False)
    assert type(loaded) is weft.nn.Sequential
    assert loaded[0].weight.tolist() == net[0].weight.tolist()


def test_data_is_skipped(torch, tmp_path):
    path = tmp_path / "a.pt"
    with weft.serialization.skip_data():
        weft.save(mixed(weft), path)
        with pytest.raises(RuntimeError, match="Cannot use skip_data=True"):
            weft.save([], tmp_path / "b.pt", _use_new_zipfile_serialization=False)
    for t in (weft, torch):
        assert t.load(path)["view"].tolist() == [[0, 0], [0, 0]]
    (tmp_path / "whole").mkdir()
    whole = tmp_path / "whole" / "a.pt"
    weft.save(mixed(weft), whole)
    assert whole.stat().st_size == path.stat().st_size  # room for what is filled in later
    with weft.serialization.skip_data():
        assert weft.load(whole)["x"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert weft.load(whole)["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(NotImplementedError, match="materialize_fake_tensors"):
        weft.serialization.skip_data(materialize_fake_tensors=True)


def test_the_graph_and_gradients_stay_behind():
    x = weft.ones(2, requires_grad=True)
    x.sum().backward()
    file = io.BytesIO()
    weft.save([x, x * 2], file)
    file.seek(0)
    leaf, inner = weft.load(file)
    assert leaf.grad is None and inner.is_leaf and inner.requires_grad
