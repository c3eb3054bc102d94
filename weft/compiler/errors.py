"""What compiling raises."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.frontend.programs import Left

__all__ = ["BackendCompilerFailed", "CompilerError", "InvalidBackend", "Unsupported"]


class CompilerError(RuntimeError):
    """The base of what compiling raises; PyTorch's `torch._dynamo.exc.TorchDynamoException`."""


class InvalidBackend(CompilerError):
    """`weft.compile` was asked for a backend that is not there."""


class BackendCompilerFailed(CompilerError):
    """A backend of the user's raised, or gave nothing to call.

    Attributes:
        backend_name: its name.
        inner_exception: what it raised.
    """

    def __init__(self, backend: Any, inner_exception: BaseException) -> None:
        self.backend_name = getattr(backend, "__name__", "?")
        self.inner_exception = inner_exception
        kind = type(inner_exception).__name__
        super().__init__(f"backend='{self.backend_name}' raised:\n{kind}: {inner_exception}")


class Unsupported(CompilerError):
    """With `fullgraph=True`: a function that was called is outside of the subset that compiles.

    Attributes:
        function: its qualified name.
        reason: what is outside.
        hint: what to write instead; empty where there is nothing to say.
        file: the file of the function.
        line: the line that is outside.
    """

    def __init__(self, function: str, reason: str, hint: str, file: str, line: int) -> None:
        super().__init__(function, reason, hint, file, line)
        self.function, self.reason, self.hint = function, reason, hint
        self.file, self.line = file, line

    def __str__(self) -> str:
        hint = self.hint or "without fullgraph=True or jit.script, Python runs this function"
        return (
            f"[compile] expected functions that compile, got {self.function}: "
            f"{self.file}:{self.line}: {self.reason}. Hint: {hint}"
        )


def unsupported(function: FunctionType, left: Left) -> Unsupported:
    """The error about a function that was left to Python."""
    code = function.__code__
    line = left.line or code.co_firstlineno
    return Unsupported(function.__qualname__, left.reason, left.hint, code.co_filename, line)
