"""The C interface of libweft, through ctypes: what src/c/weft.h declares, and values as Python's.

context = Context(Program(library(path), "model.weft"))
context.run("forward", weft.ones(2), [1, "a"], scale=2.0)
"""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np

import weft

NONE, BOOL, INT, DOUBLE, COMPLEX, STRING, LIST, TUPLE, DICT, TENSOR, BYTES = range(11)
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class DLTensor(c.Structure):
    _fields_ = (
        ("data", c.c_void_p),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
        ("ndim", c.c_int32),
        ("code", c.c_uint8),
        ("bits", c.c_uint8),
        ("lanes", c.c_uint16),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    )


class Value(c.Structure):
    pass


class _List(c.Structure):
    _fields_ = (("items", c.POINTER(Value)), ("size", c.c_size_t))


class _String(c.Structure):
    _fields_ = (("data", c.c_void_p), ("size", c.c_size_t))


class _Tensor(c.Structure):
    _fields_ = (("data", c.POINTER(DLTensor)), ("owner", c.c_void_p))


class _Complex(c.Structure):
    _fields_ = (("real", c.c_double), ("imag", c.c_double))


class _As(c.Union):
    _fields_ = (
        ("integer", c.c_int64),
        ("number", c.c_double),
        ("complex", _Complex),
        ("string", _String),
        ("list", _List),
        ("tensor", _Tensor),
    )


Value._fields_ = (("kind", c.c_int), ("held", _As))


class Error(c.Structure):
    _fields_ = (("kind", c.c_char_p), ("message", c.c_char_p), ("trace", c.c_char_p))


class Failed(Exception):
    """An error of libweft: its kind, its message and its trace."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message, self.trace = kind, message, trace


def library(path: Any) -> c.CDLL:
    """libweft at `path`, with the types of its functions."""
    lib = c.CDLL(str(path))
    error, value, handle = c.POINTER(Error), c.POINTER(Value), c.c_void_p
    lib.weft_load.argtypes = [c.c_char_p, c.POINTER(handle), error]
    lib.weft_program_free.argtypes = [handle]
    lib.weft_program_free.restype = None
    lib.weft_program_entries.argtypes = [handle]
    lib.weft_program_entries.restype = c.c_size_t
    lib.weft_program_entry.argtypes = [handle, c.c_size_t]
    lib.weft_program_entry.restype = c.c_char_p
    lib.weft_context_new.argtypes = [handle, c.POINTER(handle), error]
    lib.weft_context_free.argtypes = [handle]
    lib.weft_context_free.restype = None
    lib.weft_run.argtypes = [handle, c.c_char_p, value, c.c_size_t, value, value, error]
    lib.weft_interrupt.argtypes = [handle]
    lib.weft_interrupt.restype = None
    lib.weft_seed.argtypes = [handle, c.c_uint64, error]
    lib.weft_value_clear.argtypes = [value]
    lib.weft_value_clear.restype = None
    lib.weft_error_clear.argtypes = [error]
    lib.weft_error_clear.restype = None
    lib.weft_version.restype = c.c_char_p
    return lib


def _raise(lib: c.CDLL, error: Error) -> None:
    words = [text.decode() for text in (error.kind, error.message, error.trace)]
    lib.weft_error_clear(error)
    raise Failed(*words)


# ---- values


class Arguments:
    """Values for a call, and what keeps their memory."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def keep(self, thing: Any) -> Any:
        self.kept.append(thing)
        return thing

    def array(self, values: list[Any]) -> Any:
        """Values beside each other."""
        return self.keep((Value * max(len(values), 1))(*map(self.value, values)))

    def value(self, x: Any) -> Value:
        v = Value()
        if x is None:
            v.kind = NONE
        elif isinstance(x, bool):
            v.kind, v.held.integer = BOOL, x
        elif isinstance(x, int):
            v.kind, v.held.integer = INT, x
        elif isinstance(x, float):
            v.kind, v.held.number = DOUBLE, x
        elif isinstance(x, complex):
            v.kind, v.held.complex = COMPLEX, _Complex(x.real, x.imag)
        elif isinstance(x, (str, bytes)):
            text = x.encode() if isinstance(x, str) else x
            memory = self.keep(c.create_string_buffer(text))
            v.kind = BYTES if isinstance(x, bytes) else STRING
            v.held.string = _String(c.addressof(memory), len(text))
        elif isinstance(x, (list, tuple)):
            v.kind = LIST if isinstance(x, list) else TUPLE
            v.held.list = _List(c.cast(self.array(list(x)), c.POINTER(Value)), len(x))
        elif isinstance(x, dict):
            pairs = [part for pair in x.items() for part in pair]
            v.kind = DICT
            v.held.list = _List(c.cast(self.array(pairs), c.POINTER(Value)), len(x))
        elif isinstance(x, weft.Tensor):
            v.kind, v.held.tensor = TENSOR, _Tensor(c.pointer(self.tensor(x)), None)
        elif isinstance(x, DLTensor):
            v.kind, v.held.tensor = TENSOR, _Tensor(c.pointer(x), None)
        else:
            v = x
        return v

    def tensor(self, t: weft.Tensor) -> DLTensor:
        self.keep(t)
        kind = t.numpy().dtype
        n = t.ndim
        return self.keep(
            DLTensor(
                t.data_ptr(), 1, 0, n, _CODES[kind.kind], 8 * kind.itemsize, 1,
                (c.c_int64 * max(n, 1))(*t.shape), (c.c_int64 * max(n, 1))(*t.stride()), 0,
            )
        )  # fmt: skip


