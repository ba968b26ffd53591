"""Arrays joined along a dimension: large ones are copied by all cores, in one handover."""

from __future__ import annotations

import functools
import math
from itertools import pairwise
from typing import Any

import numpy as np

from ..._backend import threads
from ..._backend.copies import braid, copy_lines
from ..._backend.cpu import cpu, native_call, start_of
from ..._core.allocation import SHARED, empty, empty_strided
from ..._core.layouts import is_channels_last, strides_in_order
from ..._kernel.loops.ufunc import addresses
from ..._kernel.threads import pool

_LINE = 64  # bytes of a row from which they do on one core
_SHARE = 1 << 16  # bytes that one of them should get at least
_THIN = 8  # elements of a row below which the loop along columns is the longer one
_concatenate = np.concatenate


@functools.cache
def _loop(unit: int) -> int:
    """The address of the loop of `copy_lines` for elements of so many bytes."""
    row = np.empty((1, 1), f"u{unit}")
    return native_call(cpu.kernel(copy_lines, (f"u{8 * unit}",) * 2, backwards=False), [row, row])[0]  # type: ignore[index]


def joined(arrays: Any, dim: int, channels: bool = True) -> Any:
    """`np.concatenate` of arrays of one dtype; ValueError if they do not fit.

    The result is row-major, but has channels last if all arrays have them so and `channels` are looked at.
    """
    size = sum([a.nbytes for a in arrays])
    first, count = arrays[0], threads.get_num_threads()
    if size >= SHARED and len(arrays) == 2 and _are_pairs(arrays[0], arrays[1], dim):
        return _interleaved(arrays[0], arrays[1], dim)
    if size < SHARED or (count == 1 and first.nbytes < math.prod(first.shape[:dim]) * _LINE):
        if channels and first.ndim in (4, 5) and _all_channels_last(arrays):
            return _joined_in_order(arrays, dim, True)
        made = _concatenate(arrays, dim)  # row-major if all are
        return made if made.flags.c_contiguous else _joined_in_order(arrays, dim, channels)
    if channels and _all_channels_last(arrays):
        return _joined_in_order(arrays, dim, True)
    plan = _plan(tuple([(a.shape, a.strides) for a in arrays]), dim, first.itemsize, count)
    if plan is None or not all([a.flags.aligned for a in arrays]):
        return _joined_in_order(arrays, dim, False)
    shape, words, parts = plan
    out = empty(shape, first.dtype)
    target, starts = start_of(out), [start_of(a) for a in arrays]
    words = words[:]
    for at, i, offset, place in parts:
        words[at], words[at + 1] = starts[i] + offset, target + place
    pool.run_sequences(words.buffer_info()[0], count)
    return out


def _all_channels_last(arrays: Any) -> bool:
    return all(is_channels_last(a.shape, a.strides) for a in arrays)  # mostly the first says no


def joined_on_device(backend: Any, xs: Any, dim: int) -> Any:
    """The same on a GPU, by launches that plans can carry out."""
    shape, end, parts = list(xs[0].shape), 0, []
    shape[dim] = sum([x.shape[dim] for x in xs])
    made = backend.empty(tuple(shape), xs[0].dtype)
    for x in xs:
        end += x.shape[dim]
        if x.size:
            parts.append((x, made[(*[slice(None)] * dim, slice(end - x.shape[dim], end))]))
    backend.join(parts, made.nbytes)
    return made


def _are_pairs(a: Any, b: Any, dim: int) -> bool:
    """Whether single elements of two arrays take turns."""
    # watched arrays are of another class
    plain = a.shape == b.shape and a.itemsize <= 8 and a.__class__ is b.__class__ is np.ndarray
    dense = all([x.flags.c_contiguous and x.flags.aligned for x in (a, b)])
    return plain and dense and -a.ndim <= dim < a.ndim and math.prod(a.shape[dim % a.ndim :]) == 1


