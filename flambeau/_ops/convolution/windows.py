"""Convolutions of CPU arrays by the kernels of `_kernel/conv.py`: padded planes, offsets of windows, work for threads.

Images are copied once, into planes with zeros around them; strided windows get one plane for each remainder of
their positions, so that neighbouring positions are neighbours in memory there too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np

from ..._backend import threads
from ..._backend.cpu import native_call
from ..._core.allocation import empty
from ..._kernel import conv as kernels
from ..._kernel.native import pool
from ..fused import side_by_side
from .description import CODES, Conv, Ints
from .planes import Pass, Planes, copy, fill, windows_of

_BLOCK = 1 << 17  # elements of results that are made at a time
_FEW_CORES = 4  # threads up to which each runs the interpreter for its images
_BYTES_A_CORE = 1 << 22


def suits(conv: Conv, role: str) -> bool:
    """Whether there are kernels, and enough to do for them."""
    return conv.is_large


@functools.lru_cache(256)
def _passes_of_adjoint(conv: Conv) -> tuple[Planes, Ints, list[Pass]]:
    """Planes of results, zeros before them, and a pass for each remainder of places in the image by the stride."""
    kernel, stride, padding, dilation, size = conv.kernel, conv.stride, conv.padding, conv.dilation, conv.size
    before = tuple(d * (k - 1) // s for k, d, s in zip(kernel, dilation, stride))
    extents = tuple((n - 1 + p) // s + 1 + b for n, p, s, b in zip(size, padding, stride, before))
    planes = Planes(extents, [(0,) * len(kernel)], conv.outputs)
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


def _over_images(conv: Conv, job: Callable[[int, int, int], None]) -> None:
    """job(number, start, stop) for a range of images in each thread that pays."""
    parts = threads.ranges(conv.images) if conv.cores > 1 else [(0, conv.images)]

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


def _run_products(conv: Conv, x: Any, stride: Ints, before: Ints, products: _Products) -> None:
    """A few threads take images each, interpreter and all; many would wait for the interpreter and share native calls."""
    planes = products.planes

    def job(number: int, start: int, stop: int) -> None:
        buffer: Any = ()
        for a, b in _chunks(stop - start, planes.image):
            if len(buffer) != b - a:
                buffer = planes.empty(x.dtype, b - a)
                pieces = products.pieces(b - a)
            fill(planes, buffer, x[start + a : start + b], stride, before)
            for piece in pieces:
                products.run(start + a, buffer, *piece)

    if conv.cores > _FEW_CORES:
        bytes_of_image = 2 * x.itemsize * (planes.image + products.out[0].size)
        step = max(1, _BYTES_A_CORE * conv.cores // bytes_of_image)
        for start in range(0, len(x), step):
            part = x[start : start + step]
            buffer = planes.empty(x.dtype, len(part))
            fill(planes, buffer, part, stride, before, True)
            if not products.run_on_all_cores(start, buffer):
                for piece in products.pieces(len(part)):
                    products.run(start, buffer, *piece)
        return
    _over_images(conv, job)


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    """Products of all windows of the images with the weight."""
    planes, one = windows_of(conv)
    out = empty(conv.result_shape, x.dtype)
    _run_products(conv, x, conv.stride, conv.padding, _Products(planes, [one], weight, conv.groups, out, bias))
    return out


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    """Results times the weight, added up over windows of images."""
    planes, before, passes = _passes_of_adjoint(conv)
    turned = weight.reshape(conv.groups, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(conv.inputs, -1, *conv.kernel)
    out = empty(conv.image_shape, g.dtype)
    _run_products(conv, g, (1,) * len(conv.kernel), before, _Products(planes, passes, turned, conv.groups, out, bias))
    return out


def sums(conv: Conv, x: Any, g: Any) -> Any:
    """Windows of images times results, summed over all images and positions."""
    counts, groups, outputs, inputs = conv.counts, conv.groups, conv.outputs // conv.groups, conv.inputs // conv.groups
    planes, one = windows_of(conv)
    beside = Planes(planes.extents, [()], conv.outputs)  # gradients with the same pitches, zeros between their rows
    span, rows = planes.span(counts), kernels.weight_rows()
    offsets = _offsets(planes, inputs, one.shifts, x.itemsize)
    offsets = np.concatenate([offsets, np.zeros(-len(offsets) % rows, np.int64)])
    call, columns, scratch = kernels.window_sums(CODES[x.dtype])
    if conv.cores > _FEW_CORES:
        return _as_weights(conv, _sums_on_all_cores(conv, x, g, planes, beside, offsets))
    made = np.zeros((conv.threads, groups, len(offsets), -(-outputs // columns) * columns), x.dtype)

    def job(number: int, start: int, stop: int) -> None:
        room = np.empty(scratch, np.uint8)
        buffer: Any = ()
        for a, b in _chunks(stop - start, planes.image + beside.image):
            if len(buffer) != b - a:
                buffer, other = planes.empty(x.dtype, b - a), beside.empty(x.dtype, b - a)
            fill(planes, buffer, x[start + a : start + b], conv.stride, conv.padding)
            copy(g[start + a : start + b], beside.view(other, counts))
            given = beside.view(other, (1,) * (len(counts) - 1) + (span,)).reshape(b - a, -1, span)
            for group in range(groups):
                part = given[:, group * outputs : (group + 1) * outputs]
                call(buffer[:, group * inputs * planes.channel :], offsets, part, room, made[number, group])

    _over_images(conv, job)
    return _as_weights(conv, made.sum(0))


def _as_weights(conv: Conv, sums: Any) -> Any:
    """Sums (groups, elements, outputs), with more of both than are wanted, as a gradient by the weight."""
    return np.ascontiguousarray(sums[:, : conv.depth, : conv.outputs // conv.groups].swapaxes(1, 2)).reshape(
        conv.weight_shape
    )


def _sums_on_all_cores(conv: Conv, x: Any, g: Any, planes: Planes, beside: Planes, offsets: Any) -> Any:
    """Many threads share native calls: of some images each, and of some elements of the window if images are few."""
    counts, cores, groups = conv.counts, conv.threads, conv.groups
    outputs, inputs = conv.outputs // groups, conv.inputs // groups
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
        fill(planes, buffer[: len(images)], images, conv.stride, conv.padding, True)
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
