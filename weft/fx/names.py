"""Names of functions as graphs show them, and names of nodes."""

from __future__ import annotations

import builtins
import functools
import keyword
import re
import sys
from typing import Any

import weft
from weft import _C
from weft.base.modes import set_grad_enabled

#: Where public functions are looked for, in this order.
NAMESPACES = ("weft", "weft.nn.functional", "weft.linalg", "weft.fft", "weft.special",
              "weft.nn.utils.rnn", "weft.utils.checkpoint")  # fmt: skip

#: Functions that are called for what they do: dead code keeps them.
effects: set[Any] = {print, set_grad_enabled}
#: Methods that are.
EFFECT_METHODS = frozenset({"backward", "manual_seed", "retain_grad", "seed", "set_state"})


@functools.cache
def public_names() -> dict[int, str]:
    """The names of public functions, by identity; weft is torch in them."""
    found: dict[int, str] = {}
    for space in NAMESPACES:
        for name, value in vars(sys.modules.get(space, weft)).items():
            if name.startswith("_"):
                continue
            if callable(value):
                found.setdefault(id(value), f"torch{space[4:]}.{name}")
    return found


@functools.cache
def random_functions() -> frozenset[Any]:
    """Public functions that draw random numbers."""
    draw = {r["public_name"] for r in _C._records() if r["random"]}
    found = {getattr(space, name, None) for space in (weft, _C, _C.ops) for name in draw}
    space = weft.nn.functional
    found |= {getattr(space, n) for n in dir(space) if "dropout" in n}
    return frozenset(filter(callable, found))


def qualified_name(function: Any) -> str:
    """The name by which a function can be reached, as `torch.relu` or `operator.add`."""
    if (known := public_names().get(id(function))) is not None:
        return known
    name = getattr(function, "__qualname__", getattr(function, "__name__", None))
    if name is None:
        return str(function)
    module = getattr(function, "__module__", None) or "builtins"
    if module == "_operator":
        module = "operator"
    if module.split(".")[0] == "weft":
        module = "torch" + module[4:]
    module = module.replace("torch._ops", "torch.ops", 1)
    return f"{module}.{name}"


class Namespace:
    """Names of which each is given once."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def create(self, wanted: str) -> str:
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", wanted) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        if (m := re.fullmatch(r"(.*?)_(\d+)", name)) is not None and name in self._used:
            name = m.group(1)
        base, k = name, self._next.get(name, 0)
        if keyword.iskeyword(base) or hasattr(builtins, base) or base in ("torch", "self"):
            k = max(k, 1)
        name = f"{base}_{k}" if k else base
        while name in self._used:
            k += 1
            name = f"{base}_{k}"
        self._next[base] = k
        self._used.add(name)
        return name


def wanted_name(op: str, target: Any) -> str:
    """The name that a node asks for."""
    if op == "call_function":
        name = getattr(target, "__name__", type(target).__name__)
    else:
        name = str(target).removeprefix("*").removeprefix("*")
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return snake.replace(".", "_").lower() if op != "placeholder" else name
