"""Tensors within arguments, results and variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

from weft import Tensor

DEEPEST = 32


def tensors_in(thing: Any, depth: int = DEEPEST, width: int | None = None) -> Iterator[Tensor]:
    """The tensors in dicts, lists, tuples and dataclasses, in each other up to a `depth`, which
    ends those that hold themselves; of each the first `width`, None: all."""
    items: Iterable[Any] = ()
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, dict):
        items = thing.values()
    elif isinstance(thing, (list, tuple)):
        items = thing
    elif is_dataclass(thing) and not isinstance(thing, type):
        items = [getattr(thing, f.name, None) for f in fields(thing)]
    if depth:
        for item in list(islice(items, width)):
            yield from tensors_in(item, depth - 1, width)
