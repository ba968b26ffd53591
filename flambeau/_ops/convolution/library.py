"""Convolutions by the library that a device has for them: cuDNN on GPUs, where it is installed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._backend.copies import rows_of
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
    return _made(conv, "sums", x, g, conv.weight_shape)


def _made(conv: Conv, role: str, first: Any, second: Any, shape: tuple[int, ...]) -> Any:
    backend = conv.backend
    windows = output_size(conv.size, conv.kernel, conv.stride, conv.padding, conv.dilation)
    if conv.work and windows == conv.counts and max(first.size, second.size, math.prod(shape)) < _MOST:
        last = is_channels_last(first) or is_channels_last(second)
        a, b = (_dense(z, last) for z in (first, second))
        order = (0, *range(2, len(shape)), 1) if last else range(len(shape))
        out = backend.empty(tuple([shape[d] for d in order]), conv.dtype)
        out = out.transpose(0, len(shape) - 1, *range(1, len(shape) - 1)) if last else out
        if backend.convolutions(role, a, b, out, conv.stride, conv.padding, conv.dilation, conv.groups):
            return out
    return _by_matrices(conv, role, first, second)


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
