"""Large arrays that begin at a cache line: vectors are read and written in whole lines, which saves 5 to 10 %."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core import allocation
from .._core.c_interface import c_function, capsule_pointer
from .._kernel.loops.dialect import compile_function, compile_module

_HUGE = 1 << 22  # bytes from which Linux is asked for large pages, as NumPy does
# glibc gives blocks from this size on back to the system at once, and every new one costs a fault for each page: some are
# kept here for the next result of about the same size, so many bytes in all.
_KEPT_FROM, _KEPT_IN_ALL = 32 << 20, 256 << 20
_POINTER = ctypes.c_void_p
# Blocks that are kept, at most; where the functions' own memory has its lock, and how many bytes are kept in all. Then come the blocks.
_PLACES, _LOCK, _TOTAL, _BLOCKS = 16, 0, 8, 16


# -- in the dialect of `native`. Whoever finds the lock taken does without: nobody ever waits, also not in a forked child whose
# parent held it.


def released(m, context, old, size):
    """Keeps a block, by its address and size, or gives it back."""
    state, left = m.memory(), old
    if (size >= _KEPT_FROM) & (size <= _KEPT_IN_ALL):
        if m.swap(state + _LOCK, 0, 1) == 1:
            for i in range(_PLACES):  # until there is room for it
                place = state + _BLOCKS + i * 16
                if (m.word(place) != 0) & (m.word(state, _TOTAL) + size > _KEPT_IN_ALL):
                    m.run("free", m.word(place))
                    m.put(place, 0, 0)
                    m.put(state, _TOTAL, m.word(state, _TOTAL) - m.word(place, 8))
            for i in range(_PLACES):
                place = state + _BLOCKS + i * 16
                if (m.word(place) == 0) & (left != 0):
                    m.put(place, 0, left)
                    m.put(place, 8, size)
                    m.put(state, _TOTAL, m.word(state, _TOTAL) + size)
                    left = 0
            m.set(state + _LOCK, 0)
    m.run("free", left)


def allocate(m, context, size):
    """A block that is kept and about as large, or a new one. With a context, which NumPy does not give, the address of `released`."""
    if context != 0:
        return m.function("released")
    state, found, slot = m.memory(), 0, m.space(1)
    if size >= _KEPT_FROM:
        if m.swap(state + _LOCK, 0, 1) == 1:
            for i in range(_PLACES):
                place = state + _BLOCKS + i * 16
                held, over = m.word(place), m.word(place, 8) - size
                if (found == 0) & (held != 0) & (over >= 0) & (over <= size >> 2):
                    found = held
                    m.put(place, 0, 0)
                    m.put(state, _TOTAL, m.word(state, _TOTAL) - m.word(place, 8))
            m.set(state + _LOCK, 0)
    if found != 0:
        return found
    if m.short("posix_memalign", slot, 64, size) != 0:
        return 0
    made = m.word(slot)
    if size >= _HUGE:
        first = (made + 4095) & -4096
        m.short("madvise", first, size - (first - made), 14)
    return made


def zeroed(m, context, count, size):
    return m.call("calloc", count, size)


def resized(m, context, old, size):
    return m.call("realloc", old, size)


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
        capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
        table = ctypes.cast(capsule_pointer(capsule, None), ctypes.POINTER(_POINTER))
        address = table[304]
        functions = {released: ["context", "old", "size"], allocate: ["context", "size"]}
        malloc = compile_module(functions, 2 + 2 * _PLACES)
        free = ctypes.CFUNCTYPE(_POINTER, _POINTER, ctypes.c_int64)(malloc)(1, 0)
        calloc = compile_function("zeroed", zeroed, ["context", "count", "size"])
        realloc = compile_function("resized", resized, ["context", "old", "size"])
        handler = _Handler(b"flambeau_aligned", 1, None, malloc, calloc, realloc, free)
        new = c_function("PyCapsule_New", ctypes.py_object, _POINTER, ctypes.c_char_p, _POINTER)
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
