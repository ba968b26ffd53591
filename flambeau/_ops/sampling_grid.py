"""Sampling of images and volumes at the points of a grid, and the grids of affine maps."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._backend.cpu import cpu
from .._core.allocation import empty
from .._core.dtypes import BY_NUMPY, FLOATING, bool_, int64
from .._core.state import GRAD
from .._kernel.sampling import sample_cubic, sample_cubic_backward, sample_linear, sample_linear_backward
from .._tensor import Tensor
from .primitive import primitive
from .registry import labelled, ops, public
from .replay import second
from .rules import not_implemented

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _unnormalized(x: Tensor, size: int, align: bool) -> Tensor:
    """From [-1, 1] to places in the input."""
    return (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2


def _clipped(x: Tensor, size: int) -> Tensor:
    """Within the input; without a gradient from the edge on."""
    inside = ops.logical_and(x > 0, x < size - 1)
    return ops.where(inside, x, ops.detach(ops.clamp(x, 0, size - 1)))  # type: ignore[no-any-return]


def _reflected(x: Tensor, size: int, align: bool) -> Tensor:
    """Folded back at the borders: the centres of the outermost elements, or their outer edges."""
    low, span = (0.0, float(size - 1)) if align else (-0.5, float(size))
    if span == 0:
        return ops.zeros_like(x)  # type: ignore[no-any-return]
    x = ops.abs(x - low)
    flips = ops.detach(ops.floor(x / span))
    rest = x - flips * span
    return ops.where(ops.remainder(flips, 2) == 0, rest + low, span - rest + low)  # type: ignore[no-any-return]


def _padded(x: Tensor, size: int, padding: str, align: bool) -> Tensor:
    if padding == "border":
        return _clipped(x, size)
    if padding == "reflection":
        return _clipped(_reflected(x, size, align), size)
    return x


def _at(flat: Tensor, places: Sequence[Tensor], sizes: Sequence[int], points: tuple[int, ...]) -> Tensor:
    """The values (N, C, …) at integral places, zero outside."""
    inside, index = None, None
    for place, size in zip(places, sizes):
        here = ops.logical_and(place >= 0, place <= size - 1)
        inside = here if inside is None else ops.logical_and(inside, here)
        whole = ops.to_dtype(ops.where(here, place, ops.zeros_like(place)), int64)
        index = whole if index is None else index * size + whole
    n, c = flat._array.shape[:2]
    spread = ops.expand(ops.reshape(index, (n, 1, math.prod(points))), (n, c, math.prod(points)))
    values = ops.reshape(ops.gather(flat, 2, spread), (n, c, *points))
    return values * ops.to_dtype(ops.unsqueeze(inside, 1), values.dtype)  # type: ignore[no-any-return]


def _linear(flat: Tensor, places: list[Tensor], sizes: Sequence[int], points: tuple[int, ...]) -> Tensor:
    lows = [ops.detach(ops.floor(p)) for p in places]
    total = None
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight = None
        for p, low, step in zip(reversed(places), reversed(lows), reversed(corner)):
            share = p - low if step else low + 1 - p
            weight = share if weight is None else weight * share
        part = _at(flat, [low + step for low, step in zip(lows, corner)], sizes, points) * ops.unsqueeze(weight, 1)
        total = part if total is None else total + part
    return total  # type: ignore[return-value]


def _formula(flat: Tensor, places: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """What the kernels compute, over tensors."""
    return _linear(flat, list(ops.unbind(places, 1)), sizes, places._array.shape[2:])


def _linear_gradients(g: Tensor, x: Tensor, places: Tensor, sizes: Any, needs: Any) -> Any:
    return sample_linear_back(g, x, places, sizes, tuple(needs))


@primitive(
    tensors=2, name="sample_linear", grad=_linear_gradients,
    meta=lambda x, places, sizes: ((*x.shape[:2], places.shape[2]), BY_NUMPY[x.dtype]),
)  # fmt: skip
def sample_linear_op(backend: Any, x: Any, places: Any, sizes: tuple[int, ...]) -> Any:
    """The values of (N, C, elements) at places (N, rank, P): (N, C, P)."""
    out, code = empty((*x.shape[:2], places.shape[2]), x.dtype), BY_NUMPY[x.dtype].code
    call = cpu.kernel(sample_linear, (code, "i64", code, code), rank=len(sizes))
    _by_samples(call, [x, places], [out], sizes, out.size)
    return out


def _second(gs: Any, cotangent: Tensor, x: Tensor, places: Tensor, sizes: Any, used: Any, needs: Any) -> Any:
    return second(lambda x, places: _formula(x, places, sizes), [x, places], cotangent, used, gs, needs)


@primitive(tensors=3, name="sample_linear_backward", grad=_second)
def sample_linear_back(backend: Any, cotangent: Any, x: Any, places: Any, sizes: tuple[int, ...], used: Any) -> Any:
    """The gradients by the input and the places, as far as they are `used`."""
    by_x, by_places, code = empty(x.shape, x.dtype), empty(places.shape, places.dtype), BY_NUMPY[x.dtype].code
    call = cpu.kernel(sample_linear_backward, (code, "i64", code, code, code, code), rank=len(sizes))
    _by_samples(call, [x, places, cotangent], [by_x, by_places], sizes, cotangent.size)
    return tuple(made if need else None for made, need in zip((by_x, by_places), used))


def _by_samples(call: Any, arrays: list[Any], outs: list[Any], sizes: tuple[int, ...], points: int) -> None:
    first, *rest = [np.ascontiguousarray(a) for a in arrays]
    extents = np.broadcast_to(np.array(sizes, np.int64), (len(first), len(sizes)))
    cpu.rows(call, [first, extents, *rest], outs, points << len(sizes) + 1)


def _cubic_weights(t: Tensor) -> list[Tensor]:
    """The weights of the four neighbours, from the distance to the second of them."""
    a = -0.75
    one = t + 1
    far = ((a * one - 5 * a) * one + 8 * a) * one - 4 * a
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    back = 1 - t
    other = ((a + 2) * back - (a + 3)) * back * back + 1
    two = back + 1
    last = ((a * two - 5 * a) * two + 8 * a) * two - 4 * a
    return [far, near, other, last]


def _cubic(flat: Tensor, parts: Tensor, taps: Tensor, sizes: Sequence[int]) -> Tensor:
    """Values at fractions (N, 2, P) between elements; `taps` (N, 8, P) are the rows and columns of the sixteen around."""
    points = parts._array.shape[2:]
    down, across = (_cubic_weights(t) for t in ops.unbind(parts, 1))
    lines = ops.unbind(taps, 1)
    total = None
    for i in range(4):
        row = None
        for j in range(4):
            part = _at(flat, [lines[i], lines[4 + j]], sizes, points) * ops.unsqueeze(across[j], 1)
            row = part if row is None else row + part
        row = row * ops.unsqueeze(down[i], 1)
        total = row if total is None else total + row
    return total  # type: ignore[return-value]


def _cubic_gradients(g: Tensor, x: Tensor, parts: Tensor, taps: Tensor, sizes: Any, needs: Any) -> Any:
    return (*sample_cubic_back(g, x, parts, taps, sizes, tuple(needs[:2])), None)


@primitive(
    tensors=3, name="sample_cubic", grad=_cubic_gradients,
    meta=lambda x, parts, taps, sizes: ((*x.shape[:2], parts.shape[2]), BY_NUMPY[x.dtype]),
)  # fmt: skip
def sample_cubic_op(backend: Any, x: Any, parts: Any, taps: Any, sizes: tuple[int, ...]) -> Any:
    out, code = empty((*x.shape[:2], parts.shape[2]), x.dtype), BY_NUMPY[x.dtype].code
    call = cpu.kernel(sample_cubic, (code, "i64", code, code, code))
    _by_samples(call, [x, parts, taps], [out], sizes, out.size << 2)
    return out


def _cubic_second(
    gs: Any, cotangent: Tensor, x: Tensor, parts: Tensor, taps: Tensor, sizes: Any, used: Any, needs: Any
) -> Any:
    found = second(lambda x, parts: _cubic(x, parts, taps, sizes), [x, parts], cotangent, used, gs, needs[:3])
    return [*found, None]


@primitive(tensors=4, name="sample_cubic_backward", grad=_cubic_second)
def sample_cubic_back(
    backend: Any, cotangent: Any, x: Any, parts: Any, taps: Any, sizes: tuple[int, ...], used: Any
) -> tuple[Any, Any]:
    """The gradients by the input and the fractions, as far as they are `used`."""
    by_x, by_parts, code = empty(x.shape, x.dtype), empty(parts.shape, parts.dtype), BY_NUMPY[x.dtype].code
    call = cpu.kernel(sample_cubic_backward, (code, "i64", code, code, code, code, code))
    _by_samples(call, [x, parts, taps, cotangent], [by_x, by_parts], sizes, cotangent.size << 2)
    return (by_x if used[0] else None), (by_parts if used[1] else None)


def _sample(input: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    shape, points = input._array.shape, grid._array.shape[1:-1]
    sizes = shape[2:]
    rank = len(sizes)
    if input.dtype is not grid.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have same dtype, but input has {input.dtype} and grid has {grid.dtype}"
        )
    if len(grid._array.shape) != rank + 2 or grid._array.shape[0] != shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size and rank, but got input with sizes "
            f"{list(shape)} and grid with sizes {list(grid._array.shape)}"
        )
    if grid._array.shape[-1] != rank:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {rank} in last dimension, but got {list(grid._array.shape)}"
        )
    if any(n == 0 for n in sizes):
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but got {list(shape)}"
        )
    if mode == "bicubic" and rank != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input.dtype.category != FLOATING:
        raise not_implemented("grid_sampler_cpu", input.dtype)
    flat = ops.reshape(input, (*shape[:2], math.prod(sizes)))
    # the last dimension of the grid counts from the innermost dimension of the input
    places = [_unnormalized(ops.select(grid, -1, rank - 1 - i), n, align) for i, n in enumerate(sizes)]
    plain = not (input._k | grid._k) & ~GRAD and input._array.size > 0 and grid._array.size > 0  # what the kernels know
    if mode == "bicubic":
        lows = [ops.detach(ops.floor(p)) for p in places]
        taps = [_padded(low + (k - 1), n, padding, align) for low, n in zip(lows, sizes) for k in range(4)]
        parts = ops.reshape(ops.stack([p - low for p, low in zip(places, lows)], 1), (shape[0], 2, math.prod(points)))
        taps = ops.reshape(ops.stack(taps, 1), (shape[0], 8, math.prod(points)))
        made = sample_cubic_op(flat, parts, taps, tuple(sizes)) if plain else _cubic(flat, parts, taps, sizes)
        return ops.reshape(made, (*shape[:2], *points))  # type: ignore[no-any-return]
    places = [_padded(p, n, padding, align) for p, n in zip(places, sizes)]
    if mode == "nearest":
        values = _at(flat, [ops.round(ops.detach(p)) for p in places], sizes, points)
        for p in places:  # its gradient is zero, but it has one
            values = ops.where(ops.ones_like(values, dtype=bool_), values, ops.unsqueeze(p, 1))
        return values
    if not plain:
        return _linear(flat, places, sizes, points)
    stacked = ops.reshape(ops.stack(places, 1), (shape[0], rank, math.prod(points)))
    return ops.reshape(sample_linear_op(flat, stacked, tuple(sizes)), (*shape[:2], *points))  # type: ignore[no-any-return]


def _grid_label(out: Tensor, *args: Any, **named: Any) -> str:
    return f"GridSampler{out._array.ndim - 2}DBackward0"


@public("nn.functional.grid_sample", method=False)
@labelled(_grid_label)
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
        warnings.warn("grid_sample: align_corners is False unless it is given.", UserWarning, stacklevel=3)
    if input._array.ndim not in (4, 5):
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input, but got input with sizes {list(input._array.shape)}"
        )
    return _sample(input, grid, mode, padding_mode, bool(align_corners))


@public(method=False)
@labelled(_grid_label)
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with numbers for its modes."""
    if input._array.ndim not in (4, 5):
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input, but got input with sizes {list(input._array.shape)}"
        )
    return _sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


