"""The allow-list: what a name in a file stands for, and what may be done with it.

Every built-in entry is a function of this file that checks its arguments; nothing is imported by
name. A user extends the list with `weft.serialization.add_safe_globals`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft._checkpoint.dtypes import BY_STORAGE, KNOWN, StorageType, dtype_named
from weft._checkpoint.unpickler import expect_key
from weft.base.device import device

Args = tuple[Any, ...]

#: What the user allows: name in the file -> class or function.
_user: dict[str, Any] = {}


def user_names() -> dict[str, Any]:
    """The user's part of the allow-list."""
    return _user


def _expect(ok: bool, what: str, expected: str, got: Any) -> None:
    if not ok:
        text = repr(got) if isinstance(got, (int, str, tuple)) else type(got).__name__
        raise UnpicklingError(f"[load] expected {what} with {expected}, got {text[:200]}")


# ---- plain values


def _ordered_dict(args: Args) -> Any:
    _expect(len(args) <= 1, "OrderedDict", "at most a list of pairs", args)
    out: OrderedDict[Any, Any] = OrderedDict()
    for pair in args[0] if args and type(args[0]) is list else ():
        _expect(type(pair) in (list, tuple) and len(pair) == 2, "OrderedDict", "pairs", pair)
        expect_key(pair[0])
        out[pair[0]] = pair[1]
    _expect(not args or type(args[0]) is list, "OrderedDict", "a list of pairs", args)
    return out


def _counter(args: Args) -> Any:
    _expect(not args or (len(args) == 1 and type(args[0]) is dict), "Counter", "a dict", args)
    out: Counter[Any] = Counter()
    dict.update(out, *args)
    return out


def _collected(kind: Callable[[Any], Any]) -> Callable[[Args], Any]:
    def make(args: Args) -> Any:
        _expect(not args or (len(args) == 1 and type(args[0]) is list), "a set", "a list", args)
        for item in args[0] if args else ():
            expect_key(item)
        return kind(args[0] if args else ())

    return make


def _encode(args: Args) -> bytes:
    text, encoding = args
    _expect(type(text) is str and encoding in ("latin1", "latin-1"), "bytes", "latin1 text", args)
    encoded: bytes = text.encode("latin1")
    return encoded


def _bytes(args: Args) -> bytes:
    _expect(not args or (len(args) == 1 and type(args[0]) is bytes), "bytes", "bytes", args)
    return args[0] if args else b""


def _bytearray(args: Args) -> bytearray:
    if len(args) == 2:
        return bytearray(_encode(args))
    return bytearray(_bytes(args))


def _complex(args: Args) -> complex:
    real, imag = args
    _expect(type(real) is float and type(imag) is float, "complex", "two floats", args)
    return complex(real, imag)


