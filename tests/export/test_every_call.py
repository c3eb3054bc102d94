"""Calls of right_calls.txt as programs without Python: what is saved and loaded gives what Python
gives, or is refused for a reason that is listed here."""

import ast
import collections
import importlib.util
import re
import sys
import warnings
import zlib

import fuzz_calls
import numpy as np
import pytest

import weft
from weft import _library_ops, nn
from weft.closing.errors import NotExportable
from weft.closing.program import package_of
from weft.compiler.errors import Unsupported

# Reasons for which a call is refused, as the error has them, with a pattern of the calls.
REFUSED = {
    # arrays of NumPy
    "memoryview": r"numpy\(|ormqr",
    "with * or ** of what only a run knows": r"\*t\.(geqrf|linalg\.(lu|ldl)_factor)",
    "_become_view": r"(as_strided|squeeze|unsqueeze|transpose|t|swap\w+|detach)_\(",
    "_resize": r"resize_",
    "_set": r"set_\(",
    "hooks": r"nn\.Lazy",  # which have no parameters before their first call
    "a call of empty": r"np\.",
    "an object of int64, which computes what it has": r"np\.",
    "bytearray": r"bytearray",
    "that is made": r"nn\.\w+\(|np\.|func\.grad",  # a Module belongs outside of the function
    "as a value": r"finfo|iinfo",
    "no signature found": r"kaiser_window",  # an array inside of weft's own
    "_mode": r"autograd\.",  # gradients inside of a program
    "_backward": r"backward",
    "_register_hook": r"register_hook",
    "which maps a function of Python's": r"vmap",
    "which no value of programs has": r"__r?\w+__\(|is_set_to",
}
# What programs do not have, which is told when they run.
AT_RUN = {
    r"\bt\.(ldexp|addmv|as_strided)_\(",
    r"is_inference",
    r"fractional_max_pool|FractionalMaxPool",
    r"nn\.Parameter\(",
}
MOST = 5  # calls of one name
# Values that nobody wrote.
UNWRITTEN = re.compile(r"empty|resize")

HEAD = "import numpy as np\nimport weft as t\nfrom weft import nn\nF = nn.functional\n"


class Lifted(ast.NodeTransformer):
    """A call whose tensors are parameters, and whose Module is made before."""

    def __init__(self):
        self.tensors, self.module = [], None

    def visit_Call(self, node):  # noqa: N802
        if fuzz_calls.is_tensor(node):
            self.tensors.append(node)
            return ast.Name(f"x{len(self.tensors) - 1}", ast.Load())
        text = ast.unparse(node)
        is_module = isinstance(node.func, ast.Attribute) and re.match(
            r"nn\.[A-Z](?!aram|uffer)", text
        )
        known = not any(fuzz_calls.is_tensor(n) or fuzz_calls.is_given(n) for n in ast.walk(node))
        if is_module and known and not self.module:
            self.module = text
            return ast.Name("net", ast.Load())
        return self.generic_visit(node)


def tensor(k, node):
    """The tensor that a text names, as an argument."""
    kind, sizes = node.func.id, tuple(map(ast.literal_eval, node.args))
    rng = np.random.default_rng(zlib.crc32(f"{kind}{sizes}{k}".encode()))
    values = rng.uniform(-2, 2, sizes) if kind in "TDHCG" else rng.integers(0, 5, sizes)
    if kind == "C":
        values = values + 1j * rng.uniform(-2, 2, sizes)
    made = weft.from_numpy(np.asarray(values).astype(np.dtype(fuzz_calls.DTYPES[kind])))
    return made.requires_grad_() if kind == "G" else made


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The functions of a file, by call: what makes the Module, function, tensors."""
    text, told = [HEAD], {}
    for k, line in enumerate(fuzz_calls.CALLS):
        lifted = Lifted()
        body = ast.unparse(lifted.visit(fuzz_calls.parsed(line)))
        body = re.sub(r"\bnet\b", f"net{k}", body) if lifted.module else body
        names = ", ".join(f"x{i}" for i in range(len(lifted.tensors)))
        text.append(f"def f{k}({names}):\n    return {body}\n")
        told[line] = (f"net{k}", lifted.module), f"f{k}", lifted.tensors
    path = tmp_path_factory.mktemp("calls") / "written_calls.py"
    path.write_text("\n".join(text))
    spec = importlib.util.spec_from_file_location("written_calls", path)
    module = sys.modules["written_calls"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module, told
    del sys.modules["written_calls"]


def outcome(run):
    weft.manual_seed(7)
    try:
        return run()
    except Exception as error:  # noqa: BLE001
        return error


def what_differs(module, name, tensors, package):
    """In what a package's result differs from the function's, or ''."""
    program = weft._C._Package(package.to_json(), package.tensors)
    for _ in range(2):  # the second time plans are made
        wanted = outcome(lambda: getattr(module, name)(*[tensor(*one) for one in tensors]))
        args = tuple(tensor(*one) for one in tensors)
        got = outcome(lambda args=args: program.call("forward", args, {}))
        if isinstance(wanted, Exception) or isinstance(got, Exception):
            if type(wanted) is not type(got):
                return f"{got!r} for {wanted!r}"
        elif difference := fuzz_calls.values_differ(got, wanted):
            return difference
    return ""


def family(line):
    """The name of what a line calls: calls are tried together by it."""
    return (re.search(r"\b(\w+)\(", re.sub(r"\b[TDHCIUBG]\([\d, ]*\)", "", line)) or [line, line])[
        1
    ]


FAMILIES = sorted({family(line)[:1].lower() for line in fuzz_calls.CALLS})


@pytest.mark.parametrize("first", FAMILIES)
def test_calls_that_are_saved_give_what_python_gives(programs, first):
    module, told = programs
    wrong, tried = [], collections.Counter()
    for line, ((net, made), name, tensors) in told.items():
        if family(line)[:1].lower() != first:
            continue
        tried[family(line)] += 1
        if tried[family(line)] > MOST:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if made:
                weft.manual_seed(0)
                setattr(module, net, eval(made, {"nn": nn, "np": np, "t": weft}))  # noqa: S307
            try:
                package = package_of({"forward": getattr(module, name)}, None, True)
            except (NotExportable, Unsupported, ValueError) as error:
                if not any(r in str(error) and re.search(p, line) for r, p in REFUSED.items()):
                    wrong.append((line, str(error)))
                continue
            difference = what_differs(module, name, list(enumerate(tensors)), package)
        if difference and not UNWRITTEN.search(line):
            if not any(re.search(pattern, line) for pattern in AT_RUN):
                wrong.append((line, difference))
    assert not wrong


def test_ops_of_libraries_are_found_by_their_records():
    names = [r["name"] for r in _library_ops.records() if "call" in r]
    assert len(names) > 30 and all(map(_library_ops.op_named, names))
    assert _library_ops.op_named("relu") is None
