"""scikit-learn and SciPy take tensors by array API dispatch, by `import weft` and `weft run`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("scipy")
PROGRAM = str(Path(__file__).with_name("dispatched.py"))


@pytest.mark.parametrize(
    "command", [[PROGRAM, "weft"], ["-m", "weft", "run", PROGRAM, "torch"]], ids=["import", "run"]
)
def test_calls_give_what_numpy_s_arrays_give(command, tmp_path):
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *differences, last = done.stdout.splitlines()
    agree, calls, tensors = map(int, re.findall(r"\d+", last))
    assert not differences and agree == calls > 70 and tensors > 50, done.stdout
