"""Runs a whole stretch of a program: native loops one after another, in one call without the interpreter's lock."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from .dialect import compile_function, run_loops
from .direct import bound_function, known_layout
from .entry import slot_offset
from .site import usable

OPERANDS = 32  # of a loop, at most
_HEAD = object.__basicsize__  # where an array's own fields begin
_TYPE, _BYTES = _HEAD - 8, bytes.__basicsize__ - 1


def _run(m, place, loops, bases):
    return run_loops(m, place, loops, bases, m.space(OPERANDS), 0)


@functools.cache
def runner() -> Any:
    """The function (address of the words of loops, how many, address of the operands' addresses) that runs them all; it gives how many
    are left when a question is not answered as expected."""
    made = compile_function("run_program", _run, ["place", "loops", "bases"])
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(made)


# The words behind the first argument: as `runner` takes them, how many tensors there are, and which operand each one is.
def _run_on(m, self, args, given):
    words, tensors = m.word(args) + _BYTES, m.word(args, 8)
    bases = m.word(words, 16)
    for i in range(m.word(words, 24)):
        array = m.word(m.call("PyList_GetItem", tensors, i), m.word(self, _BYTES))
        kind, address = m.word(array, _TYPE), m.word(array, _HEAD)
        if kind == m.word(self, _BYTES + 16):  # on a GPU
            address = m.word(m.word(array, m.word(self, _BYTES + 24)), m.word(self, _BYTES + 32))
        elif kind != m.word(self, _BYTES + 8):
            return m.call("PyLong_FromLong", -1)
        m.put(bases, m.word(words, 32 + i * 8), address)
    thread = m.call("PyEval_SaveThread")
    left = run_loops(m, m.word(words), m.word(words, 8), bases, m.space(OPERANDS), 0)
    m.run("PyEval_RestoreThread", thread)
    return m.call("PyLong_FromLong", left)


@functools.cache
def runner_on(tensor: type, device: tuple[int, int, int] | None = None) -> Any:
    """The function (words, list of tensors) that finds the tensors' addresses, and runs all loops: it gives how many are left, or -1 if it
    cannot, as where the interpreter is one that machine code does not know. `device` says how arrays on a GPU lie."""
    if not usable() or not known_layout():
        return lambda words, tensors: -1
    return bound_function(_run_on, struct.pack("5q", slot_offset(tensor._array), id(np.ndarray), *device or (0, 0, 0)))  # type: ignore[attr-defined]


def run_words(table: int, loops: int, bases: int, operands: Sequence[int]) -> bytes:
    """The words for `runner_on`; `operands` are the numbers of those that tensors are."""
    return struct.pack(f"{4 + len(operands)}q", table, loops, bases, len(operands), *[8 * n for n in operands])


def operands_in(words: bytes) -> list[int]:
    """The numbers of operands that tensors are, in such words."""
    (count,) = struct.unpack_from("q", words, 24)
    return [place // 8 for place in struct.unpack_from(f"{count}q", words, 32)]
