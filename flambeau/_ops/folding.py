"""Runs folding kernels over arrays of any layout: dimensions that lie evenly in memory are merged, what is left is
folded along rows or down columns, and large arrays are split over the threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._backend import threads
from .._backend.cpu import PARALLEL, cpu
from .._core.dtypes import BY_NUMPY, dtype
from .._kernel.reduce import (
    FOLDS, extremum_columns, extremum_rows, fold_columns, fold_rows, moments_columns, moments_rows,
)  # fmt: skip
from .._kernel.value import PART

_NARROW = 8  # columns below which a strided row kernel is better than a column kernel
_NUMPY = {d.code: d.numpy for d in BY_NUMPY.values() if d.code}
_CUPY = {"sum": "sum", "nansum": "nansum", "prod": "prod", "max": "amax", "min": "amin", "any": "any", "all": "all", "count": "count_nonzero"}
_asarray = np.asarray


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
    ndim = x.ndim
    if len(dims) == ndim and x.size < PARALLEL and x.flags.c_contiguous:  # the common small case
        call = cpu.kernel(fold_rows, (BY_NUMPY[x.dtype].code, result.code), fold=fold, how=how)
        made = _asarray(call(x.reshape(-1)))
        return made.reshape((1,) * ndim) if keepdim else made
    shape = reduced_shape(x.shape, dims, keepdim)
    if x.size == 0:
        return _empty_fold(shape, fold, result, how)
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
        if rows:
            y = _fold_rows(np.moveaxis(y, last, -1), code, target, fold, step)
        else:
            y = _fold_columns(np.moveaxis(y, last, -2), code, target, fold, step)
        del flags[last]
        if final:
            break
        code, fold = target, FOLDS[fold].again
    return unlay(y, x.shape, kept, order, shape)


def layout(x: Any, dims: Any) -> tuple[Any, list[bool], list[int], list[int]]:
    """The array with neighbours in memory merged, which merged dimensions are to go, and the kept dimensions in the
    order of memory (with the permutation that brings them back)."""
    shape, strides = x.shape, x.strides
    axes = [d for d in range(x.ndim) if shape[d] != 1]
    if not x.flags.c_contiguous:
        axes.sort(key=lambda d: -abs(strides[d]))
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
    ones = [d for d in range(x.ndim) if shape[d] == 1]
    kept = [d for d in axes if d not in dims]
    order = sorted(range(len(kept)), key=kept.__getitem__)
    return x.transpose(*axes, *ones).reshape(sizes), flags, kept, order


def unlay(y: Any, shape: Any, kept: list[int], order: list[int], result: Any) -> Any:
    """Undoes `layout` for a result over the kept dimensions."""
    return y.reshape([shape[d] for d in kept]).transpose(order).reshape(result)


def _empty_fold(shape: Any, fold: str, result: dtype, how: str | None) -> Any:
    if 0 in shape:
        return np.empty(shape, result.numpy)
    start = math.nan if how == "mean" else FOLDS[fold].start(result.code)
    return np.full(shape, start, result.numpy)


def _widest(shape: Any) -> int:
    return max(range(len(shape)), key=shape.__getitem__)


def _fold_rows(y: Any, code: str, target: str, fold: str, how: str | None) -> Any:
    call = cpu.kernel(fold_rows, (code, target), fold=fold, how=how)
    outer = y.shape[:-1]
    if y.size < PARALLEL:
        return _asarray(call(y))
    if outer and max(outer) >= threads.get_num_threads():
        out = np.empty(outer, _NUMPY[target])
        axis = _widest(outer)
        cpu.rows(call, [np.moveaxis(y, axis, 0)], [np.moveaxis(out, axis, 0)], y.size)
        return out
    return _in_pieces(y, -1, fold_rows, code, target, fold, how)


def _fold_columns(y: Any, code: str, target: str, fold: str, how: str | None) -> Any:
    call = cpu.kernel(fold_columns, (code, target), fold=fold, how=how)
    outer, columns = y.shape[:-2], y.shape[-1]
    if y.size < PARALLEL:
        return _asarray(call(y))
    if outer and max(outer) >= threads.get_num_threads():
        out = np.empty((*outer, columns), _NUMPY[target])
        axis = _widest(outer)
        cpu.rows(call, [np.moveaxis(y, axis, 0)], [np.moveaxis(out, axis, 0)], y.size)
        return out
    if y.shape[-2] < 64:
        out = np.empty((*outer, columns), _NUMPY[target])
        threads.run([
            lambda a=a, b=b: call(y[..., a:b], out[..., a:b]) for a, b in threads.ranges(columns, 256)
        ])  # fmt: skip
        return out
    return _in_pieces(y, -2, fold_columns, code, target, fold, how)


def _in_pieces(y: Any, axis: int, kernel: Any, code: str, target: str, fold: str, how: str | None) -> Any:
    """One long fold: each thread takes a piece of the folded dimension, the pieces are folded afterwards."""
    parts = threads.ranges(y.shape[axis], 64)
    wide = FOLDS[fold].wide(code)
    call = cpu.kernel(kernel, (code, wide), fold=fold, how=None)
    shape = y.shape[:-1] if axis == -1 else (*y.shape[:-2], y.shape[-1])
    partial = np.empty((len(parts), *shape), _NUMPY[wide])
    tail = (slice(None),) * (-1 - axis)

    def job(number: int, start: int, stop: int) -> Any:
        return lambda: call(y[(..., slice(start, stop), *tail)], partial[number, ...])

    threads.run([job(i, *part) for i, part in enumerate(parts)])
    again = FOLDS[fold].again
    if how == "mean":
        join = cpu.kernel(fold_rows, (wide, wide), fold=again, how=None)
        with np.errstate(all="ignore"):
            return _asarray(join(np.moveaxis(partial, 0, -1)) / y.shape[axis]).astype(_NUMPY[target])
    join = cpu.kernel(fold_rows, (wide, target), fold=again, how=how)
    return _asarray(join(np.moveaxis(partial, 0, -1)))


def _fold_elsewhere(backend: Any, x: Any, dims: Any, keepdim: bool, fold: str, result: dtype, how: str | None) -> Any:
    xp = backend.xp
    if fold == "absolute":
        x, fold = xp.abs(x), "sum"
    elif fold == "squares":
        x, fold = xp.square(xp.abs(x).astype(xp.float64)), "sum"
    if fold in ("sum", "nansum", "prod"):
        wide = _NUMPY[FOLDS[fold].wide(BY_NUMPY[x.dtype].code)]
        made = getattr(xp, fold)(x, axis=dims, keepdims=keepdim, dtype=wide)
    elif fold == "count":
        made = xp.count_nonzero(x, axis=dims, keepdims=keepdim)
    else:
        made = getattr(xp, _CUPY[fold])(x, axis=dims, keepdims=keepdim)
    if how == "mean":
        made = made / math.prod(x.shape[d] for d in dims)
    elif how == "root":
        made = xp.sqrt(made)
    return xp.asarray(made).astype(result.numpy)


# -- one dimension at a time: kernels with several results -------------------------------------------------------


def extremum(backend: Any, x: Any, dim: int, sign: int, keepdim: bool = False) -> tuple[Any, Any]:
    """The largest (sign 1) or smallest (-1) elements along a dimension and where they are first."""
    if backend is not cpu:
        xp = backend.xp
        place = xp.expand_dims((xp.argmax if sign > 0 else xp.argmin)(x, axis=dim), dim)
        value = xp.take_along_axis(x, place, dim)
        return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))
    code = BY_NUMPY[x.dtype].code
    value, place = _two_results(x, dim, extremum_rows, extremum_columns, code, (code, "i64"), sign=sign)
    return (np.expand_dims(value, dim), np.expand_dims(place, dim)) if keepdim else (value, place)


def moments(x: Any, dim: int) -> tuple[Any, Any]:
    """Sums of squared deviations and means along a dimension, in float64."""
    return _two_results(x, dim, moments_rows, moments_columns, BY_NUMPY[x.dtype].code, ("f64", "f64"))


def _two_results(x: Any, dim: int, rows: Any, columns: Any, code: str, types: tuple[str, str], **options: Any) -> Any:
    steps = x.strides
    inner = min((d for d in range(x.ndim) if x.shape[d] > 1), key=lambda d: abs(steps[d]), default=dim)
    shape = x.shape[:dim] + x.shape[dim + 1 :]
    if inner == dim or x.shape[inner] < _NARROW:
        y = np.moveaxis(x, dim, -1)
        call = cpu.kernel(rows, (code, *types), **options)
        outs = [np.empty(shape, _NUMPY[t]) for t in types]
        views = outs
    else:
        y = np.moveaxis(x, (dim, inner), (-2, -1))
        call = cpu.kernel(columns, (code, *types), **options)
        outs = [np.empty(shape, _NUMPY[t]) for t in types]
        views = [np.moveaxis(o, inner - (inner > dim), -1) for o in outs]
    outer = y.ndim - (1 if views is outs else 2)
    if outer and x.size >= PARALLEL:
        axis = _widest(y.shape[:outer])
        cpu.rows(call, [np.moveaxis(y, axis, 0)], [np.moveaxis(v, axis, 0) for v in views], x.size)
    elif x.size >= PARALLEL and views is not outs:
        threads.run([
            lambda a=a, b=b: call(y[..., a:b], *[v[..., a:b] for v in views])
            for a, b in threads.ranges(y.shape[-1], 64)
        ])  # fmt: skip
    else:
        call(y, *views)
    return outs


def moments_over(x: Any, dims: tuple[int, ...], keepdim: bool) -> tuple[Any, Any, int]:
    """Sums of squared deviations and means over dimensions, in float64, and the count of elements of each."""
    shape = reduced_shape(x.shape, dims, keepdim)
    count = math.prod(x.shape[d] for d in dims)
    if x.size == 0:
        return np.full(shape, 0.0), np.full(shape, math.nan), count
    y, flags, kept, order = layout(x, dims)
    if sum(flags) != 1:  # one dimension to go is what the kernels take
        kept = [d for d in range(x.ndim) if d not in dims]
        order = list(range(len(kept)))
        y = x.transpose(*kept, *dims).reshape(*[x.shape[d] for d in kept], count)
        flags = [False] * len(kept) + [True]
    if y.ndim == 1 and y.size >= PARALLEL:
        squares, means = _moments_in_pieces(y)
    else:
        squares, means = moments(y, flags.index(True))
    return unlay(squares, x.shape, kept, order, shape), unlay(means, x.shape, kept, order, shape), count


def _moments_in_pieces(y: Any) -> tuple[Any, Any]:
    """One long row: the pieces of the threads are joined by the deviations of their means."""
    parts = threads.ranges(y.size)
    results: list[Any] = [None] * len(parts)

    def job(number: int, start: int, stop: int) -> Any:
        def run() -> None:
            results[number] = moments(y[start:stop], 0)

        return run

    threads.run([job(i, *part) for i, part in enumerate(parts)])
    counts = np.array([stop - start for start, stop in parts], np.float64)
    squares, means = np.array([r[0] for r in results]), np.array([r[1] for r in results])
    with np.errstate(all="ignore"):
        mean = (counts * means).sum() / y.size
        return _asarray(squares.sum() + (counts * (means - mean) ** 2).sum()), _asarray(mean)
