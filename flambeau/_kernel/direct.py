"""Calls of kernels on small dense arrays, straight from Python to machine code.

NumPy prepares every call of a generalized ufunc for all that operands may be; for a few kilobytes that costs more
than the work. The function made here looks at its operands itself and runs the loop if they are plain: exact arrays of
the loop's dtypes, with one shape before the core dimensions that is at most one dimension or dense. Everything else
goes to the ufunc as before.
"""

from __future__ import annotations

import ctypes
import functools
import re
import struct
from typing import Any

import numpy as np

from . import jit
from .ufunc import addresses

_MOST_OPERANDS, _MOST_DIMS = 8, 3  # core dimensions of one operand; a kernel has at most 8 in all
_ALIGNED, _WRITABLE = 0x0100, 0x0400  # flags of arrays
_FASTCALL, _NAMES, _ONE_ARGUMENT = 0x0080, 0x0002, 0x0008

# The table behind `self`, words of 8 bytes: ufunc, loop, operands, core dimensions, ndarray, the loop's data; then of
# each operand: dtype, bytes of an element, flags, whether it is a result, core dimensions, their three numbers.
_ASSEMBLY = """
declare void @Py_IncRef(ptr)
declare ptr @PyObject_VectorcallDict(ptr, ptr, i64, ptr)

define ptr @direct(ptr %self, ptr %args, i64 %given) nounwind {
entry:
  %pointers = alloca [8 x ptr]
  %dims = alloca [9 x i64]
  %steps = alloca [32 x i64]
  %table = getelementptr i8, ptr %self, i64 BYTES
  %ufunc = load ptr, ptr %table, align 1
  %t1 = getelementptr i64, ptr %table, i64 1
  %loop = load ptr, ptr %t1, align 1
  %t2 = getelementptr i64, ptr %table, i64 2
  %operands = load i64, ptr %t2, align 1
  %t3 = getelementptr i64, ptr %table, i64 3
  %cores = load i64, ptr %t3, align 1
  %t4 = getelementptr i64, ptr %table, i64 4
  %kind = load ptr, ptr %t4, align 1
  %t5 = getelementptr i64, ptr %table, i64 5
  %data = load ptr, ptr %t5, align 1
  %same = icmp eq i64 %given, %operands
  br i1 %same, label %clear, label %slow

clear:
  %c = phi i64 [ 0, %entry ], [ %c1, %clear ]
  %cp = getelementptr i64, ptr %dims, i64 %c
  store i64 -1, ptr %cp
  %c1 = add i64 %c, 1
  %cleared = icmp sgt i64 %c1, %cores
  br i1 %cleared, label %operand, label %clear

operand:
  %i = phi i64 [ 0, %clear ], [ %i1, %next ]
  %place = phi i64 [ %operands, %clear ], [ %placed, %next ]
  %rank = phi i64 [ 0, %clear ], [ %rank1, %next ]
  %outer = phi ptr [ null, %clear ], [ %outer1, %next ]
  %ap = getelementptr ptr, ptr %args, i64 %i
  %a = load ptr, ptr %ap
  %e0 = mul i64 %i, 8
  %e1 = add i64 %e0, 6
  %entry0 = getelementptr i64, ptr %table, i64 %e1
  %typep = getelementptr i8, ptr %a, i64 TYPE
  %type = load ptr, ptr %typep
  %exact = icmp eq ptr %type, %kind
  br i1 %exact, label %array, label %slow

array:
  %head = getelementptr i8, ptr %a, i64 HEAD
  %descrp = getelementptr i8, ptr %head, i64 40
  %descr = load ptr, ptr %descrp
  %wanted = load ptr, ptr %entry0, align 1
  %fits = icmp eq ptr %descr, %wanted
  %flagsp = getelementptr i8, ptr %head, i64 48
  %flags0 = load i32, ptr %flagsp
  %flags = zext i32 %flags0 to i64
  %maskp = getelementptr i64, ptr %entry0, i64 2
  %mask = load i64, ptr %maskp, align 1
  %masked = and i64 %flags, %mask
  %allowed = icmp eq i64 %masked, %mask
  %ndp = getelementptr i8, ptr %head, i64 8
  %nd0 = load i32, ptr %ndp
  %nd = sext i32 %nd0 to i64
  %corep = getelementptr i64, ptr %entry0, i64 4
  %core = load i64, ptr %corep, align 1
  %lead = sub i64 %nd, %core
  %enough = icmp sge i64 %lead, 0
  %ok0 = and i1 %fits, %allowed
  %ok = and i1 %ok0, %enough
  br i1 %ok, label %plain, label %slow

plain:
  %first = load ptr, ptr %head
  %pp = getelementptr ptr, ptr %pointers, i64 %i
  store ptr %first, ptr %pp
  %shapep = getelementptr i8, ptr %head, i64 16
  %shape = load ptr, ptr %shapep
  %stridesp = getelementptr i8, ptr %head, i64 24
  %strides = load ptr, ptr %stridesp
  %sizep = getelementptr i64, ptr %entry0, i64 1
  %size = load i64, ptr %sizep, align 1
  %resultp = getelementptr i64, ptr %entry0, i64 3
  %result = load i64, ptr %resultp, align 1
  %numbers = getelementptr i64, ptr %entry0, i64 5
  %coreless = icmp eq i64 %core, 0
  br i1 %coreless, label %outside, label %inside

inside:
  %j = phi i64 [ 0, %plain ], [ %j1, %agreed ]
  %bytes = phi i64 [ %size, %plain ], [ %bytes1, %agreed ]
  %at = phi i64 [ %place, %plain ], [ %at1, %agreed ]
  %d = add i64 %lead, %j
  %np = getelementptr i64, ptr %shape, i64 %d
  %n = load i64, ptr %np
  %sp = getelementptr i64, ptr %strides, i64 %d
  %s = load i64, ptr %sp
  %numberp = getelementptr i64, ptr %numbers, i64 %j
  %number = load i64, ptr %numberp, align 1
  %number1 = add i64 %number, 1
  %havep = getelementptr i64, ptr %dims, i64 %number1
  %have = load i64, ptr %havep
  %unknown = icmp eq i64 %have, -1
  %equal = icmp eq i64 %have, %n
  %agrees = or i1 %unknown, %equal
  %some = icmp sgt i64 %n, 0
  %good = and i1 %agrees, %some
  br i1 %good, label %agreed, label %slow

agreed:
  store i64 %n, ptr %havep
  %stepp = getelementptr i64, ptr %steps, i64 %at
  store i64 %s, ptr %stepp
  %bytes1 = mul i64 %bytes, %n
  %at1 = add i64 %at, 1
  %j1 = add i64 %j, 1
  %more = icmp slt i64 %j1, %core
  br i1 %more, label %inside, label %outside

outside:
  %row = phi i64 [ %size, %plain ], [ %bytes1, %agreed ]
  %placed = phi i64 [ %place, %plain ], [ %at1, %agreed ]
  %bare = icmp eq i64 %lead, 0
  %isinput = icmp eq i64 %result, 0
  %shared = and i1 %bare, %isinput
  br i1 %shared, label %next, label %looped

looped:
  %unset = icmp eq i64 %rank, 0
  %sets = and i1 %unset, %isinput
  %samerank = icmp eq i64 %rank, %lead
  %rankfits = or i1 %sets, %samerank
  %dense = trunc i64 %flags to i1
  %single = icmp sle i64 %lead, 1
  %even = or i1 %dense, %single
  %steady = and i1 %rankfits, %even
  br i1 %steady, label %ranked, label %slow

ranked:
  %reference = select i1 %sets, ptr %shape, ptr %outer
  br i1 %bare, label %next, label %stepped

stepped:
  %stride = load i64, ptr %strides
  %one = icmp eq i64 %lead, 1
  %stride1 = select i1 %one, i64 %stride, i64 %row
  br label %compare

compare:
  %q = phi i64 [ 0, %stepped ], [ %q1, %compared ]
  %xp = getelementptr i64, ptr %shape, i64 %q
  %x = load i64, ptr %xp
  %yp = getelementptr i64, ptr %reference, i64 %q
  %y = load i64, ptr %yp
  %matches = icmp eq i64 %x, %y
  %exists = icmp sgt i64 %x, 0
  %fine = and i1 %matches, %exists
  br i1 %fine, label %compared, label %slow

compared:
  %q1 = add i64 %q, 1
  %further = icmp slt i64 %q1, %lead
  br i1 %further, label %compare, label %next

next:
  %step = phi i64 [ 0, %outside ], [ %row, %ranked ], [ %stride1, %compared ]
  %rank1 = phi i64 [ %rank, %outside ], [ %lead, %ranked ], [ %lead, %compared ]
  %outer1 = phi ptr [ %outer, %outside ], [ %outer, %ranked ], [ %reference, %compared ]
  %ownp = getelementptr i64, ptr %steps, i64 %i
  store i64 %step, ptr %ownp
  %i1 = add i64 %i, 1
  %left = icmp slt i64 %i1, %operands
  br i1 %left, label %operand, label %count

count:
  %unlooped = icmp eq i64 %rank1, 0
  br i1 %unlooped, label %go, label %multiply

multiply:
  %r = phi i64 [ 0, %count ], [ %r1, %multiply ]
  %total = phi i64 [ 1, %count ], [ %total1, %multiply ]
  %zp = getelementptr i64, ptr %outer1, i64 %r
  %z = load i64, ptr %zp
  %total1 = mul i64 %total, %z
  %r1 = add i64 %r, 1
  %again = icmp slt i64 %r1, %rank1
  br i1 %again, label %multiply, label %go

go:
  %length = phi i64 [ 1, %count ], [ %total1, %multiply ]
  store i64 %length, ptr %dims
  call void %loop(ptr %pointers, ptr %dims, ptr %steps, ptr %data)
  call void @Py_IncRef(ptr %a)
  ret ptr %a

slow:
  %made = call ptr @PyObject_VectorcallDict(ptr %ufunc, ptr %args, i64 %given, ptr null)
  ret ptr %made
}
"""


