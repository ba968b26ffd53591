"""Optimizer steps over many parameters at once: a formula for one element becomes two native functions.

`prepare` reads the arrays as the interpreter holds them (address, length, dtype, layout), computes what every element
of a parameter shares (bias corrections and the like) and fills a table, a row for each parameter. `update` changes the
elements in a range of all parameters laid end to end, so that the pool can cut the work wherever it likes.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import jit, pool
from .lang import KernelScope
from .loops import _PARAMETERS, _pointer, _word
from .render_llvm import Llvm
from .symbols import symbols
from .value import COMPUTE, SIZE, Value

_SMALL = 1 << 15  # elements up to which `prepare` calls `update` itself, while the interpreter waits
_WEIGHT = 8  # what one element costs, in additions

# Where CPython and NumPy keep what `prepare` reads: offsets into a list, an ndarray and its dtype, in bytes.
_HEAD = object.__basicsize__
_LIST_SIZE, _LIST_ITEMS = _HEAD, _HEAD + 8
_DATA, _NDIM, _SHAPE, _DTYPE, _FLAGS = _HEAD, _HEAD + 8, _HEAD + 16, _HEAD + 40, _HEAD + 48
_BYTEORDER, _NUMBER = _HEAD + 10, _HEAD + 12
_USABLE = 0x1 | 0x100 | 0x400  # flags: C-contiguous, aligned, writable
_NATIVE = ord("=")
_NUMPY_NUMBER = {"f32": np.dtype("f4").num, "f64": np.dtype("f8").num}
_HEADER = 2  # words before the rows of the table: elements in all (-1: refused), rows


class Formula:
    """How one parameter changes in a step.

    `numbers(m, scalars, given, options)` gives the new 0-d states and the numbers that all elements share, from the
    old 0-d states and the group's settings. `update(m, p, g, states, numbers, options)` gives the new value of an
    element and of its states. Both are read with kernel symbols and with tensors, `numbers` also with Python floats.
    `options` are constants of the code: each set of them makes a kernel of its own.
    """

    def __init__(self, name: str, numbers: Callable[..., Any], update: Callable[..., Any]):
        self.name, self.numbers, self.update = name, numbers, update
        self.natives: dict[Any, Compiled | None] = {}
        self.calls: dict[Any, Any] = {}  # pointwise callables of backends, for arrays that `natives` do not suit

    def native(self, options: Any, code: str, states: int, scalars: int, given: int) -> Compiled | None:
        """The native functions for a dtype; None where they cannot be had."""
        key = options, code
        if key not in self.natives:
            suits = code in _NUMPY_NUMBER and _supported()
            self.natives[key] = _compile(self, options, code, states, scalars, given) if suits else None
        return self.natives[key]

    def pointwise(self, backend: Any, options: Any, code: str, states: int, numbers: int) -> Any:
        """A callable of a backend over (p, g, *states, *numbers) that gives (p, *states)."""
        key = backend.name, options, code
        found = self.calls.get(key)
        if found is None:
            operands, compute = 2 + states, COMPUTE.get(code, code)

            def body(m: Any, p: Any, g: Any, *rest: Any) -> tuple[Any, ...]:
                new, changed = self.update(m, p, g, rest[:states], rest[states:], options)
                return new, *changed

            inputs = (code,) * operands + ("f64",) * numbers
            found = backend.pointwise(self.name, body, inputs, (code,) * (1 + states), (compute,) * len(inputs))
            self.calls[key] = found
        return found


class NumberScope(KernelScope):
    """The domain in which `numbers` is read for a kernel: double precision, powers from the C library."""

    def pow(self, a: Any, b: Any) -> Value:
        a, b = (x if isinstance(x, Value) else self.r.constant("f64", x) for x in (a, b))
        return self.r.library_call("pow", "f64", a, b)


class Compiled(NamedTuple):
    """The native functions of a formula for one dtype; `width` is the number of words in a row of the table."""

    prepare: Any
    update: int  # a ufunc loop that runs on several threads if it is long
    data: Any  # what that loop is given to know the kernel by
    width: int


@functools.cache
def _supported() -> bool:
    """Whether objects lie in memory as `prepare` expects; asked of a real list and a real array."""
    if sys.implementation.name != "cpython" or sys.byteorder != "little":
        return False
    sample = np.zeros((3, 5), np.float32)
    held = [sample]

    def peek(kind: Any, address: int) -> int:
        return kind.from_address(address).value  # type: ignore[no-any-return]

    word, half = ctypes.c_ssize_t, ctypes.c_int32
    at, d = id(sample), id(sample.dtype)
    return (
        peek(word, id(held) + _LIST_SIZE) == 1
        and peek(word, peek(word, id(held) + _LIST_ITEMS)) == at
        and peek(word, at + _HEAD - 8) == id(np.ndarray)
        and peek(word, at + _DATA) == sample.ctypes.data
        and peek(half, at + _NDIM) == 2
        and [peek(word, peek(word, at + _SHAPE) + 8 * i) for i in range(2)] == [3, 5]
        and peek(word, at + _DTYPE) == d
        and peek(half, at + _FLAGS) & _USABLE == _USABLE
        and peek(ctypes.c_uint8, d + _BYTEORDER) == _NATIVE
        and peek(half, d + _NUMBER) == sample.dtype.num
    )


def _long(r: Llvm, pointer: str, offset: int) -> Value:
    return r.load(r.address(pointer, r.constant("i64", offset)), "i64")


def _int(r: Llvm, pointer: str, offset: int) -> Value:
    return r.cast(r.load(r.address(pointer, r.constant("i64", offset)), "i32"), "i64")


def _address(r: Llvm, pointer: str, offset: int | Value) -> str:
    place = r.address(pointer, r.constant("i64", offset) if isinstance(offset, int) else offset)
    return r.value(f"load ptr, ptr {place}, align 8", "i64").name


def _as_word(r: Llvm, pointer: str) -> Value:
    return r.value(f"ptrtoint ptr {pointer} to i64", "i64")


def _number_of_dtype(r: Llvm, item: str) -> Value:
    """NumPy's number of an array's dtype; -1 in foreign byte order."""
    d = _address(r, item, _DTYPE)
    native = r.load(r.address(d, r.constant("i64", _BYTEORDER)), "u8") == _NATIVE
    return r.select(native, _int(r, d, _NUMBER), r.constant("i64", -1))


class _Checks:
    """A condition in the making; what a later check reads may depend on an earlier one, so it is a variable."""

    def __init__(self, r: Llvm):
        self.r, self.slot = r, r.variable("b1")
        r.write(self.slot, "b1", r.constant("b1", True))

    def need(self, condition: Value) -> None:
        self.r.write(self.slot, "b1", self.r.read(self.slot, "b1") & condition)

    @property
    def hold(self) -> Value:
        return self.r.read(self.slot, "b1")


def _length(r: Llvm, item: str) -> Value:
    """The number of elements of an array."""
    total, shape = r.variable("i64"), _address(r, item, _SHAPE)
    r.write(total, "i64", r.constant("i64", 1))
    with r.loop(r.constant("i64", 0), _int(r, item, _NDIM)) as d:
        r.write(total, "i64", r.read(total, "i64") * r.load(r.address(shape, d * 8), "i64"))
    return r.read(total, "i64")


def _check_arrays(r: Llvm, checks: _Checks, items: Sequence[str], code: str, scalars: Sequence[str]) -> None:
    """Parameter, gradient and states must be plain arrays of one dtype and length; 0-d states f32 or f64."""
    length = r.variable("i64")
    for k, item in enumerate([*items, *scalars]):
        is_array = _as_word(r, _address(r, item, _HEAD - 8)) == _as_word(r, "%kind")
        checks.need(is_array)
        with r.when(is_array):
            checks.need((_int(r, item, _FLAGS) & _USABLE) == _USABLE)
            number = _number_of_dtype(r, item)
            if k >= len(items):
                checks.need(
                    (_int(r, item, _NDIM) == 0) & ((number == _NUMPY_NUMBER["f32"]) | (number == _NUMPY_NUMBER["f64"]))
                )
                continue
            checks.need(number == _NUMPY_NUMBER[code])
            if k == 0:
                r.write(length, "i64", _length(r, item))
            else:
                checks.need(_length(r, item) == r.read(length, "i64"))


def _read_scalar(r: Llvm, item: str) -> tuple[Value, Callable[[Value], None]]:
    """The value of a 0-d state, and what writes it back."""
    place, value = _address(r, item, _DATA), r.variable("f64")
    single = _number_of_dtype(r, item) == _NUMPY_NUMBER["f32"]
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


def _render_prepare(
    formula: Formula, options: Any, code: str, states: int, scalars: int, given: int
) -> tuple[str, int]:
    """LLVM text of `prepare`, and the count of numbers in a row."""
    r = Llvm("prepare", ["ptr %lists", "ptr %table", "ptr %given", "ptr %kind", "ptr %update", "ptr %data"])
    zero, operands = r.constant("i64", 0), 2 + states
    at = _address(r, "%lists", _LIST_ITEMS)
    lists = [_pointer(r, at, k) for k in range(operands + scalars)]
    rows = _long(r, lists[0], _LIST_SIZE)
    columns = [_address(r, one, _LIST_ITEMS) for one in lists]
    checks = _Checks(r)
    with r.loop(zero, rows) as i:
        items = [_address(r, column, i * 8) for column in columns]
        _check_arrays(r, checks, items[:operands], code, items[operands:])
    header = r.address("%table", zero)
    r.store(header, "i64", r.constant("i64", -1))
    count = 0
    with r.when(checks.hold):
        total = r.variable("i64")
        r.write(total, "i64", zero)
        row = r.variable("i64")
        r.write(row, "i64", r.constant("i64", 8 * _HEADER))
        m = NumberScope(r)
        settings = [r.load(r.address("%given", r.constant("i64", 8 * k)), "f64") for k in range(given)]
        with r.loop(zero, rows) as i:
            items = [_address(r, column, i * 8) for column in columns]
            end = r.read(total, "i64") + _length(r, items[0])
            r.write(total, "i64", end)
            old = [_read_scalar(r, item) for item in items[operands:]]
            changed, numbers = formula.numbers(m, [value for value, _ in old], settings, options)
            for (_, write), new in zip(old, changed, strict=True):
                write(new)
            words = [end, *[_as_word(r, _address(r, item, _DATA)) for item in items[:operands]]]
            count = len(numbers)
            cells = r.address("%table", r.read(row, "i64"))
            for k, cell in enumerate([*words, *numbers]):
                cell = cell if isinstance(cell, Value) else r.constant("f64", cell)
                r.store(r.address(cells, r.constant("i64", 8 * k)), cell.type, cell)
            r.write(row, "i64", r.read(row, "i64") + 8 * (len(words) + count))
        everything = r.read(total, "i64")
        r.store(header, "i64", everything)
        r.store(r.address("%table", r.constant("i64", 8)), "i64", rows)
        with r.when(everything <= _SMALL):
            _call_update(r, everything)
    return r.text(), count


def _call_update(r: Llvm, count: Value) -> None:
    operands, extents, steps = (r.local_array("i64", n) for n in (2, 1, 2))
    r.emit(f"store ptr %table, ptr {operands}")
    for place, index, value in ((operands, 1, 0), (steps, 0, 0), (steps, 1, 1)):
        r.store(r.address(place, r.constant("i64", 8 * index)), "i64", r.constant("i64", value))
    r.store(extents, "i64", count)
    r.emit(f"call void %update(ptr {operands}, ptr {extents}, ptr {steps}, ptr %data)")


def _render_update(formula: Formula, options: Any, code: str, states: int, numbers: int) -> str:
    """LLVM text of `update`: a ufunc loop whose operands are the table and the number of the first element."""
    r = Llvm("update", _PARAMETERS)
    zero, operands = r.constant("i64", 0), 2 + states
    table, start = _pointer(r, "%args", 0), _word(r, "%args", 1)
    stop = start + _word(r, "%dims", 0)
    begin = r.variable("i64")
    r.write(begin, "i64", zero)
    with r.loop(zero, _word(r, table, 1)) as i:
        row = r.address(table, i * (8 * (1 + operands + numbers)) + 8 * _HEADER)
        first, end = r.read(begin, "i64"), _word(r, row, 0)
        low, high = symbols.maximum(start, first), symbols.minimum(stop, end)
        with r.when(low < high):
            pointers = [_pointer(r, row, 1 + k) for k in range(operands)]
            places = [r.address(row, r.constant("i64", 8 * (1 + operands + k))) for k in range(numbers)]
            shared = [r.cast(r.load(place, "f64"), code) for place in places]
            with r.loop(low - first, high - first, independent=True) as j:
                offset = j * SIZE[code]
                cells = [r.address(pointer, offset) for pointer in pointers]
                p, g, *old = [r.load(cell, code) for cell in cells]
                new, changed = formula.update(symbols, p, g, old, shared, options)
                for cell, value in zip([cells[0], *cells[2:]], [new, *changed], strict=True):
                    r.store(cell, code, value)
        r.write(begin, "i64", end)
    r.clear_float_status()
    return r.text()


_POINTER = ctypes.c_void_p
_KIND = id(np.ndarray)
_STEPS = array("q", [0, 1])  # of the operands of `update`


@functools.cache
def _loop(address: int) -> Any:
    """A ufunc loop as a function; other threads of the interpreter run meanwhile."""
    return ctypes.CFUNCTYPE(None, *[_POINTER] * 4)(address)


def _compile(formula: Formula, options: Any, code: str, states: int, scalars: int, given: int) -> Compiled:
    text, numbers = _render_prepare(formula, options, code, states, scalars, given)
    kernel = jit.compile("update", _render_update(formula, options, code, states, numbers))
    update, data = pool.splitting(kernel, 2, 1, weight=_WEIGHT)
    prepare = ctypes.PYFUNCTYPE(None, *[_POINTER] * 6)(jit.compile("prepare", text))
    return Compiled(prepare, update, data, 3 + states + numbers)


def run(native: Compiled, lists: list[list[Any]], given: Sequence[Any]) -> bool:
    """Makes the step on lists of arrays: parameters, gradients, states, 0-d states. False if it does not suit them."""
    table = array("q", bytes(8 * (_HEADER + len(lists[0]) * native.width)))
    settings = array("d", given)
    address, data = table.buffer_info()[0], native.data.buffer_info()[0]
    native.prepare(id(lists), address, settings.buffer_info()[0], _KIND, native.update, data)
    total = table[0]
    if total > _SMALL:
        operands, extents = array("q", [address, 0]), array("q", [total])
        _loop(native.update)(operands.buffer_info()[0], extents.buffer_info()[0], _STEPS.buffer_info()[0], data)
    return total >= 0
