"""Elements that a mask marks, on a GPU: a running count of the marks says where each goes, and the CPU waits once, for their number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._backend.cuda_layout import Operand
from ..._core.allocation import not_planned
from ..._kernel.places.elements import number_marked, put_marked, take_marked, tell
from .device_places import BITS, CODE

_INT64 = np.dtype(np.int64)


def _counted(backend: Any, marks: Any) -> tuple[Any, int]:
    """The running count of a vector of marks, and how many there are."""
    not_planned()
    answer = backend.answers.place()

    def run(marks: Any) -> list[Any]:
        runs = backend.empty(marks.shape, np.dtype(np.int32) if marks.size < 1 << 31 else _INT64)
        backend.scans.run("sum", marks, [runs], 0)
        backend.kernel(tell, (CODE[runs.dtype], "i64"))(runs[-1:].reshape(()), answer)
        return [runs]

    (runs,) = backend.launches(("marks", answer[0]), run, [marks])
    return runs, backend.answers.wait()


def _flat(backend: Any, marks: Any) -> Any:
    """A vector of marks: what is not zero."""
    return (marks if marks.dtype == bool else backend.cast(marks, "b1")).reshape(-1)


def select(backend: Any, x: Any, mask: Any, dim: int = 0) -> Any:
    """The elements, or parts, of x where a mask of its dimensions from `dim` on holds, in order."""
    lead, rest, size = x.shape[:dim], x.shape[dim + mask.ndim :], mask.size
    if not size:
        return backend.empty((*lead, 0, *rest), x.dtype)
    marks = _flat(backend, mask)
    runs, number = _counted(backend, marks)
    out, x = backend.empty((*lead, number, *rest), x.dtype), x.reshape(*lead, size, *rest)
    if out.size:
        code, column = BITS[x.dtype.itemsize][0], (size, *[1] * len(rest))
        strides = (*out.strides[:dim], 0, *out.strides[dim + 1 :], out.strides[dim])
        to = out, Operand((*x.shape, number), strides, x.dtype)
        call = backend.kernel(take_marked, ("b1", CODE[runs.dtype], code, code))
        call(marks.reshape(column), runs.reshape(column), x, to)
    return out


def put(backend: Any, x: Any, mask: Any, source: Any) -> int:
    """Writes elements of a source, in order, where a mask of x's shape holds, if there are enough of them; how many that takes."""
    if not mask.size:
        return 0
    marks = _flat(backend, mask)
    runs, number = _counted(backend, marks)
    if 0 < number <= source.size:
        code = BITS[x.dtype.itemsize][0]
        call = backend.kernel(put_marked, ("b1", CODE[runs.dtype], code, code))
        call(marks.reshape(x.shape), runs.reshape(x.shape), source.reshape(-1), x)
    return number


def positions(backend: Any, x: Any) -> Any:
    """Where elements are not zero: the index in each dimension as a row of a matrix."""
    rank, size = x.ndim, x.size
    if not size:
        return backend.empty((rank, 0), _INT64)
    marks = _flat(backend, x)
    runs, number = _counted(backend, marks)
    out = backend.empty((rank, number), _INT64)
    if out.size:
        steps = np.array([math.prod(x.shape[d + 1 :]) for d in range(rank)], np.int64)
        tables = [backend.constant(a) for a in (steps, np.array(x.shape, np.int64))]
        place = 0, Operand((size,), (1,), _INT64)
        call = backend.kernel(number_marked, ("b1", CODE[runs.dtype], "place", "i64", "i64", "i64"))
        call(marks, runs, place, *tables, backend.shared(out, size, 2))
    return out
