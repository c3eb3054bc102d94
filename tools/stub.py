"""What weft/_C.pyi says: the extension as editors and type checkers see it.

Three sources: the op table (functions, methods, `ops`), the methods that Python adds to Tensor
(signatures as they are written), and the few names below that the binding has besides.
"""

import inspect
import keyword
import re
from typing import Any

import weft
from weft import _C

HEADER = '''\
# Written by tools/make_stubs.py from the op table.
# Overloads are tried in this order, as the table does: one may hide a part of a later one.
# mypy: disable-error-code="overload-overlap, overload-cannot-match, override"
import builtins
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeAlias, overload

from weft import return_types
from weft.base.device import device as _device
from weft.base.names import layout as _layout
from weft.storage import TypedStorage, UntypedStorage

_bool: TypeAlias = builtins.bool
_int: TypeAlias = builtins.int
_float: TypeAlias = builtins.float
_complex: TypeAlias = builtins.complex
_str: TypeAlias = builtins.str
_Number: TypeAlias = builtins.bool | builtins.int | builtins.float | builtins.complex
_Ints: TypeAlias = builtins.int | Sequence[builtins.int]

class dtype:
    is_floating_point: _bool
    is_complex: _bool
    is_signed: _bool
    itemsize: _int
    def to_real(self) -> dtype: ...
    def to_complex(self) -> dtype: ...

_dtype: TypeAlias = dtype

class Size(tuple[_int, ...]):
    def numel(self) -> _int: ...
    @overload
    def __getitem__(self, index: builtins.slice, /) -> Size: ...
    @overload
    def __getitem__(self, index: Any, /) -> _int: ...
    def __add__(self, other: tuple[_int, ...], /) -> Size: ...

class Node:
    next_functions: tuple[tuple[Node | None, _int], ...]
    metadata: dict[Any, Any]
    requires_grad: _bool
    site: _str | None
    def name(self) -> _str: ...
    def register_hook(self, hook: Callable[..., Any], /) -> HookHandle: ...
    def register_prehook(self, hook: Callable[..., Any], /) -> HookHandle: ...
    def __getattr__(self, name: _str, /) -> Any: ...

class _Compiled:
    callee: Any
    def __new__(
        cls, callee: Any, fullgraph: _bool = ..., kind: _int = ..., backend: Any = ...
    ) -> Self: ...
    def _reached(self) -> list[tuple[Any, Any, _int]]: ...

class _Waiting: ...

class _Package:
    entries: tuple[str, ...]
    by_plan: _bool
    def __new__(cls, json: str, tensors: dict[str, Tensor], /) -> Self: ...
    def call(self, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any: ...
    def field(self, object: _int, name: str, /) -> Any: ...
    @staticmethod
    def methods() -> set[str]: ...
    def set_field(self, object: _int, name: str, value: Any, /) -> None: ...
    def places(self) -> list[dict[str, Any]]: ...
    @staticmethod
    def tensor_methods() -> dict[str, str]: ...

class HookHandle:
    id: _int
    def remove(self) -> None: ...
    def __enter__(self) -> HookHandle: ...
    def __exit__(self, *exc: object) -> None: ...

class Generator:
    device: _device
    def __init__(self, device: Any = ...) -> None: ...
    def manual_seed(self, seed: _int, /) -> Generator: ...
    def seed(self) -> _int: ...
    def initial_seed(self) -> _int: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, state: Tensor, /) -> Generator: ...
    def clone_state(self) -> Generator: ...
    def _get_bytes(self) -> builtins.bytes: ...
    def _set_bytes(self, state: builtins.bytes, /) -> None: ...

class _Entry:
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class _Named:
    name: str
    def __init__(self, name: str) -> None: ...
    def __enter__(self) -> _Named: ...
    def __exit__(self, *error: Any) -> None: ...

class _Log:
    layouts: list[tuple[str, list[tuple[str, str, int]], int]]
    kinds: tuple[str, ...]
    dtypes: dict[int, dtype]
    marks: tuple[int, int, int]
    count: int
    finished: _bool
    seconds_per_tick: _float
    names: list[tuple[str, Any]]
    sites: list[tuple[Any, int]]
    stacks: tuple[list[tuple[Any, int]], list[tuple[int, int]]]
    def start(self, times: _bool, sample: _int, most: _int, stacks: _bool = ..., /) -> None: ...
    def stop(self, times: _bool, sample: _int, most: _int, stacks: _bool = ..., /) -> None: ...
    def break_at(self, owner: Any, nan: _bool, inf: _bool, norm_above: _float,
                 sizes: tuple[_int, ...] | None, rest: _int, backward: _int, asks: _int,
                 /) -> None: ...
    def break_no_more(self, owner: Any, /) -> None: ...
    def break_next(self, owner: Any, /) -> None: ...
    def add_nodes(self, tensors: list[Tensor], /) -> None: ...
    def table(self, name: str, /) -> builtins.bytes: ...
    def number(self, tensor: Tensor, /) -> _int | None: ...
    @staticmethod
    def running() -> _Log | None: ...
    @staticmethod
    def address(tensor: Tensor, /) -> _int: ...


class _Context:
    def _saved(self) -> tuple[Any, ...] | None: ...

default_generator: Generator
'''

