"""What the namespace offers: `__array_namespace_info__`."""

from __future__ import annotations

from typing import Any

import weft
from weft import dtype
from weft.array_api.data_types import KINDS
from weft.base.device import device as Device
from weft.base.device import expect_cpu
from weft.base.shown import dtype_name


class Info:
    """The standard's inspection of a namespace.

    >>> from weft import array_api as xp
    >>> xp.__array_namespace_info__().capabilities()["max dimensions"]
    64
    """

    def capabilities(self) -> dict[str, Any]:
        """What of the standard's optional behaviour there is."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The CPU."""
        return Device("cpu")

    def devices(self) -> tuple[Device, ...]:
        """The CPU alone."""
        return (Device("cpu"),)

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtype]:
        """What is made without a dtype, by its kind."""
        expect_cpu(device)
        real = weft.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": weft.int64,
            "indexing": weft.int64,
        }

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, dtype]:
        """The standard's dtypes of that kind, or of these, by their names.

        Raises: ValueError for a kind that the standard does not know.
        """
        expect_cpu(device)
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        for name in kinds:
            if name not in KINDS:
                raise ValueError(f"[dtypes] expected kinds of {', '.join(KINDS)}, got {name!r}")
        return {dtype_name(found): found for name in kinds for found in KINDS[name]}


def __array_namespace_info__() -> Info:
    """What the namespace offers: its dtypes, devices and capabilities."""
    return Info()
