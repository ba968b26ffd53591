"""Pooling of arrays: tables of windows, and kernels run over them plane by plane (on GPUs, result by result)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.dtypes import BY_NUMPY
from .._kernel import pooling as kernels
from .casting import cast_array

# The windows along each dimension: (start, end, step or extent) for every result.
Tables = Sequence[Any]


def sliding(size: int, count: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> Any:
    """The table of evenly placed windows, cut to the inside."""
    start = np.arange(count, dtype=np.int64) * stride - padding
    end = np.minimum(start + dilation * (kernel - 1) + 1, size)
    start += np.where(start < 0, -(start // dilation) * dilation, 0)
    start = np.minimum(start, size)  # a window may lie between the elements of the padding alone
    return np.stack([start, end, np.full_like(start, dilation)], 1)


def counted(size: int, count: int, kernel: int, stride: int, padding: int, include_padding: bool) -> Any:
    """As `sliding`, with the number of elements that count in a mean."""
    start = np.arange(count, dtype=np.int64) * stride - padding
    whole = np.minimum(start + kernel, size + padding) - start
    start, end = np.maximum(start, 0), np.minimum(start + kernel, size)
    return np.stack([start, end, whole if include_padding else end - start], 1)


def adaptive(size: int, count: int, extents: bool) -> Any:
    """Windows that share a size among so many results."""
    i = np.arange(count, dtype=np.int64)
    start = i * size // max(count, 1)
    end = -(-(i + 1) * size // max(count, 1))
    return np.stack([start, end, end - start if extents else np.ones_like(i)], 1)


def _planes(x: Any, rank: int) -> Any:
    """(…, *size) with three dimensions of space."""
    return x.reshape(*x.shape[: x.ndim - rank], *(1,) * (3 - rank), *x.shape[x.ndim - rank :])


def _tables(backend: Any, tables: Tables) -> list[Any]:
    """Three tables: a dimension that is not there has one window of one element."""
    made = [np.array([[0, 1, 1]])[:, : tables[0].shape[-1]]] * (3 - len(tables)) + list(tables)
    return made if backend.name == "cpu" else [backend.xp.asarray(t) for t in made]


def _by_result(tables: list[Any]) -> list[Any]:
    """Tables (…, n, t) whose n runs along the first, second and third dimension of results."""
    a, b, c = tables
    return [a[..., :, None, None, :], b[..., None, :, None, :], c[..., None, None, :, :]]


def _run(
    backend: Any, by_plane: Any, by_result: Any, x: Any, tables: list[Any], more: list[Any], outs: list[Any],
    **options: Any,
) -> None:  # fmt: skip
    """One of two kernels: over whole planes, or for devices where every result has a thread of its own."""
    code = BY_NUMPY[x.dtype].code
    types = (code, "i64", "i64", "i64", *("i64" for _ in more), code, *("i64" for _ in outs[1:]))
    if backend.name == "cpu":
        lead = x.shape[:-3]
        flat = [a.reshape(math.prod(lead), *a.shape[-3:]) for a in (x, *outs)]
        given = [t.reshape(-1, *t.shape[-2:]) if t.ndim > 2 else t[None] for t in tables]
        work = max(x.size, sum(o.size for o in outs) * 4)
        backend.rows(backend.kernel(by_plane, types, **options), [flat[0], *given, *more], flat[1:], work)
    else:
        call = backend.kernel(by_result, types, **options)
        call(x[..., None, None, None, :, :, :], *_by_result(tables), *more, *outs)


def largest(backend: Any, x: Any, tables: Tables) -> tuple[Any, Any]:
    """Maxima of windows and their places in the plane; (N, C, *size) to twice (N, C, *results)."""
    rank = len(tables)
    shape = (*x.shape[: x.ndim - rank], *(t.shape[-2] for t in tables))
    out, index = backend.empty(shape, x.dtype), backend.empty(shape, np.int64)
    nothing = [t[..., 0] >= t[..., 1] for t in tables]
    tables = [
        np.concatenate([t[..., :1] - e[..., None], t[..., 1:]], -1) if e.any() else t for t, e in zip(tables, nothing)
    ]
    if out.size:
        planes, results = _planes(x, rank), [_planes(out, rank), _planes(index, rank)]
        taps = _taps(tables[-1], x.shape[-1]) if backend.name == "cpu" else None
        if taps is None:
            _run(backend, kernels.max_planes, kernels.max_element, planes, _tables(backend, tables), [], results)
        else:
            options = {"stride": taps[1], "lowest": _lowest(x.dtype)}
            _run(backend, kernels.max_rows, None, planes, _tables(backend, tables), [taps[0][None]], results, **options)
    for axis, empty in enumerate(nothing, -rank):
        if empty.any():
            out.swapaxes(axis, -1)[..., np.flatnonzero(empty)] = _lowest(x.dtype)
    return out, index


def _lowest(d: Any) -> Any:
    return int(np.iinfo(d).min) if d.kind in "iu" else -math.inf


def _taps(table: Any, size: int) -> tuple[Any, int] | None:
    """The elements of evenly placed windows, each (first column, first and last result that has it), and the stride.

    None where windows lie unevenly or have elements that are not in every one inside.
    """
    if table.ndim > 2 or len(table) < 8:
        return None
    start, end, step = table[len(table) // 2]
    stride = int(start - table[len(table) // 2 - 1, 0])
    count = int((end - start + step - 1) // step)
    if not 1 <= stride <= 4 or count > 16:
        return None
    first = int(start) - stride * (len(table) // 2)  # of the first window, in the padding maybe
    taps = []
    for k in range(count):
        column = first + k * int(step)
        low = max(0, -(column // stride))
        high = max(low, min(len(table), (size - 1 - column) // stride + 1))
        taps.append((column, low, high))
    results = np.arange(len(table))
    covered = sum(((results >= low) & (results < high)).astype(np.int64) for _, low, high in taps)
    if not np.array_equal(covered, (table[:, 1] - table[:, 0] + step - 1) // step):
        return None
    return np.array(taps), stride


def means(backend: Any, x: Any, tables: Tables, divisor: int, narrow: bool) -> Any:
    """Means of windows; a divisor of 0 stands for the number of elements. `narrow` sums are rounded at every step."""
    rank = len(tables)
    out = backend.empty((*x.shape[: x.ndim - rank], *(len(t) for t in tables)), x.dtype)
    if out.size:
        more = [backend.xp.asarray(divisor, np.int64)]
        _run(
            backend, kernels.mean_planes, kernels.mean_element, _planes(x, rank), _tables(backend, tables), more,
            [_planes(out, rank)], narrow=narrow and x.dtype.itemsize == 2,
        )  # fmt: skip
    return out


def spread(backend: Any, g: Any, size: Sequence[int], tables: Tables, divisor: int) -> Any:
    """The adjoint of `means`: an image of the given size."""
    rank = len(tables)
    xp = backend.xp
    out = backend.zeros((*g.shape[: g.ndim - rank], *size), g.dtype)
    if not out.size or not g.size:
        return out
    counts: Any = divisor
    if not divisor:
        counts = functools.reduce(np.multiply.outer, [t[:, 2] for t in tables])
    d = BY_NUMPY[g.dtype]
    shares = cast_array(g, d.wide) / xp.asarray(counts, d.wide.numpy)
    inside = []
    for table, n in zip(tables, size):
        i = np.arange(n)
        first = np.searchsorted(table[:, 1], i, "right")
        inside.append(np.stack([first, np.maximum(np.searchsorted(table[:, 0], i, "right"), first)], 1))
    _run(
        backend, kernels.spread_planes, kernels.spread_element, _planes(cast_array(shares, d), rank),
        _tables(backend, inside), [], [_planes(out, rank)],
    )  # fmt: skip
    return out
