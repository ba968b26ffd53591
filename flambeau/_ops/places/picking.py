"""Elements of planes picked by places along each dimension: what padding and resizing to the nearest elements share."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import from_numpy_dtype, int64
from ..._core.state import CUDA
from ..._dispatch import backend_of
from ..._kernel.native import pool
from ..._kernel.resample import add_planes, pick_planes
from ..._tensor import Tensor
from ..layers.channels import keeps_channels_last
from ..making.factory import finished
from ..records.batching import folded
from ..records.primitive import primitive
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..registry import ops


class Places:
    """For each of the last dimensions, of some `size`, the elements that results are taken from."""

    from_sizes = True  # whoever has the same arguments gets the same places

    def __init__(self, indices: Sequence[Any], size: tuple[int, ...]):
        missing = 3 - len(size)
        self.indices, self.size, self.counts = indices, size, tuple([len(i) for i in indices])
        three = [np.zeros(1, np.int64)] * missing + [np.ascontiguousarray(i, np.int64) for i in indices]
        self.operands = [constant.view() for constant in (*three, _longest_run(three[-1]))]
        for constant in self.operands:
            constant.flags.writeable = False
        self.planes, self.results = (1,) * missing + size, (1,) * missing + self.counts
        for index, n in zip(indices, size):  # the kernels rely on it
            if len(index) and (index.min() < 0 or index.max() >= n):
                raise IndexError(f"places from {index.min()} to {index.max()} in a dimension of size {n}")

    def __len__(self) -> int:
        return len(self.size)


def _longest_run(index: Any) -> Any:
    """Where the most places that follow each other begin and end."""
    bounds = np.array([0, *(np.flatnonzero(np.diff(index) != 1) + 1), len(index)], np.int64)
    longest = int(np.diff(bounds).argmax())
    return bounds[longest : longest + 2]


_BITS = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}  # elements are moved as they are
_CODES = {"u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64", "c16": "c128"}


@functools.lru_cache(1024)
def _plan(places: Places, shape: tuple[int, ...], d: Any) -> tuple[Any, ...]:
    """How elements of a shape and dtype are picked: (kernel, dtype it knows, shapes of its operand, its result, ours)."""
    lead = shape[: len(shape) - len(places)]
    planes, made, bits = math.prod(lead), lead + places.counts, _BITS[d.itemsize]
    size = math.prod(made)
    types, far = (_CODES[bits], *["i64"] * 4, _CODES[bits]), size * d.itemsize >= pool.settings[1]
    call = cpu.sized(size, pick_planes, types, far=far)
    return call, np.dtype(bits), (planes, *places.planes), (planes, *places.results), made


@primitive(
    name="pick", backward_name="UpsampleNearestBackward0",
    meta=lambda x, places: ((*x.shape[: x.ndim - len(places)], *places.counts), from_numpy_dtype(x.dtype)),
    grad={"x": lambda g, places: pick_back(g, places)},
    batch=folded(),
    tangent=linear("x"),
)  # fmt: skip
@keeps_channels_last()
def pick(backend: Any, x: Any, places: Places) -> Any:
    """out[…, i, j] = x[…, places[0][i], places[1][j]]."""
    call, bits, planes, results, shape = _plan(places, x.shape, x.dtype)
    out = empty(shape, x.dtype)
    if out.size:
        call(x.reshape(planes).view(bits), *places.operands, out.reshape(results).view(bits))
    return out


@functools.lru_cache(1024)
def _back_plan(places: Places, shape: tuple[int, ...], d: Any) -> tuple[Any, ...]:
    lead = shape[: len(shape) - len(places)]
    planes, made, code = math.prod(lead), lead + places.size, from_numpy_dtype(d).code
    call = cpu.sized(math.prod(shape), add_planes, (code, *["i64"] * 4, code))
    return call, (planes, *places.results), (planes, *places.planes), made


@primitive(
    batch=folded(),
    meta=lambda x, places: ((*x.shape[: x.ndim - len(places)], *places.size), dtype_of(x)),
    name="pick_backward",
    grad={"x": lambda g, places: pick(g, places)},
    tangent=linear("x"),
)
def pick_back(backend: Any, x: Any, places: Places) -> Any:
    """The adjoint of `pick`: elements are added up where they came from."""
    call, results, planes, shape = _back_plan(places, x.shape, x.dtype)
    out = empty(shape, x.dtype)
    if out.size:
        call(x.reshape(results), *places.operands, out.reshape(planes))
    return out


def picked(input: Tensor, places: Places) -> Tensor:
    """`pick` on any device."""
    if not input._k & CUDA:
        return pick(input, places)
    first = input._array.ndim - len(places)
    for dim, index in enumerate(places.indices, first):
        index = finished(backend_of(CUDA).from_numpy(np.asarray(index, np.int64)), int64, CUDA)
        input = ops.index_select(input, dim, index)
    return input
