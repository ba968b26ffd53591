"""Arrays that machine code makes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ..._core.allocation import IN_LINES
from ..loops.dialect import inline, is_kept
from .direct import bound_function, known_layout
from .interpreter import HEAD, new_array

_BYTES = bytes.__basicsize__ - 1  # where the contents of bytes begin
_FLAGS, _OWNS = 0x501, 0x4  # of an array: dense by rows, aligned, writable; that it gives its memory back
_TRACED = 389047  # NumPy's memory, for those who trace it


@inline
def new_array_of(m, elements, rank, shape, strides, bytes, at):
    """A fresh array of so many bytes; 0 with an exception."""
    data, flags = m.number(0), m.number(0)
    if (bytes >= IN_LINES) & (at.allocate != 0):
        data = m.call(at.allocate, 0, bytes)
        flags = m.number(_FLAGS)
    m.run("Py_IncRef", elements)
    made = m.call(at.new, at.ndarray, elements, rank, shape, strides, data, flags, 0)
    if data != 0:
        if made == 0:
            m.run(m.call(at.allocate, 1, 0), 0, data, bytes)
        else:
            m.run("PyTraceMalloc_Track", _TRACED, data, bytes)
            m.put(made, HEAD + 48, m.word(made, HEAD + 48) | _OWNS)
            m.run("Py_IncRef", at.handler)
            m.put(made, HEAD + 72, at.handler)
    return made


_FRESH_NAMES = ("ndarray", "new", "allocate", "handler")


def _fresh(m, self, args, given):
    at, own, bytes = m.fields(self + _BYTES, _FRESH_NAMES), m.word(args), m.call("PyLong_AsLong", m.word(args, 8))
    rank, shape, strides = m.half(own, HEAD + 8), m.word(own, HEAD + 16), m.word(own, HEAD + 24)
    made = new_array_of(m, m.word(own, HEAD + 40), rank, shape, strides, bytes, at)
    if (given == 3) & (made != 0):
        m.run("memset", m.word(made, HEAD), 0, bytes)
    return made


def fresh_is_kept() -> bool:
    """Whether the function below need not be compiled."""
    return is_kept("fresh", _fresh)


def fresh(allocate: int, handler: Any) -> Any:
    """A function (an array that owns its memory, how many bytes these are[, any]) that makes one like it, whose memory comes from `allocate`
    and is the `handler`'s, with zeros if there is a third argument; None where arrays are laid out in another way."""
    new = new_array() if known_layout() else None
    if new is None:
        return None
    made = bound_function(_fresh, struct.pack("4q", id(np.ndarray), new, allocate, id(handler)))
    probe = made(np.empty((3, 5, IN_LINES)), 15 * IN_LINES * 8)
    fits = probe.shape == (3, 5, IN_LINES) and probe.flags.owndata and probe.flags.carray and not probe.ctypes.data % 64
    return made if fits and np._core.multiarray.get_handler_name(probe) == "flambeau_aligned" else None  # type: ignore[attr-defined]
