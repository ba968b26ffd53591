"""The function of Python's that makes an optimizer's step: reads tensors as the interpreter holds them.

Lists of arrays would have to be made for every step, which takes longer than changing a few thousand elements. The
function written here follows the pointers itself, from a list of parameters to the addresses of their elements, of
their gradients and of the states in the optimizer's dicts.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .lang import KernelScope
from .loops import _pointer
from .render_llvm import Llvm
from .value import Value

HEADER = 2  # words before the rows of the table: elements in all, rows
_SMALL = 1 << 15  # elements that one thread changes while the interpreter waits

# Where CPython and NumPy keep things: offsets into a list, a tuple, an ndarray and its dtype, in bytes.
_HEAD = object.__basicsize__
_TYPE, _LIST_SIZE, _LIST_ITEMS, _TUPLE_ITEMS = _HEAD - 8, _HEAD, _HEAD + 8, _HEAD + 8
_DATA, _NDIM, _SHAPE, _DTYPE, _FLAGS = _HEAD, _HEAD + 8, _HEAD + 16, _HEAD + 40, _HEAD + 48
_BYTEORDER, _NUMBER = _HEAD + 10, _HEAD + 12
_USABLE = 0x1 | 0x100 | 0x400  # flags: C-contiguous, aligned, writable
_NATIVE = ord("=")
NUMPY_NUMBER = {"f32": np.dtype("f4").num, "f64": np.dtype("f8").num}


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


# -- reading objects ---------------------------------------------------------------------------------------------


def _long(r: Llvm, pointer: str, offset: int) -> Value:
    return r.load(r.address(pointer, r.constant("i64", offset)), "i64")


def _int(r: Llvm, pointer: str, offset: int) -> Value:
    return r.cast(r.load(r.address(pointer, r.constant("i64", offset)), "i32"), "i64")


def _address(r: Llvm, pointer: str, offset: int | Value) -> str:
    place = r.address(pointer, r.constant("i64", offset) if isinstance(offset, int) else offset)
    return r.value(f"load ptr, ptr {place}, align 8", "i64").name


def _as_word(r: Llvm, pointer: str) -> Value:
    return r.value(f"ptrtoint ptr {pointer} to i64", "i64")


def _call(r: Llvm, result: str, name: str, *args: str) -> str:
    """Calls a function of Python's; arguments as `type name`."""
    r.declarations.add(f"declare {result} @{name}({', '.join(a.split()[0] for a in args)})")
    text = f"call {result} @{name}({', '.join(args)})"
    if result == "void":
        r.emit(text)
        return ""
    return r.value(text, "i64").name


def _number_of_dtype(r: Llvm, item: str) -> Value:
    """NumPy's number of an array's dtype; -1 in foreign byte order."""
    d = _address(r, item, _DTYPE)
    native = r.load(r.address(d, r.constant("i64", _BYTEORDER)), "u8") == _NATIVE
    return r.select(native, _int(r, d, _NUMBER), r.constant("i64", -1))


def _length(r: Llvm, item: str) -> Value:
    """The number of elements of an array."""
    total, shape = r.variable("i64"), _address(r, item, _SHAPE)
    r.write(total, "i64", r.constant("i64", 1))
    with r.loop(r.constant("i64", 0), _int(r, item, _NDIM)) as d:
        r.write(total, "i64", r.read(total, "i64") * r.load(r.address(shape, d * 8), "i64"))
    return r.read(total, "i64")


def _read_scalar(r: Llvm, item: str) -> tuple[Value, Callable[[Value], None]]:
    """The value of a 0-d state, and what writes it back."""
    place, value = _address(r, item, _DATA), r.variable("f64")
    single = _number_of_dtype(r, item) == NUMPY_NUMBER["f32"]
    with r.when(single):
        r.write(value, "f64", r.load(place, "f32"))
    with r.when(~single):
        r.write(value, "f64", r.load(place, "f64"))

    def write(new: Value) -> None:
        with r.when(single):
            r.store(place, "f32", new)
        with r.when(~single):
            r.store(place, "f64", new)

    return r.read(value, "f64"), write


class _Function(Llvm):
    """A function as Python calls it: (self, arguments, their number) -> object."""

    def __init__(self, name: str):
        super().__init__(name, ["ptr %self", "ptr %args", "i64 %count"])
        self.result = self.variable("i64")
        self.emit(f"store ptr null, ptr {self.result}")

    def text(self) -> str:
        made = self.value(f"load ptr, ptr {self.result}", "i64").name
        return super().text().replace("define void", "define ptr", 1).replace("  ret void", f"  ret ptr {made}", 1)


# -- the step ----------------------------------------------------------------------------------------------------

SELF = ("kind", "tensor", "meta", "dict", "update", "split", "data")  # words behind `self`


