"""`weft.onnx.export`: a function or Module with example arguments, as a model of ONNX."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

import weft
from weft import Tensor
from weft.closing.errors import NotExportable
from weft.onnx.arguments import Free, ends_in_kwargs, forward_of, symbol_of, tensors_of
from weft.onnx.builder import Builder
from weft.onnx.errors import NotOnnx, OnnxExporterError, Raises
from weft.onnx.examples import stretched
from weft.onnx.exported import ONNXProgram, of_exported, program_in
from weft.onnx.graph import Model, Value, onnx_package
from weft.onnx.model import model_of, with_weights_as_inputs
from weft.onnx.opsets import FIRST, LAST, OPSETS
from weft.onnx.values import Callee, Grown, Held, Instance, layout


def is_in_onnx_export() -> bool:
    """False: what is exported is what runs otherwise too, from its source.

    >>> weft.onnx.is_in_onnx_export()
    False
    """
    return False


def export(
    model: Callable[..., Any],
    args: tuple[Any, ...] | Tensor = (),
    f: str | os.PathLike[str] | IO[bytes] | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    opset: int | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    path: str | os.PathLike[str] | None = None,
    export_params: bool = True,
    do_constant_folding: bool = True,
    training: Any = None,
    verbose: bool | None = None,
    dynamo: bool = True,
    external_data: bool = False,
    custom_translation_table: Mapping[Any, Any] | None = None,
    report: bool = False,
    optimize: bool = False,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    keep_initializers_as_inputs: bool = False,
    operator_export_type: Any = None,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: Any = False,
    autograd_inlining: bool = True,
) -> Any:
    """Writes a function or Module as an ONNX model, with its branches and loops.

    Args:
        model: a Module, compiled or scripted or neither, a function or a method; a program that
            `jit.load` gave; or an `ExportedProgram`, whose free sizes and, without `args`, example
            arguments are taken.
        args: example arguments, a tuple or one tensor: their dtypes and sizes are those of the
            model's inputs. Arguments that are no tensors are fixed in the model.
        f: a path or an open file; None writes none. `path` is another name for it.
        kwargs: example arguments by name.
        input_names: of the tensors among the arguments, in order; by default the parameters' names.
        output_names: of the tensors among the results, in order.
        opset_version: the version of ONNX's operators, 16 to 23, by default 21; `opset` is another
            name for it.
        dynamic_axes: dimensions that stay free, by the names of inputs: `{"x": {0: "batch"}}` or
            `{"x": [0]}`.
        dynamic_shapes: the same by parameter, or in the order of `args`: `{"x": {0: "batch"}}`,
            `{"x": ("batch", None)}`, with names, `weft.export.Dim`, or `Dim.AUTO` and
            `Dim.DYNAMIC`, each a size of its own (s0, s1, ...).
        export_params: True: a model without its weights is not written.
        do_constant_folding, dynamo: what PyTorch's say of its own ways to export; they change
            nothing here.
        optimize: what several nodes compute alike is written once (`ONNXProgram.optimize`).
        verify: runs the model by ONNX Runtime on the example arguments, and compares what it gives
            with what `model` does.
        keep_initializers_as_inputs: weights are inputs too, so that a run may give others.
        custom_opsets: versions of domains that the model names beside ONNX's own.
        custom_translation_table, report, profile, dump_exported_program, operator_export_type,
            export_modules_as_functions, autograd_inlining: PyTorch's defaults alone; others raise.
        artifacts_dir: where PyTorch writes reports, of which there are none here.
        training: None or eval mode: a model is written as it stands; call `eval()` first.
        verbose: prints the model.
        external_data: weights in a file beside the model's, `path + ".data"`.

    Returns:
        An `ONNXProgram`: the `onnx.ModelProto`, checked, and calls of it by ONNX Runtime.

    Raises:
        NotOnnx: a line that ONNX has no form for (RuntimeError), with the line.
        ImportError: the package `onnx` is not installed.
        ValueError: names, dimensions or an opset that do not fit; a value of an option that is
            not offered.
        OnnxExporterError: `verify` finds other numbers.

    >>> import weft
    >>> free = {"input": {0: "n"}}
    >>> made = weft.onnx.export(weft.nn.Linear(3, 2), weft.ones(4, 3), dynamic_axes=free)
    >>> [node.op_type for node in made.model_proto.graph.node]
    ['Gemm', 'Identity']
    """
    _check_options(export_params, training)
    _expect_defaults(
        custom_translation_table=custom_translation_table, report=report, profile=profile,
        dump_exported_program=dump_exported_program, operator_export_type=operator_export_type,
        export_modules_as_functions=export_modules_as_functions,
        autograd_inlining=autograd_inlining,
    )  # fmt: skip
    if dynamic_axes is not None and dynamic_shapes is not None:
        raise ValueError("[onnx.export] expected dynamic_axes or dynamic_shapes, got both")
    onnx = onnx_package()
    from weft.closing.program import original_of

    version = _expect_opset(opset, opset_version)
    with _documented():
        model = original_of(model)
    given = args if isinstance(args, tuple) else (args,)
    exported: dict[tuple[int, int], Any] = {}
    source = model if isinstance(model, weft.export.ExportedProgram) else None
    if isinstance(model, weft.export.ExportedProgram):
        given, kwargs, exported = of_exported(model, given, kwargs)
    if kwargs is None and ends_in_kwargs(model, given):
        given, kwargs = given[:-1], given[-1]
    free = Free(model, given, kwargs or {}, input_names, dynamic_axes, dynamic_shapes)
    free.axes = {**exported, **free.axes}
    free.name_sizes()
    _expect_other_names(output_names or (), free.names)
    with _documented():
        package = _package(model)
    try:
        made = _with_examples(package, free, version, output_names)
    except NotOnnx as error:
        raise free.explained(error) from None
    _expect_names(made.graph, free, dynamic_axes or {})
    _name_sizes(made.graph.output, dynamic_axes or {})
    for domain, number in (custom_opsets or {}).items():
        made.opset_import.append(onnx.helper.make_opsetid(domain, number))
    program = ONNXProgram(made, lambda args, kwargs: tensors_of(model, free, args, kwargs), source)
    if optimize:
        program.optimize()
    if keep_initializers_as_inputs:
        with_weights_as_inputs(made)
    onnx.checker.check_model(made, full_check=False)
    if verify:
        _verify(program, source.module() if source is not None else model, given, kwargs or {})
    where = f if f is not None else path
    if where is not None:
        program.save(where, external_data=external_data)
    if verbose:
        print(onnx.printer.to_text(made))
    return program


def _expect_other_names(outputs: Sequence[str], inputs: Sequence[str]) -> None:
    for k, name in enumerate(outputs):
        if name in inputs or name in outputs[:k]:
            where = "an input's too" if name in inputs else "there twice"
            raise ValueError(
                f"[onnx.export] expected output_names that no other value has, got {name!r}, "
                f"which is {where}"
            )


def _expect_names(graph: Any, free: Free, axes: Mapping[str, Any]) -> None:
    """Warns, as PyTorch does, of names in dynamic_axes that neither inputs nor outputs have."""
    known = [*free.names, *(o.name for o in graph.output)]
    for name in axes:
        if name not in known:
            warnings.warn(
                f"[onnx.export] expected names of inputs and outputs in dynamic_axes "
                f"({', '.join(known)}), got {name!r}: Provided key {name} for dynamic axes is not "
                "a valid input/output name",
                UserWarning,
                stacklevel=3,
            )


def _name_sizes(infos: Any, axes: Mapping[str, Any]) -> None:
    """Gives sizes of outputs the names that dynamic_axes has for them."""
    for info in infos:
        given = axes.get(info.name, {})
        found = info.type.tensor_type.shape.dim
        for d, name in given.items() if isinstance(given, Mapping) else ():
            if -len(found) <= d < len(found) and not found[d].HasField("dim_value"):
                found[d].dim_param = str(name)


def _check_options(export_params: bool, training: Any) -> None:
    if not export_params:
        raise ValueError("[onnx.export] expected export_params=True, got False")
    name = getattr(training, "name", str(training))
    if training is not None and name not in (
        "EVAL",
        "PRESERVE",
        "TrainingMode.EVAL",
        "TrainingMode.PRESERVE",
    ):
        raise ValueError(
            f"[onnx.export] expected a model in eval mode, got training={name}. "
            "Hint: call eval() first"
        )


# Options that have PyTorch's default alone: what to do instead of others.
_DEFAULTS = {
    "custom_translation_table": (None, "an op's form is in its record: see CONTRIBUTING.md"),
    "report": (False, "what cannot be written is raised, with its line"),
    "profile": (False, "weft.profiler.profile or cProfile around the call"),
    "dump_exported_program": (False, "weft.export.save writes an ExportedProgram"),
    "operator_export_type": (None, "what ONNX has no operator for is refused"),
    "export_modules_as_functions": (False, "calls of Modules are written in place"),
    "autograd_inlining": (True, "calls of Functions are written in place"),
}


def _expect_defaults(**given: Any) -> None:
    for name, value in given.items():
        default, hint = _DEFAULTS[name]
        is_onnx = name == "operator_export_type" and getattr(value, "name", value) == "ONNX"
        if value is not default and value != {} and not is_onnx:
            raise ValueError(
                f"[onnx.export] expected {name}={default}, got {value!r}. Hint: {hint}"
            )


def _verify(program: ONNXProgram, model: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Compares what ONNX Runtime gives for example arguments with what a model does.

    Raises:
        OnnxExporterError: other numbers, sizes or dtypes.
    """
    copies = weft.utils._pytree.tree_map(
        lambda v: v.detach().clone() if isinstance(v, Tensor) else v, (tuple(args), kwargs)
    )
    found = program(*args, **kwargs)
    with weft.no_grad():
        wanted = _leaves(model(*copies[0], **copies[1]))
    try:
        weft.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4, equal_nan=True)
    except AssertionError as error:
        raise OnnxExporterError(
            f"[onnx.export] expected of ONNX Runtime what the model gives, got: {error}"
        ) from None


