"""What geometric transforms do to boxes: each function gets (boxes, format, canvas, …) and gives (boxes, canvas)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...._core.dtypes import FLOATING, float32, float64
from ...._ops.registry import ops
from ...._tensor import Tensor
from ...tv_tensors import BoundingBoxFormat
from .. import _functional_tensor as F_t
from .. import functional as F1

XYXY, XYWH, CXCYWH = BoundingBoxFormat.XYXY, BoundingBoxFormat.XYWH, BoundingBoxFormat.CXCYWH
_Canvas = tuple[int, int]
_Result = tuple[Tensor, Sequence[int]]


def _half(size: Tensor) -> Tensor:
    """Half of a size; whole numbers are rounded up."""
    return size / 2 if size.dtype.category == FLOATING else (size + 1) // 2


def to_corners(boxes: Tensor, format: BoundingBoxFormat) -> Tensor:
    """Boxes of a format as two corners."""
    if format is XYXY:
        return boxes
    first, size = boxes[..., :2], boxes[..., 2:]
    if format is CXCYWH:
        first = first - _half(size)
    return ops.cat([first, first + size], -1)


def from_corners(boxes: Tensor, format: BoundingBoxFormat) -> Tensor:
    """Boxes of two corners in a format."""
    if format is XYXY:
        return boxes
    first, size = boxes[..., :2], boxes[..., 2:] - boxes[..., :2]
    if format is CXCYWH:
        twice = first * 2 + size
        first = twice / 2 if boxes.dtype.category == FLOATING else twice // 2
    return ops.cat([first, size], -1)


def convert(boxes: Tensor, old: BoundingBoxFormat, new: BoundingBoxFormat) -> Tensor:
    """Boxes in another format."""
    return boxes.clone() if old is new else from_corners(to_corners(boxes, old), new)


def clamp(boxes: Tensor, format: BoundingBoxFormat, canvas: _Canvas) -> Tensor:
    """Boxes cut at the borders of their canvas."""
    corners = to_corners(boxes if boxes.dtype.category == FLOATING else boxes.to(float32), format)
    x, y = corners[..., 0::2].clamp(0, canvas[1]), corners[..., 1::2].clamp(0, canvas[0])
    cut = ops.stack([x, y], -1).reshape(corners.shape)
    return from_corners(cut, format).to(boxes.dtype)


def horizontal_flip(boxes: Tensor, format: BoundingBoxFormat, canvas: _Canvas) -> _Result:
    return _flipped(boxes, format, 0, canvas[1]), canvas


def vertical_flip(boxes: Tensor, format: BoundingBoxFormat, canvas: _Canvas) -> _Result:
    return _flipped(boxes, format, 1, canvas[0]), canvas


def _flipped(boxes: Tensor, format: BoundingBoxFormat, axis: int, length: int) -> Tensor:
    boxes = boxes.clone()
    if format is XYXY:
        boxes[:, [axis, axis + 2]] = length - boxes[:, [axis + 2, axis]]
    elif format is XYWH:
        boxes[:, axis] = length - boxes[:, axis] - boxes[:, axis + 2]
    else:
        boxes[:, axis] = length - boxes[:, axis]
    return boxes


def resize(
    boxes: Tensor,
    format: BoundingBoxFormat,
    canvas: _Canvas,
    size: Any,
    interpolation: Any = None,
    max_size: int | None = None,
    antialias: Any = True,
) -> _Result:
    sizes = [size] if isinstance(size, int) else size
    height, width = F1.resized_size(canvas, sizes, max_size, allow_none=True)
    ratios = ops.tensor([width / canvas[1], height / canvas[0]] * 2, device=boxes.device)
    return boxes.mul(ratios).to(boxes.dtype), (height, width)


def _moved(boxes: Tensor, format: BoundingBoxFormat, x: int, y: int) -> Tensor:
    shift = [x, y, x, y] if format is XYXY else [x, y, 0, 0]
    return boxes + ops.tensor(shift, dtype=boxes.dtype, device=boxes.device)


def crop(
    boxes: Tensor, format: BoundingBoxFormat, canvas: _Canvas, top: int, left: int, height: int, width: int
) -> _Result:
    return clamp(_moved(boxes, format, -left, -top), format, (height, width)), (height, width)


def center_crop(boxes: Tensor, format: BoundingBoxFormat, canvas: _Canvas, output_size: Any) -> _Result:
    height, width = F1.pair(output_size)
    top, left = round((canvas[0] - height) / 2.0), round((canvas[1] - width) / 2.0)
    return crop(boxes, format, canvas, top, left, height, width)


def resized_crop(
    boxes: Tensor,
    format: BoundingBoxFormat,
    canvas: _Canvas,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = None,
    antialias: Any = True,
) -> _Result:
    boxes, canvas = crop(boxes, format, canvas, top, left, height, width)  # type: ignore[assignment]
    return resize(boxes, format, canvas, size)


def pad(
    boxes: Tensor,
    format: BoundingBoxFormat,
    canvas: _Canvas,
    padding: Any,
    fill: Any = None,
    padding_mode: str = "constant",
) -> _Result:
    if padding_mode != "constant":
        raise ValueError(f"Padding mode '{padding_mode}' is not supported with bounding boxes")
    left, right, top, bottom = F_t.parse_padding(padding)
    wide = (canvas[0] + top + bottom, canvas[1] + left + right)
    return clamp(_moved(boxes, format, left, top), format, wide), wide


def _mapped(
    boxes: Tensor, format: BoundingBoxFormat, canvas: _Canvas, move: Callable[[Tensor], Tensor], shift: Any = None
) -> Tensor:
    """The boxes around the moved corners of boxes, cut at the borders of a canvas."""
    real = boxes if boxes.dtype.category == FLOATING else boxes.to(float32)
    x1, y1, x2, y2 = to_corners(real, format).unbind(-1)
    corners = ops.stack([x1, y1, x2, y1, x2, y2, x1, y2], -1).reshape(-1, 2)
    moved = move(corners).reshape(-1, 4, 2)
    if shift is not None:
        moved = moved - shift
    around = ops.cat([moved.amin(1), moved.amax(1)], -1)
    return clamp(from_corners(around, format), format, canvas).to(boxes.dtype)


def _forward(matrix: Sequence[float]) -> Tensor:
    """The map of which a matrix of six numbers is the inverse, (3, 2), for points as rows."""
    rows = ops.tensor([list(matrix[:3]), list(matrix[3:]), [0.0, 0.0, 1.0]], dtype=float64)
    return ops.linalg_inv(rows)[:2].T


def _by_matrix(
    boxes: Tensor, format: BoundingBoxFormat, canvas: _Canvas, matrix: Sequence[float], expand: bool
) -> _Result:
    forward = _forward(matrix).to(device=boxes.device)

    def move(points: Tensor) -> Tensor:
        flat = ops.cat([points.to(float64), ops.ones_like(points[:, :1]).to(float64)], -1)
        return (flat @ forward).to(points.dtype)

    if not expand:
        return _mapped(boxes, format, canvas, move), canvas
    height, width = canvas
    frame = move(ops.tensor([[0.0, 0.0], [0.0, height], [width, height], [width, 0.0]], device=boxes.device))
    new_width, new_height = (math.ceil(round(n, 4)) for n in (frame.amax(0) - frame.amin(0)).tolist())
    return _mapped(boxes, format, (new_height, new_width), move, frame.amin(0)), (new_height, new_width)


def rotate(
    boxes: Tensor,
    format: BoundingBoxFormat,
    canvas: _Canvas,
    angle: float,
    interpolation: Any = None,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Any = None,
) -> _Result:
    middle = [canvas[1] * 0.5, canvas[0] * 0.5] if center is None or expand else list(center)
    matrix = F_t.inverse_affine_matrix(middle, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    return _by_matrix(boxes, format, canvas, matrix, expand)


def affine(
    boxes: Tensor,
    format: BoundingBoxFormat,
    canvas: _Canvas,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Any,
    interpolation: Any = None,
    fill: Any = None,
    center: Sequence[float] | None = None,
) -> _Result:
    angle, translate, scale, shear = F1.affine_arguments(angle, translate, scale, shear, center)
    middle = [canvas[1] * 0.5, canvas[0] * 0.5] if center is None else list(center)
    matrix = F_t.inverse_affine_matrix(middle, angle, translate, scale, shear)
    return _by_matrix(boxes, format, canvas, matrix, False)


def perspective(
    boxes: Tensor,
    format: BoundingBoxFormat,
    canvas: _Canvas,
    startpoints: Any,
    endpoints: Any,
    interpolation: Any = None,
    fill: Any = None,
    coefficients: Sequence[float] | None = None,
) -> _Result:
    numbers = coefficients or F1.perspective_coefficients(startpoints, endpoints)
    inverse = ops.linalg_inv(ops.tensor([*numbers, 1.0], dtype=float64).reshape(3, 3))

    def move(points: Tensor) -> Tensor:
        flat = ops.cat([points, ops.ones_like(points[:, :1])], -1) @ inverse.T.to(points.dtype)
        return flat[:, :2] / flat[:, 2:]

    return _mapped(boxes, format, canvas, move), canvas


def elastic(
    boxes: Tensor,
    format: BoundingBoxFormat,
    canvas: _Canvas,
    displacement: Tensor,
    interpolation: Any = None,
    fill: Any = None,
) -> _Result:
    """Moves corners against the displacement at their pixels: near enough to its inverse where it is smooth."""
    height, width = canvas
    inverse = (F_t.identity_grid(canvas, boxes.device) - displacement.to(boxes.device))[0]

    def move(points: Tensor) -> Tensor:
        x = points[:, 0].ceil().long().clamp(0, width - 1)
        y = points[:, 1].ceil().long().clamp(0, height - 1)
        size = ops.tensor([width, height], dtype=points.dtype, device=points.device)
        return (inverse[y, x].to(points.dtype) + 1) * 0.5 * size - 0.5

    return _mapped(boxes, format, canvas, move), canvas
