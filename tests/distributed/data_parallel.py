"""Trainings by several ranks beside the same by one; run by test_in_all_ranks.py."""

import copy
import gc
import io
import sys
import threading
from pathlib import Path

import pytest

import weft
from weft import distributed as dist
from weft import nn
from weft.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from weft.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks
from weft.nn.parallel import DistributedDataParallel as DDP

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import delayed_link  # noqa: E402

F = nn.functional


def mlp(kind=weft.float32):
    weft.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.GELU(),
                         nn.Linear(16, 3)).to(kind)  # fmt: skip


def data(kind=weft.float32, rows=12):
    weft.manual_seed(1)
    return weft.randn(rows, 6).to(kind), weft.randn(rows, 3).to(kind)


def part(t, rank, size):
    return t[rank::size]


def trained(net, steps, optimizer, batch, kind=weft.float32):
    x, y = batch
    opt = optimizer(net.parameters())
    for _ in range(steps):
        opt.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
    return net


def close(net, other, tolerance):
    for (name, p), q in zip(net.named_parameters(), other.parameters()):
        difference = (p - q).abs().max().item()
        assert difference <= tolerance, (name, difference)


OPTIMIZERS = {
    "sgd": (lambda p: weft.optim.SGD(p, 0.1, momentum=0.9), weft.float32, 1e-6),
    "adam": (lambda p: weft.optim.Adam(p, 0.01), weft.float64, 1e-6),
}


def ddp_options(size):
    yield {}
    yield {"bucket_cap_mb": 1e-4}
    yield {"gradient_as_bucket_view": True}
    yield {"static_graph": True, "find_unused_parameters": True}


def check_the_same_weights_as_one_process(rank, size):
    for name, (optimizer, kind, tolerance) in OPTIMIZERS.items():
        alone = trained(mlp(kind), 50, optimizer, data(kind))
        for options in ddp_options(size):
            net = mlp(kind)
            if rank:  # what it had is replaced by what rank 0 has
                for p in net.parameters():
                    p.data.add_(1)
            net = DDP(net, **options)
            trained(net, 50, optimizer, [part(t, rank, size) for t in data(kind)])
            close(net.module, alone, tolerance), name


def check_all_ranks_have_the_same_bits(rank, size):
    net = trained(DDP(mlp()), 10, OPTIMIZERS["sgd"][0], [part(t, rank, size) for t in data()])
    mine = weft.cat([p.detach().reshape(-1) for p in net.parameters()])
    alls = [weft.zeros_like(mine) for _ in range(size)]
    dist.all_gather(alls, mine)
    assert all(weft.equal(other, mine) for other in alls)


class Branches(nn.Module):
    """One layer by the input's sign, one that is never used, one shared."""

    def __init__(self):
        super().__init__()
        weft.manual_seed(0)
        self.never = nn.Linear(2, 2)
        self.plus, self.minus = nn.Linear(2, 2), nn.Linear(2, 2)
        self.shared = nn.Linear(2, 1)

    def forward(self, x):
        x = self.plus(x) if x.sum() > 0 else self.minus(x)
        return self.shared(self.shared.weight * x)


def check_a_bucket_is_an_eighth_of_all_by_default(rank, size):
    """One of 25 MB, as PyTorch's are, would begin its exchange when backward has ended."""
    layers = nn.Sequential(*(nn.Linear(256, 256) for _ in range(16)))
    whole = sum(p.nbytes for p in layers.parameters())
    told = DDP(layers)._get_ddp_logging_data()
    assert told["bucket_cap_bytes"] == whole // 8 and told["bucket_sizes"].count(",") == 7
    assert len(DDP(mlp())._reducer.buckets) == 1
    assert len(DDP(layers, bucket_cap_mb=25)._reducer.buckets) == 1


def check_gradients_are_exchanged_while_backward_goes_on(rank, size):
    """Over a link that lets nothing through before the backward pass is at its last layer."""
    x, y = data()
    alone = mlp()
    F.mse_loss(alone(x), y).backward()
    net = DDP(mlp(), bucket_cap_mb=1e-6)
    count = len(net._reducer.buckets)
    assert count > 4
    may_go, held, there = threading.Event(), [], []
    link, take_off = delayed_link.put_on(dist, lambda message: may_go.wait(20))
    works = net._reducer.buckets

    def at_last_layer(grad):
        held.append([message.bytes for message in link.sent])
        there.append([b.later.is_completed() for b in works if b.later is not None])
        may_go.set()

    net.module[0].bias.register_hook(at_last_layer)
    F.mse_loss(net(part(x, rank, size)), part(y, rank, size)).backward()
    take_off()
    # all but those of the first layer have begun, in the order of buckets, and none is done
    begun = [bucket.buffer().nbytes for bucket in works]
    assert held[0] == begun[: len(held[0])] and len(held[0]) >= count - 2, (held, begun)
    assert there[0] == [False] * len(held[0])
    assert [message.bytes for message in link.sent] == [*begun, sum(1 for _ in net.parameters())]
    for p, q in zip(net.parameters(), alone.parameters()):
        assert weft.allclose(p.grad, q.grad, atol=1e-6)


