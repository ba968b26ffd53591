"""Calls of pointwise ufuncs on small dense arrays, straight from Python to machine code.

NumPy looks for a loop, prepares an iterator and checks for floating-point errors at every call; for a few hundred
elements that takes longer than the work. The function made here does none of it if all operands are exact arrays of
the loop's dtypes, of one shape and all row-major or all column-major, or Python floats beside them. Operands in other
orders, and large ones beside which others are broadcast, are walked by `walks`, as soon as it is known how the result lies;
everything else goes to the ufunc.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.allocation import LARGE, empty_strided
from .._core.layouts import joint_strides
from .._core.sizes import contiguous_strides
from .direct import bound_function, known_layout
from .ufunc import loops
from .walks import walk

_ndarray = np.ndarray
_MOST_INPUTS = 6
_MOST = 1 << 14  # elements; for more, NumPy lets other threads of the interpreter run meanwhile
_NEW_FROM_DESCR = 94  # the place of PyArray_NewFromDescr in NumPy's table of functions
_MOST_PLANS = 4096
_SPREAD = 2048  # elements of an operand beside which others are broadcast by our own walk
_FLOATS = {"f": 1, "d": 2}  # dtypes beside which a float may stand

# The table behind `self`, words of 8 bytes: ufunc, loop, its data, inputs, ndarray, PyArray_NewFromDescr, dtype of the
# result and bytes of its elements, float, what to call for operands in several orders; then of each input: dtype,
# bytes of an element, which of `_FLOATS` (or 0).
_TEXT = """
declare void @Py_IncRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare i64 @llvm.smax.i64(i64, i64)

define internal i64 @counted(i32 %rank, ptr %shape) nounwind {
entry:
  br label %head
head:
  %d = phi i32 [ 0, %entry ], [ %d1, %body ]
  %total = phi i64 [ 1, %entry ], [ %total1, %body ]
  %some = icmp slt i32 %d, %rank
  br i1 %some, label %body, label %done
body:
  %np = getelementptr i64, ptr %shape, i32 %d
  %n = load i64, ptr %np
  %total1 = mul i64 %total, %n
  %d1 = add i32 %d, 1
  br label %head
done:
  ret i64 %total
}

