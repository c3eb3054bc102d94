"""Reductions of losses by number, as the core of PyTorch takes them."""

from __future__ import annotations

from weft.nn.functional_loss import chosen_reduction, legacy_reduction

__all__ = ["get_enum", "legacy_get_enum", "legacy_get_string"]


def get_enum(reduction: str) -> int:
    """0, 1 or 2 for "none", "mean" and "sum".

    Raises: ValueError for another text, TypeError for what is none.
    """
    return ("none", "mean", "sum").index(chosen_reduction(None, None, reduction))


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """What the two older arguments of losses mean."""
    return legacy_reduction(size_average, reduce, emit_warning)


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The same as a number."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
