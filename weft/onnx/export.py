"""`weft.onnx.export`: a function or Module with example arguments, as a model of ONNX."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import weft
from weft import Tensor
from weft.base.subclasses import expect_dense
from weft.onnx.builder import Builder
from weft.onnx.errors import NotOnnx, Raises
from weft.onnx.examples import stretched
from weft.onnx.exported import ONNXProgram, of_exported, program_in
from weft.onnx.graph import Model, Value, onnx_package
from weft.onnx.model import model_of
from weft.onnx.opsets import FIRST, LAST, OPSETS
from weft.onnx.values import Callee, Grown, Held, Instance, layout


def is_in_onnx_export() -> bool:
    """False: what is exported is what runs otherwise too, from its source."""
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
        training: None or eval mode: a model is written as it stands; call `eval()` first.
        verbose: prints the model.
        external_data: weights in a file beside the model's, `path + ".data"`.

    Returns:
        An `ONNXProgram`: the `onnx.ModelProto`, checked, and calls of it by ONNX Runtime.

    Raises:
        NotOnnx: a line that ONNX has no form for (RuntimeError), with the line.
        ImportError: the package `onnx` is not installed.
        ValueError: names, dimensions or an opset that do not fit.

    >>> import weft
    >>> free = {"input": {0: "n"}}
    >>> made = weft.onnx.export(weft.nn.Linear(3, 2), weft.ones(4, 3), dynamic_axes=free)
    >>> [node.op_type for node in made.model_proto.graph.node]
    ['Gemm', 'Identity']
    """
    _check_options(export_params, training)
    if dynamic_axes is not None and dynamic_shapes is not None:
        raise ValueError("[onnx.export] expected dynamic_axes or dynamic_shapes, got both")
    onnx = onnx_package()
    from weft.closing.program import original_of

    version = _expect_opset(opset, opset_version)
    model = original_of(model)
    given = args if isinstance(args, tuple) else (args,)
    exported: dict[tuple[int, int], Any] = {}
    if isinstance(model, weft.export.ExportedProgram):
        given, kwargs, exported = of_exported(model, given, kwargs)
    if kwargs is None and _ends_in_kwargs(model, given):
        given, kwargs = given[:-1], given[-1]
    free = _Free(model, given, kwargs or {}, input_names, dynamic_axes, dynamic_shapes)
    free.axes = {**exported, **free.axes}
    free.name_sizes()
    _expect_other_names(output_names or (), free.names)
    package = _package(model)
    try:
        made = _with_examples(package, free, version, output_names)
    except NotOnnx as error:
        raise free.explained(error) from None
    _expect_names(made.graph, free, dynamic_axes or {})
    _name_sizes(made.graph.output, dynamic_axes or {})
    onnx.checker.check_model(made, full_check=False)
    program = ONNXProgram(made, lambda args, kwargs: _tensors(model, free, args, kwargs))
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


def _expect_names(graph: Any, free: _Free, axes: Mapping[str, Any]) -> None:
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


def _tensors(
    model: Any, exported: _Free, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Tensor]:
    """The tensors among arguments, in the order of the model's inputs.

    Raises:
        ValueError: the rest of the arguments is not that of the export.
    """
    given = _Free(model, args, kwargs, None, None, None)
    defaults = _defaults(model)
    for name, wanted in exported.plain.items():
        parameter = exported.owner[name]
        if name not in given.plain and parameter in given.owner.values():
            raise ValueError(
                f"[onnx] expected {name} = {wanted!r} as it was exported, got none in {parameter}"
            )
    for name, got in given.plain.items():  # what is not given is what was exported
        wanted = exported.plain.get(name, defaults.get(name))
        if type(wanted) is not type(got) or wanted != got:
            raise ValueError(
                f"[onnx] expected {name} = {wanted!r} as it was exported, got {got!r}. Hint: what "
                "is no tensor is part of a model: export another"
            )
    if given.paths != exported.paths:
        raise ValueError(
            f"[onnx] expected tensors at {', '.join(exported.paths)}, got them at "
            f"{', '.join(given.paths)}"
        )
    return [tensor for _, tensor in given.leaves]


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


def _ends_in_kwargs(model: Any, args: tuple[Any, ...]) -> bool:
    """Whether the last of these is a dict of arguments by name, as PyTorch takes one: the model
    has no parameter for it."""
    if not args or not isinstance(args[-1], dict):
        return False
    try:
        names = list(inspect.signature(_forward(model)).parameters)
    except (TypeError, ValueError):
        return False
    return len(names) < len(args)


def _forward(model: Any) -> Any:
    from weft.closing.program import call_of

    model = program_in(model) or model
    if not isinstance(model, weft.nn.Module):
        return model
    return call_of(model.__dict__["_original"] if "_runs" in model.__dict__ else model)


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
    package = package_of({"forward": _forward(model)}, root)
    return json.loads(package.to_json()), package.tensors, kinds


