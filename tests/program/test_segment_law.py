"""Laws over the table: a call that is planned gives eager's bits and strides, or is refused."""

import collections
import random
from typing import Any

import numpy as np
import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, ours
from plans import bits, planned, tensors_in

import weft

READ, WRITE = "a value that is read", "a write by"
BODY, LAYOUT, UNTRACED = "may depend on values", "layout of its result", "was not traced"
REASONS = (READ, WRITE, BODY, LAYOUT, UNTRACED)


class EagerFails(Exception):
    pass


def outcome(name: str, sample: str, inputs: Inputs, *, tiles: bool = True) -> str:
    """How a sample fares: "same", "unlike", "eager fails", or why it is refused."""
    f, seen = ours(RECORDS[name]), ["nothing to trace"]

    def through_plan(*args: Any, **kwargs: Any) -> Any:
        weft.manual_seed(7)
        try:
            expected = f(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise EagerFails from error
        if not tensors_in((args, kwargs)):
            return expected
        try:
            plan, given = planned(f, args, kwargs, tiles=tiles)
        except RuntimeError as error:
            reasons = [r for r in REASONS if r in str(error)]
            assert "[trace]" in str(error) and len(reasons) == 1, error
            seen[0] = reasons[0]
            return expected
        whole = tensors_in(expected)
        if "empty" in name:  # nobody knows what is in it
            whole = [t.zero_() for t in whole]
        seen[0] = "same"
        for _ in range(2):
            weft.manual_seed(7)
            found = plan.run(*given)
            found = [t.zero_() for t in found] if "empty" in name else found
            if [bits(t) for t in whole] != [bits(t) for t in found]:
                seen[0] = "unlike"
        return expected

    try:
        with weft.no_grad():
            inputs.run(through_plan, sample)
    except EagerFails:
        return "eager fails"
    return seen[0]


def refusable(record: dict[str, Any]) -> bool:
    """Whether the record says that its calls may be refused. A composite does what its calls do."""
    return record["reads"] or record["composite"] or record["file"].endswith(".py")


@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_a_planned_call_is_the_call_to_the_bit(name: str, sample: str) -> None:
    for strided in (False, True):
        for tiles in (True, False):
            inputs = Inputs(weft, "float32", sample, strided=strided)
            how = outcome(name, sample, inputs, tiles=tiles)
            assert how != "unlike"
            assert how not in REASONS or refusable(RECORDS[name])


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int64"])
def test_a_planned_call_is_the_call_in_every_kind_of_dtype(dtype: str) -> None:
    how = collections.Counter()
    for name, sample in CASES:
        if "complex(" not in sample:  # which makes its inputs itself, of floats
            seen = outcome(name, sample, Inputs(weft, dtype, sample))
            assert seen != "unlike", (name, sample)
            how[seen] += 1
    assert how["same"] > 800


def test_few_calls_are_refused() -> None:
    how = collections.Counter(
        outcome(name, sample, Inputs(weft, "float32", sample)) for name, sample in CASES
    )
    most = {READ: 105, WRITE: 0, BODY: 22, LAYOUT: 27, UNTRACED: 1}
    assert {r: n for r, n in how.items() if r in most and n > most[r]} == {}
    assert how["same"] >= 1187


class Wide(Inputs):
    """Tensors of a sample as larger ones that broadcast, each in a layout drawn for it."""

    def __init__(self, dtype: str, sample: str, columns: int, seed: int) -> None:
        super().__init__(weft, dtype, sample)
        self.columns, self.draw = columns, random.Random(seed)

    def _tensor(self, values: Any, dtype: str) -> Any:
        values = np.asarray(values)
        if values.ndim == 0:
            return super()._tensor(values, dtype)
        rows, columns = 6, self.columns
        shape, cut = self.draw.choice(
            [((rows, columns), None), ((rows, 2 * columns), "half"), ((rows, 1), None),
             ((columns,), None), ((columns, rows), "turned")]
        )  # fmt: skip
        low, high = (values.min(), values.max()) if values.size else (0, 1)
        numbers = self.rng.uniform(low, high, shape)
        if dtype != self.dtype:
            numbers = np.floor(numbers + 0.5)
        t = weft.tensor(numbers.tolist(), dtype=getattr(weft, dtype))
        self.made.append(t[:, ::2] if cut == "half" else t.t() if cut == "turned" else t)
        return self.made[-1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [75, 515])
def test_a_loop_on_tiles_gives_the_bits_of_the_kernel(dtype: str, columns: int) -> None:
    """Whatever operands are like: a kernel may run another loop on those that are not dense."""
    how = collections.Counter()
    for name, sample in CASES:
        if not RECORDS[name]["pointwise"]:
            continue
        for seed in range(2):
            seen = outcome(name, sample, Wide(dtype, sample, columns, seed))
            assert seen != "unlike", (name, sample, seed)
            how[seen] += 1
    assert how["same"] > 800


def test_unlike_bits_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    name, sample = "tanh", "f(T(2, 3))"
    calls = iter([weft.tanh, weft.tanh, weft.sigmoid])
    monkeypatch.setitem(RECORDS[name], "call", lambda x: next(calls)(x))
    assert outcome(name, sample, Inputs(weft, "float32", sample)) == "same"
    monkeypatch.setitem(RECORDS[name], "call", lambda x: next(calls)(x))
    calls = iter([weft.sigmoid, weft.tanh])
    assert outcome(name, sample, Inputs(weft, "float32", sample)) == "unlike"
