"""Pooling of arrays: tables of windows, and kernels run over them plane by plane (on GPUs by `pool_threads`)."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.allocation import empty, unchanging
from ..._core.dtypes import BY_NUMPY
from ..._core.once import found_once
from ..._kernel.images import pooling as kernels
from . import pool_threads
from .channels import channels_at_end, channels_second, is_channels_last

_WIDEST = 4096  # elements or results of a row that a kernel has room for
_ELEMENTS = 16  # of a window, that are looked at one after the other

# -- windows -------------------------------------------------------------------------------------------------------


class Windows:
    """The windows over planes of a size: for each dimension a table of (start, end, step or extent), one row for every
    result; fractional ones differ from plane to plane. What follows from the tables is computed once."""

    def __init__(self, tables: Sequence[Any], size: tuple[int, ...]):
        missing = (1,) * (3 - len(size))
        self.tables, self.size = tuple(tables), size
        self.counts = tuple([t.shape[-2] for t in tables])
        self.planes, self.results = missing + size, missing + self.counts  # of space, always three
        self.shared = tables[0].ndim == 2  # by all planes

    def __len__(self) -> int:
        return len(self.size)

    @found_once
    def three(self) -> list[Any]:
        """Three tables: a dimension that is not there has one window of one element."""
        return _three(self.tables)

    @found_once
    def empty(self) -> list[tuple[int, Any]]:
        """The windows without elements: (dimension, counted from the end, and results)."""
        found = [(axis, t[..., 0] >= t[..., 1]) for axis, t in enumerate(self.tables, -len(self))]
        return [(axis, np.flatnonzero(which)) for axis, which in found if which.any()]

    def fill_empty(self, out: Any) -> None:
        """Writes what is below all elements to the maxima of windows without any."""
        for axis, which in self.empty:
            out.swapaxes(axis, -1)[..., which] = _lowest(out.dtype)

    @found_once
    def readable(self) -> list[Any]:
        """Tables as `three`, but windows without elements start at one that can be read."""
        starts = [t[..., :1] - (t[..., :1] >= t[..., 1:2]) for t in self.tables]
        return _three([np.concatenate([start, t[..., 1:]], -1) for start, t in zip(starts, self.tables)])

    @found_once
    def taps(self) -> tuple[Any, int] | None:
        return _taps(self.readable[2], self.size[-1])

    @found_once
    def small(self) -> tuple[Any, dict[str, Any]] | None:
        """For windows with few elements, what `max_inside` needs to know: for a row of results the column of its first window (in the
        padding maybe) and the first and last result whose window is whole; the places of the elements of a whole window, how many slices
        and rows it has, and whether there are others."""
        tables = self.readable
        if self.taps is None or any([t.ndim > 2 or not len(t) for t in tables]) or math.prod(self.size) >= 1 << 31:
            return None
        middle = [[int(n) for n in t[len(t) // 2]] for t in tables]
        found = tuple(itertools.product(*[range(0, end - start, step) for start, end, step in middle]))
        taps = self.taps[0]
        columns = np.array([taps[0, 0], taps[:, 1].max(), taps[:, 2].min()])
        if not 0 < len(found) <= _ELEMENTS or columns[1] >= columns[2]:
            return None
        extents = tuple([end - start for start, end, _ in middle[:2]])
        rows = all([(t[:, 1] - t[:, 0] == e).all() for t, e in zip(tables, extents)])
        padded = not rows or columns.tolist() != [0, 0, len(tables[2])]
        return _fixed(columns), {"stride": self.taps[1], "window": found, "extents": extents, "padded": padded}

    @found_once
    def dense_taps(self) -> tuple[Any, int] | None:
        """As `taps`, for tables whose third number is an extent."""
        table = self.three[2].copy()
        table[:, 2] = 1
        return _taps(table, self.size[-1])

    @found_once
    def wide(self) -> bool:
        """Whether windows are best looked for in the columns of whole rows: they take up most of those."""
        across = self.readable[2]
        few = self.size[-1] <= _WIDEST and math.prod(self.size[:-1]) < 1 << 31
        return few and self.shared and 2 * int((across[:, 1] - across[:, 0]).sum()) >= self.size[-1]

    @found_once
    def inside(self) -> list[Any]:
        """Three tables: for each element, the first and last window that it lies in, whether those are the ones of
        the element before, and what it adds to its place in the plane."""
        made = [np.array([[0, 1, 0, 0]])] * (3 - len(self))
        for d, (table, n) in enumerate(zip(self.tables, self.size), 1):
            i = np.arange(n)
            first = np.searchsorted(table[:, 1], i, "right")
            starts = np.minimum.accumulate(table[::-1, 0])[
                ::-1
            ]  # a later window may begin earlier, where they have gaps
            last = np.maximum(np.searchsorted(starts, i, "right"), first)
            same = np.zeros(n, np.int64)
            same[1:] = (first[1:] == first[:-1]) & (last[1:] == last[:-1])
            made.append(np.stack([first, last, same, i * math.prod(self.size[d:])], 1))
        return [_fixed(t) for t in made]

    @found_once
    def extent(self) -> int:
        """How many elements count in every window; 0 where that differs."""
        return math.prod([int(t[0, 2]) if len(t) and (t[:, 2] == t[0, 2]).all() else 0 for t in self.tables])

    @found_once
    def even(self) -> bool:
        """Whether so many elements count in all windows of a row."""
        across = self.three[2][..., 2]
        return bool(across.size) and bool((across == across.flat[0]).all())

    @found_once
    def overlap(self) -> int:
        """How many windows an element lies in along a row, at most; 0 if every element lies in one window alone."""
        counts = [table[:, 1] - table[:, 0] for table in self.inside]
        return 0 if all((n == 1).all() for n in counts) else int(counts[-1].max())


@functools.lru_cache(1024)
def _beside(windows: Windows, channels: int) -> Windows:
    """The same over planes of so many channels side by side, of which each has windows of its own."""
    own = np.arange(channels)
    return Windows([*windows.tables, np.stack([own, own + 1, np.ones_like(own)], 1)], (*windows.size, channels))


def _three(tables: Sequence[Any]) -> list[Any]:
    missing = np.array([[0, 1, 1]])[:, : tables[0].shape[-1]]
    made = [missing] * (3 - len(tables)) + [t.reshape(-1, *t.shape[-2:]) if t.ndim > 2 else t for t in tables]
    return [_fixed(t) for t in made]


def _fixed(table: Any) -> Any:
    """A table that stays as it is, so that plans may point to it."""
    table.flags.writeable = False
    return table


def described(kind: str, *numbers: tuple[int, ...]) -> tuple[Any, ...]:
    """Windows in words: the name of a function that makes tables, and its arguments for one dimension after the other."""
    return (kind, *[n for row in zip(*numbers) for n in row])


def windows_of(given: Any) -> Windows:
    """Windows that are told in words, or are there already."""
    return given if isinstance(given, Windows) else _windows(*given)


@functools.lru_cache(1024)
def _windows(kind: str, *numbers: int) -> Windows:
    make, count = _TABLES[kind]
    rows = [numbers[i : i + count] for i in range(0, len(numbers), count)]
    return Windows([make(*row) for row in rows], tuple([row[0] for row in rows]))


def sliding(size: int, count: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> Any:
    """The table of evenly placed windows, cut to the inside."""
    start = np.arange(count, dtype=np.int64) * stride - padding
    end = np.minimum(start + dilation * (kernel - 1) + 1, size)
    start += np.where(start < 0, -(start // dilation) * dilation, 0)
    start = np.minimum(start, size)  # a window may lie between the elements of the padding alone
    return np.stack([start, end, np.full_like(start, dilation)], 1)


def counted(size: int, count: int, kernel: int, stride: int, padding: int, include_padding: int) -> Any:
    """As `sliding`, with the number of elements that count in a mean."""
    start = np.arange(count, dtype=np.int64) * stride - padding
    whole = np.minimum(start + kernel, size + padding) - start
    start, end = np.maximum(start, 0), np.minimum(start + kernel, size)
    return np.stack([start, end, whole if include_padding else end - start], 1)


def adaptive(size: int, count: int, extents: int) -> Any:
    """Windows that share a size among so many results."""
    i = np.arange(count, dtype=np.int64)
    start = i * size // max(count, 1)
    end = -(-(i + 1) * size // max(count, 1))
    return np.stack([start, end, end - start if extents else np.ones_like(i)], 1)


# What makes a table, and how many arguments it takes, of which the first is the size.
_TABLES: dict[str, tuple[Any, int]] = {"sliding": (sliding, 6), "counted": (counted, 6), "adaptive": (adaptive, 3)}


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
    if not (1 <= stride <= 4 and 1 <= count <= 16):
        return None
    first = int(start) - stride * (len(table) // 2)  # of the first window, in the padding maybe
    taps = []
    for k in range(count):
        column = first + k * int(step)
        low = max(0, -(column // stride))
        high = max(low, min(len(table), (size - 1 - column) // stride + 1))
        taps.append((column, low, high))
    columns = np.array([c for c, _, _ in taps])[:, None] + np.arange(len(table)) * stride
    inside = (columns >= 0) & (columns < size)
    counts = (table[:, 1] - table[:, 0] + step - 1) // step
    begins = np.where(inside, columns, size).min(0)
    if not (np.array_equal(inside.sum(0), counts) and np.array_equal(begins[counts > 0], table[counts > 0, 0])):
        return None
    return _fixed(np.array(taps)), stride


# -- kernels over planes -------------------------------------------------------------------------------------------


def _kernel(kernel: Any, d: Any, operands: int, results: int, work: int, **options: Any) -> Any:
    """A kernel over elements of a dtype and int64 numbers: the other operands, and places as a second result."""
    code = BY_NUMPY[d].code
    types = (code, *("i64",) * (operands - 1), code, *("i64",) * (results - 1))
    return cpu.sized(work, kernel, types, **options)


@functools.lru_cache(1024)
def _plan(
    windows: Windows,
    shape: tuple[int, ...],
    d: Any,
    kind: str,
    number: int = 0,
    narrow: bool = False,
    flat: bool = False,
) -> Any:
    """How planes are pooled: (kernel, shape of its operand, numbers that it takes, shape of its results, that of ours).

    A kind is "max", "mean" or "spread", for which the shape and its windows go from results to elements. `number` is a
    divisor. Places of maxima count elements of the first two dimensions of planes alone if `flat`.
    """
    lead = shape[: len(shape) - len(windows)]
    planes, results = (math.prod(lead), *windows.planes), (math.prod(lead), *windows.results)
    given, made = lead + windows.size, lead + windows.counts
    options: dict[str, Any] = {}
    kernel, numbers, count = _KERNELS[kind], windows.readable, 1
    if kind == "max":
        count, options = 2, {"flat": flat}
        if windows.small is not None:
            columns, known = windows.small
            kernel, numbers, options = kernels.max_inside, [*numbers, columns], options | known
        elif windows.wide and not flat:
            kernel, options = kernels.max_bands, {"widest": _WIDEST}
    elif kind == "mean":
        numbers, options = [*windows.three, np.asarray(number, np.int64)], {"narrow": narrow and d.itemsize == 2}
        if windows.dense_taps is not None and windows.counts[-1] <= _WIDEST and not options["narrow"]:
            kernel, numbers = kernels.mean_rows, [*numbers, windows.dense_taps[0]]
            options = {"stride": windows.dense_taps[1], "widest": _WIDEST, "even": windows.even}
        elif windows.wide and not options["narrow"]:
            kernel, options = kernels.mean_bands, {"widest": _WIDEST, "even": windows.even}
    else:
        planes, results, made, given = results, planes, given, made
        numbers = [*windows.inside, np.asarray(number, np.int64), np.asarray(windows.overlap, np.int64)]
        options = {"single": windows.overlap == 0, "divide": number != 0}  # elements of one window alone
    work = max(math.prod(given), count * math.prod(made) * 4)
    numbers = [unchanging(a.view()) for a in numbers]
    return _kernel(kernel, d, 1 + len(numbers), count, work, **options), planes, numbers, results, made


_KERNELS = {"max": kernels.max_planes, "mean": kernels.mean_planes, "spread": kernels.spread_planes}


def largest(backend: Any, x: Any, windows: Windows) -> tuple[Any, Any]:
    """Maxima of windows and their places in the plane; (N, C, *size) to twice (N, C, *results)."""
    if backend is not cpu:
        return pool_threads.largest(backend, x, windows)
    if len(windows) == 2 and windows.shared and is_channels_last(x):
        wide = _beside(windows, x.shape[1])
        out, index = (channels_second(a) for a in _largest(channels_at_end(x), wide, True))
        return out, index
    return _largest(x, windows, False)


def _largest(x: Any, windows: Windows, flat: bool) -> tuple[Any, Any]:
    plan = _plan if windows.shared else _plan.__wrapped__
    call, planes, numbers, results, shape = plan(windows, x.shape, x.dtype, "max", flat=flat)
    out, index = empty(shape, x.dtype), empty(shape, np.int64)
    if out.size:
        call(x.reshape(planes), *numbers, out.reshape(results), index.reshape(results))
        windows.fill_empty(out)
    return out, index


@functools.lru_cache(1024)
def _put_plan(shape: tuple[int, ...], rank: int, d: Any) -> tuple[Any, int, int]:
    lead, size = shape[: len(shape) - rank], math.prod(shape[len(shape) - rank :])
    planes = math.prod(lead)
    return _kernel(kernels.put_elements, d, 2, 1, planes * size), planes, size


def at_places(g: Any, index: Any, shape: tuple[int, ...], rank: int) -> Any:
    """Elements added to zeros at their places in planes of main memory: the adjoint of `largest`."""
    if rank == 2 and is_channels_last(g) and is_channels_last(index):
        return channels_second(_at_places_of_channels(g, index, shape))
    out = empty(shape, g.dtype)
    if out.size:
        call, planes, size = _put_plan(shape, rank, g.dtype)
        count = g.size // planes
        call(g.reshape(planes, count), index.reshape(planes, count), out.reshape(planes, size))
    return out


def _at_places_of_channels(g: Any, index: Any, shape: tuple[int, ...]) -> Any:
    n, channels, *size = shape
    out = empty((n, *size, channels), g.dtype)
    if out.size:
        call = _kernel(kernels.put_channels, g.dtype, 2, 1, out.size)
        given = [channels_at_end(a).reshape(n, -1, channels) for a in (g, index)]
        call(*given, out.reshape(n, -1, channels))
    return out


def means(backend: Any, x: Any, windows: Windows, divisor: int, narrow: bool) -> Any:
    """Means of windows; a divisor of 0 stands for the number of elements. `narrow` sums are rounded at every step."""
    if backend is not cpu:
        return pool_threads.means(backend, x, windows, divisor, narrow and x.dtype.itemsize == 2)
    if len(windows) == 2 and is_channels_last(x):
        return channels_second(_means(channels_at_end(x), _beside(windows, x.shape[1]), divisor, narrow))
    return _means(x, windows, divisor, narrow)


def _means(x: Any, windows: Windows, divisor: int, narrow: bool) -> Any:
    call, planes, numbers, results, shape = _plan(windows, x.shape, x.dtype, "mean", divisor, narrow)
    out = empty(shape, x.dtype)
    if out.size:
        call(x.reshape(planes), *numbers, out.reshape(results))
    return out


def spread(backend: Any, g: Any, windows: Windows, divisor: int) -> Any:
    """The adjoint of `means`."""
    number = divisor or windows.extent
    if backend is not cpu:
        return pool_threads.spread(backend, g, windows, number)
    if len(windows) == 2 and is_channels_last(g):
        return channels_second(_spread(channels_at_end(g), _beside(windows, g.shape[1]), number))
    return _spread(g, windows, number)


def _spread(g: Any, windows: Windows, number: int) -> Any:
    call, results, numbers, planes, shape = _plan(windows, g.shape, g.dtype, "spread", number)
    if not g.size:
        return cpu.zeros(shape, g.dtype)
    out, shares = empty(shape, g.dtype), g.reshape(results)
    if windows.overlap or not number:
        shares = empty(results, g.dtype)
        divide = _kernel(kernels.divide_planes, g.dtype, 5, 1, g.size, even=windows.even)
        divide(g.reshape(results), *windows.three, np.asarray(number, np.int64), shares)
    call(shares, *numbers, out.reshape(planes))
    return out
