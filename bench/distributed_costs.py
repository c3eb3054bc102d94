"""A model of what data parallel training costs, from what is measured here.

Note [Costs]
A step of n ranks takes the compute of the rank with the most, and what is left of the exchange when
backward is done. On one machine without idle cores an all-reduce is work like any other, nothing
of it is hidden, and it takes latency + bytes / bandwidth, both measured. Over a link it is waiting:
a bucket starts when it is ready and those before it have left, takes 2 (n - 1) / n of its bytes
over the bandwidth, and 2 log2(n) latencies later it is there (Thakur et al. 2005); the flags of
what was reached follow. When buckets are ready is measured in the thread's processor time, which a
busy machine changes little. `hidden` is the share of the exchange that the step does not wait for.
"""

import gc
import json
import math
import random
import statistics
import time

import balance
import delayed_link
import distributed as bench

#: MB of a bucket: weft's default and PyTorch's, by their names in the table.
CAPS = {"default": None, "25 MB": 25}
#: {link: seconds, bytes a second}
LINKS = {
    "1 ms, 1 Gbit/s": (delayed_link.LATENCY, delayed_link.BYTES_A_SECOND),
    "20 us, 25 Gbit/s": (20e-6, 25e9 / 8),
}
ROUNDS, WARM_UP = 31, 8
RANKS = (2, 4, 8, 64, 1024)


def exposed(profile, messages, link, latencies=None, ranks=2):
    """What a rank waits after backward for its messages, the last of which are the flags."""
    latency, rate = link
    steps = 2 * math.log2(ranks) if latencies is None else latencies
    free = 0.0
    for ready, size in zip(profile, messages):
        free = max(free, ready) + 2 * (ranks - 1) / ranks * size / rate
    return free + steps * latency - profile[-1]


def in_rank(torch):
    """Runs in each of two ranks."""
    dist = torch.distributed
    torch.set_num_threads(1)
    dist.init_process_group("mpi")
    found = {}
    for size in (1, 1 << 20):
        x = torch.ones(size)
        times = []
        for _ in range(20 * ROUNDS):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(x)
            times.append(time.perf_counter() - start)
        found[str(4 * size)] = statistics.median(times)
    for name, make in bench.programs(torch).items():
        for cap in CAPS:
            found[f"{name}|{cap}"] = profile = _profile(torch, make, CAPS[cap])
            if sum(profile["bytes"]) < 1 << 20:
                break  # one bucket in any case
    _told(dist, found)


def _told(dist, found):
    if dist.get_rank() == 0:
        print("FOUND" + json.dumps(found), flush=True)
    dist.destroy_process_group()


def _slowest(torch, values):
    """Of each value, that of the rank with the most."""
    x = torch.tensor(values, dtype=torch.float64)
    torch.distributed.all_reduce(x, torch.distributed.ReduceOp.MAX)
    return x.tolist()


def _profile(torch, make, cap):
    """Of a row: clock and processor time, and when each message is sent."""
    made = make()
    net = torch.nn.parallel.DistributedDataParallel(made[0], bucket_cap_mb=cap)
    step = bench.step_of(made, lambda module: net)

    def quiet():
        with net.no_sync():
            step()

    for _ in range(WARM_UP):  # autobatch finds its way
        step(), quiet()
    plain = _turns(torch.distributed, quiet, step)
    link, take_off = delayed_link.put_on(torch.distributed, hold=lambda message: None)
    sent = []
    for _ in range(ROUNDS):
        link.sent.clear()
        start = time.thread_time()
        step()
        sent.append([message.work - start for message in link.sent])
    sizes = [message.bytes for message in link.sent]
    take_off()
    out = {
        "compute": statistics.median(_slowest(torch, [t for t, _ in plain[0]])),
        "work": statistics.median(work for _, work in plain[0]),
        "two": statistics.median(t for t, _ in plain[1]),
        "ready": [statistics.median(column) for column in zip(*sent)], "bytes": sizes,
    }  # fmt: skip
    if sum(sizes) > 1 << 20:
        link, take_off = delayed_link.put_on(torch.distributed)
        turns = _turns(torch.distributed, quiet, net._reducer.shadow, step)
        take_off()
        out["hidden"] = statistics.median(
            (compute + exchange - both) / exchange
            for (compute, _), (exchange, _), (both, _) in zip(*turns)
        )
    return out


def _turns(dist, *calls):
    """Of each call, its time by the clock and of this thread's work in each round."""
    out = [[] for _ in calls]
    for _ in range(ROUNDS):
        for kept, call in zip(out, calls):
            dist.barrier()
            start = time.perf_counter(), time.thread_time()
            call()
            kept.append((time.perf_counter() - start[0], time.thread_time() - start[1]))
    return out


def count_in_rank(torch):
    """Runs in each rank: messages, bytes, and work of a step, of all ranks."""
    dist = torch.distributed
    torch.set_num_threads(1)
    dist.init_process_group("mpi")
    found = {}
    for name, make in bench.programs(torch).items():
        made = make()
        net = torch.nn.parallel.DistributedDataParallel(made[0])
        step = bench.step_of(made, lambda module: net)  # noqa: B023
        step()
        link, take_off = delayed_link.put_on(dist, hold=lambda message: None)
        start = time.process_time()
        for _ in range(bench.STEPS):
            step()
        work = (time.process_time() - start) / bench.STEPS
        take_off()
        all_work = [None] * dist.get_world_size()
        dist.all_gather_object(all_work, work)
        found[name] = {
            "messages": len(link.sent) / bench.STEPS,
            "bytes": sum(message.bytes for message in link.sent) / bench.STEPS,
            "work": statistics.mean(all_work),
        }
    _told(dist, found)


