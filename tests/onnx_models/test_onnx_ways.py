"""What leaves loops, and what branches and turns write: the ways of a program, in ONNX Runtime."""

import io
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from test_onnx_models import agrees  # noqa: E402

import weft  # noqa: E402
from weft.onnx import NotOnnx, export  # noqa: E402
from weft.vision import ops  # noqa: E402

R, Z = weft.ones, weft.zeros
FREE = {"dynamic_shapes": {"x": {0: "n"}}}


def out_of_turns(x):
    for k in range(5):
        x = x * 2
        if x.sum() > 10:
            return x - 1, k
    return x, -1


def out_of_while(x):
    n = 0
    while True:
        x, n = x * 2, n + 1
        if x.sum() > 10:
            return x - 1
        if n > 4:
            return x + 1


def out_of_two(x):
    y = Z(2, 2)
    for a in x:
        for b in y:
            if a.sum() > b.sum():
                return a, b
        y = y + 1
    return x[0] * 0, y[0]


def with_else(x):
    for k in range(4):
        if x.sum() * k > 5:
            break
        x = x + 1
    else:
        x = x * 100
    return x


def decodes(x):
    out = []
    for _ in range(6):
        x = x * 2
        out.append(x)
        if x.sum() > 10:
            break
    return weft.stack(out)


def written_out(x):
    """Its turns are unlike, so that none is a Loop."""
    total = x.sum()
    for scale in (1, 2.5, 3):
        if total * scale > 6:
            break
        total = total + scale
    return total


def continues(x):
    y = weft.zeros_like(x)
    for k in (0, 1):
        (rows,) = weft.where(x > k)
        if rows.numel() == 0:
            continue
        y[rows] += x[rows] * (k + 1)
    return y


def writes_what_it_made(x):
    if x.sum() > 0:
        t = x * 2
        t.add_(1)
        parts = [t]
        parts.append(x)
    else:
        t = x
        parts = [t, t]
    return t, weft.stack(parts)


def turns_write_what_they_made(x):
    for _ in range(x.shape[0]):
        t = x * 2
        t += 1
        x = t
    return x


def list_that_has_items(x):
    rows = [x[0]]
    for k in range(1, x.shape[0]):
        rows.append(x[k] * 2)
    return weft.stack(rows)


def shrinks(x):
    kept = []
    while x.numel() > 0:
        kept.append(x[0])
        if x.numel() == 1:
            break
        rest = x[1:]
        x = rest[rest < x[0]]
    return weft.stack(kept)


def both(x):
    if x.shape[0] >= 2 and x.sum() > 0:
        return x * 2
    return x - 1


def any_of_three(x):
    n = x.shape[0]
    while n > 6 or x.sum() > 20 or (n == 1 and x.max() > 1):
        x = x / 2
        n = n - 1
    large = n >= 3 and x.sum() > 3
    return x if not large else -x


def else_without_break(x):
    total = weft.zeros(2)
    for row in x:
        total = total + row
    else:
        total = total - 100
    while total.sum() < 10:
        total = total + 60
    else:
        total = total * 2
    return total


def most_frequent(x):
    found = x.mode(1)
    return found.values, x.gather(1, found.indices[:, None])


