"""Boxes [..., 4] as corners (x1, y1, x2, y2): areas, overlaps, and which of them to keep."""

from __future__ import annotations

import weft
from weft import Tensor

__all__ = [
    "batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image",
    "complete_box_iou", "distance_box_iou", "generalized_box_iou", "masks_to_boxes", "nms",
    "remove_small_boxes",
]  # fmt: skip


def _check(who: str, name: str, boxes: Tensor) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise RuntimeError(
            f"[{who}] expected {name} of shape [N, 4], got {list(boxes.shape)}: "
            f"boxes should be a 2d tensor with 4 columns, got {boxes.ndim}D"
        )


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The boxes to keep, best first: each that overlaps no kept one by more than the threshold.

    Args:
        boxes: [N, 4]
        scores: [N]
        iou_threshold: of intersection over union.

    Returns: indices, int64 [K].

    Raises: RuntimeError for other shapes.

    >>> from weft.vision import ops
    >>> boxes = weft.tensor([[0., 0., 2., 2.], [0., 0., 2., 1.9], [3., 3., 4., 4.]])
    >>> ops.nms(boxes, weft.tensor([0.5, 0.9, 0.1]), 0.5)
    tensor([1, 2])
    """
    _check("nms", "boxes", boxes)
    if scores.shape != boxes.shape[:1]:
        raise RuntimeError(
            f"[nms] expected scores of shape [{len(boxes)}], got {list(scores.shape)}: boxes and "
            f"scores should have same number of elements in dimension 0, got {len(boxes)} and "
            f"{len(scores) if scores.ndim else 0}"
        )
    with weft.no_grad():
        order = scores.argsort(descending=True, stable=True)
        best = boxes[order]
        area = box_area(best)
        dropped = weft.zeros(len(best), dtype=weft.bool)
        for i in range(len(best)):
            if not dropped[i]:
                low = weft.maximum(best[i, :2], best[i + 1 :, :2])
                high = weft.minimum(best[i, 2:], best[i + 1 :, 2:])
                shared = (high - low).clamp(min=0).prod(1)
                dropped[i + 1 :] |= shared / (area[i] + area[i + 1 :] - shared) > iou_threshold
        return order[~dropped]


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`nms` among the boxes of each class of `idxs`, int64 [N]; what is kept, best first.

    >>> from weft.vision import ops
    >>> boxes = weft.cat([weft.tensor([[0.0, 0.0, 2.0, 2.0]]), weft.tensor([[0.0, 0.0, 2.0, 2.0]])])
    >>> ops.batched_nms(boxes, weft.tensor([0.5, 0.9]), weft.tensor([0, 0]), 0.5)
    tensor([1])
    """
    _check("batched_nms", "boxes", boxes)
    kept = weft.zeros(len(boxes), dtype=weft.bool)
    for one in idxs.unique():
        places = (idxs == one).nonzero().flatten()
        kept[places[nms(boxes[places], scores[places], iou_threshold)]] = True
    places = kept.nonzero().flatten()
    return places[scores[places].argsort(descending=True, stable=True)]


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """Indices of the boxes whose edges are all at least that long.

    Boxes [N, 4]; the indices are int64.

    >>> from weft.vision import ops
    >>> ops.remove_small_boxes(weft.tensor([[0.0, 0.0, 2.0, 2.0]]), 3.0)
    tensor([], dtype=torch.int64)
    """
    return ((boxes[..., 2:] - boxes[..., :2]) >= min_size).all(-1).nonzero().flatten()


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """The boxes within an image of [H, W].

    >>> from weft.vision import ops
    >>> ops.clip_boxes_to_image(weft.tensor([[1.0, 0.0, 3.0, 2.0]]), (2, 2))
    tensor([[1., 0., 2., 2.]])
    """
    height, width = size
    x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return weft.stack([x, y], -1).reshape(boxes.shape)


def _to_corners(boxes: Tensor, fmt: str) -> Tensor:
    first, second = boxes[..., :2], boxes[..., 2:]
    if fmt == "cxcywh":
        return weft.cat([first - 0.5 * second, first + 0.5 * second], -1)
    return weft.cat([first, first + second], -1) if fmt == "xywh" else boxes


