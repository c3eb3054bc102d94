"""Pooling layers over windows of random places (Graham, "Fractional max-pooling", 2014)."""

from __future__ import annotations

from numbers import Number
from typing import Any

from weft import Tensor
from weft.nn import functional as F
from weft.nn.functional_fractional import Sizes
from weft.nn.module import Module


class _FractionalMaxPool(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _dims: int

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        who, dims = type(self).__name__, self._dims

        def each(value: Any) -> Any:
            return (value,) * dims if isinstance(value, Number) else tuple(value)

        self.kernel_size = each(kernel_size)
        self.return_indices = return_indices
        self.output_size = None if output_size is None else each(output_size)
        self.output_ratio = None if output_ratio is None else each(output_ratio)
        self.register_buffer("_random_samples", _random_samples)
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"[{who}] expected either an output_size or an output_ratio, got "
                f"{'neither' if output_size is None else 'both'}"
            )
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(
                f"[{who}] expected an output_ratio between 0 and 1, got {output_ratio}"
            )

    def forward(self, input: Tensor) -> Any:
        """The largest values, and with `return_indices` their flat indices in their planes."""
        pool = getattr(F, f"fractional_max_pool{self._dims}d")
        return pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest values of windows at random places of planes.

    Args:
        kernel_size: of the windows, one number or two.
        output_size: how many windows, one number or two.
        output_ratio: the same, as a part of the input's size between 0 and 1.
        return_indices: give the flat index of each value in its plane too.

    Raises:
        ValueError: neither size nor ratio, or both; a ratio outside of (0, 1).

    >>> import weft
    >>> weft.nn.FractionalMaxPool2d(2, output_size=3)(weft.zeros(1, 4, 7, 7)).shape
    torch.Size([1, 4, 3, 3])
    """

    _dims = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest values of windows at random places of volumes; see `FractionalMaxPool2d`.

    `(batch, channels, depth, height, width)`, the batch optional.

    >>> import weft
    >>> weft.nn.FractionalMaxPool3d(2, output_ratio=0.5)(weft.zeros(4, 6, 6, 6)).shape
    torch.Size([4, 3, 3, 3])
    """

    _dims = 3
