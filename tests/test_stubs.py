"""The stub and the list of operators are what the table says, and parse."""

import ast
import subprocess
import sys
from pathlib import Path

from weft import _C

ROOT = Path(__file__).resolve().parent.parent


def test_written_files_are_current() -> None:
    command = [sys.executable, ROOT / "tools/make_stubs.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + "Hint: run tools/make_stubs.py\n" + done.stderr


def test_stub_parses_and_names_every_op() -> None:
    tree = ast.parse((ROOT / "weft/_C.pyi").read_text())
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    assert {r["public_name"] for r in _C._records() if r["function"]} <= functions
