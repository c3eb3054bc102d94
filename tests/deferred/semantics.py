"""What a program of examples does in a batch and in the loop, in a form that compares."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import weft
from weft import nn

KIND = weft.float64
CALLER = contextvars.ContextVar("CALLER", default="nobody")


def world() -> tuple[list[Any], list[Any], list[Any]]:
    weft.manual_seed(0)
    w = SimpleNamespace(
        a=weft.randn(4, 4, dtype=KIND, requires_grad=True),
        bias=weft.randn(4, dtype=KIND, requires_grad=True),
        table=weft.randn(10, 4, dtype=KIND, requires_grad=True),
        linear=nn.Linear(4, 4, dtype=KIND), cell=nn.GRUCell(4, 4, dtype=KIND),
    )  # fmt: skip
    xs = [weft.randn(n, 4, dtype=KIND, requires_grad=True) for n in (1, 2, 3, 2, 5)]
    shared: dict[Any, Any] = {}
    cs = [SimpleNamespace(k=k, log=[], w=w, shared=shared) for k in range(len(xs))]
    leaves = [w.a, w.bias, w.table, *w.linear.parameters(), *w.cell.parameters(), *xs]
    return cs, xs, leaves


def tensors(value: Any) -> Iterator[weft.Tensor]:
    if isinstance(value, weft.Tensor):
        yield value
    elif dataclasses.is_dataclass(value):
        yield from tensors(list(vars(value).values()))
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors(item)


def plain(value: Any) -> Any:
    if isinstance(value, weft.Tensor):
        array = np.array(value.tolist())
        values = (array.round(8) if array.dtype.kind == "f" else array).tolist()
        return str(value.dtype), value.requires_grad, value.is_leaf, values
    if isinstance(value, float):
        return round(value, 8)
    if dataclasses.is_dataclass(value):
        return type(value).__name__, plain(vars(value))
    if isinstance(value, dict):
        return [(plain(a), plain(b)) for a, b in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    return value if isinstance(value, (int, str, bool)) else type(value).__name__


def line_of(error: BaseException, file: str) -> int:
    """The line of `file` at which an error arose, or at which the call was made that failed."""
    if found := re.search(rf"in the call at \S*{re.escape(Path(file).name)}:(\d+)", str(error)):
        return int(found[1])
    lines, frame = [], error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == file:
            lines.append(frame.tb_lineno)
        frame = frame.tb_next
    return lines[-1]


def outcome(fn: Callable[[Any, Any], Any], batch: bool) -> dict[str, Any]:
    cs, xs, leaves = world()
    out: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            if batch:
                results = weft.autobatch(fn)(cs, xs)
            else:
                results, errors = [], []
                for c, x in zip(cs, xs, strict=True):
                    try:
                        results.append(fn(c, x))
                    except Exception as error:  # noqa: BLE001
                        errors.append(error)
                if errors:
                    raise errors[0]
        except Exception as error:  # noqa: BLE001
            text = str(error).split("\n  in the call at")[0]
            return {"error": (type(error), text, line_of(error, fn.__code__.co_filename))}
    out["results"] = [plain(r) for r in results]
    out["shared"], out["logs"] = plain(cs[0].shared), [plain(c.log) for c in cs]
    out["printed"] = sorted(printed.getvalue().splitlines())  # examples take turns by lines
    total = sum((t * t).sum() for t in tensors(results) if t.requires_grad and not t.is_leaf)
    if isinstance(total, weft.Tensor):
        total.backward()
    out["gradients"] = [None if leaf.grad is None else plain(leaf.grad) for leaf in leaves]
    out["leaves"] = [plain(leaf) for leaf in leaves]
    out["logs after"], out["drawn"] = [plain(c.log) for c in cs], weft.rand(1).item()
    out["modes"] = weft.is_grad_enabled(), str(weft.get_default_dtype())
    return out


# ---- models


class Programs:
    """Those of one file, which has the test over them."""

    def __init__(self) -> None:
        self.all: list[Callable[[Any, Any], Any]] = []

    def add(self, f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        self.all.append(f)
        return f


def check(fn: Callable[[Any, Any], Any]) -> None:
    """Batched, the program does what it does in the loop."""
    token = CALLER.set("the caller")
    try:
        expected, found = outcome(fn, batch=False), outcome(fn, batch=True)
    finally:
        CALLER.reset(token)
    for one in (expected, found):  # an input of a batched call has zeros for None
        one["gradients"] = [
            None if g is None or not np.any(g[-1]) else g for g in one.get("gradients", [])
        ]
    assert found == expected