_ADDRESS = """
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyObject_VectorcallDict(ptr, ptr, i64, ptr)

define ptr @address(ptr %self, ptr %a) nounwind {
entry:
  %table = getelementptr i8, ptr %self, i64 BYTES
  %kind = load ptr, ptr %table, align 1
  %typep = getelementptr i8, ptr %a, i64 TYPE
  %type = load ptr, ptr %typep
  %exact = icmp eq ptr %type, %kind
  br i1 %exact, label %plain, label %slow
plain:
  %head = getelementptr i8, ptr %a, i64 HEAD
  %data = load i64, ptr %head
  %made = call ptr @PyLong_FromUnsignedLongLong(i64 %data)
  ret ptr %made
slow:
  %askp = getelementptr i64, ptr %table, i64 1
  %ask = load ptr, ptr %askp, align 1
  %one = alloca ptr
  store ptr %a, ptr %one
  %other = call ptr @PyObject_VectorcallDict(ptr %ask, ptr %one, i64 1, ptr null)
  ret ptr %other
}
"""


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


@functools.cache
def known_layout() -> bool:
    """Whether arrays are laid out in memory as the code here expects."""
    probe = np.empty((2, 3), np.float32)
    head = object.__basicsize__
    words = (ctypes.c_int64 * 7).from_address(id(probe) + head)
    data = probe.__array_interface__["data"][0]
    known = words[0] == data and words[1] & 0xFFFFFFFF == 2 and words[5] == id(probe.dtype)
    shape = (ctypes.c_int64 * 2).from_address(words[2]) if known else ()
    return list(shape) == [2, 3] and words[6] & 0xFFFFFFFF == probe.flags.num


