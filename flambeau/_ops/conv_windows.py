"""Convolutions of CPU arrays by the kernels of `_kernel/conv.py`: padded planes, offsets of windows, work for threads.

An image is copied once, into planes with zeros around it; strided windows get one plane for each remainder of
their positions, so that neighbouring positions are neighbours in memory there too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from .._backend import memory, threads
from .._backend.cpu import cpu
from .._kernel import conv as kernels
from .conv_arrays import Ints, output_size

CODES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
_SLACK = 256  # elements that a kernel may read beyond the last window
_BLOCK = 1 << 17  # elements of results that are made at a time
_MOST_UNROLLED = 64  # elements of a window that a depthwise kernel has in its code


class Planes:
    """How an image lies in memory: for each channel a plane for each phase, rows `pitch` apart."""

    def __init__(self, extents: Ints, phases: list[Ints], channels: int):
        self.extents, self.phases, self.channels = extents, phases, channels
        self.plane = math.prod(extents)
        self.pitches = tuple(math.prod(extents[i + 1 :]) for i in range(len(extents)))
        self.channel = self.plane * len(phases)
        if self.channel % 256 == 0:  # channels a power of two apart would share few lines of the cache
            self.channel += 16

    def empty(self, d: Any) -> Any:
        return np.zeros(self.channels * self.channel + _SLACK, d)

    def view(self, buffer: Any, phase: int) -> Any:
        """(channels, *extents) of one phase."""
        whole = buffer[: self.channels * self.channel].reshape(self.channels, self.channel)
        return whole[:, phase * self.plane : (phase + 1) * self.plane].reshape(self.channels, *self.extents)

    def span(self, counts: Sequence[int]) -> int:
        """Positions from the first to the last of so many along each dimension."""
        return sum((n - 1) * p for n, p in zip(counts, self.pitches)) + 1


class Pass(NamedTuple):
    """One kernel run over an image: where its windows start, their elements, their weights, what it makes."""

    start: int
    counts: Ints
    elements: list[tuple[int, Ints]]  # offset in a channel, and which element of the weight
    target: tuple[slice, ...]


def _copy(source: Any, target: Any, bias: Any = None) -> None:
    """target[...] = source [+ a number for each channel], for (channels, *size) with rows that are short mostly."""
    if source.ndim < 3:
        source, target = source[:, None], target[:, None]
    code = CODES[source.dtype]
    number = np.zeros((), source.dtype) if bias is None else bias.reshape(-1, *(1,) * (source.ndim - 3))
    call = cpu.kernel(
        kernels.copy_rows, (code, code, code), chunk=kernels.lanes(code), added=bias is not None
    )
    call(source, number, target)


def _fill(planes: Planes, buffer: Any, x: Any, stride: Ints, before: Ints) -> None:
    """Copies an image into its planes; the element i of a dimension has the place (i + before) there."""
    for number, phase in enumerate(planes.phases):
        source, target = [], []
        for n, extent, s, p, r in zip(x.shape[1:], planes.extents, stride, before, phase):
            first = max(0, -((r - p) // s))
            last = min(extent, (n - 1 + p - r) // s + 1)
            target.append(slice(first, max(first, last)))
            source.append(slice(first * s + r - p, max(last - 1, first - 1) * s + r - p + 1, s) if last > first else slice(0))
        _copy(x[(slice(None), *source)], planes.view(buffer, number)[(slice(None), *target)])


def _forward(
    kernel: Ints, stride: Ints, dilation: Ints, channels: int, counts: Ints
) -> tuple[Planes, Pass]:
    """Planes and windows of a convolution."""
    phases = list(product(*(sorted({k * d % s for k in range(n)}) for n, d, s in zip(kernel, dilation, stride))))
    extents = tuple(c + d * (n - 1) // s for c, n, d, s in zip(counts, kernel, dilation, stride))
    planes = Planes(extents, phases, channels)
    elements = []
    for place in product(*map(range, kernel)):
        phase = phases.index(tuple(k * d % s for k, d, s in zip(place, dilation, stride)))
        shift = sum(k * d // s * p for k, d, s, p in zip(place, dilation, stride, planes.pitches))
        elements.append((phase * planes.plane + shift, place))
    return planes, Pass(0, counts, elements, (slice(None),) * len(kernel))


def _adjoint(
    kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, channels: int, size: Ints
) -> tuple[Planes, Ints, list[Pass]]:
    """Planes of a gradient, zeros before it, and a pass for each remainder of positions in the image by the stride."""
    before = tuple(d * (k - 1) // s for k, d, s in zip(kernel, dilation, stride))
    extents = tuple((n - 1 + p) // s + 1 + b for n, p, s, b in zip(size, padding, stride, before))
    planes = Planes(extents, [(0,) * len(kernel)], channels)
    passes = []
    for remainder in product(*map(range, stride)):
        first = [-((r - p) // s) for r, p, s in zip(remainder, padding, stride)]
        first = [max(0, t) for t in first]
        counts = tuple((n - 1 + p - r) // s + 1 - t for n, p, r, s, t in zip(size, padding, remainder, stride, first))
        if min(counts) <= 0:
            continue
        elements = [
            (sum((b - (k * d - r) // s) * q for b, k, d, r, s, q in zip(before, place, dilation, remainder, stride, planes.pitches)), place)
            for place in product(*map(range, kernel))
            if all(k * d % s == r for k, d, s, r in zip(place, dilation, stride, remainder))
        ]  # fmt: skip
        start = sum(t * q for t, q in zip(first, planes.pitches))
        target = tuple(slice(t * s + r - p, None, s) for t, s, r, p in zip(first, stride, remainder, padding))
        passes.append(Pass(start, counts, elements, target))
    return planes, before, passes


def _panels(weight: Any, elements: list[tuple[int, Ints]]) -> tuple[Any, int]:
    """Weights (outputs, inputs, *kernel) as the kernel wants them, (panels, depth, padded rows), and rows of a panel."""
    chosen = np.stack([weight[(..., *place)] for _, place in elements], -1) if elements else weight[..., :0]
    outputs, depth = weight.shape[0], weight.shape[1] * len(elements)
    rows = kernels.tile_rows(outputs)
    count = -(-outputs // rows)
    padded = kernels.padded_rows(CODES[weight.dtype], rows)
    made = np.zeros((count, depth, padded), weight.dtype)
    matrix = np.zeros((count * rows, depth), weight.dtype)
    matrix[:outputs] = chosen.reshape(outputs, depth)
    made[:, :, :rows] = matrix.reshape(count, rows, depth).swapaxes(1, 2)
    return made, rows


def _offsets(planes: Planes, channels: int, elements: list[tuple[int, Ints]], itemsize: int) -> Any:
    """Offsets in bytes of all window elements of so many channels."""
    inside = np.array([offset for offset, _ in elements], np.int64)
    return ((np.arange(channels) * planes.channel)[:, None] + inside).reshape(-1) * itemsize


class _Runner:
    """Makes results of images by passes; knows weights and offsets of each."""

    def __init__(self, planes: Planes, passes: list[Pass], weight: Any, groups: int, out: Any, bias: Any):
        self.planes, self.passes, self.groups, self.out, self.bias = planes, passes, groups, out, bias
        self.outputs, self.inputs = weight.shape[0] // groups, weight.shape[1]
        self.plain = self.inputs == 1 and all(len(p.elements) <= _MOST_UNROLLED for p in passes)  # depthwise
        self.code, self.itemsize = CODES[weight.dtype], weight.dtype.itemsize
        self.weights: list[Any] = []
        for p in passes:
            if self.plain:
                picked = [weight[(slice(None), 0, *place)] for _, place in p.elements]
                self.weights.append(np.stack(picked, -1) if picked else weight[:, 0].reshape(weight.shape[0], -1)[:, :0])
            else:
                parts = np.split(weight, groups)
                self.weights.append([_panels(part, p.elements) for part in parts])
        self.offsets = [_offsets(planes, self.inputs, p.elements, 1 if self.plain else self.itemsize) for p in passes]

    def blocks(self, p: Pass) -> list[tuple[int, int]]:
        """Ranges of the outermost dimension that has several positions."""
        axis = self.axis(p)
        step = max(1, _BLOCK // (self.planes.pitches[axis] * max(self.outputs, 1)))
        return [(a, min(p.counts[axis], a + step)) for a in range(0, p.counts[axis], step)]

    def axis(self, p: Pass) -> int:
        return next((i for i, n in enumerate(p.counts) if n > 1), len(p.counts) - 1)

    def run(self, image: int, buffer: Any, number: int, start: int, stop: int, group: int) -> None:
        """Part of one pass: some of its outermost positions, one group (depthwise: all of them)."""
        p, planes = self.passes[number], self.planes
        axis = self.axis(p)
        counts = (*p.counts[:axis], stop - start, *p.counts[axis + 1 :])
        target = self.out[image][(slice(None), *p.target)]
        target = target[(slice(None), *(slice(None),) * axis, slice(start, stop))]
        if not self.plain:
            target = target[group * self.outputs : (group + 1) * self.outputs]
        bias = self.bias
        if bias is not None and not self.plain:
            bias = bias[group * self.outputs : (group + 1) * self.outputs]
        if not p.elements:
            target[...] = 0 if bias is None else bias.reshape(-1, *(1,) * len(counts))
            return
        first = p.start + start * planes.pitches[axis]
        made = self._planes(buffer, number, first, planes.span(counts)) if self.plain else (
            self._products(buffer, number, first, planes.span(counts), group)
        )  # fmt: skip
        step = made.itemsize
        view = np.lib.stride_tricks.as_strided(
            made, (target.shape[0], *counts), (made.strides[0], *(q * step for q in planes.pitches))
        )
        _copy(view, target, bias)

    def _products(self, buffer: Any, number: int, first: int, span: int, group: int) -> Any:
        panels, rows = self.weights[number][group]
        columns = kernels.tile_columns(self.code, rows)
        made = np.empty((len(panels) * rows, -(-span // columns) * columns), buffer.dtype)
        first += group * self.inputs * self.planes.channel
        kernels.window_products(self.code, rows)(panels, buffer[first:], self.offsets[number], made)
        return made

    def _planes(self, buffer: Any, number: int, first: int, span: int) -> Any:
        """Depthwise: each group has one input channel."""
        offsets = self.offsets[number]
        code, channel = self.code, self.planes.channel
        windows = np.lib.stride_tricks.as_strided(
            buffer[first:], (self.groups, 1, span + int(offsets.max())), (channel * self.itemsize, 0, self.itemsize)
        )
        weights = self.weights[number].reshape(self.groups, self.outputs, -1)
        made = np.empty((self.groups, self.outputs, span), buffer.dtype)
        call = cpu.kernel(kernels.plane_products, (code, "i64", code, code), count=weights.shape[-1])
        call(windows, offsets, weights, made)
        return made.reshape(self.groups * self.outputs, span)


def _over_images(
    x: Any, planes: Planes, fill: Callable[[Any, Any], None], runner: _Runner
) -> None:
    """Each thread takes images; if those are few, all threads share the work of one."""
    everything = [
        (number, a, b, group)
        for number, p in enumerate(runner.passes)
        for group in range(1 if runner.plain else runner.groups)
        for a, b in runner.blocks(p)
    ]

    def whole(start: int, stop: int) -> Callable[[], None]:
        def job() -> None:
            buffer = planes.empty(x.dtype)
            for image in range(start, stop):
                fill(buffer, x[image])
                for part in everything:
                    runner.run(image, buffer, *part)

        return job

    work = runner.out.size * runner.inputs * max(len(p.elements) for p in runner.passes)
    if x.shape[0] >= threads.get_num_threads() or work < 1 << 20:
        parts = threads.ranges(x.shape[0]) if work >= 1 << 20 else [(0, x.shape[0])]
        threads.run([whole(*part) for part in parts])
        return
    buffer = planes.empty(x.dtype)
    for image in range(x.shape[0]):
        fill(buffer, x[image])

        def share(start: int, stop: int, image: int = image) -> Callable[[], None]:
            return lambda: [runner.run(image, buffer, *part) for part in everything[start:stop]]  # type: ignore[return-value]

        threads.run([share(*part) for part in threads.ranges(len(everything))])


# -- depthwise, a step of one ----------------------------------------------------------------------------------------


def _is_depthwise(weight_shape: Sequence[int], groups: int, stride: Ints, padding: Ints) -> bool:
    """Whether planes are convolved one by one, small enough to be padded in the first cache."""
    kernel = weight_shape[2:]
    return (
        weight_shape[1] == 1 and weight_shape[0] == groups and len(kernel) <= 2 and set(stride) == {1}
        and min(padding) >= 0 and math.prod(kernel) <= _MOST_UNROLLED
    )  # fmt: skip


def _plane_setup(x: Any, kernel: Ints, padding: Ints, dilation: Ints) -> tuple[Planes, Any, Any, Any]:
    """x as (planes, height, width), its padded planes, offsets of windows in them and the kernels' numbers."""
    counts = tuple(n + 2 * p - d * (k - 1) for n, p, d, k in zip(x.shape[2:], padding, dilation, kernel))
    planes, one = _forward(kernel, (1,) * len(kernel), dilation, 1, counts)
    first = sum(p * q for p, q in zip(padding, planes.pitches))
    pitch = planes.extents[-1]
    numbers = np.array([first, pitch, planes.span(counts)])
    return planes, _offsets(planes, 1, one.elements, 1), numbers, counts