def table():
    """What is measured of two ranks, what is counted of more, and what follows for many."""
    measured = bench.run("weft", "costs-of-a-rank")
    latency, whole = measured.pop("4"), measured.pop(str(4 << 20))
    rate = (4 << 20) / (whole - latency)
    print(f"\nan all-reduce of two ranks: {latency * 1e6:.0f} us, {rate / 1e9:.2f} GB/s\n")
    print(f"{'two ranks, a bucket':32}{'compute':>11}{'predicted':>11}{'measured':>11}"
          f"{'error':>7}   hidden of 1 ms, 1 Gbit/s: by work, by the clock")  # fmt: skip
    for row, m in measured.items():
        predicted = m["compute"] + sum(latency + size / rate for size in m["bytes"])
        times = (m["compute"], predicted, m["two"])
        line = f"{row.replace('|', ', '):32}" + "".join(f"{1e3 * t:>8.1f} ms" for t in times)
        line += f"{predicted / m['two'] - 1:>7.0%}"
        print(line + (f"{_hidden(m):>42.0%}{m['hidden']:>14.0%}" if "hidden" in m else ""))
    _counted()
    _predicted(measured)


def _hidden(m):
    """How much of the exchange over the slow link the compute would hide, by its work."""
    link = LINKS["1 ms, 1 Gbit/s"]
    whole = sum(m["bytes"]) / link[1] + link[0]
    return 1 - exposed(m["ready"], m["bytes"], link, latencies=1) / whole


def _counted():
    print(f"\n{'counted, of a rank and step':32}{'ranks':>6}{'messages':>10}{'MB sent':>9}"
          f"{'work':>11}{'waiting':>9}")  # fmt: skip
    for ranks in (2, 4, 8):
        for name, c in bench.run("weft", "counts-of-a-rank", ranks).items():
            is_trees = name == bench.TREES
            leaves = [sum(bench.leaves_of(r, ranks)) if is_trees else 1 for r in range(ranks)]
            waiting = 1 - statistics.mean(leaves) / max(leaves)
            sent = 2 * (ranks - 1) / ranks * c["bytes"] / 1e6
            print(f"{name:32}{ranks:>6}{c['messages']:>10.0f}{sent:>9.2f}"
                  f"{c['work'] * 1e3:>8.1f} ms{waiting:>9.1%}")  # fmt: skip


def _predicted(measured):
    """The share of n times the throughput of one rank that n ranks are to have."""
    rng = random.Random(0)
    leaves = [rng.randint(10, 40) for _ in range(3 * balance.BATCH * RANKS[-1])]
    alike = [1] * len(leaves)
    most = {
        way: [balance.slowest_over_mean(costs, n, leaves) for n in RANKS]
        for way, costs in ((", unbalanced", alike), (", balanced", leaves))
    }
    print(f"\n{'predicted share of n times one rank':62}" + "".join(f"{n:>7}" for n in RANKS))
    for row, m in measured.items():
        ways = most if row.startswith(bench.TREES) else {"": [1.0] * len(RANKS)}
        for link in LINKS:
            for way, factors in ways.items():
                waits = [exposed(m["ready"], m["bytes"], LINKS[link], ranks=n) for n in RANKS]
                times = [m["work"] * factor + wait for factor, wait in zip(factors, waits)]
                name = row.replace(" a rank|", ", ")
                print(f"{f'{name}, {link}{way}':62}"
                      + "".join(f"{m['work'] / t:>7.0%}" for t in times))  # fmt: skip


def memory_in_rank(torch):
    """Runs in each rank: bytes of parameters, gradients and Adam's state of the GPT row."""
    dist = torch.distributed
    dist.init_process_group("mpi")
    found = {"whole": _held(torch, False), "part": _held(torch, True)}
    found["part"] = _slowest(torch, [found["part"]])[0]
    _told(dist, found)


def _held(torch, is_sharded):
    from weft.distributed.fsdp import fully_shard
    from weft.distributed.tensor import DTensor

    model, loss, _ = next(iter(bench.programs(torch).values()))()
    gc.collect()
    if is_sharded:
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss(model).backward()
    optimizer.step()
    held = [t for p in model.parameters() for t in (p, p.grad, *optimizer.state[p].values())]
    held = [t for t in held if isinstance(t, torch.Tensor)]
    parts = [t.to_local() if isinstance(t, DTensor) else t for t in held]
    storages = [part.untyped_storage() for part in parts]
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values())


def memory():
    """What `fully_shard` leaves the rank with the most."""
    for ranks in (2, 4):
        found = bench.run("weft", "memory-of-a-rank", ranks)
        whole, part = found["whole"], found["part"]
        print(f"fully_shard, GPT with AdamW, {ranks} ranks: parameters, gradients and state "
              f"{part / 1e6:.2f} MB of {whole / 1e6:.2f}, {part / whole:.1%}")  # fmt: skip
