"""`weft check` tells what is missing, by line, and nothing else."""

import json
import re
import textwrap

import pytest

from weft.__main__ import main

# Each line with a comment `missing: NAME` or `optional: NAME` is told so, and no other line.
PROGRAMS = {
    "imports": """
        import os, numpy as np
        import torch, torch.nn as nn, torch.utils.data
        import torch.no_such  # missing: torch.no_such
        import torch.nn.no_such as x  # missing: torch.nn.no_such
        from torch.nn import Linear, Lienar  # missing: torch.nn.Lienar
        from torch.nope.deep import thing  # missing: torch.nope
        from torch import nn, see_not  # missing: torch.see_not
        from .local import anything
        from torch.nn import *
        import torch.see  # missing: torch.see
        """,
    "torchvision": """
        import torchvision, torchvision.models as models
        import torchvision.no_such  # missing: torchvision.no_such
        from torchvision import transforms as T, datasets
        from torchvision.models import resnet18, resnet19  # missing: torchvision.models.resnet19
        from torchvision.transforms.v2 import functional, Resize
        T.Compose([T.ToTensor(), T.Resiz(3)])  # missing: torchvision.transforms.Resiz
        torchvision.ops.nms; torchvision.ops.nmss  # missing: torchvision.ops.nmss
        import torch.vision  # missing: torch.vision
        """,
    "attributes and aliases": """
        import torch as th
        import torch.nn.functional as F
        from torch import nn as layers
        G = th.nn.functional
        H, K = th.nn, th.wrongg  # missing: torch.wrongg
        F.relu; F.reluu  # missing: torch.nn.functional.reluu
        G.gelu; G.geluu(1).x  # missing: torch.nn.functional.geluu
        layers.Conv2D()  # missing: torch.nn.Conv2D
        th.Tensor.add; th.Tensor.foo  # missing: torch.Tensor.foo
        th.float32.itemsize; th.cuda.is_available()
        th.ops.mine.f(1); th.backends.cudnn.benchmark = True
        th.backends.nope.benchmark = True  # missing: torch.backends.nope
        th.mine = 1
        th.mine
        @th.no_gradd()  # missing: torch.no_gradd
        def f(x=th.onse(2)):  # missing: torch.onse
            return [th.randnn(k) for k in x]  # missing: torch.randnn
        """,
    "names that stand for something else": """
        import torch
        def f(torch):
            return torch.anything
        def g():
            torch = object()
            torch.anything
            return lambda torch: torch.anything
        def h():
            global module
            import torch.nn as module
            [torch.anything for torch in []]
        def k():
            return module.Lineer  # missing: torch.nn.Lineer
        try:
            from torch import fft
        except ImportError:
            fft = None
        fft.anything
        class C:
            torch = 1
            def f(self):
                return torch.wrongg  # missing: torch.wrongg
        """,
    "what is asked for": """
        import torch
        try:
            import torch.gone  # optional: torch.gone
        except ImportError:
            from torch import also_gone  # missing: torch.also_gone
        try:
            from torch import nn
        except (ImportError, AttributeError):
            from torch import old_nn as nn  # optional: torch.old_nn
        try:
            torch.not_caught  # missing: torch.not_caught
        except ValueError:
            pass
        if hasattr(torch, "maybe") and torch.maybe():  # optional: torch.maybe
            torch.maybe()  # optional: torch.maybe
            torch.other  # missing: torch.other
        y = torch.maybe2() if hasattr(torch, "maybe2") else 0  # optional: torch.maybe2
        getattr(torch, "nope3", None)  # optional: torch.nope3
        getattr(torch, "nope4")  # missing: torch.nope4
        if torch.cuda.is_available():
            torch.cuda.zzz()  # optional: torch.cuda.zzz
        else:
            torch.zzz  # missing: torch.zzz
        if torch.__version__ < "1.0":
            torch.ancient()  # optional: torch.ancient
        """,
    "annotations that are never computed": """
        from __future__ import annotations
        import torch
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from torch import Quux  # optional: torch.Quux
        def f(x: torch.Qa) -> int:  # optional: torch.Qa
            return x
        z: torch.Qb = torch.qc  # missing: torch.qc optional: torch.Qb
        """,
    "annotations that are": """
        import torch
        def f(x: torch.Qa) -> torch.Tensor:  # missing: torch.Qa
            return x
        """,
    "tensors": """
        import torch
        def f(x: torch.Tensor, y, n: int):
            x.add(1).foo  # missing: torch.Tensor.foo
            x.T.bar()  # missing: torch.Tensor.bar
            y.anything
            w = torch.zeros(2) * 2
            w.wrong; w.itm()  # missing: torch.Tensor.itm missing: torch.Tensor.wrong
            (torch.ones(2)[0] + x).qux  # missing: torch.Tensor.qux
            v = x
            v = y
            v.anything
            x.mine = 1
            x.mine
            torch.max(x, 0).values
            return x.shape, x.grad.anything, x.tolist().anything
        """,
    "modules": """
        import torch
        import torch.nn as nn
        class Net(nn.Module):
            limit = 3
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(2, 2)
                self.register_buffer("buf", torch.zeros(2))
            def forward(self, x):
                self.helper(); self.a(x); self.buf; self.training; self.limit
                self.register_hok(1)  # missing: self.register_hok (of torch.nn.Module)
                return [self.b for k in x]  # missing: self.b (of torch.nn.Module)
            def helper(self):
                pass
            @staticmethod
            def s(self):
                self.anything
        class Sub(Net):
            def go(self):
                return self.a, self.c  # missing: self.c (of torch.nn.Module)
        class Own(nn.Linear):
            def go(self):
                self.in_features
                return self.wieght  # missing: self.wieght (of torch.nn.Linear)
        class Forwards(nn.Module):
            def __getattr__(self, name):
                return 1
            def go(self):
                return self.anything
        class Mixed(nn.Module, object):
            def go(self):
                return self.anything
        net = Net()
        net.set_elsewhere = 1
        class Uses(nn.Module):
            def go(self):
                return self.set_elsewhere
        """,
}  # fmt: skip
TOLD = re.compile(r"(missing|optional): (\S+(?: \(of \S+\))?)")
LINE = re.compile(r"(\S+:\d+): (\S+(?: \(of \S+\))?)(: optional.*|\. Hint.*)?")


