"""Times statements with care: `Timer`, `Measurement`, `Compare`, with PyTorch's meanings."""

from __future__ import annotations

import math
import textwrap
import timeit
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer", "trim_sigfig"]

timer = timeit.default_timer

_MOST_FIGURES = 4
_LEAST_INTERVAL = 25e-9  # seconds
_WARN, _GROSS_WARN = 0.1, 0.25  # of the interquartile range, in medians
_SCALES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


def select_unit(t: float) -> tuple[str, float]:
    """The unit that seconds are printed in, and what it is in seconds.

    >>> weft.utils.benchmark.select_unit(2e-5)
    ('us', 1e-06)
    """
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(int(math.log10(t) // 3), "s")
    return unit, _SCALES[unit]


def trim_sigfig(x: float, n: int) -> float:
    """A number to so many significant figures.

    >>> weft.utils.benchmark.trim_sigfig(3.14159, 2)
    3.1
    """
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    return round(x, n - math.ceil(math.log10(abs(x))))


@dataclass(frozen=True)
class TaskSpec:
    """What a `Timer` runs, and what `Compare` sorts it by.

    >>> weft.utils.benchmark.Timer("1 + 1", label="sum").timeit(1).task_spec.label
    'sum'
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or else the statement."""
        more = f": {self.sub_label}" if self.sub_label else ""
        if self.label is not None:
            return self.label + more
        if "\n" not in self.stmt:
            return self.stmt + more
        more = f" ({self.sub_label})" if self.sub_label else ""
        return f"stmt:{more}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """The setup as a section of text; empty if there is none."""
        if self.setup in ("", "pass"):
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup."""
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join(f"{p}\n" if "\n" in p else p for p in parts if p)


@dataclass(repr=False)
class Measurement:
    """Times of one statement, in seconds, and what they say.

    >>> from weft.utils.benchmark import Measurement, TaskSpec
    >>> m = Measurement(100, [5e-4, 6e-4, 5e-4, 7e-4], TaskSpec("x + 1", "pass"))
    >>> round(m.median * 1e6, 3), round(m.iqr * 1e6, 3), m.significant_figures
    (5.5, 1.25, 1)
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    def __getattr__(self, name: str) -> Any:
        if name in TaskSpec.__dataclass_fields__ and "task_spec" in vars(self):
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        """Of one run of the statement, in each measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q: float) -> float:
        return float(np.quantile(self.times, q)) if self.raw_times else -1.0

    @property
    def median(self) -> float:
        """Of the times."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """Of the times."""
        return float(np.mean(self.times)) if self.raw_times else -1.0

    @property
    def iqr(self) -> float:
        """From the first to the third quartile."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median mean something, 1 to 4: by the spread between the
        quartiles."""
        times = sorted(self.times)
        inner = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        interval = max(1.645 * float(np.std(inner)) / math.sqrt(len(inner)), _LEAST_INTERVAL)
        return min(max(math.floor(math.log10(self.median / interval)), 1), _MOST_FIGURES)

    def meets_confidence(self, threshold: float = _WARN) -> bool:
        """Whether the interquartile range is less than so much of the median."""
        return self.iqr / self.median < threshold

    @property
    def _warnings(self) -> list[str]:
        if not self.raw_times or self.meets_confidence(_WARN):
            return []
        gross = not self.meets_confidence(_GROSS_WARN)
        why = (
            "This suggests significant environmental influence."
            if gross
            else "This could indicate system fluctuation."
        )
        share = self.iqr / self.median * 100
        return [
            f"  WARNING: Interquartile range is {share:.1f}% of the median measurement.",
            f"           {why}",
        ]

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread so far that the median says little."""
        return bool(self._warnings)

    @property
    def title(self) -> str:
        """The label, or else the statement."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What `Compare` calls its row."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        count, threads = len(self.raw_times), self.task_spec.num_threads
        unit, scale = select_unit(self.median)
        low, high = (self._quantile(q) / scale for q in (0.25, 0.75))
        several = count > 1
        lines = [
            object.__repr__(self),
            self.task_spec.summarize(),
            f"  {'Median: ' if several else ''}{self.median / scale:.2f} {unit}",
        ]
        if count >= 4:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        lines.append(
            f"  {count} measurement{'s' if several else ''}, {self.number_per_run} runs "
            f"{'per measurement,' if several else ','} {threads} thread{'s' if threads > 1 else ''}"
        )
        return "\n".join([*lines, *self._warnings]).strip()

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for those of each task."""
        times: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            times.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, of, task) for task, of in times.items()]


class _Threads:
    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> None:
        from weft import get_num_threads, set_num_threads

        self.before = get_num_threads()
        set_num_threads(self.count)

    def __exit__(self, *error: Any) -> None:
        from weft import set_num_threads

        set_num_threads(self.before)


