"""The stub and the list of operators are what the table says, and parse."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import weft
from weft import _C

ROOT = Path(__file__).resolve().parent.parent


def test_written_files_are_current() -> None:
    command = [sys.executable, ROOT / "tools/make_stubs.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + "Hint: run tools/make_stubs.py\n" + done.stderr


def test_every_public_name_is_listed_with_its_file() -> None:
    """docs/names.md has the names of `dir`, existing files, and a sentence for each."""
    page = (ROOT / "docs/names.md").read_text()
    for home in ("", ".Tensor", ".nn.functional", ".linalg", ".fft", ".special"):
        home = "weft" + home
        listed = re.search(rf"## {re.escape(home)}\n\n(.*?)\n\n", page + "\n\n", re.DOTALL)
        assert listed, home
        lines = [re.fullmatch(r"- `(\w+)` \((\S+)\): \S.*", s) for s in listed[1].split("\n")]
        assert all(lines), [s for s, m in zip(listed[1].split("\n"), lines) if not m]
        assert all((ROOT / m[2]).is_file() for m in lines)
        space = weft
        for part in home.split(".")[1:]:
            space = getattr(space, part)
        ours = [n for n, f in inspect.getmembers(space, callable) if inspect.isroutine(f)]
        wanted = {n for n in ours if not n.startswith("_")}
        assert wanted <= {m[1] for m in lines}, wanted - {m[1] for m in lines}
        assert len(wanted) > 20


def test_stub_parses_and_names_every_op() -> None:
    tree = ast.parse((ROOT / "weft/_C.pyi").read_text())
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    named = {r["public_name"] for r in _C._records() if r["function"]}
    wrapped = {n for n in named if getattr(weft, n) is not getattr(_C, n)}  # typed in Python
    assert named - wrapped <= functions and len(wrapped) < 10
