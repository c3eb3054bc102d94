"""`weft serve` under load: a Tree-LSTM over trees of unlike size, 32 clients in a closed loop.

The load comes from a process of its own. Requests that wait run as one batch, against `--batch 1`,
where each runs alone; both servers stand at once and take turns, so that what else the machine does
disturbs both alike.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CLIENTS, WORDS, CLASSES = 32, 100, 5


def save(dim, path):
    """The model of batching/tree_lstm.py over nested lists, in a file."""
    from batching import tree_lstm

    import weft

    class Served(weft.nn.Module):
        def __init__(self):
            super().__init__()
            model = tree_lstm.make(weft, dim)
            self.leaf, self.node, self.out = model.leaf, model.node, model.out

        def state(self, tree):
            if not isinstance(tree, list):
                return self.leaf(weft.tensor([tree])).chunk(2, dim=1)
            (h_l, c_l), (h_r, c_r) = self.state(tree[0]), self.state(tree[1])
            i, f_l, f_r, o, u = self.node(weft.cat([h_l, h_r], dim=1)).chunk(5, dim=1)
            c = (
                weft.sigmoid(i) * weft.tanh(u)
                + weft.sigmoid(f_l) * c_l
                + weft.sigmoid(f_r) * c_r
            )  # fmt: skip
            return weft.sigmoid(o) * weft.tanh(c), c

        def forward(self, tree):
            return self.out(self.state(tree)[0])

    weft.manual_seed(0)
    weft.jit.save(weft.jit.script(Served()), path)


def trees(n):
    """Requests over trees of 10 to 40 leaves."""
    from batching.structures import binary_tree, generator, whole

    rng = generator(0)
    made = [
        binary_tree(rng, whole(rng, 10, 40), lambda: whole(rng, 0, WORDS - 1)) for _ in range(n)
    ]
    return [json.dumps({"args": [tree]}).encode() for tree in made]


async def client(port, bodies, end, times, errors):
    """Sends one request after the other over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    i = 0
    while time.perf_counter() < end:
        body = bodies[i % len(bodies)]
        i += 1
        start = time.perf_counter()
        head = f"POST /forward HTTP/1.1\r\nhost: weft\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        told = await reader.readuntil(b"\r\n\r\n")
        length = int(told.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        times.append(time.perf_counter() - start)
        errors.append(not told.startswith(b"HTTP/1.1 200"))
    writer.close()


async def load(port, seconds):
    """What a run came to: times of requests in seconds, and how many failed."""
    bodies, times, errors = trees(256), [], []
    end = time.perf_counter() + seconds
    parts = [bodies[i::CLIENTS] for i in range(CLIENTS)]
    await asyncio.gather(*(client(port, part, end, times, errors) for part in parts))
    print(json.dumps({"times": times, "errors": sum(errors)}))


def measure(port, seconds):
    command = [sys.executable, __file__, "--load", str(port), "--seconds", str(seconds)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def serve(path, batch):
    command = [sys.executable, "-m", "weft", "serve", path, "--port", "0", "--batch", str(batch)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return server, int(server.stdout.readline().rpartition(":")[2])


def compare(dim, turns, seconds):
    """Prints a line for each way."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "tree.weft")
        save(dim, path)
        servers = {f"batches of {n}": serve(path, n) for n in (32, 1)}
        runs = {name: [] for name in servers}
        try:
            for _, port in servers.values():
                measure(port, 1)  # warm
            for _ in range(turns):
                for name, (_, port) in servers.items():
                    runs[name].append(measure(port, seconds))
        finally:
            for server, _ in servers.values():
                server.terminate()
                server.wait()
        rates = {}
        for name, told in runs.items():
            times = np.concatenate([run["times"] for run in told]) * 1e3
            rates[name] = len(times) / (seconds * turns)
            p50, p99 = np.percentile(times, [50, 99])
            errors = sum(run["errors"] for run in told)
            print(
                f"d={dim:<4} {name:<14} {rates[name]:7.0f} requests/s"
                f"   p50 {p50:6.1f} ms   p99 {p99:6.1f} ms   errors {errors}"
            )
        fast, slow = rates.values()
        print(f"d={dim:<4} batches answer {fast / slow:.2f} times as many requests", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--load", type=int, help="the port of a server: only load it")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dims", type=int, nargs="*", default=[512, 128])
    args = parser.parse_args()
    if args.load is not None:
        return asyncio.run(load(args.load, args.seconds))
    for dim in args.dims:
        compare(dim, args.turns, args.seconds)


if __name__ == "__main__":
    main()
