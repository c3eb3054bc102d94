"""The process ends while daemon threads compute: quietly, with status 0.

Once it went wrong in two ways: a thread that came back from a long kernel was unwound through
frames that may not throw (abort), and one in Python code that ours called released objects without
the lock (segmentation fault).
"""

import subprocess
import sys

import pytest

import weft

AT_ONCE = 4

START = """
import threading, time
import weft

def forever(step):
    started = threading.Event()
    def run():
        while True:
            step()
            started.set()
    threading.Thread(target=run, daemon=True).start()
    started.wait(60)
"""

STATES = {
    "a large kernel": """
x = weft.randn(1200, 1200)
forever(lambda: x.exp() @ x)
""",
    "a large backward pass": """
x = weft.randn(900, 900, requires_grad=True)
forever(lambda: (x.exp() @ x).sum().backward())
""",
    "large kernels of two threads": """
x = weft.randn(1500, 1500)
forever(lambda: x.exp())
forever(lambda: x.sort())
""",
    "small ops": """
x = weft.randn(4, requires_grad=True)
forever(lambda: (x * x).sum().backward())
""",
    "hooks": """
x = weft.randn(4, requires_grad=True)
def step():
    y = x * 2
    y.register_hook(lambda g: sum([g] * 30))
    y.sum().backward()
forever(step)
""",
    "a custom function": """
class F(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * sum(range(100))
    @staticmethod
    def backward(ctx, g):
        return g * sum(range(100))
x = weft.randn(4, requires_grad=True)
forever(lambda: F.apply(x).sum().backward())
""",
    "autobatch": """
w = weft.randn(8, 8)
def f(x):
    for _ in range(6):
        x = (x @ w).tanh()
        if x.sum() > 0:
            x = x + 1
    return x
batched = weft.autobatch(f)
examples = [weft.randn(8) for _ in range(16)]
forever(lambda: batched(examples))
""",
    "autobatch, in fibers": """
w = weft.randn(8, 8)
def f(x):
    for _ in range(3):
        x = (x @ w).tanh()
        if x.sum() > 0:
            x = x + sum(range(300)) * 1e-9
    return x
batched = weft.autobatch(f, adaptive=False)
examples = [weft.randn(8) for _ in range(16)]
forever(lambda: batched(examples))
""",
    "modules": """
model = weft.nn.Sequential(weft.nn.Linear(8, 8), weft.nn.Tanh(), weft.nn.Linear(8, 8))
optimizer = weft.optim.Adam(model.parameters())
def step():
    optimizer.zero_grad()
    model(weft.randn(3, 8)).sum().backward()
    optimizer.step()
forever(step)
""",
}

# The narrow copies of weights were released where the thread's variables are, without the lock.
AUTOCAST = """
def cast():
    weft.amp.autocast("cpu", dtype=weft.bfloat16).__enter__()
    weight = weft.nn.Parameter(weft.ones(64, 64))
    weight.attribute = ["a"]
    assert (weft.ones(64, 64) @ weight).dtype == weft.bfloat16
"""
STATES |= {
    "a scope of autocast that never ends": AUTOCAST + "cast()\n",
    "the same in a thread that has ended": AUTOCAST
    + """
for _ in range(4):
    thread = threading.Thread(target=cast)
    thread.start()
    thread.join()
""",
}


@pytest.mark.parametrize("state", STATES)
def test_exits_quietly(state):
    program = START + STATES[state] + "time.sleep(0.05)\n"
    command = [sys.executable, "-X", "faulthandler", "-c", program]
    running = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=weft.__path__[0] + "/.."
        )
        for _ in range(AT_ONCE)
    ]
    ends = [(process.communicate(timeout=120)[0], process.returncode) for process in running]
    assert ends == [(b"", 0)] * AT_ONCE
