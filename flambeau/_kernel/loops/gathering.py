"""Operands of a loop that lie anywhere, shown to a body that is written once, for elements side by side.

A compiler takes its time for each copy of a long body, and elements that lie apart are no vectors. So blocks of them are copied to a
place where they are, and results back; operands that lie densely are read and written where they are.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from ..render.llvm import Llvm
from ..render.tiles import minimum, vectors
from ..render.value import SIZE, Value

_COPIED = 256  # elements that are copied at a time
_WORDS = {1: ("u8", 1), 2: ("u16", 1), 4: ("u32", 1), 8: ("u64", 1), 16: ("u64", 2)}


@contextmanager
def gathered(
    r: Llvm, types: Sequence[str], inputs: int, pointers: Sequence[str], steps: Sequence[Value], n: Value, most: int = 0
) -> Iterator[tuple[list[str], Value]]:
    """For each block of the `n` elements of all operands: where those of each lie side by side, and how many they are, `most` at most.
    The first so many operands are read, the others written."""
    zero = r.constant("i64", 0)
    buffers = [r.local_array("u8", _COPIED * SIZE[t]) for t in types]
    dense = [s == SIZE[t] for s, t in zip(steps, types)]
    together = functools.reduce(lambda a, b: a & b, dense)
    held = r.constant("i64", most) if most else n
    limit = r.select(together, held, r.constant("i64", _COPIED))
    done = r.variable("i64")
    r.write(done, "i64", zero)
    head, body, end = r.label(), r.label(), r.label()
    r.branch(head)
    r.start_block(head)
    start = r.read(done, "i64")
    r.branch_if(start < n, body, end)
    r.start_block(body)
    count = minimum(n - start, limit)
    here = [r.address(pointer, start * step) for pointer, step in zip(pointers, steps)]
    places = [
        r.value(f"select i1 {d.name}, ptr {own}, ptr {buffer}", "i64").name
        for d, own, buffer in zip(dense, here, buffers)
    ]
    for k in range(inputs):  # a single value is the same for all blocks
        single = steps[k] == 0
        with r.when(single & (start == 0)):
            _fill(r, here[k], buffers[k], types[k], count)
        with r.loop(zero, r.select(dense[k] | single, zero, count), brief=True) as i:
            _copy(r, r.address(here[k], i * steps[k]), r.address(buffers[k], i * SIZE[types[k]]), types[k])
    yield places, count
    for k in range(inputs, len(types)):
        with r.loop(zero, r.select(dense[k], zero, count), brief=True) as i:
            _copy(r, r.address(buffers[k], i * SIZE[types[k]]), r.address(here[k], i * steps[k]), types[k])
    r.write(done, "i64", start + count)
    r.branch(head)
    r.start_block(end)


def _fill(r: Llvm, source: str, target: str, type: str, count: Value) -> None:
    """One element to so many places, or some more of a block."""
    word, parts = _WORDS[SIZE[type]]
    offsets = [r.constant("i64", n * SIZE[word]) for n in range(parts)]
    values = [r.load(r.address(source, offset), word) for offset in offsets]
    lanes = vectors()[0] // SIZE[word] if r.as_written and parts == 1 else 1
    with r.loop(r.constant("i64", 0), count, lanes, independent=lanes == 1) as i:
        for offset, value in zip(offsets, values):
            place = r.address(r.address(target, i * SIZE[type]), offset)
            with r.vectors(lanes) if lanes > 1 else nullcontext():
                r.store(place, word, r.in_lanes(value) if lanes > 1 else value)


def _copy(r: Llvm, source: str, target: str, type: str) -> None:
    """One element, whatever its bits mean."""
    word, count = _WORDS[SIZE[type]]
    for n in range(count):
        offset = r.constant("i64", n * SIZE[word])
        r.store(r.address(target, offset), word, r.load(r.address(source, offset), word))
