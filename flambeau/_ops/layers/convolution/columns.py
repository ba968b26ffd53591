"""Convolutions of CPU arrays whose images are small and whose channels are many: one product for many images.

The windows of as many images as fit into a few megabytes become columns of one matrix, so that the weights, which are
larger than the images here, are read once for all of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...._backend import blas
from ...._backend.copies import rows_of
from ...._backend.cpu import cpu
from ...._core.allocation import empty, unchanging
from ...._core.dtypes import BY_NUMPY
from ...._kernel.images.columns import add_up_windows, lay_out_windows
from .description import Conv, Ints, nothing
from .planes import add_bias, copy

_POSITIONS = 196  # windows of an image up to which this pays
_CHANNELS = 48  # results of a window from which its copy is made good
_BYTES = 1 << 23  # of windows laid out at a time


def suits(conv: Conv, role: str) -> bool:
    """Whether there are one or two dimensions, and images are small and channels many enough, or there is little to do."""
    if not conv.has_kernels or conv.groups > 1 or len(conv.kernel) > 2:
        return False
    if conv.is_large:
        return conv.positions <= _POSITIONS and min(conv.outputs, conv.depth) >= _CHANNELS
    return conv.work > 0 and 0 not in conv.size


@functools.lru_cache(256)
def _tables(size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, counts: Ints) -> list[Any]:
    """For each dimension (a row for each element of a window): shift, first and last position inside the image."""
    tables = []
    for n, k, s, p, d, count in zip(size, kernel, stride, padding, dilation, counts):
        rows = []
        for at in range(k):
            shift = at * d - p
            first = min(count, max(0, -(shift // s)))
            rows.append((shift, first, max(first, min(count, (n - 1 - shift) // s + 1))))
        tables.append(np.array(rows, np.int64))
        tables[-1].flags.writeable = False
    return tables


class _Layout:
    """The windows of a convolution, for images of one or two dimensions."""

    def __init__(self, size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, counts: Ints):
        if len(size) == 1:
            size, kernel, stride, padding, dilation, counts = (
                (1, *size), (1, *kernel), (1, *stride), (0, *padding), (1, *dilation), (1, *counts)
            )  # fmt: skip
        self.size, self.kernel, self.stride, self.counts = size, kernel, stride, counts
        self.tables = [unchanging(t) for t in _tables(size, kernel, stride, padding, dilation, counts)]
        self.window, self.positions = math.prod(kernel), math.prod(counts)
        self.extents = [nothing(c, np.int8) for c in self.counts]  # operands that tell a kernel how many there are

    def _kernel(self, work: int, which: Any, types: tuple[str, ...]) -> Any:
        return cpu.sized(work, which, types, step_down=self.stride[0], step_right=self.stride[1])

    def parts(self, conv: Conv, itemsize: int) -> Iterator[slice]:
        """Ranges of images whose windows stay within bounds."""
        step = max(1, _BYTES // max(1, conv.depth * conv.positions * itemsize))
        for start in range(0, conv.images, step):
            yield slice(start, min(conv.images, start + step))

    def columns(self, x: Any) -> Any:
        """(channels * window, images * positions) of images (N, C, *size)."""
        n, channels = x.shape[:2]
        code = BY_NUMPY[x.dtype].code
        out = empty((channels, *self.kernel, n, *self.counts), x.dtype)
        given = x.reshape(n, channels, *self.size).swapaxes(0, 1)
        call = self._kernel(out.size, lay_out_windows, (code, "i64", "i64", "i8", "i8", code))
        call(given, *self.tables, *self.extents, out)
        return out.reshape(channels * self.window, n * self.positions)

    def images(self, columns: Any, out: Any) -> None:
        """Undoes `columns` by adding up, into `out` (N, C, *size)."""
        n, channels = out.shape[:2]
        code = BY_NUMPY[out.dtype].code
        given = columns.reshape(channels, *self.kernel, n, *self.counts)
        target = out.reshape(n, channels, *self.size).swapaxes(0, 1)
        self._kernel(columns.size, add_up_windows, (code, "i64", "i64", code))(given, *self.tables, target)


@functools.lru_cache(256)
def _laid(*numbers: Ints) -> _Layout:
    return _Layout(*numbers)


def _layout(conv: Conv) -> _Layout:
    return _laid(conv.size, conv.kernel, conv.stride, conv.padding, conv.dilation, conv.counts)


# -- blocks of images ----------------------------------------------------------------------------------------------


@functools.lru_cache(1024)
def _blocks(
    shape: Ints, d: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, counts: Ints, back: bool
) -> tuple[Any, ...]:
    """How single channels of images (N, C, H, W) are laid out, or added up `back`: (kernel, operands, shape of channels,
    of their blocks)."""
    tables = _tables(shape[2:], kernel, stride, padding, dilation, counts)
    code, channels = BY_NUMPY[d].code, shape[0] * shape[1]
    types = (code, "i64", "i64", code) if back else (code, "i64", "i64", "i8", "i8", code)
    work = channels * math.prod(kernel) * math.prod(counts)
    call = cpu.sized(
        work, add_up_windows if back else lay_out_windows, types, step_down=stride[0], step_right=stride[1]
    )
    more = [] if back else [nothing(c, np.int8) for c in counts]
    return call, [*tables, *more], (channels, 1, *shape[2:]), (channels, *kernel, 1, *counts)


def unfolded(x: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, counts: Ints) -> Any:
    """The blocks of images (N, C, H, W) as columns: (N, C * elements of a block, blocks)."""
    call, numbers, channels, blocks = _blocks(x.shape, x.dtype, kernel, stride, padding, dilation, counts, False)
    out = empty((x.shape[0], x.shape[1] * math.prod(kernel), math.prod(counts)), x.dtype)
    call(x.reshape(channels), *numbers, out.reshape(blocks))
    return out


def folded(columns: Any, size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, counts: Ints) -> Any:
    """Undoes `unfolded` by adding up."""
    shape = (columns.shape[0], columns.shape[1] // math.prod(kernel), *size)
    call, numbers, channels, blocks = _blocks(shape, columns.dtype, kernel, stride, padding, dilation, counts, True)
    out = empty(shape, columns.dtype)
    call(columns.reshape(blocks), *numbers, out.reshape(channels))
    return out


# -- convolutions --------------------------------------------------------------------------------------------------


def _flat(g: Any) -> Any:
    """(N, O, *positions) as a matrix (O, N * positions)."""
    return rows_of(g.reshape(*g.shape[:2], -1).swapaxes(0, 1)).reshape(g.shape[1], -1)


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    """Products of all windows of the images with the weight."""
    layout, out, matrix = _layout(conv), empty(conv.result_shape, x.dtype), weight.reshape(conv.outputs, -1)
    for part in layout.parts(conv, x.itemsize):
        columns = layout.columns(x[part])
        made = blas.product(matrix, columns).reshape(len(matrix), -1, conv.positions).swapaxes(0, 1)
        copy(made, out[part].reshape(-1, len(matrix), conv.positions), bias)
    return out


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    """Results times the weight, added up over windows of images."""
    layout, out, matrix = _layout(conv), empty(conv.image_shape, g.dtype), weight.reshape(conv.outputs, -1).T
    for part in layout.parts(conv, g.itemsize):
        layout.images(blas.product(matrix, _flat(g[part])), out[part])
    add_bias(out, bias)
    return out


def sums(conv: Conv, x: Any, g: Any) -> Any:
    """Windows of images times results, summed over all images and positions."""
    layout = _layout(conv)
    total: Any = None
    for part in layout.parts(conv, x.itemsize):
        given, columns = _flat(g[part]), layout.columns(x[part]).T
        total = blas.product(given, columns) if total is None else blas.add_product(total, given, columns, 1, 1)
    return total.reshape(conv.weight_shape)
