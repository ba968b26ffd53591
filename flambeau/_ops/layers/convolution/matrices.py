"""Convolutions by products with matrices of windows: for any backend, any dtype and any number of dimensions.

The windows of a few images at a time are laid out, so that memory stays bounded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...._backend import blas
from ...._backend.cpu import cpu
from ...linear.matmul import product
from .description import CODES, Conv, Ints, output_size
from .planes import add_bias

_WINDOW_BYTES = {"cpu": 1 << 24, "cuda": 1 << 28}  # of windows laid out at a time


def suits(conv: Conv, role: str) -> bool:
    """Whatever it is."""
    return True


def padded(backend: Any, x: Any, padding: Ints) -> Any:
    """x with zeros around its last dimensions."""
    if not any(padding):
        return x
    lead = x.ndim - len(padding)
    made = backend.zeros((*x.shape[:lead], *(n + 2 * p for n, p in zip(x.shape[lead:], padding))), x.dtype)
    made[(..., *(slice(p, p + n) for p, n in zip(padding, x.shape[lead:])))] = x
    return made


def windows(backend: Any, x: Any, kernel: Ints, stride: Ints, dilation: Ints) -> Any:
    """(N, C, *size) seen as (N, C, *kernel, *positions), without a copy."""
    rank = len(kernel)
    count = output_size(x.shape[2:], kernel, stride, (0,) * rank, dilation)
    steps = x.strides[2:]
    return backend.xp.lib.stride_tricks.as_strided(
        x, (*x.shape[:2], *kernel, *count),
        (*x.strides[:2], *(a * d for a, d in zip(steps, dilation)), *(a * s for a, s in zip(steps, stride))),
    )  # fmt: skip


def add_windows(backend: Any, columns: Any, size: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Any:
    """Undoes `windows` by adding up: (N, C, *kernel, *positions) becomes (N, C, *size)."""
    rank = len(size)
    kernel, count = columns.shape[2 : 2 + rank], columns.shape[2 + rank :]
    reach = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(count, stride, dilation, kernel)]
    whole = [max(n + 2 * p, r) for n, p, r in zip(size, padding, reach)]
    made = backend.zeros((*columns.shape[:2], *whole), columns.dtype)
    for place in itertools.product(*map(range, kernel)):  # a step for each element of a window
        target = tuple(
            slice(at * d, at * d + (n - 1) * s + 1, s) for at, d, n, s in zip(place, dilation, count, stride)
        )
        made[(..., *target)] += columns[(slice(None), slice(None), *place)]
    return made[(..., *(slice(p, p + n) for p, n in zip(padding, size)))]


# -- products ------------------------------------------------------------------------------------------------------


def _chunks(conv: Conv, itemsize: int) -> Iterator[slice]:
    """Ranges of images whose windows stay within bounds."""
    elements = conv.groups * conv.depth * conv.positions
    step = max(1, _WINDOW_BYTES[conv.backend.name] // max(1, elements * itemsize))
    for start in range(0, conv.images, step):
        yield slice(start, min(conv.images, start + step))


def _bilinear(conv: Conv, compute: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """A bilinear function of two arrays; of complex ones, by three of their parts."""
    if x.dtype.kind != "c":
        return compute(x, y)
    real, imaginary = compute(x.real, y.real), compute(x.imag, y.imag)
    made = conv.backend.xp.empty(real.shape, x.dtype)
    made.imag = compute(x.real + x.imag, y.real + y.imag) - real - imaginary
    made.real = real - imaginary
    return made


def _with_bias(conv: Conv, made: Any, bias: Any) -> Any:
    if conv.backend is cpu and made.dtype in CODES:
        add_bias(made, bias)
    elif bias is not None:
        made += bias.reshape(-1, *(1,) * (made.ndim - 2))
    return made


def _columns(conv: Conv, x: Any) -> Any:
    """The windows of images as matrices: (N, groups, elements, positions)."""
    laid = windows(conv.backend, padded(conv.backend, x, conv.padding), conv.kernel, conv.stride, conv.dilation)
    laid = laid[(..., *(slice(n) for n in conv.counts))]  # maybe fewer positions are wanted
    return laid.reshape(len(x), conv.groups, conv.depth, conv.positions)


def _split(conv: Conv, results: Any) -> Any:
    """Results as matrices: (N, groups, outputs, positions)."""
    return results.reshape(len(results), conv.groups, conv.outputs // conv.groups, conv.positions)


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    """Products of all windows of the images with the weight."""
    return _with_bias(conv, _bilinear(conv, lambda a, b: _products(conv, a, b), x, weight), bias)


def _products(conv: Conv, x: Any, weight: Any) -> Any:
    matrix = weight.reshape(conv.groups, conv.outputs // conv.groups, conv.depth)
    if conv.is_plain:
        made = product(conv.backend, matrix, x.reshape(len(x), conv.groups, conv.depth, conv.positions))
        return made.reshape(conv.result_shape)
    out = conv.backend.empty(conv.result_shape, x.dtype)
    for part in _chunks(conv, x.itemsize):
        out[part] = product(conv.backend, matrix, _columns(conv, x[part])).reshape(out[part].shape)
    return out


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    """Results times the weight, added up over windows of images."""
    return _with_bias(conv, _bilinear(conv, lambda a, b: _adjoint(conv, a, b), g, weight), bias)


def _adjoint(conv: Conv, g: Any, weight: Any) -> Any:
    matrix = weight.reshape(conv.groups, conv.outputs // conv.groups, conv.depth).swapaxes(1, 2)
    if conv.is_plain and conv.size == conv.counts:
        return product(conv.backend, matrix, _split(conv, g)).reshape(conv.image_shape)
    out = conv.backend.empty(conv.image_shape, g.dtype)
    for part in _chunks(conv, g.itemsize):
        columns = product(conv.backend, matrix, _split(conv, g[part]))
        columns = columns.reshape(len(columns), conv.inputs, *conv.kernel, *conv.counts)
        if conv.narrow is not None:
            columns = columns.astype(conv.narrow)
        out[part] = add_windows(conv.backend, columns, conv.size, conv.stride, conv.padding, conv.dilation)
    return out


def sums(conv: Conv, x: Any, g: Any) -> Any:
    """Windows of images times results, summed over all images and positions."""
    return _bilinear(conv, lambda a, b: _sums(conv, a, b), x, g)


def _sums(conv: Conv, x: Any, g: Any) -> Any:
    backend = conv.backend
    if conv.groups == 1 and backend.xp is np and conv.is_plain:
        made = backend.zeros((conv.outputs, conv.depth), x.dtype)
        images, results = (a.reshape(*a.shape[:2], conv.positions) for a in (x, g))
        for i in range(len(x)):
            made = blas.add_product(made, results[i], images[i].T, 1, 1)
        return made.reshape(conv.weight_shape)
    made = backend.zeros((conv.groups, conv.outputs // conv.groups, conv.depth), x.dtype)
    for part in _chunks(conv, x.itemsize):
        columns = _columns(conv, x[part])
        made += product(backend, _split(conv, g[part]), columns.swapaxes(2, 3)).sum(0, dtype=x.dtype)
    return made.reshape(conv.weight_shape)
