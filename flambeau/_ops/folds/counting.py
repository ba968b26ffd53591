"""Arrays of counts: integers and elements in bins, counted by all cores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend import threads
from ..._backend.cpu import cpu
from ..._core.dtypes import BY_NUMPY
from ..._kernel.folds.counting import extent, occurring, ranks, tally, tally_bins

_ROW = 4096  # elements whose extent is found together
_WORK = 4  # what counting an element costs in moved ones
_TABLES = 1 << 16  # counts up to which every thread has its own
_FEW = 32  # elements that Python compares and counts before NumPy has begun

_WHOLE = np.dtype(np.int64)


def is_few(x: Any) -> bool:
    """Whether they are integers that Python has counted before NumPy has begun."""
    return x.size <= _FEW and x.dtype.kind in "iu"


def distinct_few(x: Any, wants_inverse: bool) -> tuple[Any, Any, Any]:
    """The distinct ones of a few integers in order, which of these each is (if that is wanted), and how often each occurs."""
    values = x.reshape(-1).tolist()
    counts = dict.fromkeys(sorted(values), 0)
    for v in values:
        counts[v] += 1
    places = None
    if wants_inverse:
        ranks = {v: i for i, v in enumerate(counts)}
        places = np.array([ranks[v] for v in values], _WHOLE).reshape(x.shape)
    return np.array([*counts], x.dtype), places, np.array([*counts.values()], _WHOLE)


def extent_of(x: Any) -> tuple[int, int]:
    """The least and the greatest of a vector of integers, which is not empty."""
    if x.size <= _FEW:
        values = x.tolist()
        return min(values), max(values)
    code = BY_NUMPY[x.dtype].code
    if x.size < threads.WORTHWHILE:
        ends = np.empty(2, x.dtype)
        cpu.small(extent, (code, code))(x, ends)
        low, high = ends.tolist()
        return low, high
    whole = x.size // _ROW
    ends = np.empty((whole + 1, 2), x.dtype)
    call = cpu.large(extent, (code, code))
    call(x[: whole * _ROW].reshape(whole, _ROW), ends[:-1])
    call(x[-_ROW:], ends[-1])
    return int(ends[:, 0].min()), int(ends[:, 1].max())


def _counted(kernel: Any, types: Any, x: Any, numbers: tuple[Any, ...], length: int) -> Any:
    """The counts of a vector's elements; large ones are cut, and every thread counts into its own memory."""
    parts = threads.ranges(x.size, work=_WORK * x.size if x.size < 1 << 31 and length <= _TABLES else 0)
    if len(parts) == 1:
        out = np.empty(length, np.int64)
        cpu.small(kernel, (*types, "i64"))(x, *numbers, out)
        return out
    # short counts, to fit a cache, and tables apart from each other
    tables = np.empty((len(parts), length + 2048), np.int32)[:, :length]
    call = cpu.kernel(kernel, (*types, "i32"))
    cpu.side_by_side(call, [[x[a:b], *numbers, table] for (a, b), table in zip(parts, tables)])
    return tables.sum(axis=0, dtype=np.int64)


def tallied(x: Any, low: int, length: int) -> Any:
    """How often each of `length` integers from `low` on occurs in a vector."""
    return _counted(tally, (BY_NUMPY[x.dtype].code, "i64"), x, (np.asarray(low, np.int64),), length)


def tallied_bins(x: Any, bins: int, low: float, high: float) -> Any:
    """How many elements of a vector of float32 or float64 lie in each of `bins` parts of [low, high]."""
    code, kind = BY_NUMPY[x.dtype].code, x.dtype.type
    numbers = (kind(low), kind(high), kind(bins), kind(kind(high) - kind(low)))
    return _counted(tally_bins, (code,) * 5, x, tuple([np.asarray(n) for n in numbers]), bins)


def occurring_in(counts: Any, low: int, d: Any) -> tuple[Any, Any, Any]:
    """Of counts of the integers from `low` on: those that occur, in a dtype; which of them each is; how often they do."""
    length = counts.size
    values, rank, times, number = (
        np.empty(length, d),
        np.empty(length, _WHOLE),
        np.empty(length, _WHOLE),
        np.empty((), _WHOLE),
    )
    call = cpu.small(occurring, ("i64", "i64", BY_NUMPY[d].code, "i64", "i64", "i64"))
    call(counts, np.asarray(low, np.int64), values, times, rank, number)
    return values[: number.item()].copy(), rank, times[: number.item()].copy()


def ranked(x: Any, low: int, rank: Any) -> Any:
    """rank[x - low] of a vector."""
    out = np.empty(x.size, np.int64)
    parts = threads.ranges(x.size, work=_WORK * x.size)
    call = (cpu.small if len(parts) == 1 else cpu.kernel)(ranks, (BY_NUMPY[x.dtype].code, "i64", "i64", "i64"))
    given = np.asarray(low, np.int64)
    cpu.side_by_side(call, [[x[a:b], given, rank, out[a:b]] for a, b in parts])
    return out
