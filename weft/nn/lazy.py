"""Layers that learn the size of their input from the first one they see.

A lazy layer has parameters without a shape. Its first call, or loading a `state_dict`, gives them
one and makes it the layer that it stands for.
"""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.nn.batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    _InstanceNorm,
    _NormBase,
)
from weft.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    _ConvNd,
)
from weft.nn.linear import Linear
from weft.nn.module import Module
from weft.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


def _materialize(value: Any, shape: tuple[int, ...]) -> None:
    """Give a lazy parameter of a layer its shape; None, where it has none, stays."""
    if value is not None:
        value.materialize(shape)


class LazyModuleMixin(Module):
    """What lazy layers share. `cls_to_become` is the class of the layer once it has shapes.

    A subclass defines `initialize_parameters(input)`.
    """

    cls_to_become: type[Module] | None = None

    def _be_lazy(self) -> None:
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes, from the arguments of the first call."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer still has no shape."""
        return any(is_lazy(v) for v in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(
        self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> None:
        self.initialize_parameters(*args, **(kwargs or {}))  # None: a hook of an older file
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {type(self).__name__} has not been fully initialized")
        self._become()

    def _become(self) -> None:
        self._initialize_hook.remove()
        self._load_hook.remove()
        del self._initialize_hook, self._load_hook
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become  # type: ignore[assignment]

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Shapes for parameters without one, from the values that are about to be loaded."""
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            lazy: Any = value if is_lazy(value) else None
            if lazy is not None and given is not None and not is_lazy(given):
                with weft.no_grad():
                    lazy.materialize(given.shape)


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` whose `in_features` are the last size of its first input.

    Args:
        out_features, bias, device, dtype: as of `Linear`.

    >>> import weft
    >>> layer = weft.nn.LazyLinear(3)
    >>> layer(weft.zeros(2, 5)).shape, layer
    (torch.Size([2, 3]), Linear(in_features=5, out_features=3, bias=True))
    """

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False, device, dtype)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)
        self._be_lazy()

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if self.has_uninitialized_params():
            with weft.no_grad():
                self.in_features = input.shape[-1]
                _materialize(self.weight, (self.out_features, self.in_features))
                _materialize(self.bias, (self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # loaded
            self.in_features = self.weight.shape[-1]


class _LazyConv(LazyModuleMixin):
    weight: Any

    def __init__(
        self: Any,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.cls_to_become.__init__(
            self, 0, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def _make_parameters(self: Any, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.register_parameter(
            "bias", UninitializedParameter(device=device, dtype=dtype) if bias else None
        )
        self._be_lazy()

    def reset_parameters(self: Any) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            _ConvNd.reset_parameters(self)

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            if self.in_channels == 0:  # loaded
                self.in_channels = self._channels(input)
            return
        self.in_channels = self._channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        with weft.no_grad():
            self.weight.materialize(self._weight_shape())
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()

    def _channels(self: Any, input: Tensor) -> int:
        dims = (self.dims + 1, self.dims + 2)
        if input.dim() not in dims:
            raise RuntimeError(
                f"Expected {dims[0]}D (unbatched) or {dims[1]}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return input.shape[-self.dims - 1]


class _LazyNorm(LazyModuleMixin):
    def __init__(
        self: Any,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        self.cls_to_become.__init__(
            self, 0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _make(self: Any, n: int, bias: bool, device: Any, dtype: Any) -> None:
        for name, wanted in (("weight", self.affine), ("bias", self.affine and bias)):
            value = UninitializedParameter(device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, value)
        track = self.track_running_stats
        for name in ("running_mean", "running_var"):
            buffer = UninitializedBuffer(device=device, dtype=dtype) if track else None
            self.register_buffer(name, buffer)
        count = weft.tensor(0, dtype=weft.int64, device=device) if track else None
        self.register_buffer("num_batches_tracked", count)
        self._be_lazy()

    def reset_parameters(self: Any) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            _NormBase.reset_parameters(self)

    def initialize_parameters(self: Any, input: Tensor) -> None:
        # an instance norm takes an example alone; 2-D input of a batch norm is (batch, channels)
        alone = isinstance(self, _InstanceNorm) and input.dim() == self._dims[0]
        channels = input.shape[0 if alone else 1] if input.dim() > 1 else 0
        if self.has_uninitialized_params():
            self.num_features = channels
            for value in (self.weight, self.bias, self.running_mean, self.running_var):
                if value is not None:
                    value.materialize((channels,))
            self.reset_parameters()
        elif self.num_features == 0:
            self.num_features = channels


class LazyConv1d(_LazyConv, Conv1d):
    """A `Conv1d` whose `in_channels` are those of its first input. Other arguments as there.

    Shapes are those of `Conv1d`.

    >>> import weft
    >>> layer = weft.nn.LazyConv1d(3, 2)
    >>> _ = layer(weft.zeros(1, 2, 8))
    >>> layer.in_channels
    2
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A `Conv2d` whose `in_channels` are those of its first input. Other arguments as there.

    Shapes are those of `Conv2d`.

    >>> import weft
    >>> layer = weft.nn.LazyConv2d(3, 2)
    >>> _ = layer(weft.zeros(1, 2, 8, 8))
    >>> layer.in_channels
    2
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A `Conv3d` whose `in_channels` are those of its first input. Other arguments as there.

    Shapes are those of `Conv3d`.

    >>> import weft
    >>> layer = weft.nn.LazyConv3d(3, 2)
    >>> _ = layer(weft.zeros(1, 2, 8, 8, 8))
    >>> layer.in_channels
    2
    """

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConv):
    def __init__(
        self: Any,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.cls_to_become.__init__(
            self, 0, out_channels, kernel_size, stride, padding, output_padding, groups, bias,
            dilation, padding_mode, device, dtype,
        )  # fmt: skip


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` whose `in_channels` are those of its first input.

    Shapes are those of `ConvTranspose1d`.

    >>> import weft
    >>> layer = weft.nn.LazyConvTranspose1d(3, 2)
    >>> _ = layer(weft.zeros(1, 2, 8))
    >>> layer.in_channels
    2
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` whose `in_channels` are those of its first input.

    Shapes are those of `ConvTranspose2d`.

    >>> import weft
    >>> layer = weft.nn.LazyConvTranspose2d(3, 2)
    >>> _ = layer(weft.zeros(1, 2, 8, 8))
    >>> layer.in_channels
    2
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` whose `in_channels` are those of its first input.

    Shapes are those of `ConvTranspose3d`.

    >>> import weft
    >>> layer = weft.nn.LazyConvTranspose3d(3, 2)
    >>> _ = layer(weft.zeros(1, 2, 8, 8, 8))
    >>> layer.in_channels
    2
    """

    cls_to_become = ConvTranspose3d


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A `BatchNorm1d` whose `num_features` are the channels of its first input.

    Shapes are those of `BatchNorm1d`.

    >>> import weft
    >>> layer = weft.nn.LazyBatchNorm1d()
    >>> _ = layer(weft.zeros(1, 2, 8))
    >>> layer.num_features
    2
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A `BatchNorm2d` whose `num_features` are the channels of its first input.

    Shapes are those of `BatchNorm2d`.

    >>> import weft
    >>> layer = weft.nn.LazyBatchNorm2d()
    >>> _ = layer(weft.zeros(1, 2, 8, 8))
    >>> layer.num_features
    2
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A `BatchNorm3d` whose `num_features` are the channels of its first input.

    Shapes are those of `BatchNorm3d`.

    >>> import weft
    >>> layer = weft.nn.LazyBatchNorm3d()
    >>> _ = layer(weft.zeros(1, 2, 8, 8, 8))
    >>> layer.num_features
    2
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """A `InstanceNorm1d` whose `num_features` are the channels of its first input.

    Shapes are those of `InstanceNorm1d`.

    >>> import weft
    >>> layer = weft.nn.LazyInstanceNorm1d()
    >>> _ = layer(weft.zeros(1, 2, 8))
    >>> layer.num_features
    2
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """A `InstanceNorm2d` whose `num_features` are the channels of its first input.

    Shapes are those of `InstanceNorm2d`.

    >>> import weft
    >>> layer = weft.nn.LazyInstanceNorm2d()
    >>> _ = layer(weft.zeros(1, 2, 8, 8))
    >>> layer.num_features
    2
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """A `InstanceNorm3d` whose `num_features` are the channels of its first input.

    Shapes are those of `InstanceNorm3d`.

    >>> import weft
    >>> layer = weft.nn.LazyInstanceNorm3d()
    >>> _ = layer(weft.zeros(1, 2, 8, 8, 8))
    >>> layer.num_features
    2
    """

    cls_to_become = InstanceNorm3d
