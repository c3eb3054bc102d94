"""Counters of PyTorch's compiler that programs print: they stay empty."""

from collections import Counter, defaultdict

__all__ = ["counters"]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
