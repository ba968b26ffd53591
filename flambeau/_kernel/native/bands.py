"""Loops one after another over a part of their operands, then over the next part: what one makes for another stays near the core.

Words say what a band does. A header: how many bands there are, how many loops, where the pool's `run` is and where `_band`. Then the loops:
words of this description, kernel, operands, outer dimensions, words up to the steps and to the outer extents; for each operand its
address, how far its parts are apart from band to band and from thread to thread; extents, steps, outer extents, strides of each operand.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import functools
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from ..loops.dialect import compile_function
from ..render.llvm import NOT_NUMPY
from ..threads import pool
from ..threads.walking import over_all

OPERANDS, DIMS = 16, 8  # of a loop, at most
_HEADER, _OWN, _EACH = 4, 6, 3  # words before the loops, before operands, of an operand


class BandLoop(NamedTuple):
    """What a loop does in one band. `apart` has for each operand the bytes between bands and between threads."""

    kernel: int
    dims: Sequence[int]
    steps: Sequence[int]
    outer: Sequence[int]
    strides: Sequence[Sequence[int]]
    apart: Sequence[tuple[int, int]]


def _band(m, w, job, me):
    places, loop = m.space(OPERANDS), w + _HEADER * 8
    for _ in range(m.word(w, 8)):
        operands, outer = m.word(loop, 16), m.word(loop, 24)
        for q in range(operands):
            own = loop + _OWN * 8 + q * (_EACH * 8)
            m.put(places, q * 8, m.word(own) + job * m.word(own, 8) + me * m.word(own, 16))
        dims, steps, sizes = (
            loop + (operands * _EACH + _OWN) * 8,
            loop + m.word(loop, 32) * 8,
            loop + m.word(loop, 40) * 8,
        )
        strides = sizes + outer * 8
        over_all(m, m.word(loop, 8), places, dims, steps, NOT_NUMPY, outer, sizes, operands, strides, outer * 8)
        loop += m.word(loop) * 8


def _bands(m, w, threads):
    m.run(m.word(w, 16), m.word(w, 24), w, m.word(w), threads)


@functools.cache
def _one() -> int:
    return compile_function("band", _band, ["w", "job", "me"])


@functools.cache
def entry() -> int:
    """The address of the function that is given words and a number of threads."""
    _one()
    return compile_function("bands", _bands, ["w", "threads"])


def words(bands: int, loops: Sequence[BandLoop]) -> tuple[array[int], list[list[int]]]:
    """The words, and where in them the operands of each loop have their addresses."""
    made = [bands, len(loops), pool.runner(), _one()]
    places: list[list[int]] = []
    for loop in loops:
        operands, begin = len(loop.apart), len(made) + _OWN
        steps = _OWN + operands * _EACH + len(loop.dims)
        sizes = steps + len(loop.steps)
        places.append([begin + _EACH * q for q in range(operands)])
        size = sizes + len(loop.outer) * (1 + operands)
        made += [size, loop.kernel, operands, len(loop.outer), steps, sizes]
        made += [n for pair in loop.apart for n in (0, *pair)]
        made += [*loop.dims, *loop.steps, *loop.outer, *[n for line in loop.strides for n in line]]
    return array("q", made), places


def room(size: int) -> int:
    """Bytes from one thread's room for parts to that of the next."""
    return -(-size // pool.APART) * pool.APART + pool.APART
