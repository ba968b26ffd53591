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

from . import pool
from .direct import address_function, bound_function, known_layout
from .ufunc import addresses, loops

_HEADER, _EACH = 8, 4  # words of a plan before its operands and of each operand
_ALIGNED, _WRITABLE = 0x0100, 0x0400
_MOST_OPERANDS = 8
_JOBS = 64  # parts that threads take of a large walk

# A plan, words of 8 bytes: loop, (unused), operands, rows, length, outer dimensions, ndarray, float; of each operand: dtype,
# which kind of number may stand for it (0 none, 1 float32, 2 float64), step, flags; extents of the outer dimensions; for
# each of these, a stride of every operand.
_TEXT = """
declare void @Py_IncRef(ptr)

define ptr @strided(ptr %self, ptr %args, i64 %given) nounwind {
entry:
  %pointers = alloca [8 x ptr]
  %steps = alloca [8 x i64]
  %numbers = alloca [8 x double]
  %at = alloca [8 x i64]
  %size = alloca i64
  %nonep = getelementptr i8, ptr %self, i64 BYTES
  %none = load ptr, ptr %nonep, align 1
  %plan = load ptr, ptr %args
  %table = getelementptr i8, ptr %plan, i64 BYTES
  %kernel = load ptr, ptr %table, align 1
  %t2 = getelementptr i64, ptr %table, i64 2
  %operands = load i64, ptr %t2, align 1
  %t4 = getelementptr i64, ptr %table, i64 4
  %length = load i64, ptr %t4, align 1
  %t5 = getelementptr i64, ptr %table, i64 5
  %outer = load i64, ptr %t5, align 1
  %t6 = getelementptr i64, ptr %table, i64 6
  %kind = load ptr, ptr %t6, align 1
  %t7 = getelementptr i64, ptr %table, i64 7
  %float = load ptr, ptr %t7, align 1
  %usual = sub i64 %given, 1
  %same = icmp eq i64 %usual, %operands
  br i1 %same, label %operand, label %refuse

operand:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %i1 = add i64 %i, 1
  %ap = getelementptr ptr, ptr %args, i64 %i1
  %a = load ptr, ptr %ap
  %e0 = mul i64 %i, 4
  %e1 = add i64 %e0, 8
  %entry0 = getelementptr i64, ptr %table, i64 %e1
  %pp = getelementptr ptr, ptr %pointers, i64 %i
  %stepp = getelementptr i64, ptr %entry0, i64 2
  %step = load i64, ptr %stepp, align 1
  %sp = getelementptr i64, ptr %steps, i64 %i
  store i64 %step, ptr %sp
  %modep = getelementptr i64, ptr %entry0, i64 1
  %mode = load i64, ptr %modep, align 1
  %typep = getelementptr i8, ptr %a, i64 TYPE
  %type = load ptr, ptr %typep
  %head = getelementptr i8, ptr %a, i64 HEAD
  %isarray = icmp eq i64 %mode, 0
  br i1 %isarray, label %array, label %number

number:
  %isfloat = icmp eq ptr %type, %float
  br i1 %isfloat, label %convert, label %refuse

convert:
  %value = load double, ptr %head
  %slot = getelementptr double, ptr %numbers, i64 %i
  store ptr %slot, ptr %pp
  %wide = icmp eq i64 %mode, 2
  br i1 %wide, label %double, label %single

double:
  store double %value, ptr %slot
  br label %next

single:
  %short = fptrunc double %value to float
  store float %short, ptr %slot
  br label %next

array:
  %exact = icmp eq ptr %type, %kind
  br i1 %exact, label %look, label %refuse

look:
  %descrp = getelementptr i8, ptr %head, i64 40
  %descr = load ptr, ptr %descrp
  %wanted = load ptr, ptr %entry0, align 1
  %fits = icmp eq ptr %descr, %wanted
  %flagsp = getelementptr i8, ptr %head, i64 48
  %flags0 = load i32, ptr %flagsp
  %flags = zext i32 %flags0 to i64
  %maskp = getelementptr i64, ptr %entry0, i64 3
  %mask = load i64, ptr %maskp, align 1
  %masked = and i64 %flags, %mask
  %allowed = icmp eq i64 %masked, %mask
  %ok = and i1 %fits, %allowed
  br i1 %ok, label %take, label %refuse

take:
  %first = load ptr, ptr %head
  store ptr %first, ptr %pp
  br label %next

next:
  %left = icmp slt i64 %i1, %operands
  br i1 %left, label %operand, label %ready

ready:
  %extents0 = mul i64 %operands, 4
  %extents1 = add i64 %extents0, 8
  %extents = getelementptr i64, ptr %table, i64 %extents1
  %strides = getelementptr i64, ptr %extents, i64 %outer
  br label %clear

clear:
  %c = phi i64 [ 0, %ready ], [ %c1, %clear ]
  %cp = getelementptr i64, ptr %at, i64 %c
  store i64 0, ptr %cp
  %c1 = add i64 %c, 1
  %cleared = icmp sge i64 %c1, 8
  br i1 %cleared, label %row, label %clear

row:
  store i64 %length, ptr %size
  call void %kernel(ptr %pointers, ptr %size, ptr %steps, ptr null)
  br label %dimension

dimension:
  %d = phi i64 [ %outer, %row ], [ %d1, %carried ]
  %d1 = sub i64 %d, 1
  %finished = icmp slt i64 %d1, 0
  br i1 %finished, label %done, label %count

count:
  %dp = getelementptr i64, ptr %at, i64 %d1
  %place = load i64, ptr %dp
  %place1 = add i64 %place, 1
  %np = getelementptr i64, ptr %extents, i64 %d1
  %n = load i64, ptr %np, align 1
  %within = icmp slt i64 %place1, %n
  %kept = select i1 %within, i64 %place1, i64 0
  store i64 %kept, ptr %dp
  %back = sub i64 0, %place
  %factor = select i1 %within, i64 1, i64 %back
  %line = mul i64 %d1, %operands
  %own = getelementptr i64, ptr %strides, i64 %line
  br label %move

move:
  %q = phi i64 [ 0, %count ], [ %q1, %move ]
  %op = getelementptr i64, ptr %own, i64 %q
  %stride = load i64, ptr %op, align 1
  %shift = mul i64 %stride, %factor
  %mp = getelementptr ptr, ptr %pointers, i64 %q
  %old = load ptr, ptr %mp
  %new = getelementptr i8, ptr %old, i64 %shift
  store ptr %new, ptr %mp
  %q1 = add i64 %q, 1
  %moved = icmp sge i64 %q1, %operands
  br i1 %moved, label %shifted, label %move

shifted:
  br i1 %within, label %row, label %carried

carried:
  br label %dimension

done:
  call void @Py_IncRef(ptr %a)
  ret ptr %a

refuse:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}
"""


@functools.cache
def _strided() -> Any:
    return bound_function("strided", _TEXT, struct.pack("q", id(None))) if known_layout() else None


class Walk:
    """A pointwise loop over operands, the result last, that lie in a certain way."""

    __slots__ = ("_dtypes", "_large", "_strided", "_words")

    def __init__(self, words: bytes, large: Any, dtypes: list[Any]):
        self._words, self._strided, self._dtypes = words, _strided(), dtypes
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
    if (
        ufunc not in loops
        or ufunc.signature
        or len(operands) + 1 > _MOST_OPERANDS
        or _strided() is None
        or not out.size
    ):
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
    words = [kernel, 0, len(given), rows, length, len(shape), id(np.ndarray), id(float)]
    for i, (d, mode, step) in enumerate(zip(dtypes, modes, steps)):
        words += [id(d), mode, step, _ALIGNED | (_WRITABLE if i == len(operands) else 0)]
    words += [*shape, *[strides[q][d] for d in range(len(shape)) for q in range(len(given))]]
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
