"""Runs folding kernels over arrays of any layout: dimensions that lie evenly in memory are merged, what is left is
folded along rows or down columns, and large arrays are split over the threads."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..._backend import threads
from ..._backend.copies import place, row_major, rows_of
from ..._backend.cpu import cpu
from ..._core.allocation import empty, fill
from ..._core.dtypes import BY_NUMPY, dtype
from ..._core.sizes import contiguous_strides
from ..._kernel.folds.reduce import (
    ABREAST,
    BLOCK,
    FOLDS,
    extremum_columns,
    extremum_rows,
    extremum_rows_abreast,
    extremum_short_rows,
    fold_columns,
    fold_rows,
    fold_rows_abreast,
    fold_short_rows,
    squares_rows,
)  # fmt: skip
from ..._kernel.folds.sums import LANES, sum_columns, sum_rows
from ..._kernel.loops.lang import kernel
from ..._kernel.render.value import PART

_LONG = 64  # elements of a fold that are worth a thread
_MANY_ROWS = 128  # that are worth a kernel for their length
_SHORT = 8  # elements of a row that vectors take one each of, from many rows
_NARROW = 8  # columns below which a strided row kernel is better than a column kernel
_NUMPY = {d.code: d.numpy for d in BY_NUMPY.values() if d.code}
_empty = empty


@functools.cache
def _moved(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    return (*[d for d in range(ndim) if d not in axes], *axes)


def to_last(x: Any, *axes: int) -> Any:
    """A view with dimensions moved to the end."""
    return x.transpose(_moved(x.ndim, axes)) if axes[-1] != x.ndim - 1 or len(axes) > 1 else x


def from_last(x: Any, axis: int) -> Any:
    """A view with the last dimension moved to a place."""
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    return x.transpose(order)


def gathered(x: Any, dim: int) -> Any:
    """The array with a dimension moved to the end, in row-major memory."""
    return rows_of(to_last(x, dim))


def scattered(x: Any, dim: int) -> Any:
    """Undoes `gathered`: the last dimension moved to a place, in row-major memory."""
    made = rows_of(from_last(x, dim))
    return (
        made.reshape(-1).reshape(made.shape) if 1 in made.shape else made
    )  # with such strides where these do not matter, too


def reduced_shape(shape: Any, dims: Any, keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple(1 if i in dims else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in dims)


def fold_array(
    backend: Any, x: Any, dims: tuple[int, ...], keepdim: bool, fold: str, result: dtype, how: str | None = None
) -> Any:
    """Folds dimensions of an array; `how` is a last step ("mean", "root")."""
    if backend is not cpu:
        return _fold_elsewhere(backend, x, dims, keepdim, fold, result, how)
    if x.dtype.kind == "c" and fold == "sum" and result.numpy == x.dtype and _numbers_side_by_side(x, dims):
        real = BY_NUMPY[x.real.dtype]
        return fold_array(backend, x.view(real.numpy), dims, keepdim, fold, real, how).view(x.dtype)
    if x.flags.c_contiguous:  # the common cases, planned once
        cores = threads.count(x.size)
        key = (fold, how, x.dtype, result, x.shape, dims, keepdim, cores)
        plan = _plans.get(key)
        if plan is None:
            if len(_plans) > 4096:
                _plans.clear()
            plan = _plans[key] = plan_fold(x, dims, keepdim, fold, result, how, cores)
        if plan:
            call, view, made_shape, shape = plan
            out = _empty(made_shape, result.numpy)
            call(x if view is None else x.reshape(view), out)
            return out if shape is None else out.reshape(shape)
    shape = reduced_shape(x.shape, dims, keepdim)
    if x.size == 0:
        return _empty_fold(shape, fold, result, how)
    same = [d for d, (n, step) in enumerate(zip(x.shape, x.strides)) if n > 1 and not step and d not in dims]
    if same:  # as in the gradient of a sum: what is repeated is folded once
        one = x[tuple([slice(1) if d in same else slice(None) for d in range(x.ndim)])]
        return _repeated(
            fold_array(backend, one, dims, True, fold, result, how), reduced_shape(x.shape, dims, True), shape
        )
    y, flags, kept, order = layout(x, dims)
    code = BY_NUMPY[x.dtype].code
    if not any(flags):  # only dimensions of extent 1 go: the kernel still lifts every element
        y, flags = y[..., None], [*flags, True]
    while True:
        last = len(flags) - 1 - flags[::-1].index(True)
        final = sum(flags) == 1
        target = result.code if final else FOLDS[fold].wide(code)
        step = how if final or how == "mean" else None
        rows = flags[-1] or y.shape[-1] < _NARROW or code in PART
        y = _fold_last(to_last(y, last) if rows else to_last(y, last, y.ndim - 1), rows, code, target, fold, step)
        del flags[last]
        if final:
            break
        code, fold = target, FOLDS[fold].again
    return unlay(y, x.shape, kept, order, shape)


def _repeated(made: Any, wide: Any, shape: Any) -> Any:
    """An array broadcast to `wide`, in memory of its own and in the form of `shape`."""
    out = _empty(wide, made.dtype)
    if made.size == 1 and made.__class__ is np.ndarray:  # and not watched
        fill(out, made.reshape(())[()])
    else:
        place(out, made)
    return out.reshape(shape)


def _numbers_side_by_side(x: Any, dims: tuple[int, ...]) -> bool:
    """Whether the numbers of complex elements can be added up as columns of their own."""
    last = x.ndim - 1
    return last > 0 and last not in dims and x.size > 0 and x.shape[-1] > 1 and x.strides[-1] == x.itemsize


_plans: dict[Any, Any] = {}


def plan_fold(
    x: Any, dims: tuple[int, ...], keepdim: bool, fold: str, result: dtype, how: str | None, cores: int = 1
) -> Any:
    """(callable, shape to view x in, shape of what is made, shape of the result) of a fold in one step, or False.

    Shapes are None where they would change nothing.
    """
    code = BY_NUMPY[x.dtype].code
    shape = reduced_shape(x.shape, dims, keepdim)
    if x.size == 0:
        return False
    if len(dims) == x.ndim:
        view: list[int] = [x.size]
        flags = [True]
    else:
        y, flags, *_ = layout(x, dims)
        view = list(y.shape)
    if sum(flags) != 1:
        return False
    if flags[-1]:
        made = view[:-1]
    elif flags[-2] and view[-1] >= _NARROW and code not in PART:
        made = [*view[:-2], view[-1]]
    else:
        return False
    if flags[-1] and len(view) == 2:
        found = _side_by_side(x.size, view[0], view[1], code, result.code, fold, how)
        if found is not None:
            call, parts = found
            return call, [*parts, view[1]], parts, shape
    if threads.pay(x.size // 4) and (len(view) < (2 if flags[-1] else 3) or view[0] < cores):
        return False  # one long fold, or few: what threads make of pieces is to be folded again
    call = _callable(x.size, flags[-1], code, result.code, fold, how, True)
    return call, None if tuple(view) == x.shape else view, tuple(made), None if tuple(made) == shape else shape


def _side_by_side(size: int, rows: int, width: int, code: str, target: str, fold: str, how: str | None) -> Any:
    """The kernel (k,n)->(k) of a fold of many dense rows that are not long, which joins elements of several rows at once, and the equal
    parts of all rows, which threads share; None if each row is better folded for itself."""
    if code in PART or (fold == "sum" and code == target and code in LANES):
        return None
    return _together(size, rows, width, (fold_short_rows, fold_rows_abreast), (code, target), fold=fold, how=how)


def _together(size: int, rows: int, width: int, ways: tuple[Any, Any], types: tuple[str, ...], **options: Any) -> Any:
    """The same for the two kernels of rows of a few elements, and of some tens."""
    parts = next(p for p in range(32, 0, -1) if p == 1 or (rows % p == 0 and rows // p >= ABREAST))
    if parts < threads.count(size):
        return None
    if width <= _SHORT and rows >= _MANY_ROWS:
        call = cpu.sized(size, ways[0], types, width=width, **options)
    elif _SHORT < width <= BLOCK and rows >= ABREAST:
        call = cpu.sized(size, ways[1], types, lanes=8 if width < 16 else 16, adjacent=True, **options)
    else:
        return None
    return call, (parts, rows // parts)


def layout(x: Any, dims: Any) -> tuple[Any, list[bool], list[int], list[int]]:
    """The array with neighbours in memory merged, which merged dimensions are to go, and the kept dimensions in the
    order of memory (with the permutation that brings them back)."""
    if x.flags.c_contiguous:
        sizes, flags, kept, order = _dense_layout(x.shape, tuple(dims))
        return x.reshape(sizes), flags.copy(), kept, order
    shape, strides = x.shape, x.strides
    axes = [d for d in range(x.ndim) if shape[d] != 1]
    axes.sort(key=lambda d: -abs(strides[d]))
    sizes, flags, kept, order = _merged(shape, strides, axes, dims)
    ones = [d for d in range(x.ndim) if shape[d] == 1]
    return x.transpose(*axes, *ones).reshape(sizes), flags, kept, order


@functools.lru_cache(4096)
def _dense_layout(shape: Any, dims: Any) -> tuple[list[int], list[bool], list[int], list[int]]:
    axes = [d for d in range(len(shape)) if shape[d] != 1]
    return _merged(shape, contiguous_strides(shape), axes, dims)


def _merged(shape: Any, strides: Any, axes: list[int], dims: Any) -> tuple[list[int], list[bool], list[int], list[int]]:
    sizes: list[int] = []
    flags: list[bool] = []
    step = 0
    for d in axes:
        flag = d in dims
        if sizes and flags[-1] == flag and step == shape[d] * strides[d]:
            sizes[-1] *= shape[d]
        else:
            sizes.append(shape[d])
            flags.append(flag)
        step = strides[d]
    kept = [d for d in axes if d not in dims]
    return sizes, flags, kept, sorted(range(len(kept)), key=kept.__getitem__)


def unlay(y: Any, shape: Any, kept: list[int], order: list[int], result: Any) -> Any:
    """Undoes `layout` for a result over the kept dimensions, which is row-major."""
    if order == sorted(order):
        return y.reshape(result)
    return row_major(y.reshape([shape[d] for d in kept]).transpose(order)).reshape(result)


def _empty_fold(shape: Any, fold: str, result: dtype, how: str | None) -> Any:
    if 0 in shape:
        return np.empty(shape, result.numpy)
    start = math.nan if how == "mean" else FOLDS[fold].start(result.code)
    return np.full(shape, start, result.numpy)


def _callable(size: int, rows: bool, code: str, target: str, fold: str, how: str | None, dense: bool) -> Any:
    """The kernel of a fold along rows or down columns; sums within one precision have their own. Elements of the last dimension
    are neighbours in memory if `dense`."""
    make = functools.partial(cpu.sized, size)
    if fold == "sum" and code == target and code in LANES:
        return make(sum_rows if rows else sum_columns, (code, target), how=how, adjacent=dense)
    if fold == "squares" and code == "f32" and rows:
        return make(squares_rows, (code, target), how=how, adjacent=dense)
    return make(fold_rows if rows else fold_columns, (code, target), fold=fold, how=how, adjacent=dense)


def _neighbours(y: Any) -> bool:
    """Whether elements of the last dimension follow each other."""
    return bool(y.strides[-1] == y.itemsize)


def _fold_last(y: Any, rows: bool, code: str, target: str, fold: str, how: str | None) -> Any:
    """Folds along the last dimension, or (of columns) along the one before."""
    outer, columns = (y.shape[:-1], ()) if rows else (y.shape[:-2], y.shape[-1:])
    few = max(outer, default=1) < threads.count(y.size)
    if few and (rows or y.shape[-2] >= _LONG):
        return _in_pieces(y, rows, code, target, fold, how)
    out = empty((*outer, *columns), _NUMPY[target])
    if rows and outer and _neighbours(y) and (y.shape[-1] > _SHORT or y.strides[-2] == y.shape[-1] * y.itemsize):
        found = _side_by_side(y.size, outer[-1], y.shape[-1], code, target, fold, how)
        if found is not None:
            call, parts = found
            operands = [a.reshape(*outer[:-1], *parts, *a.shape[len(outer) :]) for a in (y, out)]
            cpu.widest(call, operands, len(outer), y.size)
            return out
    call = _callable(y.size, rows, code, target, fold, how, _neighbours(y))
    if few:
        cpu.columns(call, [y, out], y.size, 256)
    else:
        cpu.widest(call, [y, out], len(outer), y.size)
    return out


def _in_pieces(y: Any, rows: bool, code: str, target: str, fold: str, how: str | None) -> Any:
    """One long fold: each thread takes a piece of the folded dimension, the pieces are folded afterwards."""
    axis, way = (-1, fold_rows) if rows else (-2, fold_columns)
    n = y.shape[axis]
    parts = max(1, min(threads.get_num_threads(), n // _LONG))
    each, rest = divmod(n, parts)
    wide = FOLDS[fold].wide(code)
    call = _callable(y.size, rows, code, wide, fold, None, _neighbours(y))
    lead, tail = y.shape[:axis], y.shape[1 + axis :] if axis < -1 else ()
    columns = (slice(None),) * len(tail)
    partial: Any = empty((*lead, parts + (rest > 0), *tail), _NUMPY[wide])
    whole = y[(..., slice(parts * each), *columns)].reshape(*lead, parts, each, *tail)
    call(whole, partial[(..., slice(parts), *columns)])
    if rest:
        call(y[(..., slice(parts * each, n), *columns)], partial[(..., parts, *columns)])
    kind, last = (wide, None) if how == "mean" else (target, how)
    made = empty((*lead, *tail), _NUMPY[kind])
    cpu.kernel(way, (wide, kind), fold=FOLDS[fold].again, how=last, adjacent=True)(partial, made)
    if how != "mean":
        return made
    out = empty(made.shape, _NUMPY[target])
    cpu.kernel(_divided, (wide, wide, target))(made, np.asarray(n, _NUMPY[wide]), out)
    return out


@kernel("(),()->()")
def _divided(m: Any, x: Any, n: Any, out: Any) -> None:
    out[()] = x[()] / n[()]


def _fold_elsewhere(backend: Any, x: Any, dims: Any, keepdim: bool, fold: str, result: dtype, how: str | None) -> Any:
    made = backend.along.fold(x, dims, fold, result.code, how)
    return made.reshape(reduced_shape(x.shape, dims, True)) if keepdim else made


# -- one dimension at a time: kernels with several results -------------------------------------------------------


def extremum(backend: Any, x: Any, dim: int, sign: int, keepdim: bool = False) -> tuple[Any, Any]:
    """The largest (sign 1) or smallest (-1) elements along a dimension and where they are first."""
    if backend is not cpu:
        value, place = backend.along.extremum(x, dim, sign)
    else:
        value, place = _extremum_of_row(x, sign) if x.ndim == 1 else _extremum(x, dim, sign)
    if not keepdim:
        return value, place
    shape = reduced_shape(x.shape, (dim,), True)
    return value.reshape(shape), place.reshape(shape)


def _extremum(x: Any, dim: int, sign: int) -> tuple[Any, Any]:
    steps = x.strides
    if dim == x.ndim - 1 and steps[dim] == x.itemsize:
        inner = dim
    else:
        inner = min((d for d in range(x.ndim) if x.shape[d] > 1), key=lambda d: abs(steps[d]), default=dim)
    outs = [_empty(x.shape[:dim] + x.shape[dim + 1 :], d) for d in (x.dtype, np.int64)]
    along_rows = inner == dim or x.shape[inner] < _NARROW or x.shape[dim] >> 31
    kernel, code = extremum_rows if along_rows else extremum_columns, BY_NUMPY[x.dtype].code
    if along_rows and x.size:
        ways, n = (extremum_short_rows, extremum_rows_abreast), x.shape[dim]
        found = _together(x.size, x.size // n, n, ways, (code, code, "i64"), sign=sign)
        if found is not None:
            call, parts = found
            call(gathered(x, dim).reshape(*parts, n), *[o.reshape(parts) for o in outs])
            return outs[0], outs[1]
    call = cpu.sized(x.size, kernel, (code, code, "i64"), sign=sign)
    if along_rows:
        cpu.widest(call, [to_last(x, dim), *outs], x.ndim - 1, x.size)
        return outs[0], outs[1]
    operands = [to_last(x, dim, inner), *[to_last(o, inner - (inner > dim)) for o in outs]]
    if x.ndim > 2:
        cpu.widest(call, operands, x.ndim - 2, x.size)
    else:
        cpu.columns(call, operands, x.size)
    return outs[0], outs[1]


def _extremum_of_row(x: Any, sign: int) -> tuple[Any, Any]:
    """Each thread searches a piece of a long row, the best of the pieces is taken."""
    parts = threads.ranges(x.size, work=x.size)
    if len(parts) == 1:
        return _extremum(x, 0, sign)
    values, places = _empty((len(parts), 1), x.dtype), _empty((len(parts), 1), np.int64)
    code = BY_NUMPY[x.dtype].code
    call = cpu.sized(x.size, extremum_rows, (code, code, "i64"), sign=sign)
    cpu.side_by_side(call, [[x[None, a:b], values[i], places[i]] for i, (a, b) in enumerate(parts)])
    value, best = _extremum(values[:, 0], 0, sign)
    return value, places[int(best), 0, ...] + parts[int(best)][0]
