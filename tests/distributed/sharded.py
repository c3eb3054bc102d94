"""Models cut by `fully_shard` beside the same in one process; run by test_in_all_ranks.py."""

import gc
import shutil
import tempfile

import pytest
from data_parallel import data, part, trained

import weft
from weft import distributed as dist
from weft import nn
from weft.distributed import checkpoint
from weft.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from weft.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from weft.distributed.tensor import DTensor, Shard, distribute_tensor
from weft.utils.checkpoint import checkpoint as checkpointed

F = nn.functional


class Block(nn.Module):
    """Rows that no number of processes divides, a norm, a tied weight, a checkpoint if asked."""

    def __init__(self, recompute):
        super().__init__()
        self.first, self.second = nn.Linear(6, 7), nn.Linear(7, 6)
        self.norm = nn.LayerNorm(6)
        self.recompute = recompute

    def inner(self, x):
        return self.second(weft.tanh(self.first(self.norm(x))))

    def forward(self, x):
        if self.recompute is None:
            return x + self.inner(x)
        return x + checkpointed(self.inner, x, use_reentrant=self.recompute)


class Net(nn.Module):
    def __init__(self, recompute=None, kind=weft.float64):
        super().__init__()
        weft.manual_seed(0)
        self.blocks = nn.ModuleList(Block(recompute) for _ in range(3))
        self.head = nn.Linear(6, 3, bias=False)
        self.tied = nn.Linear(6, 3)
        self.tied.weight = self.head.weight
        self.to(kind)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x) + self.tied(x)


def cut(net, **options):
    for block in net.blocks:
        fully_shard(block, **options)
    return fully_shard(net, **options)


def whole(net):
    return {n: p.full_tensor() if isinstance(p, DTensor) else p.detach()
            for n, p in net.state_dict().items()}  # fmt: skip


def agree(net, other, tolerance, case=None):
    mine, theirs = whole(net), whole(other)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert mine[name].shape == theirs[name].shape
        assert (mine[name] - theirs[name]).abs().max() <= tolerance, (case, name)


OPTIMIZERS = {
    "sgd": lambda p: weft.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: weft.optim.AdamW(p, 0.01),
    "adam, one by one": lambda p: weft.optim.Adam(p, 0.01, foreach=False),
}


def check_the_same_weights_as_one_process(rank, size):
    for name, optimizer in OPTIMIZERS.items():
        alone = trained(Net(), 30, optimizer, data(weft.float64))
        for options in ({}, {"reshard_after_forward": False}, {"reshard_after_forward": True}):
            mine = [part(t, rank, size) for t in data(weft.float64)]
            agree(trained(cut(Net(), **options), 30, optimizer, mine), alone, 1e-9, name)


def check_checkpoints_run_again(rank, size):
    for recompute in (False, True):
        alone = trained(Net(recompute), 5, OPTIMIZERS["sgd"], data(weft.float64))
        mine = [part(t, rank, size) for t in data(weft.float64)]
        agree(trained(cut(Net(recompute)), 5, OPTIMIZERS["sgd"], mine), alone, 1e-9)


def check_parts(rank, size):
    net = cut(Net())
    assert isinstance(net, FSDPModule) and isinstance(net, Net) and type(net).__name__ == "FSDPNet"
    assert net.head.weight is net.tied.weight
    for name, p in net.named_parameters():
        assert isinstance(p, DTensor) and isinstance(p, nn.Parameter), name
        assert p.placements == (Shard(0),)
        rows = -(-p.shape[0] // size)
        assert p.to_local().shape[0] == max(0, min(rows, p.shape[0] - rank * rows)), name
    assert isinstance(Net(), Net) and not isinstance(Net(), FSDPModule)


def held():
    """Bytes of the tensors that are alive."""
    gc.collect()
    tensors = [t for t in gc.get_objects() if isinstance(t, weft.Tensor)]
    parts = [t.to_local() if isinstance(t, DTensor) else t for t in tensors]
    storages = [t.untyped_storage() for t in parts]
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values())


class Seen(nn.Module):
    """Tells what is held while it runs."""

    def __init__(self):
        super().__init__()
        self.most = 0

    def forward(self, x):
        self.most = max(self.most, held())
        return x


