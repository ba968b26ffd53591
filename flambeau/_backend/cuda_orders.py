"""Orders along a dimension of CuPy arrays: sorts, the first of an order, and what is at one place of it."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.dtypes import BY_NUMPY
from .._kernel.cuda.order import BYTES, MOST, digits, item_size, order
from .cuda_layout import blocks, memory_order, merged

_THREADS = 256
_COUNT = 512  # items of short rows that a block has
_SHORT = 512  # elements of a row that is sorted even if only some are wanted
_MOST = 1024  # items that are selected from a row
_RUNS = 8  # of a row that are merged: longer rows are sorted digit by digit
_EACH = 96  # bytes of items that a thread then has
_PIECE = 4096  # elements of a long row that one block is worth
_BLOCKS = 264  # blocks that keep a large GPU busy
_LONG = 1 << 16  # elements of few rows that are sooner sorted by many blocks than searched by one
_INT64 = np.dtype(np.int64)


class _Rows(NamedTuple):
    """How rows of elements, values and places lie."""

    code: str
    count: int
    length: int
    outer: int
    numbers: list[int]  # extents but the first, then strides

    def items(self, backend: Any, length: int) -> Any:
        return backend.empty((self.count * length * item_size(self.code) // 8,), _INT64)


def _rows(arrays: Sequence[Any], dim: int) -> _Rows:
    x = arrays[0]
    kept = sorted([d for d in range(x.ndim) if d != dim], key=lambda d: -abs(x.strides[d]))
    sizes, outer = merged([x.shape[d] for d in kept], [[a.strides[d] for d in kept] for a in arrays])
    numbers = [*sizes[1:], *[s for a, steps in zip(arrays, outer) for s in (*steps, a.strides[dim])]]
    return _Rows(BY_NUMPY[x.dtype].code, math.prod(sizes), x.shape[dim], len(sizes), numbers)


def _power(n: int) -> int:
    """The smallest power of two that is at least 2 and not below n."""
    return 1 << max(n - 1, 1).bit_length()


class Orders:
    """The orders of one device. NaN is last, and first if descending; equal elements keep their order."""

    def __init__(self, backend: Any):
        self.backend = backend

    def sort(self, x: Any, dim: int, descending: bool, length: int | None = None) -> tuple[Any, Any]:
        """Sorted elements along a dimension and their places, in memory as the array is; or the first `length` of them."""
        backend = self.backend
        if length is None:
            axes = memory_order(x.shape, [(x.shape, x.strides)]) or tuple(range(x.ndim))
            shape, back = [x.shape[d] for d in axes], sorted(range(x.ndim), key=axes.__getitem__)
            values, places = (backend.empty(shape, d).transpose(back) for d in (x.dtype, _INT64))
        else:
            values, places = self._like(x, dim, length)
        if not values.size:
            return values, places
        arrays = x, values, places
        rows, wanted = _rows(arrays, dim), values.shape[dim]
        run = min(_power(rows.length), BYTES // item_size(rows.code))
        count = max(run, _COUNT)
        runs, across = -(-rows.length // run), count // run
        width = _THREADS if run < 2048 else 2 * _THREADS
        text = functools.partial(order, code=rows.code, descending=descending, outer=rows.outer)
        if runs > _RUNS and rows.length < MOST:
            self._by_digits(rows, arrays, text, wanted)
            return values, places
        given: Any = 0
        into = rows.items(backend, rows.length) if runs > 1 else 0
        sort = text("sort_rows", "sort", threads=width, run=run, count=count, last=runs == 1)
        numbers = rows.count, rows.length, wanted
        grid = (-(-rows.count // across) * runs,)
        backend.compiled("sort_rows", sort)(grid, (width,), (*arrays, given, into, *numbers, run, 0, *rows.numbers))
        while run < rows.length:
            last = 2 * run >= rows.length
            given, into = into, 0 if last else rows.items(backend, rows.length) if isinstance(given, int) else given
            merge = backend.compiled("merge_rows", text("merge_rows", "merge", threads=_THREADS, last=last))
            grid = (blocks(rows.count * rows.length),)
            merge(grid, (_THREADS,), (*arrays, given, into, *numbers, run, 0, *rows.numbers))
            run *= 2
        return values, places

    def _by_digits(self, rows: _Rows, arrays: Any, text: Any, wanted: int) -> None:
        """Sorts long rows: digit by digit of their keys, from the last on."""
        backend, piece = self.backend, _THREADS * _EACH // item_size(rows.code)
        steps, pieces = digits(rows.code), -(-rows.length // piece)
        # what is counted: each digit's values in a row; how many blocks have begun; each piece's share of a digit's values
        work = backend.zeros((steps * (rows.count * (1 + pieces) * 256 + 1),), np.dtype(np.uint32))
        items = [rows.items(backend, rows.length) if steps > k else 0 for k in (1, 2)]
        numbers = rows.count, rows.length, wanted
        share = -(-rows.length // -(-_BLOCKS * 2 // rows.count))
        tally = backend.compiled("tally_rows", text("tally_rows", "tally", threads=2 * _THREADS))
        grid = (rows.count, -(-rows.length // share))  # rows first: there may be more than 65,535
        tally(grid, (2 * _THREADS,), (*arrays, 0, 0, work, *numbers, share, 0, *rows.numbers))
        put = backend.compiled("order_digit", text("order_digit", "digit", threads=_THREADS, count=piece))
        for k in range(steps):
            put((rows.count * pieces,), (_THREADS,), (*arrays, *items, work, *numbers, 0, k, *rows.numbers))

    def top(self, x: Any, dim: int, k: int, largest: bool) -> tuple[Any, Any]:
        """The k largest or smallest elements along a dimension in order, and their places."""
        n = x.shape[dim]
        if n <= _SHORT or k > _MOST or 2 * k > n or n >= 1 << 31 or not x.size:
            return self.sort(x, dim, largest, k)
        values, places = self._like(x, dim, k)
        if not k:
            return values, places
        rows = _rows((x, values, places), dim)
        pieces = min(-(-_BLOCKS // rows.count), n // max(_PIECE, 8 * k))
        select = functools.partial(self._select, rows, [x, values, places], largest, k)
        if pieces <= 1:
            select(n, n, 0, 0)
            return values, places
        piece = -(-n // pieces)
        pieces = -(-n // piece)
        found = rows.items(self.backend, pieces * k)
        select(n, piece, 0, found)
        select(pieces * k, pieces * k, found, 0)
        return values, places

    def _select(
        self, rows: _Rows, arrays: Any, descending: bool, k: int, n: int, piece: int, given: Any, into: Any,
        one: bool = False, nans: int = 0,
    ) -> None:  # fmt: skip
        again, last = not isinstance(given, int), isinstance(into, int)
        count = 2 if one else _power(k)
        digits = item_size(rows.code) // 2 if again else max(1, -(-(n - 1).bit_length() // 8))
        width = _THREADS if piece < 2 * _PIECE else 4 * _THREADS
        text = order(
            "select_rows", "select", rows.code, descending, rows.outer, width, count, count, last, again, one, nans
        )
        numbers = rows.count, n, k, piece, digits, *rows.numbers
        grid = rows.count, -(-n // piece)
        self.backend.compiled("select_rows", text)(grid, (width,), (*arrays, given, into, *numbers))

    def at(self, x: Any, dim: int, k: int, nans: int = 0) -> tuple[Any, Any] | None:
        """The k-th smallest elements along a dimension, which is kept, and their places; None if a sort finds them sooner.

        With `nans` the lower medians of floats: 1 if NaN is the result where there is one, 2 if it counts as missing."""
        n = x.shape[dim]
        if n > _LONG and x.size // n < _BLOCKS:
            return None
        arrays = x, *self._like(x, dim, 1)
        if x.size:
            nans = 0 if x.dtype.kind in "iub" else nans
            self._select(_rows(arrays, dim), arrays, False, k, n, n, 0, 0, True, nans)
        return arrays[1:]

    def _like(self, x: Any, dim: int, length: int) -> tuple[Any, Any]:
        shape = (*x.shape[:dim], length, *x.shape[dim + 1 :])
        return self.backend.empty(shape, x.dtype), self.backend.empty(shape, _INT64)