def check_graphs_may_differ(rank, size):
    xs = [weft.ones(2) * (1 if r % 2 else -1) for r in range(size)]
    alone = Branches()
    weft.stack([alone(x) for x in xs]).mean().backward()
    for options in ddp_options(size):
        net = DDP(Branches(), **options)
        for _ in range(2):
            net.zero_grad()
            net(xs[rank]).mean().backward()
            for (name, p), q in zip(net.module.named_parameters(), alone.parameters()):
                if q.grad is None:
                    assert p.grad is None, name
                else:
                    assert weft.allclose(p.grad, q.grad), name
    net = DDP(Branches())
    if rank == 0:  # a graph that reaches nothing of the module but its output
        out = net(xs[rank])
        (out * 0 + out.detach()).sum().backward()
    else:
        net(xs[rank]).sum().backward()
    assert net.module.shared.weight.grad is not None


def check_a_gradient_that_no_pass_reached_stays(rank, size):
    """That of a parameter which no rank's graph had, set by hand, was averaged."""
    for options in ddp_options(size):
        for before in (False, True):
            net = DDP(Branches(), **options)
            x = weft.ones(2)
            if before:
                net(x).sum().backward()
            never, minus = net.module.never.weight, net.module.minus.weight
            never.grad = weft.full((2, 2), float(rank))
            if before and options.get("gradient_as_bucket_view"):
                minus.grad = net._reducer.buckets[0].views[3].fill_(rank)  # lies in the buffer
                assert minus.grad.shape == (2, 2)
            net(x).sum().backward()
            assert never.grad.tolist() == [[float(rank)] * 2] * 2, options
            assert minus.grad is None or minus.grad.tolist() == never.grad.tolist()
    net = DDP(Branches())
    with net.no_sync():
        (net(weft.ones(2)) * rank).sum().backward()
    net(-weft.ones(2)).sum().backward()  # reached before: its sums are exchanged
    grads = [None] * size
    dist.all_gather_object(grads, net.module.plus.weight.grad)
    assert weft.equal(grads[0], grads[1]) and (grads[0] != 0).any()


def check_sums_without_exchange(rank, size):
    x, y = data()
    alone = mlp()
    for half in (slice(0, 6), slice(6, 12)):
        F.mse_loss(alone(x[half]), y[half]).backward()
    net = DDP(mlp())
    with net.no_sync():
        F.mse_loss(net(part(x[:6], rank, size)), part(y[:6], rank, size)).backward()
    kept = net.module[0].weight.grad.clone()
    outs = [None] * size
    dist.all_gather_object(outs, kept)
    assert not weft.equal(outs[0], outs[1])  # not exchanged yet
    F.mse_loss(net(part(x[6:], rank, size)), part(y[6:], rank, size)).backward()
    for p, q in zip(net.parameters(), alone.parameters()):
        assert weft.allclose(p.grad, q.grad, atol=1e-6)


def check_two_forwards_and_one_backward(rank, size):
    x, _ = data()
    alone = mlp()
    (alone(x[:6]).mean() + alone(x[6:]).mean()).backward()
    net = DDP(mlp())
    (net(part(x[:6], rank, size)).mean() + net(part(x[6:], rank, size)).mean()).backward()
    for p, q in zip(net.parameters(), alone.parameters()):
        assert weft.allclose(p.grad, q.grad, atol=1e-6)


def check_gradients_of_gradients_need_no_exchange(rank, size):
    net = DDP(mlp())
    x = weft.ones(1, 6, requires_grad=True)
    if rank == 0:  # alone: it would wait for the others for ever
        weft.autograd.grad(net.module(x).sum(), x)
    (g,) = weft.autograd.grad(net(x).sum(), x, create_graph=True)
    (g * (rank + 1)).sum().backward()
    assert net.module[0].weight.grad is not None


