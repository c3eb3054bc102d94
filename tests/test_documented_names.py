"""Every public function and method takes the names of arguments that PyTorch's documents give.

PyTorch's names are read off the Python signature or the first lines of the docstring. weft's answer
to a call with that one argument tells whether it knows the name: it misses others, or refuses the
value, but not the word.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft

MODULES = ["", "nn.functional", "linalg", "fft", "special", "nn.init", "nn.utils", "func"]
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
    listed = " ".join(NOT_TAKEN.values()).split()
    assert sorted(found) == sorted(listed), "\n".join(set(found) ^ set(listed))


def test_the_lines_of_a_docstring_are_read() -> None:
    doc = (
        "\nf(input, dim, *, size=(1, 2), out=None) -> Tensor\n\n.. function:: f(x, int n=1) -> (A)"
    )
    assert names_in(doc, "f") == {"input", "dim", "size", "out", "x", "n"}
