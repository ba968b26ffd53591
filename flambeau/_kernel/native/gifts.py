"""Gives leaves their first gradients, without the interpreter: a step of a program that a training step takes for every parameter."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any

from .direct import bound_function
from .interpreter import HEAD, KNOWN_NAMES, slot_offset
from .site import machine_code

_TYPE, _NDIM, _STRIDES = HEAD - 8, HEAD + 8, HEAD + 24
_BYTES = bytes.__basicsize__ - 1


class _Slots:
    """Where what belongs to a leaf has its gradient, and those who want to be told of it."""

    def __init__(self, meta: Any):
        self.grad, self.post_hooks = slot_offset(meta.grad), slot_offset(meta.post_hooks)


def _give(m, self, args, given, place_of, slots):
    at, kind = m.fields(m.word(self, _BYTES), KNOWN_NAMES), m.word(self, _BYTES + 8)
    words, tensors = m.word(args) + _BYTES, m.word(args, 8)
    count, wrong = m.word(words), m.number(0)
    for i in range(count):  # first all are looked at, as nothing may have changed if one of them is for Python
        t, leaf = m.call("PyList_GetItem", tensors, m.word(words, i * 16 + 8)), m.word(words, i * 16 + 16)
        meta, own, its = m.word(leaf, place_of.meta), m.word(t, place_of.array), m.word(leaf, place_of.array)
        if (m.word(meta, _TYPE) != kind) | (m.word(own, _TYPE) != at.ndarray) | (m.word(its, _TYPE) != at.ndarray):
            wrong = 1
            break
        if (m.word(meta, slots.grad) != at.none) | (m.word(meta, slots.post_hooks) != at.none):
            wrong = 1
            break
        rank = m.half(own, _NDIM)
        if (m.word(t, place_of.storage) != at.none) | (rank != m.half(its, _NDIM)):
            wrong = 1
            break
        for d in range(rank):
            if m.word(m.word(own, _STRIDES), d * 8) != m.word(m.word(its, _STRIDES), d * 8):
                wrong = 1
    if wrong != 0:
        count = m.number(0)
    for i in range(count):
        t, leaf = m.call("PyList_GetItem", tensors, m.word(words, i * 16 + 8)), m.word(words, i * 16 + 16)
        m.run("Py_IncRef", t)
        m.put(m.word(leaf, place_of.meta), slots.grad, t)
        m.run("Py_DecRef", at.none)
    return m.call("PyBool_FromLong", 1 - wrong)


@functools.cache
def giver(meta: type) -> Any:
    """The function (words, tensors) that makes some of the tensors, a list, gradients of leaves, as they are: if each leaf has none yet, nobody is
    to be told, and all gradients are new memory that lies as the leaf does. Otherwise it does nothing and gives False. `meta` is the class of what
    has a leaf's gradient."""
    known = machine_code()
    if known is None:
        return lambda words, tensors: False
    return bound_function(_give, struct.pack("2q", known[0], id(meta)), place_of=known[1], slots=_Slots(meta))


def gift_words(gifts: Sequence[tuple[int, Any]]) -> bytes:
    """The words for `giver`: which of the tensors each leaf is given. Leaves are all different, and somebody keeps them."""
    return struct.pack(f"{1 + 2 * len(gifts)}q", len(gifts), *[n for i, leaf in gifts for n in (i, id(leaf))])