def _as_planes(x: Any) -> Any:
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]) if x.ndim == 4 else x.reshape(-1, 1, x.shape[-1])


def _depthwise(x: Any, weight: Any, bias: Any, padding: Ints, dilation: Ints) -> Any:
    """Each plane by its own window, in one call of a kernel for each thread."""
    kernel, code, images = weight.shape[2:], CODES[x.dtype], x.shape[0]
    planes, offsets, numbers, counts = _plane_setup(x, kernel, padding, dilation)
    out = memory.empty((*x.shape[:2], *counts), x.dtype)
    given, made = _as_planes(x), _as_planes(out)
    weights = np.tile(weight.reshape(len(weight), -1), (images, 1))
    extra = np.tile(bias, images) if bias is not None else np.zeros(len(given), x.dtype)
    call = cpu.kernel(
        kernels.padded_plane_products, (code, "i64", code, code, "i64", code, code), count=weights.shape[1],
        chunk=kernels.lanes(code),
    )  # fmt: skip

    def job(a: int, b: int) -> Callable[[], Any]:
        return lambda: call(given[a:b], offsets, weights[a:b], extra[a:b], numbers, planes.empty(x.dtype), made[a:b])

    parts = threads.ranges(len(given)) if out.size * weights.shape[1] >= 1 << 19 else [(0, len(given))]
    threads.run([job(*part) for part in parts])
    return out


