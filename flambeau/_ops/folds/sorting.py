"""Orderings along a dimension: sort, topk, the k-th value, medians, modes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._backend import threads
from ..._backend.copies import in_order_of
from ..._backend.cpu import cpu
from ..._core import return_types
from ..._core.allocation import empty, not_planned
from ..._core.dtypes import BOOL, BY_NUMPY, COMPLEX, bfloat16, bool_, float16, int64
from ..._core.sizes import wrap_dim
from ..._kernel.folds.sort import (
    FEW,
    MOST,
    TOGETHER,
    few_in_order,
    is_short,
    merge_sort,
    middle,
    most_frequent,
    pack,
    top,
    unpack,
)  # fmt: skip
from ..._tensor import Tensor
from ..making.factory import number_of
from ..records.batching import along, over_all
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..records.shape_rules import dense, dtype_of
from ..records.tangents import chosen_along
from ..registry import ops, public, relabel
from .cumulative import run_rows
from .extrema import chosen_grad, require_elements, scatter_back
from .folding import gathered, reduced_shape, scattered, to_last

_CHUNK = 1 << 16  # elements that are packed, sorted and unpacked together, in the second cache
_COUNTED = 1 << 12  # elements from which distinct ones are counted or sorted without their places
_WORD = 63  # bits of a word for keys and places
_PACKED = np.int64(0), np.int64(32)  # the base and the bits of places for short keys
_NETWORK = 8  # elements of a row that are ordered by exchanges of neighbours, of many rows at once
_SHORT = 128  # elements of a row that are sorted even if only some are wanted
_SORT_WORK = 8  # how much more than moving an element sorting it costs


def sort_array(backend: Any, x: Any, dim: int, descending: bool, length: int | None = None) -> tuple[Any, Any]:
    """Stably sorted elements along a dimension and their places; only the first `length` of them if given."""
    if backend is not cpu:
        return backend.orders.sort(x, dim, descending, length)
    n = x.shape[dim]
    length = n if length is None else length
    if 0 < x.size <= FEW:
        return _sort_small(x, dim, descending, length)
    few = _of_few(x, dim, descending, 0, length)
    if few is not None:
        return few
    moved = gathered(x, dim)
    rows = moved.reshape(-1, n) if n else moved.reshape(0, 0)
    values, places = empty((len(rows), length), x.dtype), empty((len(rows), length), np.int64)
    if rows.size:
        code, packing = BY_NUMPY[x.dtype].code, _packing(rows, descending)
        parts = threads.ranges(len(rows), work=rows.size * _SORT_WORK)
        if packing is None:
            threads.over(parts, _sort_long, rows, values, places, code, descending)
        else:
            threads.over(parts, _sort_short, rows, values, places, code, descending, *packing)
    shape = (*moved.shape[:-1], length)
    if dim == x.ndim - 1:
        return values.reshape(shape), places.reshape(shape)
    return scattered(values.reshape(shape), dim), scattered(places.reshape(shape), dim)


def _of_few(
    x: Any, dim: int, descending: bool, first: int, count: int, median: bool | None = None
) -> tuple[Any, Any] | None:
    """`count` elements from the `first` on in stable order along a dimension of few, and their places; or the median, as `middle` takes
    NaN. None if the elements, or such rows of them, are not as many as that takes."""
    n = x.shape[dim]
    if n > _NETWORK or x.size < 2 * TOGETHER * n or not count:
        return None
    columns, code, work = math.prod(x.shape[dim + 1 :]), BY_NUMPY[x.dtype].code, x.size * n
    options = {"width": n, "descending": descending, "first": first, "count": count, "median": median}
    if x.flags.c_contiguous and columns >= TOGETHER:
        outs = [empty((*x.shape[:dim], count, *x.shape[dim + 1 :]), d) for d in (x.dtype, np.int64)]
        operands = [a.reshape(-1, a.shape[dim], columns) for a in (x, *outs)]
        call = cpu.sized(work, few_in_order, (code, code, "i64"), rows=False, adjacent=True, **options)
        if len(operands[0]) >= threads.count(work):
            call(*operands)
        else:
            cpu.columns(call, operands, work, TOGETHER)
        return outs[0], outs[1]
    moved = gathered(x, dim)
    outs = [empty((*moved.shape[:-1], count), d) for d in (x.dtype, np.int64)]
    call = cpu.sized(work, few_in_order, (code, code, "i64"), rows=True, **options)
    cpu.columns(call, [a.reshape(-1, a.shape[-1]).T for a in (moved, *outs)], work, TOGETHER)
    return (outs[0], outs[1]) if dim == x.ndim - 1 else (scattered(outs[0], dim), scattered(outs[1], dim))


def _one_of_few(x: Any, dim: int, keepdim: bool, first: int, median: bool | None = None) -> tuple[Any, Any] | None:
    """The same for one element of each row."""
    found = _of_few(x, dim, False, first, 1, median)
    if found is None or keepdim:
        return found
    shape = reduced_shape(x.shape, (dim,), False)
    return found[0].reshape(shape), found[1].reshape(shape)


def _sort_small(x: Any, dim: int, descending: bool, length: int) -> tuple[Any, Any]:
    """Few elements, by one call."""
    code = BY_NUMPY[x.dtype].code
    rows, shape = to_last(x, dim), _moved_shape(x.shape, dim)
    values, places, scratch = empty(shape, x.dtype), empty(shape, np.int64), empty((3, *shape), np.int64)
    call = cpu.small(merge_sort, (code, code, *["i64"] * 4), descending=descending)
    call(rows, values, places, scratch[0], scratch[1], scratch[2])
    if length < shape[-1]:
        values, places = values[..., :length].copy(), places[..., :length].copy()
    return (values, places) if dim == x.ndim - 1 else (scattered(values, dim), scattered(places, dim))


def _moved_shape(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return shape[:dim] + shape[dim + 1 :] + shape[dim : dim + 1]


def _packing(rows: Any, descending: bool) -> tuple[Any, Any] | None:
    """The base of keys and the bits of places, if both fit into one word."""
    code, n = BY_NUMPY[rows.dtype].code, rows.shape[1]
    if n < 1 << 31 and is_short(code):
        return _PACKED
    if code != "i64":
        return None
    not_planned()
    low, high, bits = int(rows.min()), int(rows.max()), (n - 1).bit_length()
    if (high - low).bit_length() + bits > _WORD:
        return None
    return np.int64(~high if descending else low), np.int64(bits)


def _sort_short(
    start: int, stop: int, rows: Any, values: Any, places: Any, code: str, descending: bool, base: Any, shift: Any
) -> None:
    packed = cpu.small(pack, (code, "i64", "i64", "i64"), descending=descending)
    unpacked = cpu.small(unpack, (code, "i64", "i64", code, "i64"))
    step = min(max(1, _CHUNK // rows.shape[1]), stop - start)
    space = np.empty((step, rows.shape[1]), np.int64)
    for first in range(start, stop, step):
        part = slice(first, min(first + step, stop))
        words = space[: part.stop - first]
        packed(rows[part], base, shift, words)
        words.sort(axis=-1)
        unpacked(rows[part], words[:, : values.shape[1]], shift, values[part], places[part])


def _sort_long(start: int, stop: int, rows: Any, values: Any, places: Any, code: str, descending: bool) -> None:
    call = cpu.kernel(merge_sort, (code, code, *["i64"] * 4), descending=descending)
    step = min(max(1, _CHUNK // rows.shape[1]), stop - start)
    shape = (step, rows.shape[1])
    short = values.shape[1] < rows.shape[1]
    space = [np.empty(shape, values.dtype), *[np.empty(shape, np.int64) for _ in range(4)]]
    for first in range(start, stop, step):
        part = slice(first, min(first + step, stop))
        scratch = [a[: part.stop - first] for a in space]
        if short:
            call(rows[part], *scratch)
            values[part], places[part] = (a[:, : values.shape[1]] for a in scratch[:2])
        else:
            call(rows[part], values[part], places[part], *scratch[2:])


@primitive(
    grad={"x": lambda g, others, x_shape, dim: scatter_back(g, x_shape, dim, others[0], True)},
    name="sort",
    meta=lambda x, dim, descending: [dense(x), dense(x, d=int64)],
    batch=along,
    tangent=chosen_along,
)
def sort_op(backend: Any, x: Any, dim: int, descending: bool) -> Any:
    if x.ndim == 0:
        return x.copy(), backend.zeros((), "int64")
    values, places = sort_array(backend, x, dim, descending)
    return in_order_of(x, values), in_order_of(x, places)


@public(out=True, planned=True)
def sort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Any:
    """Sorted elements along a dimension and their indices; equal elements keep their order.

    >>> import flambeau as torch
    >>> torch.sort(torch.tensor([3.0, 1.0, 2.0])).indices
    tensor([1, 2, 0])
    """
    if dim is True or dim is False:
        raise TypeError("sort() received an invalid combination of arguments: dim must be int, not bool")
    if input.dtype.category == COMPLEX:
        raise RuntimeError("sort(): Sort does not support complex dtypes on CPU")
    if not input.dtype.code:
        raise not_implemented("sort", input.dtype)
    dim = wrap_dim(dim, input._array.ndim)
    values, places = sort_op(input, dim, bool(descending))
    if stable is not None:
        relabel(values, "SortBackward1")
    return return_types.sort(values, places)


@public(planned=True)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """The indices that sort a tensor along a dimension.

    >>> import flambeau as torch
    >>> torch.argsort(torch.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """
    return sort(input, dim, descending).indices


@public(out="exact", planned=True)
def msort(input: Tensor) -> Tensor:
    """The tensor sorted along its first dimension.

    >>> import flambeau as torch
    >>> torch.msort(torch.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return sort(input, 0).values


# -- a part of the order -----------------------------------------------------------------------------------------


def _top_rule(x: Any, dim: int, k: int, largest: bool) -> Any:
    shape = (*x.shape[:dim], k, *x.shape[dim + 1 :]) if x.ndim else ()
    return [(shape, BY_NUMPY[x.dtype]), (shape, int64)]


@primitive(
    grad={"x": lambda g, others, x_shape, dim: scatter_back(g, x_shape, dim, others[0], True)},
    name="topk",
    meta=_top_rule,
    batch=along,
    tangent=chosen_along,
)
def top_op(backend: Any, x: Any, dim: int, k: int, largest: bool) -> Any:
    if x.ndim == 0:
        return x.copy(), backend.zeros((), "int64")
    if backend is not cpu:
        return backend.orders.top(x, dim, k, largest)
    if x.size and (few := _of_few(x, dim, largest, 0, k)) is not None:
        return few
    if k > MOST or k == 0:
        return sort_array(backend, x, dim, largest, k)
    x = gathered(x, dim)
    shape = (*x.shape[:-1], k)
    values, places = empty(shape, x.dtype), empty(shape, np.int64)
    code = BY_NUMPY[x.dtype].code
    if x.size:
        run_rows(top, (code, code, "i64"), [x], [values, places], x.ndim - 1, smallest=not largest)
    return (values, places) if dim == x.ndim - 1 else (scattered(values, dim), scattered(places, dim))


@public(out=True, planned=True)
def topk(input: Tensor, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest (or smallest) elements along a dimension, in order, and their indices.

    >>> import flambeau as torch
    >>> torch.topk(torch.tensor([3.0, 1.0, 2.0]), 2).values
    tensor([3., 2.])
    """
    if input.dtype.category in (BOOL, COMPLEX):
        raise RuntimeError(f"topk does not support {input.dtype.name} dtypes on CPU")
    k = int(number_of(k, "topk", "k"))
    if isinstance(dim, bool):
        raise TypeError("topk(): argument 'dim' (position 2) must be int, not bool")
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    if not 0 <= k <= (shape[dim] if shape else 1):
        raise RuntimeError("selected index k out of range")
    return return_types.topk(*top_op(input, dim, k, largest))


def comparable(x: Any) -> Any:
    """An array that NumPy orders fast: half precision as float32, bool as bytes."""
    if x.dtype in (bfloat16.numpy, float16.numpy):
        return x.astype(np.float32)
    return x.view(np.uint8) if x.dtype == bool_.numpy else x


def _is_small(backend: Any, x: Any, dim: int) -> bool:
    """Whether sorting is sooner done than looking for a part of the order."""
    return backend is not cpu or (x.shape[dim] <= _SHORT and not threads.pay(x.size * _SORT_WORK))


def _of_sorted(values: Any, places: Any, dim: int, at: int, keepdim: bool) -> tuple[Any, Any]:
    """What is at one place of sorted rows."""
    key = (slice(None),) * dim + (slice(at, at + 1) if keepdim else at, ...)
    return values[key].copy(), places[key].copy()


def _of_each_sorted(backend: Any, kernel: Any, x: Any, dim: int, keepdim: bool, **options: Any) -> tuple[Any, Any]:
    """What a kernel chooses from sorted rows, and where it was."""
    values, places = sort_array(backend, x, dim, False)
    shape = reduced_shape(x.shape, (dim,), False)
    value, place = backend.empty(shape, x.dtype), backend.empty(shape, "int64")
    code = BY_NUMPY[x.dtype].code
    call = backend.sized(0, kernel, (code, "i64", code, "i64"), **options)
    call(to_last(values, dim), to_last(places, dim), value, place)
    if keepdim:
        shape = reduced_shape(x.shape, (dim,), True)
        return value.reshape(shape), place.reshape(shape)
    return value, place


def _chosen(backend: Any, x: Any, dim: int, keepdim: bool, at: int, nans: int) -> tuple[Any, Any] | None:
    """What is at a place of each sorted row, and where, by a GPU that need not sort for that; `nans` as it takes them."""
    found = None if backend is cpu else backend.orders.at(x, dim, at + 1, nans)
    if found is None or keepdim:
        return found
    shape = reduced_shape(x.shape, (dim,), False)
    return found[0].reshape(shape), found[1].reshape(shape)


def _places_of(x: Any, dim: int, at: int) -> Any:
    """Where that is, without the dimension, which would be at a place if rows were sorted; cores share the rows."""
    not_planned()
    rows = np.moveaxis(x, dim, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    code, packing = BY_NUMPY[x.dtype].code, _packing(flat, False)
    places = np.empty(len(flat), np.int64)

    def look(start: int, stop: int) -> None:
        part = flat[start:stop]
        if packing is None:
            places[start:stop] = np.argpartition(comparable(part), at)[:, at]
            return
        words = np.empty(part.shape, np.int64)
        cpu.small(pack, (code, "i64", "i64", "i64"), descending=False)(part, *packing, words)
        words.partition(at)
        places[start:stop] = words[:, at] & ((1 << int(packing[1])) - 1)

    threads.over(threads.parts_of(len(flat), x.size * _SORT_WORK), look)
    return places.reshape(rows.shape[:-1])


def _taken(x: Any, places: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """Elements at places (without the dimension), and the places."""
    places = np.expand_dims(places.copy(), dim)  # of its own, not a part of all places
    values = np.take_along_axis(x, places, dim)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def _one_rule(x: Any, dim: int, keepdim: bool, *rest: Any) -> Any:
    shape = reduced_shape(x.shape, (dim,), keepdim)
    return [(shape, BY_NUMPY[x.dtype]), (shape, int64)]


@primitive(grad={"x": chosen_grad}, name="kthvalue", meta=_one_rule, batch=along, tangent=chosen_along)
def kth_op(backend: Any, x: Any, dim: int, keepdim: bool, k: int) -> Any:
    if x.ndim == 0:
        return x.copy(), backend.zeros((), "int64")
    if (found := _chosen(backend, x, dim, keepdim, k - 1, 0)) is not None:
        return found
    if backend is cpu and (found := _one_of_few(x, dim, keepdim, k - 1)) is not None:
        return found
    if _is_small(backend, x, dim):
        return _of_sorted(*sort_array(backend, x, dim, False), dim, k - 1, keepdim)
    return _taken(x, _places_of(x, dim, k - 1), dim, keepdim)


@public(out=True, planned=True)
def kthvalue(input: Tensor, k: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest elements along a dimension, and their indices.

    >>> import flambeau as torch
    >>> torch.kthvalue(torch.tensor([3.0, 1.0, 2.0]), 2).values
    tensor(2.)
    """
    if input.dtype.category in (BOOL, COMPLEX):
        raise not_implemented("kthvalue_cpu", input.dtype)
    k = int(number_of(k, "kthvalue", "k"))
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    require_elements("kthvalue", shape, (dim,))
    if not 1 <= k <= (shape[dim] if shape else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    return return_types.kthvalue(*kth_op(input, dim, keepdim, k))


@primitive(
    grad={"x": chosen_grad},
    name="median",
    meta=_one_rule,
    backward_name="MedianBackward1",
    batch=along,
    tangent=chosen_along,
    planned=True,
)
def median_op(backend: Any, x: Any, dim: int, keepdim: bool, skip: bool) -> Any:
    """The lower median; NaN counts as missing (`skip`), or else is the result where there is one."""
    if x.ndim == 0:
        return x.copy(), backend.zeros((), "int64")
    at = (x.shape[dim] - 1) // 2
    if (found := _chosen(backend, x, dim, keepdim, at, 2 if skip else 1)) is not None:
        return found
    if backend is cpu and (found := _one_of_few(x, dim, keepdim, at, skip)) is not None:
        return found
    if _is_small(backend, x, dim) or (x != x).any():
        return _of_each_sorted(backend, middle, x, dim, keepdim, skip=skip)
    return _taken(x, _places_of(x, dim, at), dim, keepdim)


def _shared_by_equals(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """The gradient of a value spread evenly over the elements that equal it, or are NaN as it is."""
    equal = ops.logical_or(ops.eq(x, out), ops.logical_and(ops.isnan(x), ops.isnan(out)))
    return ops.mul(ops.to_dtype(equal, g.dtype), ops.div(g, ops.sum(equal)))


@primitive(
    batch=over_all(lambda x, skip: median_op(x, 1, False, skip)[0]),
    meta=lambda x, skip: ((), dtype_of(x)),
    grad={"x": _shared_by_equals},
    name="median_of_all",
    backward_name="MedianBackward0",
)
def median_of_all_op(backend: Any, x: Any, skip: bool) -> Any:
    return median_op.forward(backend, x.reshape(-1), 0, False, skip)[0]


def _median_of(name: str, input: Tensor, dim: Any, keepdim: bool) -> Any:
    d = input.dtype
    if d.category in (BOOL, COMPLEX):
        raise not_implemented("median_cpu", d)
    if dim is None:
        if input._array.size == 0:
            return ops.new_full(input, (), float("nan") if d.category > 1 else _lowest(d))
        return relabel(median_of_all_op(input, name == "nanmedian"), f"{name.title()}Backward0")
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    require_elements(name, shape, (dim,))
    values, places = median_op(input, dim, keepdim, name == "nanmedian")
    return getattr(return_types, name)(relabel(values, f"{name.title()}Backward1"), places)


def _lowest(d: Any) -> int:
    return int(np.iinfo(d.numpy).min)


@public(out=True, planned=True)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median (the lower of two) of all elements, or along a dimension with its index.

    >>> import flambeau as torch
    >>> torch.median(torch.tensor([3.0, 1.0, 2.0, 4.0]))
    tensor(2.)
    """
    return _median_of("median", input, dim, keepdim)


@public(out=True, planned=True)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of the elements that are not NaN.

    >>> import flambeau as torch
    >>> torch.nanmedian(torch.tensor([3.0, float("nan"), 1.0]))
    tensor(1.)
    """
    return _median_of("nanmedian", input, dim, keepdim)


@primitive(grad={"x": chosen_grad}, name="mode", meta=_one_rule, batch=along, tangent=chosen_along)
def mode_op(backend: Any, x: Any, dim: int, keepdim: bool) -> Any:
    if x.ndim == 0:
        return x.copy(), backend.zeros((), "int64")
    return _of_each_sorted(backend, most_frequent, x, dim, keepdim)


@public(out=True, planned=True)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent elements along a dimension (the smallest among equals), and the index of the last of each.

    >>> import flambeau as torch
    >>> torch.mode(torch.tensor([1, 2, 2, 3])).values
    tensor(2)
    """
    if input.dtype.category == COMPLEX:
        raise not_implemented("mode_cpu", input.dtype)
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    require_elements("mode", shape, (dim,))
    return return_types.mode(*mode_op(input, dim, keepdim))


SCHEMAS = """
sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
sort.values_stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)
sort.values(Tensor self, int dim=-1, bool descending=False, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)
argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor
argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor
msort|median|nanmedian(Tensor self) -> Tensor
topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)
topk.values(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)
kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)
kthvalue.values(Tensor self, SymInt k, int dim=-1, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)
median|nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
median|nanmedian.dim_values(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)
mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)
mode.values(Tensor self, int dim=-1, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)
"""
