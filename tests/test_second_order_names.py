"""The nodes of gradients: under create_graph=True a gradient prints what PyTorch's prints.

A gradient's rule is an expression; its outermost op is what shows. Where that is an op of weft's
own (`pow_backward`), its record has the name of the outermost op of PyTorch's formula.
"""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from op_samples import CASES, RECORDS, Inputs, ours, peer

import weft

# Ops whose gradients show another node for one of their samples, by the reason.
OTHER = {
    "the formula is another one": """
        amax amin as_strided cummax cummin cumprod cumsum hypot index_add
        index_copy index_select logaddexp logaddexp2
        logcumsumexp masked_scatter mean mean.dim nan_to_num nansum outer prod
        repeat repeat_interleave.tensor sinc softsign squeeze squeeze.dim squeeze.dims stack std
        take tile unfold var xlogy addcdiv fmax fmin""",
    "one product or convolution serves more shapes and gradients": """
        addmm conv1d conv1d.text conv2d conv2d.text conv3d conv3d.text conv_transpose1d
        conv_transpose2d conv_transpose3d convolution gru_cell linear matmul mv rnn_relu_cell
        rnn_tanh_cell""",
    "a fused op there or here": """
        binary_cross_entropy binary_cross_entropy_with_logits cross_entropy group_norm huber_loss
        huber_loss.weighted instance_norm mse_loss mse_loss.weighted smooth_l1_loss""",
    "a number in the formula is a tensor here: Mul0 for Mul1": """
        add deg2rad exp2 lerp.Scalar rad2deg rsub sub""",
    "PyTorch has no second gradient, or fails": "bernoulli.p hardsigmoid pixel_shuffle scatter",
}
LISTED = {name for names in OTHER.values() for name in names.split()}


def nodes(lib: Any, f: Callable[..., Any], sample: str, weighted: bool) -> Any:
    """The node of each input's gradient, "leaf" or "constant"."""

    def name(g: Any) -> str | None:
        if g is None:
            return None
        if g.grad_fn is not None:
            return type(g.grad_fn).__name__
        return "leaf" if g.requires_grad else "constant"

    inputs = Inputs(lib, "float64", sample, grad=True)
    results = [y for y in inputs.run(f, sample) if getattr(y, "requires_grad", False)]
    if not results:
        return None
    y = results[0]
    given = lib.full_like(y, 0.7).requires_grad_(weighted)
    found = lib.autograd.grad([y], inputs.leaves, [given], create_graph=True, allow_unused=True)
    return [name(g) for g in found]


def told(lib: Any, f: Callable[..., Any], sample: str, weighted: bool) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return nodes(lib, f, sample, weighted)
    except (RuntimeError, IndexError) as error:
        return type(error).__name__


def compared(torch: Any) -> dict[str, list[tuple[str, Any, Any]]]:
    """By op, the samples that differ, with both answers; also ops without any."""
    out: dict[str, list[tuple[str, Any, Any]]] = {}
    for name, sample in CASES:
        record = RECORDS[name]
        if not (record["differentiable"] or record["composite"]):
            continue
        if not any(record[k] for k in ("function", "method", "inplace")) and "call" not in record:
            continue
        f = peer(torch, record)
        if f is None:
            continue
        differ = out.setdefault(name, [])
        for weighted in (True, False):
            expected = told(torch, f, sample, weighted)
            got = told(weft, ours(record), sample, weighted)
            if expected != got:
                differ.append((sample, expected, got))
    return out


def test_gradients_show_pytorchs_nodes(torch: Any) -> None:
    found = compared(torch)
    assert len(found) > 200
    unlisted = {name: differ for name, differ in found.items() if differ and name not in LISTED}
    assert not unlisted
    assert not {name for name in LISTED if not found[name]}  # these agree now


@pytest.mark.parametrize(
    ("text", "node"),
    [("x ** 2", "MulBackward0"), ("x.abs()", "MulBackward0"), ("x / y", "MulBackward0")],
)
def test_a_gradient_prints_its_formulas_last_op(text: str, node: str) -> None:
    x, y = (weft.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    (g,) = weft.autograd.grad(
        eval(text, {"x": x, "y": y}).sum(), y if "y" in text else x, create_graph=True
    )
    assert f"grad_fn=<{node}>" in repr(g)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_padding_depend_on_the_input(torch: Any, mode: str, dims: int) -> None:
    """A penalty on them was refused: nothing required grad."""

    def node(lib: Any) -> str:
        x = lib.ones((1, *[3] * dims), requires_grad=True)
        y = lib.nn.functional.pad(x, (1,) * 2 * dims, mode)
        (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        return type(g.grad_fn).__name__

    assert node(weft) == node(torch)


@pytest.mark.parametrize("name", ["elu", "selu", "celu"])
def test_second_gradients_at_the_kink(torch: Any, name: str) -> None:
    """That of the left side was taken at 0, where PyTorch has none."""

    def second(lib: Any) -> Any:
        x = lib.tensor([-0.5, 0.0, 0.5], requires_grad=True)
        (g,) = lib.autograd.grad(getattr(lib.nn.functional, name)(x).sum(), x, create_graph=True)
        return lib.autograd.grad(g.sum(), x)[0].tolist()

    assert second(weft) == pytest.approx(second(torch))
