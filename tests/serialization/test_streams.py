"""Archives record by record, beside PyTorch's reader and writer of them."""

import io

import pytest

import weft


def records(reader):
    return {name: reader.get_record(name) for name in reader.get_all_records()}


def test_records_are_those_that_pytorch_reads(torch, tmp_path):
    path = str(tmp_path / "x.pt")
    weft.save({"w": weft.arange(3.0), "n": 2}, path)
    ours, theirs = weft.PyTorchFileReader(path), torch.PyTorchFileReader(path)
    found = records(theirs)
    assert {name: ours.get_record(name) for name in found} == found
    for name in found:
        assert ours.get_record_offset(name) == theirs.get_record_offset(name)
    assert ours.has_record("data/0") and not ours.has_record("data/7")
    x = ours.get_storage_from_record("data/0", 3, weft.float32)
    assert x.tolist() == [0.0, 1.0, 2.0]
    raw = ours.get_storage_from_record("data/0", 12, weft.UntypedStorage)
    assert raw._typed_storage()._untyped_storage.nbytes() == 12


def test_what_is_written_pytorch_reads(torch, tmp_path):
    path = str(tmp_path / "y.pt")
    writer = weft.PyTorchFileWriter(path)
    writer.write_record("data.pkl", b"N.", 2)
    writer.write_record("data/0", weft.arange(4), 16)
    writer.write_end_of_file()
    assert writer.archive_name() == "y"
    theirs = torch.PyTorchFileReader(path)
    assert theirs.get_record("data/0") == (0).to_bytes(8, "little") + (1).to_bytes(8, "little")
    assert weft.load(path) is None


def test_what_is_no_record_raises():
    file = io.BytesIO()
    weft.save(weft.ones(2), file)
    reader = weft.PyTorchFileReader(file)
    with pytest.raises(RuntimeError, match="failed locating file data/9"):
        reader.get_record("data/9")
    with pytest.raises(RuntimeError, match="expected 12 bytes"):
        reader.get_storage_from_record("data/0", 3, weft.float32)
    with pytest.raises(RuntimeError, match="zip archive"):
        weft.PyTorchFileReader(io.BytesIO(b"no archive"))