def check_memory(rank, size):
    """Parameters, gradients and the optimizer's state together, and what a forward adds."""
    before = held()
    kind, width = weft.float32, 96
    net = nn.Sequential(*(nn.Linear(width, width) for _ in range(8)))
    count = sum(p.numel() for p in net.parameters()) * 4
    for layer in net:
        fully_shard(layer)
    fully_shard(net)
    opt = weft.optim.Adam(net.parameters(), 0.1)
    x = weft.randn(2, width, dtype=kind)
    for _ in range(2):
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()
    assert held() - before <= 4 * count / size * 1.1
    seen = Seen()
    deep = nn.Sequential(*net, seen)
    out = deep(x)  # the graph of it is alive
    assert seen.most - before <= 4 * count / size * 1.1 + count / 8
    assert held() - before <= 4 * count / size * 1.1 + out.nbytes + 16 * x.nbytes
    out.sum().backward()
    assert held() - before <= 4 * count / size * 1.1 + out.nbytes + 16 * x.nbytes


def check_sums_without_exchange(rank, size):
    x, y = data(weft.float64, rows=16)
    alone = Net()
    for half in (slice(0, 8), slice(8, 16)):
        F.mse_loss(alone(x[half]), y[half]).backward()
    net = cut(Net())
    for half, syncs in ((slice(0, 8), False), (slice(8, 16), True)):
        net.set_requires_gradient_sync(syncs)
        F.mse_loss(net(part(x[half], rank, size)), part(y[half], rank, size)).backward()
        assert (net.head.weight.grad is not None) == syncs
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        assert weft.allclose(p.grad.full_tensor(), q.grad)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        weft.manual_seed(0)
        self.never = nn.Linear(2, 2)
        self.plus, self.minus = nn.Linear(2, 2), nn.Linear(2, 2)
        self.frozen = nn.Linear(2, 2).requires_grad_(False)

    def forward(self, x):
        return self.frozen(self.plus(x) if x.sum() > 0 else self.minus(x))


