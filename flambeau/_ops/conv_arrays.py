"""Convolutions of arrays by products with matrices of windows: for any backend, any dtype and any number of dimensions.

The windows of a few images at a time are laid out, so that memory stays bounded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._backend import blas
from .matmul import product

Ints = tuple[int, ...]
_WINDOW_BYTES = {"cpu": 1 << 24, "cuda": 1 << 28}  # of windows laid out at a time


def output_size(size: Sequence[int], kernel: Sequence[int], stride: Ints, padding: Ints, dilation: Ints) -> Ints:
    """How many positions windows have along each dimension."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(size, kernel, stride, padding, dilation)
    )


def transposed_size(
    size: Sequence[int], kernel: Sequence[int], stride: Ints, padding: Ints, dilation: Ints, extra: Ints
) -> Ints:
    """The extents of an image whose windows have `size` positions; `extra` tells apart those that round to them."""
    return tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + 1 + e
        for n, k, s, p, d, e in zip(size, kernel, stride, padding, dilation, extra)
    )


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


def _chunks(backend: Any, images: int, elements: int, itemsize: int) -> Iterator[slice]:
    """Ranges of images whose windows, so many elements an image, stay within bounds."""
    step = max(1, _WINDOW_BYTES[backend.name] // max(1, elements * itemsize))
    for start in range(0, images, step):
        yield slice(start, min(images, start + step))


def is_plain(kernel: Sequence[int], stride: Ints, padding: Ints) -> bool:
    """Whether windows are single elements, all of them: then they are a matrix already."""
    return set(kernel) == {1} and set(stride) == {1} and not any(padding)


def convolve(
    backend: Any, x: Any, weight: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, count: Ints
) -> Any:
    """Products of all windows of x (N, C, *size) with the weight (O, C / groups, *kernel)."""
    kernel, outputs = weight.shape[2:], weight.shape[0]
    inner, positions = math.prod(weight.shape[1:]), math.prod(count)
    matrix = weight.reshape(groups, outputs // groups, inner)
    if is_plain(kernel, stride, padding):
        made = product(backend, matrix, x.reshape(len(x), groups, inner, positions))
        return made.reshape(len(x), outputs, *count)
    out = backend.empty((x.shape[0], outputs, *count), x.dtype)
    for part in _chunks(backend, x.shape[0], groups * inner * positions, x.dtype.itemsize):
        columns = windows(backend, padded(backend, x[part], padding), kernel, stride, dilation)
        columns = columns.reshape(len(columns), groups, inner, positions)
        out[part] = product(backend, matrix, columns).reshape(len(columns), outputs, *count)
    return out


def convolve_transposed(
    backend: Any, x: Any, weight: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, size: Ints,
    narrow: Any = None,
) -> Any:  # fmt: skip
    """The adjoint of `convolve`: x (N, O, *positions) spread by the weight (O, C / groups, *kernel) over images.

    With a dtype `narrow`, products are rounded to it and added up in it.
    """
    kernel, inputs = weight.shape[2:], weight.shape[0]
    channels, count = weight.shape[1] * groups, x.shape[2:]
    inner, positions = math.prod(weight.shape[1:]), math.prod(count)
    matrix = weight.reshape(groups, inputs // groups, inner).swapaxes(1, 2)
    if is_plain(kernel, stride, padding) and size == tuple(count):
        made = product(backend, matrix, x.reshape(len(x), groups, inputs // groups, positions))
        return made.reshape(len(x), channels, *size)
    out = backend.empty((x.shape[0], channels, *size), x.dtype)
    for part in _chunks(backend, x.shape[0], groups * inner * positions, x.dtype.itemsize):
        given = x[part].reshape(-1, groups, inputs // groups, positions)
        columns = product(backend, matrix, given).reshape(len(given), channels, *kernel, *count)
        if narrow is not None:
            columns = columns.astype(narrow)
        out[part] = add_windows(backend, columns, size, stride, padding, dilation)
    return out


def weight_sums(
    backend: Any, x: Any, g: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:
    """(O, C / groups, *kernel): windows of x (N, C, *size) times g (N, O, *positions), summed over all positions."""
    outputs, channels, count = g.shape[1], x.shape[1] // groups, g.shape[2:]
    inner, positions = channels * math.prod(kernel), math.prod(count)
    if groups == 1 and backend.xp is np and is_plain(kernel, stride, padding):
        return _plain_sums(x.reshape(len(x), inner, positions), g.reshape(len(g), outputs, positions)).reshape(
            outputs, channels, *kernel
        )
    made = backend.zeros((groups, outputs // groups, inner), x.dtype)
    cut = (slice(None), slice(None), *(slice(None),) * len(kernel), *(slice(n) for n in count))
    for part in _chunks(backend, x.shape[0], groups * inner * positions, x.dtype.itemsize):
        columns = windows(backend, padded(backend, x[part], padding), kernel, stride, dilation)[cut]
        columns = columns.reshape(len(columns), groups, inner, positions)
        given = g[part].reshape(len(columns), groups, outputs // groups, positions)
        made += product(backend, given, columns.swapaxes(2, 3)).sum(0, dtype=x.dtype)
    return made.reshape(outputs, channels, *kernel)


def _plain_sums(x: Any, g: Any) -> Any:
    """The sum of g[n] @ x[n].T over all images, without a matrix for each."""
    made = np.zeros((g.shape[1], x.shape[1]), x.dtype)
    for image, gradient in zip(x, g):
        made = blas.add_product(made, gradient, image.T, 1, 1)
    return made
