"""`weft.export`: a Module as a program without Python, and files of it, under PyTorch's names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

import weft
from weft import Tensor
from weft.base.subclasses import expect_dense
from weft.closing.errors import NotExportable
from weft.compiler.errors import UserError, UserErrorType
from weft.export.dims import AdditionalInputs as AdditionalInputs
from weft.export.dims import Dim as Dim
from weft.export.dims import ShapesCollection as ShapesCollection
from weft.export.dims import ValueRanges, check, inputs_of, nodes, ranges_of, sizes_of
from weft.export.dims import dims as dims
from weft.export.examples import EXAMPLE, example_read, example_told
from weft.export.graph_signature import ExportGraphSignature as ExportGraphSignature
from weft.export.graph_signature import InputKind as InputKind
from weft.export.graph_signature import InputSpec as InputSpec
from weft.export.graph_signature import OutputKind as OutputKind
from weft.export.graph_signature import OutputSpec as OutputSpec
from weft.export.graph_signature import TensorArgument as TensorArgument
from weft.export.graphs import recorded, run_example, signature_of
from weft.fx.graph import Graph
from weft.fx.graph_module import GraphModule
from weft.jit.saved import _Program, _program_of
from weft.jit.saved import load as _load_program

__all__ = [
    "AdditionalInputs", "Dim", "ExportGraphSignature", "ExportedProgram", "NotExportable",
    "ShapesCollection", "dims", "export", "load", "register_dataclass", "save", "unflatten",
]  # fmt: skip

File = str | os.PathLike[str] | IO[bytes]


class ExportedProgram:
    """A Module as a program, and what its inputs may be.

    Attributes:
        example_inputs: the arguments that it was exported with: positional ones, then by name.
        dynamic_shapes: which sizes are free; all others are those of the example.
        range_constraints: the bounds of each `Dim`, by name.
        graph: the calls of ops that the example's run makes, a `weft.fx.Graph` whose inputs are
            parameters, buffers, and tensors among the arguments; `node.meta["val"]` has the shape
            and dtype of a value. Branches and loops are in `text` alone.
        graph_module: a Module of that graph.
        graph_signature: what the graph's inputs and outputs are.
        text: the functions of the program, their instructions a line each.
        state_dict: its parameters and buffers.
        constants: the other tensors that it reads.

    Raises (when it is called):
        RuntimeError: what `module()` gives is what is called.

    >>> import weft
    >>> program = weft.export.export(weft.nn.Linear(2, 1), (weft.ones(2),))
    >>> [*program.state_dict], program.module()(weft.ones(2)).shape
    (['weight', 'bias'], torch.Size([1]))
    """

    def __init__(
        self,
        program: _Program,
        sizes: list[Any],
        inputs: dict[str, Any],
        example: Any,
        dynamic: Any,
    ) -> None:
        self._program, self._sizes, self._inputs = program, sizes, inputs
        self.example_inputs, self.dynamic_shapes = example, dynamic
        self._recorded: tuple[GraphModule, GraphModule] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_recorded": None}  # a copy makes its graph of its own program

    def _graphs(self) -> tuple[GraphModule, GraphModule]:
        if self._recorded is None:
            self._recorded = recorded(self)
        return self._recorded

    @property
    def graph(self) -> Graph:
        """The calls of ops that the example's run makes (Note [Graphs of programs])."""
        return self.graph_module.graph

    @property
    def graph_module(self) -> GraphModule:
        """A Module of the graph: called with parameters, buffers, and tensors of the arguments."""
        return self._graphs()[1]

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What the graph's inputs and outputs are."""
        return signature_of(self)

    @property
    def text(self) -> str:
        """The functions of the program, their instructions a line each."""
        return self._program.graph

    @property
    def range_constraints(self) -> dict[str, ValueRanges]:
        """The bounds of each `Dim`, by name."""
        return ranges_of(self._sizes)

    @property
    def state_dict(self) -> dict[str, Any]:
        """Its parameters, then its buffers that last, by each of their names."""
        known = self._program.state_dict()
        parameters = {n for n, _ in self._program.named_parameters(remove_duplicate=False)}
        names = sorted(known, key=lambda name: name not in parameters)
        return {name: known[name] for name in names}

    @property
    def constants(self) -> dict[str, Tensor]:
        """The tensors that are no parameters and no buffers, by name."""
        return dict(self._program._constants)

    def parameters(self) -> Iterator[Tensor]:
        """Its parameters."""
        return self._program.parameters()

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Its parameters with their names."""
        return self._program.named_parameters()

    def buffers(self) -> Iterator[Tensor]:
        """Its buffers."""
        return self._program.buffers()

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Its buffers with their names."""
        return self._program.named_buffers()

    def module(self) -> Any:
        """A new Module that runs the program, on arguments like the example's: its tensors lie in
        the memory of this one's, what is set on it is its own.

        Raises (when it is called):
            AssertionError: a size, dtype or value of an argument is another than the example's and
                was not exported as free.
            ValueError: there are more or fewer arguments or items than in the example.
        """
        return _Checked(self._program._another(), self._sizes, self._inputs)

    def run_decompositions(self, decomp_table: Any = None) -> ExportedProgram:
        """Itself: the instructions are calls of ops already."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` "
            "instead."
        )

    def __repr__(self) -> str:
        return f"ExportedProgram({self._program.original_name}):\n{self.text}"


class _Checked(weft.nn.Module):
    """A program that looks at its arguments first."""

    def __init__(self, program: _Program, sizes: list[Any], inputs: dict[str, Any]) -> None:
        own = self.__dict__
        own["_program"] = program
        super().__init__()
        own["_program"], own["_sizes"], own["_inputs"] = program, sizes, inputs
        for kind in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[kind] = program.__dict__[kind]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        check(self._sizes, self._inputs, args, kwargs)
        return self._program(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        self._program._expect_not_fixed(name, "another value")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._program._expect_not_fixed(name, "it to be deleted")
        super().__delattr__(name)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._program._apply(fn, recurse)
        return self

    def __reduce__(self) -> Any:
        return _Checked, (self._program, self._sizes, self._inputs)

    def train(self, mode: bool = True) -> Any:
        """Raises, as PyTorch's: the mode is that of the export."""
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self) -> Any:
        """Raises, as PyTorch's: the mode is that of the export."""
        raise NotImplementedError("Calling eval() is not supported yet.")


