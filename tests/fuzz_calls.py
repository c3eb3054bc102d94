"""Random wrong calls beside PyTorch: right_calls.txt, mutated.

A line of right_calls.txt is a call that both libraries take, over `t` (the library), `nn`, `F`,
`np` and tensors T (float32), D (float64), H (float16), C (complex64), I (int64), U (uint8),
B (bool) and G (float32, in a graph) of the given sizes. A mutation puts something else in the place
of an argument, of an element of a list or of a tensor's size, leaves an argument out, adds one, or
gives it another name. The law of a mutated call:

- where PyTorch raises, weft raises an error of that type, and one with words of its own: not what
  Python says of a None that has no attributes;
- bad input changes nothing: after an error the tensors of the call are as before;
- what PyTorch takes weft takes, with equal results.

KEPT lists the differences that stay, each with the reason.

    python tests/fuzz_calls.py [--calls N] [--seed S] [--only TEXT] [--show K]
"""

from __future__ import annotations

import argparse
import ast
import collections
import faulthandler
import random
import re
import resource
import signal
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import weft

CALLS = Path(__file__).with_name("right_calls.txt").read_text().splitlines()
DTYPES = {"T": "float32", "D": "float64", "H": "float16", "C": "complex64", "I": "int64",
          "U": "uint8", "B": "bool", "G": "float32"}  # fmt: skip

TENSORS = """T() T(0) T(1) T(3) T(2, 3) T(3, 2) T(2, 3, 4) T(0, 3) D(2, 3) H(3) C(2, 3)
I() I(1) I(3) I(2, 3) U(3) B(3) B(2, 3) G(3)"""
VALUES = [
    *re.findall(r"\w\([\d, ]*\)", TENSORS),
    "None", "None", "'a'", "'sum'", "''", "b'x'", "[]", "()", "{}", "{'a': 1}", "object()", "True",
    "False", "0", "1", "2", "7", "-1", "-2", "-100", "100",
    str(2**62), str(2**63), str(2**70), str(-(2**70)),
    "0.5", "1.5", "-1.0", "2.0", "float('nan')", "float('inf')", "1j", "slice(0, 1)", "...",
    "np.float64(1.5)", "np.int64(2)", "np.float32(0.5)", "np.bool_(True)", "np.ones(3)",
    "np.arange(2)", "t.float32", "t.int64", "[1, 2]", "(2, -1)", "(0, 1)", "[1.5]", "[None]",
    "(1, 'a')", "[T(3), 1]", "[T(2, 3), T(2, 3)]", "range(2)", "len",
]  # fmt: skip
SIZES = [0, 1, 2, 3, 5]
NAMES = ["input", "self", "other", "dim", "axis", "size", "out", "dtype", "keepdim", "p", "bogus"]


# ---- mutations


