"""Fixed-size features of boxes: RoIAlign and RoIPool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import nn
from ..._core.dtypes import BY_NUMPY, FLOATING, float32, float64, int32, int64
from ..._core.state import modes
from ..._ops.records.primitive import primitive
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn.modules.utils import _pair
from . import _kernels
from .boxes import operator

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


def _checked(name: str, input: Tensor, boxes: _Boxes, output_size: Any) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """The input and the rois in a dtype that the kernels know, and the size of the results."""
    if input.ndim != 4:
        raise RuntimeError(f"{name}: expected an input (N, C, H, W), got {input.ndim} dimensions")
    rois = _as_rois(boxes)
    if rois.dtype is not input.dtype:
        raise RuntimeError(f"{name}: expected boxes of the input's dtype {input.dtype}, got {rois.dtype}")
    if input.dtype.category != FLOATING:
        raise RuntimeError(f"{name}: expected a floating dtype, got {input.dtype}")
    height, width = _pair(output_size)
    rois = rois.detach()
    if input.dtype not in (float32, float64):
        input, rois = input.to(float32), rois.to(float32)
    return input, rois, (height, width)


def _on_host(name: str, backend: Any, rois: Any, images: int) -> tuple[Any, Any]:
    """The image of each box, and its corners (K, 4)."""
    array = backend.asnumpy(rois)
    numbers = array[:, 0]
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < images):
        raise RuntimeError(f"{name}: a box names an image that is not among the {images} of the input")
    return numbers.astype(np.int64), array[:, 1:]


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


def _tables(
    backend: Any, rois: Any, shape: tuple[int, ...], bins: tuple[int, int], scale: float, samples: int, aligned: bool
) -> list[Any]:
    """For each box its image, how many taps each bin has down and across, and those taps with their weights."""
    image, corners = _on_host("roi_align", backend, rois, shape[0])
    real = corners.dtype.type
    corners = corners * real(scale) - real(0.5 if aligned else 0.0)
    (left, top), (across, down) = corners[:, :2].T, (corners[:, 2:] - corners[:, :2]).T
    if not aligned:
        across, down = np.maximum(across, real(1)), np.maximum(down, real(1))
    row, row_weight, rows = _taps(top, down, bins[0], samples, shape[2])
    column, column_weight, columns = _taps(left, across, bins[1], samples, shape[3])
    return [backend.xp.asarray(t) for t in (image, rows, columns, row, row_weight, column, column_weight)]


def _types(array: Any) -> tuple[str, ...]:
    code = BY_NUMPY[array.dtype].code
    return (code, "i64", "i64", "i64", "i64", code, "i64", code, code)


@primitive(
    tensors=2, name="roi_align",
    grad={
        "x": lambda g, rois, x_shape, bins, scale, samples, aligned: _spread_op(
            g, rois, x_shape, bins, scale, samples, aligned
        )
    },
    meta=lambda x, rois, bins, *rest: ((rois.shape[0], x.shape[1], *bins), BY_NUMPY[x.dtype]),
)  # fmt: skip
def _align_op(backend: Any, x: Any, rois: Any, bins: tuple[int, int], scale: float, samples: int, aligned: bool) -> Any:
    """Sums of pixels by tables of taps; its derivative is the same in reverse."""
    tables = [t[:, None] for t in _tables(backend, rois, x.shape, bins, scale, samples, aligned)]
    out = backend.empty((len(rois), x.shape[1], *bins), x.dtype)
    if out.size:
        planes = backend.xp.swapaxes(x, 0, 1)[None]
        backend.sized(out.size * 16, _kernels.sample, _types(x))(planes, *tables, out)
    return out


@primitive(
    tensors=2, name="roi_align_backward",
    grad={
        "g": lambda g, rois, bins, scale, samples, aligned: _align_op(g, rois, bins, scale, samples, aligned)
    },
    meta=lambda g, rois, shape, *rest: (tuple(shape), BY_NUMPY[g.dtype]),
)  # fmt: skip
def _spread_op(
    backend: Any, g: Any, rois: Any, shape: Any, bins: tuple[int, int], scale: float, samples: int, aligned: bool
) -> Any:
    """The gradient of `_align_op` by its input of this shape."""
    n, channels, height, width = shape
    out = backend.zeros((channels, n, height, width), g.dtype)
    if g.size:
        tables = [t[None] for t in _tables(backend, rois, shape, bins, scale, samples, aligned)]
        given = [backend.xp.swapaxes(g, 0, 1), *tables]
        backend.sized(g.size * 16, _kernels.spread, _types(g))(*given, out)
    return backend.xp.ascontiguousarray(backend.xp.swapaxes(out, 0, 1))


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
    if modes.overrides:  # traces and other watchers know the operator
        height, width = _pair(output_size)
        return operator("roi_align")(input, _as_rois(boxes), spatial_scale, height, width, sampling_ratio, aligned)
    return align(input, boxes, output_size, spatial_scale, sampling_ratio, aligned)


def align(
    input: Tensor, boxes: _Boxes, output_size: Any, spatial_scale: float, sampling_ratio: int, aligned: bool
) -> Tensor:
    """What `roi_align` computes."""
    x, rois, bins = _checked("roi_align", input, boxes, output_size)
    return _align_op(x, rois, bins, float(spatial_scale), int(sampling_ratio), bool(aligned)).to(input.dtype)


def _windows(start: Any, end: Any, count: int, size: int) -> Any:
    """The pixels of each bin along one dimension, (K, count, 2): from, and up to."""
    with np.errstate(invalid="ignore", over="ignore"):
        first, last = (np.where(np.isfinite(v), np.trunc(v + np.copysign(0.5, v)), 0) for v in (start, end))
        bins = np.maximum(last - first + 1, 1).astype(start.dtype) / start.dtype.type(count)
        edges = np.arange(count + 1, dtype=start.dtype) * bins[:, None]
        low, high = np.floor(edges[:, :-1]) + first[:, None], np.ceil(edges[:, 1:]) + first[:, None]
    return np.stack([low.clip(0, size), high.clip(0, size)], -1).astype(np.int64)


@primitive(
    tensors=2, name="roi_pool_places", differentiable=False,
    meta=lambda x, rois, bins, scale: ((x.shape[1], rois.shape[0], *bins), int64),
)  # fmt: skip
def _places_op(backend: Any, x: Any, rois: Any, bins: tuple[int, int], scale: float) -> Any:
    """Where the largest pixel of each bin lies in its channel's plane of all images, (C, K, *bins); -1: an empty bin."""
    image, corners = _on_host("roi_pool", backend, rois, x.shape[0])
    corners = corners * corners.dtype.type(scale)
    index = backend.empty((x.shape[1], len(image), *bins), np.int64)
    if index.size:
        down = _windows(corners[:, 1], corners[:, 3], bins[0], x.shape[2])
        across = _windows(corners[:, 0], corners[:, 2], bins[1], x.shape[3])
        given = [backend.xp.swapaxes(x, 0, 1)[:, None], *[backend.xp.asarray(t)[None] for t in (image, down, across)]]
        types = (BY_NUMPY[x.dtype].code, "i64", "i64", "i64", "i64")
        backend.sized(index.size * 16, _kernels.largest, types)(*given, index)
    return index