def _depthwise_sums(x: Any, g: Any, kernel: Ints, padding: Ints, dilation: Ints) -> Any:
    """The gradient of `_depthwise` by its weight."""
    code, channels = CODES[x.dtype], x.shape[1]
    planes, offsets, numbers, _ = _plane_setup(x, kernel, padding, dilation)
    made = np.zeros((channels, len(offsets)), x.dtype)
    call = cpu.kernel(
        kernels.padded_plane_sums, (code, code, "i64", "i64", code, code, code), chunk=kernels.lanes(code)
    )

    def job(a: int, b: int) -> Callable[[], Any]:
        def work() -> None:
            scratch, room = planes.empty(x.dtype), planes.empty(x.dtype)
            for image in range(len(x)):
                call(_as_planes(x[image : image + 1, a:b]), _as_planes(g[image : image + 1, a:b]), offsets, numbers,
                     scratch, room, made[a:b])  # fmt: skip

        return work

    parts = threads.ranges(channels) if g.size * len(offsets) >= 1 << 19 else [(0, channels)]
    threads.run([job(*part) for part in parts])
    return made.reshape(channels, 1, *kernel)


# -- all convolutions ------------------------------------------------------------------------------------------------


def convolve(
    x: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, counts: Ints
) -> Any:
    """See `conv_arrays.convolve`; with a bias."""
    if _is_depthwise(weight.shape, groups, stride, padding):
        return _depthwise(x, weight, bias, padding, dilation)
    planes, one = _forward(weight.shape[2:], stride, dilation, x.shape[1], counts)
    out = memory.empty((x.shape[0], weight.shape[0], *counts), x.dtype)
    runner = _Runner(planes, [one], weight, groups, out, bias)
    _over_images(x, planes, lambda buffer, image: _fill(planes, buffer, image, stride, padding), runner)
    return out


