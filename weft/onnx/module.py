"""The Module that `weft.onnx.load` gives: its `forward` is text made of the model's graph."""

from __future__ import annotations

import itertools
import linecache
import math
from typing import Any

import weft
from weft.nn.module import Module

_numbers = itertools.count()


class OnnxModule(Module):
    """A model of ONNX as a Module.

    Its initializers are its parameters and buffers, under their names in the file. It runs, trains,
    compiles and is saved as any Module is: `code` is what it runs.

    Attributes:
        code: the text of its functions, Python over weft's ops; `forward` is the last.
        input_names: the model's inputs, in the order of forward's parameters.
        output_names: the model's outputs, in the order of what forward gives: one tensor, or a
            tuple.

    >>> import weft
    >>> made = weft.onnx.export(weft.nn.Linear(2, 1), (weft.ones(2),), input_names=["x"])
    >>> loaded = weft.onnx.load(made.model_proto)
    >>> [name for name, _ in loaded.named_parameters()], loaded.input_names
    (['weight', 'bias'], ['x'])
    """

    code: str
    input_names: list[str]
    output_names: list[str]

    def __new__(cls, *args: Any, **kwargs: Any) -> OnnxModule:
        """Each has a class of its own, which bears its `forward`."""
        base = next(c for c in cls.__mro__ if "_is_made" not in vars(c))
        made = type(base.__name__, (base,), {"_is_made": True, "__module__": base.__module__})
        return super().__new__(made)

    def __init__(self, code: str, input_names: list[str], output_names: list[str]) -> None:
        super().__init__()
        self.code, self.input_names, self.output_names = code, input_names, output_names
        self._compile()

    def _compile(self) -> None:
        from weft.onnx import operators

        file = f"<onnx model {next(_numbers)}>"
        space = {"torch": weft, "ops": operators, "math": math, "__name__": "onnx_model"}
        exec(compile(self.code, file, "exec"), space)
        # tracebacks show its lines, and weft.compile and jit.save read them
        linecache.cache[file] = (len(self.code), None, self.code.splitlines(True), file)
        type(self).forward = space["forward"]  # type: ignore[assignment]

    def put(self, path: str, tensor: weft.Tensor, kind: str) -> None:
        """Gives it a tensor: a "parameter", a "buffer", or a "constant", which is not saved."""
        holder: Module = self
        *outer, last = path.split(".")
        for part in outer:
            if part not in holder._modules:
                holder.add_module(part, Module())
            inner = holder._modules[part]
            assert inner is not None
            holder = inner
        if kind == "parameter":
            learns = tensor.is_floating_point()
            holder.register_parameter(last, weft.nn.Parameter(tensor, requires_grad=learns))
        else:
            holder.register_buffer(last, tensor, persistent=kind == "buffer")

    def __reduce__(self) -> Any:
        kept = {k: v for k, v in self.__dict__.items() if k not in _GIVEN}
        return _made, (self.code, self.input_names, self.output_names), kept

    def extra_repr(self) -> str:
        """Its inputs and outputs."""
        return f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}"


_GIVEN = ("code", "input_names", "output_names")


def _made(code: str, input_names: list[str], output_names: list[str]) -> OnnxModule:
    """One without tensors yet."""
    return OnnxModule(code, input_names, output_names)
