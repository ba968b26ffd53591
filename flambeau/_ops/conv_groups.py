"""Convolutions of CPU arrays whose groups have few channels, by the kernels of `_kernel/conv_groups.py`."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .._backend import copies, threads
from .._core.allocation import empty
from .._kernel import conv_groups as kernels
from .._kernel.conv_groups import Window
from .._kernel.native import pool
from .._kernel.value import SIZE
from .conv_arrays import Ints
from .conv_planes import CODES
from .fused import side_by_side

_MOST = 64  # elements of a window, which a kernel has in its code
_CHANNELS, _ALONE = 32, 4  # of a group; of images with one group
_ROOM = 1 << 20  # elements of a group's planes
_PARALLEL = 1 << 19  # products from which a second thread pays


def suits(weight_shape: Sequence[int], groups: int, padding: Ints, size: Sequence[int]) -> bool:
    """Whether groups are small, and so are their windows, for images of this size."""
    kernel, inputs, outputs = weight_shape[2:], weight_shape[1], weight_shape[0] // groups
    few = max(inputs, outputs) <= _CHANNELS if groups > 1 else inputs <= _ALONE
    return (
        few and len(kernel) == 2 and min(padding) >= 0 and math.prod(kernel) <= _MOST
        and inputs * math.prod(size) <= _ROOM
    )  # fmt: skip


def suits_transposed(
    weight_shape: Sequence[int], groups: int, stride: Ints, padding: Ints, dilation: Ints, size: Sequence[int]
) -> bool:
    """The same for the adjoint, whose result has this size: one group is worth it where no zeros lie between elements."""
    around, outputs = _zeros_around(weight_shape[2:], padding, dilation), weight_shape[0] // groups
    return (
        min(around) >= 0 and suits(weight_shape, groups, padding, size) and outputs * math.prod(size) <= _ROOM
        and (groups > 1 or max(stride) == 1)
    )  # fmt: skip


def _grouped(x: Any, groups: int) -> Any:
    """(images, groups, channels, rows, columns) with dense rows."""
    if x.strides[-1] != x.itemsize and x.shape[-1] > 1:
        x = copies.row_major(x)
    return x.reshape(len(x), groups, -1, *x.shape[2:])


@functools.lru_cache(256)
def _plan(
    code: str, size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, spread: Ints, counts: Ints
) -> tuple[Window, Any, int]:
    """A kernel's window, its numbers, and the elements of a plane in its scratch memory."""
    window = Window(kernel[0], kernel[1], stride[0], stride[1], dilation[0], (spread[0], spread[1]))
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
    return window, np.array([pitch, plane, *begins, *places], np.int64) * SIZE[code], plane


def _parts(images: int, groups: int, work: int) -> list[tuple[slice, slice]]:
    """Ranges of images and groups that threads work on."""
    if work < _PARALLEL:
        return [(slice(images), slice(groups))]
    some = threads.ranges(groups)
    each = -(-threads.get_num_threads() // len(some))
    bounds = [images * i // each for i in range(each + 1)]
    ranges = [slice(a, b) for a, b in pairwise(bounds) if a < b]
    return [(i, slice(*c)) for i in ranges for c in some]


def _scratch(parts: int, elements: int, d: Any) -> Any:
    return np.zeros((parts, elements + pool.APART // d.itemsize), d)


def convolve(
    x: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, counts: Ints
) -> Any:
    """Each group of channels by the windows of its outputs."""
    factors = np.ascontiguousarray(weight).reshape(groups, -1, weight.shape[1], math.prod(weight.shape[2:]))
    return _run(x, factors, weight.shape[2:], bias, stride, padding, dilation, (1, 1), counts)


def _run(
    x: Any,
    weight: Any,
    kernel: Ints,
    bias: Any,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    spread: Ints,
    counts: Ints,
) -> Any:
    """With weights (groups, outputs, inputs, elements)."""
    code, images = CODES[x.dtype], len(x)
    groups, outputs, inputs, elements = weight.shape
    given = _grouped(x, groups)
    window, numbers, plane = _plan(code, x.shape[2:], kernel, stride, padding, dilation, spread, counts)
    added = np.zeros((groups, outputs), x.dtype) if bias is None else bias.reshape(groups, outputs)
    out = empty((images, groups, outputs, *counts), x.dtype)
    parts = _parts(images, groups, out.size * inputs * elements)
    scratch = _scratch(len(parts), inputs * plane, x.dtype)
    side_by_side(
        kernels.products(code, window),
        [[given[i, g], weight[g], added[g], numbers, scratch[n], out[i, g]] for n, (i, g) in enumerate(parts)],
    )
    return out.reshape(images, groups * outputs, *counts)


def _zeros_around(kernel: Sequence[int], padding: Ints, dilation: Ints) -> Ints:
    """The zeros around the gradient of a result; less than none if the image begins beyond it."""
    return tuple(d * (k - 1) - p for k, p, d in zip(kernel, padding, dilation))


def convolve_transposed(
    g: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, size: Ints
) -> Any:
    """The adjoint of `convolve`: a convolution of elements `stride` apart by windows turned round."""
    kernel = weight.shape[2:]
    around = _zeros_around(kernel, padding, dilation)
    factors = weight.reshape(groups, -1, weight.shape[1], math.prod(kernel))[..., ::-1].swapaxes(1, 2)
    return _run(
        g, np.ascontiguousarray(factors), kernel, bias, (1,) * len(stride), around, dilation, stride, size
    )  # fmt: skip


def weight_sums(
    x: Any, g: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:  # fmt: skip
    """The gradient of `convolve` by its weight."""
    code, images, elements = CODES[x.dtype], len(x), math.prod(kernel)
    given, gradient = _grouped(x, groups), _grouped(g, groups)
    inputs, outputs, counts = given.shape[2], gradient.shape[2], gradient.shape[3:]
    window, numbers, plane = _plan(code, x.shape[2:], kernel, stride, padding, dilation, (1, 1), counts)
    parts = _parts(images, groups, g.size * inputs * elements)
    cut = len({i.start for i, _ in parts})  # ranges of images
    made = np.zeros((cut, groups, outputs, inputs, elements), x.dtype)
    scratch, each = _scratch(len(parts), plane, x.dtype), len(parts) // cut
    side_by_side(kernels.sums(code, window), [
        [given[i, c], gradient[i, c], numbers, scratch[n], made[n // each, c]] for n, (i, c) in enumerate(parts)
    ])  # fmt: skip
    total = made[0] if cut == 1 else made.sum(0)
    return total.reshape(groups * outputs, inputs, *kernel)
