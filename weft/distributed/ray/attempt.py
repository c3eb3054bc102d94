"""One launch of a run's workers: mpiexec here, its daemons and the ranks where Ray placed them.

Note [mpiexec over Ray]
mpiexec starts a daemon on each machine by a command that it gives to ssh, or to what is named in
its place. Here that is a script of two lines, which leaves the command in a file; the actor on the
machine runs it. So Ray says where ranks are, everything there is below an actor of Ray's and ends
with it, no ssh is needed, and ranks are those of any launch. The machines' names are made up: no
address is looked up by them. MPI tells machines apart by their host names, so there is one daemon
for each of those, also where Ray has two nodes.
docs/decisions/0006-ray.md has what was measured.

Note [Bits do not depend on places]
After a restart ranks may be distributed over machines in another way. Components of Open MPI that
add up within a machine first (han, xhc, sm) would round in another order then, and are left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from weft.distributed import launching
from weft.distributed.ray.placing import Machine
from weft.distributed.ray.progress import RunRelay

__all__ = ["Lost", "Raised", "attempt"]

_AGENT = """#!/bin/sh
cd '{folder}' && host=$1 && shift && printf '%s\\n' "$*" > part."$host" && mv part."$host" "$host"
"""
#: Components of MPI's collectives whose order of adding depends on places.
_BY_PLACE = "^han,xhc,sm"
#: How long mpiexec may take to tell of what ended a daemon, and daemons to end, in seconds.
_GRACE = 5.0


class Lost(Exception):
    """A worker or a machine is gone."""

    def __init__(self, text: str, by: tuple[int, int, str] | None = None) -> None:
        super().__init__(text)
        self.text, self.by = text, by


class Raised(Exception):
    """A worker's function raised, or left by another status than 0."""

    def __init__(self, text: str, rank: int, trace: str | None, status: int) -> None:
        super().__init__(text)
        self.text, self.rank, self.trace, self.status = text, rank, trace, status


class _Daemons:
    """Has the actors run what mpiexec asks for, and looks whether they do."""

    def __init__(self, ray: Any, machines: list[Machine], job: bytes, folder: str) -> None:
        self._ray, self._machines, self._folder = ray, machines, folder
        self._job = ray.put(job)
        #: What actors will answer, and the machines.
        self._served: dict[Any, Machine] = {}
        self._held = {actor.hold.remote(): m for m in machines for actor in m.actors[1:]}
        self._asked: set[str] = set()
        self._ended_since: float | None = None

    def look(self) -> None:
        """Starts what is asked for. Raises Lost for a daemon that is gone while mpiexec goes on."""
        for machine in self._machines:
            path = os.path.join(self._folder, machine.name)
            if machine.name not in self._asked and os.path.exists(path):
                self._asked.add(machine.name)
                with open(path, encoding="utf-8") as file:
                    answer = machine.actors[0].serve.remote(file.read().strip(), self._job)
                self._served[answer] = machine
        if (gone := self._gone(0)) is not None:
            raise Lost(gone)
        if self._ready(self._served, 0):
            self._ended_since = self._ended_since or time.monotonic()
            if time.monotonic() - self._ended_since > _GRACE:
                raise Lost(self.lost() or "the daemons of mpiexec ended")

    def _ready(self, answers: dict[Any, Machine], wait: float) -> list[Any]:
        """The answers that are there, or are within some seconds."""
        if not answers:
            return []
        return list(self._ray.wait(list(answers), num_returns=len(answers), timeout=wait)[0])

    def _gone(self, wait: float) -> str | None:
        """What is known of an actor that is gone."""
        answers = {**self._served, **self._held}
        for answer in [*self._ready(self._served, wait), *self._ready(self._held, 0)]:
            try:
                self._ray.get(answer)
            except self._ray.exceptions.RayError as error:
                where = f"node {answers[answer].address}: {type(error).__name__}"
                return f"the worker process or its machine is gone ({where})"
        return None

    def lost(self) -> str | None:
        """What is known of an actor that is gone, or of a daemon that failed."""
        if (gone := self._gone(_GRACE)) is not None:
            return gone
        for answer in self._ready(self._served, 0):
            status, said = self._ray.get(answer)
            if status:
                where = f"node {self._served[answer].address}"
                return f"the daemon on {where} ended with status {status}: {said.strip()}"
        return None

    def end(self) -> None:
        """Has nothing go on."""
        self._ready(self._served, _GRACE)
        for machine in self._machines:
            for actor in machine.actors:
                self._ray.kill(actor)


