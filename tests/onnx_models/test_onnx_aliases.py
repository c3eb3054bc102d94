"""Writes in place to what may be another name's tensor: exported rightly, or refused by line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from alias_programs import program  # noqa: E402
from drawn_programs import runs_that_agree  # noqa: E402
from op_samples import CASES, Inputs, ours  # noqa: E402
from test_onnx_models import agrees  # noqa: E402

import weft  # noqa: E402
from weft import nn  # noqa: E402
from weft.onnx import NotOnnx, export  # noqa: E402
from weft.onnx.records import form_of, records  # noqa: E402

T = weft.tensor
SEEDS = [*range(150), 293, 1465, 3178, 3693]
INPUTS = [weft.arange(4.0).reshape(2, 2) - 1, weft.ones(3, 2) * 2, -weft.ones(5, 2),
          weft.zeros(4, 2)]  # fmt: skip


def eager(f: Any, x: weft.Tensor) -> list[np.ndarray[Any, Any]] | None:
    try:
        return [t.numpy().copy() for t in f(x.clone())]
    except (RuntimeError, AttributeError):  # of what was drawn
        return None


@pytest.mark.parametrize("part", range(4))
def test_drawn_programs_are_refused_or_give_what_eager_gives(part: int, tmp_path: Path) -> None:
    assert runs_that_agree(program, SEEDS[part::4], eager, INPUTS[0], INPUTS, tmp_path) > 50


def either_of_two(x):
    y = x * 2
    z = y if x.sum() > 0 else x * 3
    z += 1
    return y, z


def written_by_its_first_name(x):
    y = x * 2
    z = y if x.sum() > 0 else x * 3
    y += 1
    return z


def rebound_view(x):
    rows = weft.zeros(3, 2)
    last = rows[0]
    for i in range(3):
        if x[i] > 0:
            last = rows[i]
        last += x[i]
    return rows


def loop_without_turns(x):
    a = x.clone()
    h = a
    while h.sum() < 10:
        h = h + 1
    h += 100
    return a


def argument(x):
    h = x
    while h.sum() < 10:
        h = h + 1
    h += 100
    return h, x


def items(x):
    kept = [x.clone(), x.clone()]
    first = kept[0]
    if x.sum() > 0:
        kept[0] = kept[1]
    kept[0] += 1
    return kept[1], first


def values_of_a_dict(x):
    d = {"a": x.clone()}
    d["b"] = d["a"]
    if x.sum() > 0:
        d["a"] = d["a"] * 2
    d["a"].sub_(1)
    return d["b"]


def one_of_its_arguments(a, b):
    if a.sum() > b.sum():
        return a
    return b


def given_back(x):
    y = x * 2
    z = one_of_its_arguments(y, x + 1)
    z.zero_()
    return y


def transposed(x):
    y = x.clone()[None]
    z = y.view(-1)
    y = y.transpose(0, 1) if x.sum() > 0 else y.view(-1, 1)
    y[0] = 0
    return z


def copied_or_not(x):
    y = x.clone().reshape(1, -1).expand(2, -1).clone()
    z = y.t().contiguous().t() if x.sum() > 0 else y
    flat = z.reshape(-1)
    flat += 1
    return z


def loop_with_else(x):
    a = x.clone()
    b = a
    for i in range(x.shape[0]):
        if x[i] > 2:
            b = a * 1
            break
    else:
        b = b.view(-1)
    b += 1
    return a


def rows_of_one_tensor(x):
    h, found = weft.zeros(2), []
    for i in range(x.shape[0]):
        h += x[i]
        found.append(h)
    return weft.stack(found)


def either_list(x):
    a, b = [x, x + 1], [x * 2, x * 3]
    c = a if x.sum() > 0 else b
    c[0] = x * 0
    return a[0]


REFUSED = [
    either_of_two, written_by_its_first_name, rebound_view, loop_without_turns, argument, items,
    values_of_a_dict, given_back, transposed, copied_or_not, loop_with_else,
]  # fmt: skip
FREE = {"dynamic_shapes": {"x": {0: "n"}}}


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_a_write_that_another_name_may_see_is_refused_by_line(f: Callable[..., Any]) -> None:
    """It was lost: the other name kept what it had."""
    with pytest.raises(NotOnnx, match=r"test_onnx_aliases.py:\d+: .*may be") as caught:
        export(f, (weft.ones(3),))
    assert "written in place at" in caught.value.reason
    assert "z = z + 1" in caught.value.hint


def test_lists_that_may_be_another_and_rows_that_are_one() -> None:
    with pytest.raises(NotOnnx, match="a write to a list that may be another one"):
        export(either_list, (weft.ones(3),))
    with pytest.raises(NotOnnx, match="may be the one that is written in place"):
        export(rows_of_one_tensor, (weft.ones(3),), **FREE)


def fresh_on_both_ways(x):
    y = x * 2
    z = y + 1 if x.sum() > 0 else x * 3
    z += 1
    return y, z


def not_read_behind_it(x):
    h = x.clone()
    while h.sum() < 10:
        h = h + 1
    h += 100
    return h


def written_before_it_is_chosen(x):
    """z was what y had before the branch."""
    y = x * 2
    if x.sum() > 0:
        y += 1
        z = y
    else:
        z = x * 3
    return z, y


def view_of_what_a_way_writes(x):
    y = x * 2
    if x.sum() > 0:
        v = y[1:]
        y += 1
    else:
        v = y[:1]
    return v.sum()


def view_that_both_ways_read(x):
    """The second way had the view as it was before the write."""
    y = x * 2
    v = y[1:]
    y += 1
    return v + 1 if x.sum() > 0 else v * 2


def views_in_a_tuple(x):
    y = x * 2
    both = (y[1:], y)
    y += 1
    return both


def item_that_a_way_writes(x):
    """The list was joined with what the other tensor became behind the branch: an invalid graph."""
    a, b = x * 2, x + 1
    found = [a, b]
    if x.sum() > 0:
        found[1] = a * 2
        b += 1
    return found[1] + 1


def swapped(x):
    a, b = weft.zeros(3), weft.ones(3)
    for i in range(x.shape[0]):
        a, b = b, a
        a[0] += x[i]
    return a, b


def written_through_a_cast(x):
    """The places of the elements were cast too."""
    y = x * 2
    y.float().relu_()
    y.float()[1:] = 5
    return y


def bound_on_one_way(x):
    """What `and` left on one way alone was read on the other: an invalid graph."""
    y = x
    if x.sum() > 2 or x.max() > 0 and x.min() > 0:
        y = x + 1
    if y.sum() < 2 and x.sum() > 0:
        y = y * 3
    return y


def turns_that_leave_nothing(x):
    """A Loop without outputs is none of ONNX."""
    if x.sum() > 0:
        for _ in range(x.shape[0]):
            x.sum()
    return x + 1


def largest_of_an_int_and_a_float(x):
    """It was an int where the first example was one."""
    return x * max(x.shape[0] - 2.5, 1), x * min(x.shape[0], 1.5)


GIVEN = [(T([1.0, 2, 3]),), (T([-1.0, -2, 4]),), (T([-1.0, -2, 1]),)]
ALIKE: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (fresh_on_both_ways, FREE), (not_read_behind_it, FREE), (written_before_it_is_chosen, FREE),
    (view_of_what_a_way_writes, FREE), (view_that_both_ways_read, FREE), (views_in_a_tuple, FREE),
    (item_that_a_way_writes, {}), (swapped, FREE), (written_through_a_cast, FREE),
    (bound_on_one_way, {}), (turns_that_leave_nothing, FREE), (rows_of_one_tensor, {}),
    (largest_of_an_int_and_a_float, FREE),
]  # fmt: skip


@pytest.mark.parametrize(("f", "words"), ALIKE, ids=lambda v: getattr(v, "__name__", ""))
def test_what_is_known_of_memory_is_not_refused(f: Any, words: dict[str, Any]) -> None:
    made = export(f, GIVEN[0], **words)
    agrees(f, made.model_proto, [*GIVEN, (weft.ones(6),)] if words else GIVEN)


class Counting(nn.Module):
    def __init__(self, write: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.register_buffer("seen", weft.zeros(2))
        self.w, self.write = nn.Parameter(weft.ones(2)), write

    def forward(self, x: Any) -> Any:
        with weft.no_grad():
            return self.write(self, x) + self.seen * self.w


def adds(self: Any, x: Any) -> Any:
    self.seen.add_(1)
    return x


def sets_an_item(self: Any, x: Any) -> Any:
    self.seen[0] = x[0]
    return x


def writes_a_view(self: Any, x: Any) -> Any:
    self.w.view(1, 2).mul_(2)
    return x


def one_of_two(self: Any, x: Any) -> Any:
    z = self.seen if x.sum() > 0 else x
    z += 1
    return x


@pytest.mark.parametrize("write", [adds, sets_an_item, writes_a_view, one_of_two])
def test_a_write_to_a_tensor_of_the_program_is_refused(write: Callable[..., Any]) -> None:
    """The graph has no state: the first run was right, the second had forgotten it."""
    with pytest.raises(NotOnnx, match="which the next run would see"):
        weft.onnx.export(Counting(write), (weft.ones(2),))


class Reversed(Inputs):
    """The same numbers in memory in the opposite order of dimensions."""

    def _tensor(self, values: Any, dtype: str) -> Any:
        t = super()._tensor(values, dtype)
        dims = [*range(t.ndim)][::-1]
        return t.permute(dims).contiguous().permute(dims)


def shares(inputs: Inputs, record: dict[str, Any], sample: str) -> list[bool]:
    """Whether each result has the memory of the first operand."""
    given: list[Any] = []

    def f(*args: Any, **words: Any) -> Any:
        given.append(args[0])
        return ours(record)(*args, **words)

    made = inputs.run(f, sample)
    where = given[0].untyped_storage().data_ptr()
    return [t.untyped_storage().data_ptr() == where for t in made if t.numel()]


def test_forms_say_what_is_a_view_in_some_strides() -> None:
    found = set()
    for name, sample in CASES:
        record = records()[name]
        if record["view"] or not record["composite"] or "f(T(" not in sample:
            continue
        try:
            there = shares(Reversed(weft, "float64", sample), record, sample)
        except RuntimeError:  # what gives a view or nothing
            continue
        if shares(Inputs(weft, "float64", sample), record, sample) != there:
            found.add(name)
    said = {name for name, r in records().items() if (form := form_of(r)) and form.may_view}
    assert found == said


class Layouts(nn.Module):
    def forward(self, x):
        y = x.t() if x.sum() > 0 else x * 1
        return y if y.is_contiguous() else y + 1


def test_what_strides_say_is_not_taken_from_the_example() -> None:
    x = weft.ones(2, 2)
    told = lambda x: x * (x.stride(0) + x.dim() + x.element_size() + x.is_contiguous())  # noqa: E731
    agrees(told, export(told, (x,)).model_proto, [(x,)])
    with pytest.raises(NotOnnx, match=r"stride\(\) of a tensor that only a run knows"):
        export(told, (x,), dynamic_shapes={"x": {1: "n"}})
    with pytest.raises(NotOnnx, match=r"is_contiguous\(\) of a tensor that only a run knows"):
        export(Layouts(), (x,))
