"""An interpreter of pickles that runs no code of the file: names come from an allow-list.

The pickle machine is described in CPython's Lib/pickletools.py; here is what PyTorch's files and
protocols 2 to 5 need of it. Every operand is checked against the bytes that are there, so memory
stays within a constant times the size of the pickle.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any, Protocol

MAX_BYTES = 1 << 30
MAX_MARKS = 10_000  # pickle itself gives up on nesting long before
MAX_LONG_BYTES = 1024
MAX_KEY_PARTS = 1000  # hashing a tuple recurses into its items, in C and without a check

_MAPPINGS = (dict, OrderedDict, Counter)


class _Outside(Exception):
    """Carries, as its cause, an error of the persistent ids' owner past the pickle machine."""


class Names(Protocol):
    """What the names in a file stand for."""

    def find(self, module: str, name: str) -> Any:
        """The object of that name, or UnpicklingError."""

    def is_users(self, value: Any) -> bool:
        """Whether the user allowed this class or function."""

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """What REDUCE gives."""

    def new(self, cls: Any, args: tuple[Any, ...]) -> Any:
        """What NEWOBJ gives."""

    def build(self, instance: Any, state: Any) -> None:
        """What BUILD does."""


def expect_key(key: Any) -> None:
    """Refuses tuples too deep or large to be hashed safely."""
    if not isinstance(key, tuple):
        return
    waiting, seen = [key], 0
    while waiting:
        item = waiting.pop()
        seen += len(item)
        if seen > MAX_KEY_PARTS:
            raise UnpicklingError(
                f"[load] expected keys of at most {MAX_KEY_PARTS} parts, got more"
            )
        waiting.extend(part for part in item if isinstance(part, tuple))


