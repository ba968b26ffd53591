"""Plans of pointwise operations: one native loop over operands that lie alike, or a few over such that do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._core.dtypes import FLOATING, bool_, int64
from .._kernel.elementwise import arrangement
from .._kernel.plan import Plan
from .._kernel.ufunc import loops
from .._tensor import Tensor

_MOST = 1 << 14  # elements
_TURNS = 512  # how often a loop may be started again
_NUMBER = {("f", float): 8, ("f", int): 8, ("d", float): 0, ("d", int): 0, ("q", int): 16, ("l", int): 16}


def is_alike(args: Sequence[Any]) -> bool:
    """Whether all tensors have one shape and are row-major."""
    arrays = [a._array for a in args if isinstance(a, Tensor)]
    shape = arrays[0].shape
    return all([a.shape == shape and a.flags.c_contiguous and a.flags.aligned for a in arrays])


def plan(op: Any, args: Sequence[Any], record: Any, runtime: int, alike: bool) -> Plan | None:
    """The plan of a call with plain tensors of one dtype (and numbers beside them, in places of `runtime`); None if it takes another way."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    lead = next((a for i, a in enumerate(args) if isinstance(a, Tensor) and i not in op.masks), None)
    found = None if lead is None else op.fast.get(lead.dtype)
    if lead is None or found is None or found[0] not in loops:
        return None
    function, result = found
    address, data = loops[function]
    steps, operands = [], []
    for i, a in enumerate(args):
        if isinstance(a, Tensor):
            if a.dtype is not (bool_ if i in op.masks else lead.dtype):
                return None
            steps.append(a.dtype.itemsize)
            operands.append((i + 1, 0))
        else:
            place = _NUMBER.get((lead.dtype.numpy.char, a.__class__))
            if place is None or not runtime >> i & 1 or not (lead.dtype.category == FLOATING or lead.dtype is int64):
                return None
            steps.append(0)
            operands.append((i + 1, place))
    made = Plan(len(args), record)
    if alike:
        operands.append((made.result(result), 0))
        made.loop(address, data, (0,), [*steps, result.itemsize], operands)
        return made
    arrays = [t._array for t in tensors]
    shape, strides = arrangement(arrays, op.rows)
    size = math.prod(shape)
    if not 0 < size < _MOST or not all([a.flags.aligned for a in arrays]):
        return None
    bytes_ = [s * result.itemsize for s in strides]
    ways = []
    for a in args:
        if isinstance(a, Tensor):
            x, missing = a._array, len(shape) - a._array.ndim
            own = [0] * missing + [0 if n == 1 else s for n, s in zip(x.shape, x.strides)]
        else:
            own = [0] * len(shape)
        ways.append(own)
    sizes, steps_of = merged(shape, [*ways, bytes_])
    *outer, inner = sizes or [1]
    if math.prod(outer) > _TURNS:
        return None
    operands.append((made.result(result, shape, bytes_), 0))
    last = [w[-1] if w else 0 for w in steps_of]
    made.loop(address, data, (inner,), last, operands, outer, [w[:-1] for w in steps_of])
    return made


def merged(shape: Sequence[int], ways: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Dimensions in the order of the result in memory, those that can be walked as one merged."""
    order = sorted((d for d in range(len(shape)) if shape[d] > 1), key=lambda d: -abs(ways[-1][d]))
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
