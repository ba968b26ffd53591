"""Pointwise calls of NumPy's on small operands that lie in several ways, or beside which others are broadcast.

Row-major operands are left to the ufunc. Operands in other orders, and large ones beside which others are broadcast, are walked by
`walks`, as soon as it is known how the result lies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.allocation import LARGE, empty_strided
from ..._core.layouts import joint_strides
from ..._core.sizes import contiguous_strides
from .walks import walk

_ndarray = np.ndarray
_MOST_PLANS = 4096
_SPREAD = 2048  # elements of an operand beside which others are broadcast by our own walk


def arrangement(arrays: Sequence[Any], rows: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides (in elements) of a pointwise result of operands in any memory order; row-major if `rows`."""
    shape = arrays[0].shape
    if not all([a.shape == shape for a in arrays]):
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
    if rows:
        return shape, contiguous_strides(shape)
    return shape, joint_strides(shape, *[(a.shape, a.strides, a.itemsize) for a in arrays])


def arranged(call: Any, results: Sequence[Any], rows: bool) -> Callable[..., Any]:
    """A pointwise function for operands in any memory order, with results of these dtypes."""
    # by how operands lie: shape, strides (in elements, and in bytes if there is one small result) and way of the results
    plans: dict[Any, Any] = {}

    def run(*operands: Any) -> Any:
        key = tuple([(a.shape, a.strides) if a.__class__ is _ndarray else None for a in operands])
        plan = plans.get(key)
        if plan is None:
            if len(plans) >= _MOST_PLANS:
                plans.clear()
            plan = plans[key] = planned(operands)
        shape, strides, steps, way = plan
        if steps is not None:
            out = _ndarray(shape, results[0], None, 0, steps)
            if way is None or not way.run((*operands, out)):
                call(*operands, out)
            return out
        made = [empty_strided(shape, d, strides) for d in results]
        if way is None or not way.run((*operands, *made)):
            call(*operands, *made)
        return made[0] if len(made) == 1 else tuple(made)

    def planned(operands: tuple[Any, ...]) -> Any:
        shape, strides = arrangement([a for a in operands if a.__class__ is _ndarray], rows)
        if len(results) > 1:
            return shape, strides, None, None
        d = results[0]
        out = empty_strided(shape, d, strides)
        small = out.nbytes < LARGE
        return shape, strides, out.strides if small else None, walk(call, operands, out)

    return run


@functools.cache
def by_layout(call: Any, results: tuple[Any, ...], rows: bool = False) -> Callable[..., Any]:
    """The same, where small row-major operands are left to the function itself."""
    turned = arranged(call, results, rows)

    def run(*operands: Any) -> Any:
        most, shape = 0, None
        for a in operands:
            if a.__class__ is _ndarray:
                if not a.flags.c_contiguous:
                    return turned(*operands)
                if shape is None:
                    shape = a.shape
                elif a.shape != shape:
                    most = max(most, a.size, operands[0].size if operands[0].__class__ is _ndarray else 0)
        return turned(*operands) if most >= _SPREAD else call(*operands)

    return run
