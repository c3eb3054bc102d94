"""Differences between weft and PyTorch that stay, each by its cause, with the reason.

`known` gives the reason of a difference, or None. A cause is as narrow as can be told: by the kind
of the difference (autodiff_fuzz.compare), by the messages of the exceptions, and by the statements
that made or wrote the variable. No cause covers a value or a gradient, but where it is PyTorch's
own fault and says so. `undrawn` is for calls that PyTorch itself answers wrongly.
"""

import itertools
import math
import re

# What a program does not do, as PyTorch's answer is not to be compared with.
UNDRAWN = [
    (
        r"(v\d+)\.(masked_scatter|addmm)_\(.*\b\1\b.*\)$",
        "reads numbers that it has overwritten, where the source is the target",
    ),
    (
        r"inference_mode\(\):(.|\n)*\.detach_\(\)",
        "detach_() in inference mode does nothing at all",
    ),
    (r"t\.cross\((v\d+), \1\)", "is 1e-17 where it should be 0, which is then divided by"),
]

# Calls that are one op with one node in PyTorch and several ops in weft, or end in other ones: the
# node that a result prints is the last op's. By PyTorch's node, the calls.
ONE_NODE = {
    "AsStridedBackward0": "einsum",
    "BlockDiagBackward0": "block_diag",
    "CdistBackward0": "cdist",
    "CloneBackward0": "matmul|linear|reshape|flatten",
    "ComplexBackward0": "corrcoef",
    "DiagonalScatterBackward0": "diagonal_scatter",
    "DistBackward0": "dist",
    "DivBackward1": "trapezoid|cumulative_trapezoid",
    "LinalgCrossBackward0": "cross",
    "ModeBackward0": "mode",
    "RenormBackward0": "renorm",
    "Rot90Backward0": "rot90",
    "SelectScatterBackward0": "select_scatter",
    "SliceScatterBackward0": "slice_scatter",
    "SqueezeBackward4": "quantile",
    "TraceBackward0": "trace",
    "ViewBackward0": "einsum",
}
# Calls whose result lies in memory as PyTorch's does not where the input is permuted.
LAID = (
    r"\b(kron|sort|renorm|i?r?fft2?|dist|i0|index_fill|mse_loss|smooth_l1_loss|rot90|angle|diff"
    r"|masked_fill|einsum)\(|\.data = |\.grad = "
)
HOOKED_AGAIN = (
    r"hook\((v\d+),(.|\n)*\b\1\.(t|squeeze|unsqueeze|transpose|swapaxes)_\((.|\n)*hook\(\1,"
)
# What is one node in PyTorch and several here, with other gradients between.
SEVERAL = re.compile(
    r"\b2 / \(|\.(trace|mode|norm|einsum|linear|kron|cdist|renorm|tensordot|inner|outer|dist"
    r"|block_diag|rot90|quantile|cross|trapezoid|cumulative_trapezoid|normalize|matmul"
    r"|\w+_scatter|corrcoef|cov)\(| @ "
)


def lines(statements):
    return [line.strip() for text in statements for line in text.split("\n")]


def makers(name, statements):
    """The lines that assign to a variable."""
    return [
        line for line in lines(statements) if re.match(rf"([v\d, ]*\b)?{name}\b,?[v\d, ]* = ", line)
    ]


def named(text):
    """The variable that a difference is of."""
    found = re.match(r"[a-z_ ]+ of (v\d+):", text)
    return found[1] if found else ""


def made_of_gradients(name, statements, depth=4):
    """Whether a variable is a gradient, or made of one."""
    made = makers(name, statements)
    if any(".grad" in line or "t.func." in line for line in made):
        return True
    return depth > 0 and any(
        made_of_gradients(used, statements, depth - 1)
        for line in made
        for used in set(re.findall(r"\bv\d+\b", line.partition(" = ")[2])) - {name}
    )


UNRECORDED = re.compile(
    r"(no_grad|inference_mode|set_grad_enabled)\(.*\):(.|\n)*"
    r"\.(t|squeeze|unsqueeze|transpose|swapaxes)_\("
)


