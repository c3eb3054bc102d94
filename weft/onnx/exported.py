"""What `export` gives: a model with the inputs it was made for, as PyTorch's `ONNXProgram`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Any

import weft
from weft import Tensor
from weft.onnx.errors import NotOnnx
from weft.onnx.graph import onnx_package


class ONNXProgram:
    """An ONNX model. What it has not itself, it has of its `onnx.ModelProto`.

    Attributes:
        model_proto: the `onnx.ModelProto`, checked.

    >>> import weft
    >>> made = weft.onnx.export(weft.nn.ReLU(), (weft.tensor([-1.0, 2.0]),))
    >>> [node.op_type for node in made.model_proto.graph.node]
    ['Relu', 'Identity']
    """

    def __init__(self, model_proto: Any, leaves_of: Callable[..., list[Tensor]]) -> None:
        self.model_proto, self._leaves_of = model_proto, leaves_of
        self._session: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "model_proto":
            raise AttributeError(f"'ONNXProgram' object has no attribute {name!r}")
        return getattr(self.model_proto, name)

    def __repr__(self) -> str:
        return f"ONNXProgram(\n{onnx_package().printer.to_text(self.model_proto)}\n)"

    def save(
        self, destination: str | os.PathLike[str] | IO[bytes], *, external_data: bool = False
    ) -> None:
        """Writes the model to a path or a file; with `external_data` its weights into
        `destination + ".data"`.

        Raises:
            ValueError: `external_data` beside a file that has no path.
        """
        if not isinstance(destination, (str, os.PathLike)):
            if external_data:
                raise ValueError("[onnx] expected a path for weights beside it, got a file")
            destination.write(self.model_proto.SerializeToString())
            return
        onnx, path = onnx_package(), os.fspath(destination)
        if not external_data:
            onnx.save(self.model_proto, path)
            return
        kept = onnx.ModelProto()
        kept.CopyFrom(self.model_proto)
        name = os.path.basename(path) + ".data"
        onnx.save(kept, path, save_as_external_data=True, location=name, size_threshold=1024)

    def initialize_inference_session(self) -> None:
        """Makes the session of ONNX Runtime that calls run.

        Raises:
            ImportError: the package `onnxruntime` is not installed.
        """
        import onnxruntime

        content = self.model_proto.SerializeToString()
        self._session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def release(self) -> None:
        """Lets the session go."""
        self._session = None

    def __call__(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """What ONNX Runtime gives for these arguments: all tensors of the result, in order."""
        if self._session is None:
            self.initialize_inference_session()
        names = [arg.name for arg in self._session.get_inputs()]
        values = [tensor.numpy(force=True) for tensor in self._leaves_of(args, kwargs)]
        if len(names) != len(values):
            raise TypeError(f"[onnx] expected {len(names)} tensors as inputs, got {len(values)}")
        found = self._session.run(None, dict(zip(names, values)))
        return [weft.from_numpy(array) for array in found]


def program_in(model: Any) -> Any:
    """The loaded program that a model is, or that an `ExportedProgram` has; None: it is none."""
    from weft.export import ExportedProgram
    from weft.jit.saved import _Program

    program = model._program if isinstance(model, ExportedProgram) else model
    return program if isinstance(program, _Program) else None


def of_exported(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any] | None, dict[tuple[int, int], Any]]:
    """Arguments of an `ExportedProgram`, where none are given, and its free dimensions: by tensor
    and dimension.

    Raises:
        ValueError: it was loaded, and knows no example.
        NotOnnx: a size that follows from another.
    """
    if not args and not kwargs:
        if model.example_inputs is None:
            raise ValueError(
                "[onnx.export] expected args, got none. Hint: a program that was loaded has no "
                "example inputs"
            )
        args, kwargs = model.example_inputs
    free = {}
    for leaf, (path, _, sizes) in enumerate(model._sizes):
        for d, entry in enumerate(sizes):
            if isinstance(entry, list) and len(entry) > 3:
                raise NotOnnx(
                    f"a size of {path} that follows from another", "give each size a Dim of its own"
                )
            if not isinstance(entry, int):
                dim = weft.export.Dim
                named = entry and entry[0]
                bounds = _bounds(entry)
                free[leaf, d] = dim(entry[0], **bounds) if named else dim.AUTO(**bounds)
    return args, kwargs, free


def _bounds(entry: Any) -> dict[str, Any]:
    return {"min": entry[1], "max": entry[2]} if entry else {}
