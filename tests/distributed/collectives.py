"""What each rank does and expects; run by test_in_all_ranks.py through checks.py."""

import datetime
import operator
from functools import reduce

import pytest

import weft
from weft import distributed as dist

R = dist.ReduceOp
NUMBERS = [
    weft.float32, weft.float64, weft.bfloat16, weft.float16, weft.int8, weft.int16, weft.int32,
    weft.int64, weft.uint8,
]  # fmt: skip
ALL = [*NUMBERS, weft.bool, weft.complex64, weft.complex128]
LAYOUTS = {
    "whole": lambda t: t,
    "0-d": lambda t: t.reshape(-1)[0].clone(),
    "rows": lambda t: weft.stack([t, t])[1],
    "columns": lambda t: t.t(),
    "steps": lambda t: weft.stack([t, t], -1)[..., 0],
    "expanded": lambda t: t[:1].clone().expand(4, *t.shape[1:]),
    "empty": lambda t: t[:0].clone(),
}


def values(rank, kind):
    """Small whole numbers, other ones in each rank."""
    t = (weft.arange(6).reshape(2, 3) * 3 + rank) % 5 + 1
    return (t % 2 == 0) if kind == weft.bool else t.to(kind)


def same(got, expected):
    assert got.dtype == expected.dtype and got.shape == expected.shape, (got, expected)
    assert weft.equal(got, expected), (got, expected)


def joined(op, kind, size):
    parts = [values(r, kind) for r in range(size)]
    if kind == weft.bool:
        how = {R.SUM: operator.or_, R.MAX: operator.or_, R.BOR: operator.or_,
               R.PRODUCT: operator.and_, R.MIN: operator.and_, R.BAND: operator.and_,
               R.BXOR: operator.xor}[op]  # fmt: skip
    else:
        how = {R.SUM: operator.add, R.AVG: operator.add, R.PRODUCT: operator.mul,
               R.MIN: weft.minimum, R.MAX: weft.maximum, R.BAND: operator.and_,
               R.BOR: operator.or_, R.BXOR: operator.xor}[op]  # fmt: skip
    out = reduce(how, parts)
    if op == R.AVG:
        whole = not (kind.is_floating_point or kind.is_complex)
        out = weft.div(out, size, rounding_mode="trunc") if whole else out / size
    return out.to(kind)


def ops_of(kind):
    if kind.is_complex:
        return [R.SUM, R.AVG]
    if kind.is_floating_point:
        return [R.SUM, R.AVG, R.PRODUCT, R.MIN, R.MAX]
    bits = [R.SUM, R.PRODUCT, R.MIN, R.MAX, R.BAND, R.BOR, R.BXOR]
    return bits if kind == weft.bool else [*bits, R.AVG]


def check_all_reduce_of_every_dtype_and_op(rank, size):
    for kind in ALL:
        for op in ops_of(kind):
            x = values(rank, kind)
            assert dist.all_reduce(x, op) is None
            same(x, joined(op, kind, size))


def check_reduce(rank, size):
    for kind in ALL:
        for op in ops_of(kind):
            x = values(rank, kind)
            dist.reduce(x, size - 1, op)
            if rank == size - 1:
                same(x, joined(op, kind, size))


def check_reduce_scatter(rank, size):
    for kind in ALL:
        for op in ops_of(kind):
            inputs = [values(rank, kind) for _ in range(size)]
            y = weft.zeros(2, 3, dtype=kind)
            dist.reduce_scatter(y, inputs, op)
            same(y, joined(op, kind, size))
            z = weft.zeros(2, 3, dtype=kind)
            dist.reduce_scatter_tensor(z, weft.cat(inputs), op)
            same(z, y)
    parts = [weft.full((2,), float(rank * size + k)) for k in range(size)]
    dist.reduce_scatter(parts[0], list(parts))
    same(parts[0], weft.full((2,), float(sum(r * size + rank for r in range(size)))))


