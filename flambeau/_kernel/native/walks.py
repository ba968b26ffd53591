"""Pointwise loops over operands in any memory order: rows along the innermost dimension, walked in machine code.

NumPy's iterator takes as long for a row of a few hundred elements as the row itself. A plan is made once for the way
operands lie; its words describe the loop, and `strided` runs it on operands whose dtypes and flags it checks.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..render_llvm import NOT_NUMPY
from ..ufunc import addresses, loops
from . import pool
from .dialect import over_all
from .direct import address_function, bound_function, known_layout

_ALIGNED, _WRITABLE = 0x0100, 0x0400
_MOST_OPERANDS = 8
_JOBS = 64  # parts that threads take of a large walk
_HEAD = object.__basicsize__
_TYPE, _BYTES = _HEAD - 8, bytes.__basicsize__ - 1


# A plan, words of 8 bytes: loop, operands, length, outer dimensions, ndarray, float; extents of the outer dimensions; of
# each operand: dtype, which kind of number may stand for it (0 none, 1 float32, 2 float64), step, flags, outer strides.
def _strided(m, self, args, given):
    none, plan = m.word(self, _BYTES), m.word(args) + _BYTES
    operands, outer = m.word(plan, 8), m.word(plan, 24)
    sizes = plan + 48
    operand, apart = sizes + outer * 8, 32 + outer * 8
    pointers, steps, numbers = m.space(_MOST_OPERANDS), m.space(_MOST_OPERANDS), m.space(_MOST_OPERANDS)
    a, suits = 0, 1
    if given != operands + 1:
        suits = 0
    for i in range(suits * operands):
        a = m.word(args, 8 + i * 8)
        about = operand + i * apart
        kind, mode = m.word(a, _TYPE), m.word(about, 8)
        m.put(steps, i * 8, m.word(about, 16))
        if mode == 0:
            if kind != m.word(plan, 32):
                suits = 0
                break
            wanted = m.word(about, 24)
            if (m.word(a, _HEAD + 40) != m.word(about)) | ((m.half(a, _HEAD + 48) & wanted) != wanted):
                suits = 0
                break
            m.put(pointers, i * 8, m.word(a, _HEAD))
        else:
            if kind != m.word(plan, 40):
                suits = 0
                break
            m.put(pointers, i * 8, numbers + i * 8)
            if mode == 2:
                m.put(numbers, i * 8, m.word(a, _HEAD))
            else:
                m.put_single(numbers, i * 8, m.word(a, _HEAD))
    if suits == 0:
        m.run("Py_IncRef", none)
        return none
    over_all(m, m.word(plan), pointers, plan + 16, steps, NOT_NUMPY, outer, sizes, operands, operand + 32, apart)
    m.run("Py_IncRef", a)
    return a


@functools.cache
def _native() -> Any:
    return bound_function(_strided, struct.pack("q", id(None))) if known_layout() else None


class Walk:
    """A pointwise loop over operands, the result last, that lie in a certain way."""

    __slots__ = ("_dtypes", "_large", "_strided", "_words")

    def __init__(self, words: bytes, large: Any, dtypes: list[Any]):
        self._words, self._strided, self._dtypes = words, _native(), dtypes
        self._large = large  # words for the pool, where that is worth it

    def run(self, operands: Sequence[Any]) -> bool:
        """Runs the loop; False if an operand is not what it is for: then the ufunc is to be called, which converts."""
        if self._large is None:
            return self._strided(self._words, *operands) is not None
        for a, d in zip(operands, self._dtypes):
            if a.__class__ is not np.ndarray or a.dtype is not d or not a.flags.aligned:
                return False
        address = address_function()
        pool.run_walk(self._large, [address(a) for a in operands], pool.settings[0])
        return True


def walk(call: Any, operands: Sequence[Any], out: Any) -> Walk | None:
    """How the loop of a pointwise ufunc of ours walks operands (arrays or floats) that broadcast to `out`; None if it cannot."""
    ufunc = getattr(call, "ufunc", call)
    if ufunc not in loops or ufunc.signature or len(operands) + 1 > _MOST_OPERANDS or _native() is None or not out.size:
        return None
    dtypes = getattr(call, "dtypes", None) or [np.dtype(c) for c in ufunc.types[0].replace("->", "")]
    given = [*operands, out]
    modes = []
    for a, d in zip(given, dtypes, strict=True):
        mode = {"f": 1, "d": 2}.get(d.char, 0) if a.__class__ is float else 0
        if not mode and (a.__class__ is not np.ndarray or a.dtype != d or not a.dtype.isnative):
            return None
        modes.append(mode)
    found = rows_of([((), ()) if mode else (a.shape, a.strides) for a, mode in zip(given, modes)], out.shape)
    if found is None:
        return None
    length, steps, shape, strides = found
    rows, kernel, data = out.size // length, addresses[ufunc], loops[ufunc][1]
    words = [kernel, len(given), length, len(shape), id(np.ndarray), id(float), *shape]
    for i, (d, mode, step) in enumerate(zip(dtypes, modes, steps)):
        words += [id(d), mode, step, _ALIGNED | (_WRITABLE if i == len(operands) else 0), *strides[i]]
    large, heavy = None, data is not None and out.size * data[4] >= pool.WORTHWHILE
    if heavy and rows == 1:
        return None  # the ufunc's loop cuts itself
    if heavy and not any(modes):
        large = pool.walk(kernel, min(rows, _JOBS), len(given), length, steps, (), shape, strides)
    return Walk(struct.pack(f"{len(words)}q", *words), large, dtypes)


def rows_of(operands: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], shape: tuple[int, ...]) -> Any:
    """How to walk operands (shape, strides) that broadcast to `shape`: (length, steps, outer shape, outer strides).

    The inner loop takes the dimension with the smallest steps of the last operand. None if there are too many dimensions.
    """
    merged = merged_dims(operands, shape)
    if not merged or len(merged) - 1 > pool.MOST_DIMS or len(operands) > pool.MOST_OPERANDS:
        return None
    length, steps = merged.pop()
    outer = tuple(n for n, _ in merged)
    return length, steps, outer, [tuple(s[i] for _, s in merged) for i in range(len(operands))]


def merged_dims(
    operands: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], shape: tuple[int, ...]
) -> list[tuple[int, list[int]]]:
    """The dimensions of operands (shape, strides) that broadcast to `shape`, as (extent, stride in each operand).

    Those with the largest steps of the last operand come first; those that lie one after the other in all count as one.
    """
    lines = []
    for own, strides in operands:
        missing = len(shape) - len(own)
        lines.append([0] * missing + [0 if n == 1 else s for n, s in zip(own, strides)])
    dims = [(n, [line[d] for line in lines]) for d, n in enumerate(shape) if n != 1]
    dims.sort(key=lambda dim: -abs(dim[1][-1]))  # stable: equal strides keep their order
    merged: list[tuple[int, list[int]]] = []
    for n, steps in dims:
        if merged:
            above, over = merged[-1]
            if all(o == s * n for o, s in zip(over, steps)):
                merged[-1] = (above * n, steps)
                continue
        merged.append((n, steps))
    return merged
