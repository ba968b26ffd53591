"""Reductions over segments of a dimension that have unequal lengths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._core.dtypes import FLOATING, bool_
from ..._core.sizes import wrap_dim
from ..._core.state import GRAD
from ..._tensor import Tensor, detached, wrap
from ..making.conversion import host_array
from ..records.rules import not_implemented
from ..registry import ops, public, relabel
from ..sparse.tensors import index_tensor

_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def _lengths_of(data: Tensor, lengths: Any, indices: Any, offsets: Any, axis: int, unsafe: bool) -> Any:
    """How long the segments are, after the checks: an array of the dimensions up to `axis`."""
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet; use lengths or offsets")
    given = offsets if lengths is None else lengths
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if given._array.ndim != axis + 1:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of lengths or offsets, got axis {axis} and "
            f"{given._array.ndim} dimensions"
        )
    array = host_array(given).astype(np.int64)
    long = data._array.shape[axis]
    if lengths is None:
        if array.shape[-1] < 1 or (not unsafe and array.size and (array.min() < 0 or array.max() > long)):
            raise RuntimeError(f"segment_reduce(): expected offsets from 0 to {long}, the size of dimension {axis}")
        counts = np.diff(array)
        if not unsafe and (array[..., 0] != 0).any():
            raise RuntimeError("segment_reduce(): expected offsets that begin with 0")
    else:
        counts = array
    if array.shape[:-1] != data._array.shape[:axis] or (counts.size and counts.min() < 0):
        raise RuntimeError("segment_reduce(): lengths contains negative value, or does not fit the sizes of data")
    total = counts.sum(-1)
    if (total != long).any() and lengths is not None and not unsafe:
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
        )
    if (total > long).any():
        raise RuntimeError(f"segment_reduce(): the segments are longer than dimension {axis} of size {long}")
    return counts


@public("segment_reduce", "_segment_reduce", method=False)
def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """The sum, mean, max, min or prod of each segment along `axis`, which follow one another in `lengths` (or `offsets`).

    >>> import flambeau as torch
    >>> torch.segment_reduce(torch.tensor([1.0, 2.0, 3.0]), "sum", lengths=torch.tensor([2, 1]))
    tensor([3., 3.])
    """
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if reduce not in _EMPTY:
        raise RuntimeError(f"segment_reduce(): unsupported reduction {reduce!r}; use one of {sorted(_EMPTY)}")
    if data.dtype.category != FLOATING:
        raise not_implemented("_segment_reduce_cpu", data.dtype)
    shape = data._array.shape
    axis = wrap_dim(axis, len(shape))
    counts = _lengths_of(data, lengths, indices, offsets, axis, unsafe)
    lead, segments, rest = shape[:axis], counts.shape[-1], shape[axis + 1 :]
    rows = math.prod(lead)
    # segments of all rows are numbered together; the last number is for elements behind the segments
    left = shape[axis] - counts.sum(-1, keepdims=True)
    numbers = np.full((rows, segments + 1), rows * segments, np.int64)
    numbers[:, :-1] = np.arange(rows * segments).reshape(rows, segments)
    where = index_tensor(np.repeat(numbers.reshape(-1), np.concatenate([counts, left], -1).reshape(-1)))
    flat = ops.reshape(data, (rows * shape[axis], *rest))
    start = float(initial) if initial is not None and reduce in ("sum", "mean") else _EMPTY[reduce]
    empty = ops.full((rows * segments + 1, *rest), start, dtype=data.dtype)
    if reduce in ("sum", "mean"):
        made = ops.index_add(empty, 0, where, flat)
    else:
        wide = ops.expand(ops.reshape(where, (-1,) + (1,) * len(rest)), flat._array.shape)
        missing = np.isnan(flat._array) if not data._k & ~GRAD else np.zeros(0, np.bool_)
        if missing.any() and reduce != "prod":  # a NaN is the extremum of its segment, and gets the gradient
            flat = _replaced(flat, missing, -_EMPTY[reduce])
        made = ops.scatter_reduce(empty, 0, wide, flat, {"max": "amax", "min": "amin"}.get(reduce, reduce))
        if missing.any() and reduce == "prod" and data._k & GRAD:
            made = _product_with_missing(empty, wide, flat, missing)
        elif missing.any() and reduce != "prod":
            holds = np.zeros(made._array.shape, np.bool_)
            np.logical_or.at(holds, where._array, missing)
            made = _replaced(made, holds, math.nan)
    made = ops.reshape(ops.narrow(made, 0, 0, rows * segments), (*lead, segments, *rest))
    if initial is not None and reduce not in ("sum", "mean"):  # an element that equals it has the whole gradient
        made = made * initial if reduce == "prod" else ops.where(
            made < initial if reduce == "max" else made > initial, float(initial), made
        )  # fmt: skip
    if reduce == "mean":
        divisor = np.where(counts > 0, counts, math.nan if initial is None else 1.0).astype(data.dtype.numpy)
        made = made / wrap(divisor.reshape(*counts.shape, *[1] * len(rest)), data.dtype)
    return relabel(made, "SegmentReduceBackward0")


def _product_with_missing(empty: Tensor, where: Tensor, flat: Tensor, missing: Any) -> Tensor:
    """Products of segments with NaN among their elements: the gradient of a NaN is the product of the others."""
    mask, (count, number) = wrap(missing, bool_), (np.zeros(empty._array.shape, np.int64), where._array)
    np.add.at(count, (number, *np.indices(number.shape)[1:]), missing)
    made = ops.scatter_reduce(empty, 0, where, ops.where(mask, math.nan, flat), "prod")
    others = ops.scatter_reduce(empty, 0, where, ops.where(mask, 1.0, detached(flat)), "prod")
    others = ops.gather(ops.where(wrap(count > 1, bool_), math.nan, others), 0, where)
    kept = ops.where(mask, _replaced(flat, True, 0.0), 0.0) * ops.where(mask, others, 0.0)  # nothing but its gradient
    return ops.scatter_add(made, 0, where, kept)


def _replaced(t: Tensor, where: Any, value: float) -> Tensor:
    """A copy with other values at some places, whose gradient is that of the whole tensor."""
    made = ops.clone(t)
    np.copyto(made._array, value, where=where)
    return made


SCHEMAS = """
segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor  # whole
"""
