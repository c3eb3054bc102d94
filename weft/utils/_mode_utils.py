"""Helpers for modes."""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


def all_same_mode(modes: Any) -> bool:
    """Whether all are one mode."""
    return all(mode == modes[0] for mode in modes)
