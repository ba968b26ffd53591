"""Runs a whole stretch of a program: native loops one after another, in one call without the interpreter's lock."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from .dialect import compile_function, run_loops

OPERANDS = 32  # of a loop, at most


def _run(m, place, loops, bases):  # type: ignore[no-untyped-def]
    return run_loops(m, place, loops, bases, m.space(OPERANDS), 0)


@functools.cache
def runner() -> Any:
    """The function (address of the words of loops, how many, address of the operands' addresses) that runs them all; it gives how many
    are left when a question is not answered as expected."""
    made = compile_function("run_program", _run, ["place", "loops", "bases"])
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(made)
