"""Convolutions of CPU arrays whose windows lie side by side: one copy and one product, as where images become patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._backend import blas
from .._backend.copies import place, row_major
from .._core.allocation import empty, zeros
from .conv_arrays import Ints

_WIDE = 8  # elements of a window's row from which copies are of whole runs
_CHANNELS = 48  # results of a window, and elements of one, from which its copy is made good


def suits(weight: Sequence[int], groups: int, stride: Ints, padding: Ints, dilation: Ints) -> bool:
    """Whether windows neither overlap nor leave anything out, and are large."""
    kernel = tuple(weight[2:])
    return (
        groups == 1 and kernel[-1] >= _WIDE and stride == kernel and not any(padding) and max(dilation) == 1
        and min(weight[0], weight[1] * math.prod(kernel)) >= _CHANNELS
    )  # fmt: skip


def _patches(x: Any, kernel: Ints, counts: Ints) -> Any:
    """Images (N, C, *size) seen as (N, *counts, C, *kernel), without what windows do not reach."""
    inside = x[(..., *(slice(c * k) for c, k in zip(counts, kernel)))]
    split = inside.reshape(*x.shape[:2], *(n for pair in zip(counts, kernel) for n in pair))
    rank = len(kernel)
    return split.transpose(0, *range(2, 2 + 2 * rank, 2), 1, *range(3, 3 + 2 * rank, 2))


def _rows(x: Any, kernel: Ints, counts: Ints) -> Any:
    """The windows of all images as rows of a matrix."""
    return row_major(_patches(x, kernel, counts)).reshape(len(x) * math.prod(counts), -1)


def _positions(g: Any) -> Any:
    """Results (N, O, *counts) as a matrix (positions of all images, O)."""
    return row_major(g.reshape(*g.shape[:2], -1).swapaxes(1, 2)).reshape(-1, g.shape[1])


def convolve(x: Any, weight: Any, bias: Any, counts: Ints) -> Any:
    """See `conv_arrays.convolve`; with a bias."""
    rows, matrix = _rows(x, weight.shape[2:], counts), weight.reshape(len(weight), -1).T
    made = blas.product(rows, matrix) if bias is None else blas.add_product(bias, rows, matrix, 1, 1)
    return row_major(made.reshape(len(x), -1, len(weight)).swapaxes(1, 2)).reshape(len(x), len(weight), *counts)


def convolve_transposed(x: Any, weight: Any, bias: Any, size: Ints) -> Any:
    """See `conv_arrays.convolve_transposed`; with a bias."""
    kernel, counts = weight.shape[2:], x.shape[2:]
    made = blas.product(_positions(x), weight.reshape(len(weight), -1))
    exact = all(n == c * k for n, c, k in zip(size, counts, kernel))
    out = (empty if exact else zeros)((len(x), weight.shape[1], *size), x.dtype)
    target = _patches(out, kernel, counts)
    place(target, made.reshape(target.shape))
    if bias is not None:
        out += bias.reshape(-1, *(1,) * len(size))
    return out


def weight_sums(x: Any, g: Any, kernel: Ints) -> Any:
    """See `conv_arrays.weight_sums`."""
    made = blas.product(_positions(g).T, _rows(x, kernel, g.shape[2:]))
    return made.reshape(g.shape[1], x.shape[1], *kernel)
