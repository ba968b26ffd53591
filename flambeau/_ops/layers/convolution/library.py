"""Convolutions by the library that a device has for them: cuDNN on GPUs, where it is installed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...._backend.copies import rows_of
from ..channels import is_channels_last
from . import matrices
from .description import Conv, output_size

_MOST = 1 << 31  # elements of an operand


def suits(conv: Conv, role: str) -> bool:
    """Whether the device has one that computes with such elements; in what it leaves out, matrices take its place."""
    return conv.narrow is None and bool(conv.backend.convolves(conv.dtype))


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    """Products of all windows of the images with the weight."""
    return _with_bias(conv, _made(conv, "products", x, weight, conv.result_shape), bias)


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    """Results times the weight, added up over windows of images."""
    return _with_bias(conv, _made(conv, "adjoint", weight, g, conv.image_shape), bias)


def sums(conv: Conv, x: Any, g: Any) -> Any:
    """Windows of images times results, summed over all images and positions."""
    return rows_of(_made(conv, "sums", x, g, conv.weight_shape))


def _made(conv: Conv, role: str, first: Any, second: Any, shape: tuple[int, ...]) -> Any:
    """With channels side by side if an operand has them so and the library can, otherwise with channels first."""
    windows = output_size(conv.size, conv.kernel, conv.stride, conv.padding, conv.dilation)
    if conv.work and windows == conv.counts and max(first.size, second.size, math.prod(shape)) < _MOST:
        for last in (True, False) if is_channels_last(first) or is_channels_last(second) else (False,):
            a, b, out = _dense(first, last), _dense(second, last), _room(conv, shape, last)
            about = conv.stride, conv.padding, conv.dilation, conv.groups
            if conv.backend.convolutions(role, a, b, out, *about, last):
                return out
    return _by_matrices(conv, role, first, second)


def _room(conv: Conv, shape: tuple[int, ...], last: bool) -> Any:
    if not last:
        return conv.backend.empty(shape, conv.dtype)
    made = conv.backend.empty((shape[0], *shape[2:], shape[1]), conv.dtype)
    return made.transpose(0, len(shape) - 1, *range(1, len(shape) - 1))


def _dense(a: Any, last: bool) -> Any:
    """The array itself if its elements lie in the order wanted, otherwise a copy in which they do."""
    if not last:
        return rows_of(a)
    return rows_of(a.transpose(0, *range(2, a.ndim), 1)).transpose(0, a.ndim - 1, *range(1, a.ndim - 1))


def _by_matrices(conv: Conv, role: str, first: Any, second: Any) -> Any:
    """What the library leaves out; 16-bit floats are computed in 32 bits."""
    wide = np.dtype(np.float32) if conv.dtype.itemsize == 2 else conv.dtype
    if role == "adjoint":
        first, second = second, first
    operands = [first.astype(wide, copy=False), second.astype(wide, copy=False)]
    if role != "sums":
        operands.append(None)
    return getattr(matrices, role)(conv._replace(dtype=wide), *operands).astype(conv.dtype, copy=False)


def _with_bias(conv: Conv, made: Any, bias: Any) -> Any:
    return made if bias is None else conv.backend.add_along(made, bias, 1)
