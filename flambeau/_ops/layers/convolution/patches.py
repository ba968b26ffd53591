"""Convolutions of CPU arrays whose windows lie side by side: one copy and one product, as where images become patches."""

from __future__ import annotations

from typing import Any

from ...._backend import blas
from ...._backend.copies import place, row_major
from ...._core.allocation import empty, zeros
from .description import Conv, Ints
from .planes import add_bias

# Elements of a window's row from which copies pay. The ways that images have are better than that of volumes (2x4x4 windows of 4 clips of
# 64 frames, one thread: 20 -> 16 ms forward, 120 -> 54 with gradients; 4x4 windows of images: 5 -> 9 ms).
_WIDE = {1: 8, 2: 8, 3: 4}
_CHANNELS = 48  # results of a window, and elements of one, from which its copy is made good


def suits(conv: Conv, role: str) -> bool:
    """Whether windows neither overlap nor leave anything out, and are large."""
    return (
        conv.is_large and conv.groups == 1 and conv.kernel[-1] >= _WIDE[len(conv.kernel)] and conv.stride == conv.kernel
        and not any(conv.padding) and max(conv.dilation) == 1 and min(conv.outputs, conv.depth) >= _CHANNELS
    )  # fmt: skip


def _patches(x: Any, kernel: Ints, counts: Ints) -> Any:
    """Images (N, C, *size) seen as (N, *counts, C, *kernel), without what windows do not reach."""
    inside = x[(..., *(slice(c * k) for c, k in zip(counts, kernel)))]
    split = inside.reshape(*x.shape[:2], *(n for pair in zip(counts, kernel) for n in pair))
    rank = len(kernel)
    return split.transpose(0, *range(2, 2 + 2 * rank, 2), 1, *range(3, 3 + 2 * rank, 2))


def _rows(conv: Conv, x: Any) -> Any:
    """The windows of all images as rows of a matrix."""
    return row_major(_patches(x, conv.kernel, conv.counts)).reshape(len(x) * conv.positions, -1)


def _positions(g: Any) -> Any:
    """Results (N, O, *counts) as a matrix (positions of all images, O)."""
    return row_major(g.reshape(*g.shape[:2], -1).swapaxes(1, 2)).reshape(-1, g.shape[1])


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    """Products of all windows of the images with the weight."""
    rows, matrix = _rows(conv, x), weight.reshape(len(weight), -1).T
    made = blas.product(rows, matrix) if bias is None else blas.add_product(bias, rows, matrix, 1, 1)
    return row_major(made.reshape(len(x), -1, len(weight)).swapaxes(1, 2)).reshape(conv.result_shape)


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    """Results times the weight, put where the windows are."""
    made = blas.product(_positions(g), weight.reshape(len(weight), -1))
    exact = all(n == c * k for n, c, k in zip(conv.size, conv.counts, conv.kernel))
    out = (empty if exact else zeros)(conv.image_shape, g.dtype)
    target = _patches(out, conv.kernel, conv.counts)
    place(target, made.reshape(target.shape))
    add_bias(out, bias)
    return out


def sums(conv: Conv, x: Any, g: Any) -> Any:
    """Windows of images times results, summed over all images and positions."""
    return blas.product(_positions(g).T, _rows(conv, x)).reshape(conv.weight_shape)
