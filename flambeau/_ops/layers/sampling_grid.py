"""Sampling of images and volumes at the points of a grid, and the grids of affine maps."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.allocation import not_planned
from ..._core.config import config
from ..._core.dtypes import BY_NUMPY, FLOATING, bool_, int64
from ..._core.state import CUDA, DISPATCH, GRAD, META, modes
from ..._errors.frames import warn_user
from ..._kernel.images.sampling import (
    curve,
    number_of,
    sample_cubic_backward,
    sample_cubic_point_backward,
    sample_point,
    sample_point_backward,
    sample_points,
    sample_points_backward,
)
from ..._tensor import Tensor, wrap
from ..records.batching import folded
from ..records.primitive import primitive
from ..records.replay import second
from ..records.rules import not_implemented
from ..records.shape_rules import like
from ..registry import ops, public, relabel

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
_FEW_POINTS = 1 << 14  # of grids that are kept


def _unnormalized(x: Tensor, size: int, align: bool) -> Tensor:
    """From [-1, 1] to places in the input."""
    return (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2


def _clipped(x: Tensor, size: int) -> Tensor:
    """Within the input; without a gradient from the edge on."""
    inside = ops.logical_and(x > 0, x < size - 1)
    return ops.where(inside, x, ops.detach(ops.clamp(x, 0, size - 1)))


def _reflected(x: Tensor, size: int, align: bool) -> Tensor:
    """Folded back at the borders: the centres of the outermost elements, or their outer edges."""
    low, span = (0.0, float(size - 1)) if align else (-0.5, float(size))
    if span == 0:
        return ops.zeros_like(x)
    x = ops.abs(x - low)
    flips = ops.detach(ops.floor(x / span))
    rest = x - flips * span
    return ops.where(ops.remainder(flips, 2) == 0, rest + low, span - rest + low)


def _padded(x: Tensor, size: int, padding: str, align: bool) -> Tensor:
    if padding == "border":
        return _clipped(x, size)
    if padding == "reflection":
        return _clipped(_reflected(x, size, align), size)
    return x


def _at(flat: Tensor, places: Sequence[Tensor], sizes: Sequence[int], points: tuple[int, ...]) -> Tensor:
    """The values (N, C, …) at integral places, zero outside."""
    inside: Any = None
    index: Any = None
    for place, size in zip(places, sizes):
        here = ops.logical_and(place >= 0, place <= size - 1)
        inside = here if inside is None else ops.logical_and(inside, here)
        whole = ops.to_dtype(ops.where(here, place, ops.zeros_like(place)), int64)
        index = whole if index is None else index * size + whole
    n, c = flat._array.shape[:2]
    spread = ops.expand(ops.reshape(index, (n, 1, math.prod(points))), (n, c, math.prod(points)))
    values = ops.reshape(ops.gather(flat, 2, spread), (n, c, *points))
    return values * ops.to_dtype(ops.unsqueeze(inside, 1), values.dtype)


def _linear(flat: Tensor, places: list[Tensor], sizes: Sequence[int], points: tuple[int, ...]) -> Tensor:
    lows = [ops.detach(ops.floor(p)) for p in places]
    total = None
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight: Any = None
        for p, low, step in zip(reversed(places), reversed(lows), reversed(corner)):
            share = p - low if step else low + 1 - p
            weight = share if weight is None else weight * share
        part = _at(flat, [low + step for low, step in zip(lows, corner)], sizes, points) * ops.unsqueeze(weight, 1)
        total = part if total is None else total + part
    return total  # type: ignore[return-value]


def _cubic(flat: Tensor, places: list[Tensor], sizes: Sequence[int], points: Any, padding: str, align: bool) -> Tensor:
    lows = [ops.detach(ops.floor(p)) for p in places]
    down, across = (curve(lambda value: value, p - low) for p, low in zip(places, lows))
    rows, columns = ([_padded(low + (k - 1), n, padding, align) for k in range(4)] for low, n in zip(lows, sizes))
    total = None
    for i in range(4):
        row: Any = None
        for j in range(4):
            part = _at(flat, [rows[i], columns[j]], sizes, points) * ops.unsqueeze(across[j], 1)
            row = part if row is None else row + part
        row = row * ops.unsqueeze(down[i], 1)
        total = row if total is None else total + row
    return total  # type: ignore[return-value]


def _formula(input: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    """What the kernels compute, over tensors."""
    shape, points = input._array.shape, grid._array.shape[1:-1]
    sizes, flat = shape[2:], ops.reshape(input, (*shape[:2], math.prod(shape[2:])))
    places = _positions(grid, sizes, align)
    if mode == "bicubic":
        return _cubic(flat, places, sizes, points, padding, align)
    places = [_padded(p, n, padding, align) for p, n in zip(places, sizes)]
    if mode == "bilinear":
        return _linear(flat, places, sizes, points)
    values = _at(flat, [ops.round(ops.detach(p)) for p in places], sizes, points)
    for p in places:  # its gradient is zero, but it has one
        values = ops.where(ops.ones_like(values, dtype=bool_), values, ops.unsqueeze(p, 1))
    return values


def _positions(grid: Tensor, sizes: Sequence[int], align: bool) -> list[Tensor]:
    """Where points lie along each dimension; the grid counts from the innermost one on."""
    last = len(sizes) - 1
    return [_unnormalized(ops.select(grid, -1, last - i), n, align) for i, n in enumerate(sizes)]


# Kernels of the points of an image, and of one of them alone, for devices where each has a thread: forward, backward, and cubic backward.
_FORWARD = sample_points, sample_point
_BACKWARD = (sample_points_backward, sample_point_backward), (sample_cubic_backward, sample_cubic_point_backward)


@functools.lru_cache(256)
def _plan(
    backend: Any, each: bool, x: tuple[int, ...], grid: tuple[int, ...], d: Any,
    mode: str, padding: str, align: bool, used: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """How an image is sampled, with a thread for `each` point or not, or backwards which gradients are `used`: (kernel, numbers that it
    takes)."""
    back = used is not None
    sizes, points, code = x[2:], math.prod(grid[1:-1]), BY_NUMPY[d].code
    work = x[0] * x[1] * points << len(sizes) + 1
    types = (code, "i64", "i64", *(code,) * (4 if back else 2))
    narrow, cubic = d.itemsize == 2, mode == "bicubic"  # those kernels are long: there is one for all
    index = "i32" if math.prod(sizes) < 1 << 31 else "i64"
    options: dict[str, Any] = {"padding": None if narrow or cubic else padding, "index": index}
    if not back or not cubic:
        options |= {"rank": len(sizes), "nearest": mode == "nearest"}
    if not back:
        options["cubic"] = cubic
    elif not cubic:
        options |= {"for_x": used[0] or narrow, "for_grid": used[1] or narrow}
    work <<= 2 * cubic
    kernel = (_BACKWARD[cubic] if back else _FORWARD)[each]
    numbers = np.array(sizes, np.int64), np.array(number_of(padding, align), np.int64)
    for constant in numbers:
        constant.flags.writeable = False
    return backend.sized(work, kernel, types, **options), numbers


def _gradients(g: Tensor, x: Tensor, grid: Tensor, mode: str, padding: str, align: bool, needs: Any) -> Any:
    return sample_back(g, x, grid, mode, padding, align, tuple(needs))


@primitive(
    tensors=2, name="grid_sample", grad=_gradients, backward_name=lambda node: _label(len(node.info[0][0]) - 2),
    meta=lambda x, grid, mode, padding, align: ((*x.shape[:2], *grid.shape[1:-1]), BY_NUMPY[x.dtype]),
    batch=folded(),
)  # fmt: skip
def sample(backend: Any, x: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    """The values of (N, C, …) at the points of a grid."""
    each, (n, c, points) = backend is not cpu, _extents(x, grid)
    call, numbers = _plan(backend, each, x.shape, grid.shape, x.dtype, mode, padding, align)
    out = backend.empty((n, c, *grid.shape[1:-1]), x.dtype)
    image, places = x.reshape(n, c, -1), grid.reshape(n, points, -1)
    if each:  # every channel and point alone
        image, places = image[:, :, None, None], places[:, None, :, None]
    call(image, *map(backend.constant, numbers), places, out.reshape(n, c, points))
    return out


def _extents(x: Any, grid: Any) -> tuple[int, int, int]:
    """How many images, channels and points of each image there are."""
    return x.shape[0], x.shape[1], math.prod(grid.shape[1:-1])


def _second(
    gs: Any, cotangent: Tensor, x: Tensor, grid: Tensor, mode: str, padding: str, align: bool, used: Any, needs: Any
) -> Any:
    return second(lambda x, grid: _formula(x, grid, mode, padding, align), [x, grid], cotangent, used, gs, needs)


@primitive(batch=folded(), meta=like(1, 2, wanted=True), tensors=3, name="grid_sample_backward", grad=_second)
def sample_back(
    backend: Any, cotangent: Any, x: Any, grid: Any, mode: str, padding: str, align: bool, used: Any
) -> Any:
    """The gradients by the input and the grid, as far as they are `used`."""
    each, (n, c, points) = backend is not cpu and not config.deterministic, _extents(x, grid)
    call, numbers = _plan(backend, each, x.shape, grid.shape, x.dtype, mode, padding, align, tuple(used))
    by_x, by_grid = (backend.zeros if each else backend.empty)(x.shape, x.dtype), backend.empty(grid.shape, grid.dtype)
    image, to, g = x.reshape(n, c, -1), by_x.reshape(n, c, -1), cotangent.reshape(n, c, points)
    places, moved = grid.reshape(n, points, -1), by_grid.reshape(n, points, -1)
    if each:  # all channels of every point alone
        image, to, g = image[:, None], backend.shared(to, points, 2), g.swapaxes(1, 2)[..., None]
        places, moved = places[:, :, None], moved[:, :, None]
    call(image, *map(backend.constant, numbers), places, g, to, moved)
    return by_x if used[0] else None, by_grid if used[1] else None


def _sample(input: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    shape = input._array.shape
    sizes = shape[2:]
    rank = len(sizes)
    if input.dtype is not grid.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have same dtype, but input has {input.dtype} and grid has {grid.dtype}"
        )
    _check_sampled(input, grid)
    if len(grid._array.shape) != rank + 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size and rank, but got input with sizes "
            f"{list(shape)} and grid with sizes {list(grid._array.shape)}"
        )
    if 0 in sizes:
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but got {list(shape)}"
        )
    if mode == "bicubic" and rank != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input.dtype.category != FLOATING:
        raise not_implemented("grid_sampler_cpu", input.dtype)
    special = (input._k | grid._k) & ~(GRAD | CUDA)
    if not special and input._array.size > 0 and grid._array.size > 0:  # what the kernels know
        return sample(input, grid, mode, padding, align)
    return relabel(_formula(input, grid, mode, padding, align), _label(rank))


def _label(rank: int) -> str:
    return f"GridSampler{rank}DBackward0"


def _check_sampled(input: Tensor, grid: Tensor) -> None:
    shape, points = input._array.shape, grid._array.shape
    if shape and points and shape[0] != points[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes {list(shape)} and "
            f"grid with sizes {list(points)}"
        )
    if points and points[-1] != len(shape) - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, but got grid with sizes "
            f"{list(points)}"
        )
    if len(shape) not in (4, 5):
        raise RuntimeError(f"grid_sampler(): expected 4D or 5D input, but got input with sizes {list(shape)}")


@public("nn.functional.grid_sample", method=False, planned=True)
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """The values of an image (N, C, H, W) or volume (N, C, D, H, W) at points, given within [-1, 1].

    >>> import flambeau as torch
    >>> image = torch.tensor([[[[1.0, 3.0]]]])
    >>> torch.nn.functional.grid_sample(image, torch.zeros(1, 1, 1, 2), align_corners=True)
    tensor([[[[2.]]]])
    """
    if mode not in _MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'"
        )
    if align_corners is None:
        not_planned()
        warn_user(
            "grid_sample: Default grid_sample and affine_grid behavior has changed to align_corners=False; give the argument."
        )
    _check_sampled(input, grid)
    return _sample(input, grid, mode, padding_mode, bool(align_corners))


@public(method=False)
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with numbers for its modes."""
    _check_sampled(input, grid)
    return _sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


