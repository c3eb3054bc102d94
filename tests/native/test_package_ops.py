"""What a package may call: any op of these, with any arguments, ends in a result or an error; the
others are refused when it is loaded."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_package_ops import MEMORY
from fuzz_package_ops import package_calling as package

import weft
from weft import _C
from weft.closing import known

RECORDS = _C._records()
HERE = Path(__file__).resolve().parent
# What only the core calls: in no group of a public name that packages may call.
OPEN = {r["public_name"] for r in RECORDS if r["in_packages"]}
CLOSED = sorted({r["public_name"] for r in RECORDS} - OPEN)


@pytest.mark.parametrize("name", CLOSED)
def test_internal_ops_are_refused_by_name(name):
    data = package(f"ops.{name}")
    wanted = rf"\[package\] expected ops that programs may call, got 'ops.{name}'"
    with pytest.raises(ValueError, match=wanted):
        _C._Package(json.dumps(data), {})
    data["ops"] = {}  # not said, but called
    with pytest.raises(ValueError, match="ops that programs may call"):
        _C._Package(json.dumps(data), {})
    assert known.version_of(f"ops.{name}") is None


def test_what_closing_writes_is_what_files_may_have():
    """Every name that the writer takes is one that the reader knows, in its version."""
    names = known._versions()
    assert {"tanh", "Tensor.tanh", "Tensor.add_", "ops._relaid"} <= set(names)
    for name, version in names.items():
        data = package(name)
        data["ops"] = {name: version}
        _C._Package(json.dumps(data), {})
        data["ops"] = {name: version + 1}
        wanted = f"version {version} of '{name}' or older, got version {version + 1}, of a newer"
        with pytest.raises(ValueError, match=wanted):
            _C._Package(json.dumps(data), {})


def ops_called(file):
    """The ops that a file of weft's names: `_C.ops.name`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            holder = node.value
            if holder.attr == "ops" and ast.unparse(holder.value) in ("_C", "weft._C"):
                yield node.attr


def test_what_functions_of_weft_call_programs_may_call():
    """Else a program that calls such a function could not be saved."""
    package = Path(weft.__file__).parent
    found = {(f.name, op) for f in package.rglob("*.py") for op in ops_called(f)}
    assert len(found) > 40
    outside = {(file, op) for file, op in found if op not in OPEN}
    assert outside == {
        ("_merged.py", "_tie"),  # of the graph of gradients
        # of sparse tensors, and of operators by ATen's names, which programs do not have
        ("products.py", "_sparse_dots"),
        ("products.py", "_sparse_product"),
        ("aten.py", "_convolution_weight"),
        ("aten.py", "_log_softmax_backward_data"),
        ("aten.py", "_softmax_backward_data"),
    }


def test_a_call_of_an_internal_op_is_not_written():
    """Nobody saves a file that does not load."""
    with pytest.raises(RuntimeError, match="a call of ops._pack, an op that only weft itself"):
        weft.jit.script(lambda x: _C.ops._pack([x], [0], [1])).save("/dev/null")


PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_wrong_arguments_end_in_errors(part):
    """In a process of its own, which says what it calls: a crash is an op's name."""
    limits = f"{os.environ.get('ASAN_OPTIONS', '')}:max_allocation_size_mb={MEMORY >> 20}"
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzz_package_ops.py"), str(part), str(PARTS)],
        capture_output=True, text=True, timeout=600, check=False,
        env=os.environ | {"ASAN_OPTIONS": limits},
    )  # fmt: skip
    last = done.stdout.strip().rpartition("\n")[2]
    assert done.returncode == 0, f"{last}\n{done.stderr[-2000:]}"
    calls, failed = map(int, last.split()[:2])
    assert calls > 1000 and 0 < failed < calls
