"""What `export` gives: a model with the inputs it was made for, as PyTorch's `ONNXProgram`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import weft
from weft import Tensor
from weft.onnx.builder import initializer
from weft.onnx.errors import NotOnnx
from weft.onnx.graph import onnx_package
from weft.onnx.model import optimize, with_weights_as_inputs


class ONNXProgram:
    """An ONNX model. What it has not itself, it has of its `onnx.ModelProto`.

    Attributes:
        model_proto: the `onnx.ModelProto`, checked.
        exported_program: the `ExportedProgram` that it was made of, or None.

    Called with the function's arguments, of the shapes and dtypes that it was exported for, it has
    ONNX Runtime compute all tensors of the result, in a list.

    Raises (when it is called):
        ImportError: the package `onnxruntime` is not installed.
        TypeError: another number of tensors.

    >>> import weft
    >>> made = weft.onnx.export(weft.nn.ReLU(), (weft.tensor([-1.0, 2.0]),))
    >>> [node.op_type for node in made.model_proto.graph.node]
    ['Relu', 'Identity']
    """

    def __init__(
        self,
        model_proto: Any,
        leaves_of: Callable[..., list[Tensor]],
        exported_program: Any = None,
    ) -> None:
        self.model_proto, self._leaves_of = model_proto, leaves_of
        self.exported_program = exported_program
        self._session: Any = None

    def __getattr__(self, name: str) -> Any:
        if name == "model":
            raise AttributeError(
                "[onnx] expected an attribute of ONNXProgram, got 'model', PyTorch's class of ONNX "
                "Script. Hint: onnx_ir.from_proto(program.model_proto) makes one"
            )
        if name.startswith("_") or name == "model_proto":
            raise AttributeError(f"'ONNXProgram' object has no attribute {name!r}")
        return getattr(self.model_proto, name)

    def __repr__(self) -> str:
        return f"ONNXProgram(\n{onnx_package().printer.to_text(self.model_proto)}\n)"

    def save(
        self,
        destination: str | os.PathLike[str] | IO[bytes],
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Writes the model to a path or a file.

        Args:
            destination: the path, or an open file.
            include_initializers: False: without the weights.
            keep_initializers_as_inputs: the weights are inputs too, so that a run may give others.
            external_data: the weights in `destination + ".data"`.

        Raises:
            ValueError: `external_data` beside a file that has no path.
        """
        onnx, kept = onnx_package(), self.model_proto
        if external_data or keep_initializers_as_inputs or not include_initializers:
            kept = onnx.ModelProto()
            kept.CopyFrom(self.model_proto)
        if keep_initializers_as_inputs:
            with_weights_as_inputs(kept)
        if not include_initializers:
            del kept.graph.initializer[:]
        if not isinstance(destination, (str, os.PathLike)):
            if external_data:
                raise ValueError("[onnx] expected a path for weights beside it, got a file")
            destination.write(kept.SerializeToString())
            return
        path = os.fspath(destination)
        if not external_data:
            onnx.save(kept, path)
            return
        name = os.path.basename(path) + ".data"
        onnx.save(kept, path, save_as_external_data=True, location=name, size_threshold=1024)

    def apply_weights(self, state_dict: Mapping[str, Tensor]) -> None:
        """Gives the model other weights, by name; of names that it has not it warns.

        Raises:
            ValueError: a weight of another size or dtype.

        >>> import weft
        >>> made = weft.onnx.export(weft.nn.Linear(1, 1), (weft.ones(1),))
        >>> made.apply_weights({"weight": weft.ones(1, 1), "bias": weft.ones(1)})
        >>> made(weft.tensor([2.0]))
        [tensor([3.])]
        """
        known = {t.name: t for t in self.model_proto.graph.initializer}
        for name, tensor in state_dict.items():
            if name not in known:
                text = f"[onnx] expected names of weights, got {name!r}: not found in the model"
                warnings.warn(text, UserWarning, stacklevel=2)
                continue
            made, old = initializer(tensor, name), known[name]
            if (made.data_type, list(made.dims)) != (old.data_type, list(old.dims)):
                raise ValueError(
                    f"[onnx] expected {name!r} of sizes {list(old.dims)} and the model's dtype, "
                    f"got {list(tensor.shape)} of {tensor.dtype}"
                )
            old.CopyFrom(made)
        self.release()

    def compute_values(
        self,
        value_names: Sequence[str],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> list[Tensor]:
        """What values of the graph, by name, are for these arguments.

        Raises:
            ValueError: a name that no node outside of branches and loops gives.

        >>> import weft
        >>> made = weft.onnx.export(lambda x: weft.relu(x) + 1, (weft.ones(2),))
        >>> made.compute_values(["relu"], (weft.tensor([-1.0, 2.0]),))
        [tensor([0., 2.])]
        """
        onnx = onnx_package()
        kept = onnx.ModelProto()
        kept.CopyFrom(self.model_proto)
        graph = kept.graph
        known = {o for node in graph.node for o in node.output}
        known |= {i.name for i in (*graph.input, *graph.initializer)}
        for name in value_names:
            if name not in known:
                raise ValueError(
                    f"[onnx] expected names of values, got {name!r}: not found in the model"
                )
        del graph.output[:]
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in value_names)
        return ONNXProgram(kept, self._leaves_of)(*args, **(kwargs or {}))

    def optimize(self) -> None:
        """Writes what several nodes compute alike once, and nothing that nobody reads; constants
        are folded as a model is written.

        >>> import weft
        >>> made = weft.onnx.export(lambda x: weft.exp(x) * weft.exp(x), (weft.ones(2),))
        >>> made.optimize()
        >>> [node.op_type for node in made.model_proto.graph.node]
        ['Exp', 'Mul', 'Identity']
        """
        optimize(self.model_proto)
        self.release()

    def call_reference(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """What onnx's own evaluator gives for these arguments, in place of ONNX Runtime."""
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(self.model_proto)
        values = [tensor.numpy(force=True) for tensor in self._leaves_of(args, kwargs)]
        found = evaluator.run(None, dict(zip(evaluator.input_names, values)))
        return [weft.tensor(array) for array in found]

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
