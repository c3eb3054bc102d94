"""Checkpoints written by some ranks and read by others."""

import os

import pytest
from launched import launch, needs_mpi

import weft
from weft.distributed import checkpoint


def state(seed=0):
    weft.manual_seed(seed)
    net = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.BatchNorm1d(4))
    opt = weft.optim.Adam(net.parameters())
    net(weft.randn(5, 3)).sum().backward()
    opt.step()
    return {"net": net.state_dict(), "opt": opt.state_dict(), "epoch": seed, "a/b": [seed, "x"]}


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return weft.equal(a, b) if isinstance(a, weft.Tensor) else a == b


def test_one_process(tmp_path):
    checkpoint.save(state(1), checkpoint_id=tmp_path)
    got = state(0)
    places = {k: t.data_ptr() for k, t in got["net"].items()}
    checkpoint.load(got, checkpoint_id=tmp_path)
    assert same(got, state(1))
    assert places == {k: t.data_ptr() for k, t in got["net"].items()}  # tensors in place


def test_a_part_of_it(tmp_path):
    checkpoint.save(state(1), checkpoint_id=tmp_path)
    got = {"net": {"0.weight": weft.zeros(4, 3)}}
    checkpoint.load(got, checkpoint_id=tmp_path)
    assert weft.equal(got["net"]["0.weight"], state(1)["net"]["0.weight"])


def test_wrong_reads_write_nothing(tmp_path):
    with pytest.raises(FileNotFoundError):
        checkpoint.load(state(), checkpoint_id=tmp_path)
    checkpoint.save(state(1), checkpoint_id=tmp_path)
    for wrong, text in (
        ({"epoch": 7, "other": 1}, "Missing key in checkpoint"),
        ({"epoch": 7, "net": {"0.weight": weft.zeros(2, 2)}}, "Size mismatch"),
    ):
        with pytest.raises(RuntimeError, match=text):
            checkpoint.load(wrong, checkpoint_id=tmp_path)
        assert wrong["epoch"] == 7


@pytest.mark.parametrize("moment", ["_write", "_replace"])
def test_a_save_that_is_cut_off_leaves_the_one_before(tmp_path, monkeypatch, moment):
    from weft.distributed.checkpoint import files

    checkpoint.save(state(1), checkpoint_id=tmp_path)

    def ends(path, *_):
        with open(path, "w") as file:  # half of it
            file.write("{")
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        if moment == "_replace":
            broken.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        else:
            broken.setattr(files, moment, ends)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.save(state(2), checkpoint_id=tmp_path)
    got = state(0)
    checkpoint.load(got, checkpoint_id=tmp_path)
    assert same(got, state(1))
    checkpoint.save(state(3), checkpoint_id=tmp_path)
    assert len([n for n in os.listdir(tmp_path) if n.startswith("save-")]) == 1


WRITES = """
import sys
import weft
from weft.distributed import checkpoint
sys.path.insert(0, {here!r})
from test_checkpoint import same, state
dist = weft.distributed
dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
folder, what = sys.argv[1:]
mine = {{"shared": state(1), "own": {{f"rank{{rank}}": weft.full((3,), float(rank))}}}}
if what == "write":
    checkpoint.save(mine, checkpoint_id=folder)
else:
    got = {{"shared": state(0), "own": {{"rank1": weft.zeros(3)}}}}
    checkpoint.load(got, checkpoint_id=folder)
    assert same(got["shared"], mine["shared"]) and got["own"]["rank1"].tolist() == [1, 1, 1]
    print("read")
"""


@needs_mpi
def test_another_number_of_ranks_and_one_process(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(WRITES.format(here=os.path.dirname(__file__)))
    folder = tmp_path / "saved"
    launch(script, folder, "write", ranks=2)
    parts = [n for _, _, names in os.walk(folder) for n in names if n.endswith(".pt")]
    assert sorted(parts) == ["rank-0-of-2.pt", "rank-1-of-2.pt"]
    assert launch(script, folder, "read", ranks=3).stdout.count("read") == 3
    got = {"shared": state(0), "own": {f"rank{r}": weft.zeros(3) for r in (0, 1)}}
    checkpoint.load(got, checkpoint_id=folder)
    assert same(got["shared"], state(1))
    assert [t.tolist() for t in got["own"].values()] == [[0] * 3, [1] * 3]


@needs_mpi
def test_all_ranks_are_told_what_failed_in_one(tmp_path):
    """The others waited for it, or took the checkpoint for saved."""
    path = tmp_path / "train.py"
    path.write_text(f"""
import pickle
import weft
from weft.distributed import checkpoint
dist = weft.distributed
dist.init_process_group()
rank = dist.get_rank()
where = {str(tmp_path / "saved")!r}
checkpoint.save({{"x": 1, "y": weft.ones(2)}}, checkpoint_id=where)
try:
    checkpoint.save({{"x": lambda: 1}}, checkpoint_id=where)  # rank 0 writes it
except checkpoint.CheckpointException as error:
    print("save", list(error.failures), flush=True)
got = {{"x": 0}} if rank else {{"z": 0, "x": 0}}
try:
    checkpoint.load(got, checkpoint_id=where)
except RuntimeError as error:
    again = pickle.loads(pickle.dumps(error))
    print("load", list(error.failures), str(again) == str(error), got["x"], flush=True)
dist.barrier()
checkpoint.load(got := {{"x": 0}}, checkpoint_id=where)
print("kept", got["x"])
""")
    done = launch(path)
    for rank in (0, 1):
        lines = [line[4:] for line in done.stdout.splitlines() if line.startswith(f"[{rank}]")]
        assert lines == ["save [0]", "load [0] True 0", "kept 1"]
