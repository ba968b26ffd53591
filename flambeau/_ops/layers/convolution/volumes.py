"""Convolutions of CPU arrays of three dimensions as those of images: slices that a window covers count as channels.

A slice of the result is a convolution of the slices below its window, laid one after the other; some of them at a time
are copied, and dealt with by the ways for two dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...._backend.copies import place, row_major
from ...._core.allocation import empty
from . import groups, lanes, winograd
from .description import Conv, run

_BYTES = 1 << 23  # of slices laid out at a time


def suits(conv: Conv, role: str) -> bool:
    """Whether there are three dimensions, and a good way for the convolution of slices; those of single elements are columns already."""
    if not conv.is_large or len(conv.kernel) != 3 or conv.groups > 1 or conv.kernel[1:] == (1, 1):
        return False
    if min(conv.images, *conv.counts) < 1:
        return False
    if role == "adjoint" and max(conv.stride) > 1:
        flat = _flat(conv)._replace(images=conv.images * conv.counts[0], outputs=conv.outputs * conv.kernel[0])
        return 4 * flat.outputs * math.prod(flat.counts) <= _BYTES and lanes.suits(flat, "adjoint")
    if role == "adjoint":  # is a convolution of results, as they lie side by side
        conv = conv._replace(inputs=conv.outputs, outputs=conv.inputs, size=conv.counts, counts=conv.size)
    flat = _flat(conv)._replace(images=conv.images * conv.counts[0], inputs=conv.inputs * conv.kernel[0])
    ways, taken = (groups, winograd, lanes), "sums" if role == "sums" else "products"
    return 4 * flat.inputs * math.prod(flat.size) <= _BYTES and any(w.suits(flat, taken) for w in ways)


def _flat(conv: Conv) -> Conv:
    """Without the first dimension."""
    return conv._replace(
        size=conv.size[1:], kernel=conv.kernel[1:], stride=conv.stride[1:], padding=conv.padding[1:],
        dilation=conv.dilation[1:], counts=conv.counts[1:], part=True,
    )  # fmt: skip


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


def _first(conv: Conv) -> list[int]:
    """Which slice the elements of the first window cover."""
    return [k * conv.dilation[0] - conv.padding[0] for k in range(conv.kernel[0])]


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    """Products of all windows of the images with the weight."""
    below = _Slices(x, _first(conv), conv.stride[0], conv.counts[0])
    flat = _flat(conv)._replace(inputs=conv.kernel[0] * conv.inputs)
    turned = np.ascontiguousarray(weight.swapaxes(1, 2)).reshape(flat.weight_shape)
    out = empty(conv.result_shape, weight.dtype)
    _collect(flat, "products", below, turned, bias, out)
    return out


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    """Results times the weight, added up over windows of images. Slices of an image as far apart as windows are covered by the same
    elements of these: they are made together."""
    out, step = empty(conv.image_shape, weight.dtype), conv.stride[0]
    for start in range(min(step, conv.size[0])):
        below = {k: (start - first) // step for k, first in enumerate(_first(conv)) if (start - first) % step == 0}
        some = out[:, :, start::step]
        if not below:  # no window covers them
            some[...] = 0 if bias is None else bias[:, None, None, None]
            continue
        flat = _flat(conv)._replace(outputs=len(below) * conv.outputs)
        turned = np.ascontiguousarray(weight[:, :, [*below]].transpose(2, 0, 1, 3, 4)).reshape(flat.weight_shape)
        _collect(flat, "adjoint", _Slices(g, [*below.values()], 1, some.shape[2]), turned, bias, some)
    return out


def _collect(flat: Conv, role: str, below: _Slices, weight: Any, bias: Any, out: Any) -> None:
    """Makes the results of all slices."""
    for images, made in below.parts():
        given = below.lay_out(images, made)
        target = out[images, :, made].swapaxes(1, 2)
        place(target, run(flat._replace(images=len(given)), role, given, weight, bias).reshape(target.shape))


def sums(conv: Conv, x: Any, g: Any) -> Any:
    """Windows of images times results, summed over all images and positions."""
    below = _Slices(x, _first(conv), conv.stride[0], conv.counts[0])
    total: Any = None
    flat = _flat(conv)._replace(inputs=conv.kernel[0] * conv.inputs)
    for images, made in below.parts():
        given = row_major(g[images, :, made].swapaxes(1, 2))
        given = given.reshape(-1, *given.shape[2:])
        part = run(flat._replace(images=len(given)), "sums", below.lay_out(images, made), given)
        total = part if total is None else total + part
    return np.ascontiguousarray(
        total.reshape(conv.outputs, conv.kernel[0], conv.inputs, *conv.kernel[1:]).swapaxes(1, 2)
    )
