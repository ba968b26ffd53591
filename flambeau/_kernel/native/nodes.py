"""Nodes of the graph for the results of a planned call, made by machine code as a pattern describes them.

A pattern is what one call's nodes were like (`_ops/plans/patterns.py`): what they do, where their edges go, what they keep. The native
entry calls this for the results of the next one.
"""

from __future__ import annotations

from ..loops.dialect import compile_function, inline
from .entry import release
from .interpreter import KNOWN_NAMES, TYPE, Offsets

NODES = 16  # of a plan, at most


@inline
def is_tensor(m, v, at):
    return (m.word(v, TYPE) == at.tensor) | (m.word(v, TYPE) == at.parameter)


@inline
def look_through(m, nodes, about, values, at, place_of):
    """Whether nodes of a pattern would keep an inference tensor, and where their descriptions end."""
    refused, place = 0, about
    for _ in range(nodes):
        items, kept = place + 48 + m.word(place, 32) * 8, m.word(place, 40)
        for i in range(kept):
            if m.word(items, i * 16) == 1:
                v = m.word(values, m.word(items, i * 16 + 8) * 8 + 8)
                if is_tensor(m, v, at):
                    if m.word(m.word(v, place_of.meta), TYPE) == at.inference:
                        refused = 1
        place = items + kept * 16
    return refused, place


@inline
def version_of(m, v, at, place_of):
    """How often a value's memory has been written to, an object."""
    if is_tensor(m, v, at):
        owner = m.word(v, place_of.storage)
        if owner != at.none:
            return m.word(owner, place_of.version)
    return at.zero


@inline
def are_written(m, items, kept, values, at, place_of):
    """Whether the memory of an argument that a node keeps has been written to."""
    for i in range(kept):
        if m.word(items, i * 16) == 1:
            v = m.word(values, m.word(items, i * 16 + 8) * 8 + 8)
            if version_of(m, v, at, place_of) != at.zero:
                return 1
    return 0


@inline
def edge_to(m, target, number):
    """An edge to a result of a node, or to a leaf; 0 if there is no memory."""
    end = m.call("PyTuple_New", 2)
    if end != 0:
        m.run("Py_IncRef", target)
        m.call("PyTuple_SetItem", end, 0, target)
        m.call("PyTuple_SetItem", end, 1, m.call("PyLong_FromLong", number))
    return end


@inline
def edge_from(m, place, values, made, at, place_of):
    """The edge of a node that a pattern says begins at a place: an argument's, one to a node made before, or None; 0 if there is no memory."""
    end = at.none
    if place >= 0:
        v = m.word(values, place * 8 + 8)
        end = m.word(v, place_of.edge)
        if end == at.none:
            return edge_to(m, v, 0)
    else:
        if place < -1:  # a node before this one
            return edge_to(m, m.word(made, ((0 - 2 - place) >> 8) * 8), (0 - 2 - place) & 0xFF)
    m.run("Py_IncRef", end)
    return end


@inline
def keep_result(m, t, number, k, at, place_of):
    """What a node keeps of a tensor that is its own result, and what counts the writes to it from now on; 0 if there is no memory."""
    own = m.call("PyType_GenericAlloc", at.kept, 0)
    if own != 0:
        m.put(own, place_of.kept_number, m.call("PyLong_FromLong", number))
        m.put(own, place_of.kept_array, m.word(t, place_of.array))
        m.put(own, place_of.kept_dtype, m.word(t, place_of.dtype))
        m.put(own, place_of.version, at.zero)
        m.put(own, place_of.kept_k, k)
        m.put(own, place_of.kept_shared, at.none)
        m.put(own, place_of.kept_views, at.none)
        m.run("Py_IncRef", m.word(own, place_of.kept_array))
        m.run("Py_IncRef", m.word(own, place_of.kept_dtype))
        m.run("Py_IncRef", k)
        m.run("Py_IncRef", at.zero)
        m.run("Py_IncRef", at.none)  # two, less the one in the tensor
        m.put(t, place_of.storage, own)
    return own


