"""`weft.onnx.load`: a model of ONNX as a Module.

The graph is translated, once, to the text of a Python function over weft's ops; it is not
interpreted. Python has what ONNX's control flow means, so an `If` is an `if` and a `Loop` a `for`,
and whatever takes a function of the user's takes this one: gradients, `autobatch`, `weft.compile`
and `jit.save`, which read source, `onnx.export`, tracebacks with lines. (A graph of `weft.fx` has
no branches and no loops, and an interpreter would have to be seen through by all of these.)
Nothing of the file gets into the text but numbers and names made of letters, digits and
underscores (`text.py`), so that loading runs no code of a file.
"""

from __future__ import annotations

from typing import Any

from weft.onnx.graph import KIND
from weft.onnx.module import OnnxModule
from weft.onnx.reading import read, tensor_of


def load(f: Any) -> OnnxModule:
    """Makes a Module of an ONNX model, with its branches and loops.

    Initializers are parameters and buffers, under their names in the file. Files of this package
    and of PyTorch's exporter say which; of other files, integers, what BatchNormalization reads as
    statistics, and numbers without dimensions, such as an epsilon, are buffers, and all else
    parameters. Shapes, axes and the like that the file has as constants are written into the code.
    `forward` takes the model's inputs in order or by name (what is not a letter, digit or
    underscore is an underscore) and gives its output, or a tuple of them.

    Args:
        f: a path, bytes, a file object, an `onnx.ModelProto` or what `onnx.export` gives. Weights
            that lie in other files are read from the model's folder alone.

    Returns:
        The Module: `print(made.code)` shows what it runs.

    Raises:
        Unsupported: operators, attributes or types that weft does not have (RuntimeError), all of
            them listed by node.
        ValueError: no model of ONNX, or a broken one.
        ImportError: the package `onnx` is not installed.

    >>> import weft
    >>> free = {"input": {0: "n"}}
    >>> made = weft.onnx.export(weft.nn.Linear(3, 2), weft.ones(4, 3), dynamic_axes=free)
    >>> model = weft.onnx.load(made)
    >>> print(model.code.strip())
    def forward(self, input):
        gemm = ops.gemm(input, self.weight, self.bias, transB=1)
        return gemm
    >>> model(weft.ones(5, 3)).shape
    torch.Size([5, 2])
    """
    from weft.onnx.source import Source

    source = Source(read(f))
    inputs, outputs = source.write()
    source.problems.tell()
    made = OnnxModule("\n\n".join(source.functions), inputs, outputs)
    kinds = _kinds(source.model.graph)
    for constant, path in source.constants.used.items():
        tensor = tensor_of(constant.proto)
        if not constant.is_weight:
            made.put(path, tensor, "constant")
            continue
        learned = tensor.is_floating_point() and tensor.dim() and not constant.is_statistic
        guess = "PARAMETER" if learned else "BUFFER"
        is_parameter = kinds.get(constant.name, guess) == "PARAMETER"
        made.put(path, tensor, "parameter" if is_parameter else "buffer")
    return made


def _kinds(graph: Any) -> dict[str, str]:
    """What the file says that its initializers were (Note [Weights and constants])."""
    return {
        info.name: entry.value
        for info in (*graph.value_info, *graph.initializer)
        for entry in info.metadata_props
        if entry.key == KIND
    }
