"""Convolutions of CPU arrays whose groups have few channels, by the kernels of `_kernel/images/conv_groups.py`."""

from __future__ import annotations

import functools
import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...._backend import threads
from ...._backend.copies import row_major, rows_of
from ...._backend.cpu import cpu
from ...._core.allocation import empty, zeros
from ...._core.dtypes import BY_NUMPY
from ...._kernel.images import conv_groups as kernels
from ...._kernel.images.conv_groups import Window
from ...._kernel.render.tiles import lanes
from ...._kernel.render.value import SIZE
from ...._kernel.threads import pool
from ...folds.folding import fold_array
from .description import CODES, Conv, Ints, nothing

_MOST, _TALL = 64, 32  # elements of a window that a kernel has in its code; of a column of larger ones
_APART = (
    4  # times as many elements as lie between larger windows are worth it; elements between results of their adjoint
)
_CHANNELS, _ALONE = 32, 4  # of a group; of images or results with one group
_PLANE, _ROOM = 1 << 18, 1 << 22  # elements of a plane where there are many, and of all planes of a group
_EVEN = 4  # times as many images as threads are dealt evenly enough
_PRODUCTS = 2  # that take as long as to move an element: sums of few do not stay in registers


def suits(conv: Conv, role: str) -> bool:
    """Whether images have two dimensions, groups are small, and so are their windows and planes.

    One group is worth it for the adjoint where no zeros lie between elements; of many channels, where each thread has images; and for
    products where rows fill vectors better than channels do.
    """
    inputs, outputs, size = conv.inputs // conv.groups, conv.outputs // conv.groups, math.prod(conv.size)
    along = role == "products" and conv.has_kernels and conv.window <= _MOST
    along = along and _fills_less(inputs, conv.counts[-1], lanes(CODES[conv.dtype]))
    few = max(inputs, outputs) <= _CHANNELS if conv.groups > 1 else along or min(inputs, outputs) <= _ALONE
    if not few or not conv.has_kernels or len(conv.kernel) != 2:
        return False
    apart = math.prod(conv.stride) if conv.window > _MOST else 1
    if conv.window > _MOST and (conv.kernel[0] > _TALL or conv.window <= _APART * apart):
        return False
    if not conv.is_large and (conv.groups == 1 or not size or not conv.work):
        return False
    given = outputs if role == "adjoint" else inputs
    if given * size > _ROOM or min(given, _ALONE) * size > _ALONE * _PLANE:
        return False
    if conv.groups == 1 and inputs > _ALONE and conv.images * (1 if role == "products" else 2) < conv.cores:
        return False
    few_zeros = apart <= _APART if conv.groups > 1 else max(conv.stride) == 1
    return role != "adjoint" or (min(conv.around) >= 0 and few_zeros)


