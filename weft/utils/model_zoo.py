"""The older home of `torch.hub`'s function that fetches files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.hub import load_state_dict_from_url as load_url  # noqa: F401

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    """The function is written in `hub`, which is loaded after `utils`."""
    import sys

    if name != "load_url":
        from weft.base import lazy as _lazy

        raise _lazy.missing(sys.modules[__name__], name)
    from weft.hub import load_state_dict_from_url

    return load_state_dict_from_url
