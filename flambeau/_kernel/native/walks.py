"""Pointwise operations on operands in any memory order: where the results lie, and how loops go over them all, rows along the innermost
dimension, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core.allocation import empty_strided
from ..._core.layouts import in_rows, joint_strides
from ..._core.sizes import contiguous_strides
from ..threads import pool

_ndarray = np.ndarray


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
    """The dimensions of operands (shape, strides) that broadcast to `shape`, as (extent, stride in each operand).

    Those with the largest steps of the last operand come first; those that lie one after the other in all count as one.
    """
    lines = []
    for own, strides in operands:
        missing = len(shape) - len(own)
        lines.append([0] * missing + [0 if n == 1 else s for n, s in zip(own, strides)])
    dims = [(n, [line[d] for line in lines]) for d, n in enumerate(shape) if n != 1]
    dims.sort(key=lambda dim: -abs(dim[1][-1]))  # stable: equal strides keep their order
    merged: list[tuple[int, list[int]]] = []
    for n, steps in dims:
        if merged:
            above, over = merged[-1]
            if all(o == s * n for o, s in zip(over, steps)):
                merged[-1] = (above * n, steps)
                continue
        merged.append((n, steps))
    return merged
