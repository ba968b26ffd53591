"""The native entry: a call that was planned before, from Python's arguments to the result, without an interpreter.

It describes its arguments in words (dtypes, shapes and strides of tensors, numbers), looks the description up in its site's
table, and carries out the plan that it finds: makes arrays for the results, runs native loops over addresses, wraps tensors around
the arrays, gives them a node. Whatever is unusual (a mode, a property in `_k`, a subclass, a description without a plan) goes to
the site's Python function, which does the same without any of this. Nothing here decides what an operation computes.
"""

from __future__ import annotations

import array
import ctypes
from typing import Any

import numpy as np

from ..._core.allocation import LARGE
from ..._core.c_interface import c_function, capsule_pointer
from ..._core.state import modes
from ..loops.dialect import compile_function, inline, is_kept
from .plan import (  # fmt: skip
    ABSENT,
    ALIKE,
    CASTING,
    FLOAT,
    INT,
    KEPT,
    LONG,
    LOOPS,
    MIX,
    PATTERN,
    PLAN,
    RECORD,
    RESULT,
    RETURNED,
    SEVERAL,
    TOGETHER,
    VIEWS,
    WRITTEN,
    run_loops,
)

_HEAD = object.__basicsize__  # where an array's own fields begin
_TYPE = _HEAD - 8
_NEW_FROM_DESCR = 94  # the place of PyArray_NewFromDescr in NumPy's table of functions
_WORDS = 128  # of a description, at most
_RANK, PARTS, _OPERANDS = 8, 32, 48  # at most
ARGUMENTS, RESULTS, NODES = 12, 24, 16  # of a plan, at most
MARK = 1 << 16  # smaller than any address
_MOST = 1 << 14  # elements of a result that are made without giving other threads of the interpreter a chance
# Objects and functions that the machine code must know, by their addresses in this process.
KNOWN_NAMES = (
    "tensor", "parameter", "ndarray", "new", "attach", "zero", "one", "none", "true", "false", "float", "int", "tuple", "list", "size",
    "str", "dtype", "new_tuple", "modes", "local", "grad", "mark", "node", "kept", "sequence", "inference", "seen", "two", "three",
    "device", "gpu", "destination", "settings", "exchange", "aligned", "views", "storage", "add_view", "inherited",
    "autocast", "casting", "out", "device_views",
)  # fmt: skip
SEEN, WAYS = 1 << 10, 4  # sets of descriptions that came without a plan, of all sites, and how many are in each
# Words of a site, in bytes.
SLOW, MISSED, TABLE, RUNTIME, BY_ELEMENT, KNOWN, COUNT, POSITIONAL, NAMES = range(0, 72, 8)


@inline
def plan_of(m, site, key, n):
    """The plan that a site keeps under a description of n words, or 0; and a number made of the description."""
    h = 0
    for i in range(n):
        h = (h ^ m.word(key, i * 8)) * MIX
        h = h ^ (h >> 29)
    plans = m.word(site, TABLE)
    mask = m.word(plans, 0)
    slot, plan, searching = h & mask, 0, 1
    while searching != 0:
        kept = m.word(plans, 8 + slot * 24)
        if kept == 0:
            searching = 0
        else:
            if m.word(plans, 16 + slot * 24) == h:
                if m.word(kept, 0) == n:
                    plan = m.word(plans, 24 + slot * 24)
                    for i in range(n):
                        if m.word(kept, 8 + i * 8) != m.word(key, i * 8):
                            plan = 0
                            break
                    if plan != 0:
                        searching = 0
            slot = (slot + 1) & mask
    return plan, h


@inline
def without_plan(m, site, h, at):
    """The function to call if there is no plan: nothing is planned that comes only once, and the more plans a table has, the oftener
    a call must have come. Making a plan takes the time of ten calls without one; where shapes change all the time, it would not return."""
    mark = (h ^ site) * MIX & -64  # sites that call each other with the same arguments have marks of their own
    own, function = at.seen + (mark >> 40 & (SEEN - 1)) * (8 * WAYS), m.word(site, MISSED)
    times, moved = 0, mark + 0
    for i in range(
        WAYS
    ):  # calls that take turns in one set must not make each other forgotten: the latest is first, the oldest falls out
        kept = m.word(own, i * 8)
        m.put(own, i * 8, moved)
        moved, sighted = kept + 0, kept ^ mark
        if (sighted >= 0) & (sighted <= 63):
            times = sighted + 0
            break
    if times <= m.word(m.word(site, TABLE), 0) >> 5:
        m.put(own, 0, mark | (times + 1))
        function = m.word(site, SLOW)
    return function


