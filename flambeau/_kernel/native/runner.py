"""Runs a whole stretch of a program: native loops one after another, in one call without the interpreter's lock."""

from __future__ import annotations

import ctypes
import functools
import struct
from array import array as words_of
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..loops.dialect import compile_function, inline
from .arrays import new_array_of
from .direct import bound_function
from .entry import fill
from .interpreter import HEAD, KNOWN_NAMES
from .plan import run_loops
from .site import machine_code

OPERANDS = 32  # of a loop, at most
_COUNT, _TYPE = HEAD - 16, HEAD - 8  # how often somebody has an object, and its class
_WEAK = np.ndarray.__weakrefoffset__  # who has an array weakly
_BYTES = bytes.__basicsize__ - 1


def _run(m, place, loops, bases):
    return run_loops(m, place, loops, bases, m.space(OPERANDS), 0)


@functools.cache
def runner() -> Any:
    """The function (address of the words of loops, how many, address of the operands' addresses) that runs them all; it gives how many
    are left when a question is not answered as expected."""
    made = compile_function("run_program", _run, ["place", "loops", "bases"])
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(made)


# The words behind the first argument: as `runner` takes them; how many operands are tensors that are given, how many are to be made, where
# these are described, and the list of arrays that the last run made; then which operand each given tensor is.
_TABLE, _LOOPS, _BASES, _GIVEN, _NEW, _ABOUT, _LAST, _PLACES = range(0, 64, 8)
# Of an operand that is to be made: the class of its elements, rank, shape, strides, our dtype, bytes, which operand it is, whether its memory may be used again.
_ELEMENTS, _RANK, _SHAPE, _STRIDES, _DTYPE, _SIZE, _PLACE, _AGAIN, _NEXT = range(0, 72, 8)


@inline
def block(m, about, last, i, at):
    """An array for an operand, which may be that of the last run if nobody has it any more; 0 with an exception."""
    array = m.number(0)
    if m.word(about, _AGAIN) != 0:
        found = m.call("PyList_GetItem", last, i)
        if m.half(found, _COUNT) == 1:
            if m.word(found, _WEAK) == 0:
                array = found + 0
                m.run("Py_IncRef", array)
    if array == 0:
        shape, strides = m.word(about, _SHAPE), m.word(about, _STRIDES)
        array = new_array_of(
            m, m.word(about, _ELEMENTS), m.word(about, _RANK), shape, strides, m.word(about, _SIZE), at
        )
        if (array != 0) & (m.word(about, _AGAIN) != 0):
            m.run("Py_IncRef", array)
            m.short("PyList_SetItem", last, i, array)
    return array


def _run_on(m, self, args, given, place_of):
    at, gpu = m.fields(m.word(self, _BYTES), KNOWN_NAMES), self + _BYTES + 8
    words, tensors = m.word(args) + _BYTES, m.word(args, 8)
    bases, about, meta = m.word(words, _BASES), m.word(words, _ABOUT), at.none
    for i in range(m.word(words, _GIVEN)):
        array = m.word(m.call("PyList_GetItem", tensors, i), place_of.array)
        kind, address = m.word(array, _TYPE), m.word(array, HEAD)
        if kind == m.word(gpu):
            address = m.word(m.word(array, m.word(gpu, 8)), m.word(gpu, 16))
        elif kind != at.ndarray:
            return m.call("PyLong_FromLong", -1)
        m.put(bases, m.word(words, _PLACES + i * 8), address)
    if m.word(at.modes, place_of.inferring) != at.none:  # some thread is in inference mode: is it this one?
        meta = m.call("PyObject_Vectorcall", at.mark, args, 0, 0)
        m.run("Py_DecRef", meta)  # it has another owner
    for i in range(m.word(words, _NEW)):
        array = block(m, about, m.word(words, _LAST), i, at)
        if array == 0:
            return 0
        m.put(bases, m.word(about, _PLACE), m.word(array, HEAD))
        t = m.call("PyType_GenericAlloc", at.tensor, 0)
        if t == 0:
            m.run("Py_DecRef", array)
            return 0
        fill(m, t, array, m.word(about, _DTYPE), at.zero, meta, at, place_of)
        failed = m.short("PyList_Append", tensors, t)
        m.run("Py_DecRef", t)
        if failed != 0:
            return 0
        about += _NEXT
    thread = m.call("PyEval_SaveThread")
    left = run_loops(m, m.word(words, _TABLE), m.word(words, _LOOPS), bases, m.space(OPERANDS), 0)
    m.run("PyEval_RestoreThread", thread)
    return m.call("PyLong_FromLong", left)


@functools.cache
def runner_on(device: tuple[int, int, int] | None = None) -> Any:
    """The function (words, list of tensors) that finds the tensors' addresses, adds new tensors to the list and runs all loops: it gives
    how many are left, or -1 if it has done nothing, as where the interpreter is one that machine code does not know. `device` says how arrays on a GPU lie."""
    known = machine_code()
    if known is None:
        return lambda words, tensors: -1
    return bound_function(_run_on, struct.pack("4q", known[0], *device or (0, 0, 0)), place_of=known[1])


# An operand that is to be made: its number, shape, NumPy's dtype, strides, our dtype, bytes, and whether its memory may be used again.
New = tuple[int, Any, Any, Any, Any, int, bool]


def run_words(
    table: int, loops: int, bases: int, given: Sequence[int], new: Sequence[New] = ()
) -> tuple[bytes, list[Any]]:
    """The words for `runner_on`, and what they point to. `given` are the numbers of operands that tensors are."""
    last, sizes, about = [None] * len(new), words_of("q"), words_of("q")
    for _, shape, _, strides, *_ in new:
        sizes.extend((*shape, *strides))
    at = sizes.buffer_info()[0]
    for number, shape, elements, _, dtype, size, again in new:
        end = at + 8 * len(shape)
        about.extend((id(elements), len(shape), at, end, id(dtype), size, 8 * number, again))
        at = end + 8 * len(shape)
    words = [table, loops, bases, len(given), len(new), about.buffer_info()[0], id(last), *[8 * n for n in given]]
    return struct.pack(f"{len(words)}q", *words), [last, sizes, about, new]


def operands_in(words: bytes) -> list[int]:
    """The numbers of operands that given tensors are, in such words."""
    (count,) = struct.unpack_from("q", words, _GIVEN)
    return [place // 8 for place in struct.unpack_from(f"{count}q", words, _PLACES)]