def back(v: Value) -> Any:
    """A result as a value of Python's; tensors are copied."""
    if v.kind == NONE:
        return None
    if v.kind == BOOL:
        return bool(v.held.integer)
    if v.kind == INT:
        return v.held.integer
    if v.kind == DOUBLE:
        return v.held.number
    if v.kind == COMPLEX:
        return complex(v.held.complex.real, v.held.complex.imag)
    if v.kind == STRING:
        return c.string_at(v.held.string.data, v.held.string.size).decode()
    if v.kind == BYTES:
        return c.string_at(v.held.string.data, v.held.string.size)
    if v.kind == TENSOR:
        return tensor_back(v.held.tensor.data.contents)
    size, items = v.held.list.size, v.held.list.items
    if v.kind == DICT:
        return {back(items[2 * k]): back(items[2 * k + 1]) for k in range(size)}
    parts = [back(items[k]) for k in range(size)]
    return parts if v.kind == LIST else tuple(parts)


def tensor_back(d: DLTensor) -> weft.Tensor:
    code = next(k for k, v in _CODES.items() if v == d.code)
    kind = np.dtype(f"{code}{d.bits // 8}" if code != "b" else "?")
    shape, strides = d.shape[: d.ndim], [s * kind.itemsize for s in d.strides[: d.ndim]]
    if not all(shape):
        return weft.from_numpy(np.zeros(shape, kind))
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + kind.itemsize
    raw = np.frombuffer((c.c_char * last).from_address(d.data), np.uint8)
    view = np.lib.stride_tricks.as_strided(raw[: kind.itemsize].view(kind), shape, strides)
    return weft.from_numpy(view.copy())


# ---- programs


class Program:
    def __init__(self, lib: c.CDLL, path: Any) -> None:
        self.lib, self.handle = lib, c.c_void_p()
        error = Error()
        if lib.weft_load(str(path).encode(), self.handle, error):
            _raise(lib, error)

    def entries(self) -> list[str]:
        count = self.lib.weft_program_entries(self.handle)
        return [self.lib.weft_program_entry(self.handle, k).decode() for k in range(count)]

    def __del__(self) -> None:
        self.lib.weft_program_free(self.handle)


class Context:
    def __init__(self, program: Program) -> None:
        self.lib, self.handle = program.lib, c.c_void_p()
        error = Error()
        if self.lib.weft_context_new(program.handle, self.handle, error):
            _raise(self.lib, error)

    def run_raw(self, entry: str | None, *args: Any, **named: Any) -> Value:
        """The result, to be cleared by the caller."""
        arguments, result, error = Arguments(), Value(), Error()
        given = arguments.array(list(args))
        words = c.pointer(arguments.value(named)) if named else None
        name = entry.encode() if entry is not None else None
        if self.lib.weft_run(self.handle, name, given, len(args), words, result, error):
            assert result.kind == NONE
            _raise(self.lib, error)
        return result

    def run(self, entry: str | None, *args: Any, **named: Any) -> Any:
        result = self.run_raw(entry, *args, **named)
        try:
            return back(result)
        finally:
            self.lib.weft_value_clear(result)

    def interrupt(self) -> None:
        self.lib.weft_interrupt(self.handle)

    def seed(self, number: int) -> None:
        error = Error()
        if self.lib.weft_seed(self.handle, number, error):
            _raise(self.lib, error)

    def free(self) -> None:
        self.lib.weft_context_free(self.handle)
        self.handle = c.c_void_p()

    def __del__(self) -> None:
        if self.handle:
            self.free()