@inline
def fill(m, t, array, dtype, k, meta, at, place_of):
    """Sets the fields of a new tensor around an array."""
    m.put(t, place_of.array, array)
    m.put(t, place_of.dtype, dtype)
    m.put(t, place_of.k, k)
    for _ in range(3):
        m.run("Py_IncRef", at.none)
    m.run("Py_IncRef", meta)
    m.run("Py_IncRef", k)
    m.run("Py_IncRef", dtype)
    m.put(t, place_of.edge, at.none)
    m.put(t, place_of.meta, meta)
    m.put(t, place_of.storage, at.none)
    m.put(t, place_of.view, at.none)


@inline
def may_write(m, t, bases, spans, inputs, by_element, size, at, place_of):
    """Whether a plan may write to a tensor: memory that nobody forbids to write to, whose writes are counted, and that no other operand
    shares unless it is the same."""
    own, owner = m.word(t, place_of.array), m.word(t, place_of.storage)
    allowed = m.number(1)
    if (m.half(own, _HEAD + 48) & 0x400) == 0:
        allowed = 0
    if (owner == at.none) | (m.word(t, place_of.view) != at.none) | (m.word(at.modes, place_of.inferring) != at.none):
        allowed = 0
    if m.word(m.word(t, place_of.meta), _TYPE) == at.inference:
        allowed = 0
    start = m.word(bases, 8)
    for i in range(inputs - 2):
        other, span = m.word(bases, i * 8 + 16), spans + i * 24 + 24
        end, high = m.word(spans, 8), m.word(span, 8)
        if by_element != 0:
            end, high = end * size, high * size
        if (other + m.word(span, 0) < start + end) & (start + m.word(spans, 0) < other + high):
            if (other != start) | (m.word(span, 16) == 0):
                allowed = 0
    return allowed


@inline
def count_write(m, t, place_of):
    """Counts a write into a tensor's memory."""
    owner = m.word(t, place_of.storage)
    before = m.word(owner, place_of.version)
    m.put(owner, place_of.version, m.call("PyLong_FromLong", m.call("PyLong_AsLong", before) + 1))
    m.run("Py_DecRef", before)


@inline
def in_tuple(m, objects, count, together, at):
    """A tuple, or another class of tuples, of so many objects; 0 with an exception."""
    bare = m.call("PyTuple_New", count)
    made = bare + 0
    if bare != 0:
        for i in range(count):
            if m.call("PyTuple_SetItem", bare, i, m.word(objects, i * 8)) != 0:
                made = 0
                break
        if (made != 0) & (together != at.tuple):
            m.put(objects, 0, together)
            m.put(objects, 8, bare)
            made = m.call("PyObject_Vectorcall", at.new_tuple, objects, 2, 0)
            m.run("Py_DecRef", bare)
    return made


@inline
def casting(m, at, place_of):
    """What autocast does in this thread, among the bits of a description's first word."""
    bits = m.number(0)
    if m.word(at.modes, place_of.on) != at.zero:
        number = m.call("PyObject_GetAttr", at.local, at.casting)
        m.run("Py_DecRef", number)
        bits = m.call("PyLong_AsLong", number) << CASTING
    return bits


@inline
def in_order(m, site, args, given, names, values, at):
    """Puts the arguments in their order, those that were named too, 0 where one is missing; gives 0 if Python must look at them."""
    arguments = m.word(site, COUNT)
    for i in range(arguments):
        m.put(values, i * 8 + 8, 0)
    for i in range(given):
        m.put(values, i * 8 + 8, m.word(args, i * 8))
    if names != 0:
        for j in range(m.call("PyTuple_Size", names)):
            name = m.call("PyTuple_GetItem", names, j)
            found = 0 - 1
            for i in range(arguments):
                if m.word(m.word(site, NAMES), i * 8) == name:
                    found = i
            if found >= given:
                m.put(values, found * 8 + 8, m.word(args, (given + j) * 8))
            else:  # unknown, or given by position; `out=None` says nothing
                if (name != at.out) | (m.word(args, (given + j) * 8) != at.none):
                    return 0
    return 1


