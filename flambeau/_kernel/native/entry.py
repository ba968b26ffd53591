"""The native entry: a call that was planned before, from Python's arguments to the result, without an interpreter.

It describes its arguments in words (dtypes, shapes and strides of tensors, numbers), looks the description up in its site's
table, and carries out the plan that it finds: makes arrays for the results, runs native loops over addresses, wraps tensors around
the arrays, gives them a node. Whatever is unusual (a mode, a property in `_k`, a subclass, a description without a plan) goes to
the site's Python function, which does the same without any of this. Nothing here decides what an operation computes.
"""

from __future__ import annotations

from ..._core.state import BATCHED
from ..loops.dialect import compile_function, inline, is_kept
from .arrays import new_array_of
from .interpreter import HEAD, KNOWN_NAMES, TYPE, Offsets
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

_RANK, PARTS = 8, 136  # at most: batches of 128 samples are put together
HISTORIES = 32  # parts that may have a history, at most
ARGUMENTS, RESULTS = 12, 24  # of a plan, at most
_WORDS, _OPERANDS = (
    PARTS * 10,
    PARTS + RESULTS,
)  # of a description (four dimensions and two words for each part), of a plan
MARK = 1 << 16  # smaller than any address
_MOST = 1 << 14  # elements of a result that are made without giving other threads of the interpreter a chance
SEEN, WAYS = 1 << 10, 4  # sets of descriptions that came without a plan, of all sites, and how many are in each
# Words of a site, in bytes.
SLOW, MISSED, TABLE, RUNTIME, BY_ELEMENT, KNOWN, COUNT, POSITIONAL, NAMES, MAKES = range(0, 80, 8)
_REFUSED, _ON_GPU, _NUMBERS = range(3)  # in the place of the first tensor's array


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
def is_frozen(m, t, at, place_of):
    """Whether a tensor is a view whose history a write may change, or that must not be written to."""
    view, base, frozen = m.word(t, place_of.view), t, m.number(0)
    if view != at.none:
        if m.call("PyTuple_GetItem", view, 5) != at.zero:
            frozen = 1
        while view != at.none:
            base = m.call("PyTuple_GetItem", view, 0)
            view = m.word(base, place_of.view)
        if m.word(base, place_of.k) != at.zero:
            frozen = 1
    return frozen


@inline
def may_write(m, t, bases, spans, inputs, by_element, size, at, place_of):
    """Whether a plan may write to a tensor: memory that nobody forbids to write to, whose writes are counted, and that no other operand
    shares unless it is the same."""
    own, owner = m.word(t, place_of.array), m.word(t, place_of.storage)
    allowed = m.number(1)
    if (m.half(own, HEAD + 48) & 0x400) == 0:
        allowed = 0
    if (owner == at.none) | (is_frozen(m, t, at, place_of) != 0) | (m.word(at.modes, place_of.inferring) != at.none):
        allowed = 0
    if m.word(m.word(t, place_of.meta), TYPE) == at.inference:
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
    """Puts the arguments in their order, those that were named too, 0 where one is missing; gives 0 if Python must look at them.
    After the names of all come their other names, 0 where there is none."""
    arguments, known = m.word(site, COUNT), m.word(site, NAMES)
    for i in range(arguments):
        m.put(values, i * 8 + 8, 0)
    for i in range(given):
        m.put(values, i * 8 + 8, m.word(args, i * 8))
    if names != 0:
        for j in range(m.call("PyTuple_Size", names)):
            name = m.call("PyTuple_GetItem", names, j)
            found = 0 - 1
            for i in range(arguments):
                if (m.word(known, i * 8) == name) | (m.word(known, (arguments + i) * 8) == name):
                    found = i
            if found >= given:
                if m.word(values, found * 8 + 8) != 0:  # by both of its names
                    return 0
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
            kind = m.word(a, TYPE)
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
    """The array of the first tensor (or that Python must look at the arguments, that one is on a GPU, that there are numbers only); whether
    all have one shape and are row-major, which is then all that a pointwise plan has to know; which arguments require gradients; how many
    elements the first has."""
    first, alike, history, size = _NUMBERS + 0, by_element, 0, 1
    for i in range(count):
        a = m.word(parts, i * 8 + 8)
        if a < MARK:
            continue
        kind = m.word(a, TYPE)
        if (kind == at.tensor) | (kind == at.parameter):
            k = m.word(a, place_of.k)
            if k != at.zero:
                if k != at.one:
                    if ((k == at.two) | (k == at.three)) & (at.device != 0):
                        return _ON_GPU, 0, 0, 0
                    return _REFUSED, 0, 0, 0
                if i >= HISTORIES:
                    return _REFUSED, 0, 0, 0
                history = history | (m.number(1) << i)
            own = m.word(a, place_of.array)
            if own == 0:  # a tensor that nobody has made
                return _REFUSED, 0, 0, 0
            if m.word(own, TYPE) != at.ndarray:
                return _REFUSED, 0, 0, 0
            rank = m.half(own, HEAD + 8)
            if rank > _RANK:
                return _REFUSED, 0, 0, 0
            if (m.half(own, HEAD + 48) & 0x101) != 0x101:
                alike = 0
            if first == _NUMBERS:
                first = own
                for d in range(rank):
                    size = size * m.word(m.word(own, HEAD + 16), d * 8)
            else:
                if rank != m.half(first, HEAD + 8):
                    alike = 0
                else:
                    for d in range(rank):
                        if m.word(m.word(own, HEAD + 16), d * 8) != m.word(m.word(first, HEAD + 16), d * 8):
                            alike = 0
    return first, alike, history, size


