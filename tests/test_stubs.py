"""The stub and the list of operators are what the table says, and parse."""

import ast
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import weft
from weft import _C

ROOT = Path(__file__).resolve().parent.parent


def test_written_files_are_current() -> None:
    command = [sys.executable, ROOT / "tools/make_stubs.py", "--check"]
    # A script finds what lies beside it, also where the environment says otherwise.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stdout + "Hint: run tools/make_stubs.py\n" + done.stderr


PAGE = (ROOT / "docs/names.md").read_text()
SECTIONS = dict(re.findall(r"## weft\.?(\S*)\n\n(.*?)\n(?=\n|$)", PAGE, re.DOTALL))


@pytest.mark.parametrize("home", SECTIONS)
def test_every_public_name_is_listed_with_its_file(home) -> None:
    """docs/names.md has the names of `dir`, existing files, and a sentence for each; `newaxis`,
    which is None, has neither."""
    lines = [re.fullmatch(r"- `(\w+)` \((\S+)\): \S.*", s) for s in SECTIONS[home].split("\n")]
    assert all(lines), [s for s, m in zip(SECTIONS[home].split("\n"), lines) if not m]
    assert not [m[2] for m in lines if not (ROOT / m[2]).is_file()]
    space = weft.Tensor if home == "Tensor" else importlib.import_module(f"weft.{home}".rstrip("."))
    ours = [n for n, f in inspect.getmembers(space, callable) if inspect.isroutine(f)]
    wanted = {n for n in getattr(space, "__all__", ours) if not n.startswith("_")}
    missing = {n: getattr(space, n) for n in wanted - {m[1] for m in lines}}
    things = {n for n, f in missing.items() if not isinstance(f, types.ModuleType | None)}
    assert not {n for n in things if module_of(missing[n]) == "weft"}


def module_of(thing: object) -> str:
    return (getattr(thing, "__module__", None) or "weft").split(".")[0]


def test_layers_and_optimizers_are_listed() -> None:
    for home, name in [("nn", "Linear"), ("optim", "Adam"), ("optim.lr_scheduler", "StepLR"),
                       ("utils.data", "DataLoader"), ("func", "vmap")]:  # fmt: skip
        assert f"- `{name}` (weft/{home.split('.')[0]}" in SECTIONS[home]


def test_no_namespace_is_forgotten() -> None:
    """What a submodule offers in `__all__` is listed there or where users find it."""
    spaces = [importlib.import_module(f"weft.{h}".rstrip(".")) for h in SECTIONS if h != "Tensor"]
    for home in ("nn", "optim", "autograd", "utils", "distributions", "nn.utils"):
        for info in pkgutil.iter_modules(importlib.import_module(f"weft.{home}").__path__):
            if info.name.startswith("_"):
                continue
            module = importlib.import_module(f"weft.{home}.{info.name}")
            for name in getattr(module, "__all__", []):
                thing = getattr(module, name)
                assert any(getattr(space, name, None) is thing for space in spaces), (module, name)


def test_stub_parses_and_names_every_op() -> None:
    tree = ast.parse((ROOT / "weft/_C.pyi").read_text())
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    named = {r["public_name"] for r in _C._records() if r["function"]}
    wrapped = {n for n in named if getattr(weft, n) is not getattr(_C, n)}  # typed in Python
    assert named - wrapped <= functions and len(wrapped) < 10