TENSOR = '''\
class Tensor:
    shape: Size
    dtype: _dtype
    ndim: _int
    itemsize: _int
    nbytes: _int
    is_meta: _bool
    is_cpu: _bool
    device: _device
    requires_grad: _bool
    is_leaf: _bool
    grad: Tensor | None
    grad_fn: Node | None
    data: Tensor
    output_nr: _int
    retains_grad: _bool
    _base: Tensor | None
    _inference: _bool
    _version: _int
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = ..., kwargs: Any = ...
    ) -> Any: ...
    @staticmethod
    def _make_subclass(cls: Any, data: Tensor, require_grad: _bool = ..., /) -> Any: ...
    def _storage_info(self) -> tuple[_int, _int, _int]: ...
    def _moved_to(self, cls: Any, /) -> Any: ...
    def as_subclass(self, cls: Any, /) -> Any: ...
    def data_ptr(self) -> _int: ...
    def detach(self) -> Tensor: ...
    def detach_(self) -> Tensor: ...
    def dim(self) -> _int: ...
    def is_contiguous(self, memory_format: Any = ...) -> _bool: ...
    def item(self) -> _bool | _int | _float: ...
    def ndimension(self) -> _int: ...
    def nelement(self) -> _int: ...
    def numel(self) -> _int: ...
    def retain_grad(self) -> None: ...
    @overload
    def size(self, dim: None = ...) -> Size: ...
    @overload
    def size(self, dim: _int) -> _int: ...
    def storage_offset(self) -> _int: ...
    @overload
    def stride(self, dim: None = ...) -> tuple[_int, ...]: ...
    @overload
    def stride(self, dim: _int) -> _int: ...
    def tolist(self) -> Any: ...
    def __getitem__(self, index: Any, /) -> Tensor: ...
    def __setitem__(self, index: Any, value: Tensor | _Number, /) -> None: ...
    def __len__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, value: Any, /) -> _bool: ...
    def __bool__(self) -> _bool: ...
    def __int__(self) -> _int: ...
    def __index__(self) -> _int: ...
    def __float__(self) -> _float: ...
    def __hash__(self) -> _int: ...
    def __buffer__(self, flags: _int, /) -> memoryview: ...
    def __eq__(self, other: Any, /) -> Tensor: ...
    def __ne__(self, other: Any, /) -> Tensor: ...
'''

FUNCTIONS = '''\
def tensor(
    data: Any, *, dtype: _dtype | None = ..., device: Any = ..., requires_grad: _bool = ...,
    pin_memory: _bool = ...
) -> Tensor: ...
def promote_types(type1: dtype, type2: dtype, /) -> dtype: ...
def get_default_dtype() -> dtype: ...
def set_default_dtype(dtype: _dtype, /) -> None: ...
def get_num_threads() -> _int: ...
def set_num_threads(threads: _int, /) -> None: ...
def is_grad_enabled() -> _bool: ...
def is_autocast_cache_enabled() -> _bool: ...
def is_autocast_cpu_enabled() -> _bool: ...
def is_anomaly_enabled() -> _bool: ...
def is_anomaly_check_nan_enabled() -> _bool: ...
# What only the package calls.
def _become_view(self: Tensor, name: _str, take: Callable[[], Any], /) -> Tensor: ...
def _from_dlpack(capsule: Any, /) -> Tensor: ...
def _map_file(path: _str | os.PathLike[_str], /) -> tuple[dict[_str, Tensor], dict[_str, _str]]: ...
def _over(
    storage: Any, dtype: _dtype, offset: _int, size: Sequence[_int], stride: Sequence[_int], /
) -> Tensor: ...
def _records() -> list[dict[_str, Any]]: ...
def _rename_node(output: Tensor, name: _str, /) -> Tensor: ...
def _resize(self: Tensor, size: Any, /) -> Tensor: ...
def _set(self: Tensor, source: Tensor, /) -> Tensor: ...
def _sharing(array: Any, /) -> Tensor: ...
'''

UNARY = ("abs", "invert", "neg", "pos")
BINARY = ("add", "and", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift", "sub",
          "truediv", "xor")  # fmt: skip
COMPARISONS = ("ge", "gt", "le", "lt")

