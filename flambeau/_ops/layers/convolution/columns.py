"""Convolutions of CPU arrays by products of matrices, in which windows are columns.

As many windows are laid out at a time as fit into a few megabytes: those of several images where these are small, so that weights, which
are larger than the images then, are read once for all of them; those of some rows where an image is large.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...._backend import blas
from ...._backend.copies import rows_of
from ...._backend.cpu import cpu
from ...._core.allocation import empty, unchanging, zeros
from ...._core.dtypes import BY_NUMPY
from ...._kernel.images.columns import add_up_windows, lay_out_windows
from .description import Conv, Ints, nothing
from .planes import add_bias, copy

_BYTES = 1 << 23  # of windows laid out at a time


def suits(conv: Conv, role: str) -> bool:
    """Whether there are kernels for such elements, and is something to do."""
    return conv.has_kernels and len(conv.kernel) <= 3 and conv.work > 0 and 0 not in conv.size


@functools.lru_cache(4096)
def _table(size: int, kernel: int, stride: int, padding: int, dilation: int, begin: int, count: int) -> Any:
    """For each element of a window along a dimension: its place in the first of some windows, and the first and last of
    these that have it inside the image."""
    place = begin * stride - padding + np.arange(kernel) * dilation
    first = np.clip(-(place // stride), 0, count)
    last = np.maximum(first, np.minimum((size - 1 - place) // stride + 1, count))
    return unchanging(np.stack([place, first, last], 1))


class _Part(NamedTuple):
    """Some images, and along each dimension the first of some windows and how many these are."""

    images: slice
    begin: Ints
    counts: Ints

    def of(self, results: Any) -> Any:
        """(images, channels, windows) of results of all windows."""
        ranges = [slice(b, b + n) for b, n in zip(self.begin, self.counts)]
        some = results.reshape(*results.shape[:2], *(1,) * (5 - results.ndim), *results.shape[2:])
        some = some[(self.images, slice(None), *ranges)]
        return some.reshape(*some.shape[:2], -1)


class _Layout:
    """The windows of images of up to three dimensions; one that is missing has one window of one element."""

    def __init__(self, size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, counts: Ints):
        ones, none = (1,) * (3 - len(size)), (0,) * (3 - len(size))
        self.size, self.kernel, self.counts, self.stride = ones + size, ones + kernel, ones + counts, ones + stride
        self.numbers = list(zip(self.size, self.kernel, self.stride, none + padding, ones + dilation))
        self.window = math.prod(kernel)

    def parts(self, images: int, channels: int, itemsize: int) -> Iterator[_Part]:
        """Whole rows, as many as stay within bounds; from several slices or images only if those are whole."""
        depth, height, width = self.counts
        some, steps = _BYTES // (channels * self.window * itemsize * width), []
        for count in (height, depth, images):
            steps.append(max(1, min(count, some)))
            some //= steps[-1]
        ranges = [range(0, n, step) for n, step in zip((images, depth, height), reversed(steps))]
        for image, at, row in itertools.product(*ranges):
            counts = min(steps[1], depth - at), min(steps[0], height - row), width
            yield _Part(slice(image, image + steps[2]), (at, row, 0), counts)

    @property
    def whole(self) -> _Part:
        return _Part(slice(None), (0, 0, 0), self.counts)

    def _kernel(self, work: int, which: Any, types: tuple[str, ...]) -> Any:
        back, down, right = self.stride
        return cpu.sized(work, which, types, step_back=back, step_down=down, step_right=right)

    def _tables(self, part: _Part) -> list[Any]:
        return [_table(*row, b, n) for row, b, n in zip(self.numbers, part.begin, part.counts)]

    def columns(self, x: Any, part: _Part) -> Any:
        """(channels * window, images * windows) of some windows of images (N, C, *size)."""
        given = x[part.images]
        n, channels = given.shape[:2]
        code = BY_NUMPY[x.dtype].code
        out = empty((channels, *self.kernel, n, *part.counts), x.dtype)
        extents = [nothing(c, np.int8) for c in part.counts]  # operands that tell a kernel how many there are
        call = self._kernel(out.size, lay_out_windows, (code, *("i64",) * 3, *("i8",) * 3, code))
        call(given.reshape(n, channels, *self.size).swapaxes(0, 1), *self._tables(part), *extents, out)
        return out.reshape(channels * self.window, n * math.prod(part.counts))

    def add(self, columns: Any, part: _Part, out: Any) -> None:
        """Undoes `columns` by adding up, into `out` (N, C, *size)."""
        made = out[part.images]
        n, channels = made.shape[:2]
        code = BY_NUMPY[out.dtype].code
        call = self._kernel(columns.size, add_up_windows, (code, *("i64",) * 3, code))
        given = columns.reshape(channels, *self.kernel, n, *part.counts)
        call(given, *self._tables(part), made.reshape(n, channels, *self.size).swapaxes(0, 1))


_layout = functools.lru_cache(256)(_Layout)


def _laid(conv: Conv) -> _Layout:
    return _layout(conv.size, conv.kernel, conv.stride, conv.padding, conv.dilation, conv.counts)


# -- blocks of images ----------------------------------------------------------------------------------------------


def unfolded(x: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, counts: Ints) -> Any:
    """The blocks of images (N, C, H, W) as columns: (N, C * elements of a block, blocks)."""
    layout = _layout(x.shape[2:], kernel, stride, padding, dilation, counts)
    columns = layout.columns(x.reshape(1, x.shape[0] * x.shape[1], *x.shape[2:]), layout.whole)
    return columns.reshape(x.shape[0], x.shape[1] * layout.window, math.prod(counts))


def folded(columns: Any, size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, counts: Ints) -> Any:
    """Undoes `unfolded` by adding up."""
    layout = _layout(size, kernel, stride, padding, dilation, counts)
    out = zeros((columns.shape[0], columns.shape[1] // layout.window, *size), columns.dtype)
    layout.add(columns, layout.whole, out.reshape(1, out.shape[0] * out.shape[1], *size))
    return out


# -- convolutions --------------------------------------------------------------------------------------------------


def _product(groups: int, left: Any, right: Any) -> Any:
    """A product of matrices, each of which has equal parts for groups one below the other."""
    if groups == 1:
        return blas.product(left, right)
    parts = [a.reshape(groups, -1, a.shape[1]) for a in (left, right)]
    return blas.product(*parts).reshape(-1, right.shape[1])


def _matrix(results: Any) -> Any:
    """(N, O, windows) as a matrix (O, N * windows)."""
    return rows_of(results.swapaxes(0, 1)).reshape(results.shape[1], -1)


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    """Products of all windows of the images with the weight."""
    layout, out, matrix = _laid(conv), empty(conv.result_shape, x.dtype), weight.reshape(conv.outputs, -1)
    for part in layout.parts(conv.images, conv.inputs, x.itemsize):
        made, target = _product(conv.groups, matrix, layout.columns(x, part)), part.of(out)
        copy(made.reshape(conv.outputs, len(target), -1).swapaxes(0, 1), target, bias)
    return out


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    """Results times the weight, added up over windows of images."""
    layout, out = _laid(conv), zeros(conv.image_shape, g.dtype)
    matrix = weight.reshape(conv.groups, -1, conv.depth).swapaxes(1, 2).reshape(conv.groups * conv.depth, -1)
    for part in layout.parts(conv.images, conv.inputs, g.itemsize):
        layout.add(_product(conv.groups, matrix, _matrix(part.of(g))), part, out)
    add_bias(out, bias)
    return out


def sums(conv: Conv, x: Any, g: Any) -> Any:
    """Windows of images times results, summed over all images and positions."""
    layout, groups = _laid(conv), conv.groups
    total: Any = None
    for part in layout.parts(conv.images, conv.inputs, x.itemsize):
        given, columns = (a.reshape(groups, -1, a.shape[1]) for a in (_matrix(part.of(g)), layout.columns(x, part)))
        if groups == 1:
            given, columns = given[0], columns[0]
        turned = columns.swapaxes(-1, -2)
        total = blas.product(given, turned) if total is None else blas.add_product(total, given, turned, 1, 1)
    return total.reshape(conv.weight_shape)
