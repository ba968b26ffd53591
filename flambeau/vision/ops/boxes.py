"""Boxes: areas, overlaps, formats, clipping, and the suppression of those that overlap better ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..._backend.cpu import cpu
from ..._core.dtypes import BOOL, BY_NUMPY, FLOATING, bool_, float32, float64, int32, int64
from ..._core.state import modes
from ..._library.namespaces import ops as operators
from ..._ops.records.primitive import primitive
from ..._ops.registry import ops
from ..._tensor import Tensor
from . import _kernels

__all__ = [
    "batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou", "distance_box_iou",
    "generalized_box_iou", "masks_to_boxes", "nms", "remove_small_boxes",
]  # fmt: skip


def operator(name: str) -> Any:
    """torchvision's operator of that name, as traces and other watchers of operations know it."""
    from . import _operators  # noqa: F401  # defines it; needs this module

    return getattr(operators.torchvision, name)


@primitive(
    tensors=2, name="suppressed", differentiable=False, meta=lambda boxes, group, threshold: ((boxes.shape[0],), bool_)
)  # fmt: skip
def _stay(backend: Any, boxes: Any, group: Any, threshold: float) -> Any:
    """Which boxes, sorted from the best on, no better one of their group overlaps by more than the threshold."""
    kept = cpu.empty(len(boxes), "bool")
    if len(boxes):
        call = cpu.kernel(_kernels.suppress, (BY_NUMPY[boxes.dtype].code, "i64", "f64", "b1"))
        call(backend.asnumpy(boxes), backend.asnumpy(group), threshold, kept)
    return backend.xp.asarray(kept)


def _kept(boxes: Tensor, scores: Tensor, groups: Tensor | None, iou_threshold: float) -> Tensor:
    """The numbers of the boxes that stay, best first."""
    order = ops.argsort(scores, descending=True, stable=True)
    boxes = boxes.detach()
    if boxes.dtype not in (float32, float64):
        boxes = boxes.to(float32)
    group = ops.zeros_like(order) if groups is None else groups[order].to(int64)
    return order[_stay(boxes[order], group, float(iou_threshold))]


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The numbers of the boxes that no better one overlaps by more than the threshold, best first.

    >>> import flambeau as torch
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]])
    >>> nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5)
    tensor([0, 2])
    """
    if modes.overrides:  # traces and other watchers know the operator
        return operator("nms")(boxes, scores, float(iou_threshold))
    return plain_nms(boxes, scores, iou_threshold)


def plain_nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """What `nms` computes."""
    if boxes.ndim != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {boxes.ndim}D")
    if boxes.shape[1] != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {boxes.shape[1]}")
    if scores.ndim != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.ndim}D")
    if boxes.shape[0] != scores.shape[0]:
        raise RuntimeError(
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{boxes.shape[0]} and {scores.shape[0]}"
        )
    return _kept(boxes, scores, None, iou_threshold)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`nms` among the boxes of each group: boxes of different numbers in `idxs` do not compete."""
    if modes.overrides and boxes.numel():  # the groups moved apart, so that one operator is enough
        apart = idxs.to(boxes.dtype) * (boxes.max() + 1)
        return nms(boxes + apart[:, None], scores, iou_threshold)
    return _kept(boxes, scores, idxs, iou_threshold)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The numbers of the boxes with both sides at least this long."""
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return ops.where((width >= min_size) & (height >= min_size))[0]


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """The boxes (…, 4), cut at the borders of an image of this height and width."""
    height, width = size
    x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return ops.stack((x, y), -1).reshape(boxes.shape)


def _from_xywh(boxes: Tensor) -> Tensor:
    x, y, w, h = boxes.unbind(-1)
    return ops.stack([x, y, x + w, y + h], -1)


def _to_xywh(boxes: Tensor) -> Tensor:
    x1, y1, x2, y2 = boxes.unbind(-1)
    return ops.stack([x1, y1, x2 - x1, y2 - y1], -1)


def _from_cxcywh(boxes: Tensor) -> Tensor:
    cx, cy, w, h = boxes.unbind(-1)
    return ops.stack([cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h], -1)


def _to_cxcywh(boxes: Tensor) -> Tensor:
    x1, y1, x2, y2 = boxes.unbind(-1)
    return ops.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], -1)


_FORMATS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {  # to corners, and from them
    "xyxy": (lambda boxes: boxes, lambda boxes: boxes),
    "xywh": (_from_xywh, _to_xywh),
    "cxcywh": (_from_cxcywh, _to_cxcywh),
}


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes in another format: two corners, corner and size, or centre and size ("xyxy", "xywh", "cxcywh").

    >>> import flambeau as torch
    >>> box_convert(torch.tensor([1, 2, 3, 4]), "xywh", "xyxy")
    tensor([1, 2, 4, 6])
    """
    if in_fmt not in _FORMATS or out_fmt not in _FORMATS:
        raise ValueError(f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}")
    if in_fmt == out_fmt:
        return boxes.clone()
    return _FORMATS[out_fmt][1](_FORMATS[in_fmt][0](boxes))