class Words(nn.Module):
    """Two tables with sparse gradients, one of which is a layer's weight too."""

    def __init__(self):
        super().__init__()
        weft.manual_seed(0)
        self.words = nn.Embedding(10, 3, sparse=True)
        self.bags = nn.EmbeddingBag(10, 3, mode="sum", sparse=True)
        self.out = nn.Linear(3, 1)

    def forward(self, x):
        h = self.words(x).sum(0) + self.bags(x[None])[0]
        if x[0] == 9:
            h = h + self.words.weight.mean(0)
        return self.out(h)


def check_sparse_gradients(rank, size):
    own = [weft.tensor([r, r, 7]) for r in range(size)]
    alone = Words()
    opt = weft.optim.SGD(alone.parameters(), 0.1)
    net = DDP(Words())
    ours = weft.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        weft.stack([alone(x) for x in own]).mean().backward()
        net(own[rank]).sum().backward()
        for p, q in zip(net.parameters(), alone.parameters()):
            assert p.grad.is_sparse == q.grad.is_sparse and (not p.grad.is_sparse or
                                                             p.grad.is_coalesced())  # fmt: skip
            assert weft.allclose(p.grad.to_dense(), q.grad.to_dense(), atol=1e-6)
        for o in (opt, ours):
            o.step()
            o.zero_grad()
    close(net.module, alone, 1e-6)
    net.zero_grad()
    net(own[rank] if rank else weft.tensor([9, 9, 9])).sum().backward()  # dense in rank 0
    assert not net.module.words.weight.grad.is_sparse and net.module.bags.weight.grad.is_sparse
    grads = [None] * size
    dist.all_gather_object(grads, net.module.words.weight.grad)
    assert weft.equal(grads[0], grads[1])
    with net.join():  # who has no more batches contributes no rows
        for _ in range(rank + 1):
            net.zero_grad()
            net(own[rank]).sum().backward()
    if rank == size - 1:
        assert net.module.bags.weight.grad.coalesce().indices().tolist() == [[rank, 7]]


def check_copies_exchange_too(rank, size):
    x, y = data()
    net = DDP(mlp())
    file = io.BytesIO()
    weft.save(net, file)
    file.seek(0)
    averaged = weft.optim.swa_utils.AveragedModel(net)
    averaged.update_parameters(net)
    for other in (copy.deepcopy(net), weft.load(file, weights_only=False), averaged.module):
        assert type(other) is DDP and other.process_group is net.process_group
        assert other.module is not net.module
        F.mse_loss(other(part(x, rank, size)), part(y, rank, size)).backward()
        grads = [None] * size
        dist.all_gather_object(grads, other.module[0].weight.grad)
        assert weft.equal(grads[0], grads[1]) and net.module[0].weight.grad is None
    some = DDP(mlp(), process_group=dist.new_group())
    with pytest.raises(RuntimeError, match="only supported when using DDP with the default"):
        copy.deepcopy(some)
    told = net._get_ddp_logging_data()
    assert (told["world_size"], told["rank"], told["module_name"]) == (size, rank, "Sequential")
    assert net.device == weft.device("cpu") and net.output_device is None
    with pytest.raises(ValueError, match="device_ids and output_device arguments only work"):
        DDP(mlp(), device_ids=[0])
    module = nn.Linear(1, 1)
    DDP._set_params_and_buffers_to_ignore_for_model(module, ["bias"])
    module.bias.data.fill_(rank)
    assert DDP(module).module.bias.item() == rank


def check_structured_results(rank, size):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(1, 1, bias=False)

        def forward(self, x, scale=1):
            return {"out": [self.a(x) * scale], "n": 3}

    net = DDP(Named())
    net(weft.tensor([float(rank)]), scale=2)["out"][0].sum().backward()
    assert net.module.a.weight.grad.item() == 2 * sum(range(size)) / size


def check_hooks(rank, size):
    x, y = data()
    alone = mlp()
    F.mse_loss(alone(x), y).backward()
    for hook, tolerance in (
        (hooks.allreduce_hook, 1e-6), (hooks.fp16_compress_hook, 1e-3),
        (hooks.bf16_compress_hook, 1e-2), (hooks.bf16_compress_wrapper(hooks.allreduce_hook), 1e-2),
    ):  # fmt: skip
        net = DDP(mlp(), bucket_cap_mb=1e-3)
        net.register_comm_hook(None, hook)
        with pytest.raises(RuntimeError, match="only be called once"):
            net.register_comm_hook(None, hook)
        F.mse_loss(net(part(x, rank, size)), part(y, rank, size)).backward()
        for p, q in zip(net.parameters(), alone.parameters()):
            assert p.grad.dtype == weft.float32
            assert weft.allclose(p.grad, q.grad, atol=tolerance), hook
    by_name = DDP(mlp())
    register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, by_name)
    F.mse_loss(by_name(part(x, rank, size)), part(y, rank, size)).backward()
    for p, q in zip(by_name.parameters(), alone.parameters()):
        assert weft.allclose(p.grad, q.grad, atol=1e-3) and not weft.equal(p.grad, q.grad)
    seen = []

    def own(state, bucket):
        seen.append((bucket.index(), bucket.is_last(), len(bucket.parameters())))
        assert [g.shape for g in bucket.gradients()] == [p.shape for p in bucket.parameters()]
        future = weft.futures.Future()
        future.set_result(bucket.buffer() * 0 + state)
        return future

    net = DDP(mlp(), bucket_cap_mb=1e-3)
    net.register_comm_hook(7.0, own)
    net(x).sum().backward()
    assert all((p.grad == 7).all() for p in net.parameters())
    assert [s[0] for s in seen] == list(range(len(seen))) and seen[-1][1] and len(seen) > 1


