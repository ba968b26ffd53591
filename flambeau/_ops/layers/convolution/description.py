"""What a convolution is, told once for its three roles, and which way of computing it is taken.

Images (N, inputs, *size), a weight (outputs, inputs / groups, *kernel) and results (N, outputs, *counts) go together. Each role
makes one of them from the other two:

    products  results from images and the weight: a convolution
    adjoint   images from results and the weight: a transposed convolution, and the gradient by images
    sums      a weight from images and results: the gradient by the weight
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...._backend import threads
from ...._backend.cpu import cpu

Ints = tuple[int, ...]
_PLAIN = {int}
CODES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}  # that kernels of ours compute with
SMALL = 1 << 18  # products below which most preparations cost more than laying out windows,
SMALL_IN_LANES, FEWEST_IN_LANES = 1 << 12, 3  # but not for single precision and so many channels side by side


def spread(name: str, argument: str, value: Any, rank: int) -> Ints:
    """A number for each dimension, given as one for all of them or as a sequence."""
    if value.__class__ is int:
        return (value,) * rank
    if value.__class__ is tuple and len(value) == rank and {*map(type, value)} == _PLAIN:
        return value
    values = (value,) if hasattr(value, "__index__") else value
    if not isinstance(values, (tuple, list)) or any(isinstance(v, bool) or not hasattr(v, "__index__") for v in values):
        raise TypeError(f"{name}(): argument '{argument}' must be tuple of ints, not {type(value).__name__}")
    if len(values) not in (1, rank):
        raise RuntimeError(
            f"{name}: expected {argument} to be a single int or a tuple of {rank} ints, one for each dimension, but got {list(values)}"
        )
    return tuple(v.__index__() for v in values) * (rank if len(values) == 1 else 1)


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


class Conv(NamedTuple):
    """A convolution. How operands lie in memory is no part of it: every way takes any strides."""

    backend: Any
    dtype: Any
    images: int
    inputs: int
    outputs: int
    groups: int
    size: Ints
    kernel: Ints
    stride: Ints
    padding: Ints
    dilation: Ints
    counts: Ints  # positions of windows
    threads: int
    narrow: Any = None  # a dtype to which the adjoint rounds at every step
    part: bool = False  # of a convolution that has chosen its way: it is not asked again whether preparations pay

    @property
    def image_shape(self) -> Ints:
        return (self.images, self.inputs, *self.size)

    @property
    def weight_shape(self) -> Ints:
        return (self.outputs, self.inputs // self.groups, *self.kernel)

    @property
    def result_shape(self) -> Ints:
        return (self.images, self.outputs, *self.counts)

    @property
    def window(self) -> int:
        """Elements of a window in one channel."""
        return math.prod(self.kernel)

    @property
    def depth(self) -> int:
        """Elements of a window in all channels of a group."""
        return self.inputs // self.groups * self.window

    @property
    def positions(self) -> int:
        """Windows of an image."""
        return math.prod(self.counts)

    @property
    def work(self) -> int:
        """Products of two elements."""
        return self.images * self.positions * self.outputs * self.depth

    @property
    def cores(self) -> int:
        """Threads that pay."""
        return self.threads if threads.pay(self.work // threads.PRODUCTS) else 1

    @property
    def around(self) -> Ints:
        """The zeros around results, of which the adjoint is a convolution; less than none if images begin beyond them."""
        return tuple(d * (k - 1) - p for k, p, d in zip(self.kernel, self.padding, self.dilation))

    @property
    def is_plain(self) -> bool:
        """Whether windows are the single elements of an image: then they are a matrix already. A dilated adjoint may give more."""
        return set(self.kernel) == {1} == set(self.stride) and not any(self.padding) and self.size == self.counts

    @property
    def has_kernels(self) -> bool:
        """Whether there are kernels of ours for windows of such elements."""
        return self.part or (self.backend is cpu and self.dtype in CODES and self.narrow is None and not self.is_plain)

    @property
    def is_large(self) -> bool:
        """Whether it has kernels, and enough to do for their preparations."""
        if self.part or not self.has_kernels:
            return self.part
        in_lanes = self.groups == 1 and len(self.kernel) == 2 and self.dtype == np.float32
        in_lanes = in_lanes and min(self.inputs, self.outputs) >= FEWEST_IN_LANES
        return self.work >= (SMALL_IN_LANES if in_lanes else SMALL)


def describe(
    backend: Any, d: Any, images: Sequence[int], results: Sequence[int], kernel: Ints, stride: Ints, padding: Ints,
    dilation: Ints, groups: int, narrow: Any = None,
) -> Conv:  # fmt: skip
    """The convolution between images and results of these shapes."""
    return Conv(
        backend, d, images[0], images[1], results[1], groups, tuple(images[2:]), kernel, stride, padding, dilation,
        tuple(results[2:]), threads.get_num_threads(), narrow,
    )  # fmt: skip


@functools.lru_cache(256)
def nothing(count: int, d: Any) -> Any:
    """Zeros that stay zero."""
    made = np.zeros(count, d)
    made.flags.writeable = False
    return made


WAYS: list[Any] = []  # modules with `suits(conv, role)` and a function for each role; the package fills it


@functools.lru_cache(4096)
def way(conv: Conv, role: str) -> Callable[..., Any]:
    """How a role of a convolution is computed: by the first of the ways that suits it."""
    return getattr(next(w for w in WAYS if w.suits(conv, role)), role)


def run(conv: Conv, role: str, *operands: Any) -> Any:
    """Products and the adjoint take a bias (or None) besides: (images or results, weight, bias); sums (images, results)."""
    return way(conv, role)(conv, *operands)
