"""Fourier transforms of CPU arrays by our own kernels: which arrays they are for, and how the work is split."""

from __future__ import annotations

import functools
from array import array
from typing import Any

import numpy as np

from .._core.allocation import empty
from .._kernel.linear import fourier
from .._kernel.linear.fourier import COMPLEX, HALF, REAL, REAL_PART, WHOLE
from .._kernel.loops.ufunc import addresses
from .._kernel.render.tiles import lanes
from .._kernel.threads.pool import APART, HEADER, run_sequences, sequences
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
    given = type, kind, n, inverse
    if fourier.plan(*given) is None:
        return None
    if dim == x.ndim - 1:
        return _rows(given, x, factor)
    return _columns(given, x, dim, factor) if kind == COMPLEX else None


def _rows(given: Any, x: Any, factor: float) -> Any:
    type, kind, n, _ = given
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
    _split(fourier.rows(type), x.view(elements), made, given, factor, -2, lanes(type))
    return out


def _columns(given: Any, x: Any, dim: int, factor: float) -> Any:
    type = given[0]
    elements = _REAL[type]
    if not x.flags.c_contiguous and (x.ndim != 2 or x.strides[-1] != x.itemsize):
        x = np.ascontiguousarray(x)
    out = empty(x.shape, x.dtype)
    a, to = x, out
    if x.ndim != 2:
        a, to = (t.reshape(-1, x.shape[dim], x.size // max(1, _product(x.shape[: dim + 1]))) for t in (x, out))
    if a.shape[-1] < lanes(type):
        return None
    _split(fourier.columns(type), a.view(elements), to.view(elements), given, factor, -1, 2 * lanes(type))
    return out


def _product(shape: Any) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _split(call: Any, x: Any, out: Any, given: Any, factor: float, dim: int, unit: int) -> None:
    """Runs a kernel for what was `given` to `fourier.plan` on parts of a batch, or of the rows or columns of each item."""
    wanted = threads.parts(x.size * _WEIGHT)
    shapes = x.shape, x.strides, out.shape[-1], out.strides
    words, parts, places, size, kept = _described(addresses[call], given, shapes, x.dtype, factor, dim, unit, wanted)
    own, starts = words[:], (start_of(x), start_of(_scratch.take(size)), start_of(out))
    for number, place in enumerate(places):
        own[place] += starts[number % 3]
    run_sequences(own.buffer_info()[0], parts, places, kept)


@functools.lru_cache(256)
def _described(
    kernel: int, given: Any, shapes: Any, d: Any, factor: float, dim: int, unit: int, wanted: int
) -> tuple[array[int], int, list[int], int, Any]:
    """The pool's words for such operands, in how many parts, where among them the addresses of x, scratch memory and result
    are, which are relative, how much scratch memory they take, and what other addresses point to."""
    found, (shape, strides, last, made) = fourier.plan(*given), shapes
    assert found is not None
    roots, numbers, room = found
    apart, scale = -(-room * d.itemsize // APART) * APART + APART, np.asarray(factor, d)
    batch = len(shape) == 3
    if batch and shape[0] >= wanted:
        dim, unit = 0, 1
    length = shape[dim] // unit
    count = max(1, min(wanted, length))
    cuts = [unit * (length * i // count) for i in range(count)] + [shape[dim]]
    steps = [strides[0] if batch else 0, 0, 0, 0, 0, made[0] if batch else 0]
    steps += [*strides[-2:], roots.itemsize, 8, d.itemsize, *made[-2:]]
    fixed, rows = [start_of(a) for a in (roots, numbers, scale)], []
    for i in range(count):
        extents = [shape[0] if batch else 1, *shape[-2:], roots.size, numbers.size, room, last]
        extents[dim % len(shape) + (not batch)] = cuts[i + 1] - cuts[i]
        starts = [cuts[i] * strides[dim], *fixed, i * apart, cuts[i] * made[dim]]
        rows.append([(kernel, starts, extents, steps)])
    words = sequences(rows)
    places = [HEADER + i * words[2] + 1 + operand for i in range(count) for operand in (0, 4, 5)]
    return words, count, places, count * apart, (roots, numbers, scale)


__all__ = ["COMPLEX", "HALF", "LEAST", "REAL", "REAL_PART", "WHOLE", "transform"]
