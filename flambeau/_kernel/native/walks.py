"""Pointwise operations on operands in any memory order: where the results lie, and how loops go over them all, rows along the innermost
dimension, one after the other, or longer rows where these are short."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._core.allocation import empty_strided
from ..._core.layouts import in_rows, joint_strides
from ..._core.sizes import contiguous_strides
from ..threads import pool

_ndarray = np.ndarray
_SHORT, _LONG = 48, 512  # elements of rows that are put together to such long ones,
_REPEATED = 1 << 14  # for which so many elements of an operand are made at most
_TURNS = 4  # from which on that pays
_FEW, _MANY = 10, 256  # elements of rows that are gone across, and how many rows are at a time: caches keep them


def arrangement(arrays: Sequence[Any], rows: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides (in elements) of a pointwise result of operands in any memory order; row-major if `rows`."""
    shape = arrays[0].shape
    if not all([a.shape == shape for a in arrays]):
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
    if rows:
        return shape, contiguous_strides(shape)
    return shape, joint_strides(shape, *[(a.shape, a.strides, a.itemsize) for a in arrays])


def arranged(call: Any, operands: Sequence[Any], results: Sequence[Any], rows: bool = False) -> Any:
    """What a pointwise function makes of arrays in any memory order, in these dtypes. Calls that come again have plans."""
    arrays = [a for a in operands if a.__class__ is _ndarray]
    if all([in_rows(a) for a in arrays]):
        return call(*operands)
    shape, strides = arrangement(arrays, rows)
    made = [empty_strided(shape, d, strides) for d in results]
    call(*operands, *made)
    return made[0] if len(made) == 1 else tuple(made)


def rows_of(operands: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], shape: tuple[int, ...]) -> Any:
    """How to walk operands (shape, strides) that broadcast to `shape`: (length, steps, outer shape, outer strides).

    The inner loop takes the dimension with the smallest steps of the last operand. None if there are too many dimensions.
    """
    merged = merged_dims(operands, shape)
    if not merged or len(merged) - 1 > pool.MOST_DIMS or len(operands) > pool.MOST_OPERANDS:
        return None
    length, steps = merged.pop()
    outer = tuple(n for n, _ in merged)
    return length, steps, outer, [tuple(s[i] for _, s in merged) for i in range(len(operands))]


def merged_dims(
    operands: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], shape: tuple[int, ...]
) -> list[tuple[int, list[int]]]:
    """The dimensions of operands (shape, strides) that broadcast to `shape`, as (extent, stride in each operand), in the order of `merged`."""
    sizes, steps = merged(shape, ways_of(operands, shape))
    return [(n, [own[d] for own in steps]) for d, n in enumerate(sizes)]


def ways_of(operands: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], shape: Sequence[int]) -> list[list[int]]:
    """The strides along the dimensions of a shape that operands (shape, strides) broadcast to."""
    return [
        [0] * (len(shape) - len(own)) + [0 if n == 1 else s for n, s in zip(own, strides)] for own, strides in operands
    ]


