"""`weft run --compare`: two runs of a program, and what differs first.

A program cannot ask which library it runs on without parting from itself there: `HELPER`, which
lies where installed packages would, makes weft's run another.
"""

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import weft
from weft.running.differences import Measure, Tolerance, same_line, same_order
from weft.running.rewriting import Files, rewrite
from weft.running.wire import Leaf

ROOT = os.path.dirname(os.path.dirname(weft.__file__))
HELPER = """
import torch
IS_WEFT = "weft" in torch.__file__
def in_weft(change, *args):
    if IS_WEFT:
        change(*args)
def fail():
    raise RuntimeError("failed in weft")
def scaled(name, by, owner=torch.nn.functional):
    real = getattr(owner, name)
    in_weft(setattr, owner, name, lambda *a, **k: real(*a, **k) * by)
"""


def compare(folder, text, *options, words=("script.py",), **changes):
    """Its exit status and its output."""
    (folder / "libs").mkdir(exist_ok=True)
    (folder / "libs" / "helper.py").write_text(HELPER)
    (folder / "program").mkdir(exist_ok=True)
    (folder / "program" / "script.py").write_text(textwrap.dedent(text))
    clean = {k: v for k, v in os.environ.items() if k not in ("WEFT_AS_TORCH", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", "--compare", *options, *words],
        cwd=folder / "program", capture_output=True, text=True, timeout=300,
        env=clean | {"PYTHONPATH": os.pathsep.join([ROOT, str(folder / "libs")])} | changes,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


TRAINING = """
import sys, time, timeit
from collections import namedtuple
import torch, torch.nn as nn, torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 3)
        self.bn, self.d = nn.BatchNorm1d(16), nn.Dropout(0.2)
    def forward(self, x):
        return self.b(self.d(F.relu(self.bn(self.a(x)))))

began = time.perf_counter()
model, Pair = Net(), namedtuple("Pair", "x y")
own = nn.Parameter(torch.Tensor(3))       # whatever memory holds
nn.init.ones_(own)
optimizer = torch.optim.Adam([*model.parameters(), own], lr=1e-2)
X, y = torch.randn(60, 8), torch.randint(0, 3, (60,))
data = torch.utils.data.TensorDataset(X, y)
for x_batch, y_batch in torch.utils.data.DataLoader(data, 20, shuffle=True):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x_batch) * own, y_batch)
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}", torch.__version__ > "2.0")
x: torch.Tensor = torch.ones(2)
x += 3
pair = Pair(x, {"first": x[0]})
match pair:
    case Pair(x=torch.Tensor() as t, y=_) if t.sum() > 0:
        print("matched", [float(v) for v in t if v > 1], torch.empty(2, 2).shape)
try:
    x.view(7)
except RuntimeError:
    print("caught")
print(torch.vmap(lambda row: row.sum() * 2)(torch.ones(3, 4)))
print("took", time.perf_counter() - began, timeit.default_timer() > began, object())
sys.exit(4)
"""


def test_a_program_that_agrees(tmp_path, torch):
    status, out = compare(tmp_path, TRAINING)
    lines = out.splitlines()
    assert status == 0, out
    assert [line.split()[0] for line in lines[:3]] == ["loss"] * 3, out
    assert "matched [4.0, 4.0]" in lines[3] and lines[4] == "caught"
    assert lines[-1].startswith("the same: ") and lines[-1].endswith("; both end with 4")
    assert int(lines[-1].split()[2]) > 90


def test_scripts_are_read_from_the_sources_and_storages_stay_resizable(tmp_path, torch):
    """weft's `jit.script` refused what ran rewritten, and PyTorch to resize what had been told."""
    status, out = compare(tmp_path, """
        import torch
        def doubled(x):
            return x * 2
        @torch.jit.script
        def factorial(n):
            z = torch.ones([1], dtype=torch.int64)
            for i in range(int(n)):
                z = z * (i + 1)
            return doubled(z)
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 2)
            def forward(self, x):
                return doubled(self.layer(x)) if x.sum() > 0 else x
        print(factorial(torch.tensor(4)), torch.jit.script(Net())(torch.ones(1, 2)).shape)
        x = torch.ones(2)
        print(x.resize_(5).zero_(), x.new().resize_as_(x).zero_())
    """)  # fmt: skip
    assert status == 0 and "tensor([48]) torch.Size([1, 2])" in out, out
    assert "the same: " in out and "but for" not in out, out


DIFFERING = {
    "a function": ("""
        import helper, torch, torch.nn.functional as F
        helper.scaled("gelu", 1.01)
        def act(x):
            return F.gelu(x)
        h = torch.linspace(-1, 1, 4).reshape(2, 2)
        y = act(h @ h)
        print("not reached")
     """, ["script.py:5: gelu, differs", "return F.gelu(x)", "PyTorch: float32 [2, 2]: [[0.7",
           "largest difference:", "at [0, 0]; 2 of 4 elements differ"]),
    "a gradient": ("""
        import helper, torch
        model = torch.nn.Linear(3, 2)
        helper.in_weft(model.bias.register_hook, lambda g: g * 2)
        model(torch.ones(1, 3)).sum().backward()
     """, ["script.py:5: the gradient of Linear.bias, differs", "[1., 1.]", "[2., 2.]"]),
    "a step": ("""
        import helper, torch
        x = torch.ones(2, requires_grad=True)
        sgd = torch.optim.SGD([x], 0.5)
        x.sum().backward()
        helper.in_weft(sgd.param_groups[0].update, {"lr": 0.25})
        sgd.step()
     """, ["script.py:7: leaf 1, differs", "[0.5, 0.5]", "[0.75, 0.75]"]),
    "a dtype": ("""
        import helper, torch
        x = torch.ones(2)[helper.IS_WEFT:].to((torch.float32, torch.float64)[helper.IS_WEFT])
     """, ["script.py:3: []: its shape, differs", "PyTorch: [2]", "weft:    [1]"]),
    "an order": ("""
        import helper, torch
        helper.in_weft(exec, "import torch; real = torch.Tensor.topk; "
            "torch.Tensor.topk = lambda x, k: (real(x, k)[0], real(x, k)[1].flip(0))", {})
        values, indices = torch.tensor([3.0, 1.0, 3.0, 2.0]).topk(3)
     """, ["script.py:5: topk, [1], differs", "weft:    int64 [3]: [3, "]),
    "a branch": ("""
        import helper, torch
        x = torch.ones(2)
        if x.sum() > 0 and helper.IS_WEFT:
            x = x + 1
     """, ["script.py:4: the runs part at this 'if'", "PyTorch: False", "weft:    True"]),
    "a loop": ("""
        import helper, torch
        for k in range(2 + helper.IS_WEFT):
            x = torch.ones(k)
        y = torch.zeros(1)
     """, ["the runs part", "PyTorch: goes on to zeros at line 5", "weft:    goes on to ones"]),
    "an error": ("""
        import helper, torch
        x = torch.ones(2)
        if x.sum() > 0:
            y = helper.in_weft(helper.fail)
        z = x * 2
     """, ["script.py:5: the runs part", "PyTorch: goes on to * at line 6",
           "weft:    raises RuntimeError at line 5: failed in weft",
           "last branch in common: script.py:4, True"]),
    "an error that is caught": ("""
        import helper, torch
        try:
            x = torch.ones(2).reshape((2, 3)[helper.IS_WEFT])
        except RuntimeError:
            x = torch.zeros(2)
     """, ["the runs part", "weft:    catches RuntimeError at line 5"]),
    "its end": ("""
        import helper, os, torch
        x = torch.ones(2)
        helper.in_weft(os._exit, 3)
        x + 1
     """, ["the runs part", "weft:    is gone with status 3"]),
    "prints": ("""
        import helper, torch
        print("a", 1.00001 if helper else 0, torch.ones(1) * 2)
        print("b", 1 + helper.IS_WEFT)
     """, ["script.py:4: prints", "PyTorch: b 1", "weft:    b 2", "the same but for what is"]),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERING)
def test_what_differs_is_told(tmp_path, torch, name):
    text, told = DIFFERING[name]
    status, out = compare(tmp_path, text)
    assert status == 1, out
    assert [words for words in told if words not in out] == [], out
    assert "not reached" not in out


def test_each_run_has_the_working_folder_as_it_was(tmp_path, torch):
    """The second run found what the first had made. Where no layer may lie over the folder, it
    does still."""
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "log.txt").write_text("old\n")
    layer = subprocess.run(
        [sys.executable, "-c", LAYERED], cwd=tmp_path / "program", capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": ROOT},
    )  # fmt: skip
    status, out = compare(tmp_path, """
        import os, shutil, torch
        if not os.path.exists("out"):
            os.mkdir("out")
        torch.save(torch.ones(2), "out/best.pt")
        if os.path.exists("out/best.pt"):
            print(torch.load("out/best.pt"), os.listdir("out"))
        with open("log.txt", "a") as log:
            log.write(os.path.abspath("log.txt"))
        print(open("log.txt").read())
        os.remove("log.txt")
    """)  # fmt: skip
    left = sorted(os.listdir(tmp_path / "program"))
    if layer.stdout.split() == ["1", "new"]:
        assert status == 0 and "the same: " in out, out
        assert left == ["log.txt", "script.py"]
        assert (tmp_path / "program" / "log.txt").read_text() == "old\n"
    else:
        assert "out" in left, layer.stderr


LAYERED = """
import os
from weft.running.apart import Layer
layer = Layer()
child = os.fork()
if child == 0:
    layer.enter()
    open("new", "w").close()
    os._exit(0)
os.waitpid(child, 0)
print(1, "" if os.path.exists("new") else "new")
if os.path.exists("new"):
    os.remove("new")
layer.close()
"""


def test_gradcheck_is_not_looked_into(tmp_path, torch):
    """Imported from its module, it was."""
    status, out = compare(tmp_path, """
        import torch
        from torch.autograd.gradcheck import gradcheck
        x = torch.ones(2, dtype=torch.double, requires_grad=True)
        print(gradcheck(lambda a: torch.sin(a) * 2, x), torch.autograd.gradcheck(torch.cos, x))
    """)  # fmt: skip
    assert status == 0 and "True True" in out, out


def test_of_equal_values_either_may_come_first(tmp_path, torch):
    """Sorted lengths, which tie in hundreds of programs, parted the runs; PyTorch's own sorting,
    as `pack_padded_sequence` does it, too."""
    status, out = compare(tmp_path, """
        import torch
        from torch.nn.utils.rnn import pack_padded_sequence
        lengths, rows = torch.randint(1, 6, (40,)), torch.randn(40, 6, 2, requires_grad=True)
        ordered, order = lengths.sort(descending=True)
        pack_padded_sequence(rows[order], ordered, batch_first=True)
        pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=False)
        (rows[torch.argsort(lengths)] * rows.detach()).sum().backward()
        values, indices = torch.topk(input=rows.relu(), k=4, dim=0)
        values.sum().backward()
        print(indices, rows.relu().kthvalue(2, dim=1), lengths.median(0))
        @torch.jit.script
        def scripted(x):
            return torch.sort(x, descending=True)[0], torch.argsort(x), x.sort(dim=0)[0]
        print(scripted(torch.rand(5)), torch.sort(rows, 1, True)[1].sum(), sorted([2, 1]))
    """)  # fmt: skip
    assert status == 0 and "the same: " in out, out


ORDERS = [  # a tensor, two orders, and whether either may be what `topk` gives
    ([1.0, 1.0, 2.0], [2, 0, 1], [2, 1, 0], True), ([1.0, 1.0, 2.0], [2, 0], [2, 1], True),
    ([1.0, 1.0 + 1e-7, 2.0], [0, 1], [1, 0], True), ([1.0, 1.1, 2.0], [0, 1], [1, 0], False),
    ([1.0, 1.0, 2.0], [0, 1], [0, 0], False), ([1.0, 1.0, 2.0], [0, 1], [0, 3], False),
    ([[1.0, 2.0], [1.0, 2.0]], [[0, 1]], [[1, 0]], True),
    ([[1.0, 2.0], [1.0, 2.0]], [0, 1], [1, 1], True), ([[1.0, 2.0]], [[0, 1]], [[1, 0]], False),
    ([float("nan"), float("nan")], [0, 1], [1, 0], True),
]  # fmt: skip


@pytest.mark.parametrize(("values", "theirs", "ours", "same"), ORDERS)
def test_orders(values, theirs, ours, same):
    def measured(a, b):
        a, b = np.array(a), np.array(b)
        dtype = "float32" if a.dtype.kind == "f" else "int64"
        a, b = a.astype(dtype), b.astype(dtype)
        leaf = Leaf("", dtype, a.shape, False, a.dtype.str, a.nbytes, 0.0)
        measure = Measure(leaf, Tolerance.of(dtype), 0.0, keeps=True)
        measure.add(a.tobytes(), b.tobytes())
        return measure

    assert same_order(measured(values, values), measured(theirs, ours)) is same


def test_other_draws_are_taken_over(tmp_path, torch):
    status, out = compare(tmp_path, """
        import helper, torch
        helper.in_weft(torch.rand, 3)
        x = torch.randn(5)
        model = torch.nn.Linear(3, 2)
        print(x, model.weight)
    """)  # fmt: skip
    assert status == 0, out
    assert "weft draws other random numbers, and took PyTorch's, at:\n  script.py:4: 1 ×" in out
    assert "script.py:5" not in out


def test_seeds_tolerances_modules_and_errors_in_both(tmp_path, torch):
    text = """
        import helper, torch
        helper.scaled("relu", 1.01)
        print(torch.nn.functional.relu(torch.rand(1) * 2), torch.initial_seed())
        torch.ones(3) @ torch.ones(5)
    """
    words = ["-m", "script", "--compare"]
    status, out = compare(tmp_path, text, "--seed=7", "--rtol", "0.1", words=words)
    assert status == 1 and out.splitlines()[0].endswith(" 7"), out  # the prints are not so lenient
    assert out.splitlines()[-1].endswith("both end with RuntimeError at line 5"), out


UNCOMPARED = {
    "no file": (["missing.py"], "expected a file, got 'missing.py'"),
    "no program": ([], "expected a script, or -m and a module, got none"),
    "code": (["-c", "1"], "expected a script, or -m and a module, got -c"),
    "isolated": (["-I", "script.py"], "install_as_torch() in the program"),
    "no module": (["-m"], "expected a module after -m, got none"),
}


@pytest.mark.parametrize("name", UNCOMPARED)
def test_what_cannot_be_compared(tmp_path, torch, name):
    words, said = UNCOMPARED[name]
    status, out = compare(tmp_path, "", words=words)
    assert status == 2 and said in out, out


def test_without_pytorch_it_says_so(tmp_path, monkeypatch, capsys):
    from weft.running import compare_command

    monkeypatch.setattr(sys, "path", [ROOT])
    assert compare_command.main(["script.py"]) == 2
    assert "Hint: pip install torch" in capsys.readouterr().err


LINES = [
    ("loss 0.1234", "loss 0.1235", True), ("loss 0.1234", "loss 0.1244", False), ("3", "4", False),
    ("tensor([1.])", "tensor([ 1.])", True), ("<a at 0x7f00aa>", "<a at 0x7f11bb>", True),
    ("1e-05", "1.1e-05", True), ("a", "b", False), ("nan", "nan", True), ("1 2", "1", False),
    ("1000.5", "1000.51", True), ("-0.0000", "0.0000", True),
]  # fmt: skip


@pytest.mark.parametrize(("theirs", "ours", "same"), LINES)
def test_printed_lines(theirs, ours, same):
    assert same_line(theirs, ours) is same


VALUES = [  # the index of the one element that differs; None: none does
    ("float32", [1.0, 100.0], [1.0, 100.001], None), ("float32", [1.0, 2.0], [1.0, 2.1], 1),
    ("float64", [1.0, 2.0], [1.0, 2.0 + 1e-6], 1), ("float32", [np.nan, 1], [np.nan, 1], None),
    ("float32", [np.nan, 1], [0, 1], 0), ("float32", [np.inf, 1], [-np.inf, 1], 0),
    ("int64", [2**62, 1], [2**62 + 1, 1], 0), ("bool", [True, False], [True, True], 1),
    ("complex64", [1j, 1], [1j, 1 + 1e-6j], None), ("complex64", [1j, 1], [2j, 1], 0),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "theirs", "ours", "at"), VALUES)
