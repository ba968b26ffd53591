"""Images laid out for windows: planes with zeros around them, one for each remainder of places by the step.

Strided windows get one plane for each remainder of their positions, so that neighbouring positions are neighbours in
memory there too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ...._backend.cpu import cpu
from ...._core.allocation import zeros
from ...._kernel.images import conv as kernels
from ...._kernel.images.columns import raise_all
from .description import CODES, Conv, Ints

_SLACK = 256  # elements that a kernel may read beyond the last window


class Planes:
    """How an image lies in memory: for each channel a plane for each phase, with a pitch for each dimension."""

    def __init__(self, extents: Ints, phases: list[Ints], channels: int):
        self.extents, self.phases, self.channels = extents, phases, channels
        self.plane = math.prod(extents)
        self.pitches = tuple(math.prod(extents[i + 1 :]) for i in range(len(extents)))
        self.channel = self.plane * len(phases)
        if self.channel % 256 == 0:  # channels a power of two apart would share few lines of the cache
            self.channel += 16
        self.image = channels * self.channel + _SLACK

    def empty(self, d: Any, images: int) -> Any:
        return zeros((images, self.image), d)

    def view(self, buffer: Any, shape: Sequence[int], first: int = 0) -> Any:
        """(images, channels, *shape) of a buffer, each from the element `first` of its channel on."""
        n = buffer.itemsize
        steps = (self.image * n, self.channel * n, *(p * n for p in self.pitches))
        return np.ndarray((len(buffer), self.channels, *shape), buffer.dtype, buffer, first * n, steps)

    def span(self, counts: Sequence[int]) -> int:
        """Positions from the first to the last of so many along each dimension."""
        return sum((n - 1) * p for n, p in zip(counts, self.pitches)) + 1


class Pass(NamedTuple):
    """One kernel run over an image: where its windows start, how many they are, their elements, what it makes."""

    start: int
    counts: Ints
    shifts: Any  # offsets of window elements in a channel
    chosen: Any  # which elements of the flat window of the weight they are
    target: tuple[slice, ...]

    @property
    def axis(self) -> int:
        """The outermost dimension with several positions."""
        return next((i for i, n in enumerate(self.counts) if n > 1), len(self.counts) - 1)


@functools.lru_cache(256)
def windows_of(conv: Conv) -> tuple[Planes, Pass]:
    """Planes and windows of a convolution."""
    kernel, stride, dilation, counts = conv.kernel, conv.stride, conv.dilation, conv.counts
    phases = list(product(*(sorted({k * d % s for k in range(n)}) for n, d, s in zip(kernel, dilation, stride))))
    extents = tuple(c + d * (n - 1) // s for c, n, d, s in zip(counts, kernel, dilation, stride))
    planes = Planes(extents, phases, conv.inputs)
    shifts = []
    for place in product(*map(range, kernel)):
        phase = phases.index(tuple(k * d % s for k, d, s in zip(place, dilation, stride)))
        inside = sum(k * d // s * p for k, d, s, p in zip(place, dilation, stride, planes.pitches))
        shifts.append(phase * planes.plane + inside)
    everything = (slice(None),) * len(kernel)
    return planes, Pass(0, counts, np.array(shifts), np.arange(len(shifts)), everything)


def add_bias(out: Any, bias: Any) -> None:
    """Adds a number for each channel, if there are such, to dense results (images, channels, *size)."""
    if bias is None or not out.size:
        return
    code = CODES[out.dtype]
    cpu.sized(out.size, raise_all, (code, code))(bias, out.reshape(*out.shape[:2], -1))


def copy(source: Any, target: Any, bias: Any = None, split: bool = False) -> None:
    """target[...] = source [+ a number for each channel], for (images, channels, *size); rows are short mostly."""
    if source.ndim == 3:
        source, target = source[:, :, None], target[:, :, None]
    code = CODES[source.dtype]
    number = np.zeros((), source.dtype) if bias is None else bias.reshape(-1, *(1,) * (source.ndim - 4))
    make = functools.partial(cpu.sized, target.size) if split else cpu.kernel
    make(kernels.copy_rows, (code,) * 3, chunk=kernels.lanes(code), added=bias is not None)(source, number, target)


def fill(planes: Planes, buffer: Any, x: Any, stride: Ints, before: Ints, split: bool = False) -> None:
    """Copies images into their planes; the element i of a dimension has the place i + before there."""
    pairs = stride[-1] == 2 and x.ndim > 3 and x.strides[-1] == x.itemsize and min(before) >= 0
    done: set[int] = set()
    for number, phase in enumerate(planes.phases):
        if number in done:
            continue
        other = planes.phases.index((*phase[:-1], 1)) if pairs and (*phase[:-1], 1) in planes.phases else number
        one = _ranges(planes, x, stride, before, phase)
        target = _phase_view(planes, buffer, number)
        if other == number:
            copy(x[one[0]], target[one[1]], None, split)
        else:
            done.add(other)
            two = _ranges(planes, x, stride, before, planes.phases[other])
            _copy_pair(x, target, one, _phase_view(planes, buffer, other), two, split)


def _phase_view(planes: Planes, buffer: Any, number: int) -> Any:
    return planes.view(buffer, planes.extents, number * planes.plane)


def _ranges(planes: Planes, x: Any, stride: Ints, before: Ints, phase: Ints) -> tuple[Any, Any]:
    """Which elements of images a phase has, and their places in its plane."""
    source, target = [slice(None)] * 2, [slice(None)] * 2
    for n, extent, s, p, r in zip(x.shape[2:], planes.extents, stride, before, phase):
        first = max(0, -((r - p) // s))
        last = max(first, min(extent, (n - 1 + p - r) // s + 1))
        target.append(slice(first, last))
        source.append(slice(first * s + r - p, (last - 1) * s + r - p + 1, s) if last > first else slice(0))
    return tuple(source), tuple(target)


def _copy_pair(x: Any, target: Any, one: Any, beside: Any, two: Any, split: bool) -> None:
    """Copies two phases whose elements take turns along rows; each has ranges (source, target)."""
    if one[0][-1].start is None or two[0][-1].start is None:
        common = 0  # one of them has nothing
    else:
        if one[0][-1].start > two[0][-1].start:
            target, one, beside, two = beside, two, target, one
        common = min(t[1][-1].stop - t[1][-1].start for t in (one, two))
    if common:
        start, rows = one[0][-1].start, one[0][:-1]
        given = x[(*rows, slice(start, start + 2 * common))]
        outs = [
            into[(*to[:-1], slice(to[-1].start, to[-1].start + common))]
            for into, (_, to) in ((target, one), (beside, two))
        ]
        code = CODES[x.dtype]
        chunk = kernels.lanes(code)
        make = functools.partial(cpu.sized, outs[0].size) if split else cpu.kernel
        make(kernels.split_rows, (code,) * 3, chunk=chunk if common >= chunk else chunk // 2)(given, *outs)
    for into, (source, to) in ((target, one), (beside, two)):
        if to[-1].stop - to[-1].start > common:
            rest = slice(source[-1].start + 2 * common, source[-1].stop, 2)
            copy(x[(*source[:-1], rest)], into[(*to[:-1], slice(to[-1].start + common, to[-1].stop))], None, split)