def check_graphs_may_differ(rank, size):
    xs = [weft.ones(2) * (1 if r % 2 else -1) for r in range(size)]
    alone = Branches()
    weft.stack([alone(x) for x in xs]).mean().backward()
    net = fully_shard(Branches())
    net(xs[rank]).mean().backward()
    for (name, p), q in zip(net.named_parameters(), alone.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        assert q.grad is None or weft.allclose(p.grad.full_tensor(), q.grad), name


def check_clipping(rank, size):
    x, y = data(weft.float64)
    alone, net = Net(), cut(Net())
    F.mse_loss(alone(x), y).backward()
    F.mse_loss(net(part(x, rank, size)), part(y, rank, size)).backward()
    for order in (2.0, 1.0, float("inf")):
        mine = nn.utils.clip_grad_norm_(net.parameters(), 0.1, order)
        theirs = nn.utils.clip_grad_norm_(alone.parameters(), 0.1, order)
        assert weft.allclose(mine, theirs)
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        assert weft.allclose(p.grad.full_tensor(), q.grad)


def check_modes(rank, size):
    x, _ = data(weft.float64)
    alone, net = Net(), cut(Net())
    with weft.no_grad():
        assert weft.allclose(net(x), alone(x))
        for p in net.parameters():  # what was gathered before is out of date
            p.mul_(2.0)
        for p in alone.parameters():
            p.mul_(2.0)
        assert weft.allclose(net(x), alone(x))
    net.unshard()
    assert not isinstance(net.head.weight, DTensor) and net.head.weight.shape == (3, 6)
    net.reshard()
    assert isinstance(net.head.weight, DTensor)
    policy = MixedPrecisionPolicy(param_dtype=weft.bfloat16, reduce_dtype=weft.float32,
                                  output_dtype=weft.float32)  # fmt: skip
    low = fully_shard(Net(kind=weft.float32), mp_policy=policy)
    out = low(x.float())
    assert out.dtype == weft.float32 and not weft.equal(out, Net(kind=weft.float32)(x.float()))
    out.sum().backward()
    assert low.head.weight.grad.dtype == weft.float32
    with pytest.raises(RuntimeError, match="inner"):
        broken = cut(Net())
        broken.blocks[1].inner = fails
        broken(x)
    assert isinstance(broken.head.weight, DTensor)
    del broken.blocks[1].inner
    assert weft.allclose(broken(x), Net()(x))


def fails(x):
    raise RuntimeError("inner")


def check_meta_and_draws(rank, size):
    with weft.device("meta"):
        net = cut(Net())
    assert all(p.is_meta for p in net.parameters())
    net.to_empty(device="cpu")
    weft.manual_seed(5)
    nn.init.normal_(net.head.weight)
    mine = net.head.weight.full_tensor()
    weft.manual_seed(5)
    assert weft.equal(mine, weft.empty_like(mine).normal_())


def check_settings(rank, size):
    """Each setter through a step: what it changes, and that gradients are the same."""
    x, y = data(weft.float64, rows=4 * size)
    alone = Net()
    F.mse_loss(alone(x), y).backward()

    def step(net):
        net.zero_grad()
        F.mse_loss(net(part(x, rank, size)), part(y, rank, size)).backward()
        return net.head.weight.grad.full_tensor()

    net = cut(Net())
    net.set_reshard_after_forward(False)
    assert weft.allclose(step(net), alone.head.weight.grad)
    net.blocks[0].set_modules_to_forward_prefetch([net.blocks[1], net.blocks[2]])
    net.set_reshard_after_backward(False, recurse=False)
    assert weft.allclose(step(net), alone.head.weight.grad)
    net.set_gradient_divide_factor(2.0 * size)
    assert weft.allclose(step(net) * 2, alone.head.weight.grad)
    net.unshard(async_op=True).wait()
    net.unshard()
    assert not isinstance(net.head.weight, DTensor)
    net.reshard()
    assert isinstance(net.head.weight, DTensor)
    net.set_reshard_after_backward(True)
    for frees in (False, True):  # it stayed: `parameters()` had no gradients
        net.set_reshard_after_forward(frees)
        net.unshard()
        out = net(x)
        assert isinstance(net.head.weight, DTensor) == frees
        out.sum().backward()
        assert isinstance(net.head.weight, DTensor)
        assert all(p.grad is not None for p in net.parameters())
    register_fsdp_forward_method(net.blocks[0], "inner")
    assert weft.allclose(net.blocks[0].inner(x), alone.blocks[0].inner(x))
    kept = Net()
    fully_shard(kept, ignored_params={kept.tied.bias}, shard_placement_fn=lambda p: Shard(0))
    assert not isinstance(kept.tied.bias, DTensor) and isinstance(kept.head.weight, DTensor)
    assert weft.allclose(kept(x), alone(x))
    with weft.device("meta"):  # exchanges are not made there
        out = F.mse_loss(net(part(x, rank, size)), part(y, rank, size))
        out.backward()


def check_names_of_wrappers(rank, size):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.module, self.weight = nn.Linear(2, 2), nn.Parameter(weft.ones(2))

    net = Named()
    names = set(net.state_dict())
    assert set(get_state_dict(net, [])[0]) == names
    wrapped = nn.parallel.DistributedDataParallel(net)
    assert set(get_state_dict(wrapped, [])[0]) == names
    one = weft.optim.SGD([{"params": [net.weight]}, {"params": net.module.parameters(), "lr": 0.5}],
                         lr=0.1)  # fmt: skip
    model, optim = get_state_dict(wrapped, one)
    with pytest.raises(ValueError, match="several groups"):
        set_state_dict(net, weft.optim.SGD(net.parameters(), 0.1), model_state_dict=model,
                       optim_state_dict=optim)  # fmt: skip
    with pytest.raises(ValueError, match="all parts"):
        checkpoint.save(fully_shard(nn.Linear(2, size)).state_dict(), no_dist=True,
                        checkpoint_id=tempfile.mkdtemp())  # fmt: skip


def check_two_calls_and_two_passes(rank, size):
    """One module several times in a graph, and a second backward."""
    weft.manual_seed(0)
    alone, net = nn.Linear(4, 4), nn.Linear(4, 4)
    net.load_state_dict(alone.state_dict())
    fully_shard(net)
    x = weft.ones(2, 4)
    alone(weft.tanh(alone(x))).sum().backward()
    out = net(weft.tanh(net(x))).sum()
    out.backward(retain_graph=True)
    assert weft.allclose(net.weight.grad.full_tensor(), alone.weight.grad)
    out.backward()
    assert weft.allclose(net.weight.grad.full_tensor(), 2 * alone.weight.grad)


def check_tensors_on_a_mesh(rank, size):
    mesh = dist.init_device_mesh("cpu", (size,))
    weft.manual_seed(0)
    for shape, dim in (((5, 3), 0), ((3, 5), 1), ((1,), 0), ((0, 2), 0), ((size, 2), 0)):
        x = weft.randn(shape)
        d = distribute_tensor(x, mesh, [Shard(dim)])
        assert d.shape == x.shape and d.numel() == x.numel() and d.ndim == x.ndim
        assert weft.equal(d.full_tensor(), x)
        assert weft.equal((d * 2 + d.exp()).full_tensor(), x * 2 + x.exp())
        assert weft.allclose(d.sum(), x.sum()) and weft.allclose(d.norm(), x.norm())
        assert (d == d).all() and not (d != d).any()
        if x.numel():
            assert d.max() == x.max() and d.min() == x.min()
        assert weft.equal(d.redistribute(placements=[Shard(0)]).full_tensor(), x)
    d = distribute_tensor(x, mesh, [Shard(0)])
    for wrong, error in (
        (lambda: d @ d.T, NotImplementedError), (lambda: d.tolist(), NotImplementedError),
        (lambda: d + x, RuntimeError), (lambda: d.sum(0), NotImplementedError),
        (lambda: distribute_tensor(x, mesh, [Shard(2)]), ValueError),
        (lambda: distribute_tensor(x, mesh, [Shard(0), Shard(0)]), ValueError),
        (lambda: DTensor.from_local(weft.ones(3, 3), mesh, [Shard(0)], shape=(4, 9)), ValueError),
        (lambda: fully_shard(nn.ModuleList()), ValueError),
        (lambda: fully_shard(fully_shard(nn.Linear(2, 2))), ValueError),
        (lambda: d.norm(0), NotImplementedError), (lambda: d.norm("nuc"), NotImplementedError),
        (lambda: d.redistribute(placements=[Shard(0)]).requires_grad_().sum(), NotImplementedError),
    ):  # fmt: skip
        with pytest.raises(error):
            wrong()


def shared_folder(rank):
    """A folder that all ranks know."""
    name = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(name, src=0)
    return name[0]


def check_checkpoints(rank, size):
    """What several ranks write each a part of is read by as many, by fewer and by one."""
    folder = shared_folder(rank)
    net = cut(Net())
    opt = weft.optim.Adam(net.parameters(), 0.01)
    batch = [part(t, rank, size) for t in data(weft.float64)]
    F.mse_loss(net(batch[0]), batch[1]).backward()
    opt.step()
    model, optim = get_state_dict(net, opt)
    checkpoint.save({"model": model, "optim": optim, "step": 3}, checkpoint_id=folder)
    theirs = whole(net)

    alone = Net()
    with weft.no_grad():
        for p in alone.parameters():
            p.zero_()
    state = {"model": alone.state_dict(), "step": 0}
    checkpoint.load(state, checkpoint_id=folder, no_dist=True)
    assert state["step"] == 3
    agree(alone, net, 0)

    again = cut(Net())
    other = weft.optim.Adam(again.parameters(), 0.5)
    for p in again.parameters():  # so that there is a state to read into
        p.grad = weft.zeros_like(p)
    other.step()
    model, optim = get_state_dict(again, other)
    checkpoint.load({"model": model, "optim": optim}, checkpoint_id=folder)
    set_state_dict(again, other, model_state_dict=model, optim_state_dict=optim)
    agree(again, net, 0)
    assert weft.equal(other.state[again.head.weight]["exp_avg"].full_tensor(),
                      opt.state[net.head.weight]["exp_avg"].full_tensor())  # fmt: skip

    fewer = dist.device_mesh.DeviceMesh("cpu", list(range(size - 1)))
    if rank < size - 1:
        smaller = fully_shard(Net(), mesh=fewer)
        checkpoint.load({"model": smaller.state_dict()}, checkpoint_id=folder,
                        process_group=fewer.get_group())  # fmt: skip
        for name, value in smaller.state_dict().items():
            assert weft.equal(value.full_tensor(), theirs[name]), name
    dist.barrier()
    with pytest.raises(RuntimeError, match="Size mismatch"):
        checkpoint.load({"model": {"head.weight": weft.zeros(2, 2)}}, checkpoint_id=folder,
                        no_dist=True)  # fmt: skip
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder)


def check_whole_states(rank, size):
    """The forms that one process reads and writes by `weft.save`."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    net = cut(Net())
    opt = weft.optim.AdamW(net.parameters(), 0.01)
    batch = [part(t, rank, size) for t in data(weft.float64)]
    F.mse_loss(net(batch[0]), batch[1]).backward()
    opt.step()
    model, optim = get_state_dict(net, opt, options=options)
    assert bool(model) == (rank == 0)
    if rank == 0:
        alone = Net()
        alone.load_state_dict(model)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    again = cut(Net())
    other = weft.optim.AdamW(again.parameters(), 0.5)
    set_state_dict(again, other, model_state_dict=model, optim_state_dict=optim, options=options)
    agree(again, net, 0)
    assert other.param_groups[0]["lr"] == 0.01
    for each, o in ((net, opt), (again, other)):
        o.zero_grad()
        F.mse_loss(each(batch[0]), batch[1]).backward()
        o.step()
    agree(again, net, 0)