@inline
def take_apart(m, values, arguments, parts, at):
    """Lists become a number that says how many there are, then each by itself. Gives how many parts there are, -1 if too many."""
    count = 0
    for i in range(arguments):
        a, kind, listed = m.word(values, i * 8 + 8), 0, 0 - 1
        if a != 0:
            kind = m.word(a, _TYPE)
            if (kind == at.tuple) | (kind == at.size):
                listed = m.call("PyTuple_Size", a)
            if kind == at.list:
                listed = m.call("PyList_Size", a)
            if listed >= 0:
                a = SEVERAL + (listed << 8)
        if count + listed >= PARTS:
            return -1
        m.put(parts, count * 8 + 8, a)
        count += 1
        for j in range(listed):
            if kind == at.list:
                m.put(parts, count * 8 + 8, m.call("PyList_GetItem", m.word(values, i * 8 + 8), j))
            else:
                m.put(parts, count * 8 + 8, m.call("PyTuple_GetItem", m.word(values, i * 8 + 8), j))
            count += 1
    return count


@inline
def look_at(m, parts, count, by_element, at, place_of):
    """The array of the first tensor (0 if Python must look at the arguments, 1 if one is on a GPU); whether all have one shape and are
    row-major, which is then all that a pointwise plan has to know; which arguments require gradients; how many elements the first has."""
    first, alike, history, size = 0, by_element, 0, 1
    for i in range(count):
        a = m.word(parts, i * 8 + 8)
        if a < MARK:
            continue
        kind = m.word(a, _TYPE)
        if (kind == at.tensor) | (kind == at.parameter):
            k = m.word(a, place_of.k)
            if k != at.zero:
                if k != at.one:
                    if ((k == at.two) | (k == at.three)) & (at.device != 0):
                        return 1, 0, 0, 0
                    return 0, 0, 0, 0
                history = history | (m.number(1) << i)
            own = m.word(a, place_of.array)
            if own == 0:  # a tensor that nobody has made
                return 0, 0, 0, 0
            if m.word(own, _TYPE) != at.ndarray:
                return 0, 0, 0, 0
            rank = m.half(own, _HEAD + 8)
            if rank > _RANK:
                return 0, 0, 0, 0
            if (m.half(own, _HEAD + 48) & 0x101) != 0x101:
                alike = 0
            if first == 0:
                first = own
                for d in range(rank):
                    size = size * m.word(m.word(own, _HEAD + 16), d * 8)
            else:
                if rank != m.half(first, _HEAD + 8):
                    alike = 0
                else:
                    for d in range(rank):
                        if m.word(m.word(own, _HEAD + 16), d * 8) != m.word(m.word(first, _HEAD + 16), d * 8):
                            alike = 0
    return first, alike, history, size


@inline
def of_this_thread(m, history, at):
    """Which arguments require gradients, none if this thread does not record."""
    if history != 0:
        recording = m.call("PyObject_GetAttr", at.local, at.grad)
        m.run("Py_DecRef", recording)
        if recording != at.true:
            return 0
    return history


@inline
def describe(m, parts, count, runtime, alike, history, key, bases, at, place_of):
    """Writes the description of the arguments, and where operands lie; gives how long it is, 0 if Python must look at them, and how many
    operands there are. Those that are other numbers in each call lie on the stack."""
    numbers, inputs, n = m.space(3 * PARTS), 1, 2
    m.put(bases, 0, 0)  # from here a constant's own address leads to it
    m.put(key, 0, history | casting(m, at, place_of))
    m.put(key, 8, m.word(at.modes, place_of.default))  # what integers become beside floats
    if alike != 0:
        m.put(key, 16, ALIKE)
        n = 3
    for i in range(count):
        if (n > _WORDS - 2 * _RANK - 4) | (inputs >= _OPERANDS - RESULTS):
            return 0, 0
        a = m.word(parts, i * 8 + 8)
        if a < MARK:
            m.put(key, n * 8, a)
            if a == 0:
                m.put(key, n * 8, ABSENT)
            n += 1
            continue
        kind = m.word(a, _TYPE)
        if (kind == at.tensor) | (kind == at.parameter):
            own = m.word(a, place_of.array)
            m.put(bases, inputs * 8, m.word(own, _HEAD))
            m.put(key, n * 8, m.word(own, _HEAD + 40))
            inputs += 1
            n += 1
            if alike == 0:
                rank = m.half(own, _HEAD + 8)
                m.put(key, n * 8, rank + ((m.half(own, _HEAD + 48) & 0x100) << 8))
                n += 1
                for d in range(rank):
                    m.put(key, n * 8, m.word(m.word(own, _HEAD + 16), d * 8))
                    m.put(key, n * 8 + 8, m.word(m.word(own, _HEAD + 24), d * 8))
                    n += 2
            continue
        if (a == at.none) | (a == at.true) | (a == at.false) | (kind == at.str) | (kind == at.dtype):
            m.put(key, n * 8, a)  # one object stands for one value; its plan keeps it
            n += 1
            continue
        if (kind != at.float) & (kind != at.int):
            return 0, 0
        bits, value = 0, 0
        if kind == at.float:
            m.put(key, n * 8, FLOAT)
            bits = m.word(a, _HEAD)
            value = bits
        else:
            m.put(key, n * 8, INT)
            value = m.call("PyLong_AsLong", a)
            if value == -1:
                if m.call("PyErr_Occurred") != 0:
                    m.run("PyErr_Clear")
                    return 0, 0
            bits = m.as_float(value)
        n += 1
        if ((runtime >> i) & 1) != 0:
            if (kind == at.float) & m.beyond(bits):
                return 0, 0
            m.put(numbers, i * 24, bits)
            m.put_single(numbers, i * 24 + 8, bits)
            m.put(numbers, i * 24 + 16, value)
            m.put(bases, inputs * 8, numbers + i * 24)
            inputs += 1
        else:
            m.put(key, n * 8, value)
            n += 1
    return n, inputs


