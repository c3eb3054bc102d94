"""Regions of feature maps brought to one size (He et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor, nn

__all__ = ["RoIAlign", "roi_align"]


def _rows(boxes: Any) -> Tensor:
    """[K, 5] of a list of boxes [L, 4] by image; the first column is the image."""
    if isinstance(boxes, Tensor):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise AssertionError(
                f"[roi_align] expected boxes of shape [K, 5], got {list(boxes.shape)}: The boxes "
                "tensor shape is not correct as Tensor[K, 5]"
            )
        return boxes
    for one in boxes:
        if one.ndim != 2 or one.shape[1] != 4:
            raise AssertionError(
                f"[roi_align] expected boxes of shape [L, 4], got {list(one.shape)}: "
                "The shape of the tensor in the boxes list is not correct as List[Tensor[L, 4]]"
            )
    numbered = [weft.cat([weft.full_like(b[:, :1], i), b], 1) for i, b in enumerate(boxes)]
    return weft.cat(numbered)


def _weights(start: Tensor, edge: Tensor, bins: int, samples: int, size: int) -> Tensor:
    """What each of `size` pixels counts in each bin of each region, [K, bins, size].

    A bin is the mean of samples in even distances; a sample is linear between two pixels, and 0
    more than a pixel outside.
    """
    step = edge / bins
    count = weft.full_like(step, samples) if samples > 0 else step.ceil().clamp(min=0)
    most = int(count.max()) if len(count) else 0
    sample = weft.arange(most, dtype=start.dtype)
    inside = (sample + 0.5) / count.clamp(min=1)[:, None] * step[:, None]  # [K, most]
    first = start[:, None] + weft.arange(bins, dtype=start.dtype) * step[:, None]  # [K, bins]
    at = first[:, :, None] + inside[:, None, :]
    counts = (sample < count[:, None])[:, None, :] & (at >= -1.0) & (at <= size)
    places = at.clamp(0, size - 1)[..., None] - weft.arange(size, dtype=start.dtype)
    near = (1.0 - places.abs()).clamp(min=0) * counts[..., None]
    return near.sum(2) / count.clamp(min=1)[:, None, None]


def _of_one(maps: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """[K, C, bins, bins] of the maps [C, H, W] of one image: one product for all regions' rows."""
    (k, height, h), (channels, _, w) = down.shape, maps.shape
    lines = down.reshape(k * height, h) @ maps.permute(1, 0, 2).reshape(h, channels * w)
    out = lines.view(k, height * channels, w) @ across.transpose(1, 2)
    return out.view(k, height, channels, across.shape[1]).permute(0, 2, 1, 3)


def roi_align(
    input: Tensor,
    boxes: Any,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """The means of the bins of regions of feature maps.

    Args:
        input: [N, C, H, W]
        boxes: [K, 5], image and corners, or a list of [L, 4], one for each image.
        output_size: [height, width] of the result, or one number for both.
        spatial_scale: pixels of `input` for one of the boxes.
        sampling_ratio: samples along each edge of a bin; as many as it has pixels, if not positive.
        aligned: whether pixels lie at their middles, half a pixel from their corners.

    Returns: [K, C, height, width], differentiable in `input`.

    Raises: AssertionError for boxes of other shapes, IndexError for images that there are not.

    >>> from weft.vision import ops
    >>> image = weft.arange(16.).view(1, 1, 4, 4)
    >>> ops.roi_align(image, [weft.tensor([[0., 0., 4., 4.]])], 2, aligned=True)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """
    height, width = [output_size] * 2 if isinstance(output_size, int) else output_size
    rows = _rows(boxes).detach()
    dtype = input.dtype if input.dtype == weft.float64 else weft.float32
    corners = rows[:, 1:].to(dtype) * spatial_scale - (0.5 if aligned else 0.0)
    edges = corners[:, 2:] - corners[:, :2]
    if not aligned:
        edges = edges.clamp(min=1.0)
    across = _weights(corners[:, 0], edges[:, 0], width, sampling_ratio, input.shape[3])
    down = _weights(corners[:, 1], edges[:, 1], height, sampling_ratio, input.shape[2])
    order, parts = [], [input.new_zeros(0, input.shape[1], height, width, dtype=dtype)]
    for i, maps in enumerate(input.to(dtype)):
        at = (rows[:, 0] == i).nonzero().flatten()
        order.append(at)
        parts.append(_of_one(maps, down[at], across[at]))
    places = weft.cat(order)
    if len(places) < len(rows):
        raise IndexError(
            f"[roi_align] expected images 0 to {len(input) - 1}, got {rows[:, 0].tolist()}"
        )
    return weft.cat(parts)[places.argsort()].to(input.dtype)


class RoIAlign(nn.Module):
    """`roi_align` as a layer.

    Images [N, C, H, W] give [boxes, C, *output_size].

    >>> from weft.vision import ops
    >>> align = ops.RoIAlign(2, spatial_scale=1.0, sampling_ratio=1)
    >>> align(weft.ones(1, 3, 8, 8), [weft.tensor([[0.0, 0.0, 4.0, 4.0]])]).shape
    torch.Size([1, 3, 2, 2])
    """

    def __init__(
        self,
        output_size: int | Sequence[int],
        spatial_scale: float,
        sampling_ratio: int,
        aligned: bool = False,
    ) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return roi_align(
            input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned
        )

    def extra_repr(self) -> str:
        shown = ("output_size", "spatial_scale", "sampling_ratio", "aligned")
        return ", ".join(f"{name}={getattr(self, name)}" for name in shown)