TYPES = {
    "Tensor": "Tensor",
    "Tensor[]": "Sequence[Tensor]",
    "int": "_int",
    "int[]": "_Ints",
    "float": "_float",
    "bool": "_bool",
    "Scalar": "_Number",
    "dtype": "_dtype",
    "str": "_str",
}
Record = dict[str, Any]


def split_schema(schema: str) -> tuple[list[str], str]:
    """The parameters of a schema and its result."""
    arrow = schema.rindex("->")
    inside = schema[schema.index("(") + 1 : schema.rindex(")", 0, arrow)]
    return [p for p in map(str.strip, inside.split(",")) if p], schema[arrow + 2 :].strip()


def parameters(r: Record, method: bool, internal: bool) -> list[str]:
    """The parameters of a record as Python's: one list, or two where sizes may be spread out."""
    parts, result = split_schema(r["schema"])
    positional: list[str] = []
    named: list[str] = []
    spread = ""
    optional = False  # Python wants defaults after the first one
    # 2 ** x: a function of two operands takes a number for either.
    number_first = not method and r["inplace"] and r["schema"].count("Tensor ") == 2
    into = positional
    for part in parts:
        if part == "*":
            into = named
            continue
        kind, rest = part.split(" ", 1)
        name, _, default = rest.partition("=")
        hint = TYPES[kind.rstrip("?")]
        if kind == "Tensor?" or kind == "Tensor" and (positional or named or number_first):
            hint += " | _Number"
        hint += " | None" if kind.endswith("?") else ""
        first = not positional and not named
        name = "input" if name == "self" and first else name
        name += "_" if keyword.iskeyword(name) else ""
        has_default = bool(default) or kind == "Tensor?"
        optional = optional or has_default if into is positional else has_default
        given = "self" if method and first else f"{name}: {hint}"
        into.append(given + (" = ..." if optional else ""))
        spread = f"*{name}: _int" if into is positional and kind == "int[]" else (
            spread if into is named else "")  # fmt: skip
    if not internal:
        makes = not any(p.startswith("Tensor") for p in parts) or r["public_name"].endswith("_like")
        if makes and any(" dtype=" in p for p in parts):
            named += ["device: Any = ...", "layout: Any = ...", "requires_grad: _bool = ...",
                      "pin_memory: _bool = ...", "memory_format: Any = ..."]  # fmt: skip
        if r["random"]:
            named.append("generator: Generator | None = ...")
        if r["public_name"] in ("clone", "contiguous"):
            named.append("memory_format: Any = ...")
    if r["out_form"] and not method:
        kind = "Tensor" if result in ("Tensor", "Tensor[]") else "Sequence[Tensor]"
        named.append(f"out: {kind} | None = ...")
    after = (["*"] if named else []) + named
    out = [", ".join(positional + after)]
    if spread:
        out.append(", ".join([*positional[:-1], spread, *named]))
    return out


def result(schema: str, tuples: dict[str, str]) -> str:
    """The hint of a schema's result; adds the named tuple that it is to `tuples`."""
    text = split_schema(schema)[1]
    if text == "Tensor":
        return "Tensor"
    if text == "Tensor[]":
        return "tuple[Tensor, ...]"
    fields = re.findall(r"Tensor (\w+)", text)
    if not fields:
        return f"tuple[{', '.join(['Tensor'] * (text.count(',') + 1))}]"
    name = "_" + "_".join(fields)
    lines = [f"class {name}(tuple[{', '.join(['Tensor'] * len(fields))}]):"]
    for field in fields:
        lines += ["    @property", f"    def {field}(self) -> Tensor: ..."]
    tuples[name] = "\n".join(lines)
    return name


def group(records: list[Record], chosen: str, suffix: str = "") -> dict[str, list[Record]]:
    """Records by public name and alias, those for which `chosen` holds."""
    names: dict[str, list[Record]] = {}
    for r in records:
        if r[chosen]:
            for name in [r["public_name"], *r["aliases"]]:
                names.setdefault(name + suffix, []).append(r)
    return dict(sorted(names.items()))


def signatures(names: dict[str, list[Record]], tuples: dict[str, str], indent: str = "",
               internal: bool = False) -> list[str]:  # fmt: skip
    """The lines that define these functions or (indented) methods."""
    lines = []
    method = bool(indent) and not internal
    for name, overloads in names.items():
        forms: list[str] = []
        # What takes a tensor takes numbers too: the overload that wants a number goes first.
        for r in sorted(overloads, key=lambda r: r["schema"].count("Tensor ")):
            for given in parameters(r, method, internal):
                form = f"{indent}def {name}({given}) -> {result(r['schema'], tuples)}: ..."
                if form not in forms:
                    forms.append(form)
        for form in forms:
            if internal:
                lines.append(f"{indent}@staticmethod")
            if len(forms) > 1:
                lines.append(f"{indent}@overload")
            lines.append(form)
    return lines


