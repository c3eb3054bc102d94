"""An exception of a worker, on its way to the loader."""

from __future__ import annotations

import pickle
import traceback
from typing import Any


class _Text(str):
    """KeyError shows the repr of its argument: this one's is itself."""

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """The type and the text of an exception, with the traceback of where it happened."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind: Any = type(error)
        self.name = type(error).__name__
        self.text = "".join(traceback.format_exception(error))
        self.where = where
        try:
            pickle.dumps(self.kind)
        except Exception:
            self.kind = None  # a class that the other process would not find

    def reraise(self) -> None:
        """Raises an exception of the same type, as PyTorch words it."""
        text = f"Caught {self.name} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            raise KeyError(_Text(text))
        try:
            error = self.kind(message=text) if hasattr(self.kind, "message") else self.kind(text)
        except Exception:
            error = RuntimeError(text)  # a type that takes other arguments
        raise error