class Step:
    """Writes `step(parameters, states, names, settings)`, which returns whether it has made the step.

    Behind its `self` are the classes ndarray, Tensor, Meta and dict, `update`, the loop that runs it on several threads,
    and that loop's data. A row of the table: the number of elements up to here, the addresses of parameter, gradient and
    states, the numbers of the formula, and the 0-d states.
    """

    def __init__(self, formula: Any, where: Places, options: Any, code: str, states: int, scalars: int, given: int):
        self.formula, self.where, self.options, self.code = formula, where, options, code
        self.operands, self.scalars, self.given = 2 + states, scalars, given
        probe = Llvm("probe", [])
        zero = probe.constant("f64", 0)
        self.numbers = len(formula.numbers(NumberScope(probe), [zero] * scalars, [zero] * given, options)[1])
        self.width = 1 + self.operands + self.numbers + scalars
        self.r = r = _Function("step")
        for i, name in enumerate(SELF):
            place = r.address("%self", r.constant("i64", bytes.__basicsize__ - 1 + 8 * i))
            r.emit(f"%{name} = load ptr, ptr {place}, align 1")
        self.zero, self.total, self.holds = r.constant("i64", 0), r.variable("i64"), r.variable("b1")

    def text(self) -> str:
        """The function in LLVM's language."""
        r = self.r
        settings = self._settings()
        failed = _as_word(r, _call(r, "ptr", "PyErr_Occurred")) != 0
        with r.when(~failed):
            params = _pointer(r, "%args", 0)
            self.rows, self.column = _long(r, params, _LIST_SIZE), _address(r, params, _LIST_ITEMS)
            size = (self.rows * self.width + HEADER) * 8
            self.table = _call(r, "ptr", "PyMem_RawMalloc", f"i64 {size.name}")
            r.write(self.total, "i64", self.zero)
            r.write(self.holds, "b1", r.constant("b1", True))
            self._need(_as_word(r, self.table) != 0)
            with r.when(r.read(self.holds, "b1")):
                self._gather()
            with r.when(r.read(self.holds, "b1")):
                self._change(settings)
            _call(r, "void", "PyMem_RawFree", f"ptr {self.table}")
            _call(r, "void", "PyErr_Clear")
            done = r.cast(r.read(self.holds, "b1"), "i64")
            r.emit(f"store ptr {_call(r, 'ptr', 'PyBool_FromLong', f'i64 {done.name}')}, ptr {r.result}")
        return r.text()

    def _settings(self) -> list[Value]:
        """The group's numbers; asking for them may run code of Python's, so it comes first."""
        r, given = self.r, _pointer(self.r, "%args", 3)
        items = [_address(r, given, _TUPLE_ITEMS + 8 * k) for k in range(self.given)]
        return [Value(r, _call(r, "double", "PyFloat_AsDouble", f"ptr {item}"), "f64") for item in items]

    def _need(self, condition: Value) -> None:
        self.r.write(self.holds, "b1", self.r.read(self.holds, "b1") & condition)

    def _is(self, item: str, kind: str, exact: bool = False) -> Value:
        """Whether an object is of a class; none is not."""
        r, found = self.r, self.r.variable("b1")
        r.write(found, "b1", r.constant("b1", False))
        with r.when(_as_word(r, item) != 0):
            own = _address(r, item, _TYPE)
            if exact:
                r.write(found, "b1", _as_word(r, own) == _as_word(r, kind))
            else:
                answer = _call(r, "i32", "PyType_IsSubtype", f"ptr {own}", f"ptr {kind}")
                r.write(found, "b1", r.value(f"trunc i32 {answer} to i1", "b1"))
        return r.read(found, "b1")

    def _cell(self, row: Value, index: int) -> str:
        return self.r.address(self.table, row * (8 * self.width) + 8 * (HEADER + index))

    def _gather(self) -> None:
        """Fills the rows with arrays, and checks that they are what the step is for."""
        r, where = self.r, self.where
        with r.loop(self.zero, self.rows) as row:
            p, length = _address(r, self.column, row * 8), r.variable("i64")
            is_tensor = self._is(p, "%tensor")
            self._need(is_tensor)
            with r.when(is_tensor):
                self._take(p, row, 1, length)
                meta = _address(r, p, where.meta_at)
                has_meta = self._is(meta, "%meta", exact=True)
                self._need(has_meta)
                with r.when(has_meta):
                    self._take(_address(r, meta, where.grad_at), row, 2, length)
                if self.operands > 2 or self.scalars:
                    self._take_states(p, row, length)
            with r.when(r.read(self.holds, "b1")):
                r.write(self.total, "i64", r.read(self.total, "i64") + r.read(length, "i64"))

    def _take_states(self, p: str, row: Value, length: str) -> None:
        r = self.r
        states, names = _pointer(r, "%args", 1), _pointer(r, "%args", 2)
        known = self._is(states, "%dict")
        self._need(known)
        with r.when(known):
            own = _call(r, "ptr", "PyDict_GetItemWithError", f"ptr {states}", f"ptr {p}")
            started = self._is(own, "%dict", exact=True)
            self._need(started)
            with r.when(started):
                places = [*range(3, 1 + self.operands), *range(self.width - self.scalars, self.width)]
                for k, place in enumerate(places):
                    name = _address(r, names, _TUPLE_ITEMS + 8 * k)
                    state = _call(r, "ptr", "PyDict_GetItemWithError", f"ptr {own}", f"ptr {name}")
                    self._take(state, row, place, length)

    def _take(self, t: str, row: Value, place: int, length: str) -> None:
        """Puts the array of a tensor into a row."""
        r = self.r
        is_tensor = self._is(t, "%tensor")
        self._need(is_tensor)
        with r.when(is_tensor):
            item = _address(r, t, self.where.array_at)
            is_array = self._is(item, "%kind", exact=True)
            self._need(is_array)
            with r.when(is_array):
                r.store(self._cell(row, place), "i64", _as_word(r, item))
                self._need((_int(r, item, _FLAGS) & _USABLE) == _USABLE)
                number = _number_of_dtype(r, item)
                if place > self.operands:  # a 0-d state
                    known = (number == NUMPY_NUMBER["f32"]) | (number == NUMPY_NUMBER["f64"])
                    self._need((_int(r, item, _NDIM) == 0) & known)
                    return
                self._need(number == NUMPY_NUMBER[self.code])
                if place == 1:
                    r.write(length, "i64", _length(r, item))
                else:
                    self._need(_length(r, item) == r.read(length, "i64"))

    def _change(self, settings: list[Value]) -> None:
        """Computes the numbers of all rows, and changes the elements."""
        r = self.r
        everything = r.read(self.total, "i64")
        large = everything > _SMALL
        kept, end = r.variable("i64"), r.variable("i64")
        with r.when(large):
            r.emit(f"store ptr {_call(r, 'ptr', 'PyList_New', 'i64 0')}, ptr {kept}")
        r.write(end, "i64", self.zero)
        with r.loop(self.zero, self.rows) as row:
            for k in range(1, 1 + self.operands):
                item = r.value(f"load ptr, ptr {self._cell(row, k)}, align 8", "i64").name
                with r.when(large):  # others run meanwhile, and could let go of it
                    held = r.value(f"load ptr, ptr {kept}", "i64").name
                    _call(r, "i32", "PyList_Append", f"ptr {held}", f"ptr {item}")
                if k == 1:
                    r.write(end, "i64", r.read(end, "i64") + _length(r, item))
                    r.store(self._cell(row, 0), "i64", r.read(end, "i64"))
                r.store(self._cell(row, k), "i64", _as_word(r, _address(r, item, _DATA)))
            self._number(row, settings)
        r.store(self.table, "i64", everything)
        r.store(r.address(self.table, r.constant("i64", 8)), "i64", self.rows)
        with r.when(~large):
            self._call_update(everything, "%update", "null")
        with r.when(large):
            thread = _call(r, "ptr", "PyEval_SaveThread")
            self._call_update(everything, "%split", "%data")
            _call(r, "void", "PyEval_RestoreThread", f"ptr {thread}")
            _call(r, "void", "Py_DecRef", f"ptr {r.value(f'load ptr, ptr {kept}', 'i64').name}")

    def _number(self, row: Value, settings: list[Value]) -> None:
        """What the elements of a parameter share, and its new 0-d states."""
        r = self.r
        places = [self._cell(row, k) for k in range(self.width - self.scalars, self.width)]
        old = [_read_scalar(r, r.value(f"load ptr, ptr {place}, align 8", "i64").name) for place in places]
        changed, numbers = self.formula.numbers(NumberScope(r), [value for value, _ in old], settings, self.options)
        for (_, write), new in zip(old, changed, strict=True):
            write(new)
        for k, number in enumerate(numbers):
            number = number if isinstance(number, Value) else r.constant("f64", number)
            r.store(self._cell(row, 1 + self.operands + k), "f64", number)

    def _call_update(self, count: Value, loop: str, data: str) -> None:
        """Runs a ufunc loop whose operands are the table and the number of the first element."""
        r = self.r
        operands, extents, steps = (r.local_array("i64", n) for n in (2, 1, 2))
        r.emit(f"store ptr {self.table}, ptr {operands}")
        for place, index, value in ((operands, 1, 0), (steps, 0, 0), (steps, 1, 1)):
            r.store(r.address(place, r.constant("i64", 8 * index)), "i64", r.constant("i64", value))
        r.store(extents, "i64", count)
        r.emit(f"call void {loop}(ptr {operands}, ptr {extents}, ptr {steps}, ptr {data})")