def merged(shape: Sequence[int], ways: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Extents, and strides of each operand: those with the largest strides of the last operand come first, those that lie one after the
    other in all count as one. `ways` has the strides of each operand along a shape."""
    order = sorted((d for d in range(len(shape)) if shape[d] != 1), key=lambda d: -abs(ways[-1][d]))  # stable
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in ways]
    for d in order:
        if sizes and all([m[-1] == w[d] * shape[d] for m, w in zip(merged, ways)]):
            sizes[-1] *= shape[d]
            for m, w in zip(merged, ways):
                m[-1] = w[d]
        else:
            sizes.append(shape[d])
            for m, w in zip(merged, ways):
                m.append(w[d])
    return sizes, merged


class Rows(NamedTuple):
    """A loop along rows at all places of outer dimensions: elements of a row, steps along it and strides for each operand, and how many
    bytes from where operands begin the first row is."""

    length: int
    steps: list[int]
    outer: list[int]
    strides: list[list[int]]
    begin: list[int]


class Repeated(NamedTuple):
    """An operand that begins anew all the time, and so often in a row in memory of its own."""

    number: int
    size: int  # bytes of an element
    times: int
    block: list[int]  # extents of what is repeated
    strides: list[int]

    @property
    def elements(self) -> int:
        return self.times * math.prod(self.block)

    def ends(self) -> tuple[list[int], list[list[int]]]:
        """Extents of the copy, and the strides of the operand and of its memory."""
        dense = [self.size * math.prod(self.block[d:]) for d in range(len(self.block) + 1)]
        return [self.times, *self.block], [[0, *self.strides], dense]


def in_long_rows(
    shape: Sequence[int], ways: Sequence[Sequence[int]], sizes: Sequence[int], results: int = 1, light: bool = True
) -> tuple[list[Repeated], list[Rows]] | None:
    """Which operands, of elements of so many bytes, are better repeated in memory, and the loops over all then. None if that does not pay.

    Where an operand begins anew after a few elements, as the means of an image's channels do, rows end there: to begin one takes longer
    than its elements. Other rows of very few elements are gone across, if the loop is `light`.
    """
    extents, steps = merged(shape, ways)
    count = len(extents)
    if count < 2 or extents[-1] >= _SHORT or math.prod(extents) < _TURNS * _LONG:
        return None
    begins = [next((d for d in range(count) if w[d]), count) for w in steps[: len(ways) - results]]
    again = {i: d for i, d in enumerate(begins) if 0 < d < count and math.prod(extents[d:]) <= _REPEATED}
    found = _repeated(shape, ways, sizes, again, extents, steps) if again else None
    if found is None and light and extents[-1] <= _FEW and extents[-2] >= _MANY // 8:
        return [], _across(extents, steps)
    return found


def _repeated(
    shape: Sequence[int], ways: Sequence[Sequence[int]], sizes: Sequence[int], again: dict[int, int], extents: list[int],
    steps: list[list[int]],
) -> tuple[list[Repeated], list[Rows]] | None:  # fmt: skip
    """The same where operands begin anew, each over the dimensions from one of those on; None if other operands keep rows short."""
    first = min(again.values())
    block = extents[first:]
    times = max(1, _LONG // math.prod(block))
    outer, apart = merged(shape, [ways[-1] if i in again else w for i, w in enumerate(ways)])
    row = times * math.prod(block)
    turns, rest = divmod(outer.pop(), row)
    if turns < _TURNS:
        return None
    along = [sizes[i] if i in again else w[-1] for i, w in enumerate(apart)]
    around = [[0] * len(outer) if i in again else w[:-1] for i, w in enumerate(apart)]
    chunks = [0 if i in again else step * row for i, step in enumerate(along)]
    strides = [[*own, chunk] for own, chunk in zip(around, chunks)]
    rows = [Rows(row, along, [*outer, turns], strides, [0] * len(ways))]
    if rest:
        rows.append(Rows(rest, along, outer, around, [turns * chunk for chunk in chunks]))
    return [Repeated(i, sizes[i], times, block, steps[i][first:]) for i in again], rows


def _across(extents: Sequence[int], steps: Sequence[Sequence[int]]) -> list[Rows]:
    """Loops along the last dimension but one, some at a time, for each place in the last."""
    *outer, many, few = extents
    length = min(many, _MANY)
    turns, rest = divmod(many, length)
    along = [w[-2] for w in steps]
    found = [
        Rows(length, along, [*outer, turns, few], [[*w[:-2], length * w[-2], w[-1]] for w in steps], [0] * len(steps))
    ]
    if rest:
        begin = [turns * length * s for s in along]
        found.append(Rows(rest, along, [*outer, few], [[*w[:-2], w[-1]] for w in steps], begin))
    return found