def _wide(x: Tensor) -> Tensor:
    """In a dtype whose products do not overflow."""
    if x.dtype.category == FLOATING:
        return x if x.dtype in (float32, float64) else x.to(float32)
    return x if x.dtype in (int32, int64) else x.to(int32)


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """The areas of boxes (…, 4).

    >>> import flambeau as torch
    >>> box_area(torch.tensor([[0, 0, 2, 3]]))
    tensor([6])
    """
    boxes = _wide(boxes)
    if fmt == "xyxy":
        return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    if fmt in _FORMATS:
        return boxes[..., 2] * boxes[..., 3]
    raise ValueError(f"Unsupported Bounding Box area for given format {fmt}")


def _overlap(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """Areas that each of N boxes shares with each of M others, and those that they cover together."""
    low = ops.maximum(boxes1[..., :, None, :2], boxes2[..., None, :, :2])
    high = ops.minimum(boxes1[..., :, None, 2:], boxes2[..., None, :, 2:])
    sides = _wide(high - low).clamp(min=0)  # (…, N, M, 2)
    common = sides[..., 0] * sides[..., 1]
    return common, box_area(boxes1)[..., :, None] + box_area(boxes2)[..., None, :] - common


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Intersection over union of each of N boxes with each of M others.

    >>> import flambeau as torch
    >>> box_iou(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 0, 3, 2], [0, 0, 2, 2]]))
    tensor([[0.3333, 1.0000]])
    """
    if fmt != "xyxy":
        boxes1, boxes2 = box_convert(boxes1, fmt, "xyxy"), box_convert(boxes2, fmt, "xyxy")
    common, union = _overlap(boxes1, boxes2)
    return common / union


def _hull(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The sides (…, N, M, 2) of the smallest boxes around pairs of boxes."""
    low = ops.minimum(boxes1[..., :, None, :2], boxes2[..., None, :, :2])
    high = ops.maximum(boxes1[..., :, None, 2:], boxes2[..., None, :, 2:])
    return _wide(high - low).clamp(min=0)


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """IoU less the part of the smallest box around each pair that neither of the two covers."""
    common, union = _overlap(boxes1, boxes2)
    sides = _hull(boxes1, boxes2)
    area = sides[..., 0] * sides[..., 1]
    return common / union - (area - union) / area


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """IoU less the squared distance of the centres, in units of the diagonal around each pair."""
    boxes1, boxes2 = _wide(boxes1), _wide(boxes2)
    diagonal = _hull(boxes1, boxes2).pow(2).sum(-1) + eps
    middles = [(boxes[..., :2] + boxes[..., 2:]) / 2 for boxes in (boxes1, boxes2)]
    distance = _wide(middles[0][..., :, None, :] - middles[1][..., None, :, :]).pow(2).sum(-1)
    return box_iou(boxes1, boxes2) - distance / diagonal


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """`distance_box_iou` less a penalty for different aspect ratios."""
    boxes1, boxes2 = _wide(boxes1), _wide(boxes2)
    iou, angles = box_iou(boxes1, boxes2), []
    for boxes in (boxes1, boxes2):
        angles.append(ops.atan((boxes[..., 2] - boxes[..., 0]) / (boxes[..., 3] - boxes[..., 1])))
    v = (4 / math.pi**2) * (angles[0][..., :, None] - angles[1][..., None, :]).pow(2)
    alpha = (v / (1 - iou + v + eps)).detach()
    return distance_box_iou(boxes1, boxes2, eps) - alpha * v


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The smallest boxes (N, 4) around the pixels of masks (N, H, W) that are not zero."""
    if masks.numel() == 0:
        return ops.zeros((0, 4), dtype=float32, device=masks.device)
    found = masks if masks.dtype.category == BOOL else masks != 0
    sides = []
    for dim, size in ((1, masks.shape[2]), (2, masks.shape[1])):
        line = found.any(dim).to(int64)  # (N, size)
        sides.append((line.argmax(1), size - 1 - line.flip(1).argmax(1)))
    (left, right), (top, bottom) = sides
    return ops.stack([left, top, right, bottom], 1).to(float32)
