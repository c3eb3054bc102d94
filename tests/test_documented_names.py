"""Every public function and method takes the names of arguments that PyTorch's documents give,
and has documents of its own: shapes, and an example that runs.

PyTorch's names are read off the Python signature or the first lines of the docstring. weft's answer
to a call with that one argument tells whether it knows the name: it misses others, or refuses the
value, but not the word.
"""

import doctest
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import weft

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = ["", "nn.functional", "linalg", "fft", "special", "nn.init", "nn.utils", "func", "masked"]
# What is taken only if it has a meaning here.
VALUES = {
    "requires_grad": False, "device": "cpu", "dtype": weft.float32, "layout": weft.strided,
    "pin_memory": False, "generator": None, "memory_format": weft.preserve_format, "out": None,
    "non_blocking": False,
}  # fmt: skip

# reason: what is not taken
NOT_TAKEN = {
    "PyTorch has it on accelerators only": "addmm(out_dtype=) baddbmm(out_dtype=) bmm(out_dtype=) "
    "mm(out_dtype=)",
    "PyTorch does not take it, whatever its documents say": """
broadcast_to(shape=) from_numpy(ndarray=) histogramdd(out=) qr(List=) qr(Tuple=)
searchsorted(values=) true_divide(dividend=) true_divide(divisor=)
unsafe_split(split_size_or_sections=) unsafe_split(tensor=) nn.functional.one_hot(tensor=)
Tensor.arctanh_(other=) Tensor.atanh_(other=) Tensor.bmm(batch2=) Tensor.broadcast_to(shape=)
Tensor.div(value=) Tensor.div_(value=) Tensor.divide(value=) Tensor.divide_(value=)
Tensor.dot(other=) Tensor.dsplit(split_size_or_sections=) Tensor.floor_divide(value=)
Tensor.floor_divide_(value=) Tensor.fmod(divisor=) Tensor.fmod_(divisor=)
Tensor.hsplit(split_size_or_sections=) Tensor.index_copy(tensor2=) Tensor.index_copy_(tensor=)
Tensor.masked_scatter(tensor=) Tensor.matmul(tensor2=) Tensor.mul(value=) Tensor.mul_(value=)
Tensor.multiply(value=) Tensor.multiply_(value=) Tensor.narrow(dimension=)
Tensor.narrow_copy(dimension=) Tensor.new_tensor(layout=) Tensor.new_tensor(pin_memory=)
Tensor.remainder(divisor=) Tensor.remainder_(divisor=) Tensor.resize_as_(tensor=)
Tensor.take(indices=) Tensor.to_sparse(sparseDims=) Tensor.true_divide(value=)
Tensor.true_divide_(value=)
Tensor.type_as(tensor=) Tensor.vsplit(split_size_or_sections=) Tensor.where(y=)""",
}


class Anything:
    """A value that no argument may have."""


def module(lib: Any, path: str) -> Any:
    for part in path.split("."):
        lib = getattr(lib, part) if part else lib
    return lib


