"""What an exception says of the call that failed, beside what was wrong: notes in its traceback.

The first is of the call and its operands, the second of the module that it was in. That grows from
the inside out: each call of a module that the exception leaves adds the name it has there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["add_call", "add_module", "inner_path", "NamesWithin"]


class _Failure(NamedTuple):
    note: int  # where that of the module is, or will be, among the notes
    outer: int = 0  # the id of the last module that the exception has left
    path: str = ""  # from there
    kind: str = ""  # the class of the innermost one


class NamesWithin:
    """The names that a module has for those inside of it, by their ids.

    It looks no further than it is asked for: of a deep chain each module asks for its next alone.
    """

    def __init__(self, module: Any) -> None:
        self._known: dict[int, str] = {}
        self._rest = iter(module.named_modules())

    def get(self, wanted: int) -> str | None:
        while wanted not in self._known:
            name, module = next(self._rest, ("", None))
            if module is None:
                return None
            self._known[id(module)] = name
        return self._known[wanted]


def inner_path(path: str, own: str | None, module: Any) -> str:
    """The path of a module inside of that of `path`, by its own name there: if none, its class."""
    own = type(module).__name__ if own is None else own
    return f"{path}.{own}" if path and own else path or own


def add_call(error: Any, context: str) -> bool:
    """Of an exception that a call raised: its context, "in add(float32[2], float32[3]) at ..."."""
    if "_weft_failure" in error.__dict__:
        return False
    error.add_note(context)
    error._weft_failure = _Failure(len(error.__notes__))
    return True


def add_module(error: Any, module: Any) -> None:
    """The exception leaves the call of a module."""
    failure: _Failure = error._weft_failure
    if failure.outer == id(module):
        return  # its own call again, or that of a recursion
    kind = failure.kind or type(module).__name__
    path = failure.path
    if failure.outer:
        own = NamesWithin(module).get(failure.outer) or ""
        own = own.removeprefix("_orig_mod").removeprefix(".")  # of what compile() made: the Module
        path = ".".join(filter(None, (own, path)))
    error._weft_failure = failure._replace(outer=id(module), path=path, kind=kind)
    said = f"in {path} ({kind})" if path else f"in {kind}"
    if failure.outer:
        error.__notes__[failure.note] = said
    else:
        error.__notes__.insert(failure.note, said)
