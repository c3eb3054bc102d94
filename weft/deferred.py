"""Where `weft.batching` was: programs import, and files of theirs name, what they use from here."""

from typing import TYPE_CHECKING, Any

from weft.batching import autobatched, report

if TYPE_CHECKING:
    from weft.batching.autobatched import Autobatched, autobatch, deferred
    from weft.batching.report import Report, explain

__all__ = ["Autobatched", "Report", "autobatch", "deferred", "explain"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(report if hasattr(report, name) else autobatched, name)
