"""A GPT of 50 million parameters from its file: how long until it can be called.

Each load is in a process of its own, which has imported the framework; with the file in the page
cache and dropped from it. PyTorch's row is torch.jit.load of the same model's script.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LOAD = """
import os, sys, time, {name} as lib
import {name}.jit
path, cold = sys.argv[1], sys.argv[2] == "cold"
if cold:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
start, used = time.perf_counter(), time.process_time()
program = lib.jit.load(path)
print(1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - used))
"""


def gpt(lib):
    """GPT of 12 layers of width 512 over 12000 words."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self, d: int, heads: int):
            super().__init__()
            self.norm_1, self.norm_2, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
            self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def forward(self, x):
            b, t, d = x.shape
            wide = self.qkv(self.norm_1(x)).view(b, t, 3, self.heads, d // self.heads)
            q, k, v = wide.permute(2, 0, 3, 1, 4).unbind(0)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
            return x + self.down(nn.functional.gelu(self.up(self.norm_2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place = nn.Embedding(12000, 512), nn.Embedding(512, 512)
            self.blocks = nn.ModuleList([Block(512, 8) for _ in range(12)])
            self.norm, self.head = nn.LayerNorm(512), nn.Linear(512, 12000, bias=False)

        def forward(self, words):
            x = self.token(words) + self.place.weight[: words.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT().eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("weft", "torch"):
            try:
                lib = __import__(name)
            except ImportError:
                continue
            path = Path(folder) / name
            model = gpt(lib)
            lib.jit.script(model).save(str(path))
            count, size = sum(p.numel() for p in model.parameters()), os.path.getsize(path)
            print(f"{name}: {count / 1e6:.1f} M parameters, {size / 1e6:.0f} MB")
            for state in ("warm", "cold"):
                command = [sys.executable, "-c", LOAD.format(name=name), str(path), state]
                runs = [
                    [float(n) for n in subprocess.check_output(command, text=True).split()]
                    for _ in range(options.loads)
                ]
                wall, used = (statistics.median(times) for times in zip(*runs))
                print(f"  {state} page cache: {wall:.1f} ms, of the processor {used:.1f} ms")


if __name__ == "__main__":
    main()
