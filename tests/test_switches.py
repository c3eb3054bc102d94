"""Switches of the environment: without its fast way, a program computes the same."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "import json, weft\nfrom weft.nn import functional as F\nweft.manual_seed(3)\n"
CONV = """
x, w = weft.randn(2, 6, 40, 40, requires_grad=True), weft.randn(6, 1, 5, 5, requires_grad=True)
y = F.conv2d(x, w, padding=2, groups=6)
(y * y).sum().backward()
out = [y.sum(0)[:, ::7].tolist(), w.grad.tolist(), x.grad[0, 0, ::5].tolist()]
for dtype in (weft.float32, weft.float64):
    x, w = weft.randn(2, 3, 30, 37, dtype=dtype), weft.randn(5, 3, 3, 4, dtype=dtype)
    x.requires_grad_()
    y = F.conv2d(x, w, stride=(1, 2), padding=2)
    y.sum().backward()
    out += [y.sum(1)[:, ::5].tolist(), x.grad[:, 0].tolist()]
"""
PRODUCTS = """
out = []
for dtype in (weft.float32, weft.float64):
    for n, k, m in ((1, 64, 64), (7, 33, 5), (70, 130, 90), (300, 64, 17)):
        a, b = weft.randn(n, k, dtype=dtype), weft.randn(k, m, dtype=dtype)
        out += [(a @ b)[:, 0].tolist(), (b.t() @ a.t()).sum(0).tolist()]
"""
CHAIN = """
x = weft.randn(300, 300)
y = ((x + 1) * 2 - x.t()).exp().sigmoid() + (x * x).sqrt()
out = [y.sum(1).tolist(), weft.relu(-(y - 1) * 3).sum(0).tolist()]
"""
LOOP = """
kept = []
def one(x):
    kept.append(bool(weft._C._mode() & 4))
    return (x.tanh() * 3).sum()
w = weft.randn(5)
out = [t.item() for t in weft.autobatch(one)([w, w + 1])]
"""
SWITCHES = [
    *[(way, CONV) for way in ("WEFT_CONV=columns", "WEFT_CPU=baseline", "WEFT_CPU=avx2")],
    *[(f"WEFT_GEMM={way}", PRODUCTS) for way in ("simple", "packed", "panels", "blas")],
    ("WEFT_REUSE=0", CHAIN),
    ("WEFT_CACHE=0", CHAIN),
    ("WEFT_CPU=baseline", CHAIN),
    ("WEFT_AUTOBATCH=0", LOOP),
]


def run(program, setting=""):
    """What a process of its own prints as JSON."""
    name, _, value = setting.partition("=")
    env = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=env | ({name: value} if name else {}),
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def flat(values):
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


@pytest.fixture(scope="module")
def chosen():
    """What each program computes with every fast way."""
    return {p: run(BEGIN + p + "print(json.dumps(out))") for p in (CONV, PRODUCTS, CHAIN, LOOP)}


@pytest.mark.parametrize(("setting", "program"), SWITCHES, ids=[s for s, _ in SWITCHES])
def test_off_and_on_agree(setting, program, chosen):
    found = flat(run(BEGIN + program + "print(json.dumps(out))", setting))
    wanted = flat(chosen[program])
    scale = max(map(abs, wanted))
    assert len(found) == len(wanted)
    assert max(abs(a - b) for a, b in zip(found, wanted)) <= 1e-5 * scale


def test_autobatch_is_the_loop_if_it_is_switched_off():
    program = BEGIN + LOOP + "print(json.dumps(kept))"
    assert run(program) == [True, True]
    assert run(program, "WEFT_AUTOBATCH=0") == [False, False]


def test_every_variable_is_documented():
    told = (ROOT / "CONTRIBUTING.md").read_text()
    read = set()
    for folder in ("src", "weft"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".cpp", ".h", ".py"):
                read |= set(re.findall(r'(?:getenv\(|environ\S*)"(WEFT_\w+)"', path.read_text()))
    assert len(read) > 5
    assert [name for name in sorted(read) if f"`{name}" not in told] == []
