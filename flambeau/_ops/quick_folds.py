"""Short ways of reductions along dimensions of small dense tensors without history, planned once for a shape.

What they do not know (other arguments, layouts, dtypes, errors) they leave to the functions they stand before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._backend.cpu import PARALLEL, cpu
from .._core import return_types
from .._core.dtypes import COMPLEX, FLOATING, INTEGER, dtype, int64
from .._core.state import GRAD
from .._kernel.reduce import extremum_rows, moments_rows
from .._kernel.scan import scan_rows
from .._kernel.sort import MOST, top
from .._tensor import Tensor, wrap
from .folding import plan_fold
from .registry import quick

_empty = np.empty
_new_tuple = tuple.__new__
_MOST_PLANS = 4096


def _place(dim: Any, ndim: int) -> Any:
    """A dimension counted from the front, None for all; False if it is not one."""
    if dim is None:
        return None
    return dim + ndim if -ndim <= dim < 0 else dim if 0 <= dim < ndim else False


def _planned(prepare: Callable[..., Any], most: int = 0) -> Callable[..., Any]:
    """plan(input, dim, keepdim) of a plain small dense tensor: what `prepare` makes of its array, dtype and dimension.

    `prepare` is asked once for a shape; None means that there is no short way. `most` is GRAD where history is allowed.
    """
    plans: dict[Any, Any] = {}

    def plan(input: Any, dim: Any, keepdim: Any) -> Any:
        if input.__class__ is not Tensor or input._k > most or (dim.__class__ is not int and dim is not None):
            return None
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


def _folded(x: Any, plan: Any) -> Tensor:
    call, view, made, shape, d = plan
    out = _empty(made, d.numpy)
    call(x if view is None else x.reshape(view), out)
    return wrap(out if shape is None else out.reshape(shape), d)


def _fold_plan(
    fold: str, how: str | None, result: Callable[[dtype], dtype | None], most: int = 0
) -> Callable[..., Any]:
    def prepare(x: Any, own: dtype, place: int | None, keepdim: bool) -> Any:
        d = result(own)
        if d is None:
            return None
        found = plan_fold(x, tuple(range(x.ndim)) if place is None else (place,), keepdim, fold, d, how)
        return (*found, d) if found else None

    return _planned(prepare, most)


def quick_fold(op: Any, fold: str, how: str | None, result: Callable[[dtype], dtype | None]) -> Callable[[Any], Any]:
    """sum(x), x.mean(1) and the like; `result` gives the dtype of the result, None where there is no short way."""
    planned = _fold_plan(fold, how, result, GRAD)

    def fast(input: Any, dim: Any = None, keepdim: Any = False, *more: Any, **others: Any) -> Any:
        plan = None if more or others else planned(input, dim, keepdim)
        if plan is None:
            return NotImplemented
        if input._k:
            ndim = input._array.ndim
            dims = tuple(range(ndim)) if dim is None else (dim + ndim if dim < 0 else dim,)
            return op.call(input, dims, keepdim, plan[-1])
        return _folded(input._array, plan)

    return quick(fast, named=True)


def _row_shapes(x: Any, place: int | None, keepdim: bool) -> Any:
    """The shape to view an array in, so that its rows are folded, and the shape of the result; None if there is none."""
    if place is None:
        return (x.size,), (1,) * x.ndim if keepdim else ()
    if place != x.ndim - 1:
        return None
    return x.shape, (*x.shape[:-1], 1) if keepdim else x.shape[:-1]


def _extremum_plan(sign: int, lowest: int) -> Callable[..., Any]:
    def prepare(x: Any, d: dtype, place: int | None, keepdim: bool) -> Any:
        shapes = _row_shapes(x, place, keepdim)
        if shapes is None or not lowest <= d.category < COMPLEX:
            return None
        view, shape = shapes
        return cpu.small(extremum_rows, (d.code, d.code, "i64"), sign=sign), view, view[:-1], shape

    return _planned(prepare)


def _both(input: Tensor, plan: Any) -> tuple[Any, Any]:
    call, view, made, shape = plan
    value, place = _empty(made, input.dtype.numpy), _empty(made, np.int64)
    call(input._array.reshape(view), value, place)
    return (value, place) if made == shape else (value.reshape(shape), place.reshape(shape))


def quick_extremum(name: str, sign: int) -> Callable[[Any], Any]:
    """max(x), and max(x, dim) along the last dimension."""
    whole = _fold_plan(name, None, lambda d: d if d.category < COMPLEX else None)
    along = _extremum_plan(sign, 0)
    named_pair = getattr(return_types, name)

    def fast(input: Any, dim: Any = ..., keepdim: Any = None, *more: Any, **others: Any) -> Any:
        if more or others:
            return NotImplemented
        if dim is ...:
            plan = whole(input, None, False) if keepdim is None else None
            return NotImplemented if plan is None else _folded(input._array, plan)
        if dim.__class__ is not int:
            return NotImplemented
        plan = along(input, dim, False if keepdim is None else keepdim)
        if plan is None:
            return NotImplemented
        value, place = _both(input, plan)
        return _new_tuple(named_pair, (wrap(value, input.dtype), wrap(place, int64)))

    return quick(fast, named=True)


def quick_argument(sign: int) -> Callable[[Any], Any]:
    """argmax(x) and argmax(x, dim) along the last dimension."""
    planned = _extremum_plan(sign, INTEGER)

    def fast(input: Any, dim: Any = None, keepdim: Any = False, *more: Any, **others: Any) -> Any:
        plan = None if more or others else planned(input, dim, keepdim)
        return NotImplemented if plan is None else wrap(_both(input, plan)[1], int64)

    return quick(fast, named=True)


def quick_moments(root: bool) -> Callable[[Any], Any]:
    """std(x) and var(x, dim) along the last dimension, with the usual correction."""

    def prepare(x: Any, d: dtype, place: int | None, keepdim: bool) -> Any:
        shapes = _row_shapes(x, place, keepdim)
        if shapes is None or d.category != FLOATING or shapes[0][-1] < 2:
            return None
        view, shape = shapes
        call = cpu.small(moments_rows, (d.code, "f64", d.code, d.code), root=root)
        return call, view, view[:-1], shape, np.asarray(float(view[-1] - 1))

    planned = _planned(prepare)

    def fast(input: Any, dim: Any = None, unbiased: Any = None, keepdim: Any = False, *more: Any, **others: Any) -> Any:
        plan = None if more or others or unbiased is not None else planned(input, dim, keepdim)
        if plan is None:
            return NotImplemented
        call, view, made, shape, free = plan
        d = input.dtype
        out = _empty(made, d.numpy)
        call(input._array.reshape(view), free, out, _empty(made, d.numpy))
        return wrap(out if made == shape else out.reshape(shape), d)

    return quick(fast, named=True)


def quick_scan(fold: str) -> Callable[[Any], Any]:
    """cumsum(x, dim) along the last dimension."""

    def prepare(x: Any, own: dtype, place: int | None, keepdim: bool) -> Any:
        if place != x.ndim - 1:
            return None
        d = own if own.category >= FLOATING else int64
        return cpu.small(scan_rows, (own.code, d.code), fold=fold), d

    planned = _planned(prepare)

    def fast(input: Any, dim: Any = None, *more: Any, **others: Any) -> Any:
        plan = None if more or others else planned(input, dim, False)
        if plan is None:
            return NotImplemented
        call, d = plan
        x = input._array
        out = _empty(x.shape, d.numpy)
        call(x, out)
        return wrap(out, d)

    return quick(fast, named=True)


def quick_top() -> Callable[[Any], Any]:
    """topk(x, k) along the last dimension."""

    def prepare(x: Any, d: dtype, place: int | None, largest: bool) -> Any:
        if place != x.ndim - 1 or d.category not in (INTEGER, FLOATING):
            return None
        return cpu.small(top, (d.code, d.code, "i64"), smallest=not largest)

    planned = _planned(prepare)
    named_pair = return_types.topk

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
        values, places = _empty(shape, x.dtype), _empty(shape, np.int64)
        call(x, values, places)
        return _new_tuple(named_pair, (wrap(values, input.dtype), wrap(places, int64)))

    return quick(fast, named=True)
