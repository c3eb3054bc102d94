"""Peak memory of training rows: what a process holds at most while it trains, over what it held
after a first small training step, which loads what is loaded late. Each library in a process of its
own, by the same counters of the system (resident pages, VmHWM over VmRSS in /proc/self/status), so
libraries' workspaces and caches count.
"""

import subprocess
import sys
from pathlib import Path

import attention
import cnn
import gpt
import harness
import layer_norm_softmax
import lstm
import mlp
import tree_lstm

STEPS = 5
PROGRAM = """
import importlib, re, sys
sys.path.insert(0, {folder!r})
lib, script = importlib.import_module({lib!r}), importlib.import_module({script!r})
lib.set_num_threads(1)
lib.manual_seed(0)

def resident(key):
    return int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1])

layer = lib.nn.Linear(2, 2)
optimizer = lib.optim.AdamW(layer.parameters())
layer(lib.ones(1, 2)).sum().backward()
optimizer.step()
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before = resident("VmRSS")
step = script.ROWS[{index}].make(lib)
for _ in range({steps}):
    step()
print((resident("VmHWM") - before) / 1024)
"""


def peak(script, index):
    """`Fact.value` of one row of a script: megabytes."""

    def megabytes(name):
        program = PROGRAM.format(
            folder=str(Path(__file__).parent), lib=name.split(":")[0], script=script.__name__,
            index=index, steps=STEPS,
        )  # fmt: skip
        return float(subprocess.check_output([sys.executable, "-c", program]))

    return megabytes


ROWS = [
    harness.Fact("memory: " + script.ROWS[index].name, peak(script, index), "MB", at_most_peer=True)
    for script, index in (
        (mlp, -1), (tree_lstm, 0), (gpt, 0), (cnn, 0), (layer_norm_softmax, 0), (attention, 0),
        (lstm, 0),
    )
]  # fmt: skip

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