def _is_int(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _ints(what: str, value: Any) -> tuple[int, ...]:
    _expect(isinstance(value, (tuple, list)) and all(map(_is_int, value)), what, "ints", value)
    return tuple(value)


def _size(args: Args) -> Any:
    return weft.Size(_ints("Size", args[0] if args else ()))


def _device(args: Args) -> Any:
    ok = 1 <= len(args) <= 2 and type(args[0]) is str
    ok = ok and (len(args) == 1 or args[1] is None or _is_int(args[1]))
    _expect(ok, "device", "a type and an index", args)
    try:
        return device(*args)
    except RuntimeError as error:
        raise UnpicklingError(f"[load] {error}") from None


def _layout(args: Args) -> Any:
    layouts = (weft.strided, weft.sparse_coo, weft.sparse_csr, weft.sparse_csc, weft.jagged)
    known = {str(one): one for one in layouts}
    _expect(len(args) == 1 and args[0] in known, "layout", " or ".join(known), args)
    return known[args[0]]


# ---- tensors. A storage of the file is the 1-D tensor over all of its memory.


def _strided(storage: Any, kind: Any, args: Args) -> Tensor:
    _expect(isinstance(storage, Tensor), "a tensor", "a storage", storage)
    offset, size, stride = args
    _expect(_is_int(offset) and offset >= 0, "a tensor", "an offset", offset)
    size, stride = _ints("a size", size), _ints("strides", stride)
    try:
        return _C._over(storage, kind, offset * KNOWN[str(kind)[6:]].size, size, stride)
    except (ValueError, OverflowError) as error:
        raise UnpicklingError(f"[load] {error}") from None


def _rebuild_tensor(args: Args) -> Tensor:
    storage, offset, size, stride = args
    _expect(isinstance(storage, Tensor), "a tensor", "a storage", storage)
    return _strided(storage, storage.dtype, (offset, size, stride))


def _finish(out: Tensor, requires_grad: Any, hooks: Any, metadata: Any) -> Tensor:
    _expect(type(requires_grad) is bool, "a tensor", "requires_grad as a bool", requires_grad)
    _expect(hooks is None or (isinstance(hooks, dict) and not hooks), "a tensor", "no hooks", hooks)
    if metadata:
        _expect(type(metadata) is dict, "a tensor", "metadata as a dict", metadata)
        unknown = [key for key, on in metadata.items() if on and key not in ("conj", "neg")]
        _expect(not unknown, "a tensor", "the marks conj and neg", tuple(unknown))
        if metadata.get("conj"):
            out = weft.conj(out)
        if metadata.get("neg"):
            out = -out
    if requires_grad:
        try:
            out.requires_grad = True
        except RuntimeError as error:
            raise UnpicklingError(f"[load] {error}") from None
    return out


def _rebuild_tensor_v2(args: Args) -> Tensor:
    _expect(6 <= len(args) <= 7, "a tensor", "six or seven parts", len(args))
    out = _rebuild_tensor(args[:4])
    return _finish(out, args[4], args[5], args[6] if len(args) == 7 else None)


def _rebuild_tensor_v3(args: Args) -> Tensor:
    _expect(7 <= len(args) <= 8, "a tensor", "seven or eight parts", len(args))
    kind = args[6]
    _expect(isinstance(kind, _C.dtype), "a tensor", "a dtype", kind)
    out = _strided(args[0], kind, args[1:4])
    return _finish(out, args[4], args[5], args[7] if len(args) == 8 else None)


def _rebuild_meta_tensor(args: Args) -> Tensor:
    _expect(len(args) == 4, "a tensor", "four parts", len(args))
    kind, size, stride, requires_grad = args
    _expect(isinstance(kind, _C.dtype), "a tensor", "a dtype", kind)
    try:
        out = weft.empty_strided(
            _ints("a size", size), _ints("strides", stride), dtype=kind, device="meta"
        )
    except (ValueError, RuntimeError) as error:
        raise UnpicklingError(f"[load] {error}") from None
    return _finish(out, requires_grad, None, None)


def _attributes(out: Any, state: Any) -> Any:
    slots: Any = None
    if type(state) is tuple and len(state) == 2:
        state, slots = state
    for part in (state, slots):
        _expect(part is None or isinstance(part, dict), "attributes", "a dict", part)
        for name, value in (part or {}).items():
            _expect(type(name) is str and not name.startswith("__"), "attributes", "names", name)
            out.__dict__[name] = value
    return out


def _parameter_data(data: Any, requires_grad: Any) -> Any:
    _expect(isinstance(data, Tensor), "a Parameter", "a tensor", data)
    _expect(type(requires_grad) is bool, "a Parameter", "a bool", requires_grad)
    try:
        return weft.nn.Parameter(data, requires_grad)
    except RuntimeError as error:
        raise UnpicklingError(f"[load] {error}") from None


def _rebuild_parameter(args: Args) -> Any:
    data, requires_grad, hooks = args
    _expect(not hooks, "a Parameter", "no hooks", hooks)
    return _parameter_data(data, requires_grad)


def _rebuild_parameter_with_state(args: Args) -> Any:
    data, requires_grad, hooks, state = args
    return _attributes(_rebuild_parameter((data, requires_grad, hooks)), state)


def _rebuild_from_type(args: Args) -> Any:
    function, cls, inner, state = args
    _expect(type(inner) is tuple, "a tensor", "a tuple of parts", inner)
    _expect(isinstance(function, Function), "a tensor", "a function of PyTorch", function)
    _expect(isinstance(cls, type) and issubclass(cls, Tensor), "a tensor", "a class", cls)
    out = function.run(inner)
    _expect(isinstance(out, Tensor), "a tensor", "a tensor", out)
    if cls is Tensor and isinstance(state, dict) and state.get("_is_buffer") is True:
        persistent = state.get("persistent", True)
        return weft.nn.Buffer(out, persistent=persistent is True)
    if cls is not Tensor and type(out) is not cls:
        out = Tensor._make_subclass(cls, out, out.requires_grad)
    return _attributes(out, state)


def _rebuild_sparse_tensor(args: Args) -> Any:
    layout, parts = args
    known = (weft.sparse_coo, weft.sparse_csr, weft.sparse_csc)
    _expect(layout in known, "a sparse tensor", "a layout of those", layout)
    _expect(type(parts) is tuple and 3 <= len(parts) <= 4, "a sparse tensor", "parts", parts)
    count = 2 if layout is weft.sparse_coo else 3
    for part in parts[:count]:
        _expect(isinstance(part, Tensor), "a sparse tensor", "tensors", part)
    size = _ints("a size", tuple(parts[count]))
    from weft._utils import _rebuild_sparse_tensor as rebuild

    try:
        return rebuild(layout, (*parts[:count], size, *parts[count + 1 :]))
    except (RuntimeError, IndexError) as error:
        raise UnpicklingError(f"[load] {error}") from None


def _rebuild_nested(args: Args) -> Any:
    _expect(len(args) == 1 and type(args[0]) is dict, "a nested tensor", "a dict", args)
    parts = args[0]
    for name in ("values", "offsets"):
        _expect(type(parts.get(name)) is Tensor, "a nested tensor", name, parts.get(name))
    values, offsets, lengths = parts["values"], parts["offsets"], parts.get("lengths")
    whole = [offsets] if lengths is None else [offsets, lengths]
    ok = all(type(t) is Tensor and t.dim() == 1 and t.dtype is weft.int64 for t in whole)
    ragged = parts.get("_ragged_idx", 1)
    ok = ok and _is_int(ragged) and 1 <= ragged <= values.dim() and offsets.shape[0] > 0
    _expect(ok, "a nested tensor", "int64 offsets and a ragged dim", offsets)
    ends = offsets[1:] if lengths is None else offsets[:-1] + lengths
    ok = ends.shape == offsets[1:].shape and bool((ends >= offsets[:-1]).all())
    ok = (
        ok
        and int(offsets[0]) >= 0
        and int(ends.amax() if len(ends) else 0) <= (values.shape[ragged - 1])
    )
    _expect(ok, "a nested tensor", "parts within the values", tuple(values.shape))
    for n in (parts.get("_metadata_cache") or {}).values():
        _expect(type(n) is Tensor and n.dim() == 2, "a nested tensor", "lengths", n)
    from weft.nested.files import _rebuild_njt

    return _rebuild_njt(parts)


class Function:
    """A function of PyTorch that files call by name."""

    __slots__ = ("name", "run")

    def __init__(self, name: str, run: Callable[[Args], Any]) -> None:
        self.name, self.run = name, run

    def __call__(self, *args: Any) -> Any:
        return self.run(args)

    def __repr__(self) -> str:
        return f"<{self.name}>"


#: PyTorch's home of nested tensors.
_NESTED = "torch.nested._internal.nested_tensor"

#: Classes and functions that REDUCE may call, each with its checked form.
_CLASSES: dict[str, tuple[Any, Callable[[Args], Any] | None]] = {
    "collections.OrderedDict": (OrderedDict, _ordered_dict),
    "collections.Counter": (Counter, _counter),
    "builtins.set": (set, _collected(set)),
    "builtins.frozenset": (frozenset, _collected(frozenset)),
    "builtins.bytes": (bytes, _bytes),
    "builtins.bytearray": (bytearray, _bytearray),
    "builtins.complex": (complex, _complex),
    "torch.Size": (weft.Size, _size),
    "torch.device": (device, _device),
    "torch.Tensor": (Tensor, None),
}
_FUNCTIONS = {
    "_codecs.encode": _encode,
    "torch.serialization._get_layout": _layout,
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_sparse_tensor": _rebuild_sparse_tensor,
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta_tensor,
    f"{_NESTED}._rebuild_njt": _rebuild_nested,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter_with_state,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
}
_CHECKED = {id(cls): run for cls, run in _CLASSES.values() if run is not None}


def _table() -> dict[str, Any]:
    out: dict[str, Any] = {name: cls for name, (cls, _) in _CLASSES.items()}
    out |= {name: Function(name, run) for name, run in _FUNCTIONS.items()}
    out |= {f"torch.{name}": StorageType(name, dtype) for name, dtype in BY_STORAGE.items()}
    out["torch.storage.UntypedStorage"] = StorageType("UntypedStorage", None)
    out["torch.nn.parameter.Parameter"] = weft.nn.Parameter
    return out


_TABLE = _table()
_BLOCKED = ("sys", "os", "posix", "nt")


class AllowList:
    """The names that a file may use. Everything else raises pickle.UnpicklingError."""

    def built_in(self, module: str, name: str) -> Any:
        """What PyTorch's name stands for, or None."""
        if module == "torch" and name in KNOWN:
            return dtype_named(name)
        if module == _NESTED and name == "NestedTensor":
            from weft.nested.tensor import NestedTensor

            return NestedTensor
        return _TABLE.get(f"{module}.{name}")

    def find(self, module: str, name: str) -> Any:
        """The object that `module.name` stands for."""
        module = "builtins" if module == "__builtin__" else module
        path = f"{module}.{name}"
        if module in _BLOCKED:
            raise UnpicklingError(
                f"[load] expected names of PyTorch or allowed ones, got {path} (Trying to load "
                f"unsupported GLOBAL {path} whose module {module} is blocked.)"
            )
        known = self.built_in(module, name)
        if known is not None:
            return known
        if path in _user:
            return _user[path]
        raise UnpicklingError(
            f"[load] expected names of PyTorch or allowed ones, got {path} (Unsupported global: "
            f"GLOBAL {path} was not an allowed global by default. Weights only load failed.). "
            f"Hint: if you trust {path}, allow it with "
            f"weft.serialization.add_safe_globals([{name}]) or in a "
            f"weft.serialization.safe_globals([{name}]) scope; if you trust whoever made the file, "
            "load it with weights_only=False, which may run code of the file"
        )

    def is_users(self, value: Any) -> bool:
        """Whether the user allowed this class or function."""
        return any(value is allowed for allowed in _user.values())

    def call(self, function: Any, args: Args) -> Any:
        """REDUCE: a checked built-in, or what the user allowed."""
        if isinstance(function, Function):
            return function.run(args)
        run = _CHECKED.get(id(function))
        if run is not None:
            return run(args)
        if function is weft.nn.Parameter:
            return _parameter_data(*args)
        if self.is_users(function):
            return function(*args)
        raise UnpicklingError(
            f"[load] expected REDUCE of an allowed function, got {function!r:.200} (Trying to call "
            "reduce for unrecognized function)"
        )

    def new(self, cls: Any, args: Args) -> Any:
        """NEWOBJ: built-in classes as if called, classes of the user by `__new__`."""
        if self.is_users(cls) and isinstance(cls, type):
            return cls.__new__(cls, *args)
        if id(cls) in _CHECKED or cls is weft.nn.Parameter:
            return self.call(cls, args)
        raise UnpicklingError(
            "[load] expected NEWOBJ of an allowed class (Can only create new object for "
            f"nn.Parameter or classes allowlisted via `add_safe_globals`), got {cls!r:.200}"
        )

    def build(self, instance: Any, state: Any) -> None:
        """BUILD: attributes of an OrderedDict, or the state of an instance of a user's class."""
        if type(instance) is OrderedDict:
            _attributes(instance, state)
        elif self.is_users(type(instance)):
            if hasattr(instance, "__setstate__"):
                instance.__setstate__(state)
            else:
                _attributes(instance, state)
        else:
            raise UnpicklingError(
                "[load] expected BUILD of an OrderedDict or of an allowed class (Can only build "
                "Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`), got "
                f"{type(instance)}"
            )
