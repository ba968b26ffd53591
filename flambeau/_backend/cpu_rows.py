"""Programs along rows over NumPy arrays: which rows lie how, and how threads share them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.allocation import empty, zeros
from .._core.dtypes import BY_NUMPY
from .._kernel.folds.rows import LONGEST, Rows, row_kernel, trial, variances
from .._kernel.render.value import COMPUTE
from .._kernel.threads.pool import settings
from . import threads
from .copies import row_major

_LINE = 64  # columns that are worth a thread
_NARROW = 8  # columns below which rows are walked one by one
_SHORT = 32  # elements of a row up to which many rows are turned
_MANY = 128  # such rows
_TURNED = 1 << 18  # elements that are turned at once
_KEPT = 4096  # ways remembered
_PIECE = 1 << 14  # elements of one long row that are worth a thread


_DOUBLE = np.dtype(np.float64)
_NUMPY = {d.code: d.numpy for d in BY_NUMPY.values() if d.code}
_SUM = Rows((("sum", lambda m, x, count: x),), lambda m, total, count: total, each=False)


class _Way(NamedTuple):
    """What is done for operands of certain shapes, strides and dtypes."""

    shapes: list[tuple[int, ...]]  # in which operands are seen
    turned: bool  # whether rows are few columns of matrices
    call: Any
    cut: list[bool]  # which operands are cut into parts
    parts: list[tuple[int, int]]  # of columns, where threads share these; none where the call shares its work itself


class RowKernels:
    """Programs along dimensions of arrays, by kernels that are made for them."""

    def __init__(self, cpu: Any):
        self.cpu = cpu
        self.ways: dict[Any, _Way] = {}

    def map(self, name: str, rows: Rows, arrays: Sequence[Any], dim: int) -> Any:
        """A new array like the first, made by a program along one dimension."""
        out = empty(arrays[0].shape, arrays[0].dtype)
        self.run(name, rows, arrays, [out], (dim,))
        return out

    def run(
        self, name: str, rows: Rows, arrays: Sequence[Any], outs: Sequence[Any], dims: Sequence[int],
        numbers: Sequence[float] = (),
    ) -> None:  # fmt: skip
        """A program along `dims` of arrays of one shape, into others, which are dense. What is used late may lack leading dimensions;
        operands and results of one value a row lack `dims`."""
        if rows.each and not arrays[0].size:
            return
        if not rows.each and _are_short(rows, arrays, dims, len(numbers)):
            self.run_turned(name, rows, arrays, outs, numbers)
            return
        given = [*arrays, *[np.asarray(float(v)) for v in numbers]]
        walked = len(given) - rows.fixed - rows.parts
        parted = bool(rows.parts or rows.weighed()) or _is_parted(given[:walked], dims)
        if parted and given[0].ndim > 3:
            given, outs = _in_one_dimension(given, outs, walked, rows.parts)
            dims = (1, 2)
        if len(dims) > 1 and max(dims) - min(dims) >= len(dims):  # they are no neighbours
            if len(arrays) == 1 and tuple(dims) == (0, 2) and arrays[0].ndim == 3 and not rows.each:
                self.run(name, rows, [arrays[0].transpose(1, 0, 2)], outs, (1, 2), numbers)  # parts that lie apart
                return
            kept = [d for d in range(arrays[0].ndim) if d not in dims]
            given[:walked] = [a.transpose(*kept, *dims) for a in given[:walked]]
            dims = range(len(kept), arrays[0].ndim)
        if not parted:
            given[:walked] = [a if a.flags.c_contiguous or not any(a.strides) else row_major(a) for a in given[:walked]]
        if not rows.each and not any([any(a.strides) for a in given[:walked]]):  # one has to tell the length
            given[0] = row_major(given[0])
        operands = [*given, *outs]
        key = (rows, tuple(dims), settings[0], settings[1], *[(a.shape, a.strides, a.dtype) for a in operands])
        way = self.ways.get(key)
        if way is None:
            if len(self.ways) >= _KEPT:
                self.ways.clear()
            way = self.ways[key] = self.way(name, rows, operands, len(given), dims, parted)
        views = [_one(a) if s == () else a.reshape(s) for a, s in zip(operands, way.shapes)]
        if way.turned:
            views = [v.transpose(0, 2, 1) if v.ndim == 3 else v for v in views]
        if not way.parts:
            way.call(*views)
            return
        if rows.stages and not rows.each and not way.cut[-1]:
            self.in_pieces(name, rows, operands, len(given), way.parts)
            return
        jobs = [[v[..., low:high] if cut else v for v, cut in zip(views, way.cut)] for low, high in way.parts]
        self.cpu.side_by_side(way.call, jobs)

    def run_turned(
        self, name: str, rows: Rows, arrays: Sequence[Any], outs: Sequence[Any], numbers: Sequence[float]
    ) -> None:
        """A program along many short rows, which are turned into columns, some at a time: one of them alone is no work for vectors."""
        n = arrays[0].shape[-1]
        count = arrays[0].size // n
        for low in range(0, count, _TURNED // n):
            part = slice(low, low + _TURNED // n)
            fixed, made = ([a.reshape(-1)[part] for a in side] for side in (arrays[1:], outs))
            self.run(name, rows, [row_major(arrays[0].reshape(count, n)[part].T), *fixed], made, (0,), numbers)

    def run_down(self, name: str, rows: Rows, arrays: Sequence[Any], out: Any, dtype: Any) -> list[Any]:
        """A program along the rows of matrices, into another; and what it adds up over all rows, as arrays of a dtype."""
        first, inputs, sums = arrays[0], len(arrays), len(rows.down)
        length, n = first.shape
        layout = []
        for k, a in enumerate(arrays):
            own = "r" if k >= inputs - rows.fixed else "rn" if a.ndim == 2 else "n"
            layout.append("" if not any(a.strides) and (k or inputs > 1) and a.size else own)
        given = [
            _one(a) if not dims else a if a.flags.c_contiguous else row_major(a) for a, dims in zip(arrays, layout)
        ]
        types = tuple([BY_NUMPY[a.dtype].code for a in (*arrays, out)])
        kind = COMPUTE.get(types[0], types[0])
        kernel = row_kernel(name, rows, (*layout, "rn", *["n"] * (2 * sums)), inputs)
        call = self.cpu.kernel(kernel, (*types, *["f64"] * sums, *[kind] * sums), adjacent=True)
        parts = threads.ranges(length, work=first.size * _weight(rows, types[:inputs]))
        totals, room = zeros((sums, len(parts), n), _DOUBLE), empty((sums, len(parts), n), _NUMPY[kind])
        jobs = []
        for i, (low, high) in enumerate(parts):
            cut = [a[low:high] if dims[:1] == "r" else a for a, dims in zip((*given, out), (*layout, "rn"))]
            jobs.append([*cut, *[a[k, i] for a in (totals, room) for k in range(sums)]])
        self.cpu.side_by_side(call, jobs)
        if len(parts) == 1:
            return [totals[k, 0].astype(dtype) for k in range(sums)]
        made = [empty((n,), dtype) for _ in range(sums)]
        for k in range(sums):
            self.run("add_parts", _SUM, [totals[k]], [made[k]], (0,))
        return made

    def moments(self, x: Any, dims: Sequence[int], free: float, root: bool) -> list[Any]:
        """Variances (or their roots) and means along dimensions, without them."""
        shape = [n for d, n in enumerate(x.shape) if d not in dims]
        outs = [empty(shape, x.dtype) for _ in range(2)]
        self.run("moments", variances(root), [x], outs, dims, (free,))
        return outs

    def in_pieces(self, name: str, rows: Rows, operands: Sequence[Any], inputs: int, parts: Any) -> None:
        """The totals of one long row: each thread takes a piece of it, and the totals of the pieces are joined."""
        walked, fixed = operands[: inputs - rows.fixed], operands[inputs - rows.fixed : inputs]
        sums, again = _pieces(rows, len(fixed))
        outs = [empty((len(parts),), _DOUBLE) for _ in rows.stages]
        kernel = row_kernel(name, sums, tuple(["n"] * len(walked) + [""] * (len(fixed) + len(outs))), inputs)
        call = self.cpu.kernel(kernel, tuple([BY_NUMPY[a.dtype].code for a in (*walked, *fixed, *outs)]), stream=False)
        jobs = [
            [*[a[low:high] for a in walked], *[_one(a) for a in fixed], *[o[i : i + 1].reshape(()) for o in outs]]
            for i, (low, high) in enumerate(parts)
        ]
        self.cpu.side_by_side(call, jobs)
        total = np.asarray(float(walked[0].size))
        sizes = [np.asarray([high - low for low, high in parts], _DOUBLE)] if rows.moments else []
        self.run(f"{name}_whole", again, [*outs, *sizes, *[_one(a) for a in fixed], total], operands[inputs:], (0,))

    def way(
        self, name: str, rows: Rows, operands: Sequence[Any], inputs: int, dims: Sequence[int], parted: bool
    ) -> _Way:
        shape = operands[0].shape
        outer, n, columns = _cut(shape, dims)
        down = columns >= _NARROW
        walked = inputs - rows.fixed - rows.parts
        layout: list[str] = []
        shapes: list[tuple[int, ...]] = []
        seen: tuple[int, ...]
        for k, a in enumerate(operands):
            own = "n" * (k < walked or (rows.each and k == inputs))
            if k < inputs and not any(a.strides) and a.size and (k or inputs > 1):  # one number
                own, seen = "", ()
            elif parted:
                part = walked <= k < walked + rows.parts or k >= len(operands) - len(rows.weighed())
                own, seen = "bn" if own else "b" * part, a.shape
            elif own and a.ndim < len(shape):  # the same for all rows
                seen = (n,)
            else:
                own, seen = own + "c" * down, (outer, *[n] * len(own), *[columns] * (columns > 1))
            layout.append(own)
            shapes.append(seen)
        types = tuple([BY_NUMPY[a.dtype].code for a in operands])
        size = outer * columns * (n if rows.stages or rows.each else 1)
        fits = n * max(operands[0].itemsize, operands[inputs].itemsize) <= LONGEST
        far = rows.each and not down and fits and size * operands[inputs].itemsize >= settings[1]
        turned = not down and columns > 1
        options = {
            "stream": far and types[inputs] not in COMPUTE,
            "adjacent": not turned and _neighbours(operands, layout, parted),
        }
        kernel = row_kernel(name, rows, tuple(layout), inputs)
        cut, parts, make = [], [], self.cpu.large
        if not threads.pay(size * _weight(rows, types[:inputs])):
            make = self.cpu.small
        elif down and outer < settings[0]:
            make, parts, cut = self.cpu.kernel, threads.ranges(columns, _LINE), ["c" in dims for dims in layout]
        elif (
            settings[0] > 1 and outer == columns == 1 and not rows.indexed and not rows.picks and not parted
        ):  # one long row, if threads can share it
            if not rows.stages or (not rows.each and rows.settle is None and (rows.moments or _is_a_sum(rows))):
                parts, cut = threads.ranges(n, _PIECE), ["n" in dims for dims in layout]
                make = self.cpu.kernel
        return _Way(shapes, turned, make(kernel, types, **options), cut, parts)


def _are_short(rows: Rows, arrays: Sequence[Any], dims: Sequence[int], numbers: int) -> bool:
    """Whether rows of one operand are short, dense and so many that to turn them pays."""
    first, *fixed = arrays
    if tuple(dims) != (first.ndim - 1,) or not 1 < first.shape[-1] <= _SHORT or len(fixed) + numbers != rows.fixed:
        return False
    count = first.size // first.shape[-1]
    return (
        count >= _MANY and first.flags.c_contiguous and all([a.size == count and a.flags.c_contiguous for a in fixed])
    )


def _is_parted(arrays: Sequence[Any], dims: Sequence[int]) -> bool:
    """Whether rows are matrices whose own rows lie apart, as what a batch has of one channel."""
    if arrays[0].ndim != 3 or tuple(dims) != (1, 2):
        return False
    return any([any(a.strides) and not a.flags.c_contiguous for a in arrays])


def _in_one_dimension(
    given: Sequence[Any], outs: Sequence[Any], walked: int, parts: int
) -> tuple[list[Any], list[Any]]:
    """Operands of rows in parts, with one dimension before the rows in the place of several."""
    *lead, b, _ = given[0].shape
    made = []
    for k, a in enumerate(given):
        if not walked <= k < walked + parts:
            made.append(a.reshape(-1, *a.shape[len(lead) :]) if a.ndim else a)
        elif math.prod(a.shape[:-1]) == 1:
            made.append(a.reshape(b))
        else:
            made.append(empty((*lead, b), a.dtype))
            made[-1][...] = a
            made[-1] = made[-1].reshape(-1, b)
    return made, [a.reshape(-1, *a.shape[len(lead) :]) for a in outs]


def _neighbours(operands: Sequence[Any], layout: Sequence[str], parted: bool) -> bool:
    """Whether elements of the last core dimension of all operands follow each other; rows in parts are seen as they are."""
    walked = [a for a, dims in zip(operands, layout) if dims]
    return all([a.flags.c_contiguous or (parted and a.strides[-1] == a.itemsize) for a in walked])


def _one(a: Any) -> Any:
    """The one number that all elements of an array are."""
    return a[(slice(1),) * a.ndim].reshape(()) if a.ndim else a


def _cut(shape: Sequence[int], dims: Sequence[int]) -> tuple[int, int, int]:
    """Elements before, along and after the dimensions of a program, which are neighbours."""
    first, last = min(dims, default=0), max(dims, default=-1)
    return math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])


def _is_a_sum(rows: Rows) -> bool:
    return len(rows.stages) == 1 and rows.stages[0][0] == "sum" and len(rows.stages[0]) == 2


@functools.cache
def _pieces(rows: Rows, fixed: int) -> tuple[Rows, Rows]:
    """What gives the totals of a piece of a row, and what joins them and takes the last step."""
    sums = rows._replace(last=lambda m, *given: given[fixed:-1])

    def last(m: Any, *given: Any) -> Any:
        return rows.last(m, *given[:fixed], *given[fixed + 1 : -1], m.cast(given[fixed], "i64"))

    def away(m: Any, mean: Any, squares: Any, size: Any, *rest: Any) -> Any:
        gap = mean - rest[fixed + 1]
        return squares + gap * gap * size

    joined: tuple[Any, ...] = tuple([("sum", lambda m, *parts, k=k: parts[k]) for k in range(len(rows.stages))])
    if rows.moments:  # operands are means, squared distances from them and numbers of elements
        joined = ("sum", lambda m, mean, squares, size, *rest: mean * (size / rest[fixed])), ("sum", away)
    return sums, Rows(joined, last, each=False, fixed=fixed + 1)


@functools.cache
def _weight(rows: Rows, types: tuple[str, ...]) -> int:
    """How many moved elements an element of a program costs as much as."""
    lines = 0
    for r in trial(rows, types):
        lines = len(r.lines)
    return 2 + lines // (4 if rows.each else 8)
