"""`record`: what a process of a launch writes of the error that ends it."""

from __future__ import annotations

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["ErrorHandler", "get_error_handler", "record"]

F = TypeVar("F", bound=Callable[..., Any])


class ErrorHandler:
    """Writes errors to the file that TORCHELASTIC_ERROR_FILE names; without one it does nothing."""

    def initialize(self) -> None:
        """Has Python print where it is when the process crashes."""
        import faulthandler

        try:
            faulthandler.enable(all_threads=True)
        except (OSError, RuntimeError, ValueError):  # a stderr without a descriptor
            return

    def record_exception(self, e: BaseException) -> None:
        """Writes the error: its class and message, its traceback, and when it was, in seconds."""
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if not path:
            return
        lines = "".join(traceback.format_exception(e))
        more = {"py_callstack": lines, "timestamp": str(int(time.time()))}
        message = {"message": f"{type(e).__name__}: {e}", "extraInfo": more}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"message": message}, file)


def get_error_handler() -> ErrorHandler:
    """A handler."""
    return ErrorHandler()


def record(fn: F, error_handler: ErrorHandler | None = None) -> F:
    """The function, whose errors are written as JSON to a file: TORCHELASTIC_ERROR_FILE names it.

    Errors go on to the caller, and SystemExit is none.

    Args:
        fn: the main function of a process.
        error_handler: what writes; None: an `ErrorHandler`.

    >>> @record
    ... def main():
    ...     return "done"
    >>> main()
    'done'
    """
    handler = get_error_handler() if error_handler is None else error_handler

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit:
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return run  # type: ignore[return-value]