@public(method=False)
@labelled(_grid_label)
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of images."""
    return _sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


@public(method=False)
@labelled(_grid_label)
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of volumes."""
    return _sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


@public(method=False)
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """The grid of an affine map: where each point of an output of `size` lies in the input."""
    n, _, *sizes = size
    lines = []
    for extent in sizes:
        line = ops.linspace(-1, 1, extent, dtype=theta.dtype, device=theta.device)  # type: ignore[attr-defined]
        if extent == 1:
            line = ops.zeros_like(line)
        lines.append(line if align_corners else line * ((extent - 1) / extent))
    parts = [
        ops.expand(ops.reshape(line, [-1 if i == j else 1 for j in range(len(sizes))]), sizes)
        for i, line in enumerate(lines)
    ]
    parts = [*reversed(parts), ops.ones_like(parts[0])]
    base = ops.reshape(ops.stack(parts, -1), (1, -1, len(sizes) + 1))
    base = ops.expand(base, (n, *base._array.shape[1:]))
    return ops.reshape(ops.bmm(base, ops.transpose(theta, 1, 2)), (n, *sizes, len(sizes)))  # type: ignore[no-any-return]


@public("nn.functional.affine_grid", method=False)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid for `grid_sample` that a stack of affine matrices (N, 2, 3) or (N, 3, 4) stands for.

    >>> import flambeau as torch
    >>> torch.nn.functional.affine_grid(torch.eye(2, 3).unsqueeze(0), (1, 1, 1, 2), align_corners=True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    if align_corners is None:
        warnings.warn("affine_grid: align_corners is False unless it is given.", UserWarning, stacklevel=3)
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
    return affine_grid_generator(theta, size, bool(align_corners))