@inline
def make_arrays(m, plan, results, first, alike, large, size, t, bases, inputs, objects, at, place_of):
    """Makes the arrays of the results, and of what is needed on the way to them; gives 0 if Python must make them. Those that are `alike`
    have the first operand's shape; `t` is the argument that a plan may write to."""
    for i in range(results):
        about = plan + PLAN + i * RESULT
        rank, shape, bytes = m.word(about, 8), m.word(about, 16), m.word(about, 48)
        if alike != 0:
            rank, shape, bytes = m.half(first, _HEAD + 8), m.word(first, _HEAD + 16), large
        if m.word(about, 0) == 0:  # None in its place
            m.run("Py_IncRef", at.none)
            m.put(objects, i * 8, at.none)
            continue
        if m.word(about, 0) == WRITTEN:  # the first result, if any
            if may_write(m, t, bases, m.word(about, 16), inputs, alike, size, at, place_of) == 0:
                return 0
            m.run("Py_IncRef", t)
            m.put(objects, 0, t)
            m.put(bases, inputs * 8, m.word(bases, 8))
            continue
        before = 0
        if (bytes >= LARGE) & (at.exchange != 0):  # it begins at a cache line
            before = m.call(at.exchange, at.aligned)
        m.run("Py_IncRef", m.word(about, 0))
        made = m.call(at.new, at.ndarray, m.word(about, 0), rank, shape, m.word(about, 24), 0, 0, 0)
        if before != 0:
            m.run("Py_DecRef", m.call(at.exchange, before))
            m.run("Py_DecRef", before)
        if made == 0:  # Python says what the matter is
            m.run("PyErr_Clear")
            release(m, objects, i)
            return 0
        m.put(objects, i * 8, made)
        m.put(bases, (inputs + i) * 8, m.word(made, _HEAD))
    return 1


@inline
def release(m, objects, count):
    """Gives up so many objects."""
    for i in range(count):
        m.run("Py_DecRef", m.word(objects, i * 8))


@inline
def as_tensors(m, site, plan, results, objects, parts, history, plain, recorded, at, place_of, each, dtype):
    """Puts tensors around the arrays that a plan returns, with nodes if it has a pattern of them; gives up the others. Gives 1, 0 if Python
    must do all again, -1 with an exception. A plan says of each result in `each` bytes what it is, and its dtype after `dtype` of them."""
    returned, wrapped, attaches = (
        m.word(plan, RETURNED),
        m.word(plan, RETURNED),
        (history != 0) & (m.word(plan, PATTERN) != 0),
    )
    if attaches:
        wrapped = m.word(plan, KEPT)
    release(m, objects + wrapped * 8, results - wrapped)
    meta = at.none
    if m.word(at.modes, place_of.inferring) != at.none:  # some thread is in inference mode: is it this one?
        meta = m.call("PyObject_Vectorcall", at.mark, parts, 0, 0)
        m.run("Py_DecRef", meta)  # it has another owner
    for i in range(wrapped):
        if m.word(plan, PLAN + i * each) < MARK:  # None, or the argument itself
            continue
        t = m.call("PyType_GenericAlloc", at.tensor, 0)
        if t == 0:
            release(m, objects, wrapped)
            return -1
        fill(m, t, m.word(objects, i * 8), m.word(plan, PLAN + i * each + dtype), plain, meta, at, place_of)
        m.put(objects, i * 8, t)
    if attaches:
        keeps = m.call(at.attach, m.word(plan, PATTERN), parts, objects, wrapped, m.word(site, KNOWN), plain, recorded)
        if keeps < 0:
            return -1
        release(m, objects + returned * 8, wrapped - returned)
        if keeps == 0:
            release(m, objects, returned)
            return 0
    return 1


