"""Calls through plans in the graph: outputs and gradients are those of the calls one by one."""

import collections
from typing import Any

import gradient_programs
import pointwise_programs
import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, ours
from plans import bits, planned, tensors_in
from test_segment_law import REASONS, EagerFails

import weft


def near(found: Any, expected: Any) -> bool:
    """Sums over several uses may be made in another order."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    a, b = (t.detach().to(weft.complex128).reshape(-1) for t in (found, expected))
    if bool((a.isfinite() != b.isfinite()).any()):
        return False
    a, b = (weft.where(t.isfinite(), t, weft.zeros_like(t)) for t in (a, b))
    small = 1e-6 if expected.dtype in (weft.float32, weft.complex64) else 1e-13
    if expected.dtype in (weft.float16, weft.bfloat16):
        small = 1e-2
    return (
        float((a - b).abs().square().sum()) <= (small * float(b.abs().square().sum() ** 0.5)) ** 2
    )


def compared(found: list[Any], expected: list[Any]) -> str:
    """How lists of gradients compare: "same" to the bit, "near" or "unlike"."""
    how = "same"
    for a, b in zip(found, expected, strict=True):
        if (a is None) != (b is None):
            return "unlike"
        if a is None or bits(a) == bits(b):
            continue
        if not near(a, b):
            return "unlike"
        how = "near"
    return how


def weights(outputs: list[Any]) -> list[Any]:
    generator = weft.Generator().manual_seed(5)
    return [
        weft.randn(t.shape, generator=generator, dtype=weft.float64).to(t.dtype) for t in outputs
    ]


def gradients(outputs: list[Any], leaves: list[Any]) -> list[Any]:
    wanted = [t for t in outputs if t.requires_grad]
    if not wanted or not leaves:
        return []
    return list(
        weft.autograd.grad(wanted, leaves, weights(wanted), retain_graph=True, allow_unused=True)
    )


def outcome(name: str, sample: str, inputs: Inputs, *, tiles: bool = True) -> str:
    """How a sample fares: "same", "near", "unlike", "eager fails", or why it is refused."""
    f, seen = ours(RECORDS[name]), ["nothing to trace"]

    def through_plan(*args: Any, **kwargs: Any) -> Any:
        weft.manual_seed(7)
        try:
            expected = f(*args, **kwargs)
            whole = tensors_in(expected)
            wanted = gradients(whole, inputs.leaves)
        except (RuntimeError, NotImplementedError, TypeError, IndexError) as error:
            raise EagerFails from error
        if not tensors_in((args, kwargs)):
            return expected
        try:
            plan, given = planned(f, args, kwargs, tiles=tiles, grad=True)
        except RuntimeError as error:
            reasons = [r for r in REASONS if r in str(error)]
            assert "[trace]" in str(error) and len(reasons) == 1, error
            seen[0] = reasons[0]
            return expected
        seen[0] = "same"
        for _ in range(2):
            weft.manual_seed(7)
            found = list(plan.run(*given))
            if "empty" in name:
                continue
            if [bits(t) for t in whole] != [bits(t) for t in found]:
                seen[0] = "unlike"
            if [t.requires_grad for t in whole] != [t.requires_grad for t in found]:
                seen[0] = "unlike"
                return expected
            how = compared(gradients(found, inputs.leaves), wanted)
            seen[0] = how if how != "same" and seen[0] != "unlike" else seen[0]
        return expected

    try:
        inputs.run(through_plan, sample)
    except EagerFails:
        return "eager fails"
    return seen[0]


@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_gradients_of_a_planned_call_are_the_calls(name: str, sample: str) -> None:
    for strided in (False, True):
        inputs = Inputs(weft, "float32", sample, grad=True, strided=strided)
        assert outcome(name, sample, inputs) not in ("unlike", "near")


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_gradients_in_other_dtypes(dtype: str) -> None:
    how = collections.Counter()
    for name, sample in CASES:
        if "complex(" not in sample:
            seen = outcome(name, sample, Inputs(weft, dtype, sample, grad=True), tiles=False)
            assert seen not in ("unlike", "near"), (name, sample)
            how[seen] += 1
    assert how["same"] > 800


def run_program(run: Any, inputs: list[Any], where: Any) -> str:
    """A program through plans, twice: outputs to the bit, gradients compared as in `compared`."""
    leaves = [t for t in inputs if t.requires_grad]
    expected = run(*inputs)
    try:
        wanted = gradients(expected, leaves)
    except RuntimeError as error:  # of an op without a derivative
        plan, given = planned(run, inputs, {}, grad=True)
        with pytest.raises(RuntimeError) as raised:
            gradients(list(plan.run(*given)), leaves)
        assert str(raised.value).splitlines()[0] == str(error).splitlines()[0]
        return "raises"
    seen = "same"
    for tiles in (True, False):
        plan, given = planned(run, inputs, {}, tiles=tiles, grad=True)
        for _ in range(2):
            found = list(plan.run(*given))
            assert [bits(t) for t in found] == [bits(t) for t in expected], (where, tiles)
            assert [t.requires_grad for t in found] == [t.requires_grad for t in expected], where
            how = compared(gradients(found, leaves), wanted)
            assert how != "unlike", (where, tiles)
            seen = "near" if "near" in (seen, how) else "same"
    return seen


def of_seed(seed: int) -> str:
    run, inputs = gradient_programs.program(seed)
    try:
        return run_program(run, inputs, seed)
    except AssertionError:  # a sum that nearly cancels; in other digits it is small
        return run_program(*gradient_programs.program(seed, "float64"), seed)


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_random_programs_have_eagers_gradients(start: int) -> None:
    how: collections.Counter[str] = collections.Counter()
    for seed in range(start, start + 100):
        how[of_seed(seed)] += 1
    assert how["same"] > 50


def test_random_pointwise_programs_have_eagers_gradients() -> None:
    for seed in range(200):
        run, inputs = pointwise_programs.program(seed)
        inputs = [t.requires_grad_(t.is_floating_point() or t.is_complex()) for t in inputs]
        with weft.no_grad():
            run(*inputs)  # finds the calls that fail
        run_program(run, inputs, seed)


def second(outputs: list[Any], leaves: list[Any]) -> list[Any]:
    """Gradients of the squares of gradients, where there are some."""
    wanted = [t for t in outputs if t.requires_grad]
    first = weft.autograd.grad(
        wanted, leaves, weights(wanted), create_graph=True, allow_unused=True
    )
    squares = [(g * g).sum() for g in first if g is not None and g.requires_grad]
    if not squares:
        return []
    return list(weft.autograd.grad(sum(squares), leaves, allow_unused=True))


def test_random_programs_have_eagers_second_derivatives() -> None:
    compared_programs = 0
    for seed in range(100):
        run, inputs = gradient_programs.program(seed, "float64")
        leaves = [t for t in inputs if t.requires_grad]
        expected = run(*inputs)
        if not leaves or not any(t.requires_grad for t in expected):
            continue
        wanted = second(expected, leaves)
        plan, given = planned(run, inputs, {}, grad=True)
        assert compared(second(list(plan.run(*given)), leaves), wanted) != "unlike", seed
        compared_programs += len(wanted) > 0
    assert compared_programs > 40


if __name__ == "__main__":  # python tests/program/test_gradient_law.py FIRST LAST
    import sys

    print(collections.Counter(of_seed(s) for s in range(int(sys.argv[1]), int(sys.argv[2]))))
