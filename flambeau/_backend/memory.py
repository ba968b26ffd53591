"""Large arrays that begin at a cache line: vectors are read and written in whole lines, which saves 5 to 10 %."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core import allocation
from .._kernel import jit

_HUGE = 1 << 22  # bytes from which Linux is asked for large pages, as NumPy does
# glibc gives blocks from this size on back to the system at once, and every new one costs a fault for each page: some are
# kept here for the next result of about the same size, so many bytes in all.
_KEPT_FROM, _KEPT_IN_ALL = 32 << 20, 256 << 20
_POINTER = ctypes.c_void_p
# A block is kept in one of 16 places. Whoever finds the lock taken does without: nobody ever waits, also not in a
# forked child whose parent held it.
_TEXT = f"""
@places = internal global [16 x [2 x i64]] zeroinitializer
@lock = internal global i64 0
@total = internal global i64 0
declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @free(ptr)

define ptr @allocate(ptr %context, i64 %size) nounwind {{
entry:
  %slot = alloca ptr
  %asked = icmp ne ptr %context, null
  br i1 %asked, label %answer, label %start
answer:
  ret ptr @released
start:
  %big = icmp uge i64 %size, {_KEPT_FROM}
  br i1 %big, label %try, label %fresh
try:
  %pair = cmpxchg ptr @lock, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %look, label %fresh
look:
  %i = phi i64 [ 0, %try ], [ %i1, %next ]
  %place = getelementptr [16 x [2 x i64]], ptr @places, i64 0, i64 %i
  %held = load i64, ptr %place
  %at = getelementptr i64, ptr %place, i64 1
  %length = load i64, ptr %at
  %some = icmp ne i64 %held, 0
  %enough = icmp uge i64 %length, %size
  %over = sub i64 %length, %size
  %quarter = lshr i64 %size, 2
  %close = icmp ule i64 %over, %quarter
  %g1 = and i1 %some, %enough
  %good = and i1 %g1, %close
  br i1 %good, label %take, label %next
next:
  %i1 = add i64 %i, 1
  %end = icmp eq i64 %i1, 16
  br i1 %end, label %leave, label %look
take:
  store i64 0, ptr %place
  %sum = load i64, ptr @total
  %less = sub i64 %sum, %length
  store i64 %less, ptr @total
  store atomic i64 0, ptr @lock release, align 8
  %found = inttoptr i64 %held to ptr
  ret ptr %found
leave:
  store atomic i64 0, ptr @lock release, align 8
  br label %fresh
fresh:
  %failed = call i32 @posix_memalign(ptr %slot, i64 64, i64 %size)
  %ok = icmp eq i32 %failed, 0
  %made = load ptr, ptr %slot
  %result = select i1 %ok, ptr %made, ptr null
  %large = icmp uge i64 %size, {_HUGE}
  %advise = and i1 %ok, %large
  br i1 %advise, label %pages, label %done
pages:
  %address = ptrtoint ptr %made to i64
  %up = add i64 %address, 4095
  %first = and i64 %up, -4096
  %skipped = sub i64 %first, %address
  %rest = sub i64 %size, %skipped
  %from = inttoptr i64 %first to ptr
  %ignored = call i32 @madvise(ptr %from, i64 %rest, i32 14)
  br label %done
done:
  ret ptr %result
}}