def _check_format(who: str, *formats: str) -> None:
    for fmt in formats:
        if fmt not in ("xyxy", "xywh", "cxcywh"):
            raise ValueError(
                f"[{who}] expected xyxy, xywh or cxcywh, got {fmt!r}: Unsupported Bounding Box "
                f"Conversions for given in_fmt {formats[0]} and out_fmt {formats[-1]}"
            )


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes in another format: "xyxy", "xywh" or "cxcywh" (centre, width, height).

    [..., 4] gives [..., 4].

    >>> from weft.vision import ops
    >>> ops.box_convert(weft.tensor([[1., 2., 5., 8.]]), "xyxy", "cxcywh")
    tensor([[3., 5., 4., 6.]])
    """
    _check_format("box_convert", in_fmt, out_fmt)
    if in_fmt == out_fmt:
        return boxes.clone()
    corners = _to_corners(boxes, in_fmt)
    low, high = corners[..., :2], corners[..., 2:]
    if out_fmt == "xyxy":
        return corners
    return weft.cat([low if out_fmt == "xywh" else (low + high) / 2, high - low], -1)


def _wide(boxes: Tensor) -> Tensor:
    """Numbers whose products are exact enough."""
    if boxes.is_floating_point():
        return boxes if boxes.dtype in (weft.float32, weft.float64) else boxes.float()
    return boxes if boxes.dtype in (weft.int32, weft.int64) else boxes.int()


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """The areas of boxes [..., 4].

    >>> from weft.vision import ops
    >>> ops.box_area(weft.tensor([[0.0, 0.0, 2.0, 2.0]]))
    tensor([4.])
    """
    _check_format("box_area", fmt)
    wide = _wide(boxes)
    edges = wide[..., 2:] - wide[..., :2] if fmt == "xyxy" else wide[..., 2:]
    return edges[..., 0] * edges[..., 1]


def _overlap(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """Intersection and union of each of N boxes with each of M, [..., N, M]."""
    low = weft.maximum(boxes1[..., :, None, :2], boxes2[..., None, :, :2])
    high = weft.minimum(boxes1[..., :, None, 2:], boxes2[..., None, :, 2:])
    edges = _wide(high - low).clamp(min=0)
    shared = edges[..., 0] * edges[..., 1]
    return shared, box_area(boxes1)[..., :, None] + box_area(boxes2)[..., None, :] - shared


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Intersection over union of each of boxes1 [N, 4] with each of boxes2 [M, 4]: [N, M].

    >>> from weft.vision import ops
    >>> ops.box_iou(weft.tensor([[0.0, 0.0, 2.0, 2.0]]), weft.tensor([[1.0, 0.0, 3.0, 2.0]]))
    tensor([[0.3333]])
    """
    _check_format("box_iou", fmt)
    shared, union = _overlap(_to_corners(boxes1, fmt), _to_corners(boxes2, fmt))
    return shared / union


def _hull(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The edges of the smallest box around each pair."""
    low = weft.minimum(boxes1[..., :, None, :2], boxes2[..., None, :, :2])
    high = weft.maximum(boxes1[..., :, None, 2:], boxes2[..., None, :, 2:])
    return _wide(high - low).clamp(min=0)


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """IoU less the part of the hull that neither covers (Rezatofighi et al. 2019): [N, M].

    >>> from weft.vision import ops
    >>> a, b = weft.tensor([[0.0, 0.0, 2.0, 2.0]]), weft.tensor([[1.0, 0.0, 3.0, 2.0]])
    >>> ops.generalized_box_iou(a, b)
    tensor([[0.3333]])
    """
    shared, union = _overlap(boxes1, boxes2)
    edges = _hull(boxes1, boxes2)
    hull = edges[..., 0] * edges[..., 1]
    return shared / union - (hull - union) / hull


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """IoU less the squared distance of the centres, of the hull's diagonal (Zheng et al. 2020).

    [N, 4] and [M, 4] give [N, M].

    >>> from weft.vision import ops
    >>> a, b = weft.tensor([[0.0, 0.0, 2.0, 2.0]]), weft.tensor([[0.0, 0.0, 2.0, 2.0]])
    >>> ops.distance_box_iou(a, b)
    tensor([[1.]])
    """
    middle1, middle2 = ((_wide(b)[..., :2] + _wide(b)[..., 2:]) / 2 for b in (boxes1, boxes2))
    apart = (middle1[..., :, None, :] - middle2[..., None, :, :]).square().sum(-1)
    diagonal = _hull(boxes1, boxes2).square().sum(-1) + eps
    return box_iou(boxes1, boxes2) - apart / diagonal


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """`distance_box_iou` less a term for unlike ratios (Zheng et al. 2020).

    [N, 4] and [M, 4] give [N, M].

    >>> from weft.vision import ops
    >>> a, b = weft.tensor([[0.0, 0.0, 2.0, 2.0]]), weft.tensor([[0.0, 0.0, 2.0, 2.0]])
    >>> ops.complete_box_iou(a, b)
    tensor([[1.]])
    """
    angles = []
    for boxes in (boxes1, boxes2):
        edges = _wide(boxes)[..., 2:] - _wide(boxes)[..., :2]
        angles.append((edges[..., 0] / edges[..., 1]).atan())
    unlike = 4 / weft.pi**2 * (angles[0][..., :, None] - angles[1][..., None, :]).square()
    with weft.no_grad():
        weight = unlike / (1 - box_iou(boxes1, boxes2) + unlike + eps)
    return distance_box_iou(boxes1, boxes2, eps) - weight * unlike


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The smallest boxes [N, 4] around what is not 0 in masks [N, H, W], ends included.

    >>> from weft.vision import ops
    >>> ops.masks_to_boxes(weft.tensor([[[0, 1], [0, 1]]]))
    tensor([[1., 0., 1., 1.]])
    """
    out = weft.zeros(len(masks), 4)
    for i, mask in enumerate(masks):
        rows, columns = weft.where(mask != 0)
        ends = [columns.min(), rows.min(), columns.max(), rows.max()]
        out[i] = weft.stack(ends).float()
    return out