def check_every_layout(rank, size):
    for layout in LAYOUTS.values():
        base = values(rank, weft.float32)
        x = layout(base)
        expected = sum(layout(values(r, weft.float32)) for r in range(size))
        dist.all_reduce(x)
        same(x, expected)
        y = layout(values(rank, weft.float32)).clone()
        dist.broadcast(y, size - 1)
        same(y, layout(values(size - 1, weft.float32)).clone())
        outs = [weft.zeros(x.shape) for _ in range(size)]
        mine = layout(values(rank, weft.float32))
        dist.all_gather(outs, mine)
        for r, out in enumerate(outs):
            same(out, layout(values(r, weft.float32)).clone())


def check_what_is_contiguous_is_not_copied(rank, size):
    x = weft.ones(4)
    place, version = x.data_ptr(), x._version
    dist.all_reduce(x)
    assert x.data_ptr() == place and x._version > version
    same(x, weft.full((4,), float(size)))


def check_the_graph_sees_that_it_was_overwritten(rank, size):
    w = weft.ones(2, requires_grad=True)
    x = weft.ones(2)
    y = (w * x).sum()
    dist.all_reduce(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def check_large(rank, size):
    x = weft.full((1 << 20,), float(rank + 1))
    dist.all_reduce(x)
    same(x, weft.full((1 << 20,), float(size * (size + 1) // 2)))


def check_parts_of_unlike_sizes(rank, size):
    for kind in (weft.float32, weft.bfloat16, weft.int64):
        inputs = [weft.full((k + 1,), rank + k).to(kind) for k in range(size)]
        y = weft.zeros(rank + 1, dtype=kind)
        dist.reduce_scatter(y, inputs)
        same(y, weft.full((rank + 1,), sum(r + rank for r in range(size))).to(kind))


def check_groups_of_some(rank, size):
    mine, every = dist.new_subgroups(1)
    assert dist.get_process_group_ranks(mine) == [rank] and len(every) == size
    others = dist.GroupMember.NON_GROUP_MEMBER
    assert [one == others for one in every] == [r != rank for r in range(size)]
    mine, _ = dist.new_subgroups_by_enumeration([[0, 1]])
    if rank < 2:
        dist.all_reduce(x := weft.ones(1), group=mine)
        assert x.item() == 2
    else:
        assert mine is None
    for wrong, text in ((0, "must be positive"), (size + 1, "must not exceed"), (None, "CUDA")):
        with pytest.raises(ValueError, match=text):
            dist.new_subgroups(wrong)
    with pytest.raises(ValueError, match="has appeared in both subgroup"):
        dist.new_subgroups_by_enumeration([[0], [0, 1]])


def check_stores(rank, size):
    """Each rank sets a key, and waits for all."""
    stores = [dist.TCPStore("127.0.0.1", 29601, size, rank == 0),
              dist.distributed_c10d._get_default_store()]  # fmt: skip
    for store in (*stores, dist.PrefixStore("below", stores[0])):
        store.set(f"of {rank}", f"value {rank}")
        assert store.multi_get([f"of {r}" for r in range(size)]) == [
            f"value {r}".encode() for r in range(size)
        ]
        assert store.add("sum", 1) in range(1, size + 1)
        store.wait(["sum"])
        dist.barrier()
        assert store.add("sum", 0) == size and not store.check(["sum", "never"])
        first = store.compare_set("first", "", str(rank))
        outs = [None] * size
        dist.all_gather_object(outs, (first, store.num_keys()))
        assert len({value for value, _ in outs}) == 1
        with pytest.raises(RuntimeError, match="got 'never'.*timeout after 50ms"):
            store.wait(["never"], datetime.timedelta(milliseconds=50))
    assert stores[0].get("below/sum") == str(size).encode()
    dist.barrier()
    if rank == 0:
        assert stores[0].delete_key("sum") and not stores[0].delete_key("sum")


def check_several_at_once(rank, size):
    xs = [weft.full((2, 3), float(rank)), weft.full((3, 2), float(rank + 1)).t()]
    dist.all_reduce_coalesced(xs)
    same(xs[0], weft.full((2, 3), float(sum(range(size)))))
    same(xs[1], weft.full((2, 3), float(sum(range(size)) + size)))
    outs = [[weft.zeros(2), weft.zeros(())] for _ in range(size)]
    mine = [weft.full((2,), float(rank)), weft.tensor(10.0 * rank)]
    dist.all_gather_coalesced(outs, mine, async_op=True).wait()
    assert [[t.tolist() for t in out] for out in outs] == [[[r, r], 10 * r] for r in range(size)]


def check_all_gather(rank, size):
    for kind in [*ALL, weft.complex32]:
        x = weft.full((2, 2), rank + 1).to(kind)
        whole = weft.zeros(2 * size, 2, dtype=kind)
        dist.all_gather_into_tensor(whole, x)
        for r, part in enumerate(whole.split(2)):
            same(part, weft.full((2, 2), r + 1).to(kind))


def check_gather_and_scatter(rank, size):
    for root in range(size):
        outs = [weft.zeros(2) for _ in range(size)] if rank == root else None
        dist.gather(weft.full((2,), float(rank)), outs, dst=root)
        if outs:
            assert [o.tolist() for o in outs] == [[float(r)] * 2 for r in range(size)]
        x = weft.zeros(3)
        parts = [weft.full((3,), 10.0 * r + root) for r in range(size)] if rank == root else None
        dist.scatter(x, parts, src=root)
        same(x, weft.full((3,), 10.0 * rank + root))


def check_all_to_all(rank, size):
    inputs = [weft.full((k + 1,), float(10 * rank + k)) for k in range(size)]
    outs = [weft.zeros(rank + 1) for _ in range(size)]
    dist.all_to_all(outs, inputs)
    for r, out in enumerate(outs):
        same(out, weft.full((rank + 1,), float(10 * r + rank)))
    x, y = weft.arange(2.0 * size).reshape(size, 2) + 100 * rank, weft.zeros(size, 2)
    dist.all_to_all_single(y, x)
    same(y, weft.stack([weft.arange(2.0) + 2 * rank + 100 * r for r in range(size)]))
    rows = [k + 1 for k in range(size)]
    x = weft.full((sum(rows), 2), float(rank))
    y = weft.zeros((rank + 1) * size, 2)
    dist.all_to_all_single(y, x, [rank + 1] * size, rows)
    same(y, weft.cat([weft.full((rank + 1, 2), float(r)) for r in range(size)]))


def check_messages(rank, size):
    to, source = (rank + 1) % size, (rank - 1) % size
    for kind in ALL:
        got = weft.zeros(2, 3, dtype=kind)
        work = dist.isend(values(rank, kind), to)
        assert dist.recv(got, source) == source
        work.wait()
        same(got, values(source, kind))
    first, second = weft.zeros(1), weft.zeros(1)
    sent = [dist.isend(weft.tensor([float(tag)]), to, tag=tag) for tag in (1, 2)]
    later = [dist.irecv(second, source, tag=2), dist.irecv(first, source, tag=1)]
    for work in [*sent, *later]:
        assert work.wait() is True
    assert (first.item(), second.item()) == (1, 2)
    if rank == 0:
        got = weft.zeros(1)
        assert sorted(dist.recv(got, tag=7) for _ in range(1, size)) == list(range(1, size))
    else:
        dist.send(weft.tensor([1.0]), 0, tag=7)
    columns = weft.zeros(3, 2).t()
    ops = [dist.P2POp(dist.isend, weft.ones(2, 3), to), dist.P2POp(dist.irecv, columns, source)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(columns, weft.ones(2, 3))


def check_a_receive_from_any_takes_no_message_of_a_new_group(rank, size):
    """Making a group sent messages under tag 0: receives took them, and the group hung."""
    for _ in range(10):
        got = weft.zeros(2, dtype=weft.int64)
        if rank == 0:
            assert sorted(dist.recv(got) for _ in range(1, size)) == list(range(1, size))
        else:
            dist.send(weft.tensor([rank, rank]), 0)
        total = weft.tensor(rank)
        dist.all_reduce(total, group=dist.new_group(list(range(size))))
        assert total.item() == size * (size - 1) // 2


def check_a_message_without_room(rank, size):
    """Open MPI wrote a large message behind the memory of a small tensor."""
    for count in (5, 500_000):
        if rank == 0:
            dist.send(weft.ones(count), 1)
        elif rank == 1:
            small = weft.zeros(3)
            with pytest.raises(RuntimeError, match=f"at most 12 bytes.*got one of {4 * count}"):
                dist.recv(small, 0)
            assert small.tolist() == [0, 0, 0]


def check_receives_get_messages_in_their_order(rank, size):
    """Whoever is waited for first, and of whom."""
    count, large = 4, 100_000
    if rank == 0:
        for k in range(count):
            dist.send(weft.full((large,), float(k)), 1)
    elif rank == 1:
        xs = [weft.zeros(large) for _ in range(count)]
        works = [dist.irecv(x, None if k % 2 else 0) for k, x in enumerate(xs)]
        for work in reversed(works):
            work.wait()
        assert [x[-1].item() for x in xs] == list(range(count))


def check_objects(rank, size):
    mine = {"rank": rank, "text": "x" * (1000 * rank), "t": weft.ones(rank)}
    outs = [None] * size
    dist.all_gather_object(outs, mine)
    assert [(o["rank"], len(o["text"]), o["t"].shape[0]) for o in outs] == [
        (r, 1000 * r, r) for r in range(size)
    ]
    outs = [None] * size if rank == 1 else None
    dist.gather_object(rank, outs, dst=1)
    assert outs is None or outs == list(range(size))
    several = [rank, "a", None] if rank == 1 else [None] * 3
    dist.broadcast_object_list(several, src=1)
    assert several == [1, "a", None]
    if rank == 0:
        dist.send_object_list([{"a": 1}, "b" * 100_000], dst=1)
    if rank == 1:
        got = [None, None]
        assert dist.recv_object_list(got, src=0) == 0
        assert got == [{"a": 1}, "b" * 100_000]
    out = [None]
    dist.scatter_object_list(out, [{"for": r} for r in range(size)] if rank == 0 else None)
    assert out == [{"for": rank}]


def check_async(rank, size):
    xs = [weft.full((k * 1000 + 1,), float(rank)) for k in range(8)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    for work in reversed(works):
        assert work.wait() and work.is_completed() and work.is_success()
    for x in xs:
        same(x, weft.full(x.shape, float(sum(range(size)))))
    view = weft.ones(3, 2).t()
    work = dist.all_reduce(view, R.AVG, async_op=True)
    assert work.result()[0] is view
    same(view, weft.ones(2, 3))
    x = weft.ones(2)
    later = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.wait()[0] * 2)
    same(later.wait(), weft.full((2,), 2.0 * size))


def check_groups(rank, size):
    members = list(range(1, size))
    group = dist.new_group(members)
    if rank == 0:
        assert group == dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_rank(group) == -1 and dist.get_world_size(group) == -1
        x = weft.ones(2)
        assert dist.all_reduce(x, group=group) is None and x.tolist() == [1, 1]
    else:
        assert dist.get_rank(group) == rank - 1 and dist.get_world_size(group) == size - 1
        assert dist.get_process_group_ranks(group) == members
        assert dist.get_global_rank(group, 0) == 1 and dist.get_group_rank(group, rank) == rank - 1
        x = weft.full((2,), float(rank))
        dist.broadcast(x, size - 1, group=group)
        assert x.tolist() == [size - 1] * 2
        dist.broadcast(x, group_src=0, group=group)
        dist.all_reduce(x, group=group)
        assert x.tolist() == [(size - 1) * (size - 1)] * 2
        with pytest.raises(ValueError, match="Global rank 0 is not part of group"):
            dist.broadcast(x, 0, group=group)
        dist.destroy_process_group(group)
    everyone = dist.new_group()
    assert dist.get_world_size(everyone) == size
    dist.destroy_process_group(everyone)
    with pytest.raises(ValueError, match="expected a process group"):
        dist.all_reduce(weft.ones(1), group=everyone)


def check_barriers(rank, size):
    dist.barrier()
    assert dist.barrier(async_op=True).wait()
    dist.monitored_barrier()
    short = datetime.timedelta(milliseconds=200)
    if rank == 0:
        with pytest.raises(RuntimeError, match=r"Ranks 1.* failed to pass monitoredBarrier in 200"):
            dist.monitored_barrier(timeout=short)
    else:  # comes later, and finds nobody
        import time

        time.sleep(1)
        with pytest.raises(RuntimeError, match="within 0.2 s"):
            dist.monitored_barrier(timeout=short)


def check_wrong_use(rank, size):
    x = weft.ones(2)
    wrong = [
        (lambda: dist.all_reduce(3), TypeError, "Expected parameter `tensor` of type"),
        (lambda: dist.all_reduce(x, "sum"), TypeError, "ReduceOp"),
        (lambda: dist.all_reduce(x, R.PREMUL_SUM), RuntimeError, "Cannot use ReduceOp.PREMUL_SUM"),
        (lambda: dist.all_reduce(x, R.BOR), RuntimeError, "non-integral dtype"),
        (lambda: dist.all_reduce(x > 0, R.AVG), RuntimeError, "expected numbers"),
        (lambda: dist.all_reduce(x.to(weft.complex64), R.MAX), ValueError, "on complex tensors"),
        (lambda: dist.broadcast(x, size), RuntimeError, "invalid root rank"),
        (lambda: dist.reduce(x, -1), RuntimeError, "invalid root rank"),
        (lambda: dist.send(x, rank), ValueError, "should not be the same as the rank"),
        (lambda: dist.recv(x, size), ValueError, "not part of group"),
        (lambda: dist.all_gather([x], x), RuntimeError, "invalid tensor list size"),
        (lambda: dist.all_gather([x.double()] * size, x), ValueError, "different dtypes"),
        (lambda: dist.all_gather([weft.ones(3)] * size, x), RuntimeError, "as many elements"),
        (lambda: dist.all_gather_into_tensor(x, x), RuntimeError, "as many elements"),
        (lambda: dist.all_to_all_single(weft.ones(size + 1), weft.ones(size)), RuntimeError,
         "does not divide equally"),
        (lambda: dist.all_to_all_single(x, x, [1] * size, [5] * size), RuntimeError, "Split sizes"),
        (lambda: dist.all_to_all_single(x, x, [2], [2]), RuntimeError, "Number of tensor splits"),
        (lambda: dist.all_to_all([x], [x]), RuntimeError, "alltoall: invalid tensor list size"),
        (lambda: dist.all_gather_into_tensor(weft.ones(2 * size).double(), x), RuntimeError,
         "invalid tensor type"),
        (lambda: dist.reduce_scatter(x, [x]), RuntimeError, "invalid tensor list size"),
        (lambda: dist.reduce_scatter(x, [weft.ones(3)] * size), RuntimeError, "as many elements"),
        (lambda: dist.all_gather_coalesced([[x]], [x]), RuntimeError, "invalid output tensor list"),
        (lambda: dist.all_reduce(weft.eye(2).to_sparse()), RuntimeError, r"all_reduce.*to_dense"),
        (lambda: dist.broadcast(x.to("meta"), 0), RuntimeError, r"\[broadcast\].*meta device"),
        (lambda: dist.broadcast(x), ValueError, "Must specify global_rank or group_rank"),
        (lambda: dist.reduce(x), ValueError, "Must specify global_rank or group_rank"),
        (lambda: dist.send(x), ValueError, "Must specify global_rank or group_rank"),
        (lambda: dist.broadcast(x, 0, group_src=0), ValueError, "Can't specify both group_rank"),
        (lambda: dist.send_object_list((1,), dst=1 - rank), TypeError, "expected a list"),
        (lambda: dist.scatter(x, None, src=rank), ValueError, "must be specified on source rank"),
        (lambda: dist.gather(x, [x], dst=(rank + 1) % size), ValueError, "must NOT be specified"),
        (lambda: dist.new_group([0, 0]), ValueError, "each rank once"),
        (lambda: dist.new_group([size]), ValueError, "within the world_size"),
        (lambda: dist.init_process_group("mpi"), ValueError, "twice"),
        (lambda: weft.autobatch(lambda t: (dist.all_reduce(t), t)[1])([x, x]), RuntimeError,
         "outside of autobatch"),
    ]  # fmt: skip
    for call, kind, text in wrong:
        with pytest.raises(kind, match=text):
            call()
    dist.all_reduce(x)  # nothing of it has reached the others
    assert x.tolist() == [size] * 2


def check_a_sampler_shares_the_data(rank, size):
    sampler = weft.utils.data.DistributedSampler(range(10), shuffle=True)
    outs = [None] * size
    dist.all_gather_object(outs, list(sampler))
    assert {i for out in outs for i in out} == set(range(10))
    assert len({len(out) for out in outs}) == 1


def check_exchanges_that_carry_gradients(rank, size):
    """The gradient of the sum of all ranks' losses, beside one computed in one graph."""
    import weft.distributed.nn.functional as fn
    from weft.distributed._functional_collectives import all_to_all_single_autograd, wait_tensor

    def losses(xs, how):
        """What each rank's loss is, of all ranks' inputs; each output has its own weight."""
        out = []
        for r in range(size):
            outs = how(xs, r)
            out.append(sum(((k + 1 + r) * o**2).sum() for k, o in enumerate(outs)))
        return out

    rows = [k + 1 for k in range(size)]
    pairs = {
        "all_reduce": (lambda x: [fn.all_reduce(x)], lambda xs, r: [sum(xs)]),
        "broadcast": (lambda x: [fn.broadcast(x, 1)], lambda xs, r: [xs[1]]),
        "reduce": (lambda x: [fn.reduce(x, 1)] if rank == 1 else [fn.reduce(x, 1) * 0],
                   lambda xs, r: [sum(xs)] if r == 1 else [xs[r] * 0]),
        "all_gather": (fn.all_gather, lambda xs, r: xs),
        "gather": (lambda x: [g * (rank == 1) for g in fn.gather(x, 1)],
                   lambda xs, r: [x * (r == 1) for x in xs]),
        "scatter": (lambda x: [fn.scatter([x * (k + 1) for k in range(size)], 1)],
                    lambda xs, r: [xs[1] * (r + 1)]),
        "reduce_scatter": (
            lambda x: [fn.reduce_scatter(weft.empty(2), [x * (k + 1) for k in range(size)])],
            lambda xs, r: [sum(xs) * (r + 1)]),
        "all_to_all": (
            lambda x: fn.all_to_all([weft.empty(2)] * size, [x * (k + 1) for k in range(size)]),
            lambda xs, r: [x * (r + 1) for x in xs]),
        "all_to_all_single": (
            lambda x: fn.all_to_all_single(
                weft.empty((rank + 1) * size, 2),
                weft.cat([x.expand(n, 2) * (k + 1) for k, n in enumerate(rows)]),
                [rank + 1] * size, rows).split(rank + 1),
            lambda xs, r: [x.expand(r + 1, 2) * (r + 1) for x in xs]),
        "all_to_all_single_autograd": (
            lambda x: wait_tensor(all_to_all_single_autograd(
                weft.cat([x.expand(n, 2) * (k + 1) for k, n in enumerate(rows)]),
                [rank + 1] * size, rows)).split(rank + 1),
            lambda xs, r: [x.expand(r + 1, 2) * (r + 1) for x in xs]),
    }  # fmt: skip
    for name, (ours, theirs) in pairs.items():
        xs = [weft.tensor([1.0 + r, 2.0 - r], requires_grad=True) for r in range(size)]
        sum(losses(xs, theirs)).backward()
        x = weft.tensor([1.0 + rank, 2.0 - rank], requires_grad=True)
        sum(((k + 1 + rank) * o**2).sum() for k, o in enumerate(ours(x))).backward()
        expected = weft.zeros(2) if xs[rank].grad is None else xs[rank].grad
        assert weft.allclose(x.grad, expected), (name, x.grad, expected)


def check_what_is_sent_lives_until_it_is_sent(rank, size):
    """A temporary that MPI still read was freed, and its memory written by others."""
    for _ in range(200):
        into, rows = weft.empty(2), weft.arange(2.0 * size).reshape(2, size)
        work = dist.reduce_scatter_tensor(into, rows.t() * 1.0, async_op=True)
        sent = dist.all_gather_into_tensor(weft.empty(size, 2), rows[:, 0] + rank, async_op=True)
        noise = [weft.full((size, 2), 9.0) for _ in range(4)]
        work.wait()
        assert into.tolist() == [size * rank, size * (rank + size)], (into, noise)
        (gathered,) = sent.result()
        assert gathered.tolist() == [[r + 0.0, r + size + 0.0] for r in range(size)]