SOME = [(R(2),), (Z(2),), (R(2) * 0.3,), (-R(2),)]
ROWS = [(R(3, 2),), (R(3, 2) * 2,), (Z(2, 2),), (R(1, 2),)]
LONG = [(weft.tensor([1.0, -2.0, 3.0]),), (weft.tensor([4.0]),), (weft.arange(5.0),)]
PROGRAMS: list[tuple[Callable[..., Any], dict[str, Any], list[tuple[Any, ...]]]] = [
    (out_of_turns, {}, SOME),
    (out_of_while, {}, SOME),
    (out_of_two, FREE, ROWS),
    (with_else, {}, SOME),
    (decodes, {}, SOME),
    (written_out, {}, SOME),
    (continues, {}, [(weft.tensor([1.0, 2.0]),), (-R(2),), (R(2) * 0.5,)]),
    (writes_what_it_made, {}, SOME),
    (turns_write_what_they_made, FREE, LONG),
    (list_that_has_items, FREE, LONG),
    (both, FREE, ROWS),
    (any_of_three, FREE, [*ROWS, (R(9, 2) * 3,)]),
    (else_without_break, FREE, ROWS),
    (
        most_frequent,
        FREE,
        [(weft.tensor([[1.0, 2, 2], [3, 3, 1]]),), (weft.arange(9.0).reshape(3, 3) // 4,)],
    ),
    (shrinks, FREE, [(weft.tensor([5.0, 3.0, 4.0, 1.0]),), (weft.tensor([1.0, 2.0]),), (R(1),)]),
]


@pytest.mark.parametrize(
    ("program", "words", "calls"), PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS]
)
def test_each_way_gives_what_the_program_gives(
    program: Callable[..., Any], words: dict[str, Any], calls: list[tuple[Any, ...]]
) -> None:
    agrees(program, export(program, calls[0], **words).model_proto, calls)


def reads_the_list(x):
    rows = [x[0]]
    for k in range(1, x.shape[0]):
        rows.append(rows[-1] + x[k])
    return weft.stack(rows)


def counts_the_list(x):
    rows, n = [], x.sum() * 0
    for k in range(x.shape[0]):
        rows.append(x[k])
        n = n + len(rows)
    return weft.stack(rows), n


def asks_for_the_first_turn(x):
    before = None
    for k in range(x.shape[0]):
        before = x[k] if before is None else before * 2 + x[k]
    return before


def carries_a_tuple(x):
    pair = (x, 1)
    for _ in range(x.shape[0]):
        pair = (x * 2, 2)
    return pair[0]


# Each of them was written as if its loop had found in each turn what stood before it.
SEEN = "a list that a loop makes longer, and reads"
FIXED: list[tuple[Callable[..., Any], str]] = [
    (reads_the_list, SEEN),
    (counts_the_list, SEEN),
    (asks_for_the_first_turn, "a variable that is None before a loop and a tensor in it"),
]


@pytest.mark.parametrize(("program", "says"), FIXED)
def test_turns_that_find_what_no_graph_carries(program: Callable[..., Any], says: str) -> None:
    with pytest.raises(NotOnnx, match=says):
        export(program, R(3), **FREE)
    agrees(program, export(program, R(3)).model_proto, [(R(3),), (weft.arange(3.0),)])


def test_a_tuple_that_turns_write_is_lost_behind_them() -> None:
    """The one before the loop was given."""
    with pytest.raises(NotOnnx, match="a loop over values that writes a tuple"):
        export(carries_a_tuple, R(3), **FREE)


def test_a_model_is_called_with_what_it_was_exported_with() -> None:
    """What is no tensor was ignored: `exported(x, "tanh")` gave relu."""

    def either(x, name: str = "relu", *, scale: float = 1.0):
        return (weft.relu(x) if name == "relu" else weft.tanh(x)) * scale

    x = weft.tensor([-1.0, 2.0])
    made = export(either, (x, "relu"), kwargs={"scale": 2.0})
    for words in ({}, {"name": "relu"}, {"scale": 2.0}):
        assert made(x, **words)[0].tolist() == [0.0, 4.0]
    for args, words, says in [
        ((x, "tanh"), {}, "name = 'relu' as it was exported, got 'tanh'"),
        ((x,), {"scale": 1.0}, "scale = 2.0 as it was exported, got 1.0"),
        ((x,), {"scale": 2}, "scale = 2.0 as it was exported, got 2"),
    ]:
        with pytest.raises(ValueError, match=says):
            made(*args, **words)
    of_dicts = export(lambda d: d["a"] + 1, ({"a": x},))
    with pytest.raises(ValueError, match="expected tensors at d_a, got them at d_b"):
        of_dicts({"b": x})


def test_lists_are_called_with_what_they_were_exported_with() -> None:
    """A list that had lost its last name gave what was exported."""
    made = export(lambda x, names: x * len(names), (R(2), ["a", "b"]))
    assert made(R(2), ["a", "b"])[0].tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="expected names_1 = 'b' as it was exported, got none"):
        made(R(2), ["a"])


def test_a_model_goes_into_an_open_file() -> None:
    file = io.BytesIO()
    made = export(lambda x: x + 1, R(2), file)
    assert file.getvalue() == made.model_proto.SerializeToString()
    with pytest.raises(ValueError, match="expected a path for weights beside it"):
        made.save(io.BytesIO(), external_data=True)


def test_names_that_nothing_has_are_warned_of() -> None:
    """A misspelt name left its size fixed without a word."""
    with pytest.warns(UserWarning, match="key y for dynamic axes is not a valid input/output name"):
        export(lambda x: x + 1, R(2), dynamic_axes={"y": {0: "n"}})


def test_boxes_that_are_kept_are_of_any_number() -> None:
    weft.manual_seed(0)

    def boxes(n: int) -> tuple[weft.Tensor, weft.Tensor, weft.Tensor]:
        low = weft.rand(n, 2) * 10
        return weft.cat([low, low + weft.rand(n, 2) * 5], 1), weft.rand(n), weft.randint(3, (n,))

    def kept(x, scores, classes):
        return ops.nms(x, scores, 0.3), ops.batched_nms(x, scores, classes, 0.3)

    free = {"x": {0: "n"}, "scores": {0: "n"}, "classes": {0: "n"}}
    made = export(kept, boxes(6), dynamic_shapes=free)
    agrees(kept, made.model_proto, [boxes(6), boxes(20), boxes(1)])


def narrow(x):
    with weft.autocast("cpu", dtype=weft.bfloat16):
        return x @ x.T


def test_autocast_is_refused() -> None:
    with pytest.raises(NotOnnx, match="narrow.*autocast"):
        export(narrow, R(2, 2))


def the_largest(x):
    first = x.topk(2, 1)
    return x.max(1).values + first.values[:, 0], first.indices, x.sort(1).indices


@pytest.mark.parametrize(
    "function",
    [
        the_largest,
        weft.nn.AdaptiveAvgPool2d((2, 1)),
        weft.nn.AdaptiveMaxPool2d((2, 2)),
        lambda x: weft.nn.functional.interpolate(x, scale_factor=2.0),
    ],
    ids=["named results", "average pool", "max pool", "interpolate"],
)
def test_what_models_of_images_call(function):
    """Results had no names there, and zip() did not take strict=."""
    weft.manual_seed(0)
    x = weft.randn(2, 3, 8, 8)
    agrees(function, export(function, (x,)), [(x,), (x * 2,)])
