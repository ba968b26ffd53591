"""Guards of tensors among the arguments of a call: all of them are looked at by one native call, without the interpreter."""

from __future__ import annotations

import struct
from array import array as words_of
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from .._kernel.native.direct import bound_function
from .._kernel.native.interpreter import HEAD, KNOWN_NAMES
from .._kernel.native.site import machine_code
from .._tensor import Tensor

MOST = 64  # tensors of a call
_TYPE, _RANK, _SHAPE, _STRIDES, _BASE = HEAD - 8, HEAD + 8, HEAD + 16, HEAD + 24, HEAD + 32
_BYTES = bytes.__basicsize__ - 1
_SMALL = 256  # numbers up to here are each one object, which is what machine code compares


# Words behind `self`: the objects that machine code knows, how many tensors, where they are described, and the owners of memory
# that is not to be theirs: how many, and their addresses in order. A description: class, properties, dtype, rank, extents and strides.
def _fits(m, self, args, given, place_of):  # type: ignore[no-untyped-def]
    at, about, owners = m.fields(m.word(self, _BYTES), KNOWN_NAMES), m.word(self, _BYTES + 16), m.space(MOST)
    fits, others = m.number(1), m.word(self, _BYTES + 32)
    for i in range(m.word(self, _BYTES + 8)):
        t = m.call("PyTuple_GetItem", m.word(args), i)
        fits = 0
        if m.word(t, _TYPE) != m.word(about):
            break
        array = m.word(t, place_of.array)
        if array == 0:
            break
        if (m.word(t, place_of.k) != m.word(about, 8)) | (m.word(t, place_of.dtype) != m.word(about, 16)):
            break
        if m.word(array, _TYPE) != at.ndarray:
            break
        rank, shape, strides = m.half(array, _RANK), m.word(array, _SHAPE), m.word(array, _STRIDES)
        if rank != m.word(about, 24):
            break
        fits = 1
        for d in range(rank):
            if (m.word(shape, d * 8) != m.word(about, 32 + d * 16)) | (
                m.word(strides, d * 8) != m.word(about, 40 + d * 16)
            ):
                fits = 0
        about += 32 + rank * 16
        own = m.call("PyObject_GenericGetDict", t, 0)
        if own == 0:
            return 0
        if m.call("PyDict_Size", own) != 0:
            fits = 0
        m.run("Py_DecRef", own)
        owner = m.word(array, _BASE)
        if owner == 0:
            owner = array + 0
        for j in range(i):
            if m.word(owners, j * 8) == owner:
                fits = 0
        m.put(owners, i * 8, owner)
        low, high = m.number(0), m.word(self, _BYTES + 24)
        while low < high:
            middle = (low + high) >> 1
            if m.word(others, middle * 8) < owner:
                low = middle + 1
            else:
                high = middle + 0
        if low < m.word(self, _BYTES + 24):
            if m.word(others, low * 8) == owner:
                fits = 0
        if fits == 0:
            break
    return m.call("PyBool_FromLong", fits)


def is_plain(t: Tensor) -> bool:
    """Whether machine code can tell if another tensor looks like this one."""
    return type(t._array) is np.ndarray and t._k <= _SMALL and not t.__dict__


def fitting(tensors: Sequence[Tensor], others: Collection[int]) -> tuple[Any, Any] | None:
    """A function of a tuple of tensors: whether they look as these do, and lie in memory of their own, each in another and
    none in that of the arrays whose ids are in `others`; and what it needs. None where it cannot be."""
    known = machine_code()
    if known is None or not 0 < len(tensors) <= MOST or not all(map(is_plain, tensors)):
        return None
    about, apart = words_of("q"), words_of("q", sorted(others))
    for t in tensors:
        a = t._array
        about.extend((id(type(t)), id(t._k), id(t.dtype), a.ndim))
        for pair in zip(a.shape, a.strides):
            about.extend(pair)
    words = known[0], len(tensors), about.buffer_info()[0], len(apart), apart.buffer_info()[0]
    return bound_function(_fits, struct.pack("5q", *words), place_of=known[1]), (about, apart)
