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
_POINTER = ctypes.c_void_p
_TEXT = f"""
declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @madvise(ptr, i64, i32)

define ptr @allocate(ptr %context, i64 %size) nounwind {{
  %slot = alloca ptr
  %failed = call i32 @posix_memalign(ptr %slot, i64 64, i64 %size)
  %ok = icmp eq i32 %failed, 0
  %made = load ptr, ptr %slot
  %result = select i1 %ok, ptr %made, ptr null
  %large = icmp uge i64 %size, {_HUGE}
  %advise = and i1 %ok, %large
  br i1 %advise, label %pages, label %end
pages:
  %address = ptrtoint ptr %made to i64
  %up = add i64 %address, 4095
  %first = and i64 %up, -4096
  %skipped = sub i64 %first, %address
  %length = sub i64 %size, %skipped
  %start = inttoptr i64 %first to ptr
  %ignored = call i32 @madvise(ptr %start, i64 %length, i32 14)
  br label %end
end:
  ret ptr %result
}}
"""
_OTHERS = {
    "zeroed": "declare ptr @calloc(i64, i64)\n"
    "define ptr @zeroed(ptr %context, i64 %count, i64 %size) nounwind {\n"
    "  %made = call ptr @calloc(i64 %count, i64 %size)\n  ret ptr %made\n}\n",
    "resized": "declare ptr @realloc(ptr, i64)\n"
    "define ptr @resized(ptr %context, ptr %old, i64 %size) nounwind {\n"
    "  %made = call ptr @realloc(ptr %old, i64 %size)\n  ret ptr %made\n}\n",
    "released": "declare void @free(ptr)\n"
    "define void @released(ptr %context, ptr %old, i64 %size) nounwind {\n"
    "  call void @free(ptr %old)\n  ret void\n}\n",
}


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler, version 1."""

    _fields_ = [
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", _POINTER), ("malloc", _POINTER),
        ("calloc", _POINTER), ("realloc", _POINTER), ("free", _POINTER),
    ]  # fmt: skip


_kept: list[Any] = []  # arrays point to these as long as they live


@functools.cache
def _exchange() -> tuple[Callable[[Any], Any], Any] | None:
    """NumPy's function that sets the allocator of this context, and ours; None where that cannot be had."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = _POINTER, [ctypes.py_object, ctypes.c_char_p]
        capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
        table = ctypes.cast(get(capsule, None), ctypes.POINTER(_POINTER))
        set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[304])
        addresses = [jit.compile("allocate", _TEXT), *[jit.compile(name, text) for name, text in _OTHERS.items()]]
        handler = _Handler(b"flambeau_aligned", 1, None, *addresses)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [_POINTER, ctypes.c_char_p, _POINTER]
        capsule = new(ctypes.addressof(handler), b"mem_handler", None)
        _kept.extend((handler, capsule, b"mem_handler"))
        return set_handler, capsule
    except (AttributeError, OSError, RuntimeError, ValueError):
        return None


def _aligned(shape: Any, dtype: Any) -> Any:
    """`np.empty` at a multiple of 64 bytes."""
    ours = _exchange()
    if ours is None:
        return np.empty(shape, dtype)
    set_handler, handler = ours
    before = set_handler(handler)
    try:
        return np.empty(shape, dtype)
    finally:
        set_handler(before)


allocation.allocator[0] = _aligned
