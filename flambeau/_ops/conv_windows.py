"""Convolutions of CPU arrays by the kernels of `_kernel/conv.py`: padded planes, offsets of windows, work for threads.

Images are copied once, into planes with zeros around them; strided windows get one plane for each remainder of
their positions, so that neighbouring positions are neighbours in memory there too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np

from .._backend import threads
from .._backend.cpu import native_call
from .._core.allocation import empty
from .._kernel import conv as kernels
from .._kernel.native import pool
from . import conv_columns as by_columns
from . import conv_groups as by_groups
from . import conv_lanes as by_lanes
from . import conv_patches as by_patches
from . import conv_volumes as by_volumes
from . import conv_winograd as by_tiles
from .conv_arrays import Ints, output_size
from .conv_planes import CODES, Pass, Planes, copy, fill, windows_of
from .fused import side_by_side

SMALL = 1 << 18  # products below which laying out windows costs less than these preparations,
SMALL_IN_LANES, FEWEST_IN_LANES = 1 << 12, 3  # or than those for so many channels side by side
_BLOCK = 1 << 17  # elements of results that are made at a time
_PARALLEL = 1 << 20  # products from which a second thread pays
_FEW_CORES = 4  # threads up to which each runs the interpreter for its images
_BYTES_A_CORE = 1 << 22
_LINES = 16  # channels from which images of one dimension stand upright for several threads


@functools.lru_cache(256)
def _adjoint(
    kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, channels: int, size: Ints
) -> tuple[Planes, Ints, list[Pass]]:
    """Planes of a gradient, zeros before it, and a pass for each remainder of places in the image by the stride."""
    before = tuple(d * (k - 1) // s for k, d, s in zip(kernel, dilation, stride))
    extents = tuple((n - 1 + p) // s + 1 + b for n, p, s, b in zip(size, padding, stride, before))
    planes = Planes(extents, [(0,) * len(kernel)], channels)
    passes = []
    for remainder in product(*map(range, stride)):
        first = [max(0, -((r - p) // s)) for r, p, s in zip(remainder, padding, stride)]
        counts = tuple((n - 1 + p - r) // s + 1 - t for n, p, r, s, t in zip(size, padding, remainder, stride, first))
        if min(counts) <= 0:
            continue
        shifts, chosen = [], []
        for number, place in enumerate(product(*map(range, kernel))):
            reach = [k * d - r for k, d, r in zip(place, dilation, remainder)]
            if not any(n % s for n, s in zip(reach, stride)):
                shifts.append(sum((b - n // s) * q for b, n, s, q in zip(before, reach, stride, planes.pitches)))
                chosen.append(number)
        start = sum(t * q for t, q in zip(first, planes.pitches))
        target = tuple(slice(t * s + r - p, None, s) for t, s, r, p in zip(first, stride, remainder, padding))
        passes.append(Pass(start, counts, np.array(shifts, np.int64), np.array(chosen, np.int64), target))
    return planes, before, passes


def _offsets(planes: Planes, channels: int, shifts: Any, itemsize: int) -> Any:
    """Offsets in bytes of all window elements of so many channels."""
    return ((np.arange(channels) * planes.channel)[:, None] + shifts).reshape(-1) * itemsize


def _chunks(count: int, elements: int) -> Iterator[tuple[int, int]]:
    """Ranges of images that are dealt with at a time: several, if they are small."""
    step = max(1, _BLOCK // max(elements, 1))
    for start in range(0, count, step):
        yield start, min(count, start + step)


def _over_images(images: int, work: int, job: Callable[[int, int, int], None]) -> None:
    """job(number, start, stop) for a range of images in each thread, if so many products pay for it."""
    parts = threads.ranges(images) if work >= _PARALLEL else [(0, images)]

    def one(number: int, start: int, stop: int) -> Callable[[], None]:
        return lambda: job(number, start, stop)

    threads.run([one(i, *part) for i, part in enumerate(parts)])


# -- windows times weights -------------------------------------------------------------------------------------------


class _Products:
    """Results of images by passes over their planes; each pass has its weights and offsets."""

    def __init__(self, planes: Planes, passes: list[Pass], weight: Any, groups: int, out: Any, bias: Any):
        self.planes, self.passes, self.groups, self.out, self.bias = planes, passes, groups, out, bias
        self.outputs, self.inputs = weight.shape[0] // groups, weight.shape[1]
        self.code = CODES[weight.dtype]
        self.rows = kernels.tile_rows(self.outputs)
        self.call = kernels.window_products(self.code, self.rows)
        flat = weight.reshape(groups, self.outputs, self.inputs, -1)
        self.weights = [self._panels(flat if len(p.chosen) == flat.shape[-1] else flat[..., p.chosen]) for p in passes]
        self.offsets = [_offsets(planes, self.inputs, p.shifts, weight.itemsize) for p in passes]

    def _panels(self, weight: Any) -> Any:
        """(groups, outputs, inputs, window) as the kernel wants it: (groups, panels, depth, padded rows)."""
        rows, depth = self.rows, weight.shape[2] * weight.shape[3]
        count = -(-self.outputs // rows)
        matrix = weight.reshape(self.groups, self.outputs, depth)
        if count * rows != self.outputs:
            whole = np.zeros((self.groups, count * rows, depth), weight.dtype)
            whole[:, : self.outputs] = matrix
            matrix = whole
        made = np.zeros((self.groups, count, depth, kernels.padded_rows(self.code, rows)), weight.dtype)
        made[..., :rows] = matrix.reshape(self.groups, count, rows, depth).swapaxes(2, 3)
        return made

    def pieces(self, images: int) -> list[tuple[int, int, int, int]]:
        """(pass, group, first and last outermost position) of all that is made at a time."""
        made = []
        for number, p in enumerate(self.passes):
            length = p.counts[p.axis]
            step = max(1, _BLOCK // (self.planes.pitches[p.axis] * self.outputs * images))
            for group, start in product(range(self.groups), range(0, length, step)):
                made.append((number, group, start, min(length, start + step)))
        return made

    def piece(
        self, first: int, buffer: Any, number: int, group: int, start: int, stop: int
    ) -> tuple[Any, Any, Any, Any]:
        """For the images in `buffer`, the first of which has the number `first`: the operands of the kernel, what of its
        result is wanted, where that goes, and the bias."""
        p, planes = self.passes[number], self.planes
        axis, images = p.axis, len(buffer)
        counts = (*p.counts[:axis], stop - start, *p.counts[axis + 1 :])
        channels = slice(group * self.outputs, (group + 1) * self.outputs)
        target = self.out[(slice(first, first + images), channels, *p.target)]
        target = target[(slice(None),) * (2 + axis) + (slice(start, stop),)]
        bias = None if self.bias is None else self.bias[channels]
        if not len(p.chosen):
            return None, None, target, bias
        panels = self.weights[number][group]
        columns = kernels.tile_columns(self.code, self.rows)
        span = -(-planes.span(counts) // columns) * columns
        made = empty((images, len(panels) * self.rows, span), buffer.dtype)
        at = p.start + start * planes.pitches[axis] + group * self.inputs * planes.channel
        n = made.itemsize
        steps = (*made.strides[:2], *(q * n for q in planes.pitches))
        wanted = np.ndarray((images, self.outputs, *counts), made.dtype, made, 0, steps)
        return [panels, buffer[:, at:], self.offsets[number], made], wanted, target, bias

    def run(self, first: int, buffer: Any, *piece: int) -> None:
        """One piece of the images in `buffer`, in this thread."""
        operands, wanted, target, bias = self.piece(first, buffer, *piece)
        if operands is not None:
            self.call(*operands)
        _finish(wanted, target, bias)

    def run_on_all_cores(self, first: int, buffer: Any) -> bool:
        """All pieces of the images in `buffer`, each image a call for the pool; False if the pool cannot take them."""
        found = [self.piece(first, buffer, *piece) for piece in self.pieces(1)]
        calls = []
        for operands, *_ in found:
            if operands is None:
                continue
            panels, given, offsets, made = operands
            described = native_call(self.call, [panels, given[0], offsets, made[0]])
            if described is None:
                return False
            address, (one, two, three, four), extents, steps = described
            for image in range(len(given)):
                places = [one, two + image * given.strides[0], three, four + image * made.strides[0]]
                calls.append((address, places, extents, steps))
        pool.run_calls(calls, threads.get_num_threads())
        for _, wanted, target, bias in found:
            _finish(wanted, target, bias, True)
        return True


def _finish(wanted: Any, target: Any, bias: Any, split: bool = False) -> None:
    if wanted is None:
        target[...] = 0 if bias is None else bias.reshape(-1, *(1,) * (target.ndim - 2))
    else:
        copy(wanted, target, bias, split)


def _run_products(x: Any, stride: Ints, before: Ints, products: _Products) -> None:
    """A few threads take images each, interpreter and all; many would wait for the interpreter and share native calls."""
    planes = products.planes
    work = products.out.size * products.inputs * max(len(p.chosen) for p in products.passes)

    def job(number: int, start: int, stop: int) -> None:
        buffer: Any = ()
        for a, b in _chunks(stop - start, planes.image):
            if len(buffer) != b - a:
                buffer = planes.empty(x.dtype, b - a)
                pieces = products.pieces(b - a)
            fill(planes, buffer, x[start + a : start + b], stride, before)
            for piece in pieces:
                products.run(start + a, buffer, *piece)

    cores = threads.get_num_threads()
    if cores > _FEW_CORES and work >= _PARALLEL:
        bytes_of_image = 2 * x.itemsize * (planes.image + products.out[0].size)
        step = max(1, _BYTES_A_CORE * cores // bytes_of_image)
        for start in range(0, len(x), step):
            part = x[start : start + step]
            buffer = planes.empty(x.dtype, len(part))
            fill(planes, buffer, part, stride, before, True)
            if not products.run_on_all_cores(start, buffer):
                for piece in products.pieces(len(part)):
                    products.run(start, buffer, *piece)
        return
    _over_images(len(x), work, job)


def takes(x: Any, weight: Sequence[int], positions: Ints, groups: int) -> bool:
    """Whether there is enough to do for the functions below."""
    work = len(x) * math.prod(weight) * math.prod(positions)
    if work >= SMALL:
        return True
    if work < SMALL_IN_LANES or groups != 1 or len(weight) != 4 or x.dtype != np.float32:
        return False
    return min(weight[:2]) >= FEWEST_IN_LANES


def _with_rows(a: Any, b: Any, down: bool) -> tuple[Any, Any]:
    """Arrays of one dimension as those of images with one row, or with one column."""
    return (a[..., None], b[..., None]) if down else (a[:, :, None], b[:, :, None])


def _of_rows(stride: Ints, padding: Ints, dilation: Ints, down: bool) -> tuple[Ints, Ints, Ints]:
    if down:
        return (*stride, 1), (*padding, 0), (*dilation, 1)
    return (1, *stride), (0, *padding), (1, *dilation)


def _goes_down(x: Any, inputs: int, outputs: int, groups: int) -> bool:
    """Whether a long line is best a column: threads that have no image of their own share its rows."""
    return groups == 1 and len(x) < threads.get_num_threads() and min(inputs, outputs) >= _LINES


# -- all convolutions ----------------------------------------------------------------------------------------------------


def convolve(
    x: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, counts: Ints
) -> Any:
    """See `conv_arrays.convolve`; with a bias."""
    if len(counts) == 1:
        down = _goes_down(x, weight.shape[1], len(weight), groups)
        x, weight = _with_rows(x, weight, down)
        steps, counts = _of_rows(stride, padding, dilation, down), (*counts, 1) if down else (1, *counts)
        made = convolve(x, weight, bias, *steps, groups, counts)
        return made[..., 0] if down else made[:, :, 0]
    if by_patches.suits(weight.shape, groups, stride, padding, dilation):
        return by_patches.convolve(x, weight, bias, counts)
    if by_volumes.suits(len(x), weight.shape, x.dtype, groups, stride, dilation, x.shape[2:], counts):
        return by_volumes.convolve(convolve, x, weight, bias, stride, padding, dilation, counts)
    if by_groups.suits(weight.shape, groups, padding, x.shape[2:]):
        return by_groups.convolve(x, weight, bias, stride, padding, dilation, groups, counts)
    if by_tiles.suits(x.shape, weight.shape, x.dtype, stride, dilation, groups, counts):
        return by_tiles.convolve(x, weight, bias, padding, counts)
    if by_lanes.suits(
        x.shape[1], len(weight), weight.shape[2:], x.dtype, groups, x.shape[2:], len(x) * math.prod(counts)
    ):
        return by_lanes.convolve(x, weight, bias, stride, padding, dilation, counts)
    if by_columns.suits(weight.shape, groups, counts):
        return by_columns.convolve(x, weight, bias, stride, padding, dilation, groups, counts)
    planes, one = windows_of(weight.shape[2:], stride, dilation, x.shape[1], counts)
    out = empty((x.shape[0], weight.shape[0], *counts), x.dtype)
    _run_products(x, stride, padding, _Products(planes, [one], weight, groups, out, bias))
    return out


def convolve_transposed(
    x: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, size: Ints
) -> Any:
    """See `conv_arrays.convolve_transposed`; with a bias."""
    if len(size) == 1:
        x, weight = _with_rows(x, weight, False)
        steps = _of_rows(stride, padding, dilation, False)
        return convolve_transposed(x, weight, bias, *steps, groups, (1, *size))[:, :, 0]
    if by_patches.suits(weight.shape, groups, stride, padding, dilation):
        return by_patches.convolve_transposed(x, weight, bias, size)
    turned = (weight.shape[1], weight.shape[0], *weight.shape[2:])
    if max(stride) == 1 and by_volumes.suits(
        len(x), turned, x.dtype, groups, stride, dilation, x.shape[2:], tuple(size)
    ):
        return by_volumes.convolve_transposed(convolve_transposed, x, weight, bias, padding, dilation, tuple(size))
    kernel, inner = weight.shape[2:], weight.shape[1]
    if by_groups.suits_transposed(weight.shape, groups, stride, padding, dilation, size):
        return by_groups.convolve_transposed(x, weight, bias, stride, padding, dilation, groups, tuple(size))
    around = tuple(2 - p for p in padding)
    if min(around) >= 0 and by_tiles.suits(x.shape, weight.shape, x.dtype, stride, dilation, groups, tuple(size)):
        return by_tiles.convolve(x, weight, bias, around, tuple(size), True)
    if by_lanes.suits(inner, len(weight), kernel, x.dtype, groups, size, len(x) * math.prod(x.shape[2:]), True):
        return by_lanes.convolve_transposed(x, weight, bias, stride, padding, dilation, tuple(size))
    if by_columns.suits(weight.shape, groups, x.shape[2:]):
        return by_columns.convolve_transposed(x, weight, bias, stride, padding, dilation, groups, size)
    planes, before, passes = _adjoint(kernel, stride, padding, dilation, x.shape[1], tuple(size))
    turned = weight.reshape(groups, -1, inner, *kernel).swapaxes(1, 2).reshape(groups * inner, -1, *kernel)
    out = empty((x.shape[0], groups * inner, *size), x.dtype)
    _run_products(x, (1,) * len(kernel), before, _Products(planes, passes, turned, groups, out, bias))
    return out


def weight_sums(x: Any, g: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Any:
    """See `conv_arrays.weight_sums`."""
    if len(kernel) == 1:
        down = _goes_down(x, x.shape[1], g.shape[1], groups)
        x, g = _with_rows(x, g, down)
        made = weight_sums(
            x, g, (*kernel, 1) if down else (1, *kernel), *_of_rows(stride, padding, dilation, down), groups
        )
        return made[..., 0] if down else made[:, :, 0]
    if by_patches.suits((g.shape[1], x.shape[1] // groups, *kernel), groups, stride, padding, dilation):
        return by_patches.weight_sums(x, g, kernel)
    counts = g.shape[2:]
    outputs, inputs = g.shape[1] // groups, x.shape[1] // groups
    if by_volumes.suits(len(x), (outputs, inputs, *kernel), x.dtype, groups, stride, dilation, x.shape[2:], counts):
        return by_volumes.weight_sums(weight_sums, x, g, kernel, stride, padding, dilation)
    if by_groups.suits((outputs * groups, inputs, *kernel), groups, padding, x.shape[2:]):
        return by_groups.weight_sums(x, g, kernel, stride, padding, dilation, groups)
    if by_tiles.suits(x.shape, (outputs, inputs, *kernel), x.dtype, stride, dilation, groups, counts):
        if output_size(x.shape[2:], kernel, stride, padding, dilation) == tuple(counts):
            return by_tiles.weight_sums(x, g, padding)
    if by_lanes.suits(inputs, outputs, kernel, x.dtype, groups, x.shape[2:], len(x) * math.prod(counts)):
        return by_lanes.weight_sums(x, g, kernel, stride, padding, dilation)
    if by_columns.suits((outputs, inputs, *kernel), groups, counts):
        return by_columns.weight_sums(x, g, kernel, stride, padding, dilation, groups)
    planes, one = windows_of(kernel, stride, dilation, x.shape[1], counts)
    beside = Planes(planes.extents, [()], g.shape[1])  # gradients with the same pitches, zeros between their rows
    span, rows = planes.span(counts), kernels.weight_rows()
    offsets = _offsets(planes, inputs, one.shifts, x.itemsize)
    elements = len(offsets)
    offsets = np.concatenate([offsets, np.zeros(-elements % rows, np.int64)])
    call, columns, scratch = kernels.window_sums(CODES[x.dtype])
    if threads.get_num_threads() > _FEW_CORES and g.size * elements >= _PARALLEL:
        total = _sums_on_all_cores(x, g, planes, beside, offsets, stride, padding, groups)
        return _as_weights(total, elements, outputs, inputs, kernel)
    sums = np.zeros((threads.get_num_threads(), groups, len(offsets), -(-outputs // columns) * columns), x.dtype)

    def job(number: int, start: int, stop: int) -> None:
        room = np.empty(scratch, np.uint8)
        buffer: Any = ()
        for a, b in _chunks(stop - start, planes.image + beside.image):
            if len(buffer) != b - a:
                buffer, other = planes.empty(x.dtype, b - a), beside.empty(x.dtype, b - a)
            fill(planes, buffer, x[start + a : start + b], stride, padding)
            copy(g[start + a : start + b], beside.view(other, counts))
            given = beside.view(other, (1,) * (len(counts) - 1) + (span,)).reshape(b - a, -1, span)
            for group in range(groups):
                part = given[:, group * outputs : (group + 1) * outputs]
                call(buffer[:, group * inputs * planes.channel :], offsets, part, room, sums[number, group])

    _over_images(len(x), g.size * elements, job)
    return _as_weights(sums.sum(0), elements, outputs, inputs, kernel)


def _as_weights(sums: Any, elements: int, outputs: int, inputs: int, kernel: Ints) -> Any:
    """Sums (groups, elements, outputs), with more of both than are wanted, as a gradient by the weight."""
    total = np.ascontiguousarray(sums[:, :elements, :outputs].swapaxes(1, 2))
    return total.reshape(len(sums) * outputs, inputs, *kernel)


def _sums_on_all_cores(
    x: Any, g: Any, planes: Planes, beside: Planes, offsets: Any, stride: Ints, padding: Ints, groups: int
) -> Any:
    """Many threads share native calls: of some images each, and of some elements of the window if images are few."""
    counts, cores = g.shape[2:], threads.get_num_threads()
    outputs, inputs = g.shape[1] // groups, x.shape[1] // groups
    span, rows = planes.span(counts), kernels.weight_rows()
    call, columns, scratch = kernels.window_sums(CODES[x.dtype])
    step = max(1, _BYTES_A_CORE * cores // (x.itemsize * (planes.image + beside.image)))
    buffer, other = (p.empty(x.dtype, min(step, len(x))) for p in (planes, beside))
    parts = threads.ranges(min(step, len(x)))
    pieces = min(-(-2 * cores // (len(parts) * groups)), len(offsets) // rows)
    bounds = [len(offsets) // rows * i // pieces * rows for i in range(pieces + 1)]
    sums = np.zeros((len(parts), groups, len(offsets), -(-outputs // columns) * columns), x.dtype)
    room = np.empty((len(parts) * groups * pieces, scratch), np.uint8)
    for start in range(0, len(x), step):
        images = x[start : start + step]
        fill(planes, buffer[: len(images)], images, stride, padding, True)
        copy(g[start : start + step], beside.view(other[: len(images)], counts), None, True)
        given = beside.view(other, (1,) * (len(counts) - 1) + (span,)).reshape(len(other), -1, span)
        jobs: list[list[Any]] = []
        for number, (a, b) in enumerate(threads.ranges(len(images))):
            for group in range(groups):
                source = buffer[a:b, group * inputs * planes.channel :]
                part = given[a:b, group * outputs : (group + 1) * outputs]
                jobs += [
                    [source, offsets[low:high], part, room[len(jobs) + i], sums[number, group, low:high]]
                    for i, (low, high) in enumerate(pairwise(bounds))
                ]
        side_by_side(call, jobs)
    return sums.sum(0)