def _leaves(result: Any) -> list[Tensor]:
    """The tensors of a result, numbers as tensors, in order."""
    if isinstance(result, Tensor):
        return [result.detach()]
    if isinstance(result, (bool, int, float)):
        kind = {bool: weft.bool, int: weft.int64}.get(type(result), weft.float64)
        return [weft.tensor(result, dtype=kind)]
    if isinstance(result, dict):
        result = list(result.values())
    if not isinstance(result, (list, tuple)):
        return []
    return [t for v in result for t in _leaves(v)]


def _expect_opset(opset: int | None, opset_version: int | None) -> int:
    if opset is not None and opset_version not in (None, opset):
        raise ValueError(
            f"[onnx.export] expected one version of the operators, got opset={opset} and "
            f"opset_version={opset_version}. Hint: opset is another name for opset_version"
        )
    version = opset if opset is not None else opset_version
    version = 21 if version is None else version
    if version not in OPSETS:
        raise ValueError(
            f"[onnx.export] expected an opset of {FIRST} to {LAST}, got {version}. "
            "Hint: weft.onnx.export writes no other; without opset_version it is 21"
        )
    return version


@contextlib.contextmanager
def _documented() -> Iterator[None]:
    """Within it, a line that no program without Python has is one that ONNX has not."""
    try:
        yield
    except NotExportable as error:
        inside = f" (in {error.inside} of weft's own)" if error.inside else ""
        place = f"{error.function}: {error.file}:{error.line}" if error.function else ""
        raise NotOnnx(error.reason + inside, error.hint, place) from None


