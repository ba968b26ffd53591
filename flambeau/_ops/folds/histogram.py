"""Counting: bincount, histc, histogram, histogramdd."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core import return_types
from ..._core.dtypes import BY_NUMPY, FLOATING, INTEGER, float32, float64
from ..._core.sizes import check_room
from ..._dispatch import backend_of
from ..._kernel.folds.sort import upper_bound
from ..._tensor import Tensor, computed
from ..records.casting import checked_number
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..records.shape_rules import data_dependent, dtype_of
from ..registry import ops, public
from .counting import extent_of, tallied, tallied_bins

_FEW = 1 << 14  # elements up to which NumPy counts as quickly
_LARGEST = 2**63 - 1
_NEGATIVE = "bincount only supports 1-d non-negative integral inputs."


@primitive(meta=data_dependent, tensors=2, name="bincount")
def bincount_op(backend: Any, x: Any, weights: Any, length: int) -> Any:
    single = weights is not None and weights.dtype == float32.numpy
    if backend is not cpu:
        made = backend.count(x, length, weights=weights)
        return backend.cast(made, "f32") if single else made
    if weights is None and x.size >= _FEW and x.dtype.kind in "iu" and x.dtype != np.uint64:
        return tallied(x, 0, length)
    if weights is None:
        return np.bincount(x, minlength=length).astype("int64", copy=False)
    made = np.bincount(x, weights.astype("float64"), length)
    return made.astype(float32.numpy) if single else made


def _extent(backend: Any, x: Any) -> tuple[Any, Any]:
    """The least and the greatest element of an array that is not empty."""
    if backend is not cpu:
        return backend.along.extent(x)
    return extent_of(x) if x.dtype.kind in "iu" and x.ndim == 1 else (x.min(), x.max())


@public()
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often (or with which total weight) each non-negative integer occurs.

    >>> import flambeau as torch
    >>> torch.bincount(torch.tensor([1, 1, 3]))
    tensor([0, 2, 0, 1])
    """
    if input.dtype.category != INTEGER:
        raise not_implemented("bincount_cpu", input.dtype)
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    array = input._array
    if array.ndim != 1:
        raise RuntimeError(_NEGATIVE)
    if weights is not None and weights._array.shape != array.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    low, largest = map(int, _extent(backend_of(input._k), array)) if array.size else (0, -1)
    if low < 0:
        raise RuntimeError(_NEGATIVE)
    if largest >= _LARGEST:
        raise RuntimeError(f"maximum value of input overflowed, it should be < {_LARGEST} but got {largest}")
    return bincount_op(input, weights, check_room(max(largest + 1, int(minlength))))


# -- bins of equal width -----------------------------------------------------------------------------------------


@primitive(meta=lambda x, bins, low, high: ((bins,), dtype_of(x)), differentiable=False, name="histc")
def histc_op(backend: Any, x: Any, bins: int, low: float, high: float) -> Any:
    low, high = _range(backend, x, low, high)
    kind = x.dtype.type  # every step is rounded to the elements' own precision, as PyTorch does
    values = x.reshape(-1)
    if backend is not cpu:
        even = kind(low), kind(high), kind(bins), kind(kind(high) - kind(low))
        return _in_bins_there(backend, values, bins, even)
    with np.errstate(all="ignore"):
        span = kind(high) - kind(low)
        if not np.isfinite(span):  # too wide for the elements' precision
            kind, span = np.float64, np.float64(high) - np.float64(low)
        elif span and x.dtype.itemsize >= 4 and x.size >= _FEW and bins < 1 << 24:
            return tallied_bins(values, bins, low, high).astype(x.dtype)
        values = values[(values >= kind(low)) & (values <= kind(high))]
        if not span:  # too narrow for it
            span = kind(1)
        places = ((values - kind(low)) * kind(bins) / span).astype("int64")
    return np.bincount(np.minimum(places, bins - 1), minlength=bins).astype(x.dtype)


def _in_bins_there(backend: Any, values: Any, bins: int, even: Sequence[Any]) -> Any:
    """How many elements lie in each bin, on a GPU; ends and widths are others each time."""
    code = BY_NUMPY[values.dtype].code
    count = lambda values, *even: [backend.cast(backend.count(values, bins, even), code)]
    return backend.launches(("histc", bins), count, [values], np.array(even, np.float64).view(np.int64).tolist())[0]


def _range(backend: Any, x: Any, low: float, high: float) -> tuple[float, float]:
    """The outer edges: those of the data where none are given, widened if they are equal."""
    if low == high and x.size:
        low, high = map(float, _extent(backend, x))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
    if low == high:
        low, high = low - 1, high + 1
    return low, high


