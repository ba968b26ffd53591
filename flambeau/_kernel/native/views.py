"""Views that were planned before: arrays over an argument's memory, tensors around them, and their nodes."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

from ..loops.dialect import compile_function, inline
from .entry import in_tuple
from .interpreter import HEAD, KNOWN_NAMES, TYPE, Offsets
from .nodes import edge_to
from .plan import VIEWS

_KEPT = 0x500  # flags of an array that its views have: aligned, writable
MOST = 128  # views of one call
# Words of such a plan, in bytes; then of each view rank, shape, strides (of one on a GPU: what makes its array, 0, its strides), bytes from
# the argument's beginning, what the operation was given besides, and what its node keeps, knows of the argument and of its results.
COUNT, OP, TOGETHER, SHARED, DEEPEST, FIRST = range(8, 56, 8)
_EACH = 64


class ViewPlan:
    """What `_views` makes of the first argument by an operation. Views come alone, or `together` in a class of tuples; these may have one
    node, which they `share`."""

    def __init__(self, op: Any, together: Any, shared: bool, deepest: int):
        self.keep: list[Any] = [op, together]
        self.fixed = [id(op), 0 if together is None else id(together), shared, deepest]
        self.views: list[int] = []
        self.numbers: dict[
            tuple[int, ...], array.array[int]
        ] = {}  # shapes and strides, most often the same for all views

    def view(self, shape: Sequence[int], strides: Sequence[int], offset: int, *about: Any) -> None:
        self.keep += about
        self.views += [len(shape), self._address(shape), self._address(strides), offset, *map(id, about)]

    def _address(self, numbers: Sequence[int]) -> int:
        """Where these numbers stay."""
        kept = self.numbers.setdefault(tuple(numbers), array.array("q", numbers))
        return kept.buffer_info()[0]

    def device_view(self, make: Any, strides: Sequence[int], offset: int, *about: Any) -> None:
        """One on a GPU, whose array `make` makes of a place in memory and strides."""
        self.keep += [make, strides, *about]
        self.views += [id(make), 0, id(strides), offset, *map(id, about)]

    def words(self) -> array.array[int]:
        return array.array("q", [VIEWS, len(self.views) * 8 // _EACH, *self.fixed, *self.views])


@inline
def storage_of(m, t, at, place_of):
    """What counts writes into a tensor's memory, made if nobody has asked for it yet; 0 if that cannot be."""
    owner, given = m.word(t, place_of.storage), m.space(1)
    if owner == at.none:
        m.put(given, 0, m.word(t, place_of.array))
        owner = m.call("PyObject_Vectorcall", at.storage, given, 1, 0)
        if owner == 0:
            m.run("PyErr_Clear")
        else:
            m.put(t, place_of.storage, owner)
            m.run("Py_DecRef", at.none)
    return owner


@inline
def new_node(m, plan, about, x, at, place_of):
    """The node of a view, 0 if there is no memory."""
    node, edges, end = (m.call("PyType_GenericAlloc", at.node, 0), m.call("PyTuple_New", 1), m.word(x, place_of.edge))
    if (node == 0) | (edges == 0):
        node = 0
    else:
        if end == at.none:
            end = edge_to(m, x, 0)
        else:
            m.run("Py_IncRef", end)
        m.call("PyTuple_SetItem", edges, 0, end)
        m.put(node, place_of.node_edges, edges)
        m.put(node, place_of.node_op, m.word(plan, OP))
        m.put(node, place_of.node_saved, m.word(about, 40))
        m.put(node, place_of.node_info, m.word(about, 48))
        m.put(node, place_of.node_outputs, m.word(about, 56))
        m.run("Py_IncRef", m.word(plan, OP))
        for i in range(3):
            m.run("Py_IncRef", m.word(about, 40 + i * 8))
            m.run("Py_IncRef", at.none)
        m.put(node, place_of.node_versions, at.none)
        m.put(node, place_of.node_hooks, at.none)
        m.put(node, place_of.node_pre_hooks, at.none)
        m.put(node, place_of.node_seq, m.call("PyObject_Vectorcall", at.sequence, m.space(1), 0, 0))
    return node


@inline
def array_view(m, own, about, at, lies):
    """The array of a view; 0 if there is no memory."""
    base, descr = m.word(own, HEAD + 32), m.word(own, HEAD + 40)
    if base == 0:
        base = own
    if m.word(base, TYPE) != at.ndarray:  # memory that is not an array's
        base = own
    m.run("Py_IncRef", descr)
    start, flags = m.word(own, HEAD) + m.word(about, 24), m.half(own, HEAD + 48) & _KEPT
    there = m.call(at.new, at.ndarray, descr, m.word(about, 0), m.word(about, 8), m.word(about, 16), start, flags, 0)
    if there != 0:
        m.put(there, HEAD + 32, base)
        m.run("Py_IncRef", base)
    return there


@inline
def device_array_view(m, own, about, at, lies):
    """The same on a GPU."""
    given, there = m.space(2), m.number(0)
    offset = m.call("PyLong_FromLong", m.word(about, 24))
    if offset != 0:
        place = m.call("PyNumber_Add", m.word(own, lies.data), offset)
        m.run("Py_DecRef", offset)
        if place != 0:
            m.put(given, 0, place)
            m.put(given, 8, m.word(about, 16))
            there = m.call("PyObject_Vectorcall", m.word(about, 0), given, 2, 0)
            m.run("Py_DecRef", place)
    return there


