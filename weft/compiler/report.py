"""What became of the functions that calls of a compiled one came to."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import CodeType
from typing import Any

from weft.compiler.function import CompiledFunction
from weft.compiler.module import OptimizedModule


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


@dataclass(frozen=True)
class Place:
    """Where a program may go on by plan.

    Attributes:
        line: where stretches begin.
        steps: of each stretch, how many calls of ops its plan stands for.
        runs: how often their plans ran, together.
        end: the line that the last attempt at one ended at; 0 at the function's end.
        why: what ended it there; empty at the function's end, and where there was no attempt.
    """

    line: int
    steps: tuple[int, ...]
    runs: int
    end: int
    why: str

    def __str__(self) -> str:
        if not self.steps:
            return f"line {self.end}: no plan, {self.why}" if self.why else "no plan yet"
        end = f", up to line {self.end}: {self.why}" if self.why else ", up to the end"
        steps = " or ".join(map(str, self.steps))
        return f"line {self.line}: {steps} calls{end}; ran {_times(self.runs)}"


@dataclass(frozen=True)
class Reached:
    """A function that calls of a compiled one came to.

    Attributes:
        name: its qualified name.
        file: its file.
        line: its first line.
        compiled: whether it is a program.
        reason: why it stays Python's; empty if it does not.
        hint: what to write instead; empty where there is nothing to say.
        outside: the line of it that is outside of the subset; 0 where there is none.
        by_choice: it could be a program and would gain nothing, as what weft itself is made of.
        calls: how often programs called it through Python, all compiled functions together; of a
            program: while it was left to Python, because its plans gained less than it cost.
        places: of a program, where plans may run.

    >>> double = weft.compile(lambda x: x * 2)
    >>> weft.compiler.explain(double).functions
    ()
    """

    name: str
    file: str
    line: int
    compiled: bool
    reason: str = ""
    hint: str = ""
    outside: int = 0
    by_choice: bool = False
    calls: int = 0
    places: tuple[Place, ...] = ()

    def __str__(self) -> str:
        place = f"{self.name} ({self.file}:{self.outside or self.line})"
        if self.compiled:
            idle = f": left to Python, as it gained nothing; called {_times(self.calls)}"
            lines = [place + (idle if self.calls else ""), *self._plans()]
            return "\n      ".join(lines)
        hint = f". Hint: {self.hint}" if self.hint else ""
        return f"{place}: {self.reason}{hint}; called {_times(self.calls)}"

    def _plans(self) -> list[str]:
        """What there is to say of its places, by lines; where nothing was tried, just that."""
        tried = [p for p in self.places if p.steps or p.why]
        in_order = sorted(tried or self.places, key=lambda p: p.line if p.steps else p.end)
        return list(dict.fromkeys(map(str, in_order)))


@dataclass(frozen=True)
class Explanation:
    """What `explain` tells; printed, it lists the functions.

    Attributes:
        name: what was compiled.
        functions: all that its calls came to so far, in order.

    >>> double = weft.compile(lambda x: x * 2)
    >>> weft.compiler.explain(double)
    Explanation(name='<lambda>', functions=())
    """

    name: str
    functions: tuple[Reached, ...]

    @property
    def compiled(self) -> tuple[Reached, ...]:
        """Those that are programs."""
        return tuple(f for f in self.functions if f.compiled)

    @property
    def outside(self) -> tuple[Reached, ...]:
        """Those that Python runs, as they are outside of the subset."""
        return tuple(f for f in self.functions if not f.compiled and not f.by_choice)

    @property
    def left(self) -> tuple[Reached, ...]:
        """Those that Python runs by choice: of weft, of the standard library, of NumPy."""
        return tuple(f for f in self.functions if f.by_choice)

    def __str__(self) -> str:
        if not self.functions:
            return f"{self.name}: no call has come to a function of Python yet"
        lines = [f"{self.name}: {len(self.compiled)} of {len(self.functions)} functions compiled"]
        for title, some in (
            ("programs", self.compiled),
            ("Python's, outside of the subset", self.outside),
            ("Python's, as they gain nothing", self.left),
        ):
            if some:
                lines += [f"  {title}:", *(f"    {f}" for f in some)]
        return "\n".join(lines)


def explain(compiled: Any) -> Explanation:
    """Which functions the calls of a compiled function or Module came to so far.

    Args:
        compiled: what `weft.compile` gave, or a Module after its `compile()`.

    Raises:
        TypeError: it is not compiled.

    >>> import weft
    >>> double = weft.compile(lambda x: x * 2)
    >>> print(weft.compiler.explain(double))
    <lambda>: no call has come to a function of Python yet
    """
    call = compiled
    if isinstance(compiled, OptimizedModule):
        call = compiled.__dict__["forward"]
    elif "_compiled_call_impl" in getattr(compiled, "__dict__", ()):
        call = compiled.__dict__["_compiled_call_impl"]
    if not isinstance(call, CompiledFunction):
        raise TypeError(
            f"[explain] expected what weft.compile gave, got {type(compiled).__name__}. "
            "Hint: weft.compiler.explain(weft.compile(f)), after a call"
        )
    callee = call.callee
    name = getattr(callee, "__qualname__", type(callee).__name__)
    inner = getattr(callee, "func", None)
    if isinstance(inner, CompiledFunction):  # a partial
        return explain(inner)
    return Explanation(name, tuple(itertools.starmap(_row, call._reached())))


def _row(code: CodeType, left: Any, calls: int, places: list[dict[str, Any]]) -> Reached:
    place = code.co_qualname, code.co_filename, code.co_firstlineno
    if left is None:
        told = tuple(map(_place, places))
        return Reached(*place, compiled=True, calls=calls, places=told)
    return Reached(*place, False, left.reason, left.hint, left.line, left.by_choice, calls)


def _place(told: dict[str, Any]) -> Place:
    steps = tuple(s["steps"] for s in told["stretches"])
    runs = sum(s["runs"] for s in told["stretches"])
    return Place(told["line"], steps, runs, told["end"], told["why"] or "")