define ptr @elementwise(ptr %self, ptr %args, i64 %given, ptr %names) nounwind {
entry:
  %pointers = alloca [8 x ptr]
  %steps = alloca [8 x i64]
  %numbers = alloca [8 x double]
  %size = alloca i64
  %table = getelementptr i8, ptr %self, i64 BYTES
  %ufunc = load ptr, ptr %table, align 1
  %t1 = getelementptr i64, ptr %table, i64 1
  %loop = load ptr, ptr %t1, align 1
  %t2 = getelementptr i64, ptr %table, i64 2
  %data = load ptr, ptr %t2, align 1
  %t3 = getelementptr i64, ptr %table, i64 3
  %inputs = load i64, ptr %t3, align 1
  %t4 = getelementptr i64, ptr %table, i64 4
  %kind = load ptr, ptr %t4, align 1
  %t8 = getelementptr i64, ptr %table, i64 8
  %float = load ptr, ptr %t8, align 1
  %same = icmp eq i64 %given, %inputs
  %unnamed = icmp eq ptr %names, null
  %usual = and i1 %same, %unnamed
  br i1 %usual, label %operand, label %slow

operand:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %shape = phi ptr [ null, %entry ], [ %shape1, %next ]
  %rank = phi i32 [ 0, %entry ], [ %rank1, %next ]
  %orders = phi i32 [ BOTH, %entry ], [ %orders2, %next ]
  %ap = getelementptr ptr, ptr %args, i64 %i
  %a = load ptr, ptr %ap
  %e0 = mul i64 %i, 3
  %e1 = add i64 %e0, 10
  %entry0 = getelementptr i64, ptr %table, i64 %e1
  %pp = getelementptr ptr, ptr %pointers, i64 %i
  %sp = getelementptr i64, ptr %steps, i64 %i
  %typep = getelementptr i8, ptr %a, i64 TYPE
  %type = load ptr, ptr %typep
  %head = getelementptr i8, ptr %a, i64 HEAD
  %exact = icmp eq ptr %type, %kind
  br i1 %exact, label %array, label %other

other:
  %isfloat = icmp eq ptr %type, %float
  %modep = getelementptr i64, ptr %entry0, i64 2
  %mode = load i64, ptr %modep, align 1
  %takes = icmp ne i64 %mode, 0
  %number = and i1 %isfloat, %takes
  br i1 %number, label %convert, label %slow

convert:
  %value = load double, ptr %head
  %slot = getelementptr double, ptr %numbers, i64 %i
  store ptr %slot, ptr %pp
  store i64 0, ptr %sp
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
  %descrp = getelementptr i8, ptr %head, i64 40
  %descr = load ptr, ptr %descrp
  %wanted = load ptr, ptr %entry0, align 1
  %fits = icmp eq ptr %descr, %wanted
  %flagsp = getelementptr i8, ptr %head, i64 48
  %flags = load i32, ptr %flagsp
  %aligned = and i32 %flags, ALIGNED
  %even = icmp ne i32 %aligned, 0
  %orders1 = and i32 %orders, %flags
  %ordered = icmp ne i32 %orders1, 0
  %dense = and i1 %even, %ordered
  %ndp = getelementptr i8, ptr %head, i64 8
  %nd = load i32, ptr %ndp
  %ownp = getelementptr i8, ptr %head, i64 16
  %own = load ptr, ptr %ownp
  %start = load ptr, ptr %head
  store ptr %start, ptr %pp
  %stepp = getelementptr i64, ptr %entry0, i64 1
  %step = load i64, ptr %stepp, align 1
  store i64 %step, ptr %sp
  %first = icmp eq ptr %shape, null
  %alike = icmp eq i32 %nd, %rank
  %ranks = or i1 %first, %alike
  %ok0 = and i1 %fits, %dense
  %some = icmp sgt i32 %nd, 0
  %ok1 = and i1 %ok0, %some
  %ok = and i1 %ok1, %ranks
  br i1 %ok, label %ranked, label %slow

ranked:
  br i1 %first, label %next, label %compare

compare:
  %q = phi i32 [ 0, %ranked ], [ %q1, %equal ]
  %xp = getelementptr i64, ptr %own, i32 %q
  %x = load i64, ptr %xp
  %yp = getelementptr i64, ptr %shape, i32 %q
  %y = load i64, ptr %yp
  %matches = icmp eq i64 %x, %y
  br i1 %matches, label %equal, label %slow

equal:
  %q1 = add i32 %q, 1
  %further = icmp slt i32 %q1, %nd
  br i1 %further, label %compare, label %next

next:
  %shape1 = phi ptr [ %shape, %double ], [ %shape, %single ], [ %own, %ranked ], [ %own, %equal ]
  %rank1 = phi i32 [ %rank, %double ], [ %rank, %single ], [ %nd, %ranked ], [ %nd, %equal ]
  %orders2 = phi i32 [ %orders, %double ], [ %orders, %single ], [ %orders1, %ranked ], [ %orders1, %equal ]
  %i1 = add i64 %i, 1
  %left = icmp slt i64 %i1, %inputs
  br i1 %left, label %operand, label %measure

measure:
  %found = icmp ne ptr %shape1, null
  br i1 %found, label %count, label %slow

count:
  %r = phi i32 [ 0, %measure ], [ %r1, %count ]
  %total = phi i64 [ 1, %measure ], [ %total1, %count ]
  %zp = getelementptr i64, ptr %shape1, i32 %r
  %z = load i64, ptr %zp
  %total1 = mul i64 %total, %z
  %r1 = add i32 %r, 1
  %again = icmp slt i32 %r1, %rank1
  br i1 %again, label %count, label %make

make:
  %less = sub i64 %total1, 1
  %few = icmp ult i64 %less, MOST
  br i1 %few, label %filled, label %slow

filled:
  store i64 %total1, ptr %size
  %t5 = getelementptr i64, ptr %table, i64 5
  %new = load ptr, ptr %t5, align 1
  %t6 = getelementptr i64, ptr %table, i64 6
  %result = load ptr, ptr %t6, align 1
  call void @Py_IncRef(ptr %result)
  %byrows = and i32 %orders2, 1
  %byrow = icmp ne i32 %byrows, 0
  %order = select i1 %byrow, i32 0, i32 2
  %made = call ptr %new(ptr %kind, ptr %result, i32 %rank1, ptr %shape1, ptr null, ptr null, i32 %order, ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %done, label %run

run:
  %madep = getelementptr i8, ptr %made, i64 HEAD
  %to = load ptr, ptr %madep
  %lastp = getelementptr ptr, ptr %pointers, i64 %inputs
  store ptr %to, ptr %lastp
  %t7 = getelementptr i64, ptr %table, i64 7
  %bytes = load i64, ptr %t7, align 1
  %laststep = getelementptr i64, ptr %steps, i64 %inputs
  store i64 %bytes, ptr %laststep
  call void %loop(ptr %pointers, ptr %size, ptr %steps, ptr %data)
  br label %done

done:
  ret ptr %made

slow:
  br i1 %usual, label %look, label %finish

look:
  %j = phi i64 [ 0, %slow ], [ %j1, %on ]
  %shape0 = phi ptr [ null, %slow ], [ %shape2, %on ]
  %rank0 = phi i32 [ 0, %slow ], [ %rank2, %on ]
  %bp = getelementptr ptr, ptr %args, i64 %j
  %b = load ptr, ptr %bp
  %btypep = getelementptr i8, ptr %b, i64 TYPE
  %btype = load ptr, ptr %btypep
  %isarray = icmp eq ptr %btype, %kind
  br i1 %isarray, label %lies, label %on

lies:
  %bhead = getelementptr i8, ptr %b, i64 HEAD
  %bflagsp = getelementptr i8, ptr %bhead, i64 48
  %bflags = load i32, ptr %bflagsp
  %rows = and i32 %bflags, 1
  %turned = icmp eq i32 %rows, 0
  br i1 %turned, label %arranged, label %straight

straight:
  %bndp = getelementptr i8, ptr %bhead, i64 8
  %bnd = load i32, ptr %bndp
  %bownp = getelementptr i8, ptr %bhead, i64 16
  %bown = load ptr, ptr %bownp
  %known = icmp ne ptr %shape0, null
  br i1 %known, label %against, label %on

against:
  %unlike = icmp ne i32 %bnd, %rank0
  br i1 %unlike, label %spread, label %extent

extent:
  %u = phi i32 [ 0, %against ], [ %u1, %alikes ]
  %over = icmp sge i32 %u, %bnd
  br i1 %over, label %on, label %extents

extents:
  %vp = getelementptr i64, ptr %bown, i32 %u
  %v = load i64, ptr %vp
  %wp = getelementptr i64, ptr %shape0, i32 %u
  %w = load i64, ptr %wp
  %equals = icmp eq i64 %v, %w
  br i1 %equals, label %alikes, label %spread

alikes:
  %u1 = add i32 %u, 1
  br label %extent

spread:
  %c0 = call i64 @counted(i32 %bnd, ptr %bown)
  %c1 = call i64 @counted(i32 %rank0, ptr %shape0)
  %most = call i64 @llvm.smax.i64(i64 %c0, i64 %c1)
  %worth = icmp sge i64 %most, SPREAD
  br i1 %worth, label %arranged, label %finish

on:
  %shape2 = phi ptr [ %shape0, %look ], [ %bown, %straight ], [ %bown, %extent ]
  %rank2 = phi i32 [ %rank0, %look ], [ %bnd, %straight ], [ %bnd, %extent ]
  %j1 = add i64 %j, 1
  %more = icmp slt i64 %j1, %inputs
  br i1 %more, label %look, label %finish

arranged:
  %t9 = getelementptr i64, ptr %table, i64 9
  %arrange = load ptr, ptr %t9, align 1
  br label %finish

finish:
  %callee = phi ptr [ %ufunc, %slow ], [ %ufunc, %on ], [ %ufunc, %spread ], [ %arrange, %arranged ]
  %slowly = call ptr @PyObject_Vectorcall(ptr %callee, ptr %args, i64 %given, ptr %names)
  ret ptr %slowly
}
"""


@functools.cache
def new_array() -> int | None:
    """The address of PyArray_NewFromDescr; None if it is not where it should be."""
    if not known_layout():
        return None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[_NEW_FROM_DESCR]
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.py_object, ctypes.py_object, integer, pointer, pointer, pointer, integer, pointer
    )(address)
    d, shape = np.dtype(np.int16), (ctypes.c_ssize_t * 2)(3, 5)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(d))  # the function takes one
    made = make(np.ndarray, d, 2, ctypes.addressof(shape), None, None, 0, None)
    fits = made.__class__ is np.ndarray and made.shape == (3, 5) and made.dtype is d and made.flags.c_contiguous
    return address if fits else None


def arrangement(arrays: Sequence[Any], rows: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides (in elements) of a pointwise result of operands in any memory order; row-major if `rows`."""
    shape = arrays[0].shape
    if not all([a.shape == shape for a in arrays]):
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
    if rows:
        return shape, contiguous_strides(shape)
    return shape, joint_strides(shape, *[(a.shape, a.strides, a.itemsize) for a in arrays])


def arranged(call: Any, results: Sequence[Any], rows: bool) -> Callable[..., Any]:
    """A pointwise function for operands in any memory order, with results of these dtypes."""
    # by how operands lie: shape, strides (in elements, and in bytes if there is one small result) and way of the results
    plans: dict[Any, Any] = {}

    def run(*operands: Any) -> Any:
        key = tuple([(a.shape, a.strides) if a.__class__ is _ndarray else None for a in operands])
        plan = plans.get(key)
        if plan is None:
            if len(plans) >= _MOST_PLANS:
                plans.clear()
            plan = plans[key] = planned(operands)
        shape, strides, steps, way = plan
        if steps is not None:
            out = _ndarray(shape, results[0], None, 0, steps)
            if way is None or not way.run((*operands, out)):
                call(*operands, out)
            return out
        made = [empty_strided(shape, d, strides) for d in results]
        if way is None or not way.run((*operands, *made)):
            call(*operands, *made)
        return made[0] if len(made) == 1 else tuple(made)

    def planned(operands: tuple[Any, ...]) -> Any:
        shape, strides = arrangement([a for a in operands if a.__class__ is _ndarray], rows)
        if len(results) > 1:
            return shape, strides, None, None
        d = results[0]
        out = empty_strided(shape, d, strides)
        small = out.nbytes < LARGE
        return shape, strides, out.strides if small else None, walk(call, operands, out)

    return run


@functools.cache
def by_layout(call: Any, results: tuple[Any, ...], rows: bool = False) -> Callable[..., Any]:
    """The same, where row-major operands are left to the function itself."""
    turned = arranged(call, results, rows)

    def run(*operands: Any) -> Any:
        for a in operands:
            if a.__class__ is _ndarray and not a.flags.c_contiguous:
                return turned(*operands)
        return call(*operands)

    return run


def elementwise(ufunc: Any, results: tuple[Any, ...], rows: bool = False) -> Any:
    """A pointwise function of ours, with results of these dtypes, that is quicker for small dense arrays.

    Results lie in memory as operands do, or are row-major if `rows`.
    """
    if ufunc not in loops or ufunc.signature or ufunc.nout != 1 or ufunc.nin > _MOST_INPUTS:
        return by_layout(ufunc, results, rows)
    new = new_array()
    if new is None or not _has_vectorcall:
        return by_layout(ufunc, results, rows)
    address, data = loops[ufunc]
    *inputs, result = [np.dtype(c) for c in ufunc.types[0].replace("->", "")]
    words = [id(ufunc), address, 0 if data is None else data.buffer_info()[0], len(inputs), id(np.ndarray), new]
    turned = arranged(ufunc, results, rows)
    words += [id(result), result.itemsize, id(float), id(turned)]
    for d in inputs:
        words += [id(d), d.itemsize, _FLOATS.get(d.char, 0)]
    _kept.append((ufunc, inputs, result, turned))
    both = 0x1 if rows else 0x1 | 0x2  # row-major and column-major
    text = (
        _TEXT.replace("BOTH", str(both))
        .replace("ALIGNED", str(0x100))
        .replace("MOST", str(_MOST))
        .replace("SPREAD", str(_SPREAD))
    )
    return bound_function("elementwise", text, struct.pack(f"{len(words)}q", *words), named=True)


_has_vectorcall = hasattr(ctypes.pythonapi, "PyObject_Vectorcall")  # a macro before Python 3.11
_kept: list[Any] = []  # what the tables point to