class Unpickler:
    """Reads one object after the other from `data`.

    Args:
        data: the pickles.
        names: the allow-list.
        persistent_load: gives the storage of a persistent id.
        at: where the first pickle starts.

    `load()` raises pickle.UnpicklingError for anything that is not a pickle over the allow-list.
    """

    def __init__(
        self,
        data: bytes,
        names: Names,
        persistent_load: Callable[[Any], Any],
        at: int = 0,
    ) -> None:
        if len(data) > MAX_BYTES:
            raise UnpicklingError(
                f"[load] expected a pickle of at most {MAX_BYTES} bytes, got {len(data)}"
            )
        self.data = data
        self.at = at
        self.names = names
        self.persistent_load = persistent_load

    def load(self) -> Any:
        """The next object; `at` is then behind it."""
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        start = self.at
        try:
            return self._run()
        except UnpicklingError:
            raise
        except _Outside as error:
            assert error.__cause__ is not None
            raise error.__cause__ from None
        except (IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError,
                struct.error, RecursionError) as error:  # fmt: skip
            raise UnpicklingError(
                f"[load] expected a valid pickle, got one that fails at byte {self.at - start} "
                f"({type(error).__name__}: {error})"
            ) from error
        finally:
            self.stack, self.marks, self.memo = [], [], {}

    def _run(self) -> Any:
        data, table = self.data, _OPCODES
        while True:
            if self.at >= len(data):
                raise UnpicklingError("[load] expected a pickle that ends with STOP, got its end")
            code = data[self.at]
            self.at += 1
            if code == 0x2E:  # STOP
                return self.stack.pop()
            run = table.get(code)
            if run is None:
                raise UnpicklingError(
                    f"[load] expected an opcode of PyTorch's files, got {bytes([code])!r} "
                    f"(Unsupported operand {code})"
                )
            run(self)

    # ---- operands

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        end = self.at + count
        if end > len(self.data):
            raise UnpicklingError(
                f"[load] expected {count} bytes more, got {len(self.data) - self.at}"
            )
        out = self.data[self.at : end]
        self.at = end
        return out

    def number(self, form: str, size: int) -> Any:
        """The next number in the format of `struct`."""
        return struct.unpack(form, self.take(size))[0]

    def line(self) -> str:
        """The next text up to a newline."""
        end = self.data.find(b"\n", self.at, self.at + 4096)
        if end < 0:
            raise UnpicklingError("[load] expected a name and a newline, got none")
        out = self.data[self.at : end].decode("utf-8")
        self.at = end + 1
        return out

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last MARK."""
        items = self.stack
        self.stack = self.marks.pop()
        return items

    # ---- opcodes

    def do_proto(self) -> None:
        if (version := self.take(1)[0]) > 5:
            raise UnpicklingError(f"[load] expected a pickle protocol up to 5, got {version}")

    def do_frame(self) -> None:
        self.number("<Q", 8)

    def do_mark(self) -> None:
        if len(self.marks) >= MAX_MARKS:
            raise UnpicklingError(f"[load] expected at most {MAX_MARKS} nested objects, got more")
        self.marks.append(self.stack)
        self.stack = []

    def do_pop_mark(self) -> None:
        self.pop_mark()

    def do_pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()

    def do_global(self) -> None:
        module = self.line()
        self.stack.append(self.names.find(module, self.line()))

    def do_stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise UnpicklingError("[load] expected STACK_GLOBAL to take two texts")
        self.stack.append(self.names.find(module, name))

    def do_reduce(self) -> None:
        args = self.stack.pop()
        if type(args) is not tuple:
            raise UnpicklingError(f"[load] expected REDUCE to take a tuple, got {type(args)}")
        self.stack[-1] = self.names.call(self.stack[-1], args)

    def do_newobj(self) -> None:
        args = self.stack.pop()
        if type(args) is not tuple:
            raise UnpicklingError(f"[load] expected NEWOBJ to take a tuple, got {type(args)}")
        self.stack[-1] = self.names.new(self.stack[-1], args)

    def do_build(self) -> None:
        state = self.stack.pop()
        self.names.build(self.stack[-1], state)

    def do_binpersid(self) -> None:
        pid = self.stack.pop()
        try:
            storage = self.persistent_load(pid)
        except Exception as error:
            raise _Outside from error
        self.stack.append(storage)

    def do_append(self) -> None:
        item = self.stack.pop()
        self._expect("APPEND", (list,))
        self.stack[-1].append(item)

    def do_appends(self) -> None:
        items = self.pop_mark()
        self._expect("APPENDS", (list,))
        self.stack[-1].extend(items)

    def do_additems(self) -> None:
        items = self.pop_mark()
        self._expect("ADDITEMS", (set,))
        for item in items:
            expect_key(item)
            self.stack[-1].add(item)

    def do_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._expect("SETITEM", _MAPPINGS)
        expect_key(key)
        self.stack[-1][key] = value

    def do_setitems(self) -> None:
        items = self.pop_mark()
        self._expect("SETITEMS", _MAPPINGS)
        if len(items) % 2:
            raise UnpicklingError("[load] expected SETITEMS to take pairs, got a key alone")
        target = self.stack[-1]
        for key, value in zip(items[::2], items[1::2], strict=True):
            expect_key(key)
            target[key] = value

    def _expect(self, opcode: str, types: tuple[type, ...]) -> None:
        kind = type(self.stack[-1])
        if kind not in types and not (issubclass(kind, types) and self.names.is_users(kind)):
            raise UnpicklingError(
                f"[load] expected {opcode} on {' or '.join(t.__name__ for t in types)}, got {kind}"
            )

    def do_tuple(self) -> None:
        items = self.pop_mark()
        self.stack.append(tuple(items))

    def do_frozenset(self) -> None:
        items = self.pop_mark()
        for item in items:
            expect_key(item)
        self.stack.append(frozenset(items))

    def _tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise UnpicklingError(f"[load] expected {count} items for a tuple, got fewer")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def _long(self, count: int) -> None:
        if not 0 <= count <= MAX_LONG_BYTES:
            raise UnpicklingError(f"[load] expected an int of at most {MAX_LONG_BYTES} bytes")
        self.stack.append(int.from_bytes(self.take(count), "little", signed=True))

    def _text(self, count: int) -> None:
        self.stack.append(self.take(count).decode("utf-8", "surrogatepass"))

    def _get(self, index: int) -> None:
        if index not in self.memo:
            raise UnpicklingError(f"[load] expected a known memo entry, got {index}")
        self.stack.append(self.memo[index])

    def _put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]


def _push(make: Callable[[], Any]) -> Callable[[Unpickler], None]:
    return lambda u: u.stack.append(make())


def _number(form: str, size: int) -> Callable[[Unpickler], None]:
    return lambda u: u.stack.append(u.number(form, size))


_OPCODES: dict[int, Callable[[Unpickler], None]] = {
    0x80: Unpickler.do_proto,
    0x95: Unpickler.do_frame,
    ord("("): Unpickler.do_mark,
    ord("0"): Unpickler.do_pop,
    ord("1"): Unpickler.do_pop_mark,
    ord("c"): Unpickler.do_global,
    0x93: Unpickler.do_stack_global,
    ord("R"): Unpickler.do_reduce,
    0x81: Unpickler.do_newobj,
    ord("b"): Unpickler.do_build,
    ord("Q"): Unpickler.do_binpersid,
    ord("a"): Unpickler.do_append,
    ord("e"): Unpickler.do_appends,
    0x90: Unpickler.do_additems,
    ord("s"): Unpickler.do_setitem,
    ord("u"): Unpickler.do_setitems,
    ord("t"): Unpickler.do_tuple,
    0x91: Unpickler.do_frozenset,
    0x85: lambda u: u._tuple_of(1),
    0x86: lambda u: u._tuple_of(2),
    0x87: lambda u: u._tuple_of(3),
    ord("N"): _push(lambda: None),
    0x88: _push(lambda: True),
    0x89: _push(lambda: False),
    ord(")"): _push(tuple),
    ord("]"): _push(list),
    ord("}"): _push(dict),
    0x8F: _push(set),
    ord("J"): _number("<i", 4),
    ord("K"): _number("<B", 1),
    ord("M"): _number("<H", 2),
    ord("G"): _number(">d", 8),
    0x8A: lambda u: u._long(u.number("<B", 1)),
    0x8B: lambda u: u._long(u.number("<i", 4)),
    ord("X"): lambda u: u._text(u.number("<I", 4)),
    0x8C: lambda u: u._text(u.number("<B", 1)),
    0x8D: lambda u: u._text(u.number("<Q", 8)),
    ord("U"): lambda u: u._text(u.number("<B", 1)),
    ord("T"): lambda u: u._text(u.number("<I", 4)),
    ord("C"): lambda u: u.stack.append(u.take(u.number("<B", 1))),
    ord("B"): lambda u: u.stack.append(u.take(u.number("<I", 4))),
    0x8E: lambda u: u.stack.append(u.take(u.number("<Q", 8))),
    0x96: lambda u: u.stack.append(bytearray(u.take(u.number("<Q", 8)))),
    ord("h"): lambda u: u._get(u.number("<B", 1)),
    ord("j"): lambda u: u._get(u.number("<I", 4)),
    ord("q"): lambda u: u._put(u.number("<B", 1)),
    ord("r"): lambda u: u._put(u.number("<I", 4)),
    0x94: lambda u: u._put(len(u.memo)),
}