def _expect_todays(ops: Mapping[str, int]) -> None:
    """Raises for a program of an older weft that calls an op which has changed since."""
    from weft.closing import known

    for name, version in ops.items():
        if version != known.version_of(name):
            raise NotOnnx(f"{name} as its version {version} has it", "save the program anew")


class _Free:
    """The arguments, names of the inputs, and which dimensions are free."""

    def __init__(
        self,
        model: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        names: Sequence[str] | None,
        axes: Any,
        shapes: Any,
    ) -> None:
        self.args, self.kwargs = args, kwargs
        self.leaves: list[tuple[str, Tensor]] = []
        self.plain: dict[str, Any] = {}  # what is no tensor
        self.owner: dict[str, str] = {}  # of each leaf, the parameter that it is a part of
        self.bound = bound = _parameters(model, args, kwargs)
        for name, v in bound:
            self.parameter = name
            self.collect(name, v)
        self.paths = [name for name, _ in self.leaves]
        if names is not None:
            if len(names) > len(self.leaves):
                raise ValueError(
                    f"[onnx.export] expected {len(self.leaves)} input_names, got {len(names)}"
                )
            if twice := [name for k, name in enumerate(names) if name in names[:k]]:
                raise ValueError(
                    f"[onnx.export] expected input_names that differ, got {twice[0]!r} twice"
                )
            self.leaves = [
                (n, t)
                for n, (_, t) in zip(
                    [*names, *(n for n, _ in self.leaves[len(names) :])], self.leaves
                )
            ]
        self.names = [n for n, _ in self.leaves]
        self.axes: dict[tuple[int, int], Any] = {}
        for name, dims in (axes or {}).items():
            if name in self.names:
                self.mark(self.names.index(name), dims)
            elif not isinstance(name, str):
                raise ValueError(
                    f"[onnx.export] expected names of inputs in dynamic_axes, got {name!r}"
                )
        if shapes is not None:
            self.from_shapes(bound, _item_by_item(model, args, shapes))

    def collect(self, name: str, v: Any) -> None:
        """The tensors in an argument."""
        if not isinstance(v, (list, tuple, dict)):
            self.owner[name] = self.parameter
        if isinstance(v, Tensor):
            expect_dense(v, "onnx.export", name)
            self.leaves.append((name, v))
        elif isinstance(v, (list, tuple)):
            for k, item in enumerate(v):
                self.collect(f"{name}_{k}", item)
        elif isinstance(v, dict):
            for k, item in v.items():
                self.collect(f"{name}_{k}", item)
        elif hasattr(v, "__array__"):
            raise TypeError(
                f"[onnx.export] expected tensors among the arguments, got {type(v).__name__} as "
                f"{name!r}. Hint: weft.from_numpy makes a tensor of an array"
            )
        else:
            self.plain[name] = v

    def explained(self, error: NotOnnx) -> NotOnnx:
        """What a program cannot do, with the argument that may be why: a dict."""
        dicts = [n for n, v in self.bound if isinstance(v, dict)]
        if not dicts or error.hint:
            return error
        hint = f"the argument {dicts[0]!r} is a dict: arguments by name are given as kwargs"
        return type(error)(error.reason, hint, error.place)

    def name_sizes(self) -> None:
        """Gives each size that is free without a name one of its own: s0, s1, ..."""
        taken = {_symbol(s) for s in self.axes.values() if not _is_unnamed(s)}
        names = (n for k in itertools.count() if (n := f"s{k}") not in taken)
        for at, symbol in self.axes.items():
            if _is_unnamed(symbol):
                self.axes[at] = weft.export.Dim(next(names), min=symbol.min, max=symbol.max)

    def mark(self, leaf: int, dims: Any) -> None:
        """Frees dimensions of an input."""
        name, tensor = self.leaves[leaf]
        pairs = dims.items() if isinstance(dims, Mapping) else ((d, None) for d in dims)
        for d, symbol in pairs:
            if not -tensor.dim() <= d < tensor.dim():
                raise ValueError(
                    f"[onnx.export] expected a dimension of {name!r}, which has {tensor.dim()}, "
                    f"got {d}"
                )
            if isinstance(symbol, int) or isinstance(dims, Mapping) and symbol is None:
                continue
            if _is_unnamed(symbol) and str(symbol) == "Dim.STATIC":
                continue
            d %= tensor.dim()
            self.axes[leaf, d] = symbol if symbol is not None else f"{name}_{d}"

    def from_shapes(self, bound: list[tuple[str, Any]], shapes: Any) -> None:
        """Frees dimensions as dynamic_shapes says."""
        if isinstance(shapes, Mapping):
            known = {n for n, _ in bound} | set(self.names)
            if unknown := sorted(set(shapes) - known):
                raise ValueError(
                    "[onnx.export] expected names of parameters in dynamic_shapes, "
                    f"got {unknown[0]!r}"
                )
            for n in self.names:
                if n in shapes and n not in dict(bound):
                    self.mark_spec(self.names.index(n), shapes[n])
        specs = [shapes.get(n) for n, _ in bound] if isinstance(shapes, Mapping) else list(shapes)
        at = 0

        def visit(v: Any, spec: Any) -> None:
            nonlocal at
            if isinstance(v, Tensor):
                self.mark_spec(at, spec)
                at += 1
            elif isinstance(v, (list, tuple)):
                for k, item in enumerate(v):
                    visit(item, spec[k] if spec is not None else None)
            elif isinstance(v, dict):
                for k, item in v.items():
                    visit(item, spec.get(k) if spec is not None else None)

        for (_, v), spec in zip(bound, specs):
            visit(v, spec)

    def mark_spec(self, leaf: int, spec: Any) -> None:
        """One tensor's: a mapping, or an entry for each dimension."""
        if spec is None:
            return
        if isinstance(spec, Mapping):
            self.mark(leaf, spec)
        else:
            self.mark(leaf, {d: s for d, s in enumerate(spec) if s is not None})

    def sizes(self, second_of: Callable[[int], int]) -> dict[Any, tuple[int, int]]:
        """Two sizes for the examples of each free one."""
        out = {}
        for (leaf, d), symbol in self.axes.items():
            key = _symbol(symbol)
            n = self.leaves[leaf][1].shape[d]
            low, high = getattr(symbol, "min", None), getattr(symbol, "max", None)
            first = max(n, 2)
            second = second_of(first)
            if isinstance(high, int):
                second = min(second, high)
            if isinstance(low, int):
                second = max(second, low)
            if second in (0, first):
                second = first - 1 if first == high else first + 1
            out[key] = (first, max(second, 1))
        return out


