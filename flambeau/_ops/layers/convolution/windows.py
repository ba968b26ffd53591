"""Convolutions of CPU arrays by the kernels of `_kernel/images/conv.py`: padded planes, offsets of windows, work for threads.

Images are copied once, into planes with zeros around them; strided windows get one plane for each remainder of
their positions, so that neighbouring positions are neighbours in memory there too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np

from ...._backend.cpu import cpu
from ...._core.allocation import empty
from ...._kernel.images import conv as kernels
from ...._kernel.threads import pool
from .description import CODES, Conv, Ints
from .planes import Pass, Planes, copy, fill, windows_of
from .schedule import described

_BLOCK = 1 << 17  # elements of results that are made at a time
_BYTES_A_CORE = 1 << 21  # of planes and results that are dealt with at a time


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

    def pieces(self) -> Iterator[tuple[int, int, int, int]]:
        """(pass, group, first and last outermost position) of all that is made of an image at a time."""
        for number, p in enumerate(self.passes):
            length = p.counts[p.axis]
            step = max(1, _BLOCK // (self.planes.pitches[p.axis] * self.outputs))
            for group, start in product(range(self.groups), range(0, length, step)):
                yield number, group, start, min(length, start + step)

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

    def run(self, first: int, buffer: Any, cores: int) -> None:
        """All pieces of the images in `buffer`; threads take some images each."""
        found = [self.piece(first, buffer, *piece) for piece in self.pieces()]
        calls = []
        for operands, *_ in found:
            if operands is not None and cores == 1:
                self.call(*operands)
            elif operands is not None:
                panels, given, offsets, made = operands
                parts = min(len(given), 4 * cores)
                for low, high in pairwise([len(given) * i // parts for i in range(parts + 1)]):
                    calls.append(described(self.call, [panels, given[low:high], offsets, made[low:high]]))
        if calls:
            pool.run_calls(calls, cores)
        for _, wanted, target, bias in found:
            if wanted is None:
                target[...] = 0 if bias is None else bias.reshape(-1, *(1,) * (target.ndim - 2))
            else:
                copy(wanted, target, bias, cores > 1)


def _run_products(conv: Conv, x: Any, stride: Ints, before: Ints, products: _Products) -> None:
    """Some images at a time, which all threads share."""
    planes = products.planes
    step = max(1, _BYTES_A_CORE * conv.cores // (2 * x.itemsize * (planes.image + products.out[0].size)))
    for start in range(0, len(x), step):
        part = x[start : start + step]
        buffer = planes.empty(x.dtype, len(part))
        fill(planes, buffer, part, stride, before, conv.cores > 1)
        products.run(start, buffer, conv.cores)


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
    """Windows of images times results, summed: by threads for some images each, and for some elements of windows if those are few."""
    counts, groups, outputs, inputs = conv.counts, conv.groups, conv.outputs // conv.groups, conv.inputs // conv.groups
    planes, one = windows_of(conv)
    beside = Planes(planes.extents, [()], conv.outputs)  # gradients with the same pitches, zeros between their rows
    span, rows = planes.span(counts), kernels.weight_rows()
    offsets = _offsets(planes, inputs, one.shifts, x.itemsize)
    offsets = np.concatenate([offsets, np.zeros(-len(offsets) % rows, np.int64)])
    call, columns, scratch = kernels.window_sums(CODES[x.dtype])
    step = max(1, _BYTES_A_CORE * conv.cores // (x.itemsize * (planes.image + beside.image)))
    buffer, other = (p.empty(x.dtype, min(step, len(x))) for p in (planes, beside))
    count = min(conv.cores, step, len(x))  # ranges of images
    pieces = min(-(-2 * conv.cores // (count * groups)), len(offsets) // rows) if conv.cores > 1 else 1
    bounds = [len(offsets) // rows * i // pieces * rows for i in range(pieces + 1)]
    made = np.zeros((count, groups, len(offsets), -(-outputs // columns) * columns), x.dtype)
    room = np.empty((count * groups * pieces, scratch), np.uint8)
    for start in range(0, len(x), step):
        images = x[start : start + step]
        fill(planes, buffer[: len(images)], images, conv.stride, conv.padding, conv.cores > 1)
        copy(g[start : start + step], beside.view(other[: len(images)], counts), None, conv.cores > 1)
        given = beside.view(other, (1,) * (len(counts) - 1) + (span,)).reshape(len(other), -1, span)
        jobs: list[list[Any]] = []
        for number in range(count):
            some = slice(len(images) * number // count, len(images) * (number + 1) // count)
            for group in range(groups):
                source = buffer[some, group * inputs * planes.channel :]
                part = given[some, group * outputs : (group + 1) * outputs]
                jobs += [
                    [source, offsets[low:high], part, room[len(jobs) + i], made[number, group, low:high]]
                    for i, (low, high) in enumerate(pairwise(bounds))
                ]
        cpu.side_by_side(call, jobs)
    total = made.sum(0)[:, : conv.depth, :outputs]
    return np.ascontiguousarray(total.swapaxes(1, 2)).reshape(conv.weight_shape)