def export(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> ExportedProgram:
    """A Module as a program that needs no Python, with its loops and branches.

    Nothing is traced: the source of `forward` and of what it calls is compiled, so both ways of a
    branch are there and loops have any number of turns. Modules are in the mode that they are in
    now. The example is run once, on copies of all that there is.

    Args:
        mod: a Module, or a program that `jit.load` gave.
        args, kwargs: an example of what it is called with.
        dynamic_shapes: for each argument, in their order or by name, a dict from dimensions to
            `Dim` (or `Dim.DYNAMIC`, `Dim.AUTO`, `2 * Dim(...)`), a tuple with one for each
            dimension, or None; nested as the argument is. Or a `ShapesCollection`, or
            `AdditionalInputs`. Of an int it is `Dim.DYNAMIC` or None. Sizes and values that are
            not free are those of the example, and calls with others raise.
        strict, preserve_module_call_signature: without effect.

    Raises:
        NotExportable: a RuntimeError with the line that needs Python.
        ValueError: `mod` is no Module; a size is not what `dynamic_shapes` says.
        RuntimeError: `dynamic_shapes` is not for each argument (PyTorch's UserError).
        torch._dynamo.exc.UserError: `args` is no tuple.
        TypeError: `dynamic_shapes` has something else than Dims; a tensor is sparse or nested.
        Exception: what the program raises of the example.

    >>> import weft
    >>> class Halves(weft.nn.Module):
    ...     def forward(self, x):
    ...         while x.sum() > 1:
    ...             x = x / 2
    ...         return x
    >>> rows = weft.export.Dim("rows")
    >>> program = weft.export.export(Halves(), (weft.ones(2),), dynamic_shapes=({0: rows},))
    >>> program.module()(weft.ones(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    if not isinstance(mod, weft.nn.Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(
            UserErrorType.INVALID_INPUT,
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}",
        )
    if isinstance(mod, _Program):
        program = _Program(*mod._settle())
    else:
        example = [*args, *(kwargs or {}).values()]
        package, told = _program_of(mod, keeps_training=False, example=example)
        program = _Program(package.to_json(), told, package.tensors)
    kwargs = dict(kwargs or {})
    for path, value in (*nodes(args, "args"), *nodes(kwargs, "kwargs")):
        if isinstance(value, Tensor):
            expect_dense(value, "export", path)
    sizes = sizes_of(mod, args, kwargs, dynamic_shapes)
    inputs = inputs_of(args, kwargs, sizes)
    exported = ExportedProgram(program, sizes, inputs, (args, kwargs), dynamic_shapes)
    run_example(exported)
    return exported


def save(ep: ExportedProgram, f: File, *, extra_files: Mapping[str, Any] | None = None) -> None:
    """Writes a program, and its example, into a file that `load`, `jit.load` and libweft read.

    Args:
        ep: the program.
        f: a path, or a file open for writing bytes.
        extra_files: contents by name, which go into the file.

    Raises:
        TypeError: `ep` is no exported program.

    >>> import io, weft
    >>> program, file = weft.export.export(weft.nn.ReLU(), (weft.ones(2),)), io.BytesIO()
    >>> weft.export.save(program, file, extra_files={"version": "3"})
    >>> [*weft.jit.load(io.BytesIO(file.getvalue()))(weft.tensor([-1.0, 1.0]))]
    [tensor(0.), tensor(1.)]
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            "The 'ep' parameter must be an instance of 'ExportedProgram', got "
            f"'{type(ep).__name__}' instead."
        )
    example, tensors = example_told(ep.example_inputs)
    told = {"sizes": ep._sizes, "inputs": ep._inputs, "example": example}
    ep._program.save(f, extra_files, told, tensors)