def roi_pool(input: Tensor, boxes: _Boxes, output_size: int | Sequence[int], spatial_scale: float = 1.0) -> Tensor:
    """The features (K, C, *output_size) of K boxes: the largest value in each bin, zero where a bin is empty."""
    if modes.overrides:
        return operator("roi_pool")(input, _as_rois(boxes), spatial_scale, *_pair(output_size))[0]
    return pool_with_places(input, boxes, output_size, spatial_scale)[0]


def pool_with_places(
    input: Tensor, boxes: _Boxes, output_size: int | Sequence[int], spatial_scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """`roi_pool`, and where in its plane each value was found (-1: an empty bin)."""
    x, rois, (height, width) = _checked("roi_pool", input, boxes, output_size)
    n, channels, h, w = x.shape
    places = _places_op(x.detach(), rois, (height, width), float(spatial_scale)).reshape(channels, -1)
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
    input: Tensor, boxes: _Boxes, output_size: int | Sequence[int], spatial_scale: float = 1.0, sampling_ratio: int = -1
) -> Tensor:
    """`roi_align` where every bin has channels of its own: C / (height * width) channels remain.

    >>> import flambeau as torch
    >>> ps_roi_align(torch.arange(64.0).view(1, 4, 4, 4), [torch.tensor([[1.0, 1.0, 3.0, 3.0]])], 2).flatten()
    tensor([ 5., 22., 41., 58.])
    """
    if modes.overrides:
        height, width = _pair(output_size)
        return operator("ps_roi_align")(input, _as_rois(boxes), spatial_scale, height, width, sampling_ratio)[0]
    return align_each(input, boxes, output_size, spatial_scale, sampling_ratio)


def align_each(input: Tensor, boxes: _Boxes, output_size: Any, spatial_scale: float, sampling_ratio: int) -> Tensor:
    """What `ps_roi_align` computes."""
    height, width = _pair(output_size)
    if input.shape[1] % (height * width):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    every = align(input, boxes, (height, width), spatial_scale, sampling_ratio, True)
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
