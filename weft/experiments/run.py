"""`experiment`: a folder for each run, with what it takes to understand and repeat it.

A run's folder holds

    run.json          configuration, seed, versions, git commit, command line, state
    git.diff          what the working tree had besides the commit, if anything
    metrics.jsonl     one object a line: {"step": 3, "time": 1.25, "loss": 0.5}
    structure.jsonl   one object for each structure that recorded steps had
    checkpoints/      what was saved
    report.html       the last recorded step

Both files of lines grow by whole lines, each by one call of the system as it is logged: what kills
the process leaves all lines before. Other files are written beside and renamed.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import random
import re
import secrets
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft.base.checks import index
from weft.base.strict_json import encoded
from weft.experiments import facts, lines

if TYPE_CHECKING:
    from weft.see import Graph

__all__ = ["Run", "experiment"]

#: In the environment of a program that `weft rerun` repeats: the folder of the run, as JSON with
#: which of the program's runs it is, the seed, and where to say what folder the new one has.
RERUN = "WEFT_RERUN"
_begun = 0  # runs that this process has begun


class Run:
    """One run: `experiment` makes it, and it ends with its `with` block, or by `finish`.

    Attributes:
        id: its name among the runs.
        path: its folder.
        config: the configuration, as it was given.
        seed: what the generators were seeded with.
    """

    def __init__(self, config: Any, folder: Path, seed: int, name: str | None, order: int) -> None:
        self.config, self.seed = config, seed
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._structures: set[str] = set()
        self._last_graph: Graph | None = None
        plain = facts.config_of(config)
        git, diff = facts.git_of(facts.script_folder())
        self.path = _new_folder(folder, name)
        self.id = self.path.name
        self._facts: dict[str, Any] = {
            "id": self.id, "name": name, "state": "running", "config": plain, "seed": seed,
            "started": _now(), "ended": None, "seconds": None, "error": None,
            "versions": facts.versions(), "threads": weft.get_num_threads(), "git": git,
            "command": facts.command(), "pid": os.getpid(), "host": socket.gethostname(),
            "order": order, "rerun_of": None,
        }  # fmt: skip
        if diff:
            _replace(self.path / "git.diff", diff)
        self._files = {
            name: lines.Lines(self.path / name) for name in ("metrics.jsonl", "structure.jsonl")
        }
        (self.path / "checkpoints").mkdir()
        self._write_facts()

    # --- what it keeps ------------------------------------------------------------------------

    def log(self, step: int, **metrics: Any) -> None:
        """Adds a line to metrics.jsonl, which is there from then on, whatever kills the process.

        Args:
            step: which one the values are of.
            metrics: numbers, bools, strings, None, tensors and arrays, or lists and dicts of them.
                A one-element tensor is its number. nan and infinity are the strings "NaN",
                "Infinity" and "-Infinity" in the file, for JSON has no number for them.

        Raises:
            TypeError: a step that is no integer, a value of another type.
            ValueError: a metric of the name "time"; a dict with keys of the same text, a list or
                dict that lies in itself; a run that has ended.
            OSError: the line cannot be written, as on a full disk.
        """
        number = index(step, "log", "step")
        row = {"step": number, "time": round(time.monotonic() - self._began, 6)}
        if "time" in metrics:
            raise ValueError('[log] expected metrics of other names than "time", got it')
        row.update({name: encoded(value, name) for name, value in metrics.items()})
        self._append("metrics.jsonl", row)

    def save(self, name: str, obj: Any) -> Path:
        """`weft.save` to checkpoints/`name`, whole or not at all; returns the path.

        Raises:
            ValueError: a name with folders in it.
        """
        path = self._checkpoint_path(name)
        beside = path.with_name(f".{name}.{secrets.token_hex(4)}")
        try:
            weft.save(obj, beside)
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
        return path

    def load(self, name: str, **options: Any) -> Any:
        """`weft.load` of what `save` has saved; `options` are those of `weft.load`."""
        return weft.load(self._checkpoint_path(name), **options)

    def checkpoint(self, step: int, *, keep: int | None = None, **objects: Any) -> Path:
        """Saves the state of modules, optimizers and other objects with a `state_dict`, and other
        objects as they are, along with the step and the state of weft's generator; `load` of the
        path's name gives a dict of them.

        Args:
            step: it names the file, "step-00000120.pt".
            keep: how many of such files remain, the latest; None: all.
            objects: by the names that the dict has.
        """
        number = index(step, "checkpoint", "step")
        state = {"step": number, "rng_state": weft.get_rng_state()}
        if clash := state.keys() & objects:
            raise ValueError(f"[checkpoint] expected other names than {sorted(clash)}")
        for name, value in objects.items():
            state[name] = value.state_dict() if hasattr(value, "state_dict") else value
        path = self.save(f"step-{number:08d}.pt", state)
        if keep is not None:
            for old in sorted(path.parent.glob("step-*.pt"))[: -keep or None]:
                if old != path:
                    old.unlink()
        return path

    @contextlib.contextmanager
    def record(self, step: int, *, statistics: bool = False) -> Iterator[Graph]:
        """`weft.record`, whose graph goes into the structure log if its structure is new: a line
        with the step, the structure's number and its text. The last graph is the run's report.

        >>> import tempfile
        >>> with weft.experiment(dir=tempfile.mkdtemp()) as run:
        ...     for step in range(4):
        ...         with run.record(step):
        ...             x = weft.ones(3) * 2
        ...             if step > 1:
        ...                 x = x.exp()
        >>> [row["step"] for row in run.stored.structures]
        [0, 2]
        """
        graph, number = None, index(step, "record", "step")
        try:
            with weft.record(statistics=statistics) as graph:
                yield graph
        finally:  # the step that fails is the one that is wanted
            if graph is not None:
                self._keep_structure(number, graph)

    def _keep_structure(self, step: int, graph: Graph) -> None:
        self._last_graph = graph
        text = graph.text(times=False, lines=False)
        structure = graph.structure
        if structure in self._structures:
            return
        self._structures.add(structure)
        self._append(
            "structure.jsonl",
            {
                "step": step,
                "time": round(time.monotonic() - self._began, 6),
                "structure": structure,
                "calls": len(graph.calls),
                "text": text,
            },
        )

    # --- its end ------------------------------------------------------------------------------

    def finish(self, state: str = "done", error: str | None = None) -> None:
        """Ends it: the report is written and the files are closed. Once is enough."""
        with self._lock:
            if not self._files:
                return
            if os.getpid() == self._facts["pid"]:  # not in a process that was forked from it
                if self._last_graph is not None:
                    self._last_graph.save(self.path / "report.html", title=self.id)
                self._facts.update(
                    state=state, error=error, ended=_now(),
                    seconds=round(time.monotonic() - self._began, 3),
                )  # fmt: skip
                self._write_facts()
            for file in self._files.values():
                file.close()
            self._files = {}

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.finish()
        else:
            self.finish("failed", "".join(traceback.format_exception(error)))

    def __repr__(self) -> str:
        return f"<Run {self.id}, {self._facts['state']}>"

    @property
    def stored(self) -> Any:
        """What its folder holds now, as `weft.experiments.Stored`."""
        from weft.experiments.stored import Stored

        return Stored(self.path)

    # --- files --------------------------------------------------------------------------------

    def _append(self, name: str, row: dict[str, Any]) -> None:
        with self._lock:
            if not self._files:
                raise ValueError(f"[log] expected a run under way, got {self.id}, which has ended")
            self._files[name].append(row)

    def _checkpoint_path(self, name: str) -> Path:
        if not name or Path(name).name != name or name.startswith("."):
            raise ValueError(f"[save] expected the name of a file, got {name!r}")
        return self.path / "checkpoints" / name

    def _write_facts(self) -> None:
        _replace(self.path / "run.json", (json.dumps(self._facts, indent=1) + "\n").encode())


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    beside.write_bytes(content)
    os.replace(beside, path)


def _new_folder(parent: Path, name: str | None) -> Path:
    """A folder of its own, whatever other processes make at the same time."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
            label = f"{name}-" if name else ""
            path = parent / f"{label}{stamp}-{secrets.token_hex(2)}"
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                return path
    except OSError as error:
        raise type(error)(
            error.errno,
            f"[experiment] expected a folder that can be written in, got {error.strerror}. "
            "Hint: dir= names another",
            str(parent),
        ) from None


