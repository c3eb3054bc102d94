"""`View`: steps of a program that runs, recorded now and then, for the page to show.

Note [Recorded steps]
Of the steps (Note [Steps] in weft/see/steps.py; after `View.step()` those by hand) one in `every`
is recorded, and the first two. Values and modules are looked at when a step ends, on its thread;
the rest of a page is made from the tables (`RecordedStep`) when it asks, on the server's thread.
Steps that are not recorded cost the call of a hook.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import warnings
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from weft import Tensor
from weft.base.checks import index
from weft.base.strict_json import as_float, decoded, encoded, text
from weft.batching import current_example
from weft.batching.report import explain
from weft.see.recording import Recording, record
from weft.see.steps import Leading
from weft.see.view.layers import Layers
from weft.see.view.recorded import RecordedStep
from weft.see.view.samples import MOST_PIXELS, aside, picture

if TYPE_CHECKING:
    from weft.see.stops import Stop, Stopped
    from weft.see.view.server import Server

KEPT_BYTES = 64 << 20  # of steps that the page may go back to
KEPT_ENTRIES = 20_000  # of what was logged
LONGEST = 100  # characters of a text that was logged
AT_ONCE = 8  # structures that one message to a page is worth
FIRST = 2  # steps that are recorded whatever `every` is


class View:
    """What `weft.view` returns: steps of this process, for the page that `url` leads to.

    Attributes:
        url: where the page is, with its token.
        number: of the step under way.
    """

    def __init__(
        self,
        every: int,
        title: str,
        metrics: str | os.PathLike[str] | None,
        runs: str | os.PathLike[str],
    ) -> None:
        self.every, self.title, self.number = every, title, 0
        self.changed = threading.Condition()
        self.server: Server | None = None
        self._metrics, self._read = metrics, 0
        self.runs = os.path.abspath(runs)
        self._history: dict[int, dict[str, Any]] = {}  # by step, what was logged last at the end
        self._revision = 0  # how often something was logged
        self._revised: dict[int, int] = {}  # of each step the last of them
        self._recorded: OrderedDict[int, RecordedStep] = OrderedDict()
        self._structures: dict[str, dict[str, Any]] = {}
        self._counted: set[int] = set()  # steps whose structure is among them
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None  # of the steps
        self._active = False
        self._explicit = False
        self._leading = Leading()
        self._hook: Any = None
        # of the step that is recorded: with the graph that grows
        self._scopes: tuple[record, Recording, explain, Layers] | None = None
        self._alive: tuple[int, dict[int, weakref.ref[Tensor]]] = (-1, {})
        self._holding = False
        self._wanted = False
        self._watching = 0  # pages that listen
        self._looks: list[dict[str, str]] = []
        self._stops: dict[int, tuple[Stop | None, dict[str, Any]]] = {}
        self._next_stop = 0
        self._stopped: dict[str, Any] | None = None
        self._stopped_data: bytes | None = None
        self._command: dict[str, Any] | None = None
        self._failure = ""

    @property
    def url(self) -> str:
        """Where the page is."""
        return self.server.url if self.server is not None else ""

    # --- for the program ------------------------------------------------------------------------

    def log(self, step: int | None = None, **values: Any) -> None:
        """Shows values over the steps: numbers as curves, others as texts.

        Args:
            step: that they belong to; the one under way if left out.
            values: by name, what `log` of a run takes.

        Raises:
            TypeError: a step that is no integer, a value of another type.
            ValueError: a list or dict that lies in itself, or keys of the same text.
        """
        number = None if step is None else index(step, "view", "step")
        shown = _shown(values)
        with self.changed:
            self._note(self.number if number is None else number, shown)
            self.changed.notify_all()

    def step(self) -> None:
        """A step ends here; the calls of optimizers end none any more.

        Raises:
            RuntimeError: steps have ended on another thread.
        """
        if os.getpid() != self._pid:
            return
        if not self._is_here():
            raise RuntimeError("[view] expected the thread of the steps before, got another")
        self._explicit = True
        self._end_step(None)

    def close(self) -> None:
        """Ends the server and all recording; what another thread records, with its step."""
        from weft.see.view import forget

        self._active = False
        if self._thread in (None, threading.current_thread()):
            self._finish()
        elif self._thread is not None and not self._thread.is_alive():
            self._forget()
        with self.changed:
            self._holding = False
            self.changed.notify_all()
        if self.server is not None:
            self.server.close()
        forget(self)

    def __enter__(self) -> View:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<weft.see.view.View of step {self.number}, {self.url or 'closed'}>"

    # --- steps ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Records from the next end of a step on."""
        if self._active:
            return
        from weft.optim.optimizer import register_optimizer_step_post_hook

        self._active = True
        self._hook = register_optimizer_step_post_hook(self._after_optimizer)

    def _after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._explicit or not self._is_here():
            return
        if self._leading.ends(optimizer):
            self._end_step(optimizer)

    def _is_here(self) -> bool:
        """Whether this is the thread of the steps: the first that ends one."""
        if os.getpid() != self._pid:
            return False
        if self._thread is None:
            self._thread = threading.current_thread()
        return self._thread is threading.current_thread()

    def _end_step(self, optimizer: Any) -> None:
        if not self._active:
            return self._finish()
        if current_example() is not None:  # a step within an example is none
            return
        try:
            if self._scopes is not None:
                self._keep(optimizer)
            with self.changed:
                self.number += 1
            self._set_stops()
            self._hold()
            if self._wanted or self.number <= FIRST or self.number % self.every == 0:
                self._wanted = False
                self._begin()
        except Exception as error:  # the training goes on without the page
            self._active = False
            self._finish()
            self._failure = f"{type(error).__name__}: {error}"
            warnings.warn(
                f"[view] the page ends at step {self.number}: {self._failure}", stacklevel=3
            )
        with self.changed:
            self.changed.notify_all()

    def _begin(self) -> None:
        recording, report, layers = record(statistics=True), explain(), Layers(self._looks)
        self._looks = []
        graph = recording.__enter__()
        report.__enter__()
        layers.start()
        self._scopes = recording, graph, report, layers

    def _leave(self) -> None:
        """Ends what is recorded."""
        if self._scopes is None:
            return
        (recording, _, report, layers), self._scopes = self._scopes, None
        layers.stop()
        report.__exit__(None, None, None)
        recording.__exit__(None, None, None)

    def _finish(self) -> None:
        """Nothing is recorded from now on; on the thread of the steps."""
        self._leave()
        for stop, _ in self._stops.values():
            if stop is not None:
                stop.remove()
        self._forget()

    def _forget(self) -> None:
        """What was open has gone with its thread, but for hooks of all threads."""
        if self._scopes is not None:
            self._scopes[-1].forget()
            self._scopes = None
        self._stops.clear()
        if self._hook is not None:
            self._hook.remove()

    def _keep(self, optimizer: Any) -> None:
        assert self._scopes is not None
        _, graph, report, layers = self._scopes
        self._leave()
        step = RecordedStep(self.number, f"{self.title}, step {self.number}", graph, report)
        self._look(step, graph, layers, optimizer)
        loss = step.loss()
        with self.changed:
            if loss is not None:
                self._note(self.number, {"loss (recorded)": encoded(loss, "loss")})
            self._recorded[self.number] = step
            total = sum(r.size for r in self._recorded.values())
            while total > KEPT_BYTES and len(self._recorded) > 1:
                total -= self._recorded.popitem(last=False)[1].size

    @aside
    def _look(self, step: RecordedStep, graph: Any, layers: Layers, optimizer: Any) -> None:
        step.pictures, step.layers = layers.finish(graph, optimizer)
        self._alive = self.number, layers.alive(graph, sys._getframe())

    def _note(self, step: int, values: dict[str, Any]) -> None:
        row = self._history.pop(step, {"step": step})
        self._history[step] = row | values
        self._revision += 1
        self._revised[step] = self._revision
        if len(self._history) > KEPT_ENTRIES:
            for old in list(self._history)[: KEPT_ENTRIES // 2 : 2]:
                del self._history[old], self._revised[old]

    def _hold(self) -> None:
        """Waits while a page that is open says so."""
        with self.changed:
            while self._holding and self._watching:
                if self._wanted:
                    return
                self.changed.notify_all()
                self.changed.wait(0.5)

    # --- breakpoints ----------------------------------------------------------------------------

    def _set_stops(self) -> None:
        """Sets and removes what the page has asked for, on the thread where they hold."""
        from weft.see.stops import stop_when

        self._remove_stops()
        for number, (_, about) in list(self._stops.items()):
            if about["state"] != "new":
                continue
            try:
                self._stops[number] = stop_when(**about["when"], action=self._at_stop), about
                about["state"] = "set"
            except (TypeError, ValueError) as error:
                about["state"] = f"refused: {error}"

    def _remove_stops(self) -> None:
        for number, (stop, about) in list(self._stops.items()):
            if about["state"] == "removed":
                if stop is not None:
                    stop.remove()
                del self._stops[number]

    def _at_stop(self, stopped: Stopped) -> None:
        from weft.see.view.layers import stop_of
        from weft.see.view.model import model_of

        about = stop_of(stopped)
        about["step"] = self.number
        model = model_of(stopped.graph, title=f"{self.title}, stopped in step {self.number}")
        model["pictures"] = about.pop("pictures")
        data = text(model).encode()
        with self.changed:
            for stop, seen in self._stops.values():
                if stop is not None:
                    seen["hits"] = stop.hits
            self._stopped_data = data
            self._stopped, self._command = about, None
            self.changed.notify_all()
            while self._watching and self._command is None:
                self.changed.wait(0.5)
            command = self._command or {"do": "go"}
            self._stopped = None
            self._stopped_data = None
            self.changed.notify_all()
        if command["do"] == "step":
            stopped.step()
        elif command["do"] == "change":
            stopped.change(float(command["value"]))
        self._remove_stops()  # new ones begin at a step's end: here nothing is heard of

    # --- for the server -------------------------------------------------------------------------

    def state(self, since: int) -> dict[str, Any]:
        """What a page has to know; of what was logged, the steps that are new since a `revision`
        that it had, 0 for all."""
        self._read_metrics()
        self._name_structures()
        with self.changed:
            new: list[dict[str, Any]] = []
            for step, row in reversed(self._history.items()):
                if self._revised[step] <= since:
                    break
                new.append(row)
            return {
                "title": self.title, "number": self.number, "every": self.every,
                "holding": self._holding, "active": self._active, "failure": self._failure,
                "runs": os.path.isdir(self.runs),
                "history": new[::-1], "revision": self._revision,
                "recorded": [r.about() for r in self._recorded.values()],
                "structures": list(self._structures.values()), "stopped": self._stopped,
                "stops": [{"id": n, **about} for n, (_, about) in self._stops.items()],
            }  # fmt: skip

    def model(self, step: int) -> bytes | None:
        """Of a step that is kept; -1: of where it stands at a breakpoint."""
        if step == -1:
            return self._stopped_data
        with self.changed:
            recorded = self._recorded.get(step)
        return recorded.data if recorded is not None else None

    def _name_structures(self) -> None:
        """Of the latest steps that have none yet; the others when a page asks next."""
        with self.changed:
            left = [r for r in reversed(self._recorded.values()) if not r.knows_structure]
        for step in left[:AT_ONCE]:
            step.structure  # noqa: B018
        with self.changed:
            for r in self._recorded.values():
                if r.knows_structure and r.number not in self._counted:
                    self._counted.add(r.number)
                    new = {"name": r.structure, "first": r.number, "count": 0}
                    seen = self._structures.setdefault(r.structure, new)
                    seen["first"] = min(seen["first"], r.number)
                    seen["count"] += 1
            if len(left) > AT_ONCE:
                self.changed.notify_all()

    def value(self, step: int, value: int) -> dict[str, Any] | None:
        """A picture of a value of the last recorded step, as it is now; None: it is not alive."""
        at, alive = self._alive
        t = alive[value]() if at == step and value in alive else None
        if t is None:
            return None
        return {**picture(t, MOST_PIXELS), "now": self.number}

    def control(self, wish: dict[str, Any]) -> str:
        """Does what a page asks for; what is wrong with it, or an empty string. Where something is
        wrong nothing is done, nor where this raises."""
        every = wish.get("every", self.every)
        if type(every) is not int or every < 1:
            return "every: expected a number of steps"
        looks = [{k: str(wish["look"][k]) for k in ("op", "line")}] if "look" in wish else []
        when = _conditions(wish["stop"]) if "stop" in wish else {}
        if "stop" in wish and not when:
            return "stop: expected a condition"
        removed = wish.get("remove", -1)
        if not isinstance(removed, int):
            return "remove: expected the number of a breakpoint"
        if wish.get("do") == "change":
            float(wish["value"])
        with self.changed:
            if wish.get("start"):
                self.start()
            if "hold" in wish:
                self._holding = bool(wish["hold"])
            self.every = every
            self._looks += looks
            if "record" in wish or looks:
                self._wanted = True
            if when:
                self._stops[self._next_stop] = None, {"when": when, "state": "new", "hits": 0}
                self._next_stop += 1
            if removed in self._stops:
                self._stops[removed][1]["state"] = "removed"
            if "do" in wish and self._stopped is not None:
                self._command = wish
            self.changed.notify_all()
        return ""

    def watch(self, by: int) -> None:
        """A page listens now (1), or has gone (-1)."""
        with self.changed:
            self._watching += by
            self.changed.notify_all()

    @property
    def is_watched(self) -> bool:
        """Whether a page is open."""
        return self._watching > 0

    def wait(self, seconds: float) -> None:
        """Until something changes."""
        with self.changed:
            self.changed.wait(seconds)

    def leave(self) -> None:
        """In a process that was forked: nothing is recorded there, and the page is the parent's."""
        self.changed = threading.Condition()  # another thread may have held it
        self._active = self._holding = False
        self._watching = 0
        if self._thread is threading.current_thread():
            self._finish()
        else:
            self._forget()
        if self.server is not None:
            self.server.leave()

    def _read_metrics(self) -> None:
        """New whole lines of the metrics of a run; those that are none are left out."""
        from weft.experiments.lines import row_of

        if self._metrics is None:
            return
        try:
            with open(self._metrics, "rb") as file, self.changed:
                file.seek(self._read)
                lines = file.read().rpartition(b"\n")
                self._read += len(lines[0]) + len(lines[1])
                for line in lines[0].split(b"\n"):
                    row = row_of(line) or {}
                    step = row.pop("step", self.number)
                    row.pop("time", None)
                    if isinstance(step, float) and step.is_integer():
                        step = int(step)
                    if row and isinstance(step, int):
                        self._note(step, _shown(row))
        except OSError:
            return  # it is not there yet


_TEXTS = ("op", "line", "module")


def _conditions(wish: dict[str, Any]) -> dict[str, Any]:
    """Those of `stop_when` that a page may set."""
    when: dict[str, Any] = {k: str(wish[k]) for k in _TEXTS if wish.get(k)}
    when |= {k: True for k in ("nan", "inf") if wish.get(k)}
    if wish.get("norm_above") not in (None, ""):
        when["norm_above"] = float(wish["norm_above"])
        if not math.isfinite(when["norm_above"]):
            raise ValueError(f"norm_above: expected a finite number, got {wish['norm_above']}")
    if wish.get("backward") is not None:
        when["backward"] = bool(wish["backward"])
    return when


@aside
def _shown(values: dict[str, Any]) -> dict[str, Any]:
    """What the page has of values: numbers as JSON has them, of others the begin of the text."""
    out = {}
    for name, value in values.items():
        plain = decoded(encoded(value, name, "view"))
        shown: Any = as_float(plain)
        if shown is None:
            shown = (plain if isinstance(plain, str) else text(plain))[:LONGEST]
        out[name] = encoded(shown, name)
    return out
