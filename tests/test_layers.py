"""The layers of src/ are a line: a file includes its own layer or an earlier one, never a later.

The check is run twice: over the tree, where it must find nothing, and over small trees with one
fault each, where it must find that fault.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("base", "kernels", "tensor", "ops", "autograd", "deferred", "python")
# Both hang on the door's hooks; neither knows that the other exists.
STRANGERS = {("autograd", "deferred"), ("deferred", "autograd")}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
IMPORTERS = {"__import__", "import_module"}


def sources(src):
    """All C++ files below `src`, in a fixed order."""
    return sorted(p for p in src.rglob("*") if p.suffix in {".h", ".hpp", ".cpp", ".inc"})


def target_layer(src, file, quoted, angled):
    """The layer an include belongs to; None for the standard library and the system."""
    if angled is not None:
        return "python" if angled == "Python.h" else None
    beside = (file.parent / quoted).resolve()
    path = beside if beside.exists() else (src / quoted).resolve()
    return path.relative_to(src.resolve()).parts[0] if path.is_relative_to(src.resolve()) else ""


def include_faults(src):
    """One line for every include below `src` that points up, across, or to no layer."""
    faults = []
    for file in sources(src):
        where, own = file.relative_to(src), file.relative_to(src).parts[0]
        if own not in LAYERS:
            faults.append(f"{where}: expected a file in one of {LAYERS}")
            continue
        for quoted, angled in INCLUDE.findall(file.read_text()):
            other = target_layer(src, file, quoted or None, angled or None)
            if other is None:
                continue
            if other not in LAYERS:
                faults.append(f"{where}: includes {quoted}, which is in no layer")
            elif LAYERS.index(other) > LAYERS.index(own):
                faults.append(f"{where}: includes {quoted or angled}, up from {own} to {other}")
            elif (own, other) in STRANGERS:
                faults.append(f"{where}: includes {quoted}, across from {own} to {other}")
    return faults


def imported_modules(tree):
    """(line, module) of every import in a syntax tree, `import_module("…")` included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            if name in IMPORTERS:
                yield node.lineno, str(node.args[0].value)


def import_faults(package):
    """One line for every import of torch in the Python package."""
    return [
        f"{file.relative_to(package)}:{line}: imports {module}"
        for file in sorted(package.rglob("*.py"))
        for line, module in imported_modules(ast.parse(file.read_text()))
        if module.split(".")[0] == "torch"
    ]


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_no_include_points_up():
    assert len(sources(ROOT / "src")) > 10
    assert include_faults(ROOT / "src") == []


def test_weft_never_imports_torch():
    assert (ROOT / "weft" / "__init__.py").exists()
    assert import_faults(ROOT / "weft") == []


GOOD = {
    "base/error.h": "#include <string>\n",
    "kernels/simd.h": '#include "base/error.h"\n',
    "tensor/tensor.h": '#include "base/error.h"\n// #include "ops/op.h"\n',
    "tensor/shape.h": '#include "tensor.h"\n#include "../base/error.h"\n',
    "ops/op.h": '#include "tensor/tensor.h"\n',
    "autograd/node.h": '#include "ops/op.h"\n',
    "deferred/plan.h": '#include "ops/op.h"\n',
    "python/module.cpp": '#include <Python.h>\n#include "autograd/node.h"\n'
    '#include "deferred/plan.h"\n',
}


def test_a_tree_in_order_passes(tmp_path):
    assert include_faults(write(tmp_path, GOOD)) == []


@pytest.mark.parametrize(
    ("file", "line", "fault"),
    [
        ("base/bad.h", '#include "ops/op.h"', "up from base to ops"),
        ("kernels/bad.cpp", '#include "tensor/tensor.h"', "up from kernels to tensor"),
        ("kernels/bad.cpp", "#include <Python.h>", "up from kernels to python"),
        ("tensor/bad.h", '  #  include "../ops/op.h"', "up from tensor to ops"),
        ("ops/bad.cpp", '#include "autograd/node.h"', "up from ops to autograd"),
        ("autograd/engine.cpp", '#include "deferred/plan.h"', "up from autograd to deferred"),
        ("deferred/bad.cpp", '#include "autograd/node.h"', "across from deferred to autograd"),
        ("autograd/bad.cpp", '#include "python/call.h"', "up from autograd to python"),
        ("tools/bad.h", "#include <vector>", "expected a file in one of"),
        ("base/bad.h", '#include "helpers.h"', "in no layer"),
        ("base/bad.h", '#include "../../elsewhere.h"', "in no layer"),
    ],
)
def test_each_wrong_include_is_found(tmp_path, file, line, fault):
    faults = include_faults(write(tmp_path, GOOD | {file: f"#pragma once\n{line}\n"}))
    assert len(faults) == 1
    assert faults[0].startswith(file) and fault in faults[0]


@pytest.mark.parametrize(
    "line",
    [
        "import torch",
        "import os, torch.nn as nn",
        "from torch.nn import functional",
        "def f():\n    import torch",
        "import importlib\nimportlib.import_module('torch.fx')",
        "__import__('torch')",
    ],
)
def test_each_import_of_torch_is_found(tmp_path, line):
    package = write(tmp_path, {"nn/linear.py": '"""import torch"""\nfrom . import torch_like\n'})
    assert import_faults(package) == []
    assert len(import_faults(write(package, {"bad.py": line}))) == 1