def _interleaved(a: Any, b: Any, dim: int) -> Any:
    """The same as lines of one matrix, wherever they lie."""
    shape, size, starts = list(a.shape), a.itemsize, [start_of(a), start_of(b)]
    shape[dim] = 2
    out = empty(tuple(shape), a.dtype)
    target, loop = start_of(out), addresses[cpu.kernel(braid, (f"u{8 * size}",) * 2, count=2, adjacent=True)]
    steps = [0, 0, starts[1] - starts[0], size, size]
    parts = threads.ranges(a.size, _SHARE // size)
    places = [[starts[0] + i * size, target + 2 * i * size] for i, _ in parts]
    pool.run_calls([(loop, p, [1, 2, j - i, 2 * (j - i)], steps) for p, (i, j) in zip(places, parts)], len(parts))
    return out


def _joined_in_order(arrays: Any, dim: int, channels: bool) -> Any:
    """The same by NumPy, into memory of the right order."""
    shape = list(arrays[0].shape)
    shape[dim] = sum([a.shape[dim] for a in arrays])
    order: Any = range(len(shape))
    if channels and _all_channels_last(arrays):
        order = (0, *range(2, len(shape)), 1)
    out = empty_strided(tuple(shape), arrays[0].dtype, strides_in_order(shape, order))
    return _concatenate(arrays, dim, out=out)


@functools.lru_cache(256)
def _plan(layouts: Any, dim: int, itemsize: int, count: int) -> Any:
    """How to join arrays of such (shape, strides): the shape made, words for the pool, and what is missing in them:
    (where, which array, offset in it, offset in the result). None if NumPy does that better, or says what is wrong."""
    shape = layouts[0][0]
    if not -len(shape) <= dim < len(shape):
        return None
    dim %= len(shape)
    lines = []
    for own, strides in layouts:
        if len(own) != len(shape) or own[:dim] != shape[:dim] or own[dim + 1 :] != shape[dim + 1 :]:
            return None
        line = _line(own, strides, dim, itemsize)
        if line is None:
            return None
        lines.append(line)
    rows, below = math.prod(shape[:dim]), math.prod(shape[dim + 1 :]) * itemsize
    sizes = [own[dim] * below for own, _ in layouts]
    places = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    width = places[-1]
    pieces = max(1, min(2 * count, rows * width // _SHARE))
    sequences: list[Any] = []
    missing: list[Any] = []

    def part(i: int, row: int, last: int, start: int, stop: int) -> Any:
        """The bytes from start to stop of some rows of an array."""
        missing.append((i, row * lines[i] + start, row * width + places[i] + start))
        return _call(itemsize, last - row, stop - start, lines[i], width)

    if rows >= pieces:  # a thread copies the rows of all arrays that make some rows of the result
        bounds = [rows * n // pieces for n in range(pieces + 1)]
        sequences = [[part(i, a, b, 0, n) for i, n in enumerate(sizes)] for a, b in pairwise(bounds)]
    else:
        for i, n in enumerate(sizes):
            units = n // itemsize
            bounds = [units * p // pieces * itemsize for p in range(pieces + 1)]
            sequences += [[part(i, 0, rows, a, b)] for a, b in pairwise(bounds)]
    words = pool.sequences(sequences)
    length = words[2]
    numbered = [(pool.HEADER + length * n + 1, *about) for n, about in enumerate(missing)]
    return (*shape[:dim], width // below if below else 0, *shape[dim + 1 :]), words, numbered


def _call(itemsize: int, rows: int, size: int, line: int, width: int) -> pool.Call:
    """A call that copies rows of `size` bytes; the addresses are not known yet."""
    unit = min(itemsize, 8)
    columns = size // unit
    if columns < _THIN < rows:
        return _loop(unit), [0, 0], [1, columns, rows], [0, 0, unit, line, unit, width]
    return _loop(unit), [0, 0], [1, rows, columns], [0, 0, line, unit, width, unit]


def _line(shape: tuple[int, ...], strides: tuple[int, ...], dim: int, itemsize: int) -> int | None:
    """How many bytes lie between rows, where dimensions from `dim` on make a row; None if they do not lie so."""
    step = itemsize
    for n, s in zip(reversed(shape[dim:]), reversed(strides[dim:])):
        if n != 1:
            if s != step:
                return None
            step *= n
    line = expected = None
    for n, s in zip(reversed(shape[:dim]), reversed(strides[:dim])):
        if n != 1:
            if expected is None:
                line = s
            elif s != expected:
                return None
            expected = s * n
    return step if line is None else line