def test_values_differ_beyond_rounding(dtype, theirs, ours, at):
    a, b = np.array(theirs, dtype), np.array(ours, dtype)
    leaf = Leaf("", dtype, (2,), False, a.dtype.str, a.nbytes, 0.0)
    measure = Measure(leaf, Tolerance.of(dtype), 0.0)
    half = a.dtype.itemsize
    for part in (slice(0, half), slice(half, None)):
        measure.add(a.tobytes()[part], b.tobytes()[part])
    assert measure.same_bits == (a.tobytes() == b.tobytes())
    assert measure.beyond == (at is not None)
    if at is not None:
        assert measure.index() == f"[{at}]" and measure.largest > 0


SOURCES = [
    "x.sort(); torch.topk(input=x, **k); f().median(*a); super().mode(0)",
    "def f(x: 'int', *, y=1 + 2, **k) -> List[int]:\n    '''said'''\n    return x[0] + y",
    "from __future__ import annotations\nx: List[int] = g()\nx[0] += 1; x.y -= 2; x *= 3",
    "async def f():\n    async for x in g(): await h(x)\n    return [a async for a in b() if a]",
    "match p:\n    case -1 | 1+2j: f()\n    case A(x=3) if x: pass\n    case [a, *_]: g(a)",
    "class A(B(), metaclass=M):\n    def f(self): return super().f(*a(), **b()).__c",
    "while x: \n    x = not x if y else -x\nelse: f'{g(x)!r:>{w}}'",
    "try: f()\nexcept* E: g()\nfinally: del x[0]",
    "@d(1)\ndef f(): yield from (a + b for a in c if a for b in d)\nif (n := f()): pass",
    "with open(f()) as g, h() as (a, b[0]): lambda: x @ y",
]