def node_names(kind, text, statements):
    """The name of a node, and nothing else."""
    found = re.fullmatch(r"(grad )?grad_fn (\w+) (\w+)", kind)
    if not found or not all(
        re.search(r"Backward\w*$|CopySlices|NotImplemented|^Error$", name)
        for name in found.groups()[1:]
    ):
        return None
    of_gradient, first, _ = found.groups()
    call = ONE_NODE.get(first)
    if call and re.search(rf"\b({call})\(", "\n".join(statements)):
        return "the call is one op in PyTorch and several here"
    if first in (
        "AsStridedBackward0",
        "CloneBackward0",
        "TransposeBackward0",
    ) and re.search(r" @ |\bmatmul\(", "\n".join(statements)):
        return "the shapes that one product serves"
    second = "create_graph=True" in "\n".join(statements)
    if second and (of_gradient or made_of_gradients(named(text), statements)):
        return "a gradient's formula is one op here and several there"
    if found[2] == "Error" and found[3] == "_OnceBackward":
        return "the node of what must not be differentiated twice"
    if {found[2], found[3]} == {"AsStridedBackward0", "ViewAsRealBackward0"}:
        return "which view a view of real parts is made anew by"
    if first == "AsStridedBackward0" and re.search(
        r"detach_\(|requires_grad_\(", "\n".join(statements)
    ):
        return "PyTorch makes views anew of a base that is not in the graph any more"
    if re.match(r"(T|Transpose|Squeeze|Unsqueeze)Backward\d", found[3]) and UNRECORDED.search(
        "\n".join(statements)
    ):
        return "PyTorch: t_() under no_grad leaves the node of the former shape"
    if {found[2], found[3]} == {"UnsafeViewBackward0", "ViewBackward0"}:
        return "whether reshape copies depends on how a result lies in memory"
    if {found[2], found[3]} == {"AsStridedBackward0", "ViewAsComplexBackward0"}:
        return "which view a view of real parts is made anew by"
    if first == "AliasBackward0":
        return "a slice of everything is an alias in PyTorch"
    return None