def _views(m, plan, x, known, plain, recorded, place_of, new_view, lies):
    """The views of x; 0 if Python must make them. Properties of tensors without history are `plain`, of those with one `recorded`."""
    at = m.fields(known, KNOWN_NAMES)
    if m.word(at.modes, place_of.inferring) != at.none:
        return 0
    meta, pair = m.word(x, place_of.meta), m.space(2)
    if meta != at.none:
        shared = m.call("PyObject_GetAttr", meta, at.inherited)
        m.run("Py_DecRef", shared)  # it has another owner
        if shared != at.none:
            return 0
    recording = m.call("PyObject_GetAttr", at.local, at.grad)
    m.run("Py_DecRef", recording)
    own, above, together = m.word(x, place_of.array), m.word(x, place_of.view), m.word(plan, TOGETHER)
    owner, depth, made, version = storage_of(m, x, at, place_of), 0, at.zero, at.zero
    if above != at.none:
        depth = m.call("PyLong_AsLong", m.call("PyTuple_GetItem", above, 4)) + 1
        made = m.call("PyTuple_GetItem", above, 5)
        if made != at.zero:
            version = m.call("PyTuple_GetItem", above, 6)
        if depth > m.word(plan, DEEPEST):
            return 0
    if owner == 0:
        return 0
    shared = m.word(plan, SHARED)
    if shared != 0:
        made, version = at.three, at.zero
    node, k, history, end = 0, m.word(x, place_of.k), 0, at.none
    if recording != at.true:
        made, version = at.one, m.word(owner, place_of.version)
        if k == recorded:
            end = at.nowhere
    elif k == recorded:
        history = 1
    if (history != 0) & (shared != 0):
        node = new_node(m, plan, plan + FIRST, x, at, place_of)
        if node == 0:
            m.run("PyErr_Clear")
            return 0
    objects, dtype = m.space(MOST), m.word(x, place_of.dtype)
    for i in range(m.word(plan, COUNT)):
        about = plan + FIRST + i * _EACH
        there = new_view(m, own, about, at, lies)
        t, link = m.call("PyType_GenericAlloc", at.tensor, 0), m.call("PyTuple_New", 7)
        if (history != 0) & (shared == 0):
            node = new_node(m, plan, about, x, at, place_of)
        if (there == 0) | (t == 0) | (link == 0) | ((history != 0) & (node == 0)):
            m.run("PyErr_Clear")  # Python says what the matter is
            return 0
        m.put(t, place_of.array, there)
        m.put(t, place_of.dtype, dtype)
        m.put(t, place_of.k, k)
        m.put(t, place_of.meta, at.none)
        m.put(t, place_of.storage, owner)
        m.put(t, place_of.view, link)
        m.run("Py_IncRef", dtype)
        m.run("Py_IncRef", k)
        m.run("Py_IncRef", at.none)
        m.run("Py_IncRef", owner)
        number = at.none
        if shared != 0:
            number = m.call("PyLong_FromLong", i)
        else:
            m.run("Py_IncRef", at.none)
        if node != 0:
            end = m.call("PyTuple_New", 2)
            m.call("PyTuple_SetItem", end, 0, node)
            if shared != 0:
                m.run("Py_IncRef", node)
                m.call("PyTuple_SetItem", end, 1, m.call("PyLong_FromLong", i))
            else:
                m.run("Py_IncRef", at.zero)
                m.call("PyTuple_SetItem", end, 1, at.zero)
        else:
            m.run("Py_IncRef", end)
        m.put(t, place_of.edge, end)
        m.run("Py_IncRef", x)
        m.run("Py_IncRef", m.word(plan, OP))
        m.run("Py_IncRef", m.word(about, 32))
        m.run("Py_IncRef", made)
        m.run("Py_IncRef", version)
        m.call("PyTuple_SetItem", link, 0, x)
        m.call("PyTuple_SetItem", link, 1, m.word(plan, OP))
        m.call("PyTuple_SetItem", link, 2, m.word(about, 32))
        m.call("PyTuple_SetItem", link, 3, number)
        m.call("PyTuple_SetItem", link, 4, m.call("PyLong_FromLong", depth))
        m.call("PyTuple_SetItem", link, 5, made)
        m.call("PyTuple_SetItem", link, 6, version)
        if recording == at.true:
            known_views, full = m.word(owner, place_of.kept_views), m.number(1)
            if known_views != at.none:
                if (m.call("PyList_Size", known_views) & 63) != 63:
                    full = 0
            if full != 0:
                m.put(pair, 0, owner)
                m.put(pair, 8, t)
                m.run("Py_DecRef", m.call("PyObject_Vectorcall", at.add_view, pair, 2, 0))
            else:
                weak = m.call("PyWeakref_NewRef", t, 0)
                m.call("PyList_Append", known_views, weak)
                m.run("Py_DecRef", weak)
        m.put(objects, i * 8, t)
    if (node != 0) & (shared != 0):
        m.run("Py_DecRef", node)
    if together != 0:
        return in_tuple(m, objects, m.word(plan, COUNT), together, at)
    return m.word(objects, 0)


_GIVEN = ["plan", "x", "known", "plain", "recorded"]


def compile_views(offsets: Offsets) -> int:
    """The address of the function."""
    return compile_function("views", _views, _GIVEN, place_of=offsets, new_view=array_view, lies=None)


def compile_device_views(offsets: Offsets, lies: Any) -> int:
    """The same for tensors on a GPU, whose arrays have their parts at known places."""
    return compile_function("device_views", _views, _GIVEN, place_of=offsets, new_view=device_array_view, lies=lies)
