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
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core.c_interface import c_function
from ..building import jit
from ..loops.dialect import compile_function
from ..loops.ufunc import addresses

_MOST_OPERANDS, _MOST_DIMS = 8, 3  # core dimensions of one operand; a kernel has at most 8 in all
_ALIGNED, _WRITABLE = 0x0100, 0x0400  # flags of arrays
_FASTCALL, _ONE_ARGUMENT = 0x0080, 0x0008

_HEAD = object.__basicsize__  # where an array's own fields begin
_TYPE = _HEAD - 8
_BYTES = bytes.__basicsize__ - 1  # where the contents of bytes begin


# The table behind `self`, words of 8 bytes: ufunc, loop, operands, core dimensions, ndarray, the loop's data; then of
# each operand: dtype, bytes of an element, flags, whether it is a result, core dimensions, their three numbers.
def _direct(m, self, args, given):
    table = self + _BYTES
    ufunc, operands = m.word(table), m.word(table, 16)
    pointers, dims, steps = m.space(_MOST_OPERANDS), m.space(9), m.space(_MOST_OPERANDS * (1 + _MOST_DIMS))
    if given != operands:
        return m.call("PyObject_VectorcallDict", ufunc, args, given, 0)
    for c in range(m.word(table, 24) + 1):
        m.put(dims, c * 8, -1)
    place, rank, outer, a = operands, 0, 0, 0
    for i in range(operands):
        a = m.word(args, i * 8)
        about = table + 48 + i * 64
        if m.word(a, _TYPE) != m.word(table, 32):
            return m.call("PyObject_VectorcallDict", ufunc, args, given, 0)
        wanted, core, result = m.word(about, 16), m.word(about, 32), m.word(about, 24)
        lead = m.half(a, _HEAD + 8) - core
        flags = m.half(a, _HEAD + 48)
        if (m.word(a, _HEAD + 40) != m.word(about)) | ((flags & wanted) != wanted) | (lead < 0):
            return m.call("PyObject_VectorcallDict", ufunc, args, given, 0)
        m.put(pointers, i * 8, m.word(a, _HEAD))
        shape, strides, row = m.word(a, _HEAD + 16), m.word(a, _HEAD + 24), m.word(about, 8)
        for j in range(core):
            n, number = m.word(shape, (lead + j) * 8), m.word(about, 40 + j * 8)
            have = m.word(dims, 8 + number * 8)
            if (n <= 0) | ((have != -1) & (have != n)):
                return m.call("PyObject_VectorcallDict", ufunc, args, given, 0)
            m.put(dims, 8 + number * 8, n)
            m.put(steps, place * 8, m.word(strides, (lead + j) * 8))
            row = row * n
            place += 1
        step = 0
        if (lead != 0) | (result != 0):
            if (rank == 0) & (result == 0):
                rank, outer = lead, shape
            if (rank != lead) | (((flags & 1) == 0) & (lead > 1)):
                return m.call("PyObject_VectorcallDict", ufunc, args, given, 0)
            step = row
            if lead == 1:
                step = m.word(strides)
            for q in range(lead):
                if (m.word(shape, q * 8) != m.word(outer, q * 8)) | (m.word(shape, q * 8) <= 0):
                    return m.call("PyObject_VectorcallDict", ufunc, args, given, 0)
        m.put(steps, i * 8, step)
    length = 1
    for q in range(rank):
        length = length * m.word(outer, q * 8)
    m.put(dims, 0, length)
    m.run(m.word(table, 8), pointers, dims, steps, m.word(table, 40))
    m.run("Py_IncRef", a)
    return a


def _address(m, self, a):
    if m.word(a, _TYPE) == m.word(self, _BYTES):
        return m.call("PyLong_FromUnsignedLongLong", m.word(a, _HEAD))
    one = m.space(1)
    m.put(one, 0, a)
    return m.call("PyObject_VectorcallDict", m.word(self, _BYTES + 8), one, 1, 0)


class Method(ctypes.Structure):
    """What Python knows of a function in C."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def new_function(method: Method, own: Any, home: Any) -> Any:
    """A function of Python's with its `self`, of a module (or what has its name)."""
    make = c_function("PyCFunction_NewEx", ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    return make(ctypes.addressof(method), own, home)


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


def _function(body: Any, parameters: Sequence[str], flags: int, **options: Any) -> Any:
    """A function of words as Python knows functions; its `self` are bytes."""
    name = body.__name__.strip("_")
    return Method(name.encode(), compile_function(name, body, parameters, **options), flags, None)


@functools.cache
def _method() -> Any:
    return _function(_direct, ["self", "args", "given"], _FASTCALL) if known_layout() else None


def _bound(method: Any, value: Any) -> Any:
    """A function of Python's with its `self`."""
    _kept.append(method)
    return new_function(method, value, None)


def bound_text(name: str, text: str, words: bytes) -> Any:
    """Assembly (self, arguments, their number) as Python knows functions; `words` are what its `self` holds."""
    return bound_address(name, jit.compile(name, text.replace("BYTES", str(_BYTES))), words)


def bound_address(name: str, address: int, words: bytes) -> Any:
    """The same for machine code at an address."""
    return _bound(Method(name.encode(), address, _FASTCALL, None), words)


@functools.cache
def _compiled(body: Any, **options: Any) -> Any:
    return _function(body, ["self", "args", "given"], _FASTCALL, **options)


def bound_function(body: Any, words: bytes, **options: Any) -> Any:
    """The same for a function of words; `options` are constants known to it."""
    return _bound(_compiled(body, **options), words)


def _slow_address(array: Any) -> int:
    return array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr  # on a GPU


@functools.cache
def address_function() -> Any:
    """A quick function that gives the address of an array's first element."""
    if not known_layout():
        return _slow_address
    method = _function(_address, ["self", "a"], _ONE_ARGUMENT)
    return _bound(method, struct.pack("2q", id(np.ndarray), id(_slow_address)))


def start_of(array: Any) -> int:
    """The address of an array's first element."""
    return address_function()(array)


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