def load(f: File, *, extra_files: dict[str, Any] | None = None) -> ExportedProgram:
    """A program that `save` wrote.

    Args:
        f: a path, or a file open for reading bytes.
        extra_files: a dict whose values become the texts of the files that its keys name.

    Raises:
        ValueError: there is no such file; it asks for what this version has not.
        RuntimeError: it is no program.

    >>> import os, tempfile, weft
    >>> path = os.path.join(tempfile.mkdtemp(), "relu.pt2")
    >>> weft.export.save(weft.export.export(weft.nn.ReLU(), (weft.ones(2),)), path)
    >>> weft.export.load(path).module()(weft.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    program: Any = _load_program(f, None, extra_files)
    for name, content in (extra_files or {}).items():
        extra_files[name] = content.decode()  # type: ignore[index]
    told = program._told
    names = [name for name in program._constants if name.startswith(EXAMPLE)]
    tensors = {name: program._constants.pop(name) for name in names}
    example = example_read(told["example"], tensors)
    return ExportedProgram(program, told["sizes"], told["inputs"], example, None)


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Nothing: objects of dataclasses are records of programs as they are.

    Args:
        cls: the dataclass.
        serialized_type_name: without effect.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Pair:
    ...     a: weft.Tensor
    ...     b: weft.Tensor
    >>> weft.export.register_dataclass(Pair)
    """


def unflatten(module: ExportedProgram, flat_args_adapter: Any = None) -> Any:
    """The Module that `module()` gives: its modules are a tree already.

    Args:
        module: the program.
        flat_args_adapter: has to be None.

    Raises:
        ValueError: `flat_args_adapter` is given: arguments are not flattened.

    >>> program = weft.export.export(weft.nn.Sequential(weft.nn.Linear(2, 1)), (weft.ones(2),))
    >>> [name for name, _ in weft.export.unflatten(program).named_modules()]
    ['', '0']
    """
    if flat_args_adapter is not None:
        raise ValueError("[unflatten] expected no flat_args_adapter, got one")
    return module.module()