BUILTINS = re.compile(r"(?<![\w.])(bool|int|float|complex|str|dtype|device|layout)(?![\w.])")
KNOWN = {"Tensor", "Any", "Size", "Callable", "Sequence", "None", "return_types", "tuple", "list",
         "dict", "UntypedStorage", "TypedStorage", "HookHandle", "Node",
         "_Compiled"}  # fmt: skip


def hint(annotation: Any) -> str:
    """An annotation of a file in weft/, in the stub's words; Any where those do not have it."""
    if annotation is inspect.Parameter.empty:
        return "Any"
    text = BUILTINS.sub(r"_\1", str(annotation))
    words = {w for w in re.findall(r"(?<![\w.])[A-Za-z]\w*", text) if w not in KNOWN}
    return "Any" if words else text


def python_method(name: str, thing: Any) -> list[str]:
    """The lines for what Python adds to Tensor."""
    if isinstance(thing, property):
        gives = hint(inspect.signature(thing.fget).return_annotation)
        if name == "layout":
            gives = "_layout"
        elif name.startswith("is_"):
            gives = "_bool"
        return ["    @property", f"    def {name}(self) -> {gives}: ..."]
    sig = inspect.signature(thing)
    given = ["self"]
    star = False
    for p in list(sig.parameters.values())[1:]:
        if p.kind is p.KEYWORD_ONLY and not star:
            given.append("*")
            star = True
        star = star or p.kind is p.VAR_POSITIONAL
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else " = ..."
        given.append(f"{mark}{p.name}: {hint(p.annotation)}{default}")
    return [f"    def {name}({', '.join(given)}) -> {hint(sig.return_annotation)}: ..."]


def tensor_class(records: list[Record], tuples: dict[str, str]) -> list[str]:
    """The lines of the class Tensor."""
    lines = TENSOR.rstrip("\n").split("\n")
    lines += [f"    def __{n}__(self) -> Tensor: ..." for n in UNARY]
    for n in BINARY:
        other = "Tensor" if n == "matmul" else "Tensor | _Number"
        for form in (n, "r" + n, "i" + n):
            if hasattr(_C.Tensor, f"__{form}__"):
                lines.append(f"    def __{form}__(self, other: {other}, /) -> Tensor: ...")
    lines += [
        f"    def __{n}__(self, other: Tensor | _Number, /) -> Tensor: ..." for n in COMPARISONS
    ]
    of_table = group(records, "method") | group(records, "inplace", "_")
    for name, thing in sorted(vars(_C.Tensor).items()):
        inner = inspect.unwrap(thing)
        written = isinstance(inner, property) or inspect.isfunction(inner)
        if written and name not in of_table and f" {name}(" not in TENSOR:
            lines += python_method(name, inner if isinstance(inner, property) else thing)
    return lines + signatures(dict(sorted(of_table.items())), tuples, "    ")


def internal_ops(records: list[Record], tuples: dict[str, str]) -> list[str]:
    """The lines of `ops`: every record under its own name, private ones too."""
    names: dict[str, list[Record]] = {}
    for r in records:
        names.setdefault(r["name"].split(".")[0], []).append(r)
        if r["inplace"]:
            names.setdefault(r["name"].split(".")[0] + "_", []).append(r)
    lines = ["class _Ops:", *signatures(dict(sorted(names.items())), tuples, "    ", True)]
    return [*lines, "", "ops: _Ops"]


def stub() -> str:
    """The text of weft/_C.pyi."""
    records = _C._records()
    tuples: dict[str, str] = {}
    dtypes = [f"{n}: dtype" for n in sorted(vars(_C)) if isinstance(getattr(_C, n), weft.dtype)]
    tensor = tensor_class(records, tuples)
    public = group(records, "function") | group(records, "inplace", "_")
    # Those that Python wraps (`where`) are typed where they are written.
    public = {n: r for n, r in public.items()
              if hasattr(_C, n) and getattr(weft, n) is getattr(_C, n)}  # fmt: skip
    functions = signatures(public, tuples)
    internal = internal_ops(records, tuples)
    parts = ["\n".join(dtypes), *tuples.values(), *map("\n".join, (tensor, functions, internal))]
    private = [n for n in sorted(vars(_C)) if n.startswith("_") and callable(getattr(_C, n))]
    others = [f"def {n}(*args: Any) -> Any: ..." for n in private
              if f" {n}(" not in FUNCTIONS and not isinstance(getattr(_C, n), type)
              and n != "__loader__"]  # fmt: skip
    return HEADER + "\n" + "\n\n".join([*parts, FUNCTIONS]) + "\n".join(others) + "\n"