def _entry(m, self, args, given, names, place_of):
    site = m.word(m.word(self, place_of.words), place_of.buffer)
    at = m.fields(m.word(site, KNOWN), KNOWN_NAMES)
    slow, arguments, on = m.word(site, SLOW), m.word(site, COUNT), m.word(at.modes, place_of.on)
    if ((on != at.zero) & (on != at.autocast)) | (given > m.word(site, POSITIONAL)):
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    # 1. The arguments, and whether all tensors are plain ones.
    values, parts = m.space(ARGUMENTS + 1), m.space(PARTS + 1)
    if in_order(m, site, args, given, names, values, at) == 0:
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    count = take_apart(m, values, arguments, parts, at)
    if count < 0:
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    first, alike, requires, size = look_at(m, parts, count, m.word(site, BY_ELEMENT), at, place_of)
    if first == 1:
        return m.call(at.device, site, parts, count, args, given, names, at.gpu)
    if first == 0:
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    # 2. Their description, and the plan that is kept under it.
    key, bases, history = m.space(_WORDS), m.space(_OPERANDS), of_this_thread(m, requires, at)
    n, inputs = describe(m, parts, count, m.word(site, RUNTIME), alike, history, key, bases, at, place_of)
    if n == 0:
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    plan, h = plan_of(m, site, key, n)
    if plan == 0:
        return m.call("PyObject_Vectorcall", without_plan(m, site, h, at), args, given, names)
    results = m.word(plan, 0)
    if results == VIEWS:
        made = m.call(at.views, plan, m.word(values, 8), m.word(site, KNOWN), at.zero, at.one)
        if made != 0:
            return made
        results = 0
    if results == 0:  # known to have none
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    if (history != 0) & (m.word(plan, RECORD) == 0) & (m.word(plan, PATTERN) == 0):
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    large = m.word(plan, LONG)
    if alike != 0:  # a single result, and a loop that splits itself over the cores
        if size == 0:
            return m.call("PyObject_Vectorcall", slow, args, given, names)
        if size >= _MOST:
            large = size * m.word(plan, PLAN + 40)
            if large >= m.word(at.settings, 16):  # it may have another way to memory
                return m.call("PyObject_Vectorcall", slow, args, given, names)
    if large != 0:
        target = m.call("PyObject_GetAttr", at.local, at.destination)
        m.run("Py_DecRef", target)
        if target != at.none:  # `out=`
            return m.call("PyObject_Vectorcall", slow, args, given, names)
    # 3. Arrays, and loops over them, each repeated over the dimensions that it does not know itself.
    objects, written = m.space(RESULTS), m.word(values, 8)
    if make_arrays(m, plan, results, first, alike, large, size, written, bases, inputs, objects, at, place_of) == 0:
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    pointers, thread, length = m.space(_OPERANDS), 0, 0
    if alike != 0:
        length = m.space(1)
        m.put(length, 0, size)
    if large != 0:  # other threads of the interpreter run meanwhile
        thread = m.call("PyEval_SaveThread")
    left = run_loops(m, plan + PLAN + results * RESULT, m.word(plan, LOOPS), bases, pointers, length)
    if large != 0:
        m.run("PyEval_RestoreThread", thread)
    if left != 0:  # a question was answered in another way than expected
        release(m, objects, results)
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    if m.word(plan, PLAN) == WRITTEN:
        count_write(m, written, place_of)
    # 4. Tensors around the arrays, several in a tuple, and their history.
    done = as_tensors(m, site, plan, results, objects, parts, history, at.zero, at.one, at, place_of, RESULT, 32)
    if done < 0:
        return 0
    if done == 0:
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    made, together = m.word(objects, 0), m.word(plan, TOGETHER)
    if together != 0:
        made = in_tuple(m, objects, m.word(plan, RETURNED), together, at)
        if made == 0:
            return 0
    if (history != 0) & (m.word(plan, PATTERN) == 0):
        m.put(values, 0, made)
        for i in range(arguments):
            if m.word(values, i * 8 + 8) == 0:
                m.put(values, i * 8 + 8, at.none)
        recorded = m.call("PyObject_Vectorcall", m.word(plan, RECORD), values, arguments + 1, 0)
        m.run("Py_DecRef", made)
        return recorded
    return made


