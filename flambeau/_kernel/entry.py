"""The native entry: a call that was planned before, from Python's arguments to the result, without an interpreter.

A site is a function that programs call. It describes its arguments in words (dtypes, shapes and strides of tensors, numbers),
looks the description up in its table, and carries out the plan that it finds: makes arrays for the results, runs native
loops over addresses, wraps tensors around the arrays. Whatever is unusual (a mode, a property in `_k`, a subclass, a named argument,
a description without a plan) goes to the site's Python function, which does the same without any of this.

Nothing here decides what an operation computes: plans are made in Python (`_ops/plan.py`), once for a description.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import os
import struct
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._core.dtypes import dtype
from .._core.sizes import Size
from .._core.state import local, modes
from .direct import known_layout
from .elementwise import new_array
from .native import compile_function

_HEAD = object.__basicsize__  # where an array's own fields begin
_TYPE = _HEAD - 8
_WORDS = 128  # of a description, at most
_RANK, _ARGUMENTS, _OPERANDS, _RESULTS = 8, 12, 24, 8  # at most
_MOST = 1 << 14  # elements of a result; for more, other threads of the interpreter run meanwhile
_PLANS = 4096  # of one table
_MIX = 0x9E3779B97F4A7C1
ABSENT, FLOAT, INT, ALIKE, SEVERAL = range(10, 15)  # tags in a description
_ALL = (1 << 64) - 1
# Objects and functions that the machine code must know, by their addresses in this process.
_KNOWN = (
    "tensor", "parameter", "ndarray", "new", "zero", "one", "none", "true", "false", "float", "int", "modes", "tuple", "list",
    "size", "str", "dtype", "new_tuple", "local", "grad", "mark",
)  # fmt: skip
# Words of a site, a plan, a plan's result and a loop of it, in bytes.
SLOW, MISSED, TABLE, RUNTIME, BY_ELEMENT, KNOWN, COUNT, POSITIONAL, NAMES = range(0, 72, 8)
PLAN, RESULT, LOOP = 40, 40, 48


def _entry(m, self, args, given, names, place_of):  # type: ignore[no-untyped-def]
    site = m.word(m.word(self, place_of.words), place_of.buffer)
    at = m.fields(m.word(site, KNOWN), _KNOWN)
    slow, count, arguments = m.word(site, SLOW), given, m.word(site, COUNT)
    if m.word(at.modes, place_of.on) != at.zero:
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    if count > m.word(site, POSITIONAL):
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    # 1. The arguments in their order, those that were named too; none where one is missing.
    values = m.space(_ARGUMENTS + 1)
    for i in range(arguments):
        m.put(values, i * 8 + 8, 0)
    for i in range(count):
        m.put(values, i * 8 + 8, m.word(args, i * 8))
    if names != 0:
        for j in range(m.call("PyTuple_Size", names)):
            name = m.call("PyTuple_GetItem", names, j)
            found = 0 - 1
            for i in range(arguments):
                if m.word(m.word(site, NAMES), i * 8) == name:
                    found = i
            if found < count:  # unknown, or given by position
                return m.call("PyObject_Vectorcall", slow, args, given, names)
            m.put(values, found * 8 + 8, m.word(args, (count + j) * 8))
    # 2. Are all tensors of one shape and row-major? Then that is all a pointwise plan has to know.
    first, alike, history, size = 0, m.word(site, BY_ELEMENT), 0, 1  # history: which arguments require gradients
    for i in range(arguments):
        a = m.word(values, i * 8 + 8)
        if a == 0:
            continue
        kind = m.word(a, _TYPE)
        if (kind == at.tensor) | (kind == at.parameter):
            k = m.word(a, place_of.k)
            if k != at.zero:
                if k != at.one:
                    return m.call("PyObject_Vectorcall", slow, args, given, names)
                history = history | (m.number(1) << i)
            own = m.word(a, place_of.array)
            if own == 0:  # a tensor that nobody has made
                return m.call("PyObject_Vectorcall", slow, args, given, names)
            if m.word(own, _TYPE) != at.ndarray:
                return m.call("PyObject_Vectorcall", slow, args, given, names)
            rank = m.half(own, _HEAD + 8)
            if rank > _RANK:
                return m.call("PyObject_Vectorcall", slow, args, given, names)
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
    if first == 0:
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    if history != 0:  # does this thread record?
        recording = m.call("PyObject_GetAttr", at.local, at.grad)
        m.run("Py_DecRef", recording)
        if recording != at.true:
            history = 0
    # 3. The description, and where operands lie.
    key, bases, numbers = m.space(_WORDS), m.space(_OPERANDS), m.space(3 * _ARGUMENTS)
    n, inputs, runtime = 0, 1, m.word(site, RUNTIME)
    m.put(bases, 0, 0)  # from here a constant's own address leads to it
    if m.word(site, BY_ELEMENT) == 0:
        m.put(key, 0, history)
        n = 1
    if alike != 0:
        m.put(key, 0, ALIKE)
        n = 1
    for i in range(arguments):
        if n > _WORDS - 2 * _RANK - 4:
            return m.call("PyObject_Vectorcall", slow, args, given, names)
        a = m.word(values, i * 8 + 8)
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
        if kind == at.float:
            m.put(key, n * 8, FLOAT)
            n += 1
            bits = m.word(a, _HEAD)
            if ((runtime >> i) & 1) != 0:
                if m.beyond(bits):
                    return m.call("PyObject_Vectorcall", slow, args, given, names)
                m.put(numbers, i * 24, bits)
                m.put_single(numbers, i * 24 + 8, bits)
                m.put(bases, inputs * 8, numbers + i * 24)
                inputs += 1
            else:
                m.put(key, n * 8, bits)
                n += 1
            continue
        if kind == at.int:
            value = m.call("PyLong_AsLong", a)
            if value == -1:
                if m.call("PyErr_Occurred") != 0:
                    m.run("PyErr_Clear")
                    return m.call("PyObject_Vectorcall", slow, args, given, names)
            m.put(key, n * 8, INT)
            n += 1
            if ((runtime >> i) & 1) != 0:
                bits = m.as_float(value)
                m.put(numbers, i * 24, bits)
                m.put_single(numbers, i * 24 + 8, bits)
                m.put(numbers, i * 24 + 16, value)
                m.put(bases, inputs * 8, numbers + i * 24)
                inputs += 1
            else:
                m.put(key, n * 8, value)
                n += 1
            continue
        listed = 0 - 1
        if (kind == at.tuple) | (kind == at.size):
            listed = m.call("PyTuple_Size", a)
        if kind == at.list:
            listed = m.call("PyList_Size", a)
        if (listed < 0) | (listed > _RANK):
            return m.call("PyObject_Vectorcall", slow, args, given, names)
        m.put(key, n * 8, SEVERAL + (listed << 8))
        n += 1
        for j in range(listed):
            item = 0
            if kind == at.list:
                item = m.call("PyList_GetItem", a, j)
            else:
                item = m.call("PyTuple_GetItem", a, j)
            if m.word(item, _TYPE) != at.int:
                return m.call("PyObject_Vectorcall", slow, args, given, names)
            value = m.call("PyLong_AsLong", item)
            if value == -1:
                if m.call("PyErr_Occurred") != 0:
                    m.run("PyErr_Clear")
                    return m.call("PyObject_Vectorcall", slow, args, given, names)
            m.put(key, n * 8, value)
            n += 1
    # 4. The plan that is kept under it.
    h = 0
    for i in range(n):
        h = (h ^ m.word(key, i * 8)) * _MIX
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
    if plan == 0:
        return m.call("PyObject_Vectorcall", m.word(site, MISSED), args, given, names)
    results, returned, loops = m.word(plan, 0), m.word(plan, 8), m.word(plan, 16)
    if results == 0:  # known to have none
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    if (history != 0) & (m.word(plan, 24) == 0):
        return m.call("PyObject_Vectorcall", slow, args, given, names)
    if alike != 0:
        if (size >= _MOST) | (size == 0):
            return m.call("PyObject_Vectorcall", slow, args, given, names)
    # 5. Arrays for the results, and for what is needed on the way to them.
    objects = m.space(_RESULTS)
    for i in range(results):
        about = plan + PLAN + i * RESULT
        rank, shape = m.word(about, 8), m.word(about, 16)
        if alike != 0:
            rank, shape = m.half(first, _HEAD + 8), m.word(first, _HEAD + 16)
        m.run("Py_IncRef", m.word(about, 0))
        made = m.call(at.new, at.ndarray, m.word(about, 0), rank, shape, m.word(about, 24), 0, 0, 0)
        if made == 0:
            for j in range(i):
                m.run("Py_DecRef", m.word(objects, j * 8))
            return 0
        m.put(objects, i * 8, made)
        m.put(bases, (inputs + i) * 8, m.word(made, _HEAD))
    # 6. Loops, each repeated over the dimensions that it does not know itself.
    pointers, index = m.space(_OPERANDS), m.space(_RANK)
    place = plan + PLAN + results * RESULT
    for _ in range(loops):
        operands, outer, turns, dims = m.word(place, 32), m.word(place, 40), 1, m.word(place, 8)
        sizes = place + LOOP
        sources = sizes + outer * 8
        each = 16 + outer * 8
        for j in range(operands):
            m.put(pointers, j * 8, m.word(bases, m.word(sources, j * each)) + m.word(sources, j * each + 8))
        for d in range(outer):
            turns = turns * m.word(sizes, d * 8)
            m.put(index, d * 8, 0)
        if alike != 0:
            m.put(index, 0, size)
            dims = index
        if m.word(place, 0) == 0:  # no loop, but a question whose answer must be the one that was expected
            turns = 0
            if (m.word(m.word(pointers, 0), 0) & 0xFF) != dims:
                for j in range(results):
                    m.run("Py_DecRef", m.word(objects, j * 8))
                return m.call("PyObject_Vectorcall", slow, args, given, names)
        for _turn in range(turns):
            m.run(m.word(place, 0), pointers, dims, m.word(place, 16), m.word(place, 24))
            d = outer - 1
            while d >= 0:
                reached, back = m.word(index, d * 8) + 1, 0
                if reached == m.word(sizes, d * 8):
                    back, reached = reached, 0
                m.put(index, d * 8, reached)
                for j in range(operands):
                    step = m.word(sources, j * each + 16 + d * 8)
                    m.put(pointers, j * 8, m.word(pointers, j * 8) + step - back * step)
                d -= 1
                if back == 0:
                    d = -1
        place = sources + operands * each
    for i in range(results - returned):
        m.run("Py_DecRef", m.word(objects, (returned + i) * 8))
    meta = at.none
    if m.word(at.modes, place_of.inferring) != at.none:  # some thread is in inference mode: is it this one?
        meta = m.call("PyObject_Vectorcall", at.mark, values, 0, 0)
        m.run("Py_DecRef", meta)  # it has another owner
    # 7. Tensors around the arrays, several in a tuple, and their history.
    for i in range(returned):
        t = m.call("PyType_GenericAlloc", at.tensor, 0)
        if t == 0:
            for j in range(returned):
                m.run("Py_DecRef", m.word(objects, j * 8))
            return 0
        m.put(t, place_of.array, m.word(objects, i * 8))
        m.put(t, place_of.dtype, m.word(plan, PLAN + i * RESULT + 32))
        m.put(t, place_of.k, at.zero)
        for _ in range(3):
            m.run("Py_IncRef", at.none)
        m.run("Py_IncRef", meta)
        m.run("Py_IncRef", at.zero)
        m.run("Py_IncRef", m.word(t, place_of.dtype))
        m.put(t, place_of.edge, at.none)
        m.put(t, place_of.meta, meta)
        m.put(t, place_of.storage, at.none)
        m.put(t, place_of.view, at.none)
        m.put(objects, i * 8, t)
    made, together = m.word(objects, 0), m.word(plan, 32)
    if together != 0:
        bare = m.call("PyTuple_New", returned)
        if bare == 0:
            return 0
        for i in range(returned):
            if m.call("PyTuple_SetItem", bare, i, m.word(objects, i * 8)) != 0:
                return 0
        made = bare
        if together != at.tuple:
            m.put(objects, 0, together)
            m.put(objects, 8, bare)
            made = m.call("PyObject_Vectorcall", at.new_tuple, objects, 2, 0)
            m.run("Py_DecRef", bare)
            if made == 0:
                return 0
    if history != 0:
        m.put(values, 0, made)
        for i in range(arguments):
            if m.word(values, i * 8 + 8) == 0:
                m.put(values, i * 8 + 8, at.none)
        recorded = m.call("PyObject_Vectorcall", m.word(plan, 24), values, arguments + 1, 0)
        m.run("Py_DecRef", made)
        return recorded
    return made


# -- what it knows of this interpreter -----------------------------------------------------------------------------


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_FASTCALL_WITH_NAMES = 0x0080 | 0x0002


def _offset(slot: Any) -> int:
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


class _Offsets:
    """Where the machine code finds the slots of objects."""

    def __init__(self, tensor: Any) -> None:
        self.on, self.inferring = _offset(type(modes).on), _offset(type(modes).inferring)  # type: ignore[attr-defined]
        self.array, self.dtype, self.k = _offset(tensor._array), _offset(tensor.dtype), _offset(tensor._k)
        self.edge, self.meta = _offset(tensor._edge), _offset(tensor._autograd_meta)
        self.storage, self.view = _offset(tensor._storage), _offset(tensor._view)
        self.words, self.buffer = _offset(Site.words), _buffer_offset()

    def hold(self, tensor: Any) -> bool:
        """Whether slots lie where this says, in a tensor made for the purpose."""
        probe = object.__new__(tensor)
        slots = {
            "_array": self.array,
            "dtype": self.dtype,
            "_k": self.k,
            "_edge": self.edge,
            "_autograd_meta": self.meta,
        }
        slots |= {"_storage": self.storage, "_view": self.view}
        for name, offset in slots.items():
            mark = object()
            setattr(probe, name, mark)
            if ctypes.c_void_p.from_address(id(probe) + offset).value != id(mark):
                return False
        return ctypes.c_void_p.from_address(id(modes) + self.on).value == id(modes.on)


# -- sites ---------------------------------------------------------------------------------------------------------


class Table:
    """Descriptions of arguments, and the plans for them. Sites of one operation share it."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.before: list[Any] = []  # of the table that was cleared last: somebody may be in the midst of such a plan
        self.words = array.array("q", bytes(8 + 24 * 16))
        self.words[0], self.users = 15, []

    def add(self, description: Sequence[int], plan: Plan, args: Sequence[Any]) -> None:
        """Keeps a plan, and the objects that the description knows by their addresses. Of so many plans that they are
        hardly used again, all are forgotten."""
        if len(self.kept) >= _PLANS:
            self.before, self.kept = self.kept, []
            self._resize(16)
        elif 2 * len(self.kept) > self.words[0]:
            self._resize(4 * (self.words[0] + 1))
        own = array.array("q", [len(description), *map(_signed, description)])
        words = plan.words()
        self.kept.append((own, words, (plan, [a._array.dtype if hasattr(a, "_array") else a for a in args])))
        self._enter(own, words)

    def _resize(self, slots: int) -> None:
        self.words, old = array.array("q", bytes(8 + 24 * slots)), self.words
        self.words[0] = slots - 1
        for own, words, _ in self.kept:
            self._enter(own, words)
        for site in self.users:
            site.words[TABLE // 8] = self.words.buffer_info()[0]
        self.before.append(old)

    def _enter(self, own: array.array[int], plan: array.array[int]) -> None:
        h = 0
        for w in own[1:]:
            h = _signed((h ^ w) * _MIX)
            h ^= h >> 29
        slot = h & self.words[0]
        while self.words[1 + 3 * slot]:
            slot = slot + 1 & self.words[0]
        self.words[1 + 3 * slot : 4 + 3 * slot] = array.array("q", [own.buffer_info()[0], h, plan.buffer_info()[0]])


def _signed(w: int) -> int:
    """The same 64 bits as a number that may be negative."""
    return ((w + (1 << 63)) & _ALL) - (1 << 63)


class Site(types.ModuleType):
    """What stands behind a function that programs call. Until the first call it is called itself.

    Python takes a module for the home of a function: so it has the name that pickle and programs know it by.
    """

    __slots__ = ("missed", "names", "parameters", "remember", "slow", "table", "words")
    words: array.array[int]

    def __init__(
        self, slow: Any, remember: Any, table: Table, parameters: Sequence[str], positional: int, runtime: int,
        by_element: bool,
    ):  # fmt: skip
        super().__init__("flambeau")
        self.slow, self.remember, self.table = slow, remember, table
        self.parameters = tuple(map(sys.intern, parameters))
        self.names = array.array("q", map(id, self.parameters))

        def missed(*args: Any, **named: Any) -> Any:
            out = slow(*args, **named)  # raises what there is to raise
            if not modes.on:
                rest = [named.get(name, absent) for name in self.parameters[len(args) :]]
                remember([*args, *rest], out)
            return out

        self.missed = missed
        known = 0 if _entries.known is None else _entries.known.buffer_info()[0]
        words = [id(slow), id(missed), table.words.buffer_info()[0], runtime, by_element, known]
        words += [len(self.parameters), positional, self.names.buffer_info()[0]]
        self.words = array.array("q", words)
        table.users.append(self)

    def __call__(self, *args: Any, **named: Any) -> Any:
        _entries.open()
        return self.slow(*args, **named)


def _mark() -> Any:
    """What new tensors of this thread are marked with."""
    marks = modes.inferring
    return None if marks is None else marks.get(threading.get_ident())


class _Entries:
    """The machine code, made when the first site is called, and the sites that wait for it."""

    def __init__(self) -> None:
        self.waiting: list[Any] | None = []  # None once there is machine code
        self.methods: list[Any] = []
        self.tensor: Any = None
        self.known: array.array[int] | None = None
        self.address = 0

    def prepare(self, tensor: Any) -> bool:
        """Told once what a tensor is; whether there will be entries at all."""
        if not _usable():
            return False
        self.tensor = tensor
        found: dict[str, Any] = dict(
            tensor=tensor, parameter=tensor, ndarray=np.ndarray, zero=0, one=1, none=None, true=True, false=False,
            float=float, int=int, modes=modes, tuple=tuple, list=list, size=Size, str=str, dtype=dtype, new_tuple=tuple.__new__, local=local, grad=sys.intern("grad"), mark=_mark,
        )  # fmt: skip
        self.known = array.array("q", [id(found[name]) if name in found else 0 for name in _KNOWN])
        self.address = ctypes.cast(ctypes.pythonapi.PyObject_Vectorcall, ctypes.c_void_p).value or 0
        return True

    def also_plain(self, kind: type) -> None:
        """A subclass of tensors whose operations are those of tensors."""
        if self.known is not None:
            self.known[_KNOWN.index("parameter")] = id(kind)

    def open(self) -> None:
        """Makes the machine code, at the first call of a site."""
        if self.waiting is None:
            return
        waiting, self.waiting = self.waiting, None
        new = new_array() if waiting and known_layout() else None
        if new is None or self.known is None:
            return
        offsets = _Offsets(self.tensor)
        if not offsets.hold(self.tensor):
            return
        self.known[_KNOWN.index("new")] = new
        parameters = ["self", "args", "given", "names"]
        self.address = compile_function("entry", _entry, parameters, place_of=offsets)
        for method in waiting:
            method.function = self.address

    @contextlib.contextmanager
    def switched_off(self) -> Iterator[None]:
        """Within it all sites call their Python functions, as they do where there is no machine code."""
        self.open()
        own, plain = self.address, ctypes.cast(ctypes.pythonapi.PyObject_Vectorcall, ctypes.c_void_p).value
        for method in self.methods:
            method.function = plain
        try:
            yield
        finally:
            for method in self.methods:
                method.function = own

    def function(self, site: Site, name: str, doc: str | None) -> Any:
        """The function of a site."""
        method = _Method(name.encode(), self.address, _FASTCALL_WITH_NAMES, doc.encode() if doc else None)
        self.methods.append(method)
        if self.waiting is not None:
            self.waiting.append(method)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
        return make(ctypes.addressof(method), site, "flambeau")


def _usable() -> bool:
    """Whether this interpreter is one whose objects the machine code knows, and nobody forbids it."""
    if os.environ.get("FLAMBEAU_NATIVE_ENTRY") == "0" or not hasattr(ctypes.pythonapi, "PyObject_Vectorcall"):
        return False
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    return bool(locked) and sys.implementation.name == "cpython"


_entries = _Entries()
prepare, also_plain, switched_off = _entries.prepare, _entries.also_plain, _entries.switched_off


absent = object()  # stands for an argument that was not given


def site(
    slow: Callable[..., Any], remember: Callable[..., None], table: Table, parameters: Sequence[str],
    positional: int | None = None, runtime: int = 0, by_element: bool = False, name: str = "",
) -> Any:  # fmt: skip
    """A function like `slow` that carries out plans of the table by itself.

    `remember(values, out)` is told of calls that the table does not know: the values of all parameters, `absent` where none
    was given, and the result. The first `positional` of them need not be named. Numbers in places of `runtime` (bits) are operands, of which plans know only the type.
    """
    first = len(parameters) if positional is None else positional
    own = Site(slow, remember, table, parameters, first, runtime, by_element)
    return _entries.function(own, name or slow.__name__, slow.__doc__)


def another(function: Any, slow: Callable[..., Any]) -> Any:
    """A further function over the plans of a site's, such as an operator; `slow` itself where there is no site."""
    own = getattr(function, "__self__", None)
    if not isinstance(own, Site):
        return slow
    runtime, by_element = own.words[RUNTIME // 8], own.words[BY_ELEMENT // 8]
    positional = own.words[POSITIONAL // 8]
    return site(slow, own.remember, own.table, own.parameters, positional, runtime, bool(by_element))


def as_method(function: Any) -> Any:
    """What binds a site's function to the object it is an attribute of, as Python's own functions do by themselves."""
    if not isinstance(getattr(function, "__self__", None), Site):
        return function
    make = ctypes.pythonapi.PyInstanceMethod_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object]
    return make(function)


# -- descriptions and plans, as the machine code reads them --------------------------------------------------------


def description(
    args: Sequence[Any], tensor: type, runtime: int = 0, alike: bool = False, history: int | None = None
) -> list[int]:
    """The words that arguments are described by; `alike` leaves shapes out, `history` says which require gradients."""
    words = [ALIKE] if alike else [] if history is None else [history]
    for i, a in enumerate(args):
        at_runtime, kind = runtime >> i & 1, a.__class__
        if a is absent:
            words.append(ABSENT)
        elif isinstance(a, tensor):
            x = a._array  # type: ignore[attr-defined]
            words.append(id(x.dtype))
            if not alike:
                words.append(x.ndim + (x.flags.aligned << 16))
                for n, s in zip(x.shape, x.strides):
                    words += [n, s]
        elif kind is float:
            words += [FLOAT] if at_runtime else [FLOAT, *struct.unpack("q", struct.pack("d", a))]
        elif kind is int:
            words += [INT] if at_runtime else [INT, a]
        elif kind is tuple or kind is list or kind is Size:
            words += [SEVERAL + (len(a) << 8), *a]
        else:
            words.append(id(a))
    return words


class Plan:
    """What one call does, in words. `keep` are objects that the words point to.

    Operands go by numbers: 0 for constants, then the tensors and the numbers at run time among the arguments (`inputs` of
    them), then results. The last results may be left out of what is returned: they are memory on the way.
    """

    def __init__(self, inputs: int = 0, record: Callable[..., Any] | None = None) -> None:
        self.inputs, self.record = inputs, record
        self.results: list[int] = []
        self.loops: list[int] = []
        self.counts = [0, 0, 0]  # results, those returned, loops
        self.together: Any = None  # the class of tuples that several results come in
        self.keep: list[Any] = []

    def _numbers(self, numbers: Sequence[int]) -> int:
        """The address of numbers that stay where they are."""
        own = array.array("q", numbers)
        self.keep.append(own)
        return own.buffer_info()[0]

    def result(
        self, dtype: Any, shape: Sequence[int] = (), strides: Sequence[int] | None = None, returned: bool = True
    ) -> int:
        """A result of a dtype of ours, row-major unless strides (in bytes) are given; gives its number among operands."""
        where = 0 if strides is None else self._numbers(strides)
        self.results += [id(dtype.numpy), len(shape), self._numbers(shape), where, id(dtype)]
        self.keep.append(dtype)
        self.counts[0] += 1
        self.counts[1] += returned
        return self.inputs + self.counts[0]

    def constant(self, array: Any) -> tuple[int, int]:
        """An array that is the same at each call, as an operand."""
        self.keep.append(array)
        return 0, array.__array_interface__["data"][0]

    def loop(
        self, address: int, data: Any, dims: Sequence[int], steps: Sequence[int], operands: Sequence[tuple[int, int]],
        outer: Sequence[int] = (), strides: Sequence[Sequence[int]] = (),
    ) -> None:  # fmt: skip
        """A native loop over operands (their numbers, bytes from where these begin), repeated over `outer` sizes with `strides`
        of each operand."""
        self.loops += [address, self._numbers(dims), self._numbers(steps), 0 if data is None else data.buffer_info()[0]]
        self.loops += [len(operands), len(outer), *outer]
        for j, (number, offset) in enumerate(operands):
            self.loops += [8 * number, offset, *(strides[j] if outer else ())]
        self.keep.append(data)
        self.counts[2] += 1

    def expect(self, operand: tuple[int, int], answer: bool) -> None:
        """From here on the plan is good only if the byte at an operand is this; otherwise the Python function is called."""
        self.loops += [0, answer, 0, 0, 1, 0, 8 * operand[0], operand[1]]
        self.counts[2] += 1

    def words(self) -> array.array[int]:
        together = 0 if self.together is None else id(self.together)
        return array.array(
            "q", [*self.counts, 0 if self.record is None else id(self.record), together, *self.results, *self.loops]
        )


NO_PLAN = Plan()  # of arguments that are known to have none
