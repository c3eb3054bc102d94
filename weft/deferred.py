"""Where `weft.batching` was: programs import, and files of theirs name, what they use from here."""

from typing import TYPE_CHECKING, Any

from weft.batching import autobatched, report

if TYPE_CHECKING:
    from weft.batching.autobatched import Autobatched, autobatch, deferred
    from weft.batching.report import Report, explain

__all__ = ["Autobatched", "Report", "autobatch", "deferred", "explain"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        import sys

        from weft.base import lazy as _lazy

        raise _lazy.missing(sys.modules[__name__], name)
    return getattr(report if hasattr(report, name) else autobatched, name)