def _function(name: str, text: str, flags: int) -> Any:
    """Assembly as Python knows functions, together with what has to be put behind its `self`."""
    head = object.__basicsize__
    text = text.replace("TYPE", str(head - 8)).replace("HEAD", str(head)).replace("BYTES", str(bytes.__basicsize__ - 1))
    return _Method(name.encode(), jit.compile(name, text), flags, None)


@functools.cache
def _method() -> Any:
    return _function("direct", _ASSEMBLY, _FASTCALL) if known_layout() else None


def _bound(method: Any, value: Any) -> Any:
    """A function of Python's with its `self`."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    _kept.append(method)
    return make(ctypes.addressof(method), value, None)


def bound_function(name: str, text: str, words: bytes, named: bool = False) -> Any:
    """Assembly (self, arguments, their number[, names]) as Python knows functions; `words` are what its `self` holds."""
    return _bound(_function(name, text, _FASTCALL | _NAMES if named else _FASTCALL), words)


def _slow_address(array: Any) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


@functools.cache
def address_function() -> Any:
    """A quick function that gives the address of an array's first element."""
    if not known_layout():
        return _slow_address
    method = _function("address", _ADDRESS, _ONE_ARGUMENT)
    return _bound(method, struct.pack("2q", id(np.ndarray), id(_slow_address)))


def direct(ufunc: Any, loop: int | None = None, data: Any = None) -> Any:
    """A generalized ufunc of ours as a function of its operands, results included, for small arrays.

    Results must not overlap the other operands: nobody looks for that. `loop` is the address of its loop, which gets
    `data` (an array).
    """
    operands = [re.findall(r"\w+", operand) for operand in re.findall(r"\(([^)]*)\)", ufunc.signature)]
    names = list(dict.fromkeys(name for core in operands for name in core))
    method = _method()
    widest = max(map(len, operands))
    if method is None or len(operands) > _MOST_OPERANDS or widest > _MOST_DIMS or len(names) > 8:
        return ufunc
    dtypes = [np.dtype(c) for c in ufunc.types[0].replace("->", "")]
    words = [id(ufunc), addresses[ufunc] if loop is None else loop, len(operands), len(names), id(np.ndarray)]
    words.append(0 if data is None else data.buffer_info()[0])
    for i, (core, d) in enumerate(zip(operands, dtypes)):
        result = i >= ufunc.nin
        numbers = [names.index(name) for name in core]
        words += [id(d), d.itemsize, _ALIGNED | (_WRITABLE if result else 0), result, len(core)]
        words += numbers + [0] * (_MOST_DIMS - len(core))
    _kept.append((ufunc, dtypes, data))
    return _bound(method, struct.pack(f"{len(words)}q", *words))


_kept: list[Any] = []  # what the tables point to