def check_buffers_are_those_of_the_first(rank, size):
    net = DDP(nn.BatchNorm1d(2))
    net(weft.randn(4, 2) + rank)
    mine = net.module.running_mean.clone()
    outs = [None] * size
    dist.all_gather_object(outs, mine)
    assert not weft.equal(outs[0], outs[1])
    net(weft.zeros(4, 2))
    dist.all_gather_object(outs, net.module.running_mean)
    assert weft.equal(outs[0], outs[1])
    other = DDP(nn.BatchNorm1d(2), broadcast_buffers=False)
    other(weft.randn(4, 2) + rank)
    other(weft.zeros(4, 2))
    dist.all_gather_object(outs, other.module.running_mean)
    assert not weft.equal(outs[0], outs[1])


def check_unlike_numbers_of_batches(rank, size):
    for by_all in (True, False):
        net = DDP(nn.Linear(1, 1, bias=False))
        with weft.no_grad():
            net.module.weight.fill_(0)
        opt = weft.optim.SGD(net.parameters(), 1.0)
        with net.join(divide_by_initial_world_size=by_all):
            for _ in range(rank + 1):
                opt.zero_grad()
                net(weft.ones(1, 1)).sum().backward()
                opt.step()
        left = [sum(1 for r in range(size) if r >= step) for step in range(size)]
        expected = -sum(n / size for n in left) if by_all else -float(size)
        assert abs(net.module.weight.item() - expected) < 1e-6
    with pytest.raises(RuntimeError, match="at least one rank that exhausted inputs"):
        with net.join(throw_on_early_termination=True):
            for _ in range(rank + 1):
                net(weft.ones(1, 1)).sum().backward()


def check_a_failed_backward_leaves_nothing(rank, size):
    class Fails(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError

    layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, x, fails):
            x = self.layers[0](x)
            return self.layers[1](Fails.apply(x) if fails else x)

    net = DDP(Net(), bucket_cap_mb=1e-6)
    with pytest.raises(ZeroDivisionError):
        net(weft.ones(2), True).sum().backward()
    net.zero_grad()
    net(weft.full((2,), float(rank)), False).sum().backward()
    outs = [None] * size
    dist.all_gather_object(outs, [p.grad for p in net.parameters()])
    assert all(weft.equal(a, b) for a, b in zip(outs[0], outs[1]))


def check_wrong_use(rank, size):
    with pytest.raises(RuntimeError, match="expected the same parameters in all processes"):
        DDP(nn.Linear(2, 1 + rank))
    with pytest.raises(RuntimeError, match="any parameter that requires a gradient"):
        DDP(nn.ReLU())
    net = DDP(nn.Linear(2, 1))
    with pytest.raises(TypeError, match="must be callable"):
        net.register_comm_hook(None, 3)


def check_batches_of_examples(rank, size):
    weft.manual_seed(0)

    class Tree(nn.Module):
        def __init__(self):
            super().__init__()
            self.leaf, self.join = nn.Linear(1, 4), nn.Linear(8, 4)

        def forward(self, tree):
            if isinstance(tree, float):
                return weft.tanh(self.leaf(weft.tensor([tree])))
            return weft.tanh(self.join(weft.cat([self(tree[0]), self(tree[1])])))

    trees = [(1.0, (2.0, 3.0)), 0.5, ((0.1, 0.2), (0.3, 0.4)), (1.0, -1.0), (2.0, 0.0), 3.0]
    alone = Tree()
    net = DDP(copy.deepcopy(alone))
    weft.stack([alone(t).sum() for t in trees]).mean().backward()
    mine = trees[rank::size]
    outs = weft.autobatch(lambda t: net(t).sum())(mine)
    weft.stack(list(outs)).mean().backward()
    for p, q in zip(net.parameters(), alone.parameters()):
        assert weft.allclose(p.grad, q.grad, atol=1e-6)