@pytest.mark.parametrize("source", SOURCES)
def test_rewritten_sources_compile_with_their_lines(source):
    sites = []
    code = rewrite(source.encode(), "file.py", sites)
    assert sites and {site.line for site in sites} <= set(range(1, source.count("\n") + 2))
    assert code.co_filename == "file.py" and code.co_names


def test_which_files_are_the_users(tmp_path):
    files = Files(str(tmp_path))
    assert str(tmp_path / "a" / "b.py") in files
    assert str(tmp_path / "v" / "site-packages" / "b.py") not in files
    assert os.__file__ not in files and weft.__file__ not in files


def page():
    """docs/run.md: its blocks, each with what follows its opening fence."""
    text = open(os.path.join(ROOT, "docs", "run.md")).read()
    return re.findall(r"^```(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE)


def printed_after(words):
    """A program of the page, and the block behind it."""
    blocks = page()
    k = next(k for k, (head, _) in enumerate(blocks) if head == words)
    return blocks[k][1], blocks[k + 1][1].splitlines()


def test_the_page_shows_what_is_compared(tmp_path, torch):
    program, shown = printed_after("python compared")
    (tmp_path / "libs").mkdir()
    mine = "import helper, torch.nn.functional as F\nexact = F.gelu\n"
    mine += 'helper.in_weft(setattr, F, "gelu", lambda x: exact(x, approximate="tanh"))\n'
    (tmp_path / "libs" / "mine.py").write_text(mine)
    status, out = compare(tmp_path, program)
    assert status == 1
    lines = [line.replace("script.py", "gelu.py") for line in out.splitlines()]
    assert len(lines) == len(shown)
    assert [(a, b) for a, b in zip(shown, lines) if not same_line(a, b)] == []


def test_the_page_shows_what_is_checked(tmp_path):
    program, shown = printed_after("python no-run")
    (tmp_path / "old.py").write_text(program)
    words = [sys.executable, "-m", "weft", "check", "old.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": ROOT})  # fmt: skip
    assert done.returncode == 1 and done.stdout.splitlines() == shown


def test_the_page_installs_weft_as_torch():
    program = next(text for head, text in page() if head == "python")
    said = re.search(r"# (.*)$", program.strip())[1]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == said, done.stderr
