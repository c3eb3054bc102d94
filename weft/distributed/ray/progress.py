"""What a run shows and keeps of the reports of its workers."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from weft.distributed.launching import Relay
from weft.distributed.ray.session import REPORT, REPORT_END

__all__ = ["Progress", "RunRelay"]


#: What MPI writes before it ends all ranks.
_OF_MPI = re.compile(rb"\[[^]\s]+:\d+\] \*\*\* ")


class Progress:
    """The reports of a run in one bar, and their numbers.

    Args:
        workers: how many there are.
        total: of reports, where it is known.
        is_shown: whether there is a bar.
    """

    def __init__(self, workers: int, total: int | None, is_shown: bool) -> None:
        from tqdm.auto import tqdm

        text = f"{workers} worker{'s' * (workers != 1)}"
        self._bar = tqdm(desc=text, total=total, unit=" reports", disable=not is_shown)
        self.history: list[dict[str, Any]] = []
        #: The number of the newest report with a checkpoint.
        self.saved = 0

    def take(self, told: dict[str, Any]) -> None:
        """A report; one that is made again replaces those that it goes before."""
        number: int = told["number"]
        self.history = [earlier for earlier in self.history if earlier["report"] < number]
        self.history.append({"report": number, **told["metrics"]})
        if told["is_saved"]:
            self.saved = number
        self._bar.update(number - self._bar.n)
        self._bar.set_postfix(told["metrics"], refresh=False)

    def say(self, text: str) -> None:
        """A line above the bar."""
        with self._bar.external_write_mode(file=sys.stderr):
            print(f"[weft.distributed.ray] {text}", file=sys.stderr, flush=True)

    def write(self, write: Any) -> None:
        """Calls what writes lines, above the bar."""
        if self._bar.disable:
            write()
            return
        with self._bar.external_write_mode(file=sys.stderr):
            write()
            sys.stderr.flush()

    def close(self) -> None:
        """Ends the bar."""
        self._bar.refresh()
        self._bar.close()


class RunRelay(Relay):
    """Shows what the ranks of an attempt write, and keeps reports and the first traceback."""

    def __init__(self, workers: int, progress: Progress) -> None:
        super().__init__(is_tagged=True, show_ranks=workers > 1)
        self._progress = progress
        self._begun: dict[tuple[int, int], bytes] = {}
        self.reports: list[dict[str, Any]] = []
        #: The first rank that raised, and its traceback.
        self.raised: tuple[int, str] | None = None
        #: Ranks that MPI told of a connection whose other end is gone.
        self.left_alone: set[int] = set()

    def _without_reports(self, fd: int, rank: int, data: bytes) -> bytes:
        data = self._begun.pop((fd, rank), b"") + data
        start = data.find(REPORT)
        while start >= 0:
            end = data.find(REPORT_END, start + len(REPORT))
            if end < 0:
                break
            self.reports.append(json.loads(data[start + len(REPORT) : end]))
            data = data[:start] + data[end + len(REPORT_END) :]
            start = data.find(REPORT)
        half = data.rfind(REPORT[:1])
        if start < 0 and half >= 0 and REPORT.startswith(data[half:]):
            start = half
        if start >= 0:
            self._begun[fd, rank] = data[start:]
            data = data[:start]
        return data

    def take_reports(self) -> None:
        """Hands on what came."""
        with self._lock:
            told, self.reports = self.reports, []
        for one in told:
            self._progress.take(one)

    def _show(self, rank: int, told: list[tuple[int, bytes]]) -> None:
        if self._shown is None:
            self._shown = rank
            text = b"".join(line for fd, line in told if fd == 2)
            self.raised = rank, text.decode(errors="replace").rstrip()

    def _line(self, fd: int, rank: int, line: bytes) -> None:
        if _OF_MPI.match(line):
            if b"An error occurred in Socket closed" in line:
                self.left_alone.add(rank)
        elif b"\0" not in line or line.strip(b" \0\r\n"):  # MPI's words end with a null
            super()._line(fd, rank, line)

    def _write(self, fd: int, data: bytes) -> None:
        self._progress.write(lambda: super(RunRelay, self)._write(fd, data))
