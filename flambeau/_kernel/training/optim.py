"""Optimizer steps over many parameters at once: a formula becomes two native functions.

`step` (see `optim_step`) finds the arrays and fills a table, a row for each parameter, into which `numbers` writes what all
elements of the parameter share (bias corrections and the like). `update` changes the elements in a range of all parameters laid end
to end, so that the pool can cut the work wherever it likes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ..building import jit
from ..loops.pointwise import _PARAMETERS, _pointer, _word
from ..native.direct import bound_address
from ..render.llvm import Llvm
from ..render.symbols import symbols
from ..render.value import COMPUTE, SIZE
from ..threads import pool
from .optim_step import HEADER, MOST_SETTINGS, NUMPY_NUMBER, WEIGHT, Places, compile_step, render_numbers


class Formula:
    """How one parameter changes in a step.

    `numbers(m, scalars, given, options)` gives the new 0-d states and the numbers that all elements share, from the
    old 0-d states and the group's settings. `update(m, p, g, states, numbers, options)` gives the new value of an
    element and of its states. Both are read with kernel symbols and with tensors, `numbers` also with Python floats.
    `options` are constants of the code: each set of them makes a kernel of its own.
    """

    def __init__(self, name: str, numbers: Callable[..., Any], update: Callable[..., Any]):
        self.name, self.numbers, self.update = name, numbers, update
        self.natives: dict[Any, Any] = {}
        self.calls: dict[Any, Any] = {}  # pointwise callables of backends, for arrays that `natives` do not suit

    def native(self, where: Places | None, options: Any, code: str, states: int, scalars: int, given: int) -> Any:
        """A function that makes the step of parameters of one dtype; None where it cannot be had.

        It takes the parameters (a list), the optimizer's states (a dict of dicts), the names of the states and of the
        0-d states (a tuple) and the group's numbers (a tuple). It returns whether it has made the step: if a state is
        missing, or anything is not a plain array, nothing has changed.
        """
        key = options, code
        if key not in self.natives:
            suits = code in NUMPY_NUMBER and where is not None and given <= MOST_SETTINGS
            self.natives[key] = _compile(self, where, options, code, states, scalars, given) if suits else None
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


def _render_update(formula: Formula, options: Any, code: str, states: int, numbers: int, width: int) -> str:
    """LLVM text of `update`: a ufunc loop whose operands are the table and the number of the first element."""
    r = Llvm("update", _PARAMETERS)
    zero, operands = r.constant("i64", 0), 2 + states
    table, start = _pointer(r, "%args", 0), _word(r, "%args", 1)
    stop = start + _word(r, "%dims", 0)
    begin = r.variable("i64")
    r.write(begin, "i64", zero)
    with r.loop(zero, _word(r, table, 1)) as i:
        row = r.address(table, i * (8 * width) + 8 * HEADER)
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


_kept: list[Any] = []  # what `step` points to


def _compile(
    formula: Formula, where: Any, options: Any, code: str, states: int, scalars: int, given: int
) -> Callable[..., bool]:
    text, numbers = render_numbers(formula, options, 2 + states, scalars, given)
    width = 1 + 2 + states + numbers + scalars
    update = jit.compile("update", _render_update(formula, options, code, states, numbers, width))
    split, data = pool.splitting(update, 2, 1, weight=WEIGHT)
    _kept.append(data)
    classes = np.ndarray, where.tensor, where.meta, dict
    functions = jit.compile("numbers", text), update, split, data.buffer_info()[0]
    words = *map(id, classes), *functions, 2 + states, scalars, given, width, NUMPY_NUMBER[code]
    return bound_address("step", compile_step(where), struct.pack(f"{len(words)}q", *words))
