"""Where a name of weft is written: the record of an op, or the line of Python.

From a shell: `python -m weft.tools.where tanh nn.Linear`.
"""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any

from weft import _library_ops

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _records(name: str) -> list[str]:
    """Places of the records behind a function or method of that name, in order of overloads."""
    names = {name, name.removesuffix("_")} if not name.endswith("__") else {name}
    return [
        f"{r['file']}:{r['line']}"
        for r in _library_ops.records()
        if r["public_name"] in names or r["name"] == name or names.intersection(r["aliases"])
    ]


def _python(thing: Any) -> str | None:
    """Place of a function, method, property or class."""
    thing = getattr(thing, "fget", None) or thing
    thing = inspect.unwrap(thing)
    thing = getattr(thing, "__func__", None) or thing
    code = getattr(thing, "__code__", None)
    if code is not None:
        file, line = code.co_filename, code.co_firstlineno
    elif isinstance(thing, type) and thing.__module__ in sys.modules:
        try:
            file, line = inspect.getsourcefile(thing) or "", inspect.getsourcelines(thing)[1]
        except (OSError, TypeError):
            return None
    else:
        return None
    return f"{os.path.relpath(file, _ROOT) if file.startswith(_ROOT) else file}:{line}"


def _look_up(name: str) -> Any:
    import weft

    for start in (weft, weft.Tensor, weft.nn.functional):
        found: Any = start
        for part in name.removeprefix("weft.").removeprefix("torch.").split("."):
            found = vars(found).get(part) if isinstance(found, type) else getattr(found, part, None)
            if found is None:
                break
        if found is not None:
            return found
    return None


def where(name: Any) -> str:
    """File and line of what `name` names, a line for each overload.

    `name`: an op ('tanh', 'sum.dim', 'add_'), a method ('Tensor.backward'), any function or class
    of the package ('nn.Linear'), or such an object itself. Paths are relative to the source tree.

    Raises: AttributeError for a name that weft does not have, TypeError for an object without a
    source.

    >>> weft.tools.where("tanh").startswith("src/ops/activation.cpp:")
    True
    >>> weft.tools.where(weft.nn.Linear).startswith("weft/nn/linear.py:")
    True
    """
    if isinstance(name, str):
        last = name.rpartition(".")[2]
        thing = _look_up(name)
        if thing is None and not _records(name):
            import difflib

            known = {r["public_name"] for r in _library_ops.records()}
            near = difflib.get_close_matches(last, known, 1)
            hint = f". Hint: did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"[where] expected a name of weft, got {name!r}{hint}")
    else:
        thing, last = name, getattr(name, "__name__", "")
        name = last
    place = None if thing is None else _python(thing)
    own = getattr(thing, "__name__", last)  # special.gammaln is lgamma
    lines = [place] if place else _records(name) or _records(last) or _records(own)
    if not lines:
        raise TypeError(f"[where] expected something with a source, got {thing!r}")
    return "\n".join(lines)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(where(argument))
