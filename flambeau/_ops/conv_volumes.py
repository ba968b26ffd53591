"""Convolutions of CPU arrays of three dimensions as those of images: slices that a window covers count as channels.

A slice of the result is a convolution of the slices below its window, laid one after the other; some of them at a time
are copied, and dealt with by the ways for two dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._backend.copies import place, row_major
from .._core.allocation import empty
from . import conv_lanes as by_lanes
from . import conv_winograd as by_tiles
from .conv_arrays import Ints

_BYTES = 1 << 23  # of slices laid out at a time


def suits(
    images: int, weight: Sequence[int], d: Any, groups: int, stride: Ints, dilation: Ints, size: Ints, counts: Ints
) -> bool:
    """Whether there is a good way for the convolution of slices."""
    if len(counts) != 3 or groups != 1 or min(images, *counts) < 1:
        return False
    outputs, inputs, deep, *kernel = weight
    slices, channels, positions = images * counts[0], inputs * deep, math.prod(counts[1:])
    flat, window = (slices, channels, *size[1:]), (outputs, channels, *kernel)
    return 4 * channels * math.prod(size[1:]) <= _BYTES and (
        by_tiles.suits(flat, window, d, stride[1:], dilation[1:], 1, counts[1:])
        or by_lanes.suits(channels, outputs, kernel, d, 1, size[1:], slices * positions)
    )


class _Slices:
    """Which slices of volumes lie below each slice of a result: element k of a window covers i * stride + first[k]."""

    def __init__(self, volumes: Any, first: list[int], stride: int, count: int):
        self.volumes, self.first, self.stride, self.count = volumes, first, stride, count

    def parts(self) -> Iterator[tuple[slice, slice]]:
        """Images and slices of results that are dealt with at a time."""
        images, channels, _, *size = self.volumes.shape
        most = max(1, _BYTES // (self.volumes.itemsize * channels * len(self.first) * math.prod(size)))
        some, each = min(self.count, most), max(1, most // self.count)
        for image in range(0, images, each):
            for start in range(0, self.count, some):
                yield slice(image, min(images, image + each)), slice(start, min(self.count, start + some))

    def lay_out(self, images: slice, made: slice) -> Any:
        """(images * slices of results, elements of a window * channels, height, width)."""
        given = self.volumes[images].swapaxes(1, 2)
        n, depth, *rest = given.shape
        count = made.stop - made.start
        out = empty((n, count, len(self.first), *rest), given.dtype)
        for k, first in enumerate(self.first):
            begin = first + made.start * self.stride
            low = min(count, max(0, -(begin // self.stride)))
            high = max(low, min(count, (depth - 1 - begin) // self.stride + 1))
            out[:, :low, k] = out[:, high:, k] = 0
            if low < high:
                start = begin + low * self.stride
                place(out[:, low:high, k], given[:, start : start + (high - low - 1) * self.stride + 1 : self.stride])
        return out.reshape(n * count, -1, *rest[1:])


def _window(kernel: int, padding: int, dilation: int) -> list[int]:
    return [k * dilation - padding for k in range(kernel)]


def convolve(
    flat: Callable[..., Any], x: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, counts: Ints
) -> Any:
    """See `conv_arrays.convolve`; with a bias. `flat` is the same for images."""
    outputs, inputs, deep, *kernel = weight.shape
    below = _Slices(x, _window(deep, padding[0], dilation[0]), stride[0], counts[0])
    turned = np.ascontiguousarray(weight.swapaxes(1, 2)).reshape(outputs, deep * inputs, *kernel)
    return _collect(flat, below, turned, bias, (stride[1:], padding[1:], dilation[1:]), counts)


def convolve_transposed(
    flat: Callable[..., Any], x: Any, weight: Any, bias: Any, padding: Ints, dilation: Ints, size: Ints
) -> Any:
    """See `conv_arrays.convolve_transposed`; with a bias, and in steps of one."""
    outputs, inputs, deep, *kernel = weight.shape
    below = _Slices(x, [-n for n in _window(deep, padding[0], dilation[0])], 1, size[0])
    turned = np.ascontiguousarray(weight.transpose(2, 0, 1, 3, 4)).reshape(deep * outputs, inputs, *kernel)
    return _collect(flat, below, turned, bias, ((1, 1), padding[1:], dilation[1:]), size)


def _collect(flat: Callable[..., Any], below: _Slices, weight: Any, bias: Any, steps: Any, size: Ints) -> Any:
    """The results (N, channels, *size) of all slices."""
    out: Any = None
    for images, made in below.parts():
        part = flat(below.lay_out(images, made), weight, bias, *steps, 1, size[1:])
        if out is None:
            out = empty((len(below.volumes), part.shape[1], *size), part.dtype)
        target = out[images, :, made].swapaxes(1, 2)
        place(target, part.reshape(target.shape))
    return out


def weight_sums(
    flat: Callable[..., Any], x: Any, g: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Any:
    """See `conv_arrays.weight_sums`."""
    below = _Slices(x, _window(kernel[0], padding[0], dilation[0]), stride[0], g.shape[2])
    total: Any = None
    for images, made in below.parts():
        given = row_major(g[images, :, made].swapaxes(1, 2))
        given = given.reshape(-1, *given.shape[2:])
        part = flat(below.lay_out(images, made), given, kernel[1:], stride[1:], padding[1:], dilation[1:], 1)
        total = part if total is None else total + part
    return np.ascontiguousarray(total.reshape(g.shape[1], kernel[0], x.shape[1], *kernel[1:]).swapaxes(1, 2))
