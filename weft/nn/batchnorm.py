"""Normalisation of channels over the batch, or over each example."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module import Module
from weft.nn.parameter import Parameter


class _NormBase(Module):
    """Parameters and running statistics of a norm over channels."""

    __constants__ = [
        "track_running_stats", "momentum", "eps", "num_features", "affine",
    ]  # fmt: skip
    _version = 2
    weight: Tensor | None
    bias: Tensor | None
    running_mean: Any  #: a Tensor, or None where nothing is tracked
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._make(num_features, bias, device, dtype)
        self.reset_parameters()

    def _make(self, n: int, bias: bool, device: Any, dtype: Any) -> None:
        for name, wanted in (("weight", self.affine), ("bias", self.affine and bias)):
            values = weft.empty(n, device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, None if values is None else Parameter(values))
        track = self.track_running_stats
        for name, start in (("running_mean", weft.zeros), ("running_var", weft.ones)):
            self.register_buffer(name, start(n, device=device, dtype=dtype) if track else None)
        count = weft.tensor(0, dtype=weft.int64, device=device) if track else None
        self.register_buffer("num_batches_tracked", count)

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the variance to 1 and the count of batches to 0."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the weight to 1, the bias to 0, and reset the running statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._dims:
            wanted = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any
    ) -> None:
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            # files from before the count existed
            state_dict[key] = weft.tensor(0, dtype=weft.int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = self._counted_momentum()
        own = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            own,
            momentum,
            self.eps,
        )

    def _counted_momentum(self) -> float:
        """How far the running statistics move to those of this batch, which is counted."""
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches
                momentum = 1.0 / float(self.num_batches_tracked)
        return momentum


class BatchNorm1d(_BatchNorm):
    """Normalises each channel of `(batch, channels)` or `(batch, channels, length)`.

    Ioffe and Szegedy, "Batch Normalization", 2015. In training by the mean and the variance of
    the batch, in evaluation by the running ones.

    Args:
        num_features: the number of channels.
        eps: added to the variance.
        momentum: how far the running statistics move to those of a batch; None makes them the
            mean over all batches.
        affine: whether there are a weight (ones) and a bias (zeros).
        track_running_stats: whether there are running statistics; else those of the batch are
            used in evaluation too.
        device, dtype: of parameters and buffers.
        bias: whether there is a bias.

    Raises:
        ValueError: an input of other dimensions, or one value per channel in training.

    >>> import weft
    >>> weft.nn.BatchNorm1d(1)(weft.tensor([[1.0], [1.0]])).tolist()
    [[0.0], [0.0]]
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises each channel of `(batch, channels, height, width)`. See `BatchNorm1d`.

    >>> import weft
    >>> weft.nn.BatchNorm2d(3)(weft.zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises each channel of `(batch, channels, depth, height, width)`. See `BatchNorm1d`.

    >>> import weft
    >>> weft.nn.BatchNorm3d(3)(weft.zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    _dims = (5,)


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channels = input.dim() - self._dims[0]
        if input.shape[channels] != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim={channels} to match num_features "
                f"({self.num_features}), but got: {input.shape[channels]}."
            )
        alone = channels == 0
        out = F.instance_norm(
            input.unsqueeze(0) if alone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )
        return out.squeeze(0) if alone else out


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each example `(batch, channels, length)`.

    Ulyanov et al., "Instance Normalization", 2016.

    Args:
        num_features: the number of channels.
        eps: added to the variance.
        momentum: how far the running statistics move.
        affine: whether there are a weight (ones) and a bias (zeros).
        track_running_stats: whether evaluation uses running statistics.
        device, dtype: of parameters and buffers.
        bias: whether there is a bias.

    >>> import weft
    >>> weft.nn.InstanceNorm1d(2)(weft.zeros(1, 2, 8)).shape
    torch.Size([1, 2, 8])
    """

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each `(batch, channels, height, width)`. As `InstanceNorm1d`.

    >>> import weft
    >>> weft.nn.InstanceNorm2d(2)(weft.zeros(1, 2, 8, 8)).shape
    torch.Size([1, 2, 8, 8])
    """

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises channels of each `(batch, channels, depth, height, width)`. As `InstanceNorm1d`.

    >>> import weft
    >>> weft.nn.InstanceNorm3d(2)(weft.zeros(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 8, 8, 8])
    """

    _dims = (4, 5)


class SyncBatchNorm(_BatchNorm):
    """Normalises each channel, in training, by the statistics of all processes' batches.

    All processes of the group call it, in forward and in backward; batches may have unlike sizes.

    Args:
        num_features: the number of channels.
        eps, momentum, affine, track_running_stats: as in `BatchNorm1d`.
        process_group: the processes; by default all.

    >>> import weft
    >>> net = weft.nn.Sequential(weft.nn.Linear(2, 3), weft.nn.BatchNorm1d(3))
    >>> weft.nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]
    SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """The input, normalised."""
        from weft.distributed.world import get_world_size, is_initialized

        if not self.training or not is_initialized() or get_world_size(self.process_group) == 1:
            return super().forward(input)
        self._check_input_dim(input)
        return self._normalised(input, self._counted_momentum())

    def _normalised(self, input: Tensor, momentum: float) -> Tensor:
        from weft.distributed.nn.functional import all_reduce

        narrow = input.dtype in (weft.float16, weft.bfloat16)
        x = input.float() if narrow else input
        dims = [d for d in range(x.dim()) if d != 1]
        shape = [1, x.shape[1]] + [1] * (x.dim() - 2)
        here = weft.full((1,), float(x.numel() // max(1, x.shape[1])), dtype=x.dtype)
        sums = all_reduce(weft.cat([x.sum(dims), here]), group=self.process_group)
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = x - mean.view(shape)
        var = all_reduce((centred * centred).sum(dims), group=self.process_group) / count
        if self.running_mean is not None and self.running_var is not None:
            with weft.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
                unbiased = var * (count / (count - 1))
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)
        out = centred * (var + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            out = out * self.weight.view(shape)
        if self.bias is not None:
            out = out + self.bias.view(shape)
        return out.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with a SyncBatchNorm in the place of each BatchNorm, of the same tensors."""
        new = module
        if isinstance(module, _BatchNorm):
            new = SyncBatchNorm(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group, bias=module.bias is not None,
            )  # fmt: skip
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(new, name, getattr(module, name))
            new.training = module.training
        for name, child in module.named_children():
            new.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return new
