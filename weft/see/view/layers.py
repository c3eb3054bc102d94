"""What a recorded step shows of values: parameters, gradients, results of modules, and what a
breakpoint has at hand."""

from __future__ import annotations

import os
import threading
import weakref
from itertools import islice
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from weft import _C, Tensor
from weft.base import modes
from weft.base.frames import is_weft
from weft.base.shown import dtype_name
from weft.nn.module_hooks import observe_results
from weft.see.nested import tensors_in
from weft.see.view.samples import histogram, picture

if TYPE_CHECKING:
    from weft.see.graphs import Graph
    from weft.see.stops import Stop, Stopped

MODULES = 48  # whose first result in a step is looked at
KNOWN = 32  # calls in a row of modules that were seen, after which no more are looked at
PARAMETERS = 64
HELD = 1 << 20  # elements of a result that waits in a batch, to be held until the step ends
LOOKED = 4  # results of a call that the page has asked for


class Layers:
    """Looks at the first result of each module of a step, and at those that a page has asked for.

    Args:
        looks: `op` and `line` of calls whose results are wanted.
    """

    def __init__(self, looks: list[dict[str, str]]) -> None:
        self._thread = threading.get_ident()
        self._asked = looks
        self._looks: list[Stop] = []
        self._seen: dict[int, Any] = {}  # the modules, by their address
        self._results: list[tuple[Any, int | None, dict[str, Any], dict[str, Any]]] = []
        self._waiting: list[tuple[Any, Tensor]] = []
        self._known = 0  # calls in a row of modules that were seen
        self._pictures: dict[int, dict[str, Any]] = {}

    def start(self) -> None:
        """From here on, of this thread."""
        from weft.see.stops import stop_when

        self._handle = observe_results(self._after)
        for look in self._asked:
            self._looks.append(stop_when(op=look["op"], line=look["line"], action=self._look))

    def stop(self) -> None:
        """Up to here."""
        self.forget()
        for look in self._looks:
            look.remove()

    def forget(self) -> None:
        """The thread has ended: what it had is gone, and no module is looked at any more."""
        self._handle.remove()

    def _look(self, stopped: Stopped) -> None:
        if stopped.stop.hits > LOOKED:
            stopped.stop.remove()
            return
        for value, t in zip(stopped.event.outputs, stopped.outputs):
            self._pictures[value.number] = picture(t)

    def _after(self, module: Any, args: Any, output: Any) -> None:
        if threading.get_ident() != self._thread or _C._mode() & modes.MAP:
            return
        if id(module) in self._seen or len(self._seen) >= MODULES:
            self._known += 1
            if self._known > KNOWN:
                self._handle.remove()
            return
        self._known = 0
        self._seen[id(module)] = module
        for t in islice(tensors_in(output), 3):
            if not _C._is_pending(t):
                self._add(module, t)
            elif t.numel() <= HELD:
                self._waiting.append((module, t))

    def _add(self, module: Any, t: Tensor) -> None:
        log = _C._Log.running()
        number = None if log is None else log.number(t)
        self._results.append((module, number, histogram(t), picture(t)))

    def finish(
        self, graph: Graph, optimizer: Any
    ) -> tuple[dict[int, dict[str, Any]], list[dict[str, Any]]]:
        """Pictures by the value's number, and what was seen of parameters and modules by name."""
        for module, t in self._waiting:
            try:  # of a batch that has run: its value is taken out of the block
                bars, image = histogram(t), picture(t)
            except RuntimeError:
                continue  # the call failed
            self._results.append((module, None, bars, image))
        names: dict[int, str] = {}
        tables = graph._tables
        for event, path in tables.paths.items():
            names.setdefault(id(tables.module_of(event)), path or tables.event_names[event])
        out: list[dict[str, Any]] = []
        for name, p in _parameters(graph, optimizer)[:PARAMETERS]:
            row: dict[str, Any] = {"name": name, "kind": "parameter", "shape": tuple(p.shape)}
            row["weight"] = histogram(p)
            if p.grad is not None:
                row["gradient"] = histogram(p.grad)
            out.append(row)
        for module, number, bars, image in self._results:
            if number is not None:
                self._pictures.setdefault(number, image)
            out.append({
                "name": names.get(id(module), type(module).__name__), "kind": "result",
                "class": type(module).__name__, "shape": image["shape"], "result": bars,
                "picture": image,
            })  # fmt: skip
        return self._pictures, out

    def alive(self, graph: Graph, frame: FrameType | None) -> dict[int, weakref.ref[Tensor]]:
        """What is still there of the values of a graph: parameters and buffers, their gradients,
        and variables of the user's frames."""
        log = graph._tables.log
        at: dict[int, Tensor] = {}
        found: list[Tensor] = []
        for root in graph._tables.roots:
            for t in [*root.parameters(), *root.buffers()]:
                at[_C._Log.address(t)] = t
                if t.grad is not None:
                    found.append(t.grad)
        while frame is not None:
            if not is_weft(frame):
                for thing in list(_C._locals(frame).values()):
                    found.extend(tensors_in(thing, 1, 64))
            frame = frame.f_back
        out = {}
        for value, address in graph._tables.found.tolist():
            if address in at:
                out[value] = weakref.ref(at[address])
        for t in found:
            number = None if _C._is_pending(t) else log.number(t)
            if number is not None:
                out[number] = weakref.ref(t)
        return out


def _parameters(graph: Graph, optimizer: Any) -> list[tuple[str, Tensor]]:
    """By name, of the modules that ran; of an optimizer those that are in none by their place."""
    out: dict[int, tuple[str, Tensor]] = {}
    for root in graph._tables.roots:
        for name, p in root.named_parameters():
            out.setdefault(id(p), (name, p))
    for k, group in enumerate(optimizer.param_groups if optimizer is not None else ()):
        for i, p in enumerate(group["params"]):
            out.setdefault(id(p), (f"group {k}, {i}", p))
    return list(out.values())


def stop_of(stopped: Stopped) -> dict[str, Any]:
    """What a page shows of a breakpoint that was hit."""
    event, frame = stopped.event, stopped.frame
    pictures = {}
    for values, tensors in (
        (event.inputs, stopped.inputs), (event.outputs, stopped.outputs),
    ):  # fmt: skip
        for value, t in zip(values, tensors):
            if value is not None and t is not None and not _C._is_pending(t):
                pictures[value.number] = picture(t)
    names = []
    for name, thing in list(_C._locals(frame).items())[:60]:
        if not name.startswith("__") and not isinstance(thing, ModuleType):
            names.append((name, _shown(thing)))
    text = str(stopped)
    return {
        "event": event.number, "text": text, "names": names, "pictures": pictures,
        "frame": f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}",
    }  # fmt: skip


def _shown(thing: Any) -> str:
    if isinstance(thing, Tensor):
        return f"{dtype_name(thing.dtype)}{list(thing.shape)}"
    if isinstance(thing, (int, float, str, bool, type(None))):
        return repr(thing)[:80]
    size = f" of {len(thing)}" if isinstance(thing, (list, tuple, dict, set)) else ""
    return f"{type(thing).__name__}{size}"