def is_given(node: ast.AST) -> bool:
    """Whether it is what a call is given, an array or a number of NumPy."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("np.")


def is_tensor(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DTYPES


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def places(node: ast.AST) -> Iterator[tuple[Any, Any, bool]]:
    """(holder, key, whether a tensor must stand there) of all that may be replaced below `node`."""
    if is_given(node):
        return
    if isinstance(node, ast.Call) and not is_tensor(node):
        for k in range(len(node.args)):
            yield node.args, k, False
        for word in node.keywords:
            yield word, "value", False
        if isinstance(node.func, ast.Attribute) and is_tensor(node.func.value):
            yield node.func, "value", True
    elif isinstance(node, (ast.List, ast.Tuple)):
        for k in range(len(node.elts)):
            yield node.elts, k, False
    elif isinstance(node, ast.BinOp):
        yield node, "left", True
        yield node, "right", False
    elif isinstance(node, ast.Subscript):
        yield node, "slice", False
    if not is_tensor(node):
        for child in ast.iter_child_nodes(node):
            yield from places(child)


def nodes(root: ast.expr, want: type) -> list[Any]:
    return [n for n in ast.walk(root) if isinstance(n, want)]


def mutate(root: ast.expr, rng: random.Random) -> None:
    """One change, in place."""
    calls = [c for c in nodes(root, ast.Call) if not is_tensor(c) and not is_given(c)]
    tensors = [c for c in nodes(root, ast.Call) if is_tensor(c)]
    kind = rng.random()
    if kind < 0.12 and tensors:  # another shape
        sizes = rng.choice(tensors).args
        change = rng.randrange(3)
        if change == 0 and sizes:
            sizes[rng.randrange(len(sizes))] = ast.Constant(rng.choice(SIZES))
        elif change == 1 and sizes:
            del sizes[rng.randrange(len(sizes))]
        else:
            sizes.insert(rng.randint(0, len(sizes)), ast.Constant(rng.choice(SIZES)))
    elif kind < 0.18 and tensors:  # another dtype
        rng.choice(tensors).func = ast.Name(rng.choice("TDHCIUBG"), ast.Load())
    elif kind < 0.36 and calls:
        call = rng.choice(calls)
        change = rng.randrange(5)
        if change == 0 and call.args:
            del call.args[rng.randrange(len(call.args))]
        elif change == 1 and call.keywords:
            del call.keywords[rng.randrange(len(call.keywords))]
        elif change == 2:
            call.args.append(parsed(rng.choice(VALUES)))
        elif change == 3 and call.keywords:
            rng.choice(call.keywords).arg = rng.choice(NAMES)
        elif change == 4 or not call.args:
            call.keywords.append(ast.keyword(rng.choice(NAMES), parsed(rng.choice(VALUES))))
        else:
            value = call.args.pop()
            call.keywords.append(ast.keyword(rng.choice(NAMES), value))
    else:
        found = list(places(root))
        if found:
            holder, key, tensor = rng.choice(found)
            value = parsed(rng.choice(VALUES[:19] if tensor else VALUES))
            if isinstance(holder, list):
                holder[key] = value
            else:
                setattr(holder, key, value)


def wrong_call(rng: random.Random, calls: list[str]) -> str:
    root = parsed(rng.choice(calls))
    mutate(root, rng)  # one: of two faults either may be told
    return ast.unparse(root)


# ---- a call in one library


class Outcome(NamedTuple):
    error: BaseException | None
    result: Any
    changed: str  #: what an error left otherwise than before


def state(x: Any) -> tuple[Any, ...]:
    version = x._version if x.is_leaf or not x.is_inference() else 0
    return tuple(x.shape), str(x.dtype), version, x.requires_grad, plain(x).tobytes()


def plain(x: Any) -> Any:
    """The values as an array."""
    x = x.detach()
    if str(x.dtype) == "torch.bfloat16":
        x = x.float()
    if x.is_complex() and hasattr(x, "resolve_conj"):
        x = x.resolve_conj()
    return np.asarray(x.resolve_neg().numpy() if hasattr(x, "resolve_neg") else x.numpy())


# PyTorch counts to the degree, where no signal stops it.
ENDLESS = re.compile(r"(legendre|laguerre|hermite)_polynomial_\w+\(.*\d{19}")


class TooLong(Exception):
    """A call that does not end: a loop over as many things as a huge int says."""


def _stop(*args: Any) -> None:
    raise TooLong


def run(t: Any, text: str) -> Outcome:
    """The call in `t`; every tensor that the text names has the same values in every library."""
    made: list[Any] = []

    def maker(kind: str) -> Any:
        def make(*sizes: int) -> Any:
            rng = np.random.default_rng(zlib.crc32(f"{kind}{sizes}{len(made)}".encode()))
            values = rng.uniform(-2, 2, sizes) if kind in "TDHCG" else rng.integers(0, 5, sizes)
            if kind == "C":
                values = values + 1j * rng.uniform(-2, 2, sizes)
            x = t.from_numpy(np.asarray(values).astype(np.dtype(DTYPES[kind])))
            made.append(x.requires_grad_() if kind == "G" else x)
            return x

        return make

    names = {"t": t, "nn": t.nn, "F": t.nn.functional, "np": np}
    names.update({kind: maker(kind) for kind in DTYPES})
    before: list[Any] = []

    def remembered(kind: str) -> Any:
        make = names[kind]

        def both(*sizes: int) -> Any:
            x = make(*sizes)
            before.append(state(x))
            return x

        return both

    names.update({kind: remembered(kind) for kind in DTYPES})
    t.manual_seed(7)
    signal.signal(signal.SIGALRM, _stop)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            signal.alarm(10)
            return Outcome(None, eval(text, names), "")  # noqa: S307
        except Exception as error:  # noqa: BLE001
            for x, was in zip(made, before, strict=False):  # one may have failed
                if t is weft and state(x) != was:  # PyTorch's may be no tensors any more
                    return Outcome(error, None, f"{was[:4]} is now {state(x)[:4]}")
            return Outcome(error, None, "")
        finally:
            signal.alarm(0)


# ---- comparison

# What Python says of a value that nothing was expected of.
BARE = re.compile(
    r"object has no attribute|unsupported operand|not supported between|object is not (iterable|"
    r"subscriptable|callable)|has no len\(\)|object cannot be interpreted|must be real number|"
    r"cannot unpack|not enough values|too many values|bad operand|out of range$|is not defined|"
    r"local variable|^$|positional indexers|could not be converted"
)
# Types that PyTorch raises only by mistake: its own Python code tripped over the argument.
SLIPS = (AttributeError, AssertionError, UnboundLocalError, KeyError, NameError, SystemError)
PACKAGE = str(Path(weft.__file__).parent)


def is_bare(error: BaseException) -> bool:
    """Whether Python's words come out of the library, not out of the text of the call."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    inside = trace is not None and trace.tb_frame.f_code.co_filename.startswith(PACKAGE)
    named = str(error).startswith("[")  # it may quote Python's behind words of its own
    return inside and not named and bool(BARE.search(str(error)))


