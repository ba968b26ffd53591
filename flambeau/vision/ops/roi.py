"""Fixed-size features of boxes: RoIAlign and RoIPool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import nn
from ..._core.dtypes import BY_NUMPY, FLOATING, float32, float64, int32, int64
from ..._core.state import GRAD
from ..._dispatch import backend_of
from ..._ops.registry import ops
from ..._tensor import Tensor, wrap
from ...autograd import Function
from . import _kernels

_Boxes = Tensor | Sequence[Tensor]


def _as_rois(boxes: _Boxes) -> Tensor:
    """Boxes as one tensor (K, 5): the image's number, then two corners."""
    if isinstance(boxes, Tensor):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise AssertionError("The boxes tensor shape is not correct as Tensor[K, 5]")
        return boxes
    for part in boxes:
        if part.ndim != 2 or part.shape[1] != 4:
            raise AssertionError("The shape of the tensor in the boxes list is not correct as List[Tensor[L, 4]]")
    numbers = [ops.full_like(part[:, :1], i) for i, part in enumerate(boxes)]
    return ops.cat([ops.cat(numbers), ops.cat(list(boxes))], 1)


def _checked(name: str, input: Tensor, boxes: _Boxes, output_size: Any) -> tuple[Tensor, Any, tuple[int, int]]:
    """The input, the rois as an array of the host, and the size of the results."""
    if input.ndim != 4:
        raise RuntimeError(f"{name}: expected an input (N, C, H, W), got {input.ndim} dimensions")
    rois = _as_rois(boxes)
    if rois.dtype is not input.dtype:
        raise RuntimeError(f"{name}: expected boxes of the input's dtype {input.dtype}, got {rois.dtype}")
    if input.dtype.category != FLOATING:
        raise RuntimeError(f"{name}: expected a floating dtype, got {input.dtype}")
    array = rois.detach().to(float64 if input.dtype is float64 else float32).cpu().numpy()
    numbers = array[:, 0]
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < input.shape[0]):
        raise RuntimeError(f"{name}: a box names an image that is not among the {input.shape[0]} of the input")
    height, width = (output_size, output_size) if isinstance(output_size, int) else output_size
    return input, array, (height, width)


def _taps(start: Any, length: Any, count: int, samples: int, size: int) -> tuple[Any, Any, Any]:
    """Where bins along one dimension take their pixels (K, count, taps), with which weights, and how many taps count.

    Every sample lies between two pixels, so it has two taps; the mean over a bin's samples is in the weights.
    """
    real = start.dtype.type
    with np.errstate(invalid="ignore", over="ignore"):
        bins = length / real(count)
        wanted = np.full(len(start), samples) if samples > 0 else np.ceil(length / real(count))
        wanted = np.where(np.isfinite(start + length), wanted, 0).astype(np.int64).clip(0)
        most = int(wanted.max(initial=0))
        share = (np.arange(most, dtype=start.dtype) + real(0.5)) / np.maximum(wanted, 1).astype(start.dtype)[:, None]
        first = start[:, None] + np.arange(count, dtype=start.dtype) * bins[:, None]
        place = first[:, :, None] + (share * bins[:, None])[:, None, :]  # (K, count, samples)
        inside = (place >= -1.0) & (place <= size)
    place = np.where(inside, place, 0).clip(0, size - 1)
    low = place.astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    weight = inside / np.maximum(wanted, 1).astype(start.dtype)[:, None, None]
    upper = (place - low).astype(start.dtype) * weight
    index = np.stack([low, high], -1).reshape(len(start), count, 2 * most)
    weights = np.stack([weight - upper, upper], -1).reshape(index.shape).astype(start.dtype)
    return np.ascontiguousarray(index), np.ascontiguousarray(weights), 2 * wanted