def _package(model: Any) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, str]]:
    """A program, its tensors, and which of them are a Module's (Note [Weights and constants])."""
    from weft.closing.program import package_of

    program = program_in(model)
    root = program or (model if isinstance(model, weft.nn.Module) else None)
    kinds: dict[str, str] = {}
    if isinstance(root, weft.nn.Module):
        kinds = {name: "PARAMETER" for name, _ in root.named_parameters(remove_duplicate=False)}
        kinds |= {name: "BUFFER" for name, _ in root.named_buffers(remove_duplicate=False)}
    if program is not None:
        text, _, tensors = program._settle()
        data = json.loads(text)
        _expect_todays(data["ops"])
        return data, tensors, kinds
    package = package_of({"forward": forward_of(model)}, root)
    return json.loads(package.to_json()), package.tensors, kinds


def _expect_todays(ops: Mapping[str, int]) -> None:
    """Raises for a program of an older weft that calls an op which has changed since."""
    from weft.closing import known

    for name, version in ops.items():
        if version != known.version_of(name):
            raise NotOnnx(f"{name} as its version {version} has it", "save the program anew")


# The second of two examples, of the first (Note [Examples]).
_SIZES: tuple[Callable[[int], int], ...] = (
    lambda n: 2 * n, lambda n: n // 2, lambda n: n + 1, lambda n: n - 1,
)  # fmt: skip
_NUMBERS: tuple[Callable[[Any], Any], ...] = (
    lambda n: 2 * n + 1, lambda n: n + 1, lambda n: n,
)  # fmt: skip


