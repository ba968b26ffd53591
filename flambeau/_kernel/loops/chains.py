"""Long bodies are chains, each instruction of which waits for the one before: several vectors are computed side by side.

NEON's fused product overwrites its addend, so that each step of a polynomial would first have its constant moved to a free register, by the
units that multiply. A constant in memory is loaded there by others. Compilers take such loads out of loops; so these constants lie where,
for all the compiler knows, results are written to, once for each lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..render.llvm import Llvm, is_neon
from ..render.streaming import LINE, width
from ..render.tiles import vectors
from ..render.value import COMPUTE, SIZE, Value

_SHORTEST = 16  # instructions of a chain
# Vectors that go side by side in chains of fewer instructions; longer ones need all registers for one vector. Constants in memory leave more
# registers (two cores of a Neoverse N1, ns an element, compiler's choice and these: gelu 3.0 and 1.9, a fused chain of 127 instructions 16.8 and 7.9).
_ABREAST = ((80, 4),)
_ABREAST_FROM_MEMORY = ((40, 8), (160, 4))


def abreast(length: int) -> int:
    """How many vectors go side by side in a loop over a body of so many instructions; 0 if the compiler is to decide."""
    known = _ABREAST_FROM_MEMORY if is_neon() else _ABREAST
    return next((count for bound, count in known if _SHORTEST <= length < bound), 0)


def lines(count: int, types: Sequence[str]) -> int:
    """How many cache lines so many vectors fill, of results whose type is the last of `types`."""
    widest = max(SIZE[COMPUTE.get(t, t)] for t in types)
    return max(1, vectors()[0] * count * SIZE[types[-1]] // (widest * LINE))


@contextmanager
def groups(r: Llvm, start: Value, stop: Value, type: str, lines: int, count: int) -> Iterator[Value]:
    """A loop over a range of whole groups of elements that fill so many lines of a type, which so many vectors take side by side."""
    size = width(type, lines)
    with r.loop(start, stop, size) as block, lanes(r, size, count) as i:
        yield block + i


@contextmanager
def lanes(r: Llvm, size: int, count: int) -> Iterator[Value]:
    """A loop over a group of so many elements, which so many vectors take side by side."""
    with r.loop(r.constant("i64", 0), r.constant("i64", size), independent=True, abreast=count) as i:
        r.lane_number = (i, size) if count and is_neon() else None
        yield i
        r.lane_number = None
