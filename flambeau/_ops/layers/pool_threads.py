"""Pooling on devices where every result has a thread of its own. Arrays may lie in any way; tables of windows are constants there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.dtypes import BY_NUMPY
from ..._kernel.images import pooling as kernels
from ..places import planes

if TYPE_CHECKING:
    from .pool_arrays import Windows


def keeps_largest(x: Any, windows: Any, rank: int) -> bool:
    """Of which operands maxima have channels last if the operand has."""
    return bool(x.ndim == rank + 2 > 3)


def keeps_means(x: Any, windows: Any, rank: int, *rest: Any) -> bool:
    return bool(x.ndim == rank + 2 < 5)


def _kernel(backend: Any, kernel: Any, d: Any, codes: str, **options: Any) -> Any:
    """A kernel whose operands are elements (e) of a dtype, or places and tables (i)."""
    return backend.kernel(kernel, tuple([BY_NUMPY[d].code if c == "e" else "i64" for c in codes]), **options)


def largest(backend: Any, x: Any, windows: Windows) -> tuple[Any, Any]:
    rank = len(windows)
    lead = x.shape[: x.ndim - rank]
    kept = keeps_largest(x, windows, rank)
    out, index = (planes.room(backend, x, lead + windows.counts, d, kept) for d in (x.dtype, np.dtype(np.int64)))
    if out.size:
        call = _kernel(backend, kernels.max_element, x.dtype, "eiiiei")
        call(
            planes.whole(x, rank),
            *planes.rows(backend, windows.readable, lead),
            planes.each(out, rank),
            planes.each(index, rank),
        )
        windows.fill_empty(out)
    return out, index


def at_places(backend: Any, g: Any, index: Any, windows: Windows) -> Any:
    """The adjoint of `largest` for windows that all planes share and that have elements: each looks which windows it is the largest of."""
    rank = len(windows)
    out = backend.empty((*g.shape[: g.ndim - rank], *windows.size), g.dtype)
    if out.size:
        call = _kernel(backend, kernels.put_element, g.dtype, "eiiiie")
        rows = planes.rows(backend, windows.inside)
        call(planes.whole(g, rank), planes.whole(index, rank), *rows, planes.each(out, rank))
    return out


def means(backend: Any, x: Any, windows: Windows, divisor: int, narrow: bool) -> Any:
    rank = len(windows)
    shape = (*x.shape[: x.ndim - rank], *windows.counts)
    out = planes.room(backend, x, shape, x.dtype, keeps_means(x, windows, rank))
    if out.size:
        call = _kernel(backend, kernels.mean_element, x.dtype, "eiiiie", narrow=narrow)
        number = backend.constant(np.asarray(divisor, np.int64))
        call(planes.whole(x, rank), *planes.rows(backend, windows.three), number, planes.each(out, rank))
    return out


def spread(backend: Any, g: Any, windows: Windows, number: int) -> Any:
    """The adjoint of `means`; the number of elements in a window, or 0 where that differs."""
    rank = len(windows)
    shape = (*g.shape[: g.ndim - rank], *windows.size)
    out = backend.empty(shape, g.dtype)
    if out.size:
        call = _kernel(backend, kernels.spread_element, g.dtype, "eiiiiiiie")
        tables = [backend.constant(a) for a in (*windows.three, np.asarray(number, np.int64))]
        call(planes.whole(g, rank), *tables, *planes.rows(backend, windows.inside), planes.each(out, rank))
    return out