@inline
def new_node(m, about, values, objects, made, numbered, plain, recorded, at, place_of):
    """A node as a pattern describes it; 0 if there is no memory."""
    ends, kept = m.word(about, 32), m.word(about, 40)
    items = about + 48 + ends * 8
    written = are_written(m, items, kept, values, at, place_of)
    node, edges = m.call("PyType_GenericAlloc", at.node, 0), m.call("PyTuple_New", ends)
    saved, versions = m.call("PyList_New", kept), at.none
    if written != 0:
        versions = m.call("PyList_New", kept)
    else:
        m.run("Py_IncRef", versions)
    if (node == 0) | (edges == 0) | (saved == 0) | (versions == 0):
        return 0
    for i in range(ends):
        end = edge_from(m, m.word(about, 48 + i * 8), values, made, at, place_of)
        if end == 0:
            return 0
        m.call("PyTuple_SetItem", edges, i, end)
    for i in range(kept):
        how, item, version = m.word(items, i * 16), m.word(items, i * 16 + 8), at.zero
        if how == 2:
            k = plain
            if m.word(numbered, (item & 0xFF) * 8) >= 0:
                k = recorded
            item = keep_result(m, m.word(objects, (item & 0xFF) * 8), item >> 8, k, at, place_of)
            if item == 0:
                return 0
        if how == 3:
            item = m.word(objects, item * 8)
        if how == 1:
            item = m.word(values, item * 8 + 8)
            version = version_of(m, item, at, place_of)
        m.run("Py_IncRef", item)
        m.call("PyList_SetItem", saved, i, item)
        if written != 0:
            m.run("Py_IncRef", version)
            m.call("PyList_SetItem", versions, i, version)
    m.put(node, place_of.node_op, m.word(about, 0))
    m.put(node, place_of.node_info, m.word(about, 8))
    m.put(node, place_of.node_outputs, m.word(about, 16))
    for i in range(3):
        m.run("Py_IncRef", m.word(about, i * 8))
    if m.word(about, 24) != 0:
        m.put(node, place_of.node_label, m.word(about, 24))
        m.run("Py_IncRef", m.word(about, 24))
    m.put(node, place_of.node_edges, edges)
    m.put(node, place_of.node_saved, saved)
    m.put(node, place_of.node_versions, versions)
    m.put(node, place_of.node_hooks, at.none)
    m.put(node, place_of.node_pre_hooks, at.none)
    m.run("Py_IncRef", at.none)
    m.run("Py_IncRef", at.none)
    m.put(node, place_of.node_seq, m.call("PyObject_Vectorcall", at.sequence, values, 0, 0))
    return node


def _attach(m, pattern, values, objects, count, known, plain, recorded, place_of):
    """Gives tensors nodes like the pattern's; 1, or 0 if Python must, or -1 with an exception.

    Properties of tensors without history are `plain`, of those with one `recorded`."""
    at, nodes, about, made = m.fields(known, KNOWN_NAMES), m.word(pattern, 0), pattern + 8, m.space(NODES)
    refused, numbered = look_through(m, nodes, about, values, at, place_of)
    if refused != 0:  # nobody counts the writes to it: Python says so
        return 0
    for j in range(nodes):
        node = new_node(m, about, values, objects, made, numbered, plain, recorded, at, place_of)
        if node == 0:
            return -1
        m.put(made, j * 8, node)
        about = about + 48 + m.word(about, 32) * 8 + m.word(about, 40) * 16
    for i in range(count):
        whose = m.word(numbered, i * 8)
        if whose >= 0:
            t, end = m.word(objects, i * 8), edge_to(m, m.word(made, (whose >> 8) * 8), whose & 0xFF)
            if end == 0:
                return -1
            m.put(t, place_of.edge, end)
            m.put(t, place_of.k, recorded)
            m.run("Py_DecRef", at.none)
            m.run("Py_DecRef", plain)
            m.run("Py_IncRef", recorded)
    release(m, made, nodes)
    return 1


def compile_attach(offsets: Offsets) -> int:
    """The address of what gives tensors their nodes."""
    given = ["pattern", "values", "objects", "count", "known", "plain", "recorded"]
    return compile_function("attach", _attach, given, place_of=offsets)
