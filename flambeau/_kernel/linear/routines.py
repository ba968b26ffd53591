"""Routines of libraries that take all arguments by reference, such as LAPACK's, as loops: plans carry them out like kernels."""

from __future__ import annotations

import functools
from typing import Any

from ..loops.dialect import compile_function
from ..loops.ufunc import make_ufunc


def _passed(m: Any, args: Any, steps: Any, i: Any, order: tuple[int, ...]) -> None:
    """Calls the routine, whose address is before the numbers, on the i-th place of its operands."""
    numbers = m.word(args)
    given = [numbers - 8 * n if n < 0 else m.word(args, 8 * n) + i * m.word(steps, 8 * n) for n in order]
    m.run(m.word(numbers), *given)


def _loop(m, args, dims, steps, data, order):
    for i in range(m.word(dims)):
        _passed(m, args, steps, i, order)
    m.clear_float_status()


@functools.cache
def routine_ufunc(name: str, order: tuple[int, ...], kinds: tuple[str, ...]) -> Any:
    """A generalized ufunc of words (the routine's address, then numbers and letters) and of arrays of these kinds in one dimension, which
    the routine reads and writes. `order` says for each argument of the routine which array it is, counted from 1, or by a
    negative number which of the words."""
    address = compile_function("routine", _loop, ["args", "dims", "steps", "data"], order=order)
    cores = [f"(n{i})" for i in range(len(kinds) + 1)]
    return make_ufunc(name, address, ["i64"], list(kinds), f"{cores[0]}->{','.join(cores[1:])}")