# By the messages of exceptions: (kinds, pattern of what PyTorch says, of what weft says, reason).
ERRORS = [
    (
        "RuntimeError NoneType",
        r"Expected isFloatingType\(grad.scalar_type\(\)\)",
        "",
        "a complex gradient of a real tensor: PyTorch refuses, its real part is right",
    ),
    (
        "RuntimeError NoneType",
        "does not support automatic differentiation for outputs with complex dtype",
        "",
        "PyTorch has no complex gradient of the op",
    ),
    (
        "RuntimeError NoneType",
        r"derivative for aten::\w+ is not implemented",
        "",
        "where nothing leads on, the missing gradient is not asked for",
    ),
    ("RuntimeError NoneType", "MKL FFT error", "", "PyTorch: FFT of no elements"),
    (
        r"\w+ RuntimeError",
        "",
        "expected a normal tensor, or a write in inference mode",
        "which of two faults of a write is told; some functions of PyTorch make normal tensors in "
        "inference mode",
    ),
    (
        "NoneType RuntimeError",
        "",
        r"\[save_for_backward\] expected a normal tensor, got an inference tensor",
        "some functions of PyTorch make normal tensors in inference mode",
    ),
    (
        "RuntimeError NoneType",
        "Inplace update to inference tensor outside InferenceMode",
        "",
        "a gradient that is an inference tensor is replaced where PyTorch would write it",
    ),
    (
        "RuntimeError NoneType",
        "more than one element of the written-to tensor refers to a single memory location",
        "",
        "PyTorch's gradient of a sum is one number in many places, which cannot be written",
    ),
    (
        "RuntimeError NoneType",
        "Negation, the `-` operator, on a bool tensor",
        "",
        "PyTorch has no gradient of atan2 beside a bool",
    ),
    (
        "RuntimeError IndexError",
        "is a view and its base or another view of its base has been modified inplace",
        "",
        "which of two faults of a call is told",
    ),
    (
        "NoneType RuntimeError",
        "",
        r"\[view\] expected a last size.* got shape \[.*\b0\b.*\]",
        "how a result without elements lies in memory",
    ),
    (
        "RuntimeError NoneType",
        "on a tensor with unallocated storage",
        "",
        "PyTorch: a gradient of zeros whose numbers cannot be read",
    ),
    (
        "NotImplementedError NoneType",
        "derivative for '_cdist_backward' is not implemented",
        "",
        "PyTorch has no second gradient of cdist",
    ),
    (
        "NoneType IndexError",
        "",
        r"\[index_fill\] expected a dimension that is not empty",
        "PyTorch does not look at the index where there are no elements",
    ),
    (
        "RuntimeError NoneType",
        r"expected scalar type \w+ but found \w+",
        "",
        "cross of mixed dtypes",
    ),
    (
        "RuntimeError IndexError",
        "setStorage",
        "",
        "which of two faults of a call without elements is told",
    ),
    (
        "RuntimeError NoneType",
        r"self.stride\(-?\d+\) must be (1|divisible by 2)|must have a stride divisible by 2",
        "",
        "PyTorch looks at strides where there are no elements",
    ),
    (
        "NoneType RuntimeError",
        "",
        r"\[view\] expected a last dim of stride 1, got stride \d",
        "how a gradient without elements lies in memory",
    ),
    (
        "RuntimeError NoneType",
        "your Function cannot return more than one Tensor",
        "",
        "ifft of real numbers is a lazy view in PyTorch",
    ),
    (
        "RuntimeError NoneType",
        "This view was created inside a custom Function",
        "",
        "PyTorch looks again at a view that it saved where weft's formula saves nothing",
    ),
    (
        "RuntimeError NoneType",
        "Inference tensors cannot be saved",
        "",
        "PyTorch saves what weft's formula does not need",
    ),
    (
        "RuntimeError NoneType",
        r"Function \w+ returned an invalid gradient at index",
        "",
        "PyTorch: t_() under no_grad leaves the node of the former shape",
    ),
    (
        "IndexError RuntimeError",
        "their dimensionality must match",
        "",
        "which of two faults of a call is told",
    ),
    (
        "RuntimeError NoneType",
        "has been detached in-place",
        "",
        "PyTorch cannot go back through what detach_() was called on, which is kept as it was",
    ),
    (
        r"RuntimeError \w+",
        "some elements of the input tensor and the written-to tensor refer to a single memory",
        "",
        "the source overlaps the target: PyTorch refuses, weft reads first",
    ),
    (
        "NotImplementedError RuntimeError",
        "is not supported for complex",
        "expected a tensor whose elements lie apart",
        "which of two faults of a write is told",
    ),
    (
        "NoneType RuntimeError",
        "",
        "expected a tensor whose elements lie apart",
        "a write to an expanded tensor: deprecated in PyTorch where it does not refuse",
    ),
    (
        "NoneType RuntimeError",
        "",
        r"\[bmm\] expected two tensors of one dtype",
        "einsum of mixed dtypes: PyTorch takes it where a size is 1",
    ),
    (
        "NoneType RuntimeError",
        "",
        r"\[index_copy\] expected a source of self's shape",
        "index_copy with a 0-d self or source",
    ),
    (
        "RuntimeError IndexError",
        "must have same slice shapes",
        "",
        "which of two faults of a call without elements is told",
    ),
    (
        "IndexError NoneType",
        r"expected to be in range of \[-1, 0\], but got 1",
        "",
        "repeat_interleave of a 0-d tensor: PyTorch counts the copies as a dimension it lacks",
    ),
    (
        "IndexError RuntimeError",
        "index is out of bounds for dimension with size 0",
        "",
        "which of two faults of a write without elements is told",
    ),
    (
        "RuntimeError IndexError",
        "indexing axis dim should be positive|does not support complex input",
        "",
        "which of two faults of a call without elements is told",
    ),
    ("RuntimeError NoneType", "conjugate view", "", "conj() is a lazy view in PyTorch"),
    (
        "NoneType RuntimeError",
        "",
        r"\[as_strided\] .*out of bounds for storage",
        "the memory of a result is larger in PyTorch than the result",
    ),
    (
        "NoneType NotImplementedError",
        "",
        r"got (complex|int)\d+\.",
        "PyTorch does not look at the dtype where there are no elements, or one",
    ),
    (
        r"\w+ \w+",
        "ZeroTensors are immutable",
        "",
        "PyTorch: a gradient of zeros that cannot be added to",
    ),
]


def errors(kind, text):
    for kinds, theirs, ours, reason in ERRORS:
        if not re.fullmatch("error " + kinds, kind):
            continue
        _, first, second = (text.split("\n# ", 2) + ["", ""])[:3]
        if re.search(theirs, first) and re.search(ours, second):
            return reason
    return None


def on_several(text, statements):
    """Whether a hook that a difference is of is that of such a node."""
    name = re.search(r"log (h\d+)", text)
    if not name:
        return False
    hooked = re.search(rf"(v\d+)\.grad_fn\.\w+\(\w+\('{name[1]}'", "\n".join(statements))
    return bool(hooked) and any(SEVERAL.search(line) for line in makers(hooked[1], statements))


def less(text):
    """Whether what a node's hook was given differs by gradients that are absent in one."""
    numbers = {"nan": math.nan, "inf": math.inf, "nanj": math.nan, "infj": math.inf}
    first, second = (
        eval(part, numbers) for part in re.search(r"expected (.*), got (.*)", text).groups()
    )
    if not all(isinstance(part, list) and len(part) == 2 for part in (first, second)):
        return False
    if not all(isinstance(part, list) for part in (*first, *second)):
        return False
    pairs = itertools.zip_longest(first[0], second[0])
    return first[1] == second[1] and all(a is None or b is None or near(a, b) for a, b in pairs)


