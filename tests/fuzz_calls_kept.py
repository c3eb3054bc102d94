"""Differences from PyTorch in wrong calls that stay, each with its reason: see fuzz_calls.py."""

from __future__ import annotations

import re
from typing import NamedTuple


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
        "same|dtype float for `weight`|Found dtype"
        "|can't be cast to the desired output type (Long|unsigned char)",
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
        call=r"\[\[|\[\.\.\., |\], \d\]|\[:, \[|__[gs]etitem__\(.*[\[(]",
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
    Kept(
        "tensors in a list stack",
        call=r"t\.(as_)?(tensor|array)\(\[T",
        what="accepted for ValueError|a result",
    ),
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
    Kept("windows of no numbers have no maximum", call="ractional_?[mM]ax", what="for a result"),
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
        what="(accepted|ValueError) for (TypeError|OverflowError)",
        theirs=r"any\(\) received|interpreted as an integer|unsigned byte",
    ),
    Kept("frombuffer reads what shares memory", call="frombuffer", what="accepted"),
    Kept("a tensor of no elements is of any size", what="cannot compare.*too big"),
    Kept(
        "ops for bool, integer and complex dtypes that are not written",
        what="^NotImpl.* a result",
        call="logdet|[fF]old|cummin|cummax|interpolate|[uU]psampl|AdaptiveAvg|SoftMargin|soft_margin"
        "|BCEWithLogits|cross_entropy_with_logits",
    ),
    Kept("split_copy takes what split takes", call="split_copy", what="for TypeError"),
    Kept(
        "windows of no or one point check their arguments too",
        call="signal.windows",
        what="(Type|Value)Error for a result",
    ),
    Kept(
        "an index or dim out of range is IndexError everywhere",
        what="^IndexError for (RuntimeError|a result)$",
        ours="out of range|expected a dim|rising offsets|that is not empty",
    ),
    Kept(
        "the results of an empty batch: PyTorch runs its checks later",
        call=r"\(0, |\(0\)",
        what="(RuntimeError|NotImplementedError|IndexError) for a result",
    ),
    Kept(
        "PyTorch unshuffles no elements to the shape before",
        call="[pP]ixel_?[uU]nshuffle",
        what="shape",
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
        call=r"[IT]\(1\)",
        what="for a result$",
        ours=r"(expected|must be|to be|or) (an int|ints)|depth 1|expected cutoffs",
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
        ours="expected .*(shape|dim|size|input|gates|bias|feature|tensors of|row|factor|matri"
        "|element)",
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
    Kept(
        "a complex number for a real one is RuntimeError, as everywhere",
        call="clamp",
        what="RuntimeError for NotImplementedError",
        ours="cannot be converted",
    ),
    Kept("PyTorch reads beyond the tensor", ours="expected class numbers"),
    Kept("numbers that the documents exclude", ours="smoothing between|but got nan|than 2..31"),
    Kept(
        "PyTorch's slip: its own words are of another function, or it asks to report them",
        theirs="INTERNAL ASSERT|improved|ZeroDivisionError|division or modulo by zero"
        "|index 0 is out of range",
    ),
    Kept("a size that overflows is told as a size", ours="too big|upscale_factor|64 bits"),
    Kept(
        "PyTorch rounds every power to the half",
        call=r"H\(.*matrix_exp|matrix_exp\(H",
        what="values",
    ),
    Kept("PyTorch counts what it need not make", theirs="numel: integer multiplication overflow"),
    Kept("out= everywhere", what="accepted", theirs="Expected out tensor to have dtype"),
    Kept(
        "a NumPy int is an int, and a tensor of one element where lists are taken",
        call="adaptive_|Adaptive",
        what="accepted",
        theirs="has no len|output_size.* must be|output_size.size",
    ),
    Kept(
        "arrays, ranges and bytes are no sizes and no tensors",
        call=r"b'x'|range\(2\)|np\.(arange|ones)\(",
        what="TypeError for a result",
    ),
    Kept(
        "`axis` names a dim everywhere, out of range or not",
        call="axis=",
        what="IndexError for TypeError",
    ),
    Kept("PyTorch pads what broadcasts", call="pad_sequence", what="RuntimeError for a result"),
    Kept("a layer without features says so", call="nn.Bilinear", ours="must be > 0"),
]


def kept(text: str, what: str, ours: str, theirs: str) -> Kept | None:
    told = (text, what, ours, theirs)
    return next(
        (k for k in KEPT if all(map(re.search, (k.call, k.what, k.ours, k.theirs), told))),
        None,
    )