def told(line):
    """Of a line of output: where, whether it is missing or optional, and what."""
    place, name, rest = LINE.fullmatch(line).groups()
    how = "optional" if (rest or "").startswith(": optional") else "missing"
    return place, how, name.rstrip(".")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    lines = textwrap.dedent(PROGRAMS[name]).splitlines()
    (tmp_path / "program.py").write_text("\n".join(lines))
    wanted = {
        (f"program.py:{k}", how, what)
        for k, line in enumerate(lines, 1)
        for how, what in TOLD.findall(line.partition("  # ")[2])
    }
    status = main(["check", "program.py"])
    *out, summary = capsys.readouterr().out.splitlines()
    assert {told(line) for line in out} == wanted
    assert status == any(how == "missing" for _, how, _ in wanted)
    assert summary.startswith("1 file: ")


def test_the_nearest_name_is_told(tmp_path, capsys):
    (tmp_path / "a.py").write_text("import torch\ntorch.nn.Lienar\ntorch.ones(2).vieww(1)\n")
    assert main(["check", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "torch.nn.Lienar. Hint: did you mean 'Linear'?" in out
    assert "torch.Tensor.vieww. Hint: did you mean 'view'?" in out
    assert out.endswith("1 file: 2 names missing, at 2 places in 1\n")


def test_a_folder_is_read_without_environments_and_hidden_folders(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for path in ("a.py", "sub/b.py", ".git/c.py", "env/d.py", "__pycache__/e.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("import torch\ntorch.nope\n")
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert main(["check", "."]) == 1
    places = [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()[:-1]]
    assert places == ["a.py:2", "sub/b.py:2"]


def test_a_notebook_is_read_by_cells(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = [
        ("markdown", ["torch.nope\n"]),
        ("code", ["%matplotlib inline\n", "!pip install torch\n", "import torch\n", "torch?"]),
        ("code", ["%%bash\n", "echo torch.nope"]),
        ("code", ["%%time\n", "for k in range(2):\n", "    !ls\n", "    torch.nope(k)\n"]),
        ("code", ["await torch.nope2"]),
    ]
    text = json.dumps({"cells": [{"cell_type": kind, "source": lines} for kind, lines in cells]})
    (tmp_path / "a.ipynb").write_text(text)
    assert main(["check", "a.ipynb"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert [line.split(". ")[0] for line in out[:-1]] == [
        "a.ipynb:cell 4:4: torch.nope", "a.ipynb:cell 5:1: torch.nope2",
    ]  # fmt: skip


def test_a_package_is_found_and_not_run(tmp_path, monkeypatch, capsys):
    package = tmp_path / "some_package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('it was run')\n")
    (package / "inner" / "__init__.py").write_text("import torch\ntorch.nope\n")
    (tmp_path / "single.py").write_text("import torch\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["check", "some_package.inner"]) == 1
    assert main(["check", "some_package"]) == 1
    assert main(["check", "single"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 file: all of PyTorch's names are there"


@pytest.mark.parametrize(
    "text, said",
    [("def f(:\n", "bad.py:1: "), ("x = '\0'\n", "bad.py"), ("if 1:\n  x\n y\n", ":3:")],
)
def test_a_file_that_is_no_python_is_told(tmp_path, capsys, text, said):
    (tmp_path / "bad.py").write_text(text)
    assert main(["check", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err


def test_what_is_not_there_is_refused(capsys):
    assert main(["check", "no_such_thing"]) == 2
    assert "expected a file, a folder or a package, got 'no_such_thing'" in capsys.readouterr().err
