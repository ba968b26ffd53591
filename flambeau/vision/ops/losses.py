"""Losses of detection: focal loss, and losses of boxes."""

from __future__ import annotations

import math

from ..._core.dtypes import FLOATING, float32, float64
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import functional as F


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean() if loss.numel() > 0 else 0.0 * loss.sum()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(
        f"Invalid Value for arg 'reduction': '{reduction} \\n Supported reduction modes: 'none', 'mean', 'sum'"
    )


def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none"
) -> Tensor:
    """Binary cross entropy of logits in which examples that are already right count little.

    >>> import flambeau as torch
    >>> sigmoid_focal_loss(torch.zeros(1), torch.ones(1))
    tensor([0.0433])
    """
    if not 0 <= alpha <= 1 and alpha != -1:
        raise ValueError(f"Invalid alpha value: {alpha}. alpha must be in the range [0,1] or -1 for ignore.")
    p = ops.sigmoid(inputs)
    entropy = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    right = p * targets + (1 - p) * (1 - targets)
    loss = entropy * (1 - right) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return _reduced(loss, reduction)


def _floating(x: Tensor) -> Tensor:
    return x if x.dtype in (float32, float64) or x.dtype.category != FLOATING else x.to(float32)


def _pairs(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Both boxes, their common area, what they cover together, and the sides (…, 2) of the box around them."""
    boxes1, boxes2 = _floating(boxes1), _floating(boxes2)
    sides = (ops.minimum(boxes1[..., 2:], boxes2[..., 2:]) - ops.maximum(boxes1[..., :2], boxes2[..., :2])).clamp(min=0)
    common = sides[..., 0] * sides[..., 1]
    areas = [(b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1]) for b in (boxes1, boxes2)]
    hull = ops.maximum(boxes1[..., 2:], boxes2[..., 2:]) - ops.minimum(boxes1[..., :2], boxes2[..., :2])
    return boxes1, boxes2, common, areas[0] + areas[1] - common, hull


def generalized_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 - generalized IoU of pairs of boxes."""
    _, _, common, union, hull = _pairs(boxes1, boxes2)
    area = hull[..., 0] * hull[..., 1]
    return _reduced(1 - (common / (union + eps) - (area - union) / (area + eps)), reduction)


def _distance(boxes1: Tensor, boxes2: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    boxes1, boxes2, common, union, hull = _pairs(boxes1, boxes2)
    iou = common / (union + eps)
    middles = (boxes1[..., :2] + boxes1[..., 2:]) / 2 - (boxes2[..., :2] + boxes2[..., 2:]) / 2
    return boxes1, boxes2, iou, 1 - iou + middles.pow(2).sum(-1) / (hull.pow(2).sum(-1) + eps)


def distance_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 - IoU of pairs of boxes, plus the distance of their centres."""
    return _reduced(_distance(boxes1, boxes2, eps)[3], reduction)


def complete_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """`distance_box_iou_loss` plus a penalty for different aspect ratios."""
    boxes1, boxes2, iou, loss = _distance(boxes1, boxes2, eps)
    angles = [ops.atan((b[..., 2] - b[..., 0]) / (b[..., 3] - b[..., 1])) for b in (boxes1, boxes2)]
    v = (4 / math.pi**2) * (angles[1] - angles[0]).pow(2)
    alpha = (v / (1 - iou + v + eps)).detach()
    return _reduced(loss + alpha * v, reduction)
