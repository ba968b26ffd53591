"""How kernels walk over arrays: merged dimensions, the layout of results, how many threads are started."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.dtypes import BY_NUMPY
from .._core.layouts import joint_order, joint_strides, strides_in_order

THREADS = 256
_BLOCKS = 132 * 32  # enough to fill a large GPU; more elements go round the loop
Layout = tuple[tuple[int, ...], tuple[int, ...]]  # the shape of an array and its strides, in bytes
NUMPY = {d.code: d.numpy for d in BY_NUMPY.values() if d.code}


def blocks(count: int) -> int:
    """How many blocks of threads work on so many elements."""
    return min((count + THREADS - 1) // THREADS, _BLOCKS)


class Operand(NamedTuple):
    """What a launch depends on of an array."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any


class Plan(NamedTuple):
    """How a kernel runs over operands of certain shapes and strides."""

    shape: tuple[int, ...]  # of the results
    strides: tuple[int, ...] | None  # of the results, in elements; None for row-major
    rank: int  # 0 if all operands are contiguous or of one element
    single: frozenset[int]  # the operands of one element, if so
    index: str  # the type of elements' numbers: i64, u32, or i32 if bytes to all of them fit, too
    blocks: int
    geometry: tuple[int, ...]  # the kernel's last arguments


def spread(shape: tuple[int, ...], strides: tuple[int, ...], full: tuple[int, ...]) -> list[int]:
    """Strides of an operand over the full shape: none along what is repeated."""
    lead = len(full) - len(shape)
    return [0] * lead + [0 if n == 1 else s for n, s in zip(shape, strides)]


def memory_order(full: tuple[int, ...], operands: Sequence[Layout]) -> tuple[int, ...] | None:
    """The order in memory of a result's dimensions, as on the CPU; None for row-major."""
    order = tuple(joint_order(full, [spread(shape, strides, full) for shape, strides in operands]))
    long = [d for d in order if full[d] > 1]
    return order if long != sorted(long) else None


def merged(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Extents and each operand's strides, with neighbouring dimensions that lie evenly in all operands made one."""
    kept: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d, n in enumerate(sizes):
        if n == 1:
            continue
        if kept and all(mine[-1] == given[d] * n for mine, given in zip(steps, strides)):
            kept[-1] *= n
            for mine, given in zip(steps, strides):
                mine[-1] = given[d]
        else:
            kept.append(n)
            for mine, given in zip(steps, strides):
                mine.append(given[d])
    if not kept:
        return [1], [[0] for _ in strides]
    return kept, steps


def plan(inputs: Sequence[Layout], sizes: Sequence[int], outs: Sequence[Layout] = (), dense: bool = True) -> Plan:
    """The plan for operands that lie so, whose elements, and those of the results, have `sizes` bytes.

    The results are new ones unless given in `outs`. `dense` allows for the kernel of contiguous operands.
    """
    full = np.broadcast_shapes(*[shape for shape, _ in inputs])
    lies = None
    if outs:
        if any(shape != full and np.broadcast_shapes(shape, full) != shape for shape, _ in outs):
            raise ValueError(f"an operand of shape {full} does not fit into a result of shape {outs[0][0]}")
        full = outs[0][0]
        made = [list(strides) for _, strides in outs]
    else:
        steps = joint_strides(full, *[(*operand, size) for operand, size in zip(inputs, sizes)])
        made = [[s * size for s in steps] for size in sizes[len(inputs) :]]
        lies = steps if steps != strides_in_order(full, range(len(full))) else None
    # results are walked as they lie in memory
    walk = sorted(range(len(full)), key=lambda d: -abs(made[0][d])) if outs or lies else range(len(full))
    strides = [*(spread(*operand, full) for operand in inputs), *made]
    extents, steps = merged([full[d] for d in walk], [[s[d] for d in walk] for s in strides])
    count = math.prod(full)
    rank, single, index = len(extents), frozenset[int](), "i64"
    geometry: tuple[int, ...] = (count, *extents[1:], *(s for operand in steps for s in operand))
    adjacent = [
        s[0] == size or (not s[0] and (k < len(inputs) or count == 1)) for k, (s, size) in enumerate(zip(steps, sizes))
    ]
    if dense and rank == 1 and all(adjacent):
        rank, geometry = 0, (count,)
        single = frozenset(k for k, s in enumerate(steps) if not s[0] and k < len(inputs))
    elif count < 1 << 31:
        near = all([sum([abs(s) * (n - 1) for n, s in zip(extents, operand)]) < 1 << 31 for operand in steps])
        index = "i32" if near else "u32"
    return Plan(full, lies, rank, single, index, blocks(count), geometry)