def check_a_copy_of_the_state(rank, size):
    net = DDP(mlp())
    assert all(name.startswith("module.") for name in net.state_dict())
    net.load_state_dict(net.state_dict())
    del net
    gc.collect()


def check_batch_norm_of_all_batches(rank, size):
    for kind in (weft.float32, weft.float64):
        weft.manual_seed(0)
        net = nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3), nn.Tanh()).to(kind)
        synced = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(net)))
        x = weft.randn(2 * size * (size + 1) // 2, 2, 5).to(kind)
        sizes = [2 * (r + 1) for r in range(size)]  # unlike batches
        mine = x.split(sizes)[rank]
        weights = weft.randn(*net(x).shape).to(kind)
        net = copy.deepcopy(net)
        out = net(x)
        (out * weights).sum().backward()
        got = synced(mine)
        assert weft.allclose(got, out.split(sizes)[rank], atol=1e-5)
        (got * weights.split(sizes)[rank]).sum().backward()
        for (name, p), q in zip(synced.module.named_parameters(), net.parameters()):
            assert weft.allclose(p.grad * size, q.grad, atol=1e-4), name
    weft.manual_seed(0)
    alone, all_of_us = nn.BatchNorm1d(3), nn.SyncBatchNorm(3)
    x = weft.randn(4 * size, 3)
    alone(x)
    all_of_us(x[rank::size])
    assert weft.allclose(all_of_us.running_mean, alone.running_mean, atol=1e-6)
    assert weft.allclose(all_of_us.running_var, alone.running_var, atol=1e-6)
    if rank == 0:  # alone: in evaluation nothing is exchanged
        assert weft.allclose(all_of_us.eval()(x), alone.eval()(x), atol=1e-5)


def check_state_in_shares(rank, size):
    from weft.distributed.optim import ZeroRedundancyOptimizer as Zero

    makers = {"SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {"lr": 0.01}}
    for name, settings in makers.items():
        make = getattr(weft.optim, name)
        x, y = data()
        alone = mlp()
        whole = make(alone.parameters(), **settings)
        net = DDP(mlp())
        zero = Zero(net.parameters(), make, **settings)
        schedules = [weft.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (whole, zero)]

        def train(steps):
            for _ in range(steps):
                for opt, model, part_of in ((whole, alone, lambda t: t), (zero, net, mine)):
                    opt.zero_grad()
                    F.mse_loss(model(part_of(x)), part_of(y)).backward()
                    opt.step()
                for schedule in schedules:
                    schedule.step()

        mine = lambda t: part(t, rank, size)  # noqa: E731
        train(5)
        close(net.module, alone, 1e-5)
        held = sum(t.numel() for s in zero.optim.state.values() for t in s.values()
                   if isinstance(t, weft.Tensor))  # fmt: skip
        outs = [None] * size
        dist.all_gather_object(outs, held)
        total = sum(t.numel() for s in whole.state.values() for t in s.values()
                    if isinstance(t, weft.Tensor))  # fmt: skip
        assert sum(outs) == total and max(outs) < total
        with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
            zero.state_dict()
        zero.consolidate_state_dict(to=1)
        states = [None]
        if rank == 1:
            states = [zero.state_dict()]
            saved = whole.state_dict()
            assert saved["state"].keys() == states[0]["state"].keys()
            other = make(mlp().parameters(), **settings)
            other.load_state_dict(states[0])  # one process reads it
        dist.broadcast_object_list(states, 1)
        again = Zero(net.parameters(), make, **settings)
        again.load_state_dict(states[0])
        zero = again
        schedules[1].optimizer = again
        train(3)
        close(net.module, alone, 1e-5)


def check_state_in_shares_with_unlike_numbers_of_batches(rank, size):
    from weft.distributed.algorithms.join import Join
    from weft.distributed.optim import ZeroRedundancyOptimizer as Zero

    x, y = data(rows=4)
    ends = []
    for zeros in (False, True):
        net = DDP(mlp())
        make = weft.optim.SGD
        opt = Zero(net.parameters(), make, lr=0.1) if zeros else make(net.parameters(), lr=0.1)
        with Join([net, opt] if zeros else [net]):
            for _ in range(2 + rank):
                opt.zero_grad()
                F.mse_loss(net(x + rank), y).backward()
                opt.step()
        ends.append(net.module)
    close(ends[0], ends[1], 1e-6)
