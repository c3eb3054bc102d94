"""autobatch(out_stack=True): one structure with the tensors of all examples stacked."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import weft

ONES = weft.ones(2)


class Pair(NamedTuple):
    a: Any
    b: Any


class Empty(NamedTuple):
    pass


class Rows(list[Any]):
    pass


@dataclasses.dataclass
class Data:
    a: Any
    n: int = 0
    made: Any = dataclasses.field(default=None, init=False)

    def __post_init__(self) -> None:
        assert isinstance(self.a, weft.Tensor) and self.a.dim() == 1


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: Any


def outcome(fn: Callable[[int], Any]) -> Any:
    """The stacked results of examples 0, 1, 2; the same batched, one by one and in a plain loop."""
    batched = weft.autobatch(fn, out_stack=True)
    found = [_result(batched) for _ in range(2)]
    weft.autobatch.enabled = False
    try:
        found.append(_result(batched))
    finally:
        weft.autobatch.enabled = True
    assert all(f == found[0] for f in found)
    return found[0]


def _result(batched: Any) -> Any:
    try:
        return plain(batched([0, 1, 2]))
    except Exception as error:  # noqa: BLE001
        return type(error), str(error)


def plain(value: Any) -> Any:
    """Type and contents."""
    if isinstance(value, weft.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, {k: plain(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return type(value).__name__, {f.name: plain(getattr(value, f.name)) for f in fields}
    if isinstance(value, (list, tuple)) and type(value) is not list:
        return type(value).__name__, [plain(v) for v in value]
    return [plain(v) for v in value] if isinstance(value, list) else value


def local_class(k: int) -> Any:
    return collections.namedtuple("Made", "a")(weft.ones(()) * k)


K = [0, 1, 2]
KEPT: dict[str, tuple[Callable[[int], Any], Any]] = {
    "tensor": (lambda k: ONES[0] * k, K),
    "dict": (lambda k: {"a": ONES[0] * k, "b": k}, ("dict", {"a": K, "b": K})),
    "keys in another order": (
        lambda k: {"a": k, "b": 1} if k else {"b": 1, "a": k},
        ("dict", {"b": [1, 1, 1], "a": K}),
    ),
    "OrderedDict": (lambda k: collections.OrderedDict(a=k), ("OrderedDict", {"a": K})),
    "defaultdict": (
        lambda k: collections.defaultdict(list, a=ONES[0] * k), ("defaultdict", {"a": K})),
    "nested": (
        lambda k: {"a": [(ONES[0] * k, None)]}, ("dict", {"a": [("tuple", [K, [None] * 3])]})),
    "named": (lambda k: Pair(ONES[0] * k, "t"), ("Pair", [K, ["t"] * 3])),
    "named, made in the example": (local_class, ("Made", [K])),
    "named, without fields": (lambda k: Empty(), ("Empty", [])),
    "list": (lambda k: Rows([ONES[0] * k, k]), ("Rows", [K, K])),
    "dataclass": (
        lambda k: Data(weft.ones(1) * k, k),
        ("Data", {"a": [[0], [1], [2]], "n": K, "made": [None] * 3})),
    "frozen": (lambda k: Frozen(ONES[0] * k), ("Frozen", {"a": K})),
    "return type": (
        lambda k: (weft.ones(2, 1) * k).max(0), ("max", [[[0], [1], [2]], [[0], [0], [0]]])),
    "numbers": (lambda k: k / 2, [0, 0.5, 1]),
    "all sorts": (lambda k: [None, "a", 2.0][k], [None, "a", 2.0]),
    "sizes": (lambda k: weft.ones(k, 2).shape, [("Size", [k, 2]) for k in K]),
    "classes": (lambda k: Data, [Data] * 3),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_structures_keep_their_class(case: str) -> None:
    """An OrderedDict became a dict, a dataclass a list."""
    fn, expected = KEPT[case]
    assert outcome(fn) == expected


def test_a_defaultdict_keeps_its_factory() -> None:
    batched = weft.autobatch(lambda k: collections.defaultdict(list, a=k), out_stack=True)
    assert batched([1, 2])["new"] == []


UNLIKE: dict[str, tuple[Any, Any, str, str, str]] = {
    "a key more": (
        {"a": ONES, "extra": ONES}, {"a": ONES}, "result", "dict with keys 'a', 'extra'",
        "dict with keys 'a'"),
    "another key": ({"b": 1}, {"a": 1}, "result", "dict with keys 'b'", "dict with keys 'a'"),
    "number and tensor": (5.0, ONES, "result", "float", "Tensor"),
    "none and tensor": ({"a": (1, None)}, {"a": (1, ONES)}, "result['a'][1]", "NoneType", "Tensor"),
    "lengths": ([(1, 2)], [(1,)], "result[0]", "tuple of length 2", "tuple of length 1"),
    "classes": ([1], (1,), "result", "list of length 1", "tuple of length 1"),
    "dict classes": (
        collections.OrderedDict(), {}, "result", "OrderedDict with keys none",
        "dict with keys none"),
    "a field": (Pair(1, ONES), Pair(1, 2), "result.b", "Tensor", "int"),
    "a dataclass": ([Frozen(1)], [Frozen(ONES)], "result[0].a", "int", "Tensor"),
    "named and tuple": (Pair(1, 2), (1, 2), "result", "Pair with fields a, b", "tuple of length 2"),
    "container and number": ([Frozen(1)], [3], "result[0]", "Frozen with fields a", "int"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNLIKE)
def test_unlike_structures_are_an_error_whichever_comes_first(case: str) -> None:
    """A key that the first example lacked vanished; other differences raised KeyError, zip's error
    or, a float before tensors, nothing."""
    odd, usual, place, odd_said, usual_said = UNLIKE[case]
    for rest, first, other in ((1, odd_said, usual_said), (0, usual_said, odd_said)):
        # the odd one comes first, then second
        error, text = outcome(lambda k, rest=rest: usual if k >= rest and k != 1 - rest else odd)
        assert error is ValueError
        assert text == (
            f"[autobatch] expected results of one structure for out_stack, got {place} as {first} "
            f"in example 0 and as {other} in example 1. Hint: return the same structure from every "
            "example, or leave out_stack away for a list of results."
        )


def test_unlike_shapes_are_an_error_of_stack() -> None:
    error, text = outcome(lambda k: {"a": weft.ones(k)})
    assert error is RuntimeError and text.startswith("[stack]")


def test_gradients_flow_through_a_dataclass() -> None:
    w = weft.ones(3, requires_grad=True)
    found = weft.autobatch(lambda k: Data(w * k), out_stack=True, adaptive=False)([1, 2])
    found.a.sum().backward()
    assert w.grad is not None and w.grad.tolist() == [3, 3, 3]
