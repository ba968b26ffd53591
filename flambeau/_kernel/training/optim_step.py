"""The function of Python's that makes an optimizer's step: reads tensors as the interpreter holds them.

Lists of arrays would have to be made for every step, which takes longer than changing a few thousand elements. The
function written here, in the dialect of `native`, follows the pointers itself, from a list of parameters to the addresses of
their elements, of their gradients and of the states in the optimizer's dicts.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, NamedTuple

import numpy as np

from ..loops.dialect import compile_module, inline
from ..loops.lang import KernelScope
from ..loops.pointwise import _pointer
from ..render.llvm import Llvm
from ..render.value import Value
from ..threads.pool import WORTHWHILE

HEADER = 2  # words before the rows of the table: elements in all, rows
MOST_SETTINGS = 16
WEIGHT = 8  # what one element costs, in additions
_SMALL = WORTHWHILE // WEIGHT  # elements that one thread changes while the interpreter waits

# Where CPython and NumPy keep things: offsets into a list, a tuple, an ndarray and its dtype, in bytes.
_HEAD = object.__basicsize__
_TYPE, _LIST_SIZE, _LIST_ITEMS, _TUPLE_ITEMS = _HEAD - 8, _HEAD, _HEAD + 8, tuple.__basicsize__
_DATA, _NDIM, _SHAPE, _DTYPE, _FLAGS = _HEAD, _HEAD + 8, _HEAD + 16, _HEAD + 40, _HEAD + 48
_BYTEORDER, _NUMBER = _HEAD + 10, _HEAD + 12
_USABLE = 0x1 | 0x100 | 0x400  # flags: C-contiguous, aligned, writable
_NATIVE = ord("=")
NUMPY_NUMBER = {"f32": np.dtype("f4").num, "f64": np.dtype("f8").num}
_SINGLE, _DOUBLE = NUMPY_NUMBER["f32"], NUMPY_NUMBER["f64"]


class Places(NamedTuple):
    """The classes of tensors and of what holds their gradients, and where they keep things: offsets in bytes."""

    tensor: type
    meta: type
    array_at: int
    meta_at: int
    grad_at: int  # into what is at `meta_at`


def find_places(tensor: type, array: str, meta: str, meta_class: type, grad: str) -> Places | None:
    """Where these slots are; None if objects do not lie in memory as expected."""
    if not _supported():
        return None
    offsets = [_offset(tensor, array), _offset(tensor, meta), _offset(meta_class, grad)]
    return None if None in offsets else Places(tensor, meta_class, *offsets)  # type: ignore[arg-type]


def _offset(kind: type, name: str) -> int | None:
    """Looks for a slot's value in an object."""
    probe: Any = object.__new__(kind)
    mark = object()
    setattr(probe, name, mark)
    words = (ctypes.c_ssize_t * (kind.__basicsize__ // 8)).from_address(id(probe))
    found = [8 * i for i, word in enumerate(words) if word == id(mark)]
    return found[0] if len(found) == 1 else None


@functools.cache
def _supported() -> bool:
    """Whether a real list, tuple and array lie in memory as is written here."""
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()  # what is read must not change meanwhile
    if sys.implementation.name != "cpython" or sys.byteorder != "little" or not locked:
        return False
    sample = np.zeros((3, 5), np.float32)
    held, tied = [sample], (sample,)

    def peek(kind: Any, address: int) -> int:
        return kind.from_address(address).value

    word, half = ctypes.c_ssize_t, ctypes.c_int32
    at, d = id(sample), id(sample.dtype)
    return (
        peek(word, id(held) + _LIST_SIZE) == 1
        and peek(word, peek(word, id(held) + _LIST_ITEMS)) == at
        and peek(word, id(tied) + _TUPLE_ITEMS) == at
        and peek(word, at + _TYPE) == id(np.ndarray)
        and peek(word, at + _DATA) == sample.ctypes.data
        and peek(half, at + _NDIM) == 2
        and [peek(word, peek(word, at + _SHAPE) + 8 * i) for i in range(2)] == [3, 5]
        and peek(word, at + _DTYPE) == d
        and peek(half, at + _FLAGS) & _USABLE == _USABLE
        and peek(ctypes.c_uint8, d + _BYTEORDER) == _NATIVE
        and peek(half, d + _NUMBER) == sample.dtype.num
    )


class NumberScope(KernelScope):
    """The domain in which a formula's `numbers` are read: double precision, powers from the C library."""

    def pow(self, a: Any, b: Any) -> Value:
        a, b = (x if isinstance(x, Value) else self.r.constant("f64", x) for x in (a, b))
        return self.r.library_call("pow", "f64", a, b)


# -- the step ----------------------------------------------------------------------------------------------------

# Words behind `self`: classes; functions, and the data of `split`; what is given, and the table. A row of that: the number of elements
# up to here, the addresses of parameter, gradient and states, the numbers of the formula, and the 0-d states.
SELF = (
    "kind", "tensor", "meta", "dict", "numbers", "update", "split", "data",
    "operands", "scalars", "given", "width", "dtype",
)  # fmt: skip
_WORDS = bytes.__basicsize__ - 1


@inline
def is_a(m, item, kind):
    """Whether an object is of a class, or of one made from it; none is not."""
    found = 0
    if item != 0:
        found = m.short("PyType_IsSubtype", m.word(item, _TYPE), kind)
    return found


@inline
def elements(m, item):
    """The number of elements of an array."""
    total, shape = 1, m.word(item, _SHAPE)
    for d in range(m.half(item, _NDIM)):
        total = total * m.word(shape, d * 8)
    return total


def gather(m, self, args, table, where):
    """Fills the rows with arrays: how many elements there are, or -1 if something is not what the step is for."""
    at, params, states = m.fields(self + _WORDS, SELF), m.word(args), m.word(args, 8)
    column, names, total = m.word(params, _LIST_ITEMS), m.word(args, 16), 0
    needed = at.operands + at.scalars
    if (needed > 2) & (is_a(m, states, at.dict) == 0):
        return -1
    for i in range(m.word(params, _LIST_SIZE)):
        p, row = m.word(column, i * 8), table + (i * at.width + HEADER) * 8
        length, own = 0, 0
        if is_a(m, p, at.tensor) == 0:
            return -1
        meta = m.word(p, where.meta_at)
        if meta == 0:
            return -1
        if m.word(meta, _TYPE) != at.meta:
            return -1
        if needed > 2:
            own = m.call("PyDict_GetItemWithError", states, p)
            if own == 0:
                return -1
            if m.word(own, _TYPE) != at.dict:
                return -1
        for k in range(needed):
            t, place = p, k + 1
            if k == 1:
                t = m.word(meta, where.grad_at)
            if k > 1:
                t = m.call("PyDict_GetItemWithError", own, m.word(names, _TUPLE_ITEMS + (k - 2) * 8))
            if is_a(m, t, at.tensor) == 0:
                return -1
            item = m.word(t, where.array_at)
            if item == 0:
                return -1
            if m.word(item, _TYPE) != at.kind:
                return -1
            d = m.word(item, _DTYPE)
            number, foreign = m.half(d, _NUMBER), (m.word(d, _BYTEORDER) & 0xFF) != _NATIVE
            if ((m.half(item, _FLAGS) & _USABLE) != _USABLE) | foreign:
                return -1
            if k < at.operands:
                count = elements(m, item)
                if k == 0:
                    length = count
                if (number != at.dtype) | (count != length):
                    return -1
            else:  # a 0-d state
                place = at.width - needed + k
                if (m.half(item, _NDIM) != 0) | ((number != _SINGLE) & (number != _DOUBLE)):
                    return -1
            m.put(row, place * 8, item)
        total = total + length
    return total


def step(m, self, args, count):
    """`step(parameters, states, names, settings)`, which returns whether it has made the step."""
    at, params, given = m.fields(self + _WORDS, SELF), m.word(args), m.word(args, 24)
    settings, done, total = m.space(MOST_SETTINGS), 0, 0 - 1
    for k in range(at.given):  # this may run code of Python's, so it comes first
        m.put(settings, k * 8, _double(m, m.word(given, _TUPLE_ITEMS + k * 8)))
    if m.call("PyErr_Occurred") != 0:
        return 0
    rows = m.word(params, _LIST_SIZE)
    table = m.call("PyMem_RawMalloc", (rows * at.width + HEADER) * 8)
    if table != 0:
        total = m.call("gather", self, args, table)
    if total >= 0:
        kept, end = 0, 0
        if total > _SMALL:  # others run meanwhile, and could let go of an array
            kept = m.call("PyList_New", 0)
        for i in range(rows):
            row = table + (i * at.width + HEADER) * 8
            for k in range(at.operands):
                item = m.word(row, 8 + k * 8)
                if kept != 0:
                    m.short("PyList_Append", kept, item)
                if k == 0:
                    end = end + elements(m, item)
                    m.put(row, 0, end)
                m.put(row, 8 + k * 8, m.word(item, _DATA))
            m.run(at.numbers, row, settings)
        m.put(table, 0, total)
        m.put(table, 8, rows)
        operands, extent, steps = (
            m.space(2),
            m.space(1),
            m.space(2),
        )  # of `update`: the table, and the first element's number
        m.put(operands, 0, table)
        m.put(operands, 8, 0)
        m.put(extent, 0, total)
        m.put(steps, 0, 0)
        m.put(steps, 8, 1)
        if kept == 0:
            m.run(at.update, operands, extent, steps, 0)
        else:
            thread = m.call("PyEval_SaveThread")
            m.run(at.split, operands, extent, steps, at.data)
            m.run("PyEval_RestoreThread", thread)
            m.run("Py_DecRef", kept)
        done = 1
    m.run("PyMem_RawFree", table)
    m.run("PyErr_Clear")
    return m.call("PyBool_FromLong", done)


def _double(m: Any, item: Value) -> Value:
    """The bits of a number of Python's as a float64."""
    m.r.declarations.add("declare double @PyFloat_AsDouble(i64)")
    wide = m.r.value(f"call double @PyFloat_AsDouble(i64 {item.name})", "f64")
    return m.r.value(f"bitcast double {wide.name} to i64", "i64")


@functools.cache
def compile_step(where: Places) -> int:
    """The address of `step`, which is the same for all formulas."""
    functions: dict[Any, list[str]] = {gather: ["self", "args", "table"], step: ["self", "args", "count"]}
    return compile_module(functions, 0, where=where)


def render_numbers(formula: Any, options: Any, operands: int, scalars: int, given: int) -> tuple[str, int]:
    """LLVM text of `numbers(row, settings)`, which writes what the elements of a parameter share into its row, and its new 0-d
    states; and how many numbers that are."""
    probe = Llvm("probe", [])
    zero, first = probe.constant("f64", 0), 1 + operands
    count = len(formula.numbers(NumberScope(probe), [zero] * scalars, [zero] * given, options)[1])
    r, states, old = Llvm("numbers", ["ptr %row", "ptr %settings"]), [], []
    for k in range(scalars):
        item = _pointer(r, "%row", first + count + k)
        kind = r.load(r.address(_pointer(r, item, _DTYPE // 8), r.constant("i64", _NUMBER)), "i32")
        single, place, value = kind == _SINGLE, _pointer(r, item, _DATA // 8), r.variable("f64")
        states.append((place, (("f32", single), ("f64", ~single))))
        for code, holds in states[-1][1]:
            with r.when(holds):
                r.write(value, "f64", r.load(place, code))
        old.append(r.read(value, "f64"))
    settings = [r.load(r.address("%settings", r.constant("i64", 8 * k)), "f64") for k in range(given)]
    changed, numbers = formula.numbers(NumberScope(r), old, settings, options)
    for (place, kinds), new in zip(states, changed, strict=True):
        for code, holds in kinds:
            with r.when(holds):
                r.store(place, code, new)
    for k, number in enumerate(numbers):
        number = number if isinstance(number, Value) else r.constant("f64", number)
        r.store(r.address("%row", r.constant("i64", 8 * (first + k))), "f64", number)
    return r.text(), count
