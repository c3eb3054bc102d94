"""What closing a program raises."""

from __future__ import annotations


class NotExportable(RuntimeError):
    """A line that no program without Python can run.

    Attributes:
        reason: what stands there.
        hint: what to write instead; empty where there is nothing to say.
        function: the function that it stands in.
        file: its file.
        line: the line.
        inside: the function of weft's own that it stands in, if it does.
    """

    def __init__(
        self,
        reason: str,
        hint: str = "",
        function: str = "",
        file: str = "",
        line: int = 0,
        inside: str = "",
    ) -> None:
        super().__init__(reason, hint, function, file, line, inside)
        self.reason, self.hint, self.inside = reason, hint, inside
        self.function, self.file, self.line = function, file, line

    def __str__(self) -> str:
        place = f"{self.function}: {self.file}:{self.line}: " if self.function else ""
        hint = f". Hint: {self.hint}" if self.hint else ""
        inside = f" (in {self.inside} of weft's own)" if self.inside else ""
        return f"[export] expected a program without Python, got {place}{self.reason}{inside}{hint}"

    def within(self, function: str) -> NotExportable:
        """The same in a function of weft's own; the outermost counts, which the user called."""
        if self.function:
            return self
        return type(self)(self.reason, self.hint, inside=function)

    def at(self, function: str, file: str, line: int) -> NotExportable:
        """The same with its place, unless it has one."""
        if self.function:
            return self
        return type(self)(self.reason, self.hint, function, file, line, self.inside)


class NotBound(NotExportable):
    """A function that does not take the arguments of a call."""


class NeedsUnrolling(NotExportable):
    """A loop's variable chooses among what no program can hold: each turn has to be written out."""
