"""Every example runs at a small size, in a fresh interpreter, and does what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name, *arguments, cwd):
    """The standard output of one example."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_listops_learns(tmp_path):
    picture = tmp_path / "curves" / "loss.png"
    output = run("listops.py", "--trees", 2000, "--dim", 32, "--out", picture, cwd=tmp_path)
    accuracy, count, majority = map(
        float, re.search(r"accuracy ([\d.]+) on (\d+) .*class ([\d.]+)", output).groups()
    )
    assert 80 < count <= 100
    assert accuracy > majority + 0.05
    pytest.importorskip("matplotlib")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_listops_repeats_itself(tmp_path):
    arguments = ["--trees", 64, "--dim", 8, "--epochs", 2, "--depth", 2]
    first = run("listops.py", *arguments, cwd=tmp_path)
    assert first == run("listops.py", *arguments, cwd=tmp_path)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short(path):
    assert len(path.read_text().splitlines()) <= 120