def _define(rank: int, what: str) -> None:
    def sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
        return _sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)

    sampler.__name__ = sampler.__qualname__ = f"grid_sampler_{rank}d"
    sampler.__doc__ = f"`grid_sampler` of {what}."
    public(method=False)(sampler)


_define(2, "images")
_define(3, "volumes")


@public(method=False)
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """The grid of an affine map: where each point of an output of `size` lies in the input."""
    n, _, *sizes = size
    k, rank = theta._k & (CUDA | META), len(sizes)
    points = _base_points if math.prod(sizes) <= _FEW_POINTS else _base_points.__wrapped__
    if (k | modes.on) & (META | DISPATCH):
        base = _points(tuple(sizes), bool(align_corners), theta.dtype, theta.device)
    else:
        base = wrap(points(tuple(sizes), bool(align_corners), theta.dtype, theta.device), theta.dtype, k)
    made = ops.bmm(ops.expand(base, (n, *base._array.shape[1:])), ops.transpose(theta, 1, 2))
    return relabel(ops.reshape(made, (n, *sizes, rank)), "AffineGridGeneratorBackward0")


@functools.lru_cache(32)
def _base_points(sizes: tuple[int, ...], align: bool, d: Any, device: Any) -> Any:
    return _points(sizes, align, d, device)._array