def experiment(
    config: Any = None,
    *,
    dir: str | os.PathLike[str] = "runs",
    seed: int | None = None,
    name: str | None = None,
) -> Run:
    """Begins a run: makes its folder, writes down what it is to be repeated with, and seeds the
    generators of weft, NumPy and Python's `random`.

    `python -m weft runs` lists the runs of a folder, compares and plots them; `python -m weft rerun
    ID` repeats one and says whether its numbers are the same to the bit.

    Args:
        config: a dict, a dataclass or an `argparse.Namespace`.
        dir: the folder of all runs.
        seed: for the generators; None: the configuration's `seed`, or else one from the system's
            randomness. It is written down in any case.
        name: a part of the folder's name.

    Raises:
        TypeError: a config of another type, a seed that is no integer.
        ValueError: a name of other characters than letters, digits, `_`, `-` and `.`; a seed of
            more than 64 bits; a config that lies in itself, or with keys that have the same text.
        OSError: a folder that cannot be written in.

    >>> import tempfile
    >>> with weft.experiment({"lr": 0.1}, dir=tempfile.mkdtemp(), seed=3) as run:
    ...     for step in range(3):
    ...         run.log(step, loss=weft.tensor(1.0) / (step + 1))
    >>> run.seed, run.stored.state, run.stored.last["loss"]
    (3, 'done', 0.3333333432674408)
    """
    global _begun
    if name is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise ValueError(
            f"[experiment] expected a name of letters, digits, '_', '-' and '.', got {name!r}"
        )
    plain = facts.config_of(config)
    if seed is None and plain.get("seed") is not None:
        seed = plain["seed"]
    chosen = secrets.randbits(32) if seed is None else index(seed, "experiment", "seed")
    if not -(2**63) <= chosen < 2**64:
        raise ValueError(f"[experiment] expected a seed of 64 bits, got {chosen}")
    order, _begun = _begun, _begun + 1
    again: dict[str, Any] = json.loads(os.environ.get(RERUN, "{}"))
    repeats = again and again["order"] == order
    if repeats:
        chosen, dir = again["seed"], again["dir"]
        del os.environ[RERUN]  # programs that it starts have runs of their own
    run = Run(config, Path(dir), chosen, name, order)
    if repeats:
        run._facts["rerun_of"] = again["id"]
        run._write_facts()
        _replace(Path(again["answer"]), str(run.path).encode())
    weft.manual_seed(chosen)
    random.seed(chosen)
    np.random.seed(chosen % 2**32)
    return run