def values_differ(a: Any, b: Any) -> str:
    """In what the result `a` of weft's differs from PyTorch's `b`, or ''."""
    if hasattr(b, "dtype") and hasattr(b, "detach"):
        if not hasattr(a, "detach"):
            return f"a {type(a).__name__} for a tensor"
        if tuple(a.shape) != tuple(b.shape):
            return f"shape {tuple(a.shape)} for {tuple(b.shape)}"
        if str(a.dtype) != str(b.dtype):
            return f"{a.dtype} for {b.dtype}"
        if a.requires_grad != b.requires_grad:
            return f"requires_grad {a.requires_grad}"
        x, y = plain(a), plain(b)
        limit = 3e-2 if b.dtype.itemsize == 2 else 2e-4
        with np.errstate(all="ignore"):
            close = x.shape == y.shape and np.allclose(x, y, limit, limit, equal_nan=True)
        return "" if close else "values"
    if isinstance(b, (list, tuple)):
        if not isinstance(a, (list, tuple)) or len(a) != len(b):
            return f"a {type(a).__name__} for a {type(b).__name__}"
        return next((d for d in map(values_differ, a, b) if d), "")
    if isinstance(b, (bool, int, str)) or b is None:
        return "" if a == b and type(a) is type(b) else f"{str(a)[:30]} for {str(b)[:30]}"
    if isinstance(b, (float, complex)):
        return "" if np.isclose(a, b, 1e-4, 1e-4, equal_nan=True) else f"{a} for {b}"
    return ""


def difference(text: str, ours: Outcome, theirs: Outcome) -> str:
    """In what the law fails, or ''."""
    mine, peer = ours.error, theirs.error
    if ours.changed:
        return f"changed: {ours.changed}"
    if mine is None and peer is None:
        return values_differ(ours.result, theirs.result)
    if mine is None:
        return f"accepted for {type(peer).__name__}"
    if peer is None:
        return f"{type(mine).__name__} for a result"
    names = {type(error).__name__.lstrip("_") for error in (mine, peer)}
    if not isinstance(mine, type(peer)) and len(names) > 1:
        slip = isinstance(peer, SLIPS) or is_slip_of_pytorch(str(peer))
        if not slip or isinstance(mine, SLIPS):
            return f"{type(mine).__name__} for {type(peer).__name__}"
    return "bare words" if is_bare(mine) else ""