def _points(sizes: tuple[int, ...], align: bool, d: Any, device: Any) -> Tensor:
    """The points (1, points, dimensions + 1) of the grid that stays as it is, with ones at their end."""
    lines = []
    for extent in sizes:
        line = ops.linspace(-1, 1, extent, dtype=d, device=device)
        if extent == 1:
            line = ops.zeros_like(line)
        lines.append(line if align else line * ((extent - 1) / extent))
    parts = [
        ops.expand(ops.reshape(line, [-1 if i == j else 1 for j in range(len(sizes))]), sizes)
        for i, line in enumerate(lines)
    ]
    parts = [*reversed(parts), ops.ones_like(parts[0])]
    return ops.reshape(ops.stack(parts, -1), (1, -1, len(sizes) + 1))


@public("nn.functional.affine_grid", method=False)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid for `grid_sample` that a stack of affine matrices (N, 2, 3) or (N, 3, 4) stands for.

    >>> import flambeau as torch
    >>> torch.nn.functional.affine_grid(torch.eye(2, 3).unsqueeze(0), (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    if align_corners is None:
        not_planned()
        warn_user(
            "affine_grid: Default grid_sample and affine_grid behavior has changed to align_corners=False; give the argument."
        )
    if theta.dtype.category != FLOATING:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    rank = len(size) - 2
    if rank not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{tuple(size)}."
        )
    if theta._array.ndim != 3 or theta._array.shape[1:] != (rank, rank + 1):
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {tuple(size)}. Got {tuple(theta._array.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    if align_corners and min(size[2:]) == 1:
        warn_user(
            "affine_grid: along a dimension of one pixel, align_corners=True puts it at 0, since version 1.3 in the middle "
            "of the span. See the documentation of affine_grid for details."
        )
    return affine_grid_generator(theta, size, bool(align_corners))


SCHEMAS = """
grid_sampler|grid_sampler_2d|grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor  # autocast=cpu:single
affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor
grid_sample  # autocast=cpu:single/cuda:widest, record=grid_sampler_2d
affine_grid  # composite
"""
