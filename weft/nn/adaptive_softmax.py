"""A softmax over many classes that are seen unequally often."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import weft
from weft import Tensor
from weft.nn import functional as F
from weft.nn.containers import ModuleList, Sequential
from weft.nn.linear import Linear
from weft.nn.module import Module


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Clusters of classes, rarer ones behind smaller layers.

    Grave et al., "Efficient softmax approximation for GPUs", 2017. The head holds the most frequent
    classes and one logit per cluster.

    Args:
        in_features: width of the input.
        n_classes: in order of their frequency, the most frequent first.
        cutoffs: where a cluster begins: strictly growing, between 1 and n_classes - 1.
        div_value: by how much each further cluster's layer is narrower.
        head_bias: whether the head has a bias.

    Shapes: input `(*, in_features)` and target `(*)`, with at most one dimension in front.

    Raises:
        ValueError: cutoffs that are none.
        RuntimeError: shapes that do not fit, a target outside of the classes.

    >>> loss = weft.nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs=[5, 10], div_value=2.0)
    >>> loss.log_prob(weft.zeros(3, 16)).shape
    torch.Size([3, 20])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        growing = all(a < b for a, b in zip(cutoffs, cutoffs[1:]))
        if (
            not cutoffs
            or not growing
            or not all(isinstance(c, Integral) for c in cutoffs)
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
        ):
            raise ValueError(
                "[AdaptiveLogSoftmaxWithLoss] expected cutoffs that grow strictly between 1 and "
                f"{n_classes - 1}, got {cutoffs} (cutoffs should be a sequence of unique, positive "
                "integers sorted in an increasing order, where each value is between 1 and "
                "n_classes-1)"
            )
        options = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, **options),
                    Linear(width, size, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all layers' weights anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        """`(output, loss)`: the targets' log-probabilities, and the mean of their negatives."""
        if input_.dim() - 1 != target_.dim() or input_.shape[:-1] != target_.shape:
            raise RuntimeError(
                "[AdaptiveLogSoftmaxWithLoss] expected a target for each input (Input and target "
                f"should have the same size in the batch dimension.), got {tuple(target_.shape)} "
                f"and {tuple(input_.shape)}"
            )
        if target_.dim() > 1:
            raise RuntimeError(
                "[AdaptiveLogSoftmaxWithLoss] expected at most 1-D targets (0D or 1D target tensor "
                f"expected, multi-target not supported), got {target_.dim()} dimensions"
            )
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        bounds = [0, *self.cutoffs]
        if target.numel() and not (0 <= int(target.min()) and int(target.max()) < self.n_classes):
            raise RuntimeError(
                "[AdaptiveLogSoftmaxWithLoss] expected targets in "
                f"[0, {self.n_classes - 1}], got values in [{int(target.min())}, "
                f"{int(target.max())}] (Target values should be in [0, {self.n_classes - 1}])"
            )
        gate = target.clone()
        output = input.new_zeros(target.shape[0])
        for i in range(1, len(bounds) - 1):
            inside = ((target >= bounds[i]) & (target < bounds[i + 1])).nonzero().squeeze(1)
            if not inside.numel():
                continue
            gate[inside] = self.shortlist_size + i - 1
            local = F.log_softmax(self.tail[i - 1](input[inside]), 1)
            places = (target[inside] - bounds[i]).unsqueeze(1)
            output = output.index_add(0, inside, local.gather(1, places).squeeze(1))
        head = F.log_softmax(self.head(input), 1)
        output = output + head.gather(1, gate.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes, `(batch, n_classes)`."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            parts.append(F.log_softmax(tail(input), 1) + head[:, self.shortlist_size + i, None])
        return weft.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class of each input, `(batch,)`."""
        return self.log_prob(input).argmax(1)