@inline
def may_make(m, at, place_of):
    """Whether a new tensor is an ordinary one of the CPU: nobody watches what is made, maps over a batch or has set another device."""
    allowed = m.number(0)
    overrides = m.call("PyLong_AsLong", m.word(at.modes, place_of.overrides))
    if (m.word(at.modes, place_of.watching) == at.none) & ((overrides & BATCHED) == 0):
        where = m.call("PyObject_GetAttr", at.usual, at.where)
        m.run("Py_DecRef", where)
        if where == at.none:
            allowed = 1
    return allowed


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
        kind = m.word(a, TYPE)
        if (kind == at.tensor) | (kind == at.parameter):
            own = m.word(a, place_of.array)
            m.put(bases, inputs * 8, m.word(own, HEAD))
            m.put(key, n * 8, m.word(own, HEAD + 40))
            inputs += 1
            n += 1
            if alike == 0:
                rank = m.half(own, HEAD + 8)
                m.put(key, n * 8, rank + ((m.half(own, HEAD + 48) & 0x100) << 8))
                n += 1
                for d in range(rank):
                    m.put(key, n * 8, m.word(m.word(own, HEAD + 16), d * 8))
                    m.put(key, n * 8 + 8, m.word(m.word(own, HEAD + 24), d * 8))
                    n += 2
            continue
        known = (kind == at.str) | (kind == at.dtype) | (kind == at.place)
        if (a == at.none) | (a == at.true) | (a == at.false) | known:
            m.put(key, n * 8, a)  # one object stands for one value; its plan keeps it
            n += 1
            continue
        if (kind != at.float) & (kind != at.int):
            return 0, 0
        bits, value = 0, 0
        if kind == at.float:
            m.put(key, n * 8, FLOAT)
            bits = m.word(a, HEAD)
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
        bit = i + 0
        if i > 63:
            bit = 63
        if ((runtime >> bit) & 1) != 0:
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
def make_arrays(m, plan, results, first, alike, size, t, bases, inputs, objects, at, place_of):
    """Makes the arrays of the results, and of what is needed on the way to them; gives 0 if Python must make them. Those that are `alike`
    have the first operand's shape; `t` is the argument that a plan may write to."""
    for i in range(results):
        about = plan + PLAN + i * RESULT
        rank, shape, bytes = m.word(about, 8), m.word(about, 16), m.word(about, 48)
        if alike != 0:
            rank, shape, bytes = m.half(first, HEAD + 8), m.word(first, HEAD + 16), size * m.word(about, 40)
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
        made = new_array_of(m, m.word(about, 0), rank, shape, m.word(about, 24), bytes, at)
        if made == 0:  # Python says what the matter is
            m.run("PyErr_Clear")
            release(m, objects, i)
            return 0
        m.put(objects, i * 8, made)
        m.put(bases, (inputs + i) * 8, m.word(made, HEAD))
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
    if first == _ON_GPU:
        return m.call(at.device, site, parts, count, args, given, names, at.gpu)
    if (first == _NUMBERS) & (m.word(site, MAKES) != 0):
        if may_make(m, at, place_of) == 0:
            first = _REFUSED
    if (first == _REFUSED) | ((first == _NUMBERS) & (m.word(site, MAKES) == 0)):
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
    if make_arrays(m, plan, results, first, alike, size, written, bases, inputs, objects, at, place_of) == 0:
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    pointers, thread, length, shared = m.space(_OPERANDS), 0, 0, 0
    if alike != 0:
        length = m.space(1)
        m.put(length, 0, size)
    else:
        if large > 1:  # memory that one call at a time may use
            shared = large
            if m.word(shared) != 0:
                release(m, objects, results)
                return m.call("PyObject_Vectorcall", slow, args, given, names)
            m.put(shared, 0, 1)
    if large != 0:  # other threads of the interpreter run meanwhile
        thread = m.call("PyEval_SaveThread")
    left = run_loops(m, plan + PLAN + results * RESULT, m.word(plan, LOOPS), bases, pointers, length)
    if large != 0:
        m.run("PyEval_RestoreThread", thread)
    if shared != 0:
        m.put(shared, 0, 0)
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


def entry_is_kept(offsets: Offsets) -> bool:
    """Whether it need not be compiled."""
    return is_kept("entry", _entry, place_of=offsets)


def compile_entry(offsets: Offsets) -> int:
    """Its address."""
    return compile_function("entry", _entry, ["self", "args", "given", "names"], place_of=offsets)
