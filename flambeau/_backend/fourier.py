"""Fourier transforms of CPU arrays by our own kernels: which arrays they are for, and how the work is split."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.allocation import empty
from .._kernel.linear import fourier
from .._kernel.linear.fourier import COMPLEX, HALF, REAL, REAL_PART, WHOLE
from .._kernel.loops.ufunc import addresses
from .._kernel.render.tiles import lanes
from .._kernel.threads.pool import APART, run_calls
from . import threads
from .blas import Scratch
from .cpu import start_of

LEAST = 1 << 12  # elements from which these kernels pay
_WEIGHT = 4  # what an element costs in those of a pointwise operation
_TYPES = {"f": "f32", "d": "f64", "F": "f32", "D": "f64"}
_REAL = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
_WHOLE = {"f32": np.dtype(np.complex64), "f64": np.dtype(np.complex128)}
_scratch = Scratch()


def transform(kind: int, x: Any, dim: int, n: int, inverse: bool, factor: float) -> Any:
    """The transform of n points along a dimension, times a factor; None if another way is better."""
    if x.size < LEAST or not x.flags.aligned:
        return None
    type = _TYPES.get(x.dtype.char)
    if type is None or (x.dtype.kind == "c") != (kind in (COMPLEX, REAL, REAL_PART)) or not x.dtype.isnative:
        return None
    if kind == REAL and x.shape[dim] != n // 2 + 1:
        return None
    found = fourier.plan(type, kind, n, inverse)
    if found is None:
        return None
    if dim == x.ndim - 1:
        return _rows(type, kind, x, n, found, factor)
    return _columns(type, x, dim, found, factor) if kind == COMPLEX else None


def _rows(type: str, kind: int, x: Any, n: int, found: Any, factor: float) -> Any:
    count = x.size // x.shape[-1]
    if count * 2 < lanes(type) or x.ndim < 2:
        return None
    if x.strides[-1] != x.itemsize or (x.ndim > 3 and not x.flags.c_contiguous):
        x = np.ascontiguousarray(x)
    elements = _REAL[type]
    shape = (*x.shape[:-1], {HALF: n // 2 + 1}.get(kind, n))
    out = empty(shape, elements if kind in (REAL, REAL_PART) else _WHOLE[type])
    flat = out.reshape(-1, shape[-1])
    if x.ndim != 2 and x.flags.c_contiguous:
        x = x.reshape(-1, x.shape[-1])
    made = (flat if x.ndim == 2 else out).view(elements)
    if kind in (HALF, WHOLE):
        factor *= 0.5  # the kernel makes twice the spectrum
    _split(fourier.rows(type), x.view(elements), made, found, factor, -2, lanes(type))
    return out


def _columns(type: str, x: Any, dim: int, found: Any, factor: float) -> Any:
    elements = _REAL[type]
    if not x.flags.c_contiguous and (x.ndim != 2 or x.strides[-1] != x.itemsize):
        x = np.ascontiguousarray(x)
    out = empty(x.shape, x.dtype)
    a, to = x, out
    if x.ndim != 2:
        a, to = (t.reshape(-1, x.shape[dim], x.size // max(1, _product(x.shape[: dim + 1]))) for t in (x, out))
    if a.shape[-1] < lanes(type):
        return None
    _split(fourier.columns(type), a.view(elements), to.view(elements), found, factor, -1, 2 * lanes(type))
    return out


def _product(shape: Any) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _split(call: Any, x: Any, out: Any, found: Any, factor: float, dim: int, unit: int) -> None:
    """Runs a kernel on parts of a batch, or of the rows or columns of each item; parts have own scratch memory."""
    roots, numbers, room = found
    size = room * x.itemsize
    apart = -(-size // APART) * APART + APART
    scale = np.asarray(factor, x.dtype)
    wanted = threads.parts(x.size * _WEIGHT)
    if x.ndim == 3 and x.shape[0] >= wanted:
        dim, unit = 0, 1
    length = x.shape[dim] // unit
    count = max(1, min(wanted, length))
    cuts = [unit * (length * i // count) for i in range(count)] + [x.shape[dim]]
    memory = _scratch.take(count * apart)
    place, strides = start_of(memory), [x.strides[dim], out.strides[dim]]
    fixed = [start_of(roots), start_of(numbers), start_of(scale)]
    batch = x.ndim == 3
    steps = [x.strides[0] if batch else 0, 0, 0, 0, 0, out.strides[0] if batch else 0]
    steps += [*x.strides[-2:], roots.itemsize, 8, x.itemsize, *out.strides[-2:]]
    first, second = start_of(x), start_of(out)
    calls = []
    for i in range(count):
        extents = [x.shape[0] if batch else 1, *x.shape[-2:], roots.size, numbers.size, room, out.shape[-1]]
        extents[dim % x.ndim + (not batch)] = cuts[i + 1] - cuts[i]
        given = [first + cuts[i] * strides[0], *fixed, place + i * apart, second + cuts[i] * strides[1]]
        calls.append((addresses[call], given, extents, steps))
    run_calls(calls, count)


__all__ = ["COMPLEX", "HALF", "LEAST", "REAL", "REAL_PART", "WHOLE", "transform"]
