"""Gradients of folds of plain dense CPU tensors by one kernel each; for all others (None) their formulas say more."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .._backend.cpu import PARALLEL, cpu
from .._core.allocation import empty, zeros
from .._core.dtypes import dtype, float32, float64
from .._core.state import local, modes
from .._kernel.row_gradients import placed_rows
from .._tensor import Tensor, wrap
from .folding import to_last

_STRIDED = 1 << 12  # elements from which rows that do not lie together in memory take too long
_INT64 = np.dtype(np.int64)
_WIDE = (float32, float64)  # the gradients of 16-bit tensors are rounded as their formulas say


@functools.lru_cache(4096)
def _plan(kernel: Any, d: dtype, shape: tuple[int, ...], dims: tuple[int, ...], numbers: int, options: Any) -> Any:
    """(callable, shape to view the tensor in, shape of the folded ones, dimension to move to the end or None)."""
    lead = tuple([n for i, n in enumerate(shape) if i not in dims])
    size = math.prod(shape)
    if not size or not dims:
        return None
    trailing = dims == tuple(range(len(lead), len(shape)))
    if not trailing and (len(dims) > 1 or size >= _STRIDED):
        return None
    types = (d.code,) * 3 + ("f64",) * numbers + (d.code,)
    call = (cpu.small if size < PARALLEL else cpu.large)(kernel, types, **dict(options))
    return call, (*lead, size // math.prod(lead)) if trailing else shape, lead, None if trailing else dims[0]


def along_rows(
    kernel: Any, g: Tensor, x: Tensor, out: Tensor, dims: tuple[int, ...], numbers: tuple[Any, ...] = (), **options: Any
) -> Tensor | None:
    """What a kernel makes of a gradient, a tensor and its fold over `dims`; None if they are not plain and dense."""
    d = x.dtype
    if local.grad or modes.on or (g._k | x._k | out._k) > 1 or d not in _WIDE or g.dtype is not d:
        return None
    array = x._array
    if not array.flags.c_contiguous:
        return None
    plan = _plan(kernel, d, array.shape, dims, len(numbers), tuple(options.items()))
    if plan is None:
        return None
    call, view, lead, moved = plan
    made = empty(array.shape, array.dtype)
    if moved is None:
        given, target = array.reshape(view), made.reshape(view)
    else:
        given, target = to_last(array, moved), to_last(made, moved)
    call(g._array.reshape(lead), given, out._array.reshape(lead), *numbers, target)
    return wrap(made, d)


def placed(g: Tensor, shape: Any, dim: int, index: Tensor, keepdim: bool, add: bool = False) -> Tensor | None:
    """Zeros with the elements of `g` at the places along a dimension that `index` has for them; with `add`, elements
    at one place are added."""
    d, values, places = g.dtype, g._array, index._array
    if local.grad or modes.on or (g._k | index._k) > 1 or not d.code or places.dtype is not _INT64 or not places.size:
        return None
    if math.prod(shape) >= PARALLEL:
        return None
    out = zeros(shape, d.numpy)
    target = to_last(out, dim)
    if keepdim:
        values, places = to_last(values, dim), to_last(places, dim)
    else:
        values, places = values[..., None], places[..., None]
    cpu.small(placed_rows, (d.code, "i64", d.code), add=add)(values, places, target)
    return wrap(out, d)