class _Align(Function):
    """Sums of pixels by tables of taps; its derivative is the same in reverse."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tables: Any, bins: tuple[int, int]) -> Tensor:
        ctx.tables, ctx.bins, ctx.shape = tables, bins, x.shape
        backend, array = backend_of(x._k), x._array
        image, *rest = tables = [backend.xp.asarray(t)[:, None] for t in tables]
        out = backend.xp.empty((len(image), array.shape[1], *bins), array.dtype)
        if out.size:
            code = BY_NUMPY[array.dtype].code
            types = (code, "i64", "i64", "i64", "i64", code, "i64", code, code)
            planes = backend.xp.swapaxes(array, 0, 1)[None]
            backend.rows(backend.kernel(_kernels.sample, types), [planes, image, *rest], [out], out.size * 16)
        return wrap(out, x.dtype, x._k & ~GRAD)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        return _Spread.apply(g, ctx.tables, ctx.bins, ctx.shape), None, None


class _Spread(Function):
    @staticmethod
    def forward(ctx: Any, g: Tensor, tables: Any, bins: tuple[int, int], shape: tuple[int, ...]) -> Tensor:
        ctx.tables, ctx.bins = tables, bins
        backend, array = backend_of(g._k), g._array
        n, channels, height, width = shape
        out = backend.xp.zeros((channels, n, height, width), array.dtype)
        if array.size:
            code = BY_NUMPY[array.dtype].code
            types = (code, "i64", "i64", "i64", "i64", code, "i64", code, code)
            given = [backend.xp.swapaxes(array, 0, 1), *[backend.xp.asarray(t)[None] for t in tables]]
            backend.rows(backend.kernel(_kernels.spread, types), given, [out], array.size * 16)
        return wrap(backend.xp.ascontiguousarray(backend.xp.swapaxes(out, 0, 1)), g.dtype, g._k & ~GRAD)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        return _Align.apply(g, ctx.tables, ctx.bins), None, None, None


def roi_align(
    input: Tensor,
    boxes: _Boxes,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """The features (K, C, *output_size) of K boxes: means of bilinear samples in each bin.

    >>> import flambeau as torch
    >>> roi_align(torch.arange(16.0).view(1, 1, 4, 4), [torch.tensor([[0.0, 0.0, 2.0, 2.0]])], 1, aligned=True)
    tensor([[[[2.5000]]]])
    """
    input, rois, (height, width) = _checked("roi_align", input, boxes, output_size)
    real = rois.dtype.type
    corners = rois[:, 1:] * real(spatial_scale) - real(0.5 if aligned else 0.0)
    (left, top), (across, down) = corners[:, :2].T, (corners[:, 2:] - corners[:, :2]).T
    if not aligned:
        across, down = np.maximum(across, real(1)), np.maximum(down, real(1))
    row, row_weight, rows = _taps(top, down, height, sampling_ratio, input.shape[2])
    column, column_weight, columns = _taps(left, across, width, sampling_ratio, input.shape[3])
    tables = (rois[:, 0].astype(np.int64), rows, columns, row, row_weight, column, column_weight)
    x = input if input.dtype in (float32, float64) else input.to(float32)
    return _Align.apply(x, tables, (height, width)).to(input.dtype)


def _windows(start: Any, end: Any, count: int, size: int) -> Any:
    """The pixels of each bin along one dimension, (K, count, 2): from, and up to."""
    with np.errstate(invalid="ignore", over="ignore"):
        first, last = (np.where(np.isfinite(v), np.trunc(v + np.copysign(0.5, v)), 0) for v in (start, end))
        bins = np.maximum(last - first + 1, 1).astype(start.dtype) / start.dtype.type(count)
        edges = np.arange(count + 1, dtype=start.dtype) * bins[:, None]
        low, high = np.floor(edges[:, :-1]) + first[:, None], np.ceil(edges[:, 1:]) + first[:, None]
    return np.stack([low.clip(0, size), high.clip(0, size)], -1).astype(np.int64)


def roi_pool(input: Tensor, boxes: _Boxes, output_size: int | Sequence[int], spatial_scale: float = 1.0) -> Tensor:
    """The features (K, C, *output_size) of K boxes: the largest value in each bin, zero where a bin is empty."""
    return pool_with_places(input, boxes, output_size, spatial_scale)[0]


def pool_with_places(
    input: Tensor, boxes: _Boxes, output_size: int | Sequence[int], spatial_scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """`roi_pool`, and where in its plane each value was found (-1: an empty bin)."""
    input, rois, (height, width) = _checked("roi_pool", input, boxes, output_size)
    corners = rois[:, 1:] * rois.dtype.type(spatial_scale)
    x = input if input.dtype in (float32, float64) else input.to(float32)
    n, channels, h, w = x.shape
    tables = [
        rois[:, 0].astype(np.int64),
        _windows(corners[:, 1], corners[:, 3], height, h),
        _windows(corners[:, 0], corners[:, 2], width, w),
    ]
    backend = backend_of(x._k)
    index = backend.xp.empty((channels, len(rois), height, width), np.int64)
    if index.size:
        planes = backend.xp.swapaxes(x._array, 0, 1)[:, None]
        types = (BY_NUMPY[x._array.dtype].code, "i64", "i64", "i64", "i64")
        given = [planes, *[backend.xp.asarray(t)[None] for t in tables]]
        backend.rows(backend.kernel(_kernels.largest, types), given, [index], index.size * 16)
    places = wrap(index, int64, x._k & ~GRAD).reshape(channels, -1)
    if n * h * w == 0:
        empty = ops.zeros((len(rois), channels, height, width), dtype=input.dtype, device=input.device)
        return empty, empty.to(int32) - 1
    values = x.transpose(0, 1).reshape(channels, -1).gather(1, places.clamp(min=0))
    values = values * (places >= 0).to(values.dtype)
    within = ops.where(places >= 0, places % (h * w), -1).to(int32)
    shape = (channels, len(rois), height, width)
    return (
        values.reshape(shape).transpose(0, 1).contiguous().to(input.dtype),
        within.reshape(shape).transpose(0, 1).contiguous(),
    )


class RoIAlign(nn.Module):
    """`roi_align` as a layer."""

    def __init__(
        self, output_size: int | Sequence[int], spatial_scale: float, sampling_ratio: int, aligned: bool = False
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned

    def forward(self, input: Tensor, rois: _Boxes) -> Tensor:
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio}, aligned={self.aligned})"
        )


class RoIPool(nn.Module):
    """`roi_pool` as a layer."""

    def __init__(self, output_size: int | Sequence[int], spatial_scale: float) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale

    def forward(self, input: Tensor, rois: _Boxes) -> Tensor:
        return roi_pool(input, rois, self.output_size, self.spatial_scale)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(output_size={self.output_size}, spatial_scale={self.spatial_scale})"


def ps_roi_align(
    input: Tensor,
    boxes: _Boxes,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> Tensor:
    """`roi_align` where every bin has channels of its own: C / (height * width) channels remain.

    >>> import flambeau as torch
    >>> ps_roi_align(torch.arange(64.0).view(1, 4, 4, 4), [torch.tensor([[1.0, 1.0, 3.0, 3.0]])], 2).flatten()
    tensor([ 5., 22., 41., 58.])
    """
    height, width = (output_size, output_size) if isinstance(output_size, int) else output_size
    if input.shape[1] % (height * width):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    every = roi_align(input, boxes, (height, width), spatial_scale, sampling_ratio, aligned=True)
    parts = every.reshape(every.shape[0], -1, height, width, height, width)
    return parts.diagonal(dim1=2, dim2=4).diagonal(dim1=2, dim2=3).contiguous()


class PSRoIAlign(nn.Module):
    """`ps_roi_align` as a layer."""

    def __init__(self, output_size: int | Sequence[int], spatial_scale: float, sampling_ratio: int) -> None:
        super().__init__()
        self.output_size, self.spatial_scale, self.sampling_ratio = output_size, spatial_scale, sampling_ratio

    def forward(self, input: Tensor, rois: _Boxes) -> Tensor:
        return ps_roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio)

    def __repr__(self) -> str:
        given = ("output_size", "spatial_scale", "sampling_ratio")
        return f"PSRoIAlign({', '.join(f'{name}={getattr(self, name)}' for name in given)})"
