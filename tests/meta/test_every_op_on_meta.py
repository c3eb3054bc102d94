"""The law of the meta device: every op lays its results out there as on the CPU, and backward too.

Samples run once on the CPU and once with all operands moved to `meta`. Ops that need values to know
their results' sizes raise NotImplementedError, and so do calls of libraries without a rule for it;
no others do.
"""

from typing import Any

import pytest
from op_samples import CASES, RECORDS, Inputs, ours

import weft


class OnMeta(Inputs):
    """The same operands without their values."""

    def _tensor(self, values: Any, dtype: str) -> Any:
        t = super()._tensor(values, dtype).to("meta")
        self.made[-1] = t
        return t


# Their results' sizes, or the ops that a composite consists of, depend on values.
NEEDS_VALUES = {
    "masked_select", "masked_scatter", "nonzero", "argwhere", "one_hot", "repeat_interleave.counts",
    "repeat_interleave.tensor", "index_put", "_counts",
}  # fmt: skip

# Samples of those in which no mask is, or that say the number of classes.
KNOWN = {"f(T(4, 3), (I(5, high=4), I(5, high=3)), T(5), accumulate=True)", "f(I(3, 2), 5)"}

# The samples whose operands are all `made` by Inputs, and so of the meta device.
MOVED = [(name, sample) for name, sample in CASES if "weft.tensor(" not in sample]


def needs_values(name: str, sample: str) -> bool:
    if "call" in RECORDS[name]:
        return not RECORDS[name]["laid_out"]
    return name in NEEDS_VALUES and sample not in KNOWN


def layout(t: Any) -> tuple[Any, ...]:
    if not isinstance(t, weft.Tensor):
        return (type(t),)
    return (tuple(t.shape), t.dtype, t.stride(), t.requires_grad)


def run(kind: type[Inputs], name: str, sample: str, grad: bool) -> tuple[Inputs, list[Any]]:
    inputs = kind(weft, "float32", sample, grad=grad)
    return inputs, inputs.run(ours(RECORDS[name]), sample)


def tensors_of(results: list[Any]) -> list[Any]:
    return [t for t in results if isinstance(t, weft.Tensor)]


@pytest.mark.parametrize("name, sample", MOVED, ids=[f"{name}-{sample}" for name, sample in MOVED])
def test_results_are_laid_out_as_on_the_cpu(name: str, sample: str) -> None:
    operands, expected = run(Inputs, name, sample, True)
    if needs_values(name, sample):
        with pytest.raises(NotImplementedError, match="expected operands with values"):
            run(OnMeta, name, sample, True)
        return
    inputs, results = run(OnMeta, name, sample, True)
    assert [layout(t) for t in results] == [layout(t) for t in expected]
    if not inputs.made:
        return
    assert all(t.is_meta for t in tensors_of(results))
    _backward_agrees(inputs, results, operands, expected)


def _backward_agrees(inputs: Any, results: Any, operands: Any, expected: Any) -> None:
    wanted = [(t, e) for t, e in zip(results, expected, strict=True)
              if isinstance(e, weft.Tensor) and e.requires_grad]  # fmt: skip
    if not wanted:
        return
    try:
        weft.autograd.backward([e for _, e in wanted], [weft.ones_like(e) for _, e in wanted])
    except (RuntimeError, NotImplementedError):
        return  # no derivative, on neither device
    weft.autograd.backward([t for t, _ in wanted], [weft.ones_like(t) for t, _ in wanted])
    for leaf, other in zip(inputs.leaves, operands.leaves, strict=True):
        assert (leaf.grad is None) == (other.grad is None)
        if other.grad is not None:
            assert leaf.grad.is_meta
            assert layout(leaf.grad) == layout(other.grad)