def _with_examples(package: Any, free: Free, opset: int, output_names: Sequence[str] | None) -> Any:
    """The model, by the first examples with which the program runs.

    Note [Examples]
    A program is run on two examples of each free size, and of each number that a tensor's value
    gives (`item`): what differs between the two is free in the model. So they have to be far apart:
    of 8 and 9, halves are 4 and 4. Twice a size keeps what divides it; where a program does not run
    with that (a table is shorter, a window longer), others are tried, at last one example of each
    number. What an op makes of numbers is looked at with the numbers beside them too: a size that
    differs then is free, though both examples are alike (`zeros(min(n, 3))`). A size is free, too,
    where the op's form says that values or a cut tell it (`Form.free`): `x[:3]` may have less, and
    `x[a : a + 1]` none. Where a free size has to be that of something else, or 1 for a squeeze
    (`Form.ones`), it is, and its node raises in a run that has another.
    """
    failed: NotOnnx | None = None
    for apart in _NUMBERS:
        asked = False
        for second in _SIZES if free.axes else _SIZES[:1]:
            model = Model(opset, apart)
            try:
                return _written(package, free, second, model, output_names)
            except NotOnnx as error:
                failed = failed or error
                asked |= model.asked
                if not isinstance(error, Raises):
                    raise
        if not asked:
            break
    assert failed is not None
    raise failed


def _written(
    package: tuple[dict[str, Any], dict[str, Tensor], dict[str, str]],
    free: Free,
    second_of: Callable[[int], int],
    model: Model,
    output_names: Sequence[str] | None,
) -> Any:
    from weft.onnx.walk import Walk

    data, tensors, kinds = package
    for name in output_names or ():
        model.name(name)  # no value of the graph gets it
    g = Builder(model)
    walk = Walk(data, tensors, model, kinds)
    sizes = free.sizes(second_of)
    walk.free = set(sizes.values())
    inputs: list[tuple[Value, list[Any]]] = []
    made: dict[int, Held] = {}
    for leaf, (name, tensor) in enumerate(free.leaves):
        mine = {d: symbol_of(s) for (k, d), s in free.axes.items() if k == leaf}
        first, second = (
            stretched(tensor, {d: sizes[s][k] for d, s in mine.items()}) for k in range(2)
        )
        examples = (first, second if mine else first)
        label = model.name(name)
        value = Value(model, label, tensor.dtype, layout(examples))
        shown: list[Any] = [mine[d] if d in mine else n for d, n in enumerate(tensor.shape)]
        inputs.append((value, shown))
        made[leaf] = Held(value, examples)
    leaves = iter(range(len(free.leaves)))

    def entered(v: Any) -> Any:
        if isinstance(v, Tensor):
            return made[next(leaves)]
        if isinstance(v, (list, tuple)):
            items = [entered(i) for i in v]
            if hasattr(v, "_fields"):
                return Instance(type(v).__name__, dict(zip(v._fields, items)))
            return items if isinstance(v, list) else tuple(items)
        return {k: entered(i) for k, i in v.items()} if isinstance(v, dict) else v

    args = [entered(v) for v in free.args]
    kwargs = {k: entered(v) for k, v in free.kwargs.items()}
    result = walk.entry("forward", args, kwargs)
    return model_of(g, inputs, _outputs(walk, result), output_names, model.opset)


def _outputs(walk: Any, result: Any) -> list[Held]:
    """The tensors of a result; numbers are tensors without dimensions."""
    from weft.onnx.control import as_held

    if isinstance(result, Held):
        return [result]
    if isinstance(result, Instance):
        return [t for v in result.fields.values() for t in _outputs(walk, v)]
    if isinstance(result, (list, tuple)):
        if any(isinstance(v, Grown) for v in result):
            raise NotOnnx("a list as a result, of which a run knows how long it is", "stack it")
        return [t for v in result for t in _outputs(walk, v)]
    if isinstance(result, dict):
        return [t for v in result.values() for t in _outputs(walk, v)]
    if isinstance(result, (bool, int, float)):
        return [as_held(walk, result)]
    if result is None or isinstance(result, Callee):
        return []
    raise NotOnnx(f"a result of {type(result).__name__}")
