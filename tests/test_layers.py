"""The layers of src/ and of weft/ are a line: a file takes from its own or an earlier one.

Each check is run twice: over the tree, where it must find nothing, and over small trees with one
fault each, where it must find that fault.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = tuple(
    "base kernels tensor ops autograd deferred mapped program native c watch python".split()
)
# Both hang on the door's hooks; neither knows that the other exists.
STRANGERS = {
    ("autograd", "deferred"), ("deferred", "autograd"), ("watch", "deferred"), ("watch", "mapped"),
    ("watch", "program"), ("program", "deferred"), ("program", "mapped"),
    ("native", "deferred"), ("native", "mapped"), ("watch", "native"),
}  # fmt: skip
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


# Modules and packages of weft/, by rank: one imports its own package and those of earlier ranks.
# `import weft` is free: the package's names are read when functions run.
RANKS = (
    "_C torch_version version",
    "base",
    "frontend",
    "return_types numa random storage safetensors accelerator backends mps mtia xpu futures",
    "autograd amp _tensor",
    "_library_ops utils cuda signal testing types classes __config__ _VF _utils _tensor_str "
    "_inductor _subclasses cpu",
    "fft linalg special",
    "composites tools",
    "nn",
    "func optim distributions multiprocessing overrides _checkpoint quasirandom",
    "array_api",
    "_ops",
    "_library",
    "library ops",
    "serialization nested sparse",
    "hub functional masked",
    "batching compiler fx",
    "distributed",
    "closing",
    "_higher_order_ops",
    "jit _dynamo",
    "_jit_internal",
    "export onnx",
    "deferred see experiments",
    "vision",
    "memory profiler running serve",
    "__main__",
)
RANK = {name: rank for rank, names in enumerate(RANKS) for name in names.split()}


def module_imports(node):
    """Import statements that run with the module: not those of functions and type checkers."""
    for_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield node
    elif not (isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) or for_types):
        for child in ast.iter_child_nodes(node):
            yield from module_imports(child)


def module_name(package, file):
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_graph(package):
    """Each module below `package` with the modules of the package that it imports at once."""
    files = {module_name(package, file): file for file in sorted(package.rglob("*.py"))}
    graph = {}
    for name, file in files.items():
        found = graph[name] = set()
        for node in module_imports(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found.update(a.name for a in node.names)
            else:
                base = node.module or ""
                full = [f"{base}.{alias.name}" for alias in node.names]
                found.update(f if f in files or f == "weft._C" else base for f in full)
        graph[name] = {m for m in found if m.startswith("weft.")} - {name}
    return graph


def rank_faults(package):
    """One line for every import of a later rank, or of another package of the same rank."""
    faults = []
    for module, imported in module_graph(package).items():
        if module == package.name:
            continue  # the package itself puts all together
        own = module.split(".")[1]
        for other in sorted(m.split(".")[1] for m in imported):
            if own not in RANK or other not in RANK:
                faults.append(f"{module}: {own if own not in RANK else other} has no rank")
            elif other != own and RANK[other] >= RANK[own]:
                faults.append(f"{module}: imports {other}, which is not of an earlier rank")
    return faults


def cycles(package):
    """Modules that import one another at once, as 'a -> b -> a'."""
    graph = module_graph(package)
    done, found = set(), []

    def visit(module, path):
        if module in path:
            found.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in done and module in graph:
            for other in sorted(graph[module]):
                visit(other, [*path, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return found


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


def test_every_module_of_the_package_has_a_rank():
    package = ROOT / "weft"
    top = {p.stem for p in package.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert top - {"__init__"} <= set(RANK), top - {"__init__"} - set(RANK)


def test_imports_of_the_package_are_in_order():
    assert len(module_graph(ROOT / "weft")) > 150
    assert rank_faults(ROOT / "weft") == []
    assert cycles(ROOT / "weft") == []


@pytest.mark.parametrize(
    ("file", "line", "fault"),
    [
        ("base/bad.py", "from weft.nn import Module", "imports nn"),
        ("linalg/bad.py", "import weft.fft", "imports fft"),
        ("nn/bad.py", "from weft import optim", "imports optim"),
        ("nn/bad.py", "if 1:\n    from weft.func import vmap", "imports func"),
        ("new/bad.py", "from weft.base import device", "new has no rank"),
    ],
)
def test_each_import_out_of_order_is_found(tmp_path, file, line, fault):
    good = {f"weft/{n}/__init__.py": "" for n in ("base", "linalg", "fft", "nn", "optim", "func")}
    good["weft/nn/good.py"] = "import weft\nfrom weft.base import x\ndef f(): import weft.optim"
    package = write(tmp_path, good | {"weft/__init__.py": "from weft import nn, base"}) / "weft"
    assert rank_faults(package) == []
    faults = rank_faults(write(tmp_path, {f"weft/{file}": line}) / "weft")
    assert len(faults) == 1 and fault in faults[0]


def test_each_circle_of_imports_is_found(tmp_path):
    files = {"weft/__init__.py": "", "weft/nn/__init__.py": "from weft.nn.a import x",
             "weft/nn/a.py": "from weft.nn.b import y", "weft/nn/b.py": "import weft"}  # fmt: skip
    assert cycles(write(tmp_path, files) / "weft") == []
    write(tmp_path, {"weft/nn/b.py": "from weft.nn import a"})
    assert cycles(tmp_path / "weft") == ["weft.nn.a -> weft.nn.b -> weft.nn.a"]


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
        ("program/bad.cpp", '#include "deferred/plan.h"', "across from program to deferred"),
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
