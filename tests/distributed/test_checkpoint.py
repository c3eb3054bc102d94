"""Checkpoints written by some ranks and read by others."""

import os

import pytest
from launched import launch, needs_mpi

import weft
from weft.distributed import checkpoint
from weft.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from weft.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


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


class Trained:
    """A model with its optimizer, as a program wraps them."""

    def __init__(self, seed):
        weft.manual_seed(seed)
        self.net = weft.nn.Linear(3, 2)
        self.opt = weft.optim.Adam(self.net.parameters(), lr=0.1)

    def step(self):
        self.opt.zero_grad()
        self.net(weft.ones(1, 3)).sum().backward()
        self.opt.step()
        return self

    def state_dict(self):
        model, opt = get_state_dict(self.net, self.opt)
        return {"net": model, "opt": opt}

    def load_state_dict(self, given):
        args = {"model_state_dict": given["net"], "optim_state_dict": given["opt"]}
        set_state_dict(self.net, self.opt, **args)


def test_what_is_stateful(tmp_path):
    """An optimizer that had not stepped got nothing: there was no state to read into."""
    before, after = Trained(0).step().step(), Trained(1)
    writer = checkpoint.FileSystemWriter(tmp_path)
    checkpoint.save({"app": before, "epoch": 2, "list": [1, "x"]}, storage_writer=writer)
    got = {"app": after, "epoch": 0, "list": []}
    checkpoint.load(got, storage_reader=checkpoint.FileSystemReader(tmp_path))
    assert (got["app"], got["epoch"], got["list"]) == (after, 2, [1, "x"])
    assert same(after.state_dict(), before.state_dict())
    assert same(after.step().state_dict(), before.step().state_dict())
    net = weft.nn.Linear(3, 2)
    checkpoint.save({"net": net}, checkpoint_id=tmp_path / "net")
    checkpoint.load({"net": (again := weft.nn.Linear(3, 2))}, checkpoint_id=tmp_path / "net")
    assert same(net.state_dict(), again.state_dict())


def test_a_state_that_is_made_leaves_the_parameters():
    for make in (weft.optim.SGD, weft.optim.AdamW):
        app = Trained(0)
        app.opt = make(app.net.parameters(), lr=0.1, weight_decay=0.1)
        before = {name: t.clone() for name, t in app.net.state_dict().items()}
        _, state = get_state_dict(app.net, app.opt)
        assert same(app.net.state_dict(), before) and app.net.weight.grad is None
        assert state["param_groups"][0]["lr"] == app.opt.param_groups[0]["lr"] == 0.1
        assert bool(state["state"]) == (make is weft.optim.AdamW)


def test_the_folder_is_named_once(tmp_path):
    writer = checkpoint.FileSystemWriter(tmp_path)
    for words, kind, text in (
        ({}, ValueError, "neither"),
        ({"checkpoint_id": "other", "storage_writer": writer}, ValueError, "other"),
        ({"storage_writer": 3}, TypeError, "FileSystemWriter"),
    ):
        with pytest.raises(kind, match=text):
            checkpoint.save({"x": 1}, **words)


@pytest.mark.parametrize("save", [checkpoint.save, checkpoint.async_save])
def test_a_checkpoint_is_kept_where_the_writer_may_not_overwrite(tmp_path, save):
    writer = checkpoint.FileSystemWriter(tmp_path, overwrite=False)
    checkpoint.save({"x": 1}, storage_writer=writer)
    with pytest.raises(RuntimeError, match="Checkpoint already exists and self.overwrite=False"):
        save({"x": 2}, storage_writer=writer)
    checkpoint.load(got := {"x": 0}, checkpoint_id=tmp_path)
    assert got == {"x": 1}


def test_one_file_of_it(tmp_path):
    given = {**state(1), "numbers": {0: weft.ones(1), 1: {"a/b": 2}}, "none": {}, "l": [{"p": [3]}]}
    checkpoint.save(given, checkpoint_id=tmp_path)
    dcp_to_torch_save(tmp_path, tmp_path / "whole.pt")
    whole = weft.load(tmp_path / "whole.pt")
    assert same(whole, given)
    torch_save_to_dcp(tmp_path / "whole.pt", tmp_path / "again")
    got = state(0)
    checkpoint.load(got, checkpoint_id=tmp_path / "again")
    assert same(got, state(1))


def test_a_save_beside_the_training_has_the_state_of_its_call(tmp_path):
    app = Trained(0).step()
    wanted = Trained(0).step()
    saved = checkpoint.async_save({"app": app}, checkpoint_id=tmp_path)
    app.step()
    assert saved.result(60) is None
    checkpoint.load({"app": (got := Trained(1))}, checkpoint_id=tmp_path)
    assert same(got.state_dict(), wanted.state_dict())
    with pytest.raises(OSError):
        checkpoint.async_save({"x": 1}, checkpoint_id=tmp_path / "index.json").result(60)


@needs_mpi
def test_saves_beside_the_training_do_not_meet_its_exchanges(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(f"""
import weft
from weft.distributed import checkpoint
from weft.distributed.fsdp import fully_shard
dist = weft.distributed
dist.init_process_group()
rank = dist.get_rank()
net = fully_shard(weft.nn.Linear(64, 64))
weft.nn.init.constant_(net.weight, 0.0)
for step in range(4):
    state = {{"net": net.state_dict(), "step": step}}
    saved = checkpoint.async_save(state, checkpoint_id={str(tmp_path / "at")!r} + str(step))
    for _ in range(30):
        dist.all_reduce(t := weft.ones(2) * (rank + 1))
        assert t.tolist() == [3.0, 3.0]
    with weft.no_grad():
        net.weight.add_(1.0)
    saved.result()
dist.destroy_process_group()
""")
    launch(path)
    for step in range(4):
        got = {"net": {"weight": weft.full((64, 64), -1.0)}, "step": -1}
        checkpoint.load(got, checkpoint_id=tmp_path / f"at{step}")
        assert got["step"] == step and bool((got["net"]["weight"] == step).all())


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