def convolve_transposed(
    x: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, size: Ints
) -> Any:
    """See `conv_arrays.convolve_transposed`; with a bias."""
    kernel = weight.shape[2:]
    if _is_depthwise(weight.shape, groups, stride, padding):
        around = tuple(d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding))
        whole = tuple(n + 2 * p - d * (k - 1) for n, p, d, k in zip(x.shape[2:], around, dilation, kernel))
        if min(around) >= 0 and whole == tuple(size):
            return _depthwise(x, np.flip(weight, tuple(range(2, weight.ndim))), bias, around, dilation)
    planes, before, passes = _adjoint(weight.shape[2:], stride, padding, dilation, x.shape[1], size)
    inner = weight.shape[1]
    turned = weight.reshape(groups, -1, inner, *kernel).swapaxes(1, 2).reshape(groups * inner, -1, *kernel)
    out = memory.empty((x.shape[0], groups * inner, *size), x.dtype)
    runner = _Runner(planes, passes, turned, groups, out, bias)
    ones = (1,) * len(kernel)
    _over_images(x, planes, lambda buffer, image: _fill(planes, buffer, image, ones, before), runner)
    return out


def weight_sums(
    x: Any, g: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:
    """See `conv_arrays.weight_sums`."""
    counts = g.shape[2:]
    if g.shape[1] == x.shape[1] and _is_depthwise((g.shape[1], x.shape[1] // groups, *kernel), groups, stride, padding):
        if output_size(x.shape[2:], kernel, stride, padding, dilation) == tuple(counts):
            return _depthwise_sums(x, g, kernel, padding, dilation)
    outputs, inputs = g.shape[1] // groups, x.shape[1] // groups
    planes, one = _forward(kernel, stride, dilation, x.shape[1], counts)
    span, code, itemsize = planes.span(counts), CODES[x.dtype], x.dtype.itemsize
    plain = inputs == 1
    offsets = _offsets(planes, inputs, one.elements, 1 if plain else itemsize)
    call, columns, scratch = kernels.window_sums(code)
    rows = kernels.weight_rows()
    if not plain:
        offsets = np.concatenate([offsets, np.zeros(-len(offsets) % rows, np.int64)])
    shape = (groups, outputs, len(offsets)) if plain else (groups, len(offsets), -(-outputs // columns) * columns)
    spread = Planes(planes.extents, [()], g.shape[1])
    direct = span == math.prod(counts)

    def whole(start: int, stop: int, made: Any) -> Callable[[], None]:
        def job() -> None:
            buffer, room = planes.empty(x.dtype), None if direct else np.zeros(spread.channels * spread.channel, x.dtype)
            pad = np.empty(scratch, np.uint8)
            for image in range(start, stop):
                _fill(planes, buffer, x[image], stride, padding)
                if direct:
                    given = g[image].reshape(g.shape[1], span)
                else:
                    given = room.reshape(g.shape[1], spread.channel)[:, :span]
                    _copy(g[image], np.lib.stride_tricks.as_strided(
                        room, (g.shape[1], *counts), (spread.channel * itemsize, *(q * itemsize for q in planes.pitches))
                    ))  # fmt: skip
                if plain:
                    _add_plane_sums(buffer, given, made)
                else:
                    for group in range(groups):
                        call(
                            buffer[group * inputs * planes.channel :], offsets,
                            given[group * outputs : (group + 1) * outputs], pad, made[group],
                        )  # fmt: skip

        return job

    def _add_plane_sums(buffer: Any, given: Any, made: Any) -> None:
        windows = np.lib.stride_tricks.as_strided(
            buffer, (groups, 1, planes.channel), (planes.channel * itemsize, 0, itemsize)
        )
        sums = cpu.kernel(kernels.plane_sums, (code, "i64", code, code))
        made += sums(windows, offsets, given.reshape(groups, outputs, span))

    parts = threads.ranges(x.shape[0]) if g.size * inputs * len(one.elements) >= 1 << 20 else [(0, x.shape[0])]
    made = np.zeros((len(parts), *shape), x.dtype)
    threads.run([whole(*part, made[i]) for i, part in enumerate(parts)])
    total = made[0] if len(parts) == 1 else made.sum(0)
    if plain:
        return total.reshape(groups * outputs, 1, *kernel)
    total = total[:, : inputs * math.prod(kernel), :outputs].swapaxes(1, 2)
    return np.ascontiguousarray(total).reshape(groups * outputs, inputs, *kernel)