def names_of(function: Any, name: str) -> set[str]:
    """The names of arguments that the documents give."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return names_in(function.__doc__ or "", name)
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name for p in parameters if p.kind in kinds}


def names_in(doc: str, name: str) -> set[str]:
    """Those of the lines like `name(input, dim, *, out=None) -> Tensor`."""
    found: set[str] = set()
    for line in re.findall(rf"(?m)^\s*(?:\.\. function:: )?(?:[\w.]*\.)?{name}\((.*)\) *->", doc):
        arguments = re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", line)
        for argument in arguments.split(","):
            words = argument.split("=")[0].split(":")[0].split()
            if words and re.fullmatch(r"[a-zA-Z_]\w*", words[-1]):
                found.add(words[-1])
    return found


def refuses(function: Callable[..., Any], name: str) -> bool:
    try:
        function(**{name: VALUES.get(name, Anything())})
    except TypeError as error:
        reasons = str(error).partition("\ngot\n")[2].splitlines() or [str(error)]
        return all("unexpected keyword argument" in reason for reason in reasons)
    except Exception:  # noqa: BLE001
        return False
    return False


def functions() -> Iterator[tuple[str, str]]:
    for path in MODULES:
        for name in sorted(vars(module(weft, path))):
            if not name.startswith("_"):
                yield path, name
    for name in sorted(dir(weft.Tensor)):
        if not name.startswith("_"):
            yield "Tensor", name


def missing(torch: Any, path: str, name: str) -> list[str]:
    theirs, ours = (getattr(module(lib, path), name, None) for lib in (torch, weft))
    if not callable(theirs) or not callable(ours) or inspect.isclass(theirs):
        return []
    words = names_of(theirs, name)
    if path == "Tensor":
        words.discard("self")
        if ours is getattr(weft.Tensor, name):
            method = ours
            ours = lambda **given: method(weft.ones(2), **given)  # noqa: E731
    public = sorted(w for w in words if not w.startswith("_"))
    return [f"{path}.{name}({w}=)".lstrip(".") for w in public if refuses(ours, w)]


@pytest.mark.filterwarnings("ignore")
def test_arguments_have_pytorchs_names() -> None:
    torch = pytest.importorskip("torch")
    found = [m for path, name in functions() for m in missing(torch, path, name)]
    weft.use_deterministic_algorithms(False)  # it was called by its argument's name too
    listed = " ".join(NOT_TAKEN.values()).split()
    assert sorted(found) == sorted(listed), "\n".join(set(found) ^ set(listed))


def test_the_lines_of_a_docstring_are_read() -> None:
    doc = (
        "\nf(input, dim, *, size=(1, 2), out=None) -> Tensor\n\n.. function:: f(x, int n=1) -> (A)"
    )
    assert names_in(doc, "f") == {"input", "dim", "size", "out", "x", "n"}


PAGE = (Path(__file__).parent.parent / "docs/names.md").read_text()
SECTIONS = {
    home: re.findall(r"(?m)^- `(\w+)`", names)
    for home, names in re.findall(r"## weft\.?(\S*)\n\n(.*?)\n(?=\n|$)", PAGE, re.DOTALL)
}
# What says a shape: [N, C] or `(batch, *)`, or one of these words.
SHAPES = re.compile(
    r"\[[^\]]*\]"
    r"|\((?:\.\.\.|\*|[NnL]|batch|channels|classes|in\w*|out\w*)(?:,[^()]*)?\)"
    r"|shape|\bsizes?\b|scalar|0-d|dimension|broadcast|\belement|\blength|\bvectors?\b",
    re.IGNORECASE,
)
# All that these have is of tensors, whatever their annotations say.
OF_TENSORS = {"Tensor", "nn.functional", "linalg", "fft", "special", "signal.windows"}

# reason: namespaces whose names need neither shapes nor an example
NO_DOCUMENTS = {
    "devices that this build does not have: they count none, or raise": "cuda cpu xpu mps mtia",
}
# reason: names that need no example
NO_EXAMPLE = {
    "it serves a process until that ends": "listen",
    "it raises: there is no device": "accelerator.set_device_index",
    "it takes two processes": "distributed.P2POp distributed.batch_isend_irecv distributed.irecv "
    "distributed.isend distributed.recv distributed.recv_object_list distributed.send "
    "distributed.send_object_list",
    "it reads files that have to be there": "vision.datasets.CIFAR10 vision.datasets.CIFAR100 "
    "vision.datasets.EMNIST vision.datasets.FashionMNIST vision.datasets.KMNIST "
    "vision.datasets.MNIST",
    "it imports the main module again": "multiprocessing.spawn",
}


def prose(doc: str) -> str:
    """A docstring without its examples."""
    return re.sub(r"(?m)^\s*>>>.*(?:\n.*\S.*)*", "", doc)


def speaks_of_tensors(home: str, thing: Any, doc: str) -> bool:
    call = thing
    if inspect.isclass(thing):
        call = thing.forward if issubclass(thing, weft.nn.Module) else thing.__init__
    try:
        signature = str(inspect.signature(call))
    except (TypeError, ValueError):
        signature = doc.partition("\n")[0]
    return home in OF_TENSORS or "Tensor" in signature


def documented() -> Iterator[tuple[str, str, Any]]:
    passed = " ".join(NO_DOCUMENTS.values()).split()
    for home, names in SECTIONS.items():
        for name in names if home not in passed else []:
            path = f"weft.{home}".rstrip(".")
            space = weft.Tensor if home == "Tensor" else importlib.import_module(path)
            thing = getattr(space, name)
            error = inspect.isclass(thing) and issubclass(thing, BaseException)
            # An object has the documents of its class.
            own = inspect.isclass(thing) or thing.__doc__ != type(thing).__doc__
            if callable(thing) and own and not error:
                yield home, name, thing


def test_public_names_have_shapes_and_an_example() -> None:
    bare, dumb = set(), set()
    for home, name, thing in documented():
        doc = inspect.getdoc(thing) or ""
        full = f"{home}.{name}".lstrip(".")
        if ">>>" not in doc:
            dumb.add(full)
        if speaks_of_tensors(home, thing, doc) and not SHAPES.search(prose(doc)):
            bare.add(full)
    assert not bare, f"no shapes: {sorted(bare)}"
    listed = set(" ".join(NO_EXAMPLE.values()).split())
    assert dumb == listed, f"no example, or one after all: {sorted(dumb ^ listed)}"


# The classes that users call and derive from most: their methods have examples too.
BASES = """nn.Module nn.ModuleDict nn.ModuleList nn.Sequential optim.Optimizer
optim.lr_scheduler.LRScheduler distributions.Distribution amp.GradScaler"""
NO_METHOD_EXAMPLE = {"cuda", "call_super_init", "has_rsample", "has_enumerate_support"}


@pytest.mark.parametrize("path", BASES.split())
def test_methods_have_an_example(path: str) -> None:
    cls = module(weft, path)
    names = {name for name in dir(cls) if not name.startswith("_")}
    docs = {name: inspect.getdoc(getattr(cls, name)) or "" for name in names - NO_METHOD_EXAMPLE}
    assert not {name for name, doc in docs.items() if ">>>" not in doc}


def test_namespaces_that_need_no_documents_are_there() -> None:
    assert set(" ".join(NO_DOCUMENTS.values()).split()) <= set(SECTIONS)


def test_the_law_tells_shapes_from_others() -> None:
    assert not SHAPES.search(prose("The sum.\n\n>>> f(weft.ones([2]))\ntensor([1.])\n"))
    assert SHAPES.search(prose("Rows [N, C].\n\n>>> f(1)")) and SHAPES.search("of self's shape")
    assert prose("One.\n>>> f(1)\n1\n\nTwo.") == "One.\n\n\nTwo."


@pytest.mark.filterwarnings("ignore")
def test_examples_of_docstrings_that_are_made_run() -> None:
    """tests/test_docs.py runs those of what a file defines under its own name."""
    seen: set[str] = set()
    for home, name, thing in documented():
        doc = getattr(thing, "__doc__", None) or ""
        file = getattr(inspect.unwrap(thing), "__module__", None) or "weft"
        names = vars(sys.modules[file]) if file.startswith("weft.") and file != "weft._C" else {}
        found = names.get(getattr(thing, "__name__", "")) is thing
        if ">>>" not in doc or doc in seen or found or inspect.isfunction(thing):
            continue
        seen.add(doc)
        report: list[str] = []
        weft.manual_seed(0)
        globs = {**names, "weft": weft}
        test = doctest.DocTestParser().get_doctest(doc, globs, name, None, None)
        runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
        runner.run(test, out=report.append)
        assert not report, f"{home}.{name}: " + "".join(report)
    assert len(seen) > 300
