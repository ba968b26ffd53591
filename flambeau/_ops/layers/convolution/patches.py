"""Convolutions of CPU arrays whose windows lie side by side: one copy and one product, as where images become patches."""

from __future__ import annotations

from typing import Any

from ...._backend import blas
from ...._backend.copies import place, row_major, rows_of
from ...._backend.cpu import cpu
from ...._core.allocation import empty, zeros
from ...._core.dtypes import BY_NUMPY
from ...folds.folding import fold_array
from .description import Conv, Ints
from .planes import add_bias

# Elements of a window's row from which copies pay: the ways that images have are better than those of lines and volumes, and better yet if
# so many channels lie side by side.
_WIDE, _WIDE_OF_MANY, _MANY = {1: 2, 2: 4, 3: 2}, 8, 16
_CHANNELS = 8  # results of a window, and elements of one, from which its copy is made good


def suits(conv: Conv, role: str) -> bool:
    """Whether windows neither overlap nor leave anything out, and are large."""
    wide = _WIDE_OF_MANY if len(conv.kernel) == 2 and conv.inputs >= _MANY else _WIDE.get(len(conv.kernel), 0)
    return (
        conv.is_large and conv.groups == 1 and conv.kernel[-1] >= wide and conv.stride == conv.kernel
        and not any(conv.padding) and max(conv.dilation) == 1 and min(conv.outputs, conv.depth) >= _CHANNELS
    )  # fmt: skip


def _patches(x: Any, kernel: Ints, counts: Ints) -> Any:
    """Images (N, C, *size) seen as (N, *counts, C, *kernel), without what windows do not reach."""
    inside = x[(..., *(slice(c * k) for c, k in zip(counts, kernel)))]
    split = inside.reshape(*x.shape[:2], *(n for pair in zip(counts, kernel) for n in pair))
    rank = len(kernel)
    return split.transpose(0, *range(2, 2 + 2 * rank, 2), 1, *range(3, 3 + 2 * rank, 2))


def _rows(conv: Conv, x: Any) -> Any:
    """The windows of each image as rows of a matrix: (N, positions, depth)."""
    return row_major(_patches(x, conv.kernel, conv.counts)).reshape(len(x), conv.positions, -1)


def _flat(g: Any) -> Any:
    """Results with their positions in a row: (N, O, positions)."""
    return rows_of(g).reshape(*g.shape[:2], -1)


def _by_image(conv: Conv) -> bool:
    """Whether each image has a product of its own, whose result needs no copy: it reads the weight, too, which must be small beside it."""
    return conv.images == 1 or conv.positions >= conv.depth


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    """Products of all windows of the images with the weight."""
    rows, matrix = _rows(conv, x), weight.reshape(1, len(weight), -1)
    if _by_image(conv):
        out = blas.product(matrix, rows.swapaxes(1, 2)).reshape(conv.result_shape)
        add_bias(out, bias)
        return out
    rows, matrix = rows.reshape(-1, conv.depth), matrix[0].T
    made = blas.product(rows, matrix) if bias is None else blas.add_product(bias, rows, matrix, 1, 1)
    return row_major(made.reshape(len(x), -1, len(weight)).swapaxes(1, 2)).reshape(conv.result_shape)


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    """Results times the weight, put where the windows are."""
    given, matrix = _flat(g).swapaxes(1, 2), weight.reshape(1, len(weight), -1)
    if not _by_image(conv):
        given, matrix = row_major(given).reshape(-1, conv.outputs), matrix[0]
    made = blas.product(given, matrix)
    exact = all(n == c * k for n, c, k in zip(conv.size, conv.counts, conv.kernel))
    out = (empty if exact else zeros)(conv.image_shape, g.dtype)
    target = _patches(out, conv.kernel, conv.counts)
    place(target, made.reshape(target.shape))
    add_bias(out, bias)
    return out


def sums(conv: Conv, x: Any, g: Any) -> Any:
    """Windows of images times results, summed over all images and positions."""
    given, rows = _flat(g), _rows(conv, x)
    if _by_image(conv):
        made = blas.product(given, rows)
        total = made[0] if len(made) == 1 else fold_array(cpu, made, (0,), False, "sum", BY_NUMPY[made.dtype])
    else:
        total = blas.product(row_major(given.swapaxes(1, 2)).reshape(-1, conv.outputs).T, rows.reshape(-1, conv.depth))
    return total.reshape(conv.weight_shape)
