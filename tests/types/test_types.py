"""What type checkers see is what there is: the stub against the package, and a typed program.

mypy itself reads the program in `make lint`.
"""

import ast
import inspect
import runpy
from pathlib import Path

import pytest

import weft
from weft import _C

ROOT = Path(__file__).resolve().parents[2]
STUB = ast.parse((ROOT / "weft/_C.pyi").read_text())
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def defined(body):
    """Names that a body of the stub defines."""
    for node in body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id


def classes():
    return {n.name: n for n in STUB.body if isinstance(n, ast.ClassDef)}


def test_the_typed_program_runs(capsys):
    runpy.run_path(str(Path(__file__).with_name("program.py")), run_name="__main__")
    assert float(capsys.readouterr().out) > 0


def test_the_package_says_that_it_has_types():
    assert (ROOT / "weft/py.typed").exists()


def test_the_stub_has_every_name_of_the_extension_and_no_other():
    found = {n for n in defined(STUB.body) if hasattr(_C, n)}
    wrapped = {n for n in dir(_C) if getattr(weft, n, None) is not getattr(_C, n)}
    wrapped.add("device")  # a class of weft.base.device that is found there too
    public = {n for n in dir(_C) if not n.startswith("__")}
    assert public - found <= wrapped
    invented = {n for n in defined(STUB.body) if not hasattr(_C, n) and not n.startswith("_")}
    assert invented == set()


@pytest.mark.parametrize("name", ["Tensor", "Generator", "Size", "dtype", "Node", "HookHandle"])
def test_the_stub_has_every_member_of_a_class_and_no_other(name):
    kind = getattr(_C, name)
    written = set(defined(classes()[name].body))
    members = {n for n in vars(kind) if not n.startswith("_")}
    assert members <= written, members - written
    invented = {n for n in written if not hasattr(kind, n)} - {"__buffer__", "__getattr__"}
    assert invented == set()


def test_operators_are_in_the_stub():
    written = set(defined(classes()["Tensor"].body))
    operators = {n for n, f in vars(_C.Tensor).items() if type(f).__name__ == "wrapper_descriptor"}
    general = {"__repr__", "__setattr__", "__delattr__", "__delitem__", "__release_buffer__"}
    assert operators - general - {"__del__"} <= written


def test_every_public_function_has_a_signature_with_hints():
    """Those of Python say what they take; those of the extension are in the stub."""
    stubbed = set(defined(STUB.body))
    bare = []
    for name in weft.__all__:
        thing = getattr(weft, name)
        if not inspect.isroutine(thing) or name in stubbed:
            continue
        signature = inspect.signature(thing)
        if signature.return_annotation is signature.empty:
            bare.append(name)
    assert bare == []


def test_named_tuples_have_the_names_of_the_stub():
    x = weft.tensor([[3.0, 1.0], [2.0, 4.0]])
    for out in (x.max(0), x.sort(), x.topk(1), x.cummax(0), x.median(0)):
        values, indices = out
        assert out.values is values and out.indices is indices
        assert "_values_indices" in classes()