@inline
def is_tensor(m, v, at):
    return (m.word(v, _TYPE) == at.tensor) | (m.word(v, _TYPE) == at.parameter)


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
                    if m.word(m.word(v, place_of.meta), _TYPE) == at.inference:
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


# -- what they know of this interpreter ----------------------------------------------------------------------------


def slot_offset(slot: Any) -> int:
    """Where an attribute that is a slot lies in its objects."""
    member = ctypes.c_void_p.from_address(id(slot) + _HEAD + 3 * 8).value  # a descriptor: type, name, qualified name
    assert member is not None
    return ctypes.c_ssize_t.from_address(member + 16).value  # a member: name, type, offset


def _buffer_offset() -> int:
    """Where an `array.array` has the address of its elements."""
    probe = array.array("q", [0])
    return next(
        i for i in range(_HEAD, 64, 8) if ctypes.c_int64.from_address(id(probe) + i).value == probe.buffer_info()[0]
    )


def new_array() -> int | None:
    """The address of PyArray_NewFromDescr; None if it is not where it should be."""
    table = capsule_pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[_NEW_FROM_DESCR]
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.py_object, ctypes.py_object, integer, pointer, pointer, pointer, integer, pointer
    )(address)
    d, shape = np.dtype(np.int16), (ctypes.c_ssize_t * 2)(3, 5)
    c_function("Py_IncRef", None, ctypes.py_object)(d)  # the function takes one
    made = make(np.ndarray, d, 2, ctypes.addressof(shape), None, None, 0, None)
    fits = made.__class__ is np.ndarray and made.shape == (3, 5) and made.dtype is d and made.flags.c_contiguous
    return address if fits else None


class Offsets:
    """Where the machine code finds the slots of objects."""

    def __init__(self, tensor: Any, node: Any, kept: Any, site: Any) -> None:
        moment: Any = type(modes)
        self.on, self.inferring, self.default = (
            slot_offset(moment.on),
            slot_offset(moment.inferring),
            slot_offset(moment.default),
        )
        self.array, self.dtype, self.k = slot_offset(tensor._array), slot_offset(tensor.dtype), slot_offset(tensor._k)
        self.edge, self.meta = slot_offset(tensor._edge), slot_offset(tensor._autograd_meta)
        self.storage, self.view = slot_offset(tensor._storage), slot_offset(tensor._view)
        self.words, self.buffer = slot_offset(site.words), _buffer_offset()
        self.version = slot_offset(kept.version)
        for name in ("array", "dtype", "k", "number", "shared", "views"):
            setattr(self, f"kept_{name}", slot_offset(getattr(kept, name)))
        for name in ("op", "edges", "saved", "outputs", "versions", "info", "hooks", "pre_hooks", "seq", "label"):
            setattr(self, f"node_{name}", slot_offset(getattr(node, name)))

    def hold(self, tensor: Any) -> bool:
        """Whether slots lie where this says, in a tensor made for the purpose."""
        probe = object.__new__(tensor)
        slots = {"_array": self.array, "dtype": self.dtype, "_k": self.k, "_edge": self.edge, "_view": self.view}
        slots |= {"_autograd_meta": self.meta, "_storage": self.storage}
        for name, offset in slots.items():
            mark = object()
            setattr(probe, name, mark)
            if ctypes.c_void_p.from_address(id(probe) + offset).value != id(mark):
                return False
        return ctypes.c_void_p.from_address(id(modes) + self.on).value == id(modes.on)


def entry_is_kept(offsets: Offsets) -> bool:
    """Whether the longer of them need not be compiled."""
    return is_kept("entry", _entry, place_of=offsets)


def compile_entry(offsets: Offsets) -> tuple[int, int]:
    """The addresses of both functions."""
    call = compile_function("entry", _entry, ["self", "args", "given", "names"], place_of=offsets)
    given = ["pattern", "values", "objects", "count", "known", "plain", "recorded"]
    return call, compile_function("attach", _attach, given, place_of=offsets)