def given_with_graph(text, statements):
    """Whether gradients differ by whether they require grad alone, and one was given that does."""
    expected, got = re.search(r"expected (.*), got (.*)", text).groups()
    return (
        ".backward(" in "\n".join(statements)
        and re.search(r"\.(H|mH|conj\(\)|adjoint\(\))\b", "\n".join(statements))
        and expected.replace("True", "False") == got.replace("True", "False")
    )


def real_parts_alone(text, statements):
    """Whether gradients of complex numbers differ in their real parts alone, after two passes."""
    expected, got = re.search(r"expected (.*), got (.*)", text).groups()
    parts = [re.findall(r"[-+][\d.e-]+j", each) for each in (expected, got)]
    return (
        bool(parts[0])
        and parts[0] == parts[1]
        and "\n".join(statements).count(".backward(") > 1
        and "kind='complex" in "\n".join(statements)
    )


def near(a, b):
    """The same shapes and dtypes, and numbers but for the last bits."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, (float, complex)) and isinstance(b, (float, complex)):
        return a == b or abs(a - b) <= 1e-9 * max(1, abs(a))
    return a == b


# By the difference and what the program does: (kinds, pattern of the difference, of the program,
# reason); {name} stands for the variable that the difference is of.
RULES = [
    (
        r"(\w+ )?value",
        r"expected RuntimeError, got [\[\]0., -]*$",
        "",
        "PyTorch: a gradient of zeros whose numbers cannot be read",
    ),
    (
        "error NoneType RuntimeError",
        "saved value unchanged|expected one of several views of one call, as it was made",
        r"\bkron\(",
        "kron: PyTorch does not see that what it reads was written",
    ),
    (
        "version|.*AsStridedBackward0.*|error NoneType RuntimeError|is_leaf",
        "^version|^grad|saved value unchanged|^is_leaf.*expected RuntimeError",
        r"\.data = ",
        "x.data = y: PyTorch's x keeps a counter of writes of its own",
    ),
    (
        "error RuntimeError NoneType",
        "a leaf Variable that requires grad is being used",
        r"\.(t|squeeze|unsqueeze|transpose|swapaxes)_\(",
        "PyTorch takes a view that its base made part of the graph for a leaf until it is asked",
    ),
    (
        "version",
        "",
        r"Dirty\w*\.apply",
        "PyTorch: mark_dirty counts a write that is then refused",
    ),
    (
        "order|log hook",
        "",
        HOOKED_AGAIN,
        "PyTorch puts the second hook of a tensor where the first one is, before the change",
    ),
    ("grad layout", "", LAID, "a result lies otherwise in memory"),
    (
        "error (NoneType RuntimeError|RuntimeError NoneType)",
        "view size is not compatible with input tensor's size and stride"
        "|expected a last size, strides and an offset divisible",
        LAID,
        "a result lies otherwise in memory",
    ),
    (
        "version",
        "expected (RuntimeError, got 0|0, got RuntimeError)$",
        r"inference_mode",
        "PyTorch: some functions make normal tensors in inference mode",
    ),
    (
        "version",
        "",
        r"inference_mode\(\):(.|\n)*\.detach\(\)",
        "PyTorch: what shows an inference tensor counts its own writes",
    ),
    (
        r"is_leaf|grad_fn RuntimeError \w+",
        "expected RuntimeError, got",
        r"\.(t|squeeze|unsqueeze|transpose|swapaxes)_\(",
        "PyTorch cannot make a view anew whose base was laid out otherwise since",
    ),
    (
        r"requires_grad|grad_fn \w+ NoneType|is_leaf|error NoneType RuntimeError",
        "expected True, got False$|expected False, got True$"
        "|expected (RuntimeError|AsStridedBackward0), got (None|NoneType|True)$"
        "|got one that does not .element 0 of tensors does not require grad",
        r"requires_grad_\(\)|(Same|View|Part)\.apply\(",
        "a view made under no_grad of what required grad only later",
    ),
    (
        "grad (shape|value|layout)",
        "",
        r"\b{name}\.(t|squeeze|unsqueeze|transpose|swapaxes)_\(",
        "PyTorch: what retains a gradient keeps that of the former layout",
    ),
    (
        "error NoneType RuntimeError",
        "saved value unchanged",
        r"\beinsum\(",
        "einsum: PyTorch sums a factor first where the other has one element, and saves the sum",
    ),
    (
        "grad value",
        "",
        r"no_grad\(\):(.|\n)*\.(t|squeeze|unsqueeze|transpose|swapaxes)_\(",
        "PyTorch: t_() under no_grad leaves the node of the former shape",
    ),
    (
        "error RuntimeError NoneType",
        "This view is the output of a function that returns multiple views",
        r"no_grad\(\):(.|\n)*\.(t|squeeze|unsqueeze|transpose|swapaxes)_\(",
        "PyTorch: t_() of a view under no_grad counts as a write to the base",
    ),
    (
        "error RuntimeError NoneType",
        "This view is the output of a function that returns multiple views",
        r"DirtySaved\.apply\(",
        "PyTorch looks again at a view that a custom Function saved",
    ),
    (
        "error NoneType RuntimeError",
        "expected a view as it was made, got one made in no_grad mode",
        r"(save_on_cpu|saved_tensors_hooks)\((.|\n)*DirtySaved\.apply\(|\.requires_grad_\(False\)",
        "PyTorch does not look at a view that is packed, or whose flag is set",
    ),
    (
        "value|grad value|log.*",
        "nan",
        r"\b(dist|norm)\((.|\n)*create_graph=True",
        "PyTorch: the second gradient of a norm at 0 is NaN, the first one is 0",
    ),
    (
        r"grad_fn NoneType \w+|requires_grad|is_leaf",
        "",
        r"t\.func\.vjp\((.|\n)*create_graph=True",
        "a pullback's result leads to the transform's own input too",
    ),
    (
        "grad (shape|value)",
        "",
        r"(atleast_1d|broadcast_tensors|meshgrid)\((.|\n)*\.(t|squeeze|unsqueeze)_\(",
        "PyTorch: what retains a gradient keeps that of the former layout; several names of it",
    ),
    (
        "value",
        "",
        r"inference_mode\(\):(.|\n)*\.grad = {name}\b",
        "PyTorch adds to a gradient that is an inference tensor, outside of inference mode",
    ),
    (
        "value",
        "",
        r"{name}\b.* = t\.autograd\.grad\(\[.*\.sum\(\)(.|\n)*(_\(|\[.*\] .?= )",
        "PyTorch's gradient of a sum is one number in many places: a write to one is one to all",
    ),
    (
        "error NoneType RuntimeError",
        "expected a view as it was made, got one made in no_grad mode",
        r"t\.func\.",
        "PyTorch's transforms do not look whether a view may still be used",
    ),
    (
        r"requires_grad|is_leaf|grad_fn NoneType ScatterAddBackward0|log.*",
        r"^requires_grad|^is_leaf|^grad_fn|True, \[(\[\])?\]\)",
        r"leaf\((0, 2|.*\b0\b).*(.|\n)*t\.cummax\(",
        "cummax of no elements: PyTorch's gradient is the input",
    ),
    (
        "grad_fn RuntimeError NoneType|requires_grad|is_leaf",
        "",
        r"(Same|View|Part)\.apply\((v\d+)\)(.|\n)*\b\2\.\w+_\(",
        "PyTorch counts a write that it then refuses",
    ),
    (
        r"grad_fn RuntimeError \w+|is_leaf",
        "expected RuntimeError",
        r"\.detach_\(\)",
        "PyTorch cannot make views anew whose base was detached in place",
    ),
    (
        "order|grad value",
        "",
        r"\b{name}\.requires_grad_\(\)",
        "PyTorch: a view of a leaf that is a view loses its way when their base is written",
    ),
]


def known(difference, statements):
    """The reason of a listed difference (kind, text), or None."""
    kind, text = difference
    program = "\n".join(statements)
    for kinds, shown, does, reason in RULES:
        does = does.replace("{name}", named(text) or "none")
        if re.fullmatch(kinds, kind) and re.search(shown, text) and re.search(does, program):
            return reason
    if kind.startswith("error"):
        return errors(kind, text)
    if kind in ("order", "log hook") and on_several(text, statements):
        return "what is one node here is several there, with other gradients between"
    if kind == "grad value" and real_parts_alone(text, statements):
        return "PyTorch: one gradient's real part is another's memory, to which a pass adds"
    if kind.startswith("log ") and given_with_graph(text, statements):
        return "conj() is a lazy view in PyTorch: a gradient goes back as it was given"
    if kind == "log hook" and less(text):
        return "what goes to inputs that take no gradient: hooks of the node see more of it there"
    return node_names(kind, text, statements)


def undrawn(statement):
    """Why a statement is not part of programs, or None."""
    return next((why for pattern, why in UNDRAWN if re.search(pattern, statement)), None)