def is_slip_of_pytorch(words: str) -> bool:
    """Whether PyTorch's error is Python's word about what its own code did with the argument."""
    return bool(BARE.search(words) or "ufunc" in words or "concatenate" in words)


class Kept(NamedTuple):
    """Differences that stay: patterns of the call, of what differs and of both's words."""

    reason: str
    call: str = ""
    what: str = ""
    theirs: str = ""
    ours: str = ""


KEPT = [
    Kept(
        "a number stands for a 0-d tensor in every pointwise op",
        what="accepted for TypeError|for TypeError$",
        theirs=r"must be Tensor, not (int|float|bool|complex|numpy)|(addc|lerp|clamp|clip|clamp_max"
        r"|clamp_min|bitwise_.*_shift|fill|where|xlogy)\w*\(\) received an invalid",
    ),
    Kept(
        "a floating tensor takes every int that a float holds",
        what="accepted|for OverflowError",
        theirs="int too big|can't convert negative int",
    ),
    Kept(
        "an int of more than 64 bits is told by the parameter, as all that does not fit it",
        theirs="Overflow when unpack|int too big|can't convert negative|too large to convert",
    ),
    Kept(
        "an int of more than 64 bits is told by the parameter, as all that does not fit it",
        call=r"\d{19}",
        what="(ValueError|OverflowError|RuntimeError) for (TypeError|a result)",
        ours="64 bits",
    ),
    Kept("`self` names the first argument of a function too", call=r"\bself="),
    Kept("the reflected operators are Python's slots, which count arguments", call=r"__r\w+__\("),
    Kept("memory that nobody wrote", call=r"\b(new_)?empty\w*\(|resize", what="values"),
    Kept(
        "memory of NumPy's arrays is left alone where a tensor over it needs more",
        theirs="resize storage that is not resizable",
    ),
    Kept("ops have the dtypes that they can have", what="accepted for NotImplementedError"),
    Kept(
        "ops have the dtypes that they can have",
        what="accepted for RuntimeError",
        theirs="must be either float or double|floating.point|not support uint8|Unsupported input "
        "type|have dtype of long|could not infer output dtype|to have one of the following",
    ),
    Kept(
        "a loss of one dtype and another is in that which they promote to",
        call="(huber|hinge_embedding|mse|l1)_loss|(Huber|HingeEmbedding|MSE|L1)Loss",
        what="^torch.|accepted for RuntimeError",
        theirs="^$|can't be cast",
    ),
    Kept(
        "a dtype that an op has not is RuntimeError in the factors of matrices",
        what="RuntimeError for NotImplementedError",
        theirs="not implemented for",
    ),
    Kept(
        "a reduction that is no str is TypeError, as every argument of another type",
        what="TypeError for ValueError",
        theirs="is not a valid value for reduction",
    ),
    Kept(
        "the right type comes before the right value: a wrong type is TypeError at once",
        what="^TypeError for (ValueError|RuntimeError|NotImplementedError|IndexError)$",
    ),
    Kept(
        "an op computes in the dtype that its operands promote to",
        what="accepted for RuntimeError|IndexError for RuntimeError",
        theirs="same dtype|expected scalar type|dtypes match|must be integral|dtypes must be the "
        "same|dtype float for `weight`|Found dtype|can't be cast to the desired output type Long",
    ),
    Kept(
        "norms want parameters of the input's dtype",
        call="Norm|_norm",
        what="RuntimeError for a result|dtype|torch.float",
    ),
    Kept("a failing factorisation leaves no half of its factor", call="cholesky_ex", what="values"),
    Kept("PyTorch's FFT fails over empty batches", theirs="MKL FFT error"),
    Kept("0-d tensors stand for ints and lists of one", what="accepted", theirs="not Tensor"),
    Kept("out= everywhere", call="out=None", what="accepted"),
    Kept(
        "out= everywhere",
        call="out=",
        what="for TypeError$",
        theirs="argument 'out'|invalid combination of .*out=|takes no keyword",
    ),
    Kept(
        "`input` and `other` name the operands of every special function",
        call="t.special.",
        what="accepted for TypeError",
        theirs='"x"|other=',
    ),
    Kept(
        "None is an argument that is left out",
        call="None",
        what="accepted for TypeError",
        theirs="NoneType|takes 1 positional",
    ),
    Kept(
        "values of every kind that make a tensor can be assigned",
        call="__setitem__",
        what="(accepted|Error) for TypeError",
        theirs="can't assign a",
    ),
    Kept(
        "a list is one index, as PyTorch warns that it will be",
        call=r"\[\[|\[\.\.\., |\], \d\]|__[gs]etitem__\(.*[\[(]",
        what="shape|a result|(ValueError|RuntimeError|IndexError) for",
        ours="tensor|index|^$",
    ),
    Kept(
        "one int stands for a list of one, then its value is told",
        call="move(dim|axis)",
        what="RuntimeError for TypeError",
    ),
    Kept(
        "a count of channels that is no int divides by no groups",
        call="LazyConv",
        what="ValueError for TypeError",
    ),
    Kept(
        "a window may lie in the padding more than in the input",
        call="avg_pool3d",
        what="accepted",
        theirs="smaller than kernel size",
    ),
    Kept(
        "gradients by complex numbers and of nothing",
        call="jacobian|func.grad|vjp|hessian",
        what="accepted",
        theirs="real scalar outputs|non-empty TensorList",
    ),
    Kept(
        "batches and sequences of no elements are computed",
        what="accepted for RuntimeError",
        theirs="possibly 0 batch size|Cannot pack empty|non-zero size for non-batch|primitive desc",
    ),
    Kept("no dims are rolled, or reduced, as said", what="accepted", theirs="`shifts` required"),
    Kept(
        "what has no gradient may require one",
        what="accepted for RuntimeError",
        theirs="is not differentiable with respect to argument",
    ),
    Kept(
        "functions in Python look at an argument when they use it",
        what="accepted for TypeError",
        call="_loss",
        theirs="must be float, not",
    ),
    Kept("tensors in a list stack", call=r"t.tensor\(\[T", what="accepted for ValueError|a result"),
    Kept(
        "the mean over all windows is that of any shape",
        call=r"AdaptiveAvgPool\dd\(1\)",
        what="for a result",
    ),
    Kept("`input` names the first operand everywhere", call="t.linalg.*input=", what="accepted"),
    Kept(
        "sublists of subscripts are told by their values",
        call="einsum",
        what="ValueError for RuntimeError",
    ),
    Kept("gradients are floating", call="backward", what="for a result"),
    Kept("no elements, upsampled", call="psampl|interpol", what="accepted", theirs="Non-empty"),
    Kept(
        "no dims are rolled, or reduced, as said", what="accepted", theirs="broadcast shape .1, 1."
    ),
    Kept("None is an argument that is left out", call="None", what="accepted for TypeError"),
    Kept("dims are told before their number", call="tensordot|matrix_norm", what="IndexError for"),
    Kept("windows of no numbers have no maximum", call="fractional_max", what="for a result"),
    Kept("`input` names the first operand everywhere", call="t.*input=", what="accepted"),
    Kept("floats are no indices", call=r"\[.*(np\.ones|1\.5)", what="IndexError for a result"),
    Kept(
        "the containers speak in PyTorch's words",
        what="bare words",
        call="ModuleList|ParameterList|ParameterDict|Sequential",
    ),
    Kept(
        "what is wrong with a dtype is told before what is wrong with a shape",
        what="^(RuntimeError|NotImplementedError) for (IndexError|ValueError)$",
        ours="dtype|float32",
    ),
    Kept("0-d tensors stand for ints", what="accepted", theirs="a 0-d tensor"),
    Kept("pinv takes one tolerance for all matrices", call="pinv", what="TypeError for a result"),
    Kept(
        "a shape is an int, a tuple or a list",
        call="broadcast_shapes|unravel_index",
        what="for a result| for 0|accepted",
    ),
    Kept("PyTorch reads beyond the tensor", call="take_along_dim|CircularPad", what="for a result"),
    Kept(
        "a bias has a value for each row",
        what="RuntimeError for a result",
        ours="expected a bias|bias of the input's dtype",
    ),
    Kept("a bool is no number to subtract from", call="True|False", ours="Subtraction"),
    Kept(
        "an op in place that has no gradient wants no leaf either",
        call="logical_",
        what="RuntimeError for a result",
    ),
    Kept(
        "factors and states are of one dtype",
        what="RuntimeError for a result",
        ours="one dtype|of one floating dtype|a floating or complex tensor",
    ),
    Kept(
        "PyTorch's slip: what it calls with the argument is none of its functions",
        what="accepted for (TypeError|OverflowError)",
        theirs=r"any\(\) received|interpreted as an integer|unsigned byte",
    ),
    Kept("frombuffer reads what shares memory", call="frombuffer", what="accepted"),
    Kept("a tensor of no elements is of any size", what="cannot compare.*too big"),
    Kept(
        "ops for bool, integer and complex dtypes that are not written",
        what="^NotImpl.* a result",
        call="logdet|[fF]old|cummin|cummax|interpolate|upsample|AdaptiveAvg|SoftMargin|BCEWithLogits",
    ),
    Kept("split_copy takes what split takes", call="split_copy", what="for TypeError"),
    Kept(
        "windows of no or one point check their arguments too",
        call="signal.windows",
        what="TypeError for a result",
    ),
    Kept(
        "an index or dim out of range is IndexError everywhere",
        what="^IndexError for (RuntimeError|a result)$",
        ours="out of range|expected a dim in|rising offsets|that is not empty",
    ),
    Kept(
        "the results of an empty batch: PyTorch runs its checks later",
        call=r"\(0, |\(0\)",
        what="(RuntimeError|NotImplementedError|IndexError) for a result",
    ),
    Kept(
        "PyTorch unshuffles no elements to the shape before", call="pixel_unshuffle", what="shape"
    ),
    Kept("an array without elements has any strides", call=r"\.stride\(", what=" for 0$"),
    Kept(
        "a gradient that PyTorch has not written either",
        what="requires_grad",
        call="ldl_factor|histogram|geqrf|unique",
    ),
    Kept("logit with bounds that cross", call="logit", what="values"),
    Kept("bounds that are NaN", call=r"hardtanh.*nan", what="values"),
    Kept(
        "what is true is no bool: PyTorch's functions in Python take everything for one",
        what="^TypeError for a result$",
        ours="expected a bool",
    ),
    Kept(
        "functions in Python take what is true for True, as PyTorch's do where they are in Python",
        what="^accepted for TypeError$",
        theirs=r"(must|should) be (of type )?bool|requires_grad=numpy.bool",
    ),
    Kept(
        "a bool is no size: PyTorch looks at the first of several ints only",
        call="True|False",
        what="^TypeError for a result$",
        ours="must be (an int or )?ints|expected ints",
    ),
    Kept(
        "an int tensor stands for an int if it has no dimensions, for PyTorch also as one element",
        call=r"I\(1\)",
        what="for a result$",
        ours=r"(expected|must be) (an int|ints)|depth 1",
    ),
    Kept(
        "one int stands for a list of one, then its value is told",
        what="for TypeError$",
        theirs=r"must be tuple of ints, not (int|numpy\.int64|Tensor)$|_copy\(\) received an "
        r"invalid combination of arguments - got \(Tensor, int\)",
    ),
    Kept(
        "a shape with too few dimensions is told as a shape: PyTorch trips over a size it asks for",
        what="^RuntimeError for IndexError$",
        ours="expected .*(shape|dim|size|input|gates|bias|tensors of|row|factor|matri|element)",
        theirs="Dimension out of range|Dimension specified as|tuple index out of range",
    ),
    Kept(
        "the signs of vectors and the order of eigenvalues are free", call="eig|svd", what="values"
    ),
    Kept(
        "the positional alpha of add and sub, deprecated since 1.5",
        call=r"(add|sub)_?\(.*, ",
        what="TypeError for a result",
    ),
    Kept(
        "an argument behind the last is ignored by PyTorch",
        call=r"[hvd]split\(",
        what="TypeError for a result",
    ),
    Kept("a number is no dtype", call=r"\.to\(|dtype=", what="a result|torch", ours="^$|a dtype"),
    Kept(
        "polynomials are computed in float64, which overflows later",
        call="_polynomial_",
        what="values",
    ),
    Kept("a hook is a function, told at once", call="register_hook", what="for a result"),
    Kept(
        "a comparison has no gradient, in place neither",
        call=r"\.(g|l|eq|ne|not_e|eq|le)\w*_\(",
        what="requires_grad",
    ),
]