define internal void @released(ptr %context, ptr %old, i64 %size) nounwind {{
entry:
  %big = icmp uge i64 %size, {_KEPT_FROM}
  %few = icmp ule i64 %size, {_KEPT_IN_ALL}
  %wanted = and i1 %big, %few
  br i1 %wanted, label %try, label %give
try:
  %pair = cmpxchg ptr @lock, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %weigh, label %give
weigh:
  %sum = load i64, ptr @total
  %more = add i64 %sum, %size
  %fits = icmp ule i64 %more, {_KEPT_IN_ALL}
  br i1 %fits, label %look, label %evict
evict:
  %e = phi i64 [ 0, %weigh ], [ %e1, %onwards ]
  %candidate = getelementptr [16 x [2 x i64]], ptr @places, i64 0, i64 %e
  %stale = load i64, ptr %candidate
  %none = icmp eq i64 %stale, 0
  br i1 %none, label %onwards, label %drop
onwards:
  %e1 = add i64 %e, 1
  %e.end = icmp eq i64 %e1, 16
  br i1 %e.end, label %leave, label %evict
drop:
  store i64 0, ptr %candidate
  %s.at = getelementptr i64, ptr %candidate, i64 1
  %s.size = load i64, ptr %s.at
  %lighter = sub i64 %sum, %s.size
  store i64 %lighter, ptr @total
  %s.pointer = inttoptr i64 %stale to ptr
  call void @free(ptr %s.pointer)
  br label %weigh
look:
  %i = phi i64 [ 0, %weigh ], [ %i1, %next ]
  %place = getelementptr [16 x [2 x i64]], ptr @places, i64 0, i64 %i
  %held = load i64, ptr %place
  %empty = icmp eq i64 %held, 0
  br i1 %empty, label %put, label %next
next:
  %i1 = add i64 %i, 1
  %end = icmp eq i64 %i1, 16
  br i1 %end, label %leave, label %look
put:
  %number = ptrtoint ptr %old to i64
  store i64 %number, ptr %place
  %at = getelementptr i64, ptr %place, i64 1
  store i64 %size, ptr %at
  store i64 %more, ptr @total
  store atomic i64 0, ptr @lock release, align 8
  ret void
leave:
  store atomic i64 0, ptr @lock release, align 8
  br label %give
give:
  call void @free(ptr %old)
  ret void
}}
"""
_OTHERS = {
    "zeroed": "declare ptr @calloc(i64, i64)\n"
    "define ptr @zeroed(ptr %context, i64 %count, i64 %size) nounwind {\n"
    "  %made = call ptr @calloc(i64 %count, i64 %size)\n  ret ptr %made\n}\n",
    "resized": "declare ptr @realloc(ptr, i64)\n"
    "define ptr @resized(ptr %context, ptr %old, i64 %size) nounwind {\n"
    "  %made = call ptr @realloc(ptr %old, i64 %size)\n  ret ptr %made\n}\n",
}


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler, version 1."""

    _fields_ = [
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", _POINTER), ("malloc", _POINTER),
        ("calloc", _POINTER), ("realloc", _POINTER), ("free", _POINTER),
    ]  # fmt: skip


_kept: list[Any] = []  # arrays point to these as long as they live


@functools.cache
def _exchange() -> tuple[int, Any] | None:
    """The address of NumPy's function that sets the allocator of this context, and ours; None where that cannot be had."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = _POINTER, [ctypes.py_object, ctypes.c_char_p]
        capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
        table = ctypes.cast(get(capsule, None), ctypes.POINTER(_POINTER))
        address = table[304]
        allocate = jit.compile("allocate", _TEXT)
        released = ctypes.CFUNCTYPE(_POINTER, _POINTER, ctypes.c_int64)(allocate)(1, 0)
        others = [jit.compile(name, text) for name, text in _OTHERS.items()]
        handler = _Handler(b"flambeau_aligned", 1, None, allocate, *others, released)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [_POINTER, ctypes.c_char_p, _POINTER]
        capsule = new(ctypes.addressof(handler), b"mem_handler", None)
        _kept.extend((handler, capsule, b"mem_handler"))
        return address, capsule
    except (AttributeError, OSError, RuntimeError, ValueError):
        return None


@functools.cache
def _setter() -> Callable[[Any], Any]:
    """NumPy's function, for Python."""
    ours = _exchange()
    assert ours is not None
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(ours[0])


def _aligned(shape: Any, dtype: Any) -> Any:
    """`np.empty` at a multiple of 64 bytes."""
    ours = _exchange()
    if ours is None:
        return np.empty(shape, dtype)
    set_handler, handler = _setter(), ours[1]
    before = set_handler(handler)
    try:
        return np.empty(shape, dtype)
    finally:
        set_handler(before)


allocation.allocator[0] = _aligned
allocation.exchange[0] = _exchange