def _is_unnamed(symbol: Any) -> bool:
    """Whether it is `Dim.AUTO`, `Dim.DYNAMIC` or `Dim.STATIC`, with bounds or without."""
    return isinstance(symbol, type(weft.export.Dim.AUTO))


def _symbol(symbol: Any) -> str:
    return str(getattr(symbol, "__name__", symbol))


def _parameters(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    try:
        bound = inspect.signature(_forward(model)).bind(*args, **kwargs)
    except ValueError:
        return [*((f"input_{k}", v) for k, v in enumerate(args)), *kwargs.items()]
    except TypeError as error:
        raise TypeError(
            f"[onnx.export] expected example arguments of the model, got others: {error}"
        ) from None
    out: list[tuple[str, Any]] = []
    for name, v in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            out += [(f"{name}_{k}", item) for k, item in enumerate(v)]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            out += list(v.items())
        else:
            out.append((name, v))
    return out


def _item_by_item(model: Any, args: Sequence[Any], shapes: Any) -> Any:
    """dynamic_shapes of each tensor that `*args` takes, where they are given as PyTorch has them:
    in a tuple for all of these."""
    try:
        parameters = list(inspect.signature(_forward(model)).parameters.values())
    except ValueError:
        return shapes
    at = next((k for k, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL), None)
    if at is None:
        return shapes
    name = parameters[at].name
    if isinstance(shapes, Mapping):
        specs = shapes.get(name)
        if not isinstance(specs, (tuple, list)):
            return shapes
        rest = {k: v for k, v in shapes.items() if k != name}
        return rest | {f"{name}_{k}": spec for k, spec in enumerate(specs)}
    nested = len(shapes) > at and isinstance(shapes[at], (tuple, list))
    if nested and all(isinstance(s, (Mapping, tuple, list)) or s is None for s in shapes[at]):
        return [*shapes[:at], *shapes[at], *shapes[at + 1 :]]
    return shapes


def _defaults(model: Any) -> dict[str, Any]:
    """The default values of a model's parameters."""
    try:
        parameters = inspect.signature(_forward(model)).parameters
    except ValueError:
        return {}
    empty = inspect.Parameter.empty
    return {n: p.default for n, p in parameters.items() if p.default is not empty}


# The second of two examples, of the first (Note [Examples]).
_SIZES: tuple[Callable[[int], int], ...] = (
    lambda n: 2 * n, lambda n: n // 2, lambda n: n + 1, lambda n: n - 1,
)  # fmt: skip
_NUMBERS: tuple[Callable[[Any], Any], ...] = (
    lambda n: 2 * n + 1, lambda n: n + 1, lambda n: n,
)  # fmt: skip


def _with_examples(
    package: Any, free: _Free, opset: int, output_names: Sequence[str] | None
) -> Any:
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
    free: _Free,
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
    inputs: list[tuple[Value, list[Any]]] = []
    made: dict[int, Held] = {}
    for leaf, (name, tensor) in enumerate(free.leaves):
        mine = {d: _symbol(s) for (k, d), s in free.axes.items() if k == leaf}
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
