"""Residual branches left out at random (Huang et al. 2016)."""

from __future__ import annotations

from weft import Tensor, nn

__all__ = ["StochasticDepth", "stochastic_depth"]


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """The input, 0 with probability `p` and else divided by 1 - p, while training.

    [N, *], whose shape stays.

    Args:
        mode: "batch" for all of it at once, "row" for each example of dim 0.

    Raises: ValueError for another mode or probability.

    >>> from weft.vision import ops
    >>> ops.stochastic_depth(weft.ones(2), p=1.0, mode="batch")
    tensor([0., 0.])
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(
            f"[stochastic_depth] expected p of 0 to 1, got {p}: "
            f"drop probability has to be between 0 and 1, but got {p}"
        )
    if mode not in ("batch", "row"):
        raise ValueError(
            f"[stochastic_depth] expected batch or row, got {mode!r}: "
            f"mode has to be either 'batch' or 'row', but got {mode}"
        )
    if not training or p == 0.0:
        return input
    sizes = [input.shape[0] if mode == "row" else 1] + [1] * (input.ndim - 1)
    kept = input.new_empty(sizes[: input.ndim]).bernoulli_(1.0 - p)
    return input * (kept / (1.0 - p) if p < 1.0 else kept)


class StochasticDepth(nn.Module):
    """`stochastic_depth` as a layer.

    [N, *], whose shape stays.

    >>> from weft.vision import ops
    >>> ops.StochasticDepth(0.5, "row").eval()(weft.ones(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input: Tensor) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}, mode={self.mode}"