class Timer:
    """Times a statement, given as text, with a chosen number of threads.

    Args:
        stmt: what is timed.
        setup: what runs before it, once for each measurement.
        timer: the clock, in seconds.
        globals: names that it knows; `torch` and `weft` besides, which are weft.
        label, sub_label, description, env: for `Compare`: the table, the row, the column, and what
            sets apart rows that are else alike.
        num_threads: of the ops in it.
        language: "python".

    Raises:
        ValueError: a statement that is no text, another language, `global_setup` (C++'s).

    >>> from weft.utils.benchmark import Timer
    >>> m = Timer("x + 1", globals={"x": weft.ones(4)}).timeit(100)
    >>> m.number_per_run, len(m.times), m.median > 0
    (100, 1, True)
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Callable[[], float] = timer, globals: dict[str, Any] | None = None,
        label: str | None = None, sub_label: str | None = None, description: str | None = None,
        env: str | None = None, num_threads: int = 1, language: str = "python",
    ) -> None:  # fmt: skip
        import weft

        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if getattr(language, "value", language) not in ("py", "python", 0):
            raise ValueError(f"Invalid language `{language}`. Hint: weft times Python")
        if global_setup:
            raise ValueError(f"global_setup is C++ only, got `{global_setup}`. Hint: use setup=")
        known = {"torch": weft, "weft": weft, **(globals or {})}
        stmt, setup = (textwrap.dedent(s).removeprefix("\n").rstrip() for s in (stmt, setup))
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=known)
        self._task_spec = TaskSpec(
            stmt, setup, "", label, sub_label, description, env, num_threads
        )  # fmt: skip

    def _time(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)  # a clock may stand still

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of so many runs, after a hundredth as many to get warm."""
        with _Threads(self._task_spec.num_threads):
            self._time(max(number // 100, 2))
            return Measurement(number, [self._time(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not there, as in PyTorch."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], NoReturn] | None = None) -> None:
        """Not there, as in PyTorch."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """Runs beside which the clock costs nothing; they warm up too."""
        overhead = float(np.median([self._time(0) for _ in range(5)]))
        number = 1
        while number * 10 <= 2147483647:
            took = self._time(number)
            is_enough = overhead / took <= 1e-4 and took >= min_run_time / 1000
            if is_enough or took > min_run_time:
                break
            number *= 10
        return number

    def _measure(
        self, block_for: float, stop: Callable[[Measurement], bool], least: float, most: float,
        callback: Callable[[int, float], Any] | None,
    ) -> Measurement:  # fmt: skip
        with _Threads(self._task_spec.num_threads):
            number = self._block_size(block_for)
            done = Measurement(number, [], self._task_spec)
            total, stops = 0.0, False
            while (total < least or not stops) and total <= most:
                took = self._time(number)
                done.raw_times.append(took)
                total += took
                if callback:
                    callback(number, took)
                stops = stop(done)
        return done

    def blocked_autorange(
        self, callback: Callable[[int, float], NoReturn] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measurements of blocks of runs, each long beside the clock, for so many seconds."""
        return self._measure(min_run_time, lambda done: True, min_run_time, math.inf, callback)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], NoReturn] | None = None,
    ) -> Measurement:  # fmt: skip
        """Measurements until the interquartile range is less than `threshold` of the median, four
        at least and for `min_run_time` seconds; or for `max_run_time`."""

        def is_steady(done: Measurement) -> bool:
            return len(done.raw_times) > 3 and done.meets_confidence(threshold)

        return self._measure(0.05, is_steady, min_run_time, max_run_time, callback)

    def collect_callgrind(self, number: int = 100, **options: Any) -> NoReturn:
        """Not there.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "[collect_callgrind] expected a build with Valgrind's marks, got one without. "
            "Hint: run a script with `valgrind --tool=callgrind`, with n and with 2n runs, and "
            "take the difference"
        )


def _env(key: tuple[int, str | None, str]) -> str:
    return "Unspecified env" if key[1] is None else key[1]


class Compare:
    """A table of measurements: a row for each `sub_label` and number of threads, a column for each
    `description`, a table for each `label`.

    Raises:
        ValueError: something that is no measurement.

    >>> from weft.utils.benchmark import Compare, Measurement, TaskSpec
    >>> def measured(size, how, us):
    ...     task = TaskSpec("f()", "pass", label="f", sub_label=size, description=how)
    ...     return Measurement(1, [us * 1e-6] * 4, task)
    >>> table = Compare([measured("4", "weft", 1.0), measured("4", "other", 2.5)])
    >>> print("|" + str(table).replace("\\n", "\\n|"))
    |[---------- f -----------]
    |         |  weft  |  other
    |1 threads: ---------------
    |      4  |  1.0   |   2.5
    |
    |Times are in microseconds (us).
    |
    """

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim = self._warn = False
        self._colors = ""
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements."""
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
            self._results.append(r)

    def trim_significant_figures(self) -> None:
        """Numbers have the figures that mean something."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """The best of each column, or row, is green, what is far from it red."""
        self._colors = "rows" if rowwise else "columns"

    def highlight_warnings(self) -> None:
        """Numbers that spread far are marked."""
        self._warn = True

    def print(self) -> None:
        """Prints it."""
        print(str(self))

    def __str__(self) -> str:
        groups: dict[Any, list[Measurement]] = {}
        for m in Measurement.merge(self._results):
            groups.setdefault(m.label, []).append(m)
        return "\n".join(self._table(group) for group in groups.values())

    def _table(self, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(m.median for m in results))
        heads = list(dict.fromkeys(m.description for m in results))
        keys = list(dict.fromkeys((m.num_threads, m.env, m.as_row_name) for m in results))
        keys.sort(key=lambda key: (key[0], _env(key)))
        at = {((m.num_threads, m.env, m.as_row_name), m.description): m for m in results}
        grid = [[at.get((key, head)) for head in heads] for key in keys]
        envs = {_env(key) for key in keys}
        env_width = max(map(len, envs)) if len(envs) > 1 else 0
        names = []
        before: tuple[int, str] = -1, ""
        for key in keys:
            around = before[1] if key[0] == before[0] else ""
            env = _env(key)
            shown = f"({env})" if env_width and env != around else ""
            names.append("  " + shown.ljust(env_width + 4) + key[2])
            before = key[0], env
        cells = [self._column([row[j] for row in grid], scale) for j in range(len(heads))]
        text = [["", *(str(h) if h is not None else "" for h in heads)]]
        text += [[name, *(c[i] for c in cells)] for i, name in enumerate(names)]
        widths = [max(map(len, column)) for column in zip(*text, strict=True)]
        lines = ["  |  ".join(c.center(w) for c, w in zip(text[0], widths, strict=True))]
        width = len(lines[0])
        threads_before = None
        for i, row in enumerate(text[1:]):
            if keys[i][0] != threads_before:
                threads_before = keys[i][0]
                lines.append(f"{threads_before} threads: ".ljust(width, "-"))
            placed = [row[0].ljust(widths[0])]
            for j, (cell, w) in enumerate(zip(row[1:], widths[1:], strict=True)):
                placed.append(self._colored(cell.center(w), grid, keys, i, j))
            lines.append("  |  ".join(placed))
        title = f" {results[0].label or ''} ".center(width - 2, "-")
        end = [f"Times are in {_ENGLISH[unit]}s ({unit}).", ""]
        if self._warn and any(m.has_warnings for m in results):
            end[1:1] = [
                "(! XX%) Measurement has high variance, where XX is the IQR / median * 100."
            ]
        return "\n".join([f"[{title}]", *lines, "", *end])

    def _column(self, column: list[Measurement | None], scale: float) -> list[str]:
        known = [m for m in column if m is not None]
        digits = {id(m): math.ceil(math.log10(m.median / scale)) for m in known}
        places = 1
        if self._trim:
            places = min(max(m.significant_figures - digits[id(m)], 0) for m in known)
        length = max(digits.values()) + places + (1 if places else 0)
        note = 7 if self._warn and any(m.has_warnings for m in known) else 0
        out = []
        for m in column:
            if m is None:
                out.append("")
                continue
            value = m.median / scale
            if self._trim:
                value = trim_sigfig(value, m.significant_figures)
            mark = f" (! {m.iqr / m.median * 100:.0f}%)" if note and m.has_warnings else ""
            out.append(f"{value:>{length}.{places}f}{mark:>{note}}")
        width = max(length, 1) + note
        return [cell or " " * width for cell in out]

    def _colored(self, cell: str, grid: Any, keys: Any, i: int, j: int) -> str:
        m = grid[i][j]
        if not self._colors or m is None:
            return cell
        if self._colors == "rows":
            peers = [o for o in grid[i] if o is not None]
        else:
            peers = [
                row[j]
                for row, key in zip(grid, keys, strict=True)
                if key[0] == keys[i][0] and row[j] is not None
            ]
        best = min(o.median for o in peers)
        if m.median <= max(best * 1.01, best + 100e-9):
            return f"\033[92m\033[1m{cell}\033[0m\033[0m"
        if m.median <= best * 1.1:
            return f"\033[34m\033[1m{cell}\033[0m\033[0m"
        if m.median >= best * 5:
            return f"\033[31m\033[1m{cell}\033[0m\033[0m"
        if m.median >= best * 2:
            return f"\033[2m\033[91m{cell}\033[0m\033[0m"
        return cell
