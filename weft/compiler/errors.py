"""What compiling raises."""

from __future__ import annotations

from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.frontend.programs import Left

__all__ = [
    "BackendCompilerFailed", "CompilerError", "InvalidBackend", "Unsupported", "UserError",
    "UserErrorType",
]  # fmt: skip


class CompilerError(RuntimeError):
    """The base of what compiling raises; PyTorch's `torch._dynamo.exc.TorchDynamoException`."""


class UserErrorType(Enum):
    """What a UserError is about; PyTorch's `torch._dynamo.exc.UserErrorType`."""

    DYNAMIC_CONTROL_FLOW = 1
    ANTI_PATTERN = 2
    STANDARD_LIBRARY = 3
    CONSTRAINT_VIOLATION = 4
    DYNAMIC_DIM = 5
    INVALID_INPUT = 6
    INVALID_OUTPUT = 7
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = 8


class UserError(CompilerError):
    """A program asked for something that cannot be exported or compiled.

    Attributes:
        error_type: what it is about.
        message: the text.
    """

    def __init__(self, error_type: UserErrorType, msg: str) -> None:
        super().__init__(msg)
        self.error_type, self.message = error_type, msg


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
