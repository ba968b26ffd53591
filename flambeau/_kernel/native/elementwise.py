"""Pointwise calls of NumPy's on operands that lie in several ways: where the results lie."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.allocation import empty_strided
from ..._core.layouts import joint_strides
from ..._core.sizes import contiguous_strides

_ndarray = np.ndarray


def arrangement(arrays: Sequence[Any], rows: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides (in elements) of a pointwise result of operands in any memory order; row-major if `rows`."""
    shape = arrays[0].shape
    if not all([a.shape == shape for a in arrays]):
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
    if rows:
        return shape, contiguous_strides(shape)
    return shape, joint_strides(shape, *[(a.shape, a.strides, a.itemsize) for a in arrays])


@functools.cache
def by_layout(call: Any, results: tuple[Any, ...], rows: bool = False) -> Callable[..., Any]:
    """A pointwise function for operands in any memory order, with results of these dtypes. Calls that come again have plans."""

    def run(*operands: Any) -> Any:
        arrays = [a for a in operands if a.__class__ is _ndarray]
        if all([a.flags.c_contiguous for a in arrays]):
            return call(*operands)
        shape, strides = arrangement(arrays, rows)
        made = [empty_strided(shape, d, strides) for d in results]
        call(*operands, *made)
        return made[0] if len(made) == 1 else tuple(made)

    return run
