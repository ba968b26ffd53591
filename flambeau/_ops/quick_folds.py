"""Short ways of reductions along dimensions of small dense tensors, planned once for a shape.

What they do not know (other arguments, layouts, dtypes, errors) they leave to the functions they stand before.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._backend.cpu import PARALLEL, cpu
from .._core import return_types
from .._core.dtypes import COMPLEX, FLOATING, INTEGER, dtype, int64
from .._core.state import GRAD, local
from .._kernel.reduce import extremum_columns, extremum_rows, moments_columns, moments_rows
from .._kernel.scan import scan_columns, scan_rows
from .._kernel.sort import FEW, MOST, merge_sort, top
from .._tensor import Tensor, wrap
from .folding import plan_fold, plan_two_folds
from .histories import attach, attach_pair
from .registry import quick, relabel

_empty = np.empty
_new_tuple = tuple.__new__
_MOST_PLANS = 4096
_INT64 = np.dtype(np.int64)


def _place(dim: Any, ndim: int) -> Any:
    """A dimension (or several) counted from the front, None for all; False if it is not one."""
    if dim is None:
        return None
    if dim.__class__ is tuple:
        places = [_place(d, ndim) if d.__class__ is int else False for d in dim]
        wrong = not dim or any([p is False for p in places]) or len(set(places)) < len(places)
        return False if wrong else tuple(sorted(places))
    return dim + ndim if -ndim <= dim < 0 else dim if 0 <= dim < ndim else False


def _planned(prepare: Callable[..., Any], several: bool = False) -> Callable[..., Any]:
    """plan(input, dim, keepdim) of a plain small dense tensor: what `prepare` makes of its array, dtype and dimension.

    `prepare` is asked once for a shape; None means that there is no short way. `several` dimensions come as a tuple.
    """
    plans: dict[Any, Any] = {}

    def plan(input: Any, dim: Any, keepdim: Any) -> Any:
        if input.__class__ is not Tensor or input._k > GRAD:
            return None
        if dim.__class__ is not int and dim is not None:
            if not several or (dim.__class__ is not tuple and dim.__class__ is not list):
                return None
            dim = tuple(dim)
        x = input._array
        if not x.flags.c_contiguous or (keepdim is not False and keepdim is not True):
            return None
        key = (input.dtype, x.shape, dim, keepdim)
        try:
            return plans[key]
        except KeyError:
            pass
        made = None
        if x.ndim and 0 < x.size < PARALLEL and input.dtype.code:
            place = _place(dim, x.ndim)
            if place is not False:
                made = prepare(x, input.dtype, place, keepdim)
        if len(plans) >= _MOST_PLANS:
            plans.clear()
        plans[key] = made
        return made

    return plan


def _dims(place: Any, ndim: int) -> tuple[int, ...]:
    return tuple(range(ndim)) if place is None else place if place.__class__ is tuple else (place,)


def _folded(op: Any, input: Tensor, plan: Any, *static: Any) -> Tensor:
    """The result of a plan, with the history of `op(input, *static)` where there is one."""
    call, view, made, shape, d = plan[:5]
    x, out = input._array, _empty(made, d.numpy)
    call(x if view is None else x.reshape(view), out)
    t = wrap(out if shape is None else out.reshape(shape), d)
    return attach(op, input, static, t) if input._k and local.grad and op.differentiable else t


def _fold_plan(fold: str, how: str | None, result: Callable[[dtype], dtype | None]) -> Callable[..., Any]:
    def prepare(x: Any, own: dtype, place: Any, keepdim: bool) -> Any:
        d = result(own)
        if d is None:
            return None
        dims = _dims(place, x.ndim)
        found = plan_fold(x, dims, keepdim, fold, d, how) or plan_two_folds(x, dims, keepdim, fold, d, how)
        return (*found, d, dims) if found else None

    return _planned(prepare, fold != "prod")


def quick_fold(
    op: Any, fold: str, how: str | None, result: Callable[[dtype], dtype | None], whole: Any = None, typed: bool = True
) -> Callable[[Any], Any]:
    """sum(x), x.mean(1) and the like; `result` gives the dtype of the result, None where there is no short way.

    `whole` is the dimension that stands for all, `typed` says whether the op takes the dtype of its result.
    """
    planned = _fold_plan(fold, how, result)
    along = op.name.title() + "Backward1" if typed else None

    def fast(input: Any, dim: Any = whole, keepdim: Any = False, *more: Any, **others: Any) -> Any:
        if more or others:
            return NotImplemented
        if dim is whole:
            dim = None
        elif dim is None:
            return NotImplemented
        plan = planned(input, dim, keepdim)
        if plan is None:
            return NotImplemented
        d, dims = plan[4:]
        made = _folded(op, input, plan, *((dims, keepdim, d) if typed else (dims, keepdim)))
        if along is not None and input._k and dim is not None and input._array.ndim == len(dims):
            relabel(made, along)  # all dimensions, but by name
        return made

    return quick(fast, named=True)


def _shapes(x: Any, place: Any, keepdim: bool) -> tuple[bool, Any, Any, Any]:
    """How to fold along rows (True) or down columns: the shape to view an array in, that of what is made, and that of
    the result."""
    if place is None:
        return True, (x.size,), (), (1,) * x.ndim if keepdim else ()
    if place.__class__ is tuple:  # the last dimensions
        before = x.shape[: place[0]]
        shape = before + (1,) * len(place) if keepdim else before
        return True, (*before, math.prod(x.shape[place[0] :])), before, shape
    before, after = x.shape[:place], x.shape[place + 1 :]
    shape = (*before, 1, *after) if keepdim else before + after
    if place == x.ndim - 1:
        return True, x.shape, before, shape
    columns = math.prod(after)
    return False, (*before, x.shape[place], columns), (*before, columns), shape


def _extremum_plan(sign: int, lowest: int) -> Callable[..., Any]:
    def prepare(x: Any, d: dtype, place: int | None, keepdim: bool) -> Any:
        if not lowest <= d.category < COMPLEX:
            return None
        rows, view, made, shape = _shapes(x, place, keepdim)
        call = cpu.small(extremum_rows if rows else extremum_columns, (d.code, d.code, "i64"), sign=sign)
        return call, view, made, shape, place

    return _planned(prepare)


def _both(input: Tensor, plan: Any) -> tuple[Any, Any]:
    call, view, made, shape, _ = plan
    value, place = _empty(made, input.dtype.numpy), _empty(made, _INT64)
    call(input._array.reshape(view), value, place)
    return (value, place) if made == shape else (value.reshape(shape), place.reshape(shape))


def _pair(op: Any, kind: Any, input: Tensor, values: Any, places: Any, *static: Any) -> Any:
    """Two arrays as a named pair of tensors, with the history of `op(input, *static)` where there is one."""
    first, second = wrap(values, input.dtype), wrap(places, int64)
    if input._k and local.grad:
        attach_pair(op, input, static, first, second)
    return _new_tuple(kind, (first, second))


def quick_extremum(name: str, sign: int, whole_op: Any, along_op: Any) -> Callable[[Any], Any]:
    """max(x) and max(x, dim)."""
    whole = _fold_plan(name, None, lambda d: d if d.category < COMPLEX else None)
    along = _extremum_plan(sign, 0)
    kind = getattr(return_types, name)

    def fast(input: Any, dim: Any = ..., keepdim: Any = None, *more: Any, **others: Any) -> Any:
        if more or others:
            return NotImplemented
        if dim is ...:
            plan = whole(input, None, False) if keepdim is None else None
            return NotImplemented if plan is None else _folded(whole_op, input, plan)
        if dim.__class__ is not int:
            return NotImplemented
        keepdim = False if keepdim is None else keepdim
        plan = along(input, dim, keepdim)
        if plan is None:
            return NotImplemented
        return _pair(along_op, kind, input, *_both(input, plan), plan[-1], keepdim)

    return quick(fast, named=True)


def quick_argument(sign: int) -> Callable[[Any], Any]:
    """argmax(x) and argmax(x, dim)."""
    planned = _extremum_plan(sign, INTEGER)

    def fast(input: Any, dim: Any = None, keepdim: Any = False, *more: Any, **others: Any) -> Any:
        plan = None if more or others else planned(input, dim, keepdim)
        return NotImplemented if plan is None else wrap(_both(input, plan)[1], int64)

    return quick(fast, named=True)


@functools.lru_cache(256)
def _float(value: int) -> Any:
    return np.asarray(float(value))


def quick_moments(op: Any, root: bool, both: bool = False) -> Callable[[Any], Any]:
    """std(x) and var(x, dim); the mean too with `both`."""

    def prepare(x: Any, d: dtype, place: Any, keepdim: bool) -> Any:
        if d.category != FLOATING or (place.__class__ is tuple and place != tuple(range(place[0], x.ndim))):
            return None
        count = math.prod([x.shape[i] for i in _dims(place, x.ndim)])
        rows, view, made, shape = _shapes(x, place, keepdim)
        call = cpu.small(moments_rows if rows else moments_columns, (d.code, "f64", d.code, d.code), root=root)
        return call, view, made, shape, count, _dims(place, x.ndim)

    planned = _planned(prepare, True)

    def fast(
        input: Any, dim: Any = None, unbiased: Any = None, keepdim: Any = False, *more: Any, correction: Any = None,
        **others: Any,
    ) -> Any:  # fmt: skip
        plan = None if more or others else planned(input, dim, keepdim)
        if plan is None:
            return NotImplemented
        call, view, made, shape, count, dims = plan
        if unbiased is not None:
            if correction is not None or (unbiased is not True and unbiased is not False):
                return NotImplemented
            correction = int(unbiased)
        elif correction is None:
            correction = 1
        elif correction.__class__ is not int:
            return NotImplemented
        if count <= correction:
            return NotImplemented
        d, free = input.dtype, _float(count - correction)
        out, mean = _empty(made, d.numpy), _empty(made, d.numpy)
        call(input._array.reshape(view), free, out, mean)
        t = wrap(out if made == shape else out.reshape(shape), d)
        if both:
            pair = t, wrap(mean.reshape(shape), d)
            if input._k and local.grad:
                op.record((input, dims, keepdim, correction), pair)
            return pair
        return attach(op, input, (dims, keepdim, correction), t) if input._k and local.grad else t

    return quick(fast, named=True)


def quick_scan(op: Any, fold: str) -> Callable[[Any], Any]:
    """cumsum(x, dim)."""

    def prepare(x: Any, own: dtype, place: int | None, keepdim: bool) -> Any:
        if place is None:
            return None
        d = own if own.category >= FLOATING else int64
        rows, view, *_ = _shapes(x, place, False)
        if not rows and d.category == COMPLEX:
            return None
        return cpu.small(scan_rows if rows else scan_columns, (own.code, d.code), fold=fold), view, d, place

    planned = _planned(prepare)

    def fast(input: Any, dim: Any = None, *more: Any, **others: Any) -> Any:
        plan = None if more or others else planned(input, dim, False)
        if plan is None:
            return NotImplemented
        call, view, d, place = plan
        x = input._array
        out = _empty(x.shape, d.numpy)
        call(x.reshape(view), out.reshape(view))
        t = wrap(out, d)
        return attach(op, input, (place, d), t) if input._k and local.grad else t

    return quick(fast, named=True)


def quick_top(op: Any) -> Callable[[Any], Any]:
    """topk(x, k) along the last dimension."""

    def prepare(x: Any, d: dtype, place: int | None, largest: bool) -> Any:
        if place != x.ndim - 1 or d.category not in (INTEGER, FLOATING):
            return None
        return cpu.small(top, (d.code, d.code, "i64"), smallest=not largest)

    planned = _planned(prepare)
    kind = return_types.topk

    def fast(
        input: Any, k: Any = None, dim: Any = -1, largest: Any = True, sorted: Any = True, *more: Any, **others: Any
    ) -> Any:
        call = None if more or others or k.__class__ is not int or dim is None else planned(input, dim, largest)
        if call is None:
            return NotImplemented
        x = input._array
        if not 0 < k <= MOST or k > x.shape[-1]:
            return NotImplemented
        shape = (*x.shape[:-1], k)
        values, places = _empty(shape, x.dtype), _empty(shape, _INT64)
        call(x, values, places)
        return _pair(op, kind, input, values, places, x.ndim - 1, k, largest)

    return quick(fast, named=True)


def quick_sort(op: Any) -> Callable[[Any], Any]:
    """sort(x) of few elements along the last dimension."""

    def prepare(x: Any, d: dtype, place: int | None, descending: bool) -> Any:
        if place != x.ndim - 1 or d.category == COMPLEX or x.size > FEW:
            return None
        return cpu.small(merge_sort, (d.code, d.code, *["i64"] * 4), descending=descending)

    planned = _planned(prepare)
    kind = return_types.sort

    def fast(input: Any, dim: Any = -1, descending: Any = False, *more: Any, **others: Any) -> Any:
        call = None if more or others or dim is None else planned(input, dim, descending)
        if call is None:
            return NotImplemented
        x = input._array
        shape = x.shape
        values, places = _empty(shape, x.dtype), _empty(shape, _INT64)
        scratch = _empty((3, *shape), _INT64)
        call(x, values, places, scratch[0], scratch[1], scratch[2])
        return _pair(op, kind, input, values, places, x.ndim - 1, descending)

    return quick(fast, named=True)