@public(out="exact")
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts of elements in bins of equal width between `min` and `max` (of the data, if both are equal).

    >>> import flambeau as torch
    >>> torch.histc(torch.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    if min > max:
        raise RuntimeError("torch.histc: max must be larger than min")
    if input.dtype.category != FLOATING:
        raise not_implemented("histogram_cpu", input.dtype)
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    for bound in (min, max):
        checked_number(bound, input.dtype)
    return histc_op(input, int(bins), float(min), float(max))


# -- bins with edges ---------------------------------------------------------------------------------------------


def _last_edge(backend: Any, values: Any, edges: Any) -> Any:
    """The place of the last edge that is not above each value."""
    if backend is not cpu:
        return backend.xp.searchsorted(edges, values, side="right") - 1
    code = BY_NUMPY[values.dtype].code
    return cpu.kernel(upper_bound, (code, code, "i64"))(values, edges) - 1


@primitive(
    meta=lambda edges, x, *rest: (tuple(len(e) - 1 for e in edges), dtype_of(x)),
    tensors=3,
    many=True,
    differentiable=False,
    name="histogram_counts",
)
def counts_op(backend: Any, edges: list[Any], x: Any, weights: Any, density: bool) -> Any:
    """Counts of points (rows of x) in the boxes between edges; the last box of a dimension is closed."""
    xp = backend.xp
    sizes = tuple(len(e) - 1 for e in edges)
    inside = xp.ones(len(x), bool)
    flat = xp.zeros(len(x), "int64")
    for column, edge, size in zip(x.T, edges, sizes):
        place = _last_edge(backend, column, edge)
        inside &= (column >= edge[0]) & (column <= edge[-1])
        place = xp.minimum(place, size - 1)  # the last box is closed
        flat = flat * size + place
    flat = flat[inside]
    if weights is None:
        made = xp.bincount(flat, minlength=math.prod(sizes))
    else:
        made = xp.bincount(flat, weights.reshape(-1)[inside].astype("float64"), math.prod(sizes))
    made = made.astype("float64").reshape(sizes)
    if density:
        with np.errstate(all="ignore"):
            made = made / made.sum()
            for i, edge in enumerate(edges):
                made = made / xp.diff(edge).reshape([-1 if j == i else 1 for j in range(len(sizes))])
    return made.astype(x.dtype)


def _edges(name: str, input: Tensor, points: Any, bins: Any, range: Any) -> list[Tensor]:
    """The bin edges of every dimension as tensors."""
    count = points.shape[1]
    if isinstance(bins, int):
        bins = [bins] * count
    if len(bins) != count:
        raise RuntimeError(f"{name}: {count} dimensions need {count} sequences of bin edges, got {len(bins)}")
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(
            f"{name}: for a {count}-dimensional histogram range should have {2 * count} elements, but got {len(range)}"
        )
    made = []
    for i, b in enumerate(bins):
        if isinstance(b, Tensor):
            if b.dtype is not input.dtype:
                raise RuntimeError(
                    f"torch.histogramdd: input tensor and bins tensors should have the same dtype, but got {input.dtype} "
                    f"and, for dimension {i}, {b.dtype}"
                )
            if b._array.ndim != 1 or not b._array.size:
                raise RuntimeError(f"{name}: bins tensor should have one dimension and at least one element")
            made.append(b)
            continue
        if b <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {b} for dimension {i}")
        column = points[:, i]
        if range is not None:
            low, high = float(range[2 * i]), float(range[2 * i + 1])
            if low > high:
                raise RuntimeError(f"{name}: min should not exceed max, but got min {low} max {high} for dimension {i}")
        elif column.size:
            low, high = float(column.min()), float(column.max())
        else:
            low, high = 0.0, 1.0
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(f"{name}: dimension {i}'s range [{low}, {high}] is not finite")
        if low == high:
            low, high = low - 0.5, high + 0.5
        made.append(ops.linspace(low, high, int(b) + 1, dtype=input.dtype, device=input.device))
    return made


def _check(name: str, input: Tensor, weight: Tensor | None) -> None:
    if input.dtype.category != FLOATING or input.dtype not in (float32, float64):
        raise not_implemented("histogramdd", input.dtype)
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}: input tensor and weight tensor should have the same dtype, but got {input.dtype} and {weight.dtype}"
        )


@public(out=True)
def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    """Counts (or weights, or densities) of elements between bin edges, and the edges.

    >>> import flambeau as torch
    >>> torch.histogram(torch.tensor([1.0, 2.0, 1.0]), 2).hist
    tensor([2., 1.])
    """
    _check("torch.histogram", input, weight)
    if weight is not None and weight._array.shape != input._array.shape:
        raise RuntimeError("torch.histogram: weight should have the same shape as the input tensor")
    points = ops.reshape(computed(ops.detach(input)), (-1, 1))
    edges = _edges("torch.histogram", input, points._array, [bins], range)
    return return_types.histogram(counts_op(edges, points, weight, density), edges[0])


@public()
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    """Counts of points (the last dimension holds coordinates) in boxes between bin edges, and the edges.

    >>> import flambeau as torch
    >>> torch.histogramdd(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 0.]])
    """
    _check("torch.histogramdd", input, weight)
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError(f"torch.histogramdd: input tensor should have at least 2 dimensions, but got {len(shape)}")
    points = ops.reshape(computed(ops.detach(input)), (math.prod(shape[:-1]), shape[-1]))
    edges = _edges("torch.histogramdd", input, points._array, bins, range)
    return return_types.histogramdd(counts_op(edges, points, weight, density), tuple(edges))


SCHEMAS = """
bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor
histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor
histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)
histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)
histogram.bins_tensor_out(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False, Tensor(a!) hist, Tensor(b!) bin_edges) -> (Tensor(a!) hist, Tensor(b!) bin_edges)
histogram.bin_ct_out(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False, Tensor(a!) hist, Tensor(b!) bin_edges) -> (Tensor(a!) hist, Tensor(b!) bin_edges)
histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)
histogramdd.int_bins(Tensor self, int bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)
histogramdd.TensorList_bins(Tensor self, Tensor[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)
"""