def kept(text: str, what: str, ours: str, theirs: str) -> Kept | None:
    told = (text, what, ours, theirs)
    return next(
        (k for k in KEPT if all(map(re.search, (k.call, k.what, k.ours, k.theirs), told))),
        None,
    )


class Difference(NamedTuple):
    call: str
    what: str
    ours: str
    theirs: str


def compare(torch: Any, text: str) -> Difference | None:
    theirs = run(torch, text)
    if isinstance(theirs.error, TooLong):
        return None
    ours = run(weft, text)
    try:
        what = difference(text, ours, theirs)
    except Exception as error:  # noqa: BLE001
        what = f"cannot compare: {error!r}"
    if not what or kept(text, what, str(ours.error or ""), str(theirs.error or "")):
        return None

    def told(o: Outcome) -> str:
        try:
            words = repr(o.error) if o.error is not None else str(o.result)
        except Exception as error:  # noqa: BLE001
            words = f"a {type(o.result).__name__} whose words fail: {error!r}"
        return re.sub(r"\s+", " ", words)[:300]

    return Difference(text, what, told(ours), told(theirs))


def differences(
    torch: Any, calls: int, seed: int, only: str = "", last: Path | None = None
) -> Iterator[Difference]:
    """The unlisted differences among so many random calls."""
    rng = random.Random(seed)
    lines = [line for line in CALLS if only in line]
    for _ in range(calls):
        text = wrong_call(rng, lines)
        if ENDLESS.search(text):
            continue
        if last:
            last.write_text(text)
        found = compare(torch, text)
        if found:
            yield found


def callee(text: str) -> str:
    return re.sub(r"^\w\([\d, ]*\)\.", ".", text).split("(")[0][:50]


def main() -> int:
    import torch

    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--calls", type=int, default=20000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", default="", help="only lines that hold this text")
    options.add_argument("--show", type=int, default=1, help="examples of each kind")
    options.add_argument("--last", type=Path, help="a file that names the call under way")
    given = options.parse_args()
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # huge sizes fail at once
    torch.set_num_threads(1)
    groups: dict[Any, list[Difference]] = collections.defaultdict(list)
    total = 0
    for d in differences(torch, given.calls, given.seed, given.only, given.last):
        groups[callee(d.call), d.what[:40]].append(d)
        total += 1
    for (name, what), found in sorted(groups.items(), key=lambda g: -len(g[1])):
        print(f"{len(found):4} {name}: {what}")
        for d in found[: given.show]:
            print(f"       {d.call}\n         weft:  {d.ours}\n         torch: {d.theirs}")
    print(f"{total} unlisted differences in {given.calls} calls, seed {given.seed}")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
