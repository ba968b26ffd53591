"""Several loops as one: what a layer computes with a few kernels becomes a single call from Python.

A call from the interpreter costs as much as a small product. The loop made here is driven by a table: which kernels
run one after another, and where each finds its operands, extents and strides among those of the whole.
"""

from __future__ import annotations

import functools
import re
from array import array
from collections.abc import Sequence
from typing import Any

from . import jit
from .loops import _PARAMETERS, _pointer, _word
from .native.direct import direct
from .render_llvm import Llvm
from .ufunc import addresses, make_ufunc
from .value import Value

_MOST_OPERANDS, _MOST_EXTENTS, _MOST_STEPS = 8, 9, 32
_HEADER = 4  # words of a call before its places: loop, counts of operands, extents and steps
_kept: list[Any] = []  # constants that tables point to


def _cell(r: Llvm, base: str, index: Value) -> str:
    return r.address(base, index * 8)


@functools.cache
def _sequence() -> int:
    """The address of the loop that runs what the table says.

    The table: the number of calls, then the words of each. Places are indices; an operand below zero is the negated
    address of a constant, a step below zero stands for 0.
    """
    r = Llvm("sequence", _PARAMETERS)
    zero = r.constant("i64", 0)
    own = [r.local_array("i64", n) for n in (_MOST_OPERANDS, _MOST_EXTENTS, _MOST_STEPS)]
    cursor = r.variable("i64")
    r.write(cursor, "i64", r.constant("i64", 8))
    with r.loop(zero, _word(r, "%data", 0)):
        call = r.address("%data", r.read(cursor, "i64"))
        places, used = r.address(call, r.constant("i64", 8 * _HEADER)), zero
        for kind, (source, target) in enumerate(zip(("%args", "%dims", "%steps"), own)):
            count = _word(r, call, 1 + kind)
            with r.loop(zero, count) as i:
                place = r.load(_cell(r, places, used + i), "i64")
                given = place >= 0
                found = r.load(_cell(r, source, r.select(given, place, zero)), "i64")
                value = r.select(given, found, zero - place if source == "%args" else zero)
                r.store(_cell(r, target, i), "i64", value)
            used = used + count
        r.emit(f"call void {_pointer(r, call, 0)}(ptr {own[0]}, ptr {own[1]}, ptr {own[2]}, ptr null)")
        r.write(cursor, "i64", r.read(cursor, "i64") + used * 8 + 8 * _HEADER)
    return jit.compile("sequence", r.text())


def _cores(signature: str) -> list[str]:
    """The core dimensions of each operand, a letter for each."""
    return [core.replace(",", "") for core in re.findall(r"\(([^)]*)\)", signature)]


def _letters(cores: Sequence[str]) -> list[str]:
    return list(dict.fromkeys("".join(cores)))


def composed(
    name: str, signature: str, inputs: Sequence[str], outputs: Sequence[str], calls: Sequence[tuple[Any, Sequence[Any]]]
) -> Any:
    """A function of small arrays, results included, that runs generalized ufuncs of ours one after another.

    Dimensions in `signature` are single letters, `inputs` and `outputs` name dtypes. Each of `calls` is a ufunc with
    its operands: (which of the whole's, its letters in the order that the ufunc expects), or a 0-d array. A letter
    that the operand does not have is a dimension along which it is repeated.
    """
    cores = _cores(signature)
    letters = _letters(cores)
    starts = [len(cores) + sum(map(len, cores[:i])) for i in range(len(cores))]  # where strides of an operand begin
    words = [len(calls)]
    for ufunc, operands in calls:
        used = [("", operand) if hasattr(operand, "shape") else (operand[1], operand[0]) for operand in operands]
        extents = [0, *[1 + letters.index(letter) for letter in _letters([core for core, _ in used])]]
        pointers, outer, inner = [], [], []
        for core, operand in used:
            constant = not isinstance(operand, int)
            if constant:
                _kept.append(operand)
            pointers.append(-operand.__array_interface__["data"][0] if constant else operand)
            outer.append(-1 if constant else operand)
            has = "" if constant else cores[operand]
            inner += [starts[operand] + has.index(letter) if letter in has else -1 for letter in core]
        steps = outer + inner
        words += [addresses[ufunc], len(pointers), len(extents), len(steps), *pointers, *extents, *steps]
    table = array("q", words)
    made = make_ufunc(name, _sequence(), inputs, outputs, signature, table)
    addresses.pop(made)  # its loop needs the table
    return direct(made, _sequence(), table)
