"""Fresh and filled arrays on the CPU. The backend puts its own ways for large ones here.

While a function with `out=` runs, the first large array that it asks for and that fits lies in the memory given: most
often that is its result, which then needs no copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .layouts import in_rows, like_strides
from .state import local

# bytes from which arrays begin at a cache line: vectors that lie across two lines take twice as long
IN_LINES = 1 << 10
LARGE = 1 << 17  # bytes of results that may lie in memory given as `out=`
SHARED = 1 << 19  # bytes from which writing memory is worth several threads
_LAZY = 1 << 28  # zeros from this size on are best left to the system, which gives them when they are touched
_empty, _zeros = np.empty, np.zeros
allocator: list[Callable[[Any, Any], Any]] = [_empty]
# Our function that gives memory, and what NumPy knows as the owner of that; None if there is none.
lines: list[Callable[[], tuple[int, Any] | None]] = [lambda: None]
in_lines: Any = None  # a function (array, its bytes[, zeros]) that makes an array like a fresh one at a cache line, where there is machine code
watcher: Any = None  # looks at one call of one thread, to see what it does with which memory
filler: list[Callable[[Any, Any], None]] = [np.ndarray.fill]


def fresh(shape: Any, dtype: Any) -> Any:
    """`np.empty` at a cache line where that matters, in memory of its own."""
    out = _empty(shape, dtype)
    size = out.nbytes
    return out if size < IN_LINES or in_lines is None else in_lines(out, size)


def empty(shape: Any, dtype: Any) -> Any:
    """`np.empty`, but a large result may come from the backend's allocator."""
    if watcher is not None and watcher.here():
        return watcher.empty(shape, dtype)
    out = _empty(shape, dtype)
    size = out.nbytes
    if size < LARGE:
        return out if size < IN_LINES or in_lines is None else in_lines(out, size)
    if local.destination is not None:
        array, free = local.destination
        if free and array.size == out.size and array.dtype == out.dtype:
            local.destination = None
            return array.reshape(out.shape)
    del out  # nobody has touched its pages
    return allocator[0](shape, dtype)


def not_planned() -> None:
    """Says that what runs must be run by Python each time: it warns, for instance."""
    if watcher is not None and watcher.here():
        watcher.refuse()


def empty_strided(shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]) -> Any:
    """Fresh memory with dense strides, which are counted in elements."""
    size = dtype.itemsize
    steps = tuple([s * size for s in strides])
    if watcher is not None and watcher.here():
        return watcher.empty_strided(shape, dtype, steps)
    count = math.prod(shape)
    if count * size < LARGE:  # NumPy forgets the strides of an array without elements if it makes the memory
        out = np.ndarray(shape, dtype, None if count else _empty(0, dtype), 0, steps)
        return out if count * size < IN_LINES or in_lines is None else in_lines(out, count * size)
    made = empty(shape, dtype)
    if made.strides == steps:  # memory of its own, which a leaf may keep as its gradient
        return made
    return np.ndarray(shape, dtype, made.reshape(-1), 0, steps)


def empty_like(x: Any, dtype: np.dtype[Any]) -> Any:
    """Fresh memory whose dimensions lie as those of `x`, which is on the CPU."""
    if in_rows(x):
        return empty(x.shape, dtype)
    return empty_strided(x.shape, dtype, like_strides(x.shape, x.strides, x.itemsize))


def offered(shape: tuple[int, ...], dtype: Any) -> Any:
    """The memory given as `out=`, of any strides, for a pointwise result of this shape and dtype; None if it does not fit."""
    if local.destination is None:
        return None
    array = local.destination[0]
    if array.shape != shape or array.dtype != dtype:
        return None
    local.destination = None
    return array


def zeros(shape: Any, dtype: Any) -> Any:
    """`np.zeros`, but large ones are filled by all cores, in memory that was used before if possible."""
    if watcher is not None and watcher.here():
        return watcher.zeros(shape, dtype)
    out = _empty(shape, dtype)  # nobody touches its pages
    size = out.nbytes
    if IN_LINES <= size < SHARED and in_lines is not None:
        return in_lines(out, size, 1)
    if not SHARED <= size < _LAZY:
        return _zeros(shape, dtype)
    out = allocator[0](shape, dtype)
    filler[0](out, 0)
    return out


def unchanging(array: Any) -> Any:
    """An array that nobody writes to: those who watch a call take it for a constant."""
    array.flags.writeable = False
    return array


def fill(array: Any, value: Any) -> None:
    """Sets all elements of an array on any device."""
    if array.__class__ is not np.ndarray:
        if (
            isinstance(value, float) and str(value) == "-0.0" and array.dtype.kind in "fV"
        ):  # CuPy clears memory, sign and all
            array, value = array.view(f"i{array.itemsize}"), -1 << (8 * array.itemsize - 1)
        array.fill(value)
    elif array.nbytes < SHARED:
        array.fill(value)
    else:
        filler[0](array, value)
