"""The class of `torch.__version__` under `weft run`: a string that compares as versions do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["TorchVersion"]


class TorchVersion(str):
    """A version as a string, compared with strings, tuples and versions as PEP 440 says.

    What is no version is compared as a string; `!=` is always a string's, as in PyTorch.

    >>> from weft.torch_version import TorchVersion
    >>> TorchVersion("2.13.0") > "2.9", TorchVersion("2.13.0") >= (2, 13), "2.13.0" < "2.9"
    (True, True, True)
    """

    __slots__ = ()

    def _compare(self, other: Any, method: str) -> Any:
        from packaging.version import InvalidVersion, Version

        try:
            return getattr(Version(self), method)(_version(other))
        except InvalidVersion:
            return getattr(super(), method)(other)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "__le__")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, "__gt__")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, "__ge__")

    def __eq__(self, other: object) -> Any:
        return self._compare(other, "__eq__")

    __hash__ = str.__hash__


def _version(other: Any) -> Any:
    from packaging.version import InvalidVersion, Version

    if isinstance(other, (Version, str)):
        return Version(other) if isinstance(other, str) else other
    if isinstance(other, Iterable):
        return Version(".".join(map(str, other)))
    raise InvalidVersion(f"[TorchVersion] expected a version, got {other!r}")
