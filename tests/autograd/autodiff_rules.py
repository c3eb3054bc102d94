"""Differences between weft and PyTorch that stay, as lists: what autodiff_known.py goes by.

Each cause has its reason. It is as narrow as can be told: by the kind of the difference
(autodiff_fuzz.compare), by the messages of the exceptions, and by the statements that made or
wrote the variable. No cause covers a value or a gradient, but where it is PyTorch's own fault and
says so.
"""

import re

# What a program does not do, as PyTorch's answer is not to be compared with.
UNDRAWN = [
    (
        r"DirtySaved\.apply\((v\d+), \1\)",
        "crashes now and then where a view without elements is both what is written and saved",
    ),
    (
        r"(v\d+)\.(masked_scatter|addmm)_\(.*\b\1\b.*\)$",
        "reads numbers that it has overwritten, where the source is the target",
    ),
    (
        r"inference_mode\(\):(.|\n)*\.detach_\(\)",
        "detach_() in inference mode does nothing at all",
    ),
    (
        r"\.expand\([^\n]*\.(masked_fill|index_fill)_\(",
        "crashes in backward, now and then, where one place is written many times",
    ),
    (r"t\.cross\((v\d+), \1\)", "is 1e-17 where it should be 0, which is then divided by"),
]

# Calls that are one op with one node in PyTorch and several ops in weft, or end in other ones: the
# node that a result prints is the last op's. By PyTorch's node, the calls.
ONE_NODE = {
    "AsStridedBackward0": "einsum|avg_pool1d|max_pool1d",
    "CdistBackward0": "cdist",
    "AddBackward0": "scaled_dot_product_attention",
    "CloneBackward0": "matmul|linear|reshape|flatten|rms_norm|batch_norm",
    "ComplexBackward0": "corrcoef",
    "DiagonalScatterBackward0": "diagonal_scatter",
    "DistBackward0": "dist",
    "DivBackward1": "trapezoid|cumulative_trapezoid",
    "GluBackward0": "glu",
    "LinalgCrossBackward0": "cross",
    "MmBackward0": "scaled_dot_product_attention",
    "ModeBackward0": "mode",
    "MulBackward1": "ndtr",
    "NormBackward1": "pairwise_distance",
    "RenormBackward0": "renorm",
    "Rot90Backward0": "rot90",
    "SelectScatterBackward0": "select_scatter",
    "SliceScatterBackward0": "slice_scatter",
    "SqueezeBackward4": "quantile",
    "TraceBackward0": "trace",
    "UnsafeViewBackward0": "scaled_dot_product_attention",
    "ViewBackward0": "einsum|scaled_dot_product_attention",
}
# Calls whose result lies in memory as PyTorch's does not where the input is permuted.
LAID = (
    r"\b(kron|sort|renorm|i?r?fft2?|dist|i0|index_fill|mse_loss|smooth_l1_loss|rot90|angle|diff"
    r"|masked_fill|einsum|\w+_scatter|rms_norm|batch_norm|logsigmoid"
    r"|scaled_dot_product_attention)\(|\.data = |\.grad = "
)
# Where nothing is recorded, and what takes another layout there.
UNRECORDED = (
    r"(no_grad\(\)|set_grad_enabled\(False\)|inference_mode\(\)):(.|\n)*"
    r"\.(t|squeeze|unsqueeze|transpose|swapaxes)_\("
)
HOOKED_AGAIN = (
    r"hook\((v\d+),(.|\n)*\b\1\.(t|squeeze|unsqueeze|transpose|swapaxes)_\((.|\n)*hook\(\1,"
)
# What is one node in PyTorch and several here, with other gradients between.
SEVERAL = re.compile(
    r"'circular'\)|"
    r"\b2 / \(|\.(trace|mode|\w*norm|einsum|linear|kron|cdist|renorm|tensordot|inner|outer|dist"
    r"|rot90|quantile|cross|trapezoid|cumulative_trapezoid|normalize|matmul"
    r"|\w+_scatter|corrcoef|cov|mse_loss|smooth_l1_loss|huber_loss|l1_loss|ndtr|rms_norm"
    r"|pairwise_distance|scaled_dot_product_attention|\w*cross_entropy\w*|kl_div|glu"
    r"|\w+_pool1d)\(| @ "
)

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
        r"\[index_fill\] expected (a dimension that is not empty|indices in)",
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
        r"(Function \w+ returned an )?invalid gradient at index",
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
        "PyTorch refuses what was detached in place where only its numbers are needed too",
    ),
    (
        "NoneType RuntimeError",
        "",
        "has been detached in-place",
        "PyTorch loses second gradients through what a custom Function saved, silently",
    ),
    (
        "NoneType RuntimeError",
        "",
        r"\[view_as_complex\] expected parts that lie behind each other, got strides \[.*0.*\]",
        "how a gradient without elements lies in memory",
    ),
    (
        "NoneType RuntimeError",
        "",
        r"\[view\] expected .* divisible by 2, got shape \[.*\b1\b.*\], strides",
        "a dimension of size 1 has a stride that says nothing, which PyTorch makes anew",
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
    (
        "RuntimeError NoneType",
        r"Found dtype \w+ but expected \w+",
        "",
        "PyTorch's huber_loss has no gradient where the target is an integer",
    ),
    (
        "NoneType RuntimeError",
        "",
        r"with a base that shows other memory since \(\.data = \)",
        "PyTorch goes back through a base that has nothing to do with the view any more",
    ),
    (
        "NotImplementedError NoneType",
        '"glu_cpu" not implemented for',
        "",
        "PyTorch has no glu of complex numbers",
    ),
    (
        "RuntimeError NoneType",
        r"Expected \dD or \dD",
        "",
        "PyTorch pads no elements by those that are not there where the batch is empty alone",
    ),
    (
        "RuntimeError NoneType",
        "Can't detach views in-place",
        "",
        "of what is outside of every graph nobody knows whether it is a view",
    ),
    (
        "NoneType RuntimeError",
        "",
        r"\[data\] expected a \w+ tensor of shape .* for a value that the graph has computed so",
        "PyTorch's nodes do not know that a value has another shape since",
    ),
    (
        "RuntimeError IndexError",
        "more than one element of the written-to tensor",
        "",
        "which of two faults of a write is told",
    ),
    (
        "IndexError RuntimeError",
        "out of bounds",
        "expected a tensor whose elements lie apart",
        "which of two faults of a write is told",
    ),
    (
        "RuntimeError NoneType",
        "A view was created in no_grad mode and its base",
        "",
        "where nothing leads on, what was saved is not looked at",
    ),
    (
        "RuntimeError NoneType",
        "conjugate view|unresolved conjugated",
        "",
        "conj() is a lazy view in PyTorch",
    ),
    (
        "NoneType RuntimeError",
        "",
        r"\[as_strided\] .*out of bounds for storage",
        "the memory of a result is larger in PyTorch than the result",
    ),
    (
        "NoneType NotImplementedError",
        "",
        r"got (complex|int)\d+(\.|$)",
        "PyTorch does not look at the dtype where there are no elements, or one",
    ),
    (
        r"\w+ \w+",
        "ZeroTensors are immutable",
        "",
        "PyTorch: a gradient of zeros that cannot be added to",
    ),
]

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
        "saved value unchanged|expected (one of several views of one call|a view), as it was made"
        "|expected a view as it was made",
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
        r"\.(t|squeeze|unsqueeze|transpose|swapaxes)_\(|Dirty\w*\.apply\(",
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
        "|expected parts that lie behind each other|can't assign Variable as its own grad"
        "|expected a last size, strides and an offset divisible",
        LAID,
        "a result lies otherwise in memory",
    ),
    (
        "version",
        r"expected (RuntimeError, got \d+|\d+, got RuntimeError)$",
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
        "|got one that does not .element 0 of tensors does not require grad"
        "|expected one of several views of one call, as it was made",
        r"requires_grad_\(\)|(Same|View|Part)\.apply\("
        r"|(no_grad\(\)|set_grad_enabled\(False\)):(.|\n)*_\(",
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
        "grad value|log.*|order",
        "",
        UNRECORDED,
        "PyTorch: t_() under no_grad leaves the node of the former shape",
    ),
    (
        "error RuntimeError NoneType",
        "This view is the output of a function that returns multiple views"
        "|which was created in no_grad mode",
        UNRECORDED,
        "PyTorch: t_() of a view under no_grad counts as a write to the base",
    ),
    (
        "error RuntimeError NoneType",
        "This view is the output of a function that returns multiple views",
        r"\b(dist|cummax|complex)\(",
        "PyTorch looks again at a view that it saved where weft's formula saves nothing",
    ),
    (
        "error RuntimeError NoneType",
        "Tensor must have a last dimension with stride 1",
        r"leaf\(0, ",
        "PyTorch looks at strides where there are no elements",
    ),
    (
        "error RuntimeError NoneType",
        "This view is the output of a function that returns multiple views",
        r"DirtySaved\.apply\(",
        "PyTorch looks again at a view that a custom Function saved",
    ),
    (
        "error NoneType RuntimeError",
        r"functions with out=\.\.\. arguments",
        r"inference_mode\(\):(.|\n)*\.data = (.|\n)*out=",
        "PyTorch: x.data = y makes of x an inference tensor if y is one, and no check sees it",
    ),
    (
        "error NoneType RuntimeError",
        "post accumulate grad hooks cannot be registered|element 0 of tensors does not require",
        r"(inference_mode\(|no_grad\(|set_grad_enabled\(False)\):",
        "PyTorch: a view taken unrecorded wants a gradient as soon as its base does",
    ),
    (
        "log see",
        r"expected \[True(.*), got \[False\1",
        r"(inference_mode\(|no_grad\(|set_grad_enabled\(False)\):(.|\n)*requires_grad_\(",
        "PyTorch: a view taken unrecorded wants a gradient as soon as its base does",
    ),
    (
        r"grad_fn \w+ NoneType|requires_grad|is_leaf",
        "",
        r"(Same|View|Part)\.apply\((v\d+)\)(.|\n)*\b\2\.(detach_\(\)\.)?requires_grad_\(",
        "PyTorch: a view taken unrecorded wants a gradient as soon as its base does",
    ),
    (
        "shape|value",
        r"expected \([\d, ]*\b0\b[\d, ]*\), got|expected [\[\], ]*, got [\[\], ]*$",
        r"scaled_dot_product_attention\(",
        "PyTorch: attention over no elements has the shape of the queries, not the common one",
    ),
    (
        "error NoneType RuntimeError",
        "saved value unchanged(.|\n)*in the backward of BmmBackward0",
        r"order=(.|\n)*\bmatmul\(",
        "PyTorch multiplies a copy of what lies in another order",
    ),
    (
        "grad value",
        "",
        r"t\.autograd\.grad\(\[.*\.sum\(\)(.|\n)*broadcast_tensors\((.|\n)*\.\w+_\(",
        "PyTorch's gradient of a sum is one number in many places: a write to one is to all",
    ),
    (
        "error RuntimeError NoneType",
        "This view is the output of a function that returns multiple views",
        r"\.data = ",
        "what shows other memory is no view any more; in PyTorch's graph it is",
    ),
    (
        "error NoneType RuntimeError",
        "Trying to backward through the graph a second time",
        r"avg_pool1d\((.|\n)*inputs=\[",
        "avg_pool1d gives a view in PyTorch, whose node is another one than the written one",
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
        r"((atleast_1d|broadcast_tensors|meshgrid|conj|resolve_conj|contiguous|double|to)\(|\.real\b)"
        r"(.|\n)*\.(t|squeeze|unsqueeze|transpose|swapaxes)_\(",
        "PyTorch: what retains a gradient keeps that of the former layout; several names of it",
    ),
    (
        "value",
        "",
        r"inference_mode\(\):(.|\n)*\.grad = {name}\b",
        "PyTorch adds to a gradient that is an inference tensor, outside of inference mode",
    ),
    (
        "error NoneType RuntimeError",
        "expected a view as it was made, got one made in no_grad mode",
        r"t\.func\.",
        "PyTorch's transforms do not look whether a view may still be used",
    ),
    (
        r"(grad )?(requires_grad|is_leaf|grad_fn \w+ \w+)|version|order|log.*"
        "|error NoneType RuntimeError",
        r"^(grad )?(requires_grad|is_leaf|grad_fn|version)|^expected|True, \[(\[\](, \[\])*)?\]\)"
        "|element 0 of tensors does not require grad",
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
        "error NoneType RuntimeError",
        "saved value unchanged",
        r"t\.func\.vjp\(",
        "a pullback's result leads to the transform's own input too",
    ),
    (
        "error NoneType RuntimeError",
        "saved value unchanged",
        r"cross_entropy\(|ndtr\(|scaled_dot_product_attention\(|instance_norm\(",
        "one op that saves its input, where PyTorch saves what it has computed on the way",
    ),
    (
        "error RuntimeError NoneType",
        "a leaf Variable that requires grad is being used",
        r"\b{target}, .* = |\b{target} = .*\bv\d+\b(.|\n)*(\w_\(|\] .?= |out=)",
        "PyTorch takes a view that its base made part of the graph for a leaf until it is asked",
    ),
    (
        "order|log hook",
        "",
        r"\.(cum)?prod\((.|\n)*create_graph=True",
        "PyTorch's gradient of a product is made of the product, weft's of the factors alone",
    ),
    (
        r"grad_fn \w+ \w+|requires_grad|is_leaf|error NoneType RuntimeError",
        "^grad_fn|^requires_grad|^is_leaf|element 0 of tensors does not require grad",
        rf"(?=(.|\n)*\.(reshape|flatten)\()(.|\n)*({LAID})",
        "a result lies otherwise in memory: reshape() shows it or copies it",
    ),
    (
        r"grad_fn NoneType \w+|is_leaf",
        "",
        r"(\.(real|imag)\b|view_as_(real|complex)\()(.|\n)*\.detach_\(",
        "PyTorch fails an assertion of its own where the base of a view of parts was detached",
    ),
    (
        "grad value",
        r"expected .*nan.*, got [^n]*$",
        r"kind='complex(.|\n)*\.pow\(",
        "PyTorch: the gradient to a complex exponent is NaN where the base is 0",
    ),
    (
        "error RuntimeError NoneType",
        "a view of a leaf Variable that requires grad is being used",
        r"\b{target}\.data = ",
        "what shows other memory is no view any more; in PyTorch's graph it is",
    ),
    (
        "error RuntimeError NoneType",
        "are out of bounds for storage|A view was created in no_grad mode and is being modified",
        r"t\.autograd\.grad\(\[.*\.sum\(\)",
        "PyTorch's gradient of a sum is one number in many places",
    ),
    (
        "error NoneType RuntimeError",
        "Trying to backward through the graph a second time|saved value unchanged",
        r"leaf\(0, (.|\n)*batch_norm\(",
        "PyTorch: batch_norm of no elements is a copy of them",
    ),
    (
        "version",
        "",
        r"inference_mode\(\):(.|\n)*\.view\(t\.",
        "PyTorch: view(dtype) makes inference tensors, whose writes are not counted",
    ),
    (
        "dtype",
        "",
        r"huber_loss\(",
        "PyTorch's huber_loss has its input's dtype where the target's is wider",
    ),
    (
        "error NoneType CheckpointError",
        "",
        r"checkpoint\((.|\n)*requires_grad_\(\)",
        "what became a view of a leaf meanwhile wants a gradient that goes nowhere",
    ),
    (
        "error CheckpointError RuntimeError",
        "Trying to backward through the graph a second time",
        r"checkpoint\(",
        "which of two faults of a pass is told",
    ),
    (
        "value",
        "expected (nan|1.0), got (nan|1.0)$",
        r"\.corrcoef\(",
        "of numbers that are equal but for the last bits",
    ),
    (
        "(grad )?(shape|value|layout|requires_grad)|order|error NoneType RuntimeError|log.*",
        "",
        r"leaf\(0, (.|\n)*scaled_dot_product_attention\(",
        "PyTorch: attention of no elements has the query's shape",
    ),
    (
        "grad_fn CopySlices AsStridedBackward0",
        "",
        r"scaled_dot_product_attention\(",
        "attention outside of the graph is a view of a result of four dims",
    ),
    (
        "value|order",
        "",
        r"inference_mode\(\):(.|\n)*Dirty\w*\.apply\({name}\b",
        "PyTorch writes an inference tensor before it refuses it",
    ),
    (
        r"grad_fn NoneType \w+|requires_grad|is_leaf",
        "",
        r"inference_mode\(\):(.|\n)*create_graph=True",
        "PyTorch draws no graph of gradients in inference mode",
    ),
    (
        "order|grad value",
        "",
        r"\b{name}\.requires_grad_\(\)",
        "PyTorch: a view of a leaf that is a view loses its way when their base is written",
    ),
]