def _fills_less(few: int, row: int, lanes: int) -> bool:
    """Whether so many elements are less than a vector, and idle more of its lanes than a row idles of those it takes."""
    return few < lanes and few * -(-row // lanes) <= row


def _grouped(x: Any, groups: int) -> Any:
    """(images, groups, channels, rows, columns) with dense rows."""
    if x.strides[-1] != x.itemsize and x.shape[-1] > 1:
        x = row_major(x)
    return x.reshape(len(x), groups, -1, *x.shape[2:])


class _Planes(NamedTuple):
    """How planes become results: rows of a window of these extents go `stride` apart over elements `spread` apart, with zeros around."""

    code: str
    size: Ints
    kernel: Ints
    stride: Ints
    padding: Ints
    dilation: Ints
    spread: Ints
    counts: Ints

    def under(self, rows: slice) -> tuple[slice, _Planes]:
        """The rows of planes that windows of some rows of results cover, and how those become these."""
        step, top, apart = self.stride[0], self.padding[0], self.spread[0]
        first, last = rows.start * step, (rows.stop - 1) * step + (self.kernel[0] - 1) * self.dilation[0]
        low = max(0, -((top - first) // apart))
        high = max(low, min(self.size[0], (last - top) // apart + 1))
        return slice(low, high), self._replace(
            size=(high - low, self.size[1]), counts=(rows.stop - rows.start, self.counts[1]),
            padding=(max(0, top + low * apart - first), self.padding[1]),
        )  # fmt: skip


@functools.lru_cache(256)
def _plan(planes: _Planes) -> tuple[Window, Any, int]:
    """A kernel's window, its numbers, and the elements of a plane in its scratch memory."""
    code, size, kernel, stride, padding, dilation, spread, counts = planes
    columns = kernel[1] if math.prod(kernel) <= _MOST else 0  # of larger windows the kernel has one column in its code
    window = Window(kernel[0], columns, stride[0], stride[1], dilation[0], (spread[0], spread[1]))
    across = stride[1]
    reach = max((size[1] - 1) * spread[1] + padding[1], (counts[1] - 1) * across + (kernel[1] - 1) * dilation[1]) + 1
    half = -(-reach // across)  # columns of one remainder
    pitch = half * across
    begins = [padding[1] + e for e in range(across)]
    begins = [padding[0] * pitch + b % across * half + b // across for b in begins]
    places = [k * dilation[1] for k in range(kernel[1])]
    places = [p % across * half + p // across for p in places]
    last = max((size[0] - 1) * spread[0] + padding[0], (counts[0] - 1) * stride[0] + (kernel[0] - 1) * dilation[0])
    plane = (last + 1) * pitch + 2 * kernels.slack(code)
    numbers = np.array([pitch, plane, *begins, *places], np.int64) * SIZE[code]
    numbers.flags.writeable = False
    return window, numbers, plane


Part = tuple[slice, slice, slice]  # some images, groups and rows of results


def _parts(conv: Conv, work: int, rows: int) -> list[Part]:
    """What threads work on: images and groups, and rows where images are few or cannot be dealt evenly."""
    if not threads.pay(work // _PRODUCTS):
        return [(slice(conv.images), slice(conv.groups), slice(0, rows))]
    some = threads.ranges(conv.groups)
    each = -(-conv.threads // len(some))
    across = each if conv.images >= _EVEN * each else math.gcd(conv.images, each)
    down = min(each // across, rows // kernels.ROWS)
    if down < 2:
        across, down = min(conv.images, each), 1
    of_rows = [rows * i // down // kernels.ROWS * kernels.ROWS for i in range(down)]
    return [
        (images, slice(*c), lines)
        for images in _between([conv.images * i // across for i in range(across + 1)])
        for c in some
        for lines in _between([*of_rows, rows])
    ]


def _between(bounds: list[int]) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(bounds)]


def _scratch(parts: int, elements: int, d: Any) -> Any:
    return zeros((parts, elements + pool.APART // d.itemsize), d)


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    """Each group of channels by the windows of its outputs."""
    factors = rows_of(weight).reshape(conv.groups, -1, weight.shape[1], conv.window)
    return _run(conv, _forward(conv), x, factors, bias, conv.result_shape)


def _forward(conv: Conv) -> _Planes:
    return _Planes(
        CODES[conv.dtype], conv.size, conv.kernel, conv.stride, conv.padding, conv.dilation, (1, 1), conv.counts
    )


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    """A convolution of elements `stride` apart by windows turned round."""
    factors = weight.reshape(conv.groups, -1, weight.shape[1], conv.window)[..., ::-1].swapaxes(1, 2)
    planes = _Planes(
        CODES[g.dtype], conv.counts, conv.kernel, (1, 1), conv.around, conv.dilation, conv.stride, conv.size
    )
    return _run(conv, planes, g, rows_of(factors), bias, conv.image_shape)


def _run(conv: Conv, planes: _Planes, x: Any, weight: Any, bias: Any, shape: Ints) -> Any:
    """With weights (groups, outputs, inputs, elements)."""
    groups, outputs, inputs, elements = weight.shape
    given = _grouped(x, groups)
    added = (nothing(groups * outputs, x.dtype) if bias is None else bias).reshape(groups, outputs)
    out = empty((conv.images, groups, outputs, *shape[2:]), x.dtype)
    parts = _parts(conv, out.size * inputs * elements, shape[2])
    lines, numbers, plane = _cut(planes, parts)
    scratch = _scratch(len(parts), inputs * plane, x.dtype)
    cpu.side_by_side(
        kernels.products(planes.code, _plan(planes)[0]),
        [
            [given[i, g, :, under], weight[g], added[g], numbers[r.start], scratch[n], out[i, g, :, r]]
            for n, ((i, g, r), under) in enumerate(zip(parts, lines))
        ],
    )
    return out.reshape(shape)


def _cut(planes: _Planes, parts: list[Part]) -> tuple[list[slice], dict[int, Any], int]:
    """The rows of planes below each part; the numbers of those that begin with a row; and the elements of the largest plane."""
    found = {rows.start: planes.under(rows) for *_, rows in parts}
    made = {first: _plan(own) for first, (_, own) in found.items()}
    numbers = {first: plan[1] for first, plan in made.items()}
    return [found[rows.start][0] for *_, rows in parts], numbers, max(plan[2] for plan in made.values())


def sums(conv: Conv, x: Any, g: Any) -> Any:
    """Windows of images times results, summed over all images and positions."""
    planes = _forward(conv)
    given, gradient = _grouped(x, conv.groups), _grouped(g, conv.groups)
    parts = _parts(conv, conv.work, conv.counts[0])
    lines, numbers, plane = _cut(planes, parts)
    places = {place: n for n, place in enumerate(dict.fromkeys((i.start, r.start) for i, _, r in parts))}
    made = zeros((len(places), conv.groups, gradient.shape[2], given.shape[2], conv.window), x.dtype)
    scratch = _scratch(len(parts), plane, x.dtype)
    cpu.side_by_side(kernels.sums(planes.code, _plan(planes)[0]), [
        [given[i, c, :, under], gradient[i, c, :, r], numbers[r.start], scratch[n], made[places[i.start, r.start], c]]
        for n, ((i, c, r), under) in enumerate(zip(parts, lines))
    ])  # fmt: skip
    total = made[0] if len(made) == 1 else fold_array(cpu, made, (0,), False, "sum", BY_NUMPY[made.dtype])
    return total.reshape(conv.weight_shape)
