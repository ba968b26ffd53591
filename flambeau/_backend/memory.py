"""Arrays that begin at a cache line: vectors are read and written in whole lines, which saves large ones 5 to 10 % and smaller ones more.

NumPy is told which functions own their memory. Before each block stands the address of the larger one that it is a part of: the C
library's own function for aligned memory cuts a block into three, and takes several times as long.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

import numpy as np

from .._core import allocation
from .._core.c_interface import c_function
from .._kernel.loops.dialect import compile_function, compile_module, inline
from .._kernel.native.arrays import fresh, fresh_is_kept

_LINE = 64
_HUGE = 1 << 22  # bytes from which Linux is asked for large pages, as NumPy does
# glibc gives blocks from this size on back to the system at once, and every new one costs a fault for each page: some are
# kept here for the next result of about the same size, so many bytes in all.
_KEPT_FROM, _KEPT_IN_ALL = 32 << 20, 256 << 20
_POINTER = ctypes.c_void_p
# Blocks that are kept, at most; where the functions' own memory has its lock, and how many bytes are kept in all. Then come the blocks.
_PLACES, _LOCK, _TOTAL, _BLOCKS = 16, 0, 8, 16


# -- in the dialect of `native`. Whoever finds the lock taken does without: nobody ever waits, also not in a forked child whose
# parent held it.


@inline
def aligned(m, own):
    """The first line that begins within a block and not at its beginning; the block's address is put before it."""
    made = (own + _LINE) & -_LINE
    m.put(made, -8, own)
    return made


def released(m, context, old, size):
    """Keeps a block, by its address and size, or gives it back."""
    state, left = m.memory(), old
    if (size >= _KEPT_FROM) & (size <= _KEPT_IN_ALL):
        if m.swap(state + _LOCK, 0, 1) == 1:
            for i in range(_PLACES):  # until there is room for it
                place = state + _BLOCKS + i * 16
                if (m.word(place) != 0) & (m.word(state, _TOTAL) + size > _KEPT_IN_ALL):
                    m.run("free", m.word(m.word(place), -8))
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
    if left != 0:
        m.run("free", m.word(left, -8))


def allocate(m, context, size):
    """A block that is kept and about as large, or a new one. With a context, which NumPy does not give, the address of `released`."""
    if context != 0:
        return m.function("released")
    state, found = m.memory(), 0
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
    own = m.call("malloc", size + _LINE)
    if own == 0:
        return 0
    made = aligned(m, own)
    if size >= _HUGE:
        first = (made + 4095) & -4096
        m.short("madvise", first, size - (first - made), 14)
    return made


def zeroed(m, context, count, size):
    own = m.call("calloc", 1, count * size + _LINE)
    if own == 0:
        return 0
    return aligned(m, own)


def resized(m, context, old, size):
    """What the block held stays where it is in the larger one, which may begin elsewhere in a line then."""
    before = m.word(old, -8)
    own = m.call("realloc", before, size + _LINE)
    if own == 0:
        return 0
    m.put(own + (old - before), -8, own)
    return own + (old - before)


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler, version 1."""

    _fields_ = [
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", _POINTER), ("malloc", _POINTER),
        ("calloc", _POINTER), ("realloc", _POINTER), ("free", _POINTER),
    ]  # fmt: skip


_kept: list[Any] = []  # arrays point to these as long as they live


@functools.cache
def _lines() -> tuple[int, Any] | None:
    """The address of `allocate`, and what NumPy knows as the owner of what it gives; None where that cannot be had, or arrays do not say
    who owns their memory as expected."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        functions = {released: ["context", "old", "size"], allocate: ["context", "size"]}
        malloc = compile_module(functions, 2 + 2 * _PLACES)
        free = ctypes.CFUNCTYPE(_POINTER, _POINTER, ctypes.c_int64)(malloc)(1, 0)
        calloc = compile_function("zeroed", zeroed, ["context", "count", "size"])
        realloc = compile_function("resized", resized, ["context", "old", "size"])
        handler = _Handler(b"flambeau_aligned", 1, None, malloc, calloc, realloc, free)
        new = c_function("PyCapsule_New", ctypes.py_object, _POINTER, ctypes.c_char_p, _POINTER)
        capsule = new(ctypes.addressof(handler), b"mem_handler", None)
        _kept.extend((handler, capsule, b"mem_handler"))
        allocation.in_lines = fresh(malloc, capsule)
        return None if allocation.in_lines is None else (malloc, capsule)
    except (AttributeError, OSError, RuntimeError, ValueError):
        return None


def _aligned(shape: Any, dtype: Any) -> Any:
    """`np.empty` at a multiple of 64 bytes."""
    made = np.empty(shape, dtype)
    return made if made.nbytes < allocation.IN_LINES or _lines() is None else allocation.in_lines(made, made.nbytes)


def _first(array: Any, size: int, *zeros: Any) -> Any:
    """The first small array: where functions are kept, they are loaded now, and otherwise when a large one needs them."""
    allocation.in_lines = None
    if fresh_is_kept() and _lines() is not None:
        return allocation.in_lines(array, size, *zeros)
    if zeros:
        array.fill(0)
    return array


if sys.platform.startswith("linux"):
    allocation.in_lines = _first
allocation.allocator[0] = _aligned
allocation.lines[0] = _lines