def _words(
    mpiexec: str, environment: dict[str, str], machines: list[Machine], agent: str
) -> list[str]:
    count = sum(machine.workers for machine in machines)
    words = launching.command("open", mpiexec, count, (), environment)
    words += ["--host", ",".join(f"{m.name}:{m.workers}" for m in machines)]
    words += launching.sent(environment)
    for name, value in (
        ("plm_ssh_agent", agent), ("plm_ssh_no_tree_spawn", "1"), ("prte_do_not_resolve", "1"),
        ("odls_base_num_threads", "0"),
    ):  # fmt: skip
        words += ["--prtemca", name, value]
    if "OMPI_MCA_coll" not in environment:
        words += ["--mca", "coll", _BY_PLACE]
    return [*words, sys.executable, "-m", "weft.distributed.rank", "--of-ray"]


def attempt(
    ray: Any, machines: list[Machine], job: bytes, threads: int, relay: RunRelay,
    meanwhile: Callable[[], None],
) -> None:  # fmt: skip
    """Runs the ranks to their end.

    Raises: Lost, Raised; KeyboardInterrupt where this process is asked to end.
    """
    mpiexec, kind = launching.find_launcher()
    if kind != "open":
        raise RuntimeError(
            f"[ray.run] expected Open MPI's mpiexec, got {mpiexec}. Hint: pip install 'weft[ray]'"
        )
    count = sum(machine.workers for machine in machines)
    more = {"MASTER_ADDR": machines[0].address}
    if "WEFT_NUM_THREADS" not in os.environ:
        more["OMP_NUM_THREADS"] = str(threads)
    environment = launching.variables(kind, count, (), more)
    with tempfile.TemporaryDirectory(prefix="weft-ray-") as folder:
        agent = os.path.join(folder, "agent")
        with open(agent, "w", encoding="utf-8") as file:
            file.write(_AGENT.format(folder=folder))
        os.chmod(agent, 0o700)
        daemons = _Daemons(ray, machines, job, folder)

        def look() -> None:
            daemons.look()
            relay.take_reports()
            meanwhile()

        words = _words(mpiexec, environment, machines, agent)
        try:
            status, got = launching.follow(words, environment, relay, look, every=0.1)
            line = relay.end(status)
            relay.take_reports()
            if got is not None:
                raise KeyboardInterrupt
            _judge(status, line, relay, daemons)
        finally:
            relay.take_reports()
            daemons.end()


def _judge(status: int, line: str | None, relay: RunRelay, daemons: _Daemons) -> None:
    """Raises what the end of mpiexec means."""
    if status == 0:
        return
    if (by := relay.by_signal()) is not None:
        raise Lost(f"rank {by[0]} was ended by signal {by[1]} ({by[2]})", by)
    if relay.raised is not None:
        rank, trace = relay.raised
        raise Raised(f"rank {rank} raised", rank, trace, status)
    if (lost := daemons.lost()) is not None:
        raise Lost(lost)
    aborted = relay.by_abort()
    if aborted in relay.left_alone:
        raise Lost(f"a worker is gone, as rank {aborted} found")
    left = relay.by_status() or (aborted is not None and (aborted, status))
    if left:
        raise Raised(f"rank {left[0]} ended with status {left[1]}", left[0], None, left[1])
    raise Lost(line or f"mpiexec ended with status {status}")
