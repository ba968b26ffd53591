"""Programs along rows over NumPy arrays: which rows lie how, and how threads share them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.allocation import empty, zeros
from .._core.dtypes import BY_NUMPY
from .._kernel.native.pool import settings
from .._kernel.render_llvm import Llvm
from .._kernel.rows import COLUMNS, LONGEST, Rows, row_kernel, total_types
from .._kernel.symbols import symbols
from .._kernel.value import COMPUTE, Value
from . import threads
from .copies import row_major
from .threads import PARALLEL

_NARROW = 8  # columns below which rows are walked one by one
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
        given = [*arrays, *[np.asarray(float(v)) for v in numbers]]
        walked = len(given) - rows.fixed
        if len(dims) > 1 and max(dims) - min(dims) >= len(dims):  # they are no neighbours
            kept = [d for d in range(arrays[0].ndim) if d not in dims]
            given[:walked] = [a.transpose(*kept, *dims) for a in given[:walked]]
            dims = range(len(kept), arrays[0].ndim)
        given[:walked] = [a if a.flags.c_contiguous or not any(a.strides) else row_major(a) for a in given[:walked]]
        operands = [*given, *outs]
        key = (rows, tuple(dims), settings[0], settings[1], *[(a.shape, a.strides, a.dtype) for a in operands])
        way = self.ways.get(key)
        if way is None:
            if len(self.ways) >= _KEPT:
                self.ways.clear()
            way = self.ways[key] = self.way(name, rows, operands, len(given), dims)
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
        call = self.cpu.kernel(kernel, (*types, *["f64"] * sums, *[kind] * sums))
        work = first.size * _weight(rows, types[:inputs])
        parts = threads.ranges(length) if work >= PARALLEL else [(0, length)]
        totals, room = zeros((len(parts), sums, n), _DOUBLE), empty((len(parts), sums, n), _NUMPY[kind])
        jobs = []
        for i, (low, high) in enumerate(parts):
            cut = [a[low:high] if dims[:1] == "r" else a for a, dims in zip((*given, out), (*layout, "rn"))]
            jobs.append([*cut, *[a[i, k] for a in (totals, room) for k in range(sums)]])
        self.cpu.side_by_side(call, jobs)
        if len(parts) > 1:
            made = empty((sums, n), dtype)
            self.run("add_parts", _SUM, [totals], [made], (0,))
            return list(made)
        return [totals[0, k].astype(dtype) for k in range(sums)]

    def in_pieces(self, name: str, rows: Rows, operands: Sequence[Any], inputs: int, parts: Any) -> None:
        """The sums of one long row: each thread takes a piece of it, and the sums of the pieces are added up."""
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
        self.run(f"{name}_whole", again, [*outs, *[_one(a) for a in fixed], total], operands[inputs:], (0,))

    def way(self, name: str, rows: Rows, operands: Sequence[Any], inputs: int, dims: Sequence[int]) -> _Way:
        shape = operands[0].shape
        outer, n, columns = _cut(shape, dims)
        down = columns >= _NARROW
        walked = inputs - rows.fixed
        layout: list[str] = []
        shapes: list[tuple[int, ...]] = []
        seen: tuple[int, ...]
        for k, a in enumerate(operands):
            own = "n" * (k < walked or (rows.each and k == inputs))
            if k < inputs and not any(a.strides) and a.size and (k or inputs > 1):  # one number
                own, seen = "", ()
            elif own and a.ndim < len(shape):  # the same for all rows
                seen = (n,)
            else:
                own, seen = own + "c" * down, (outer, *[n] * len(own), *[columns] * (columns > 1))
            layout.append(own)
            shapes.append(seen)
        types = tuple([BY_NUMPY[a.dtype].code for a in operands])
        size = outer * n * columns
        far = rows.each and not down and n <= LONGEST and size * operands[inputs].itemsize >= settings[1]
        options = {"stream": far and types[inputs] not in COMPUTE}
        kernel = row_kernel(name, rows, tuple(layout), inputs)
        cut, parts, make = [], [], self.cpu.large
        if size * _weight(rows, types[:inputs]) < PARALLEL:
            make = self.cpu.small
        elif down and outer < settings[0]:
            make, parts, cut = self.cpu.kernel, threads.ranges(columns, COLUMNS // 4), ["c" in dims for dims in layout]
        elif (
            settings[0] > 1 and outer == columns == 1 and not rows.indexed and not rows.picks
        ):  # one long row, if threads can share it
            if not rows.stages or (not rows.each and rows.settle is None and _one_visit_of_sums(rows, types)):
                parts, cut = threads.ranges(n, _PIECE), ["n" in dims for dims in layout]
                make = self.cpu.kernel
        return _Way(shapes, not down and columns > 1, make(kernel, types, **options), cut, parts)


def _one(a: Any) -> Any:
    """The one number that all elements of an array are."""
    return a[(slice(1),) * a.ndim].reshape(()) if a.ndim else a


def _cut(shape: Sequence[int], dims: Sequence[int]) -> tuple[int, int, int]:
    """Elements before, along and after the dimensions of a program, which are neighbours."""
    first, last = min(dims, default=0), max(dims, default=-1)
    return math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])


def _one_visit_of_sums(rows: Rows, types: Sequence[str]) -> bool:
    return len(rows.stages) == 1 and rows.stages[0][0] == "sum" and len(rows.stages[0]) == 2


@functools.cache
def _pieces(rows: Rows, fixed: int) -> tuple[Rows, Rows]:
    """What gives the totals of a piece of a row, and what joins them and takes the last step."""
    sums = rows._replace(last=lambda m, *given: given[fixed:-1])

    def last(m: Any, *given: Any) -> Any:
        return rows.last(m, *given[:fixed], *given[fixed + 1 : -1], m.cast(given[fixed], "i64"))

    again = Rows(
        tuple([("sum", lambda m, *parts, k=k: parts[k]) for k in range(len(rows.stages))]),
        last,
        each=False,
        fixed=fixed + 1,
    )
    return sums, again


@functools.cache
def _weight(rows: Rows, types: tuple[str, ...]) -> int:
    """How many moved elements an element of a program costs as much as."""
    r = Llvm("trial", [])
    count = Value(r, "%n", "i64")
    given = [Value(r, "%x", COMPUTE.get(t, t)) for t in types]
    walked = len(given) - rows.fixed
    totals: list[Any] = []
    for s, wide in enumerate(total_types(rows, types[0])):
        rows.stages[s][1](symbols, *given[: walked - rows.late], *given[walked:], *totals, count)
        totals.append(rows.finished(s, Value(r, "%t", wide), count))
    return 2 + len(r.lines) // (4 if rows.each else 8)
